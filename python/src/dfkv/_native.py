"""libdfkv.so through ctypes: where it is found, its functions and structs, and the addresses of buffers.

Calls go through ctypes.CDLL, which releases the GIL for their duration.
"""
import ctypes
import os
import pathlib
import struct
import threading
from ctypes import POINTER, byref, c_char_p, c_int, c_int32, c_ssize_t, c_uint32, c_uint64, c_void_p
from typing import Any, Iterable, Iterator, List, Optional, Sequence, Tuple, Union

from ._abi import CallOptions, Completion, OpenOptions, QueueOptions, SubmitOptions

DEPTH_UNKNOWN = 0xFFFFFFFF

# The layout of the structs of _abi that come in arrays, for struct: packing many at once is faster there.
PUT_ITEM = "QQQII"
GET_ITEM = "QQQIIQ"
KEY = "QQ"
BUFFER = "QQ"
RESULT = struct.Struct("=iIQ")
GET_RANGE = 1 << 1


class LibraryNotFound(OSError):
    """libdfkv.so is in none of the places where it is looked for."""


def _candidates(explicit: Optional[str]) -> List[str]:
    if explicit:
        return [explicit]
    paths: List[str] = []
    if os.environ.get("DFKV_LIB"):
        return [os.environ["DFKV_LIB"]]
    if os.environ.get("DFKV_BUILD"):
        build = pathlib.Path(os.environ["DFKV_BUILD"])
        paths += [str(p) for p in (build / "libdfkv.so", build / "lib" / "libdfkv.so") if p.exists()]
    packaged = pathlib.Path(__file__).resolve().parent / "lib" / "libdfkv.so"
    if packaged.exists():
        paths.append(str(packaged))
    return paths + ["libdfkv.so.2", "libdfkv.so"]


_SUBMIT = (c_int, [c_void_p, c_void_p, c_uint64, c_void_p, POINTER(SubmitOptions), POINTER(c_uint64)])
_BATCH = (c_int, [c_void_p, c_void_p, c_uint64, c_void_p, c_void_p])
_SIGNATURES = {
    "dfkv_open3": (c_int, [c_void_p, POINTER(c_void_p)]),
    "dfkv_close": (None, [c_void_p]),
    "dfkv_put3": (c_int, [c_void_p, c_void_p, c_uint64, c_void_p, c_uint64, c_uint32, c_void_p]),
    "dfkv_get3": (c_int, [c_void_p, c_void_p, c_uint64, c_void_p, c_uint64, POINTER(c_uint64), c_void_p]),
    "dfkv_get_range3": (
        c_int,
        [c_void_p, c_void_p, c_uint64, c_uint64, c_void_p, c_uint64, POINTER(c_uint64), c_void_p],
    ),
    "dfkv_exist3": (c_int, [c_void_p, c_void_p, c_uint64, c_void_p]),
    "dfkv_remove3": (c_int, [c_void_p, c_void_p, c_uint64, c_void_p]),
    "dfkv_lookup3": (c_int, [c_void_p, c_void_p, c_uint64, POINTER(c_uint64), c_void_p]),
    "dfkv_match3": (c_int, [c_void_p, c_void_p, c_uint64, POINTER(c_uint64), c_void_p]),
    "dfkv_batch_put3": _BATCH,
    "dfkv_batch_get3": _BATCH,
    "dfkv_batch_exist3": _BATCH,
    "dfkv_batch_remove3": _BATCH,
    "dfkv_batch_lookup3": _BATCH,
    "dfkv_node_stats3": (
        c_int,
        [c_void_p, c_char_p, c_void_p, c_uint64, POINTER(c_uint64), c_void_p],
    ),
    "dfkv_queue_open3": (c_int, [c_void_p, POINTER(QueueOptions), POINTER(c_void_p)]),
    "dfkv_queue_fd3": (c_int, [c_void_p]),
    "dfkv_queue_close3": (None, [c_void_p]),
    "dfkv_submit_put3": _SUBMIT,
    "dfkv_submit_get3": _SUBMIT,
    "dfkv_submit_exist3": _SUBMIT,
    "dfkv_submit_remove3": _SUBMIT,
    "dfkv_submit_lookup3": _SUBMIT,
    "dfkv_submit_match3": (c_int, [c_void_p, c_void_p, c_uint64, POINTER(SubmitOptions), POINTER(c_uint64)]),
    "dfkv_cancel3": (c_int, [c_void_p, c_uint64]),
    "dfkv_collect3": (c_int, [c_void_p, POINTER(Completion), c_uint64, c_int32, POINTER(c_uint64)]),
    "dfkv_stats_snapshot": (c_uint64, [c_void_p, c_void_p, c_uint64]),
    "dfkv_last_error": (c_char_p, []),
    "dfkv_version": (c_char_p, []),
}

