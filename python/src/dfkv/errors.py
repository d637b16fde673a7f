"""Status codes, and the exceptions that calls of a single object raise for them.

A miss is no exception: calls return None, False or a code. Every other code has its own class, all of them
subclasses of DfkvError, because a caller reacts differently: BusyError is worth another try later, nothing is
broken; TooSmallError tells the length to make room for; the rest means to compute the object anew.
"""
import builtins
import enum
from typing import Dict, Optional, Type


class Code(enum.IntEnum):
    """What a call or an item of a batch came to. The numbers are those of the C API."""

    OK = 0
    NOT_FOUND = 1
    BUSY = 2
    TIMEOUT = 3
    CORRUPT = 4
    TOO_SMALL = 5
    INVALID = 6
    UNAVAILABLE = 7
    IO_ERROR = 8
    NO_SPACE = 9
    QUOTA = 10
    TOO_LARGE = 11
    CANCELLED = 12
    REJECTED = 13
    UNSUPPORTED = 14
    LOCKED = 15
    DENIED = 16
    UNKNOWN = 255  # a number that this version does not know

    @classmethod
    def _missing_(cls, value: object) -> "Code":
        return cls.UNKNOWN


class DfkvError(Exception):
    """A call failed. `code` says how."""

    code: Code = Code.UNKNOWN

    def __init__(self, message: str, code: Optional[Code] = None) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code


class BusyError(DfkvError):
    """Back-pressure: later it may work, nothing is broken."""

    code = Code.BUSY


class TimeoutError(DfkvError, builtins.TimeoutError):
    """The call's deadline passed."""

    code = Code.TIMEOUT


class CorruptError(DfkvError):
    """The object was found, but failed its check. Treat it as a miss; a new put repairs it."""

    code = Code.CORRUPT


class TooSmallError(DfkvError):
    """The buffer is smaller than the object, which has `length` bytes."""

    code = Code.TOO_SMALL
    length = 0


class InvalidError(DfkvError, ValueError):
    """A bad argument, or a closed client."""

    code = Code.INVALID


class UnavailableError(DfkvError, ConnectionError):
    """The object's node cannot be reached, or is avoided since it failed."""

    code = Code.UNAVAILABLE


class StorageError(DfkvError):
    """The node's disk, or this system, refused."""

    code = Code.IO_ERROR


class NoSpaceError(DfkvError):
    """The node has no space and may evict nothing."""

    code = Code.NO_SPACE


class QuotaError(DfkvError):
    """The tenant's quota is used up."""

    code = Code.QUOTA


class TooLargeError(DfkvError):
    """The value is larger than the largest object."""

    code = Code.TOO_LARGE


class RejectedError(DfkvError):
    """Refused by admission."""

    code = Code.REJECTED


class UnsupportedError(DfkvError):
    """This version, or the node, does not know it."""

    code = Code.UNSUPPORTED


class DeniedError(DfkvError):
    """Not allowed."""

    code = Code.DENIED


_CLASSES: Dict[Code, Type[DfkvError]] = {
    cls.code: cls
    for cls in (
        BusyError,
        TimeoutError,
        CorruptError,
        TooSmallError,
        InvalidError,
        UnavailableError,
        StorageError,
        NoSpaceError,
        QuotaError,
        TooLargeError,
        RejectedError,
        UnsupportedError,
        DeniedError,
    )
}


def error_of(number: int, message: str) -> DfkvError:
    """The exception for a code that is neither OK nor NOT_FOUND."""
    code = Code(number)
    return _CLASSES.get(code, DfkvError)(message or code.name, code)
