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

    def __init_subclass__(cls, code: Optional[Code] = None) -> None:
        super().__init_subclass__()
        if code is not None:
            cls.code = code
            _CLASSES[code] = cls


_CLASSES: Dict[Code, Type[DfkvError]] = {}


class BusyError(DfkvError, code=Code.BUSY):
    """Back-pressure: later it may work, nothing is broken."""


class TimeoutError(DfkvError, builtins.TimeoutError, code=Code.TIMEOUT):
    """The call's deadline passed."""


class CorruptError(DfkvError, code=Code.CORRUPT):
    """The object was found, but failed its check. Treat it as a miss; a new put repairs it."""


class TooSmallError(DfkvError, code=Code.TOO_SMALL):
    """The buffer is smaller than the object, which has `length` bytes."""

    length = 0


class InvalidError(DfkvError, ValueError, code=Code.INVALID):
    """A bad argument, or a closed client."""


class UnavailableError(DfkvError, ConnectionError, code=Code.UNAVAILABLE):
    """The object's node cannot be reached, or is avoided since it failed."""


class StorageError(DfkvError, code=Code.IO_ERROR):
    """The node's disk, or this system, refused."""


class NoSpaceError(DfkvError, code=Code.NO_SPACE):
    """The node has no space and may evict nothing."""


class QuotaError(DfkvError, code=Code.QUOTA):
    """The tenant's quota is used up."""


class TooLargeError(DfkvError, code=Code.TOO_LARGE):
    """The value is larger than the largest object."""


class RejectedError(DfkvError, code=Code.REJECTED):
    """Refused by admission."""


class UnsupportedError(DfkvError, code=Code.UNSUPPORTED):
    """This version, or the node, does not know it."""


class DeniedError(DfkvError, code=Code.DENIED):
    """Not allowed."""


def error_of(number: int, message: str) -> DfkvError:
    """The exception for a code that is neither OK nor NOT_FOUND."""
    code = Code(number)
    return _CLASSES.get(code, DfkvError)(message or code.name, code)