_lock = threading.Lock()
_loaded: dict = {}


def load(explicit: Optional[str] = None) -> ctypes.CDLL:
    """The library: `explicit`, else $DFKV_LIB, else $DFKV_BUILD/libdfkv.so (or lib/ in it), else the one that
    came with this package, else what the loader finds. LibraryNotFound tells what was tried."""
    failures = []
    for path in _candidates(explicit):
        with _lock:
            library = _loaded.get(path)
            if library is None:
                try:
                    library = ctypes.CDLL(path)
                    for name, (result, arguments) in _SIGNATURES.items():
                        function = getattr(library, name)
                        function.restype, function.argtypes = result, arguments
                except (OSError, AttributeError) as error:
                    failures.append(f"{path}: {error}")
                    continue
                _loaded[path] = library
            return library
    raise LibraryNotFound("libdfkv.so cannot be loaded; " + "; ".join(failures))


def library_version(library: Optional[str] = None) -> str:
    """The version of libdfkv.so, e.g. "0.1.0"."""
    return load(library).dfkv_version().decode()


# --- Buffers ---


class _PyBuffer(ctypes.Structure):  # Py_buffer, stable since Python 3.0
    _fields_ = [
        ("buf", c_void_p),
        ("obj", ctypes.py_object),
        ("len", c_ssize_t),
        ("itemsize", c_ssize_t),
        ("readonly", c_int),
        ("ndim", c_int),
        ("format", c_char_p),
        ("shape", POINTER(c_ssize_t)),
        ("strides", POINTER(c_ssize_t)),
        ("suboffsets", POINTER(c_ssize_t)),
        ("internal", c_void_p),
    ]


_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.argtypes = [ctypes.py_object, POINTER(_PyBuffer), c_int]
_get_buffer.restype = c_int
_release_buffer = ctypes.pythonapi.PyBuffer_Release
_release_buffer.argtypes = [POINTER(_PyBuffer)]
_release_buffer.restype = None
_bytes_address = ctypes.pythonapi.PyBytes_AsString
_bytes_address.argtypes = [ctypes.py_object]
_bytes_address.restype = c_void_p
_new_bytes = ctypes.pythonapi.PyBytes_FromStringAndSize
_new_bytes.argtypes = [c_void_p, c_ssize_t]
_new_bytes.restype = ctypes.py_object

_WRITABLE = 1


def new_bytes(size: int) -> Tuple[bytes, int]:
    """A bytes object of undefined content, to be filled before anyone else sees it, and its address."""
    value = _new_bytes(None, size)
    return value, _bytes_address(value)


