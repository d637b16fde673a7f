"""Client of dfkv, a distributed KV cache for LLM inference.

    import dfkv

    with dfkv.Client("a=10.0.0.1:7000,b=10.0.0.2:7000", namespace=b"my-model/bf16/tp0") as client:
        client.put(b"block-1", tensor, depth=0)
        hit = client.get_into(b"block-1", tensor)   # None: a miss

In asyncio programs the same calls are awaited:

    async with dfkv.AsyncClient("a=10.0.0.1:7000", namespace=b"my-model/bf16/tp0") as client:
        await client.put(b"block-1", tensor, depth=0)

See `dfkv.Client` for the calls and `dfkv.Code` for what an item of a batch can come to.
"""
from ._native import LibraryNotFound, library_version
from .aio import AsyncClient
from .client import DEPTH_UNKNOWN, Client, Result
from .errors import (
    BusyError,
    Code,
    CorruptError,
    DeniedError,
    DfkvError,
    InvalidError,
    NoSpaceError,
    QuotaError,
    RejectedError,
    StorageError,
    TimeoutError,
    TooLargeError,
    TooSmallError,
    UnavailableError,
    UnsupportedError,
)

__all__ = [
    "AsyncClient",
    "BusyError",
    "Client",
    "Code",
    "CorruptError",
    "DEPTH_UNKNOWN",
    "DeniedError",
    "DfkvError",
    "InvalidError",
    "LibraryNotFound",
    "NoSpaceError",
    "QuotaError",
    "RejectedError",
    "Result",
    "StorageError",
    "TimeoutError",
    "TooLargeError",
    "TooSmallError",
    "UnavailableError",
    "UnsupportedError",
    "library_version",
]
