"""What the attacks on a node share: a node process, libdfkv.so through ctypes, and the wire protocol by hand.

DFKV_PROGRAMS is the folder of the programs, DFKV_LIBRARY the library; both default to build/release.
"""

import ctypes
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest
from ctypes import byref, c_char_p, c_int, c_uint32, c_uint64, c_void_p

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "python/src"))
from dfkv import _abi  # noqa: E402

PROGRAMS = pathlib.Path(os.environ.get("DFKV_PROGRAMS", ROOT / "build/release/bin"))
LIBRARY = os.environ.get("DFKV_LIBRARY", str(PROGRAMS.parent / "lib/libdfkv.so"))
START_S = 60
MIB = 1 << 20

OK, NOT_FOUND, BUSY, TIMEOUT, CORRUPT, TOO_SMALL, INVALID, UNAVAILABLE, IO_ERROR, NO_SPACE = range(10)
TOO_LARGE, UNSUPPORTED = 11, 14


class NodeError(Exception):
    """The node ended before it was ready; the text is its log."""


class Node:
    """dfkv_server on loopback. Flags as on the command line; data stays over restarts."""

    def __init__(self, directory, *flags, cap="64MiB", ram="32MiB", prefix=(), **popen):
        self.directory = pathlib.Path(directory)
        self.flags = list(flags)
        self.cap, self.ram = cap, ram
        self.prefix, self.popen = list(prefix), popen
        self.process = None
        self.port = 0
        self.log_path = pathlib.Path(str(self.directory).split(",")[0] + ".log")

    def command(self):
        return [*self.prefix, str(PROGRAMS / "dfkv_server"), f"--dir={self.directory}", f"--cap={self.cap}",
                f"--ram-tier-bytes={self.ram}", "--threads=2", *self.flags]

    def spawn(self):
        """Starts the process without waiting for it."""
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(self.command(), stdout=subprocess.PIPE, stderr=log, **self.popen)

    def start(self):
        """Starts and waits until it is ready; NodeError when it ends before."""
        self.spawn()
        ready = {}
        for line in self.process.stdout:
            words = line.decode().split()
            if words[0] == "PORT":
                self.port = int(words[1])
            if words[0] == "READY":
                ready = dict(word.split("=", 1) for word in words[1:] if "=" in word)
                break
        if not ready:
            status = self.process.wait(timeout=START_S)
            self.process.stdout.close()
            self.process = None
            raise NodeError(f"status {status}: {self.log()[-3000:]}")
        self.ready = ready
        self.objects = int(ready["objects"])
        return self

    def log(self):
        return self.log_path.read_text(errors="replace")

    def kill(self):
        self.end(signal.SIGKILL)

    def stop(self):
        """A graceful stop; returns the exit status."""
        return self.end(signal.SIGTERM)

    def end(self, number):
        if self.process is None:
            return None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
        self.process.send_signal(number)
        try:
            status = self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait()
            raise AssertionError(f"the node did not stop: {self.log()[-3000:]}") from None
        finally:
            self.process.stdout.close()
            self.process = None
        return status

    def restart(self, how="stop"):
        getattr(self, how)()
        return self.start()

    def freeze(self):
        """SIGSTOP, and waits until every thread has stopped."""
        self.process.send_signal(signal.SIGSTOP)
        tasks = pathlib.Path(f"/proc/{self.process.pid}/task")
        wait_for(lambda: all(path.read_text().rsplit(")", 1)[1].split()[0] == "T" for path in tasks.glob("*/stat")))

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def rss(self):
        """Resident memory in bytes, without the arena (shared memory)."""
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
        raise AssertionError("no RssAnon")

    def cpu_seconds(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def metrics(self):
        """Every sample of the node, by name with labels."""
        with Wire(self.port) as wire:
            text = wire.call("stats").payload.decode()
        samples = {}
        for line in text.splitlines():
            if line and not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                samples[name] = float(value)
        return samples


class NodeTest(unittest.TestCase):
    """A test with a folder for data, and nodes that are gone when it ends."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="dfkv_attack.", dir="/var/tmp"))
        self.addCleanup(shutil.rmtree, self.folder, True)

    def node(self, *flags, name="data", start=True, **options):
        node = Node(self.folder / name, *flags, **options)
        self.addCleanup(lambda: node.alive() and node.kill())
        return node.start() if start else node

    def library(self, *nodes, **options):
        library = Library(",".join(f"n{i}=127.0.0.1:{node.port}" for i, node in enumerate(nodes)), **options)
        self.addCleanup(library.close)
        return library

    def refused(self, node):
        """The node does not start; returns what it says about that."""
        with self.assertRaises(NodeError) as raised:
            node.start()
        text = str(raised.exception)
        self.assertNotIn("check failed", text.lower())
        return text


def value_of(key, size, writer=0):
    """Bytes that name their key and writer all over, so that any mix of two values is seen."""
    stamp = struct.pack("<QQ", hash_of(key), writer) + b"%-16d" % writer
    return (stamp * (size // len(stamp) + 1))[:size]


def hash_of(key):
    number = 0xCBF29CE484222325
    for byte in str(key).encode():
        number = (number ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return number


def pause(seconds):
    """Lets a process run for a moment, between two looks at it or before a fault strikes it. The one place of a
    sleep: nothing may depend on what happens meanwhile (docs/decisions/0005)."""
    time.sleep(seconds)


def wait_for(condition, seconds=20, what="the condition"):
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            raise AssertionError(f"{what} did not come true in {seconds} s")
        pause(0.01)


# --- libdfkv.so ---


class Library:
    """One handle of libdfkv.so; calls return codes, and values where there are some. Any thread."""

    def __init__(self, members, namespace=b"attack", deadline_ms=20_000, **fields):
        self.lib = ctypes.CDLL(LIBRARY)
        for name in ("dfkv_close", "dfkv_put3", "dfkv_get3", "dfkv_get_range3", "dfkv_exist3", "dfkv_remove3",
                     "dfkv_lookup3", "dfkv_match3", "dfkv_batch_put3", "dfkv_batch_get3"):
            getattr(self.lib, name).restype = c_int
        self.lib.dfkv_close.restype = None
        fields.setdefault("stall_ms", 10_000)  # a busy machine is no dead node
        options = _abi.OpenOptions(struct_size=ctypes.sizeof(_abi.OpenOptions), members=members.encode(),
                               key_namespace=namespace, key_namespace_len=len(namespace), **fields)
        self.handle = c_void_p()
        code = self.lib.dfkv_open3(byref(options), byref(self.handle))
        if code != OK:
            raise AssertionError(f"dfkv_open3: {code}")
        self.call = _abi.CallOptions(ctypes.sizeof(_abi.CallOptions), 0, deadline_ms, 0)

    def close(self):
        self.lib.dfkv_close(self.handle)

    def _key(self, key):
        return key.encode() if isinstance(key, str) else key

    def put(self, key, value, depth=0xFFFFFFFF):
        key = self._key(key)
        return self.lib.dfkv_put3(self.handle, key, c_uint64(len(key)), value, c_uint64(len(value)), c_uint32(depth),
                                  byref(self.call))

    def get(self, key, cap=2 * MIB):
        """(code, value or None)."""
        key = self._key(key)
        buffer = ctypes.create_string_buffer(cap)
        length = c_uint64()
        code = self.lib.dfkv_get3(self.handle, key, c_uint64(len(key)), buffer, c_uint64(cap), byref(length),
                                  byref(self.call))
        return code, buffer[:length.value] if code == OK else None

    def get_range(self, key, offset, size):
        key = self._key(key)
        buffer = ctypes.create_string_buffer(max(size, 1))
        length = c_uint64()
        code = self.lib.dfkv_get_range3(self.handle, key, c_uint64(len(key)), c_uint64(offset), buffer,
                                        c_uint64(size), byref(length), byref(self.call))
        return code, buffer[:length.value] if code == OK else None

    def exist(self, key):
        key = self._key(key)
        return self.lib.dfkv_exist3(self.handle, key, c_uint64(len(key)), byref(self.call))

    def remove(self, key):
        key = self._key(key)
        return self.lib.dfkv_remove3(self.handle, key, c_uint64(len(key)), byref(self.call))

    def _batch(self, function, item_type, items):
        """Results of [(key, buffer or bytes, size, what follows in the item)]."""
        buffers = (_abi.Buffer * len(items))()
        wanted = (item_type * len(items))()
        results = (_abi.Result * len(items))()
        held = [ctypes.create_string_buffer(self._key(key)) for key, *_ in items]
        for i, (key, data, size, *rest) in enumerate(items):
            buffers[i].ptr, buffers[i].len = ctypes.cast(data, c_void_p) if size else None, size
            wanted[i] = item_type(ctypes.addressof(held[i]), len(self._key(key)), ctypes.addressof(buffers[i]), 1, *rest)
        code = function(self.handle, wanted, c_uint64(len(items)), results, byref(self.call))
        assert code == OK, code
        return list(results)

    def batch_put(self, items):
        """Codes of [(key, value)]."""
        rows = [(key, c_char_p(value), len(value), 0xFFFFFFFF) for key, value in items]
        return [result.code for result in self._batch(self.lib.dfkv_batch_put3, _abi.PutItem, rows)]

    def batch_get(self, items):
        """(code, value or length) of [(key, cap)]."""
        rows = [(key, ctypes.create_string_buffer(max(cap, 1)), cap, 0, 0) for key, cap in items]
        results = self._batch(self.lib.dfkv_batch_get3, _abi.GetItem, rows)
        return [(r.code, row[1][:r.length] if r.code == OK else r.length) for r, row in zip(results, rows)]


# --- The wire protocol by hand (docs/PROTOCOL.md) ---

OPS = {"hello": 1, "ping": 2, "stats": 3, "put": 4, "get": 5, "get_range": 6, "exist": 7, "remove": 8, "lookup": 9,
       "match": 10}
MAGIC = 0x334B4644
HEADER = struct.Struct("<IBBBBQIIQII")
PREFIX = struct.Struct("<QII")
KEY_ITEM = struct.Struct("<QQ")
GET_ITEM = struct.Struct("<QQQQ")
PUT_ITEM = struct.Struct("<QQQII")
ANSWER_ITEM = struct.Struct("<IB3xQII")
HELLO_BODY = struct.Struct("<HHIQQIIQ")


def _crc_table():
    table = []
    for number in range(256):
        for _ in range(8):
            number = number >> 1 ^ (0x82F63B78 if number & 1 else 0)
        table.append(number)
    return table


CRC_TABLE = _crc_table()


def crc32c(data, crc=0):
    crc ^= 0xFFFFFFFF
    for byte in data:
        crc = CRC_TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def frame_of(op, meta=b"", *, items=0, options=0, payload_bytes=0, request_id=1, flags=0, code=0, version=1,
             magic=MAGIC, meta_bytes=None, crc=None):
    """Header and meta; every field may be forged."""
    op = OPS.get(op, op)
    meta_bytes = len(meta) if meta_bytes is None else meta_bytes
    fields = [magic, version, op, flags, code, request_id, meta_bytes, 0, payload_bytes, items, options]
    fields[7] = crc32c(HEADER.pack(*fields) + meta) if crc is None else crc
    return HEADER.pack(*fields) + meta


def hello_frame(payload=64 * MIB, largest=64 * MIB, items=4096, requests=256, versions=(1, 1)):
    return frame_of("hello", HELLO_BODY.pack(*versions, 0, payload, largest, items, requests, 0))


def request_frame(op, items, *, tenant=7, deadline_ms=10_000, payload_bytes=0, request_id=1, **forged):
    """items: packed ones."""
    meta = PREFIX.pack(tenant, deadline_ms, 0) + b"".join(items)
    return frame_of(op, meta, items=len(items), payload_bytes=payload_bytes, request_id=request_id, **forged)


class Answer:
    def __init__(self, op, code, request_id, items, payload, more):
        self.op, self.code, self.request_id, self.items, self.payload, self.more = (op, code, request_id, items,
                                                                                    payload, more)


class Closed(Exception):
    """The node closed the connection."""


class Wire:
    """One connection. hello=False: nothing was said yet."""

    def __init__(self, port, hello=True, timeout=20, receive_buffer=None):
        self.socket = socket.socket()
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(timeout)
        self.socket.connect(("127.0.0.1", port))
        if hello:
            self.send(hello_frame())
            assert self.receive().op == 0x81

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def send(self, data):
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise Closed(str(error)) from None

    def read(self, size):
        parts = bytearray()
        while len(parts) < size:
            try:
                part = self.socket.recv(min(size - len(parts), 1 << 20))
            except ConnectionResetError as error:
                raise Closed(str(error)) from None
            if not part:
                raise Closed(f"after {len(parts)} of {size} bytes")
            parts += part
        return bytes(parts)

    def receive(self):
        magic, _, op, flags, code, request_id, meta_bytes, _, payload_bytes, items, options = HEADER.unpack(
            self.read(HEADER.size))
        assert magic == MAGIC, hex(magic)
        meta = self.read(meta_bytes)
        payload = self.read(payload_bytes)
        fixed = meta_bytes - items * ANSWER_ITEM.size - options
        found = [ANSWER_ITEM.unpack_from(meta, fixed + i * ANSWER_ITEM.size) for i in range(items)]
        return Answer(op, code, request_id, found, payload, bool(flags & 1))

    def call(self, op, items=(), payload=b"", **fields):
        """One request and all its answer frames; items' payloads are appended in the order they came."""
        self.send(request_frame(op, list(items), payload_bytes=len(payload), **fields) + payload)
        whole = self.receive()
        while whole.more:
            part = self.receive()
            whole.items += part.items
            whole.payload += part.payload
            whole.more = part.more
        return whole

    def closed(self, seconds=15):
        """Whether the node closes the connection within that time; what it says before is read."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.socket.settimeout(max(until - time.monotonic(), 0.01))
            try:
                if not self.socket.recv(1 << 16):
                    return True
            except ConnectionResetError:
                return True
            except TimeoutError:
                return False
        return False


def put_item(number, value=b"", *, length=None, crc=None, depth=0xFFFFFFFF, hi=1):
    return PUT_ITEM.pack(hi, number, len(value) if length is None else length,
                         crc32c(value) if crc is None else crc, depth)


def get_item(number, length, offset=0, hi=1):
    return GET_ITEM.pack(hi, number, offset, length)


def key_item(number, hi=1):
    return KEY_ITEM.pack(hi, number)