class Buffers:
    """Addresses of Python objects, held in place until release(): for the duration of one call."""

    def __init__(self) -> None:
        self._views: List[_PyBuffer] = []
        self._kept: List[Any] = []

    def __enter__(self) -> "Buffers":
        return self

    def __exit__(self, *_exception: object) -> None:
        self.release()

    def release(self) -> None:
        for view in self._views:
            _release_buffer(byref(view))
        self._views.clear()
        self._kept.clear()

    def keep(self, value: Any) -> None:
        """Keeps a reference until release()."""
        self._kept.append(value)

    def key(self, key: Any) -> Tuple[int, int]:
        """Address and size of a key: bytes-like, or str, which is taken as UTF-8."""
        if isinstance(key, str):
            key = key.encode()
        return self.add(key, False)

    def add(self, value: Any, writable: bool) -> Tuple[int, int]:
        """Address and size in bytes of a contiguous buffer. TypeError when it is none, is not contiguous, or
        may not be written although `writable` asks for it."""
        if type(value) is bytes and not writable:
            self._kept.append(value)
            return _bytes_address(value), len(value)
        if hasattr(value, "data_ptr"):
            return self._add_tensor(value)
        view = _PyBuffer()
        try:
            _get_buffer(value, byref(view), _WRITABLE if writable else 0)
        except (BufferError, ValueError, TypeError) as error:
            interface = getattr(value, "__array_interface__", None)
            if interface is None:
                what = "writable contiguous buffer" if writable else "contiguous buffer"
                raise TypeError(f"{type(value).__name__} is no {what}: {error}") from error
            return self._add_array(value, interface, writable)
        self._views.append(view)
        return view.buf or 0, view.len

    def _add_tensor(self, tensor: Any) -> Tuple[int, int]:
        if tensor.device.type != "cpu":
            raise TypeError(f"the tensor is on {tensor.device}; only tensors in host memory can be used")
        if not tensor.is_contiguous():
            raise TypeError("the tensor is not contiguous")
        self._kept.append(tensor)
        return tensor.data_ptr(), tensor.numel() * tensor.element_size()

    def _add_array(self, array: Any, interface: dict, writable: bool) -> Tuple[int, int]:
        """A NumPy array whose dtype the buffer protocol refuses, such as bfloat16 or datetime64."""
        address, readonly = interface["data"]
        if interface.get("strides") is not None:
            raise TypeError("the array is not contiguous")
        if readonly and writable:
            raise TypeError("the array is read-only")
        self._kept.append(array)
        return address, array.nbytes

    def key_items(self, keys: Sequence[Any]) -> ctypes.Array:
        """An array of dfkv_key3."""
        if isinstance(keys, (str, bytes, bytearray, memoryview)):
            raise TypeError("keys must be a sequence of keys, not one key")
        return pack(KEY, [number for key in keys for number in self.key(key)])

    def put_items(
        self, keys: Sequence[Any], values: Sequence[Any], depths: Union[None, int, Iterable[int]]
    ) -> ctypes.Array:
        """An array of dfkv_put_item3. depths: one for each key, or the first key's, the others counting up."""
        count = len(keys)
        if len(values) != count:
            raise ValueError(f"{count} keys but {len(values)} values")
        if depths is None:
            depth_of = [DEPTH_UNKNOWN] * count
        elif isinstance(depths, int):
            depth_of = list(range(depths, depths + count))
        else:
            depth_of = list(depths)
        if len(depth_of) != count:
            raise ValueError(f"{count} keys but {len(depth_of)} depths")
        pieces = [self.pieces(value, False) for value in values]
        fields: List[int] = []
        for key, (at, number), depth in zip(keys, self._buffers(pieces), depth_of):
            fields += (*self.key(key), at, number, depth)
        return pack(PUT_ITEM, fields)

    def get_items(
        self, keys: Sequence[Any], pieces: List[List[int]], flags: int = 0, offset: int = 0
    ) -> ctypes.Array:
        """An array of dfkv_get_item3; pieces[i]: addresses and sizes of the i-th item's buffers."""
        fields: List[int] = []
        for key, (at, number) in zip(keys, self._buffers(pieces)):
            fields += (*self.key(key), at, number, flags, offset)
        return pack(GET_ITEM, fields)

    def _buffers(self, pieces: List[List[int]]) -> Iterator[Tuple[int, int]]:
        """Address and number of each item's part of one array of dfkv_buffer3."""
        array = pack(BUFFER, [number for piece in pieces for number in piece])
        self._kept.append(array)
        at = ctypes.addressof(array)
        for piece in pieces:
            yield at, len(piece) // 2
            at += 8 * len(piece)

    def pieces(self, value: Any, writable: bool) -> List[int]:
        """Addresses and sizes, alternating, of one buffer or of a list or tuple of them."""
        if isinstance(value, (list, tuple)):
            flat: List[int] = []
            for piece in value:
                flat += self.add(piece, writable)
            return flat
        return list(self.add(value, writable))


def pack(layout: str, fields: List[int]) -> ctypes.Array:
    """An array of C structs of that layout from their fields, one after the other."""
    count = len(fields) // len(layout)
    return ctypes.create_string_buffer(struct.pack("=" + layout * count, *fields), 8 * len(fields) + 8)


def options_of(deadline_ms: Optional[int]) -> Optional[CallOptions]:
    if deadline_ms is None:
        return None
    if not 1 <= deadline_ms <= 0xFFFFFFFF:
        raise ValueError("deadline_ms must be at least 1")
    return CallOptions(ctypes.sizeof(CallOptions), 0, deadline_ms, 0)


def results_of(raw: ctypes.Array, count: int) -> List[Tuple[int, int]]:
    """(code, length) of each dfkv_result3."""
    data = memoryview(raw).cast("B")[: count * RESULT.size]
    return [(code, length) for code, _, length in RESULT.iter_unpack(data)]


def room_for_results(count: int) -> ctypes.Array:
    return (c_int32 * (4 * max(count, 1)))()
