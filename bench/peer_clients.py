"""One client of one cache, driven line by line: `peer_clients.py PEER ADDRESS` in the Python of that peer.

A request is a line of JSON on stdin, {"operation": "put" or "get", "size", "batch", "seconds", "worker"}; the answer a
line on stdout: {"operations", "seconds", "p50_us", "p99_us"}, or {"error"}. Each peer is used as its own
documents advise for Python: batches where it has them, received into the caller's memory where it can.

A value repeats the number of its object. What a GET gave is compared by its length, its first and its last word; a
wrong one ends the run.
"""

import hashlib
import json
import struct
import sys
import time

WORKING_SET_BYTES = 64 << 20  # of one worker's GETs


def value_of(number, size):
    return struct.pack("<Q", number) * (size // 8)


def check(number, view, size):
    word = struct.pack("<Q", number)
    if len(view) != size or bytes(view[:8]) != word or bytes(view[-8:]) != word:
        raise ValueError(f"wrong bytes in object {number}")


class Dfkv:
    """The package in python/: batch_put, batch_get_into."""

    def __init__(self, address):
        import dfkv
        self.version = f"dfkv {dfkv.library_version()}"
        self.client = dfkv.Client(f"node={address}", "peers")
        self.buffers = []

    def put(self, keys, values):
        for result in self.client.batch_put(keys, values):
            if not result.ok:
                raise ValueError(f"put: {result}")

    def get(self, keys, size):
        if len(self.buffers) < len(keys) or len(self.buffers[0]) != size:
            self.buffers = [bytearray(size) for _ in keys]
        results = self.client.batch_get_into(keys, self.buffers[:len(keys)])
        return [self.buffers[i] if result.ok else None for i, result in enumerate(results)]


class Redis:
    """redis-py with hiredis: MSET and MGET; SET and GET of one."""

    def __init__(self, address):
        import hiredis
        import redis
        self.version = f"redis-py {redis.__version__}, hiredis {hiredis.__version__}"
        host, port = address.split(":")
        self.client = redis.Redis(host=host, port=int(port))

    def put(self, keys, values):
        if len(keys) == 1:
            self.client.set(keys[0], values[0])
        else:
            self.client.mset(dict(zip(keys, values)))

    def get(self, keys, _size):
        return [self.client.get(keys[0])] if len(keys) == 1 else self.client.mget(keys)


class Memcached:
    """pylibmc (libmemcached): set_multi and get_multi, the binary protocol, tcp_nodelay."""

    def __init__(self, address):
        import pylibmc
        self.version = f"pylibmc {pylibmc.__version__}, libmemcached {pylibmc.libmemcached_version}"
        self.client = pylibmc.Client([address], binary=True, behaviors={"tcp_nodelay": True, "no_block": False})

    def put(self, keys, values):
        failed = self.client.set_multi(dict(zip(keys, values)))
        if failed:
            raise ValueError(f"put: {len(failed)} refused")

    def get(self, keys, _size):
        found = self.client.get_multi(keys)
        return [found.get(key) for key in keys]


class Mooncake:
    """MooncakeDistributedStore over TCP: batch_put_from and batch_get_into with registered buffers."""

    def __init__(self, address):
        import importlib.metadata
        import numpy
        from mooncake.store import MooncakeDistributedStore
        self.version = importlib.metadata.version("mooncake-transfer-engine-non-cuda")
        self.numpy = numpy
        self.store = MooncakeDistributedStore()
        if self.store.setup("127.0.0.1", "P2PHANDSHAKE", 0, 64 << 20, "tcp", "", address) != 0:
            raise ValueError("setup failed")
        self.memory = numpy.zeros(64 << 20, dtype=numpy.uint8)
        self.view = memoryview(self.memory)
        self.address = self.memory.ctypes.data
        if self.store.register_buffer(self.address, self.memory.nbytes) != 0:
            raise ValueError("register_buffer failed")

    def addresses(self, count, size):
        return [self.address + i * size for i in range(count)], [size] * count

    def put(self, keys, values):
        size = len(values[0])
        for i, value in enumerate(values):
            self.view[i * size:(i + 1) * size] = value
        for status in self.store.batch_put_from(keys, *self.addresses(len(keys), size)):
            if status < 0:
                raise ValueError(f"put: status {status}")

    def get(self, keys, size):
        lengths = self.store.batch_get_into(keys, *self.addresses(len(keys), size))
        return [self.view[i * size:i * size + length] if length > 0 else None for i, length in enumerate(lengths)]


class LmCache:
    """LMCServerConnector of LMCache against lmcache_server: one object a request; a PUT is not answered.

    The server never evicts: PUTs go round a bounded set of keys.
    """

    put_bytes_max = 64 << 20

    def __init__(self, address):
        import asyncio
        import importlib.metadata
        import types
        import torch
        from lmcache.utils import CacheEngineKey
        from lmcache.v1 import protocol
        from lmcache.v1.memory_management import MemoryFormat, MemoryObjMetadata, TensorMemoryObj
        from lmcache.v1.storage_backend.connector.lm_connector import LMCServerConnector
        self.version = importlib.metadata.version("lmcache")
        self.torch, self.key_type, self.protocol = torch, CacheEngineKey, protocol
        self.objects = (MemoryFormat, MemoryObjMetadata, TensorMemoryObj)
        self.loop = asyncio.new_event_loop()
        host, port = address.split(":")
        # What the connector asks of the engine around it is memory to receive into.
        connector = LMCServerConnector.__new__(LMCServerConnector)
        connector.client_socket = __import__("socket").create_connection((host, int(port)))
        connector.loop = self.loop
        connector.local_cpu_backend = types.SimpleNamespace(allocate=self.allocate)
        connector.async_socket_lock = asyncio.Lock()
        self.connector = connector

    def allocate(self, shape, dtype, fmt):
        return self.memory_object(self.torch.empty(shape, dtype=dtype).flatten().view(self.torch.uint8), shape, dtype, fmt)

    def memory_object(self, raw, shape, dtype, fmt):
        _, metadata, memory_object = self.objects
        return memory_object(raw, metadata(shape, dtype, 0, raw.numel(), 1, 0, fmt), None)

    def key(self, name):
        chunk_hash = int.from_bytes(hashlib.sha256(name.encode()).digest()[:7], "little")
        return self.key_type("bench", 1, 0, chunk_hash, self.torch.uint8)

    def put(self, keys, values):
        for key, value in zip(keys, values):
            made = self.memory_object(self.torch.frombuffer(bytearray(value), dtype=self.torch.uint8),
                                      self.torch.Size([len(value), 1, 1, 1]), self.torch.uint8, self.objects[0](1))
            self.loop.run_until_complete(self.connector.put(self.key(key), made))

    def get(self, keys, _size):
        found = [self.loop.run_until_complete(self.connector.get(self.key(key))) for key in keys]
        return [one and memoryview(one.raw_data.numpy()) for one in found]


PEERS = {"dfkv": Dfkv, "redis": Redis, "memcached": Memcached, "mooncake": Mooncake, "lmcache": LmCache}


class Worker:
    """Runs the requests against one client."""

    def __init__(self, client):
        self.client = client
        self.put_bytes_max = getattr(client, "put_bytes_max", 0)  # 0: every PUT stores a new object
        self.written = 0

    def keys(self, kind, size, worker, numbers):
        return [f"{kind}{size}-{worker}-{number}" for number in numbers]

    def put(self, size, batch, worker):
        numbers = range(self.written, self.written + batch)
        self.written += batch
        if self.put_bytes_max:
            ring = max(self.put_bytes_max // size, batch)
            numbers = [number % ring for number in numbers]
        keys, values = self.keys("p", size, worker, numbers), [value_of(n, size) for n in numbers]
        start = time.perf_counter()
        self.client.put(keys, values)
        return time.perf_counter() - start

    def get(self, size, batch, worker, at):
        objects = max(batch, min(WORKING_SET_BYTES // size, 4096))
        numbers = [(at * batch + i) * 7919 % objects for i in range(batch)]
        keys = self.keys("g", size, worker, numbers)
        start = time.perf_counter()
        values = self.client.get(keys, size)
        took = time.perf_counter() - start
        for number, value in zip(numbers, values):
            if value is None:
                raise ValueError("a miss")
            check(number, value, size)
        return took

    def fill(self, size, batch, worker):
        """The working set, stored anew: what PUTs have evicted since is there again."""
        objects = max(batch, min(WORKING_SET_BYTES // size, 4096))
        for first in range(0, objects, 8):
            numbers = range(first, min(first + 8, objects))
            keys = self.keys("g", size, worker, numbers)
            missing = [n for n, value in zip(numbers, self.client.get(keys, size)) if value is None]
            if missing:
                self.client.put(self.keys("g", size, worker, missing), [value_of(n, size) for n in missing])

    def run(self, operation, size, batch, seconds, worker):
        took = []
        end = time.perf_counter() + seconds
        while time.perf_counter() < end or not took:
            if operation == "put":
                took.append(self.put(size, batch, worker))
            else:
                took.append(self.get(size, batch, worker, len(took)))
        took_in_all = sum(took)
        took.sort()
        return {"operations": len(took) * batch, "seconds": took_in_all, "p50_us": took[len(took) // 2] * 1e6,
                "p99_us": took[len(took) * 99 // 100] * 1e6}


def main():
    name, address = sys.argv[1:3]
    out = sys.stdout
    sys.stdout = sys.stderr  # some peers print
    worker = Worker(PEERS[name](address))
    print(json.dumps({"version": worker.client.version}), file=out, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if request["operation"] == "fill":
                worker.fill(request["size"], request["batch"], request["worker"])
                answer = {}
            else:
                answer = worker.run(**request)
        except Exception as error:  # pylint: disable=broad-except; each peer has its own
            answer = {"error": f"{type(error).__name__}: {error}"[:300]}
        print(json.dumps(answer), file=out, flush=True)


if __name__ == "__main__":
    main()
