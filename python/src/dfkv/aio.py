"""The client for asyncio: calls are awaited, none of them blocks the event loop."""
import asyncio
import itertools
from collections import deque
from ctypes import byref, c_uint64, c_void_p, sizeof
from types import TracebackType
from typing import Any, Deque, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple, Type, Union

from . import _native
from ._abi import Completion, QueueOptions, SubmitOptions
from ._native import DEPTH_UNKNOWN, Buffers
from .client import _SIZE_HINT, Buffers_, Client, Key, Result
from .errors import Code, InvalidError, TooSmallError, error_of

_COLLECT_MAX = 64


class _Flight(NamedTuple):
    """A batch on its way: what it holds in place, and who waits for its completion."""

    done: "asyncio.Future[Tuple[int, int]]"
    held: Buffers
    results: Any


class AsyncClient:
    """A handle to a set of nodes, for one asyncio event loop: that of its first call.

    The arguments are those of Client; batches_max (256) bounds the batches in flight, and more wait their turn.
    Keys, values, misses and errors are as with Client, and so are the methods, but that they are awaited.

    A buffer belongs to the call until its await has ended, however that was: a cancelled task gets its
    CancelledError as soon as the library has let go of the memory, which is at once. Whether a put that was
    cancelled is stored is not known.

    Use `async with`, or close(). After fork() the child opens a client of its own.
    """

    def __init__(
        self, members: str, namespace: Union[bytes, str], *, batches_max: Optional[int] = None, **options: Any
    ) -> None:
        self._queue: Optional[int] = None
        self._client = Client(members, namespace, **options)
        self._lib = self._client._lib
        queue = c_void_p()
        wanted = QueueOptions(sizeof(QueueOptions), 0, batches_max or 0, 0)
        self._client._check(
            self._lib.dfkv_queue_open3(self._client._open_handle(), byref(wanted), byref(queue))
        )
        self._queue = queue.value
        self._fd = self._lib.dfkv_queue_fd3(queue)
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        self._numbers = itertools.count(1)
        self._flights: Dict[int, _Flight] = {}
        self._waiting: Deque["asyncio.Future[None]"] = deque()  # for room in the queue
        self._room = (Completion * _COLLECT_MAX)()

    # --- Life ---

    def close(self) -> None:
        """Cancels what is in flight, and closes the handle. May be called again."""
        queue, self._queue = self._queue, None
        if queue is not None:
            if self._loop is not None and not self._loop.is_closed():
                self._loop.remove_reader(self._fd)
            self._lib.dfkv_queue_close3(queue)  # from here on no buffer is in use
            for number in list(self._flights):
                self._land(number, Code.CANCELLED, 0)
            self._wake_waiting()
        self._client.close()

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(
        self,
        _type: Optional[Type[BaseException]],
        _value: Optional[BaseException],
        _traceback: Optional[TracebackType],
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_queue", None) is not None:
            self.close()

    # --- One object ---

    async def put(
        self, key: Key, value: Buffers_, *, depth: int = DEPTH_UNKNOWN, deadline_ms: Optional[int] = None
    ) -> None:
        """As Client.put."""
        result = (await self.batch_put([key], [value], depths=[depth], deadline_ms=deadline_ms))[0]
        self._found(result, "put")

    async def get(
        self, key: Key, *, size_hint: int = _SIZE_HINT, deadline_ms: Optional[int] = None
    ) -> Optional[bytes]:
        """As Client.get."""
        room = max(size_hint, 1)
        for _ in range(3):  # the object may be replaced by a longer one between two trips
            value, address = _native.new_bytes(room)
            result = (await self._get([key], [[address, room]], deadline_ms, keep=value))[0]
            if result.code == Code.TOO_SMALL:
                room = result.length
                continue
            if not self._found(result, "get"):
                return None
            return value if result.length == room else value[: result.length]
        raise TooSmallError("the object changes faster than it can be read")

    async def get_into(
        self, key: Key, buffer: Buffers_, *, deadline_ms: Optional[int] = None
    ) -> Optional[int]:
        """As Client.get_into."""
        result = (await self.batch_get_into([key], [buffer], deadline_ms=deadline_ms))[0]
        return result.length if self._found(result, "get_into") else None

    async def get_range(
        self, key: Key, offset: int, length: int, *, deadline_ms: Optional[int] = None
    ) -> Optional[bytes]:
        """As Client.get_range."""
        value, address = _native.new_bytes(max(length, 1))
        piece = [[address, length]]
        result = (
            await self._get([key], piece, deadline_ms, keep=value, flags=_native.GET_RANGE, offset=offset)
        )[0]
        return value[: result.length] if self._found(result, "get_range") else None

    async def exists(self, key: Key, *, deadline_ms: Optional[int] = None) -> bool:
        """As Client.exists."""
        return self._found((await self.batch_exists([key], deadline_ms=deadline_ms))[0], "exists")

    async def remove(self, key: Key, *, deadline_ms: Optional[int] = None) -> bool:
        """As Client.remove."""
        return self._found((await self.batch_remove([key], deadline_ms=deadline_ms))[0], "remove")

    async def lookup(self, key: Key, *, deadline_ms: Optional[int] = None) -> Optional[int]:
        """As Client.lookup."""
        result = (await self.batch_lookup([key], deadline_ms=deadline_ms))[0]
        return result.length if self._found(result, "lookup") else None

    # --- Batches ---

    async def match_prefix(self, keys: Sequence[Key], *, deadline_ms: Optional[int] = None) -> int:
        """As Client.match_prefix."""
        held = Buffers()
        try:
            items = held.key_items(keys)
        except BaseException:
            held.release()
            raise
        code, present = await self._fly(self._lib.dfkv_submit_match3, held, (items, len(keys)), None, deadline_ms)
        if code != Code.OK:
            raise error_of(code, "match_prefix failed")
        return present

    async def batch_put(
        self,
        keys: Sequence[Key],
        values: Sequence[Buffers_],
        *,
        depths: Union[None, int, Iterable[int]] = None,
        deadline_ms: Optional[int] = None,
    ) -> List[Result]:
        """As Client.batch_put."""
        return await self._batch(
            self._lib.dfkv_submit_put3, lambda held: held.put_items(keys, values, depths), len(keys), deadline_ms
        )

    async def batch_get_into(
        self, keys: Sequence[Key], buffers: Sequence[Buffers_], *, deadline_ms: Optional[int] = None
    ) -> List[Result]:
        """As Client.batch_get_into."""
        if len(buffers) != len(keys):
            raise ValueError(f"{len(keys)} keys but {len(buffers)} buffers")

        def pack(held: Buffers) -> Any:
            return held.get_items(keys, [held.pieces(buffer, True) for buffer in buffers])

        return await self._batch(self._lib.dfkv_submit_get3, pack, len(keys), deadline_ms)

    async def batch_get(
        self, keys: Sequence[Key], *, size_hint: int = _SIZE_HINT, deadline_ms: Optional[int] = None
    ) -> List[Optional[bytes]]:
        """As Client.batch_get."""
        values: List[Optional[bytes]] = [None] * len(keys)
        rooms = [max(size_hint, 1)] * len(keys)
        todo = list(range(len(keys)))
        for _ in range(2):
            fresh = [_native.new_bytes(rooms[i]) for i in todo]
            pieces = [[address, rooms[i]] for i, (_, address) in zip(todo, fresh)]
            results = await self._get([keys[i] for i in todo], pieces, deadline_ms, keep=fresh)
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

    async def batch_exists(self, keys: Sequence[Key], *, deadline_ms: Optional[int] = None) -> List[Result]:
        """As Client.batch_exists."""
        return await self._batch_keys(self._lib.dfkv_submit_exist3, keys, deadline_ms)

    async def batch_remove(self, keys: Sequence[Key], *, deadline_ms: Optional[int] = None) -> List[Result]:
        """As Client.batch_remove."""
        return await self._batch_keys(self._lib.dfkv_submit_remove3, keys, deadline_ms)

    async def batch_lookup(self, keys: Sequence[Key], *, deadline_ms: Optional[int] = None) -> List[Result]:
        """As Client.batch_lookup."""
        return await self._batch_keys(self._lib.dfkv_submit_lookup3, keys, deadline_ms)

    # --- Metrics ---

    def stats(self) -> str:
        """The client's metrics as Prometheus text."""
        return self._client.stats()

    # --- How a batch flies ---

    @staticmethod
    def _found(result: Result, what: str) -> bool:
        """True for OK, False for a miss; raises otherwise."""
        if result.code in (Code.OK, Code.NOT_FOUND):
            return result.ok
        error = error_of(result.code, f"{what}: {result.code.name}")
        if isinstance(error, TooSmallError):
            error.length = result.length
        raise error

    async def _get(
        self,
        keys: Sequence[Key],
        pieces: List[List[int]],
        deadline_ms: Optional[int],
        *,
        keep: Any,
        flags: int = 0,
        offset: int = 0,
    ) -> List[Result]:
        def pack(held: Buffers) -> Any:
            held.keep(keep)
            return held.get_items(keys, pieces, flags, offset)

        return await self._batch(self._lib.dfkv_submit_get3, pack, len(keys), deadline_ms)

    async def _batch_keys(self, function: Any, keys: Sequence[Key], deadline_ms: Optional[int]) -> List[Result]:
        return await self._batch(function, lambda held: held.key_items(keys), len(keys), deadline_ms)

    async def _batch(self, function: Any, pack: Any, count: int, deadline_ms: Optional[int]) -> List[Result]:
        held = Buffers()
        try:
            items = pack(held)
        except BaseException:
            held.release()
            raise
        raw = _native.room_for_results(count)
        await self._fly(function, held, (items, count, raw), raw, deadline_ms)
        return [Result(Code(code), length) for code, length in _native.results_of(raw, count)]

    async def _fly(
        self, function: Any, held: Buffers, arguments: Tuple[Any, ...], results: Any, deadline_ms: Optional[int]
    ) -> Tuple[int, int]:
        """Submits and waits for the completion: its code and its count."""
        try:
            number, ticket = await self._submit(function, arguments, deadline_ms)
        except BaseException:
            held.release()
            raise
        done: "asyncio.Future[Tuple[int, int]]" = asyncio.get_running_loop().create_future()
        self._flights[number] = _Flight(done, held, results)
        cancelled = False
        while not done.done():
            try:
                await asyncio.shield(done)
            except asyncio.CancelledError:
                cancelled = True
                if self._queue is not None:
                    self._lib.dfkv_cancel3(self._queue, ticket)
        if cancelled:
            raise asyncio.CancelledError
        return done.result()

    async def _submit(
        self, function: Any, arguments: Tuple[Any, ...], deadline_ms: Optional[int]
    ) -> Tuple[int, int]:
        """The number and the ticket of a batch that was submitted, once there was room for it."""
        options = SubmitOptions(sizeof(SubmitOptions), 0, 0, 0, next(self._numbers))
        if deadline_ms is not None:
            options.deadline_ms = _native.options_of(deadline_ms).deadline_ms
        ticket = c_uint64()
        self._attach()
        while True:
            if self._queue is None:
                raise InvalidError("the client is closed")
            code = function(self._queue, *arguments, byref(options), byref(ticket))
            if code == Code.OK:
                return options.user_data, ticket.value
            if code != Code.BUSY:
                self._client._check(code)
            if not self._flights:  # it is not this client that fills the library
                self._client._check(code)
            await self._await_room()

    async def _await_room(self) -> None:
        room: "asyncio.Future[None]" = asyncio.get_running_loop().create_future()
        self._waiting.append(room)
        try:
            await room
        except asyncio.CancelledError:
            if room.done() and not room.cancelled():
                self._wake_waiting(1)  # the next one's turn
            raise

    def _attach(self) -> None:
        loop = asyncio.get_running_loop()
        if self._queue is None:
            raise InvalidError("the client is closed")
        if self._loop is None:
            self._loop = loop
            loop.add_reader(self._fd, self._collect)
        elif self._loop is not loop:
            raise RuntimeError("an AsyncClient belongs to the event loop of its first call")

    def _collect(self) -> None:
        count = c_uint64(_COLLECT_MAX)
        while self._queue is not None and count.value == _COLLECT_MAX:
            self._lib.dfkv_collect3(self._queue, self._room, _COLLECT_MAX, 0, byref(count))
            for completion in self._room[: count.value]:
                self._land(completion.user_data, completion.code, completion.count)
            self._wake_waiting(count.value)

    def _land(self, number: int, code: int, count: int) -> None:
        flight = self._flights.pop(number)
        flight.held.release()
        if not flight.done.done() and not flight.done.get_loop().is_closed():
            flight.done.set_result((code, count))

    def _wake_waiting(self, most: Optional[int] = None) -> None:
        left = len(self._waiting) if most is None else most
        while left > 0 and self._waiting:
            room = self._waiting.popleft()
            if not room.done():
                room.set_result(None)
                left -= 1
