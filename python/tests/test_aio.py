"""The asyncio client against a real node."""
import asyncio
import os
import uuid

import pytest

import dfkv
from dfkv import Code


def run(node, body, **options):
    """Runs the coroutine function with a client that has a namespace of its own."""

    async def main():
        space = f"aio-{uuid.uuid4()}"
        async with dfkv.AsyncClient(f"node={node.address}", space, stall_ms=10_000, **options) as client:
            return await body(client)

    return asyncio.run(asyncio.wait_for(main(), 120))


def silent(server):
    """The address of a port that takes connections and never answers."""
    server.bind(("127.0.0.1", 0))
    server.listen(64)
    return f"127.0.0.1:{server.getsockname()[1]}"


def test_one_object(node):
    async def body(client):
        assert await client.get(b"k") is None
        assert not await client.exists(b"k")
        assert await client.lookup(b"k") is None
        assert await client.put(b"k", b"0123456789", depth=3) is None
        assert await client.get("k") == b"0123456789"
        assert await client.get(b"k", size_hint=3) == b"0123456789"
        assert await client.exists(b"k")
        assert await client.lookup(b"k") == 10
        assert await client.get_range(b"k", 8, 100) == b"89"
        room = bytearray(b"x" * 12)
        assert await client.get_into(b"k", room) == 10
        assert room == b"0123456789xx"
        room.append(1)  # nothing is still locked
        with pytest.raises(dfkv.TooSmallError) as error:
            await client.get_into(b"k", bytearray(9))
        assert error.value.length == 10
        assert await client.remove(b"k") is True
        assert await client.remove(b"k") is False
        assert 'op="put"} 1' in client.stats()

    run(node, body)


def test_batches(node):
    async def body(client):
        keys = [f"block-{i}" for i in range(20)]
        values = [bytes([i]) * (i * 1000 + 1) for i in range(20)]
        assert all(r.ok for r in await client.batch_put(keys, values, depths=0))
        assert await client.batch_get([*keys, "none"], size_hint=5000) == [*values, None]
        rooms = [bytearray(len(value)) for value in values]
        assert [r.code for r in await client.batch_get_into(keys, rooms)] == [Code.OK] * 20
        assert rooms == values
        assert await client.match_prefix(keys) == 20
        assert [r.code for r in await client.batch_remove([keys[7], "none"])] == [Code.OK, Code.NOT_FOUND]
        assert await client.match_prefix(keys) == 7
        assert [r.ok for r in await client.batch_exists(keys[6:9])] == [True, False, True]
        assert (await client.batch_lookup(keys[:1]))[0].length == 1
        assert await client.batch_put([], []) == []
        results = await client.batch_put([b"a", b"", b"c"], [b"1", b"2", b""])
        assert [r.code for r in results] == [Code.OK, Code.INVALID, Code.INVALID]

    run(node, body)


def test_many_tasks_share_a_client_and_wait_for_room(node):
    async def body(client):
        async def work(number):
            value = bytes([number % 251]) * 3000
            await client.put(f"k{number}", value)
            return await client.get(f"k{number}") == value

        assert all(await asyncio.gather(*(work(n) for n in range(300))))

    run(node, body, batches_max=4)


def test_a_cancelled_task_gives_its_buffer_back(node):
    import socket

    async def body(server):
        async with dfkv.AsyncClient(f"a={silent(server)}", b"n", stall_ms=60_000, batches_max=2) as client:
            rooms = [bytearray(100) for _ in range(4)]
            tasks = [asyncio.ensure_future(client.get_into(b"k", room)) for room in rooms]
            await asyncio.sleep(0)
            for task in reversed(tasks):  # two are in flight, two wait for room
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            for room in rooms:
                room.append(1)
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(client.exists(b"k"), 0.05)
            with pytest.raises(dfkv.TimeoutError):
                await client.exists(b"k", deadline_ms=50)

    with socket.socket() as server:
        asyncio.run(asyncio.wait_for(body(server), 60))


def test_close_ends_what_is_in_flight(node):
    import socket

    async def body(server):
        client = dfkv.AsyncClient(f"a={silent(server)}", b"n", stall_ms=60_000)
        task = asyncio.ensure_future(client.get(b"k"))
        batch = asyncio.ensure_future(client.batch_exists([b"k"]))
        await asyncio.sleep(0)
        client.close()
        client.close()
        with pytest.raises(dfkv.DfkvError) as error:
            await task
        assert error.value.code == Code.CANCELLED
        assert [r.code for r in await batch] == [Code.CANCELLED]
        with pytest.raises(dfkv.InvalidError, match="closed"):
            await client.get(b"k")

    with socket.socket() as server:
        asyncio.run(asyncio.wait_for(body(server), 60))


def test_bad_arguments(node):
    async def body(client):
        with pytest.raises(TypeError):
            await client.put(b"k", 5)
        with pytest.raises(TypeError):
            await client.match_prefix(b"one key")
        with pytest.raises(ValueError):
            await client.batch_get_into([b"a"], [])
        with pytest.raises(ValueError):
            await client.get(b"k", deadline_ms=0)
        with pytest.raises(dfkv.InvalidError):
            await client.put(b"k", b"")
        with pytest.raises(dfkv.TooLargeError):
            await client.put(b"k", bytes(100 << 20))

    run(node, body)
    with pytest.raises(dfkv.InvalidError, match="batches_max"):
        dfkv.AsyncClient(f"a={node.address}", b"n", batches_max=1 << 20)


def test_it_belongs_to_one_event_loop(node):
    client = dfkv.AsyncClient(f"a={node.address}", b"n")
    assert asyncio.run(client.exists(b"k")) is False
    with pytest.raises(RuntimeError, match="event loop of its first call"):
        asyncio.run(client.exists(b"k"))
    client.close()


def test_a_child_process_opens_its_own(node):
    async def body(client):
        await client.put(b"k", b"v")
        child = os.fork()
        if child == 0:
            try:
                client._client.exists(b"k")
                os._exit(1)
            except dfkv.InvalidError as error:
                if "fork()" not in str(error):
                    os._exit(2)
            with dfkv.Client(f"node={node.address}", namespace=b"child") as own:
                os._exit(0 if own.get(b"k") is None else 3)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        assert await client.get(b"k") == b"v"

    run(node, body)
