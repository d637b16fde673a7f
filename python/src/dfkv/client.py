"""The client: a handle to a set of nodes."""
import ctypes
import threading
from ctypes import byref, c_uint64, c_void_p
from types import TracebackType
from typing import Any, Iterable, List, NamedTuple, Optional, Sequence, Type, Union

from . import _native
from ._native import DEPTH_UNKNOWN, Buffers
from .errors import Code, InvalidError, TooSmallError, error_of

Key = Union[str, bytes, bytearray, memoryview]
# bytes, bytearray, memoryview, mmap, array.array, numpy.ndarray, torch.Tensor: contiguous, in host memory.
Buffer = Any
# One buffer, or several that make up the value in order.
Buffers_ = Union[Buffer, Sequence[Buffer]]

_SIZE_HINT = 64 * 1024  # room for a value whose length is not known beforehand


class Result(NamedTuple):
    """What became of one item of a batch.

    `code` is Code.OK for an item that was stored, found or removed. `length` is the object's stored length
    where it is known (get, lookup, also with TOO_SMALL); for a range it is the bytes received.
    """

    code: Code
    length: int

    @property
    def ok(self) -> bool:
        return self.code == Code.OK


class Client:
    """A handle to a set of nodes, for any number of threads. Calls block their thread and release the GIL.

    members    "name=ip:port,name2=ip:port2*weight". An object's owner follows from the names and weights, so
               all clients of one cache use the same list.
    namespace  bytes (or str, as UTF-8) that identify what makes objects of equal keys equal: model, revision,
               dtype, parallelism, layout. Objects of other namespaces are invisible.

    The other arguments tune the client; None takes the environment's value (docs/CLIENT.md) or the default:
    stall_ms (1000) is how long a node may be silent, and with min_rate_bytes (64 MiB) a second makes the
    default deadline of a call, stall_ms + bytes / min_rate_bytes; connect_ms (1000); calls_max (64) at once;
    idle_ms (30000) until an unused connection closes; peer_cooldown_ms (2000) and peer_cooldown_max_ms
    (30000) between probes of a node that failed; spin_us (0) of busy-polling before sleeping; verify=False
    skips the check of values received; library names a libdfkv.so.

    Values are immutable: a put of a present key succeeds and keeps the first value. A value is one
    contiguous buffer in host memory (bytes, bytearray, memoryview, numpy, torch, anything with the buffer
    protocol) or a list of them; its bytes count, not its shape or dtype. Buffers stay locked for the call
    only. A miss is None, False or Code.NOT_FOUND; every other failure of a single call is a subclass of
    DfkvError, and a code in the results of a batch. Bad arguments of ours are TypeError or ValueError.

    InvalidError when an argument is bad; no connection is made yet.
    """

    def __init__(
        self,
        members: str,
        namespace: Union[bytes, str],
        *,
        stall_ms: Optional[int] = None,
        min_rate_bytes: Optional[int] = None,
        connect_ms: Optional[int] = None,
        calls_max: Optional[int] = None,
        idle_ms: Optional[int] = None,
        peer_cooldown_ms: Optional[int] = None,
        peer_cooldown_max_ms: Optional[int] = None,
        spin_us: Optional[int] = None,
        verify: bool = True,
        library: Optional[str] = None,
    ) -> None:
        self._handle: Optional[int] = None
        self._lib = _native.load(library)
        self._close_lock = threading.Lock()
        space = namespace.encode() if isinstance(namespace, str) else bytes(namespace)
        options = _native.OpenOptions(
            struct_size=ctypes.sizeof(_native.OpenOptions),
            flags=0 if verify else 1,
            members=members.encode(),
            key_namespace=space,
            key_namespace_len=len(space),
            min_rate_bytes=min_rate_bytes or 0,
            stall_ms=stall_ms or 0,
            connect_ms=connect_ms or 0,
            calls_max=calls_max or 0,
            idle_ms=idle_ms or 0,
            peer_cooldown_ms=peer_cooldown_ms or 0,
            peer_cooldown_max_ms=peer_cooldown_max_ms or 0,
            spin_us=spin_us or 0,
        )
        handle = c_void_p()
        self._check(self._lib.dfkv_open3(byref(options), byref(handle)))
        self._handle = handle.value

    # --- Life ---

    def close(self) -> None:
        """Closes the handle; calls in flight on other threads run to their end. May be called again."""
        with self._close_lock:
            handle, self._handle = self._handle, None
        if handle is not None:
            self._lib.dfkv_close(handle)

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self,
        _type: Optional[Type[BaseException]],
        _value: Optional[BaseException],
        _traceback: Optional[TracebackType],
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None:
            self.close()

    def _open_handle(self) -> int:
        handle = self._handle
        if handle is None:
            raise InvalidError("the client is closed")
        return handle

    def _check(self, number: int) -> bool:
        """True for OK, False for a miss; raises otherwise."""
        if number == Code.OK:
            return True
        if number == Code.NOT_FOUND:
            return False
        raise error_of(number, (self._lib.dfkv_last_error() or b"").decode(errors="replace"))

    # --- One object ---

    def put(
        self, key: Key, value: Buffers_, *, depth: int = DEPTH_UNKNOWN, deadline_ms: Optional[int] = None
    ) -> None:
        """Stores the bytes of `value`, at least one, under `key`; on return they survive the node's process.

        depth is the object's position in its chain of prefixes, 0 first: eviction takes the deepest first.
        Raises BusyError, NoSpaceError, QuotaError, TooLargeError, RejectedError, TimeoutError,
        UnavailableError, StorageError, InvalidError.
        """
        if isinstance(value, (list, tuple)):
            result = self.batch_put([key], [value], depths=[depth], deadline_ms=deadline_ms)[0]
            if not result.ok:
                raise error_of(result.code, "put of several buffers failed")
            return
        handle, options = self._open_handle(), _native.options_of(deadline_ms)
        with Buffers() as held:
            name, data = held.key(key), held.add(value, False)
            self._check(self._lib.dfkv_put3(handle, *name, *data, depth, options and byref(options)))

    def get(
        self, key: Key, *, size_hint: int = _SIZE_HINT, deadline_ms: Optional[int] = None
    ) -> Optional[bytes]:
        """The value as bytes, None on a miss.

        A value longer than size_hint bytes takes a second round trip. get_into copies nothing and is for
        values of known size. Raises CorruptError, BusyError, TimeoutError, UnavailableError, StorageError.
        """
        room = max(size_hint, 1)
        for _ in range(3):  # the object may be replaced by a longer one between two trips
            value, address = _native.new_bytes(room)
            try:
                length = self._get(key, address, room, deadline_ms)
            except TooSmallError as error:
                room = error.length
                continue
            if length is None:
                return None
            return value if length == room else value[:length]
        raise TooSmallError("the object changes faster than it can be read")

    def _get(self, key: Key, address: int, size: int, deadline_ms: Optional[int]) -> Optional[int]:
        handle, options, length = self._open_handle(), _native.options_of(deadline_ms), c_uint64()
        with Buffers() as held:
            code = self._lib.dfkv_get3(
                handle, *held.key(key), address, size, byref(length), options and byref(options)
            )
        try:
            return length.value if self._check(code) else None
        except TooSmallError as error:
            error.length = length.value
            raise

    def get_into(self, key: Key, buffer: Buffers_, *, deadline_ms: Optional[int] = None) -> Optional[int]:
        """Receives the value into `buffer` (writable; or a list of buffers, filled in order) and returns its
        length in bytes, None on a miss.

        The buffer may be larger than the value; what lies behind it is untouched. TooSmallError, with the
        value's `length`, when it is smaller. After any failure the buffer's content is undefined. Raises also
        what get raises.
        """
        if isinstance(buffer, (list, tuple)):
            result = self.batch_get_into([key], [buffer], deadline_ms=deadline_ms)[0]
            if result.code == Code.TOO_SMALL:
                error = TooSmallError(f"the object has {result.length} bytes")
                error.length = result.length
                raise error
            if result.code not in (Code.OK, Code.NOT_FOUND):
                raise error_of(result.code, "get into several buffers failed")
            return result.length if result.ok else None
        with Buffers() as held:
            address, size = held.add(buffer, True)
            return self._get(key, address, size, deadline_ms)

    def get_range(
        self, key: Key, offset: int, length: int, *, deadline_ms: Optional[int] = None
    ) -> Optional[bytes]:
        """Bytes [offset, offset + length) of the value, fewer at its end; None on a miss. InvalidError when
        offset lies past the end."""
        value, address = _native.new_bytes(max(length, 1))
        handle, options, received = self._open_handle(), _native.options_of(deadline_ms), c_uint64()
        with Buffers() as held:
            code = self._lib.dfkv_get_range3(
                handle, *held.key(key), offset, address, length, byref(received), options and byref(options)
            )
        return value[: received.value] if self._check(code) else None

    def exists(self, key: Key, *, deadline_ms: Optional[int] = None) -> bool:
        """Whether the object is present, which is: a get would find it."""
        handle, options = self._open_handle(), _native.options_of(deadline_ms)
        with Buffers() as held:
            code = self._lib.dfkv_exist3(handle, *held.key(key), options and byref(options))
        return self._check(code)

    def remove(self, key: Key, *, deadline_ms: Optional[int] = None) -> bool:
        """Removes the object; on return it is absent. False: it was absent before."""
        handle, options = self._open_handle(), _native.options_of(deadline_ms)
        with Buffers() as held:
            code = self._lib.dfkv_remove3(handle, *held.key(key), options and byref(options))
        return self._check(code)

    def lookup(self, key: Key, *, deadline_ms: Optional[int] = None) -> Optional[int]:
        """The value's length in bytes, None on a miss."""
        handle, options, length = self._open_handle(), _native.options_of(deadline_ms), c_uint64()
        with Buffers() as held:
            code = self._lib.dfkv_lookup3(
                handle, *held.key(key), byref(length), options and byref(options)
            )
        return length.value if self._check(code) else None

    # --- Batches: one round trip to each node ---

    def match_prefix(self, keys: Sequence[Key], *, deadline_ms: Optional[int] = None) -> int:
        """How many of the first keys are all present. A key whose node cannot be reached counts as absent."""
        handle, options, present = self._open_handle(), _native.options_of(deadline_ms), c_uint64()
        with Buffers() as held:
            array = held.key_items(keys)
            code = self._lib.dfkv_match3(
                handle, array, len(keys), byref(present), options and byref(options)
            )
        self._check(code)
        return present.value

    def batch_put(
        self,
        keys: Sequence[Key],
        values: Sequence[Buffers_],
        *,
        depths: Union[None, int, Iterable[int]] = None,
        deadline_ms: Optional[int] = None,
    ) -> List[Result]:
        """Stores values[i] under keys[i]; one Result for each, in order.

        depths: one for each key, or the first key's, the others counting up from it.
        """
        with Buffers() as held:
            items = held.put_items(keys, values, depths)
            return self._batch(self._lib.dfkv_batch_put3, items, len(keys), deadline_ms)

    def batch_get_into(
        self, keys: Sequence[Key], buffers: Sequence[Buffers_], *, deadline_ms: Optional[int] = None
    ) -> List[Result]:
        """Receives the value of keys[i] into buffers[i], as get_into does; one Result for each, in order.

        The content of a buffer whose code is not OK is undefined.
        """
        count = len(keys)
        if len(buffers) != count:
            raise ValueError(f"{count} keys but {len(buffers)} buffers")
        with Buffers() as held:
            pieces = [held.pieces(buffer, True) for buffer in buffers]
            return self._batch_get(held, keys, pieces, deadline_ms)

    def _batch_get(
        self, held: Buffers, keys: Sequence[Key], pieces: List[List[int]], deadline_ms: Optional[int]
    ) -> List[Result]:
        items = held.get_items(keys, pieces)
        return self._batch(self._lib.dfkv_batch_get3, items, len(keys), deadline_ms)

    def batch_get(
        self, keys: Sequence[Key], *, size_hint: int = _SIZE_HINT, deadline_ms: Optional[int] = None
    ) -> List[Optional[bytes]]:
        """The values as bytes, None for every key that brought none, whatever the reason.

        Values longer than size_hint bytes take a second round trip. Use batch_get_into to learn the reasons.
        """
        values: List[Optional[bytes]] = [None] * len(keys)
        rooms = [max(size_hint, 1)] * len(keys)
        todo = list(range(len(keys)))
        for _ in range(2):
            fresh = [_native.new_bytes(rooms[i]) for i in todo]
            pieces = [[address, rooms[i]] for i, (_, address) in zip(todo, fresh)]
            with Buffers() as held:
                results = self._batch_get(held, [keys[i] for i in todo], pieces, deadline_ms)
            again = []
            for i, (value, _), result in zip(todo, fresh, results):
                if result.ok:
                    values[i] = value if result.length == rooms[i] else value[: result.length]
                elif result.code == Code.TOO_SMALL:
                    rooms[i] = result.length
                    again.append(i)
            todo = again
            if not todo:
                break
        return values

    def batch_exists(self, keys: Sequence[Key], *, deadline_ms: Optional[int] = None) -> List[Result]:
        """Code.OK for each key that is present, NOT_FOUND for each that is absent."""
        return self._batch_keys(self._lib.dfkv_batch_exist3, keys, deadline_ms)

    def batch_remove(self, keys: Sequence[Key], *, deadline_ms: Optional[int] = None) -> List[Result]:
        """Code.OK for each key that was removed, NOT_FOUND for each that was absent before."""
        return self._batch_keys(self._lib.dfkv_batch_remove3, keys, deadline_ms)

    def batch_lookup(self, keys: Sequence[Key], *, deadline_ms: Optional[int] = None) -> List[Result]:
        """Code.OK and the value's length for each key that is present."""
        return self._batch_keys(self._lib.dfkv_batch_lookup3, keys, deadline_ms)

    def _batch_keys(self, function: Any, keys: Sequence[Key], deadline_ms: Optional[int]) -> List[Result]:
        with Buffers() as held:
            return self._batch(function, held.key_items(keys), len(keys), deadline_ms)

    def _batch(self, function: Any, items: ctypes.Array, count: int, deadline_ms: Optional[int]) -> List[Result]:
        handle, options = self._open_handle(), _native.options_of(deadline_ms)
        raw = _native.room_for_results(count)
        self._check(function(handle, items, count, raw, options and byref(options)))
        return [Result(Code(code), length) for code, length in _native.results_of(raw, count)]

    # --- Metrics ---

    def stats(self) -> str:
        """The client's metrics as Prometheus text."""
        handle = self._open_handle()
        room = self._lib.dfkv_stats_snapshot(handle, None, 0) + 4096  # figures grow meanwhile
        text = ctypes.create_string_buffer(room)
        self._lib.dfkv_stats_snapshot(handle, text, room)
        return text.value.decode()

    def node_stats(self, member: str, *, deadline_ms: Optional[int] = None) -> str:
        """The metrics of the node of that name, as Prometheus text."""
        handle, options, length = self._open_handle(), _native.options_of(deadline_ms), c_uint64(1 << 20)
        while True:
            room = length.value + 4096
            text = ctypes.create_string_buffer(room)
            self._check(
                self._lib.dfkv_node_stats3(
                    handle, member.encode(), text, room, byref(length), options and byref(options)
                )
            )
            if length.value < room:
                return text.value.decode()
