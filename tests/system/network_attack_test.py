"""Attacks over the network: announcements, idle and dripping connections, slow readers, garbage, a stopped node, odd
ranges. New clients are served, memory stays flat, and the node lives.
"""

import os
import random
import signal
import socket
import struct
import time
import unittest

from harness import (CORRUPT, HEADER, INVALID, MAGIC, MIB, NOT_FOUND, OK, TOO_SMALL, Closed, NodeTest, Wire, pause,
                     crc32c, frame_of, get_item, hello_frame, key_item, put_item, request_frame, value_of, wait_for)

SEED = 20260102


class Network(NodeTest):
    def assert_serves(self, node, seconds=20):
        """A new client stores and reads, within that time."""
        value = b"served" * 100
        with Wire(node.port, timeout=seconds) as wire:
            number = random.randrange(1 << 60)
            self.assertEqual(wire.call("put", [put_item(number, value)], value).items[0][1], OK)
            self.assertEqual(wire.call("get", [get_item(number, 4096)]).payload, value)

    def wires(self, node, count, **options):
        found = []
        self.addCleanup(lambda: [wire.close() for wire in found])
        for _ in range(count):
            found.append(Wire(node.port, **options))
        return found


class RangeTest(Network):
    def test_a_range_is_never_the_whole(self):
        node = self.node()
        value = value_of("whole", 300_000)
        self.assertEqual(self.library(node).put("whole", value), OK)
        node.restart("kill")  # cold
        library = self.library(node)
        self.assertEqual(library.get_range("whole", 100_000, 5), (OK, value[100_000:100_005]))
        self.assertEqual(library.get("whole"), (OK, value))
        node.restart()
        self.assertEqual(self.library(node).get("whole"), (OK, value))

    def test_edges(self):
        node = self.node()
        value = bytes(range(256)) * 40
        size = len(value)
        with Wire(node.port) as wire:
            self.assertEqual(wire.call("put", [put_item(1, value)], value).items[0][1], OK)
        for start in ("hot", "cold"):
            if start == "cold":
                node.restart("kill")
            cases = [(0, 0, OK), (0, size, OK), (0, size + 1, OK), (0, 2**64 - 1, OK), (size - 1, 2**64 - 1, OK),
                     (size, 1, OK), (size, 0, OK), (size + 1, 0, INVALID), (size + 1, 1, INVALID),
                     (2**63, 1, INVALID), (2**64 - 1, 2**64 - 1, INVALID), (2**32, 1, INVALID)]
            with Wire(node.port) as wire:
                for offset, length, code in cases:
                    answer = wire.call("get_range", [get_item(1, length, offset)])
                    index, got, stored, payload_bytes, crc = answer.items[0]
                    wanted = value[offset:offset + length] if code == OK else b""
                    self.assertEqual((index, got, payload_bytes), (0, code, len(wanted)), (start, offset, length))
                    self.assertEqual(answer.payload, wanted)
                    if code == OK:
                        self.assertEqual((stored, crc), (size, crc32c(wanted) if wanted else 0))
                for capacity in (0, 1, size - 1):
                    self.assertEqual(wire.call("get", [get_item(1, capacity)]).items[0][1:3], (TOO_SMALL, size))
                self.assertEqual(wire.call("get", [get_item(1, 2**64 - 1)]).payload, value)


class BatchTest(Network):
    def test_own_status_per_item(self):
        node = self.node()
        value = b"v" * 5000
        with Wire(node.port) as wire:
            items = [put_item(1, value), put_item(2, value, crc=1), put_item(3, b""), put_item(1, value),
                     put_item(4, value)]
            answer = wire.call("put", items, value * 2 + value * 2)
            codes = {item[0]: item[1] for item in answer.items}
            self.assertEqual(codes, {0: OK, 1: CORRUPT, 2: INVALID, 3: OK, 4: OK})
            answer = wire.call("get", [get_item(1, 5000), get_item(2, 5000), get_item(4, 4999), get_item(4, 5000),
                                       get_item(1, 2**64 - 1)])
            codes = {item[0]: (item[1], item[2]) for item in answer.items}
            self.assertEqual(codes, {0: (OK, 5000), 1: (NOT_FOUND, 0), 2: (TOO_SMALL, 5000), 3: (OK, 5000),
                                     4: (OK, 5000)})
            answer = wire.call("remove", [key_item(1), key_item(9), key_item(1)])
            self.assertEqual({item[0] for item in answer.items}, {0, 1, 2})
            answer = wire.call("exist", [key_item(1), key_item(4)])
            self.assertEqual([item[1] for item in answer.items], [NOT_FOUND, OK])
        codes = self.library(node).batch_put([("a", value), ("b", b""), ("c", b"x" * (9 * MIB)), ("d", value)])
        self.assertEqual([codes[0], codes[3]], [OK, OK])
        self.assertNotIn(OK, codes[1:3])
        self.assertNotIn(NOT_FOUND, codes[1:3])

    def test_one_key_many_times_in_a_batch(self):
        node = self.node()
        value = b"same" * 1000
        with Wire(node.port) as wire:
            for _ in range(3):
                answer = wire.call("put", [put_item(5, value)] * 200, value * 200)
                self.assertEqual({item[1] for item in answer.items}, {OK})
                answer = wire.call("get", [get_item(5, 4000)] * 200)
                self.assertEqual(answer.payload, value * 200)
                wire.call("remove", [key_item(5)] * 20)


class FloodTest(Network):
    def test_announcements_reserve_nothing(self):
        """60 connections announce 64 MiB and stop."""
        node = self.node("--max-object-bytes=64MiB", "--max-frame-bytes=64MiB")
        before = node.rss()
        wires = self.wires(node, 60)
        for i, wire in enumerate(wires):
            wire.send(request_frame("put", [put_item(i, length=64 * MIB, crc=0)], payload_bytes=64 * MIB))
        self.assert_serves(node)
        for wire in wires[:30]:
            wire.send(b"x")  # the first byte of the value
        self.assert_serves(node)
        self.assertLess(node.rss() - before, 16 * MIB)
        for wire in wires:
            self.assertTrue(wire.closed())
        self.assert_serves(node)

    def test_a_small_announcement_that_stops(self):
        """60 connections hold what a PUT reserves: a byte of 1 MiB each, with memory for 16 of them."""
        node = self.node(ram="16MiB")
        wires = self.wires(node, 60)
        for i, wire in enumerate(wires):
            wire.send(request_frame("put", [put_item(i, length=MIB, crc=0)], payload_bytes=MIB) + b"x")
        for wire in wires:
            self.assertTrue(wire.closed())
        self.assert_serves(node)
        self.assertEqual(node.metrics()["dfkv_put_inflight_bytes"], 0)

    def idle(self, hello):
        node = self.node("--tcp-max-conns=64")
        wires = self.wires(node, 80, hello=hello)
        self.assert_serves(node)
        self.assertGreater(len(wires), 64)
        self.assertGreater(node.metrics()["dfkv_tcp_evicted_connections_total"], 0)

    def test_idle_connections(self):
        self.idle(hello=True)

    def test_silent_connections(self):
        self.idle(hello=False)

    def test_520_connections(self):
        node = self.node()
        self.wires(node, 520)
        self.assert_serves(node, seconds=20)

    def test_dripped_hellos(self):
        node = self.node("--tcp-max-conns=64")
        wires = self.wires(node, 64, hello=False)
        frame = hello_frame()
        for i in range(3):
            for wire in wires:
                try:
                    wire.send(frame[i:i + 1])
                except Closed:
                    pass  # made room
            self.assert_serves(node, seconds=20)

    def test_dripped_puts(self):
        """Every connection drips into a PUT of 64 MiB, which at the least rate may take over a minute."""
        node = self.node("--tcp-max-conns=32", "--max-object-bytes=64MiB", "--min-rate-bytes=1MiB", ram="128MiB")
        wires = self.wires(node, 32)
        for i, wire in enumerate(wires):
            wire.send(request_frame("put", [put_item(i, length=64 * MIB, crc=0)], payload_bytes=64 * MIB) + b"x")
        until = time.monotonic() + 20
        served = False
        while not served:
            self.assertLess(time.monotonic(), until, "drips keep new clients out")
            for wire in wires:
                try:
                    wire.send(b"x")
                except Closed:
                    pass
            pause(0.05)
            try:
                with Wire(node.port, timeout=5) as wire:
                    served = wire.call("ping").code == OK
            except Closed:
                pass  # told that all are busy
        self.assert_serves(node)
        wait_for(lambda: node.metrics()["dfkv_put_inflight_bytes"] == 0)

    def test_more_connections_than_descriptors(self):
        """The limit of open files is lower than that of connections."""
        node = self.node(prefix=["/bin/sh", "-c", 'ulimit -n 100; exec "$@"', "sh"])
        wires = []
        self.addCleanup(lambda: [wire.close() for wire in wires])
        for _ in range(150):
            wires.append(Wire(node.port, hello=False))
        self.assert_serves(node, seconds=20)


class SlowReaderTest(Network):
    def fill(self, node, count, size):
        library = self.library(node)
        for i in range(count):
            self.assertEqual(library.put(f"slow-{i}", value_of(i, size)), OK)

    def test_slow_readers_do_not_stop_the_others(self):
        """Clients that ask for much and take a little now and then hold neither memory nor the others' answers."""
        node = self.node("--write-stall-ms=2000", "--threads=1", ram="16MiB")
        value = value_of("slow", MIB)
        with Wire(node.port) as wire:
            crc = crc32c(value)
            for i in range(8):
                self.assertEqual(wire.call("put", [put_item(i, value, crc=crc)], value).items[0][1], OK)
        readers = self.wires(node, 12, receive_buffer=4096)
        for reader in readers:
            for _ in range(4):
                reader.send(request_frame("get", [get_item(i, MIB) for i in range(8)]))
        deadline = time.monotonic() + 40
        served = 0
        while time.monotonic() < deadline and served == 0:
            for reader in readers:
                try:
                    reader.socket.recv(512)
                except (ConnectionResetError, TimeoutError):
                    pass
            with Wire(node.port, timeout=1) as wire:
                try:
                    served += wire.call("get", [get_item(3, MIB)]).payload == value
                except (TimeoutError, Closed):
                    pass
            pause(0.05)
        self.assertGreater(served, 0, "slow readers starve the others")


    def test_a_reader_in_drips_is_dropped(self):
        """It takes something every 50 ms, which is progress, but not the least rate."""
        node = self.node("--write-stall-ms=1000", "--min-rate-bytes=64MiB", "--request-ms=600000", ram="64MiB")
        value = value_of("slow", MIB)
        with Wire(node.port) as wire:
            crc = crc32c(value)
            for i in range(16):
                self.assertEqual(wire.call("put", [put_item(i, value, crc=crc)], value).items[0][1], OK)
        [reader] = self.wires(node, 1, receive_buffer=4096)
        for _ in range(4):
            reader.send(request_frame("get", [get_item(i, MIB) for i in range(16)], deadline_ms=2**32 - 1))
        until = time.monotonic() + 20
        while node.metrics()['dfkv_tcp_closed_total{reason="write_stall"}'] == 0:
            self.assertLess(time.monotonic(), until, "it holds its answers")
            reader.socket.recv(2048)
            pause(0.05)
        wait_for(lambda: node.metrics()["dfkv_tcp_output_bytes"] < MIB)
        self.assert_serves(node)


class GarbageTest(Network):
    def frames(self, rng):
        """Frames that are wrong in one way each, and pure noise."""
        huge = (2**63, 2**64 - 1, 2**32, 64 * MIB + 1)
        for payload in huge:
            yield request_frame("put", [put_item(1, length=payload, crc=0)], payload_bytes=payload)
        for first, second in ((2**63, 2**63), (2**64 - 1, 2), (2**64 - 8, 16)):
            yield request_frame("put", [put_item(1, length=first), put_item(2, length=second)],
                                payload_bytes=(first + second) % 2**64)
        yield request_frame("put", [put_item(1, length=10)], payload_bytes=9)
        yield request_frame("put", [put_item(1, length=9)], payload_bytes=10)
        for items in (1, 2, 4096, 4097, 2**31, 2**32 - 1):
            yield frame_of("get", b"\0" * 16, items=items)
        for meta in (0, 1, 15, 17, 4095, 2**32 - 1, 4194305):
            yield frame_of("exist", b"\0" * min(meta, 64), items=1, meta_bytes=meta)
        for options in (8, 7, 2**32 - 8, 2**31):
            yield frame_of("exist", b"\0" * 32, items=1, options=options)
        for op in (0, 1, 11, 127, 128, 129, 132, 255):
            yield frame_of(op, b"\0" * 32)
            yield frame_of(op, b"\0" * 32, items=1, payload_bytes=100)
        for version in (0, 2, 255):
            yield frame_of("ping", b"\0" * 16, version=version)
        yield frame_of("ping", b"\0" * 16, crc=1)
        yield frame_of("ping", b"\0" * 16, magic=MAGIC + 1)
        yield frame_of("ping", b"\0" * 16, code=5)
        yield frame_of("ping", b"\0" * 16, flags=255)
        yield frame_of("ping", b"\0" * 16, payload_bytes=10) + b"0123456789"
        yield frame_of("stats", b"\0" * 15)
        yield frame_of("get", struct.pack("<QII", 1, 0, 0) + get_item(1, 10, offset=7), items=1)
        yield hello_frame()
        for number in range(30):
            yield rng.randbytes(rng.randrange(1, 3000))
            good = bytearray(request_frame("get", [get_item(number, 4096)]))
            good[rng.randrange(len(good))] ^= 1 << rng.randrange(8)
            yield bytes(good)
            yield HEADER.pack(MAGIC, 1, rng.randrange(256), 0, 0, 1, rng.getrandbits(32), rng.getrandbits(32),
                              rng.getrandbits(64), rng.getrandbits(32), rng.getrandbits(32))

    def throw(self, port, data, hello):
        """Sends it, and half of it; the node answers or closes, and does not hang on it for long."""
        for part in (data, data[:len(data) // 2]):
            try:
                with Wire(port, hello=hello, timeout=5) as wire:
                    wire.send(part)
                    wire.socket.shutdown(socket.SHUT_WR)
                    self.assertTrue(wire.closed(5), part[:80])
            except Closed:
                pass

    def test_garbage(self):
        node = self.node("--tcp-first-req-ms=1000", "--stall-ms=500", "--metrics-port=0")
        rng = random.Random(SEED)
        value = value_of("kept", 10_000)
        library = self.library(node)
        self.assertEqual(library.put("kept", value), OK)
        for data in self.frames(rng):
            for hello in (True, False):
                self.throw(node.port, data, hello)
        self.assertTrue(node.alive(), node.log()[-2000:])
        self.assertEqual(library.get("kept"), (OK, value))
        self.assert_serves(node)
        self.assertEqual(node.stop(), 0)

    def test_bad_hellos(self):
        node = self.node()
        bodies = [(0, 0), (2, 3), (3, 2), (0, 1), (65535, 65535)]
        for versions in bodies:
            with Wire(node.port, hello=False) as wire:
                wire.send(hello_frame(versions=versions))
                answer = wire.receive()
                self.assertNotEqual(answer.code, OK, versions)
                self.assertTrue(wire.closed(5))
        for limits in ({"payload": 0}, {"largest": 0}, {"items": 0}, {"requests": 0}):
            with Wire(node.port, hello=False) as wire:
                wire.send(hello_frame(**limits))
                self.assertEqual(wire.receive().code, INVALID)
        with Wire(node.port, hello=False) as wire:  # the smallest limits there are
            wire.send(hello_frame(payload=1, largest=1, items=1, requests=1))
            self.assertEqual(wire.receive().code, OK)
            self.assertEqual(wire.call("put", [put_item(1, b"x")], b"x").items[0][1], OK)
            self.assertEqual(wire.call("get", [get_item(1, 10)]).payload, b"x")
        self.assert_serves(node)

    def test_an_unknown_operation_is_skipped(self):
        node = self.node()
        with Wire(node.port) as wire:
            for payload in (b"", b"z" * 1000):
                wire.send(frame_of(77, b"\0" * 16, payload_bytes=len(payload), request_id=9) + payload)
                answer = wire.receive()
                self.assertEqual((answer.code, answer.request_id), (14, 9))
                self.assertEqual(wire.call("ping").code, OK)


class HostileTest(Network):
    """Both ports of a node against what a hostile or broken peer sends: it lives, serves, and holds nothing after."""

    def setUp(self):
        super().setUp()
        self.rng = random.Random(SEED)
        self.target = self.node("--metrics-port=0", "--metrics-first-req-ms=500", "--tcp-first-req-ms=500",
                                "--stall-ms=500", "--max-object-bytes=64MiB", ram="128MiB")
        self.admin_port = int(self.target.ready["metrics"].rsplit(":", 1)[1])
        self.kept = value_of("kept", 10_000)
        self.assertEqual(self.library(self.target).put("kept", self.kept), OK)

    def raw(self, port):
        connection = socket.create_connection(("127.0.0.1", port), timeout=10)
        self.addCleanup(connection.close)
        return connection

    def throw(self, port, data, how):
        """Sends it and leaves: how is 'read' (to the end), 'close', 'reset', or 'half' (then read)."""
        with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
            try:
                connection.sendall(data)
                if how == "reset":
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                if how == "half":
                    connection.shutdown(socket.SHUT_WR)
                if how in ("half", "read"):
                    while connection.recv(1 << 16):
                        pass
            except (BrokenPipeError, ConnectionResetError):
                pass

    def health(self):
        with self.raw(self.admin_port) as connection:
            connection.sendall(b"GET /healthz HTTP/1.1\r\n\r\n")
            answer = b""
            while part := connection.recv(4096):
                answer += part
            self.assertTrue(answer.startswith(b"HTTP/1.1 200 "), answer[:100])

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.target.process.pid}/fd"))

    def unharmed(self, attack, rounds=3):
        """The attack once to warm up, then some more times: descriptors and memory are as after the first."""
        descriptors = self.descriptors()
        attack()
        wait_for(lambda: self.descriptors() <= descriptors, what="closing what the attack left")
        memory = self.target.rss()
        for _ in range(rounds):
            attack()
        self.health()
        self.assert_serves(self.target)
        wait_for(lambda: self.descriptors() <= descriptors, what="closing what the attack left")
        self.assertLess(self.target.rss() - memory, 8 * MIB)
        self.assertTrue(self.target.alive(), self.target.log()[-2000:])
        self.assertEqual(self.library(self.target).get("kept"), (OK, self.kept))
        self.assertEqual(self.target.metrics()["dfkv_put_inflight_bytes"], 0)

    def http_junk(self):
        yield b"GET /metrics HTTP/1.1\r\n\r\n" * 2000
        yield b"GET /" + b"a" * MIB + b" HTTP/1.1\r\n\r\n"
        yield b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 200_000 + b"\r\n"
        yield b"GET / HTTP/1.1\r\nX: " + b"\0" * MIB
        for length in (2**63, 2**64, -1, 10**30):
            yield b"POST /stats HTTP/1.1\r\nContent-Length: %d\r\n\r\nbody" % length
        yield b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n"
        yield b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
        yield b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + self.rng.randbytes(500)  # TLS
        yield b"GET /../../etc/passwd HTTP/1.1\r\n\r\n"
        yield b"GET /%s%n%x HTTP/1.1\r\n\r\n"
        yield b"\r\n" * 5000
        yield b""
        yield request_frame("get", [get_item(1, 10)]) * 50
        for _ in range(20):
            yield self.rng.randbytes(self.rng.randrange(1, 20_000))
            yield self.rng.randbytes(self.rng.randrange(1, 2000)) + b"\n\n"

    def frame_junk(self):
        hello = hello_frame()
        ping, get = frame_of("ping", b"\0" * 16), request_frame("get", [get_item(1, 10)])
        put = request_frame("put", [put_item(9, length=5000, crc=0)], payload_bytes=5000)
        yield hello + ping * 5000
        yield hello * 100
        yield hello + get * 200 + self.rng.randbytes(1000)
        yield hello + put + b"v" * 4999
        yield hello + put * 20
        yield hello + put + b"v" * 5000 + self.rng.randbytes(3000)
        yield b"GET /metrics HTTP/1.1\r\n\r\n"
        for number in (2**63, 2**63 - 1, 2**64 - 1):
            yield hello + request_frame("put", [put_item(9, length=number, crc=0)], payload_bytes=number) + b"x" * 999
            yield hello + request_frame("put", [put_item(9, length=number)] * 2, payload_bytes=number * 2 % 2**64)
            yield hello + request_frame("get_range", [get_item(1, number, offset=number)]) * 3
            yield hello + frame_of("ping", b"\0" * 16, payload_bytes=number) + b"x" * 999
        yield hello + frame_of("get", b"\0" * 64, meta_bytes=2**32 - 1)
        yield hello + frame_of("exist", b"\0" * 32, items=2**32 - 1)
        for _ in range(20):
            yield self.rng.randbytes(self.rng.randrange(1, 20_000))
            yield hello + self.rng.randbytes(self.rng.randrange(1, 20_000))
            damaged = bytearray(hello + put + b"v" * 5000 + get)
            damaged[self.rng.randrange(len(damaged))] ^= 1 << self.rng.randrange(8)
            yield bytes(damaged)

    def everything(self, port, junk):
        for data in junk:
            for how in ("half", "close", "reset"):
                self.throw(port, data, how)

    def test_junk_on_the_admin_port(self):
        self.unharmed(lambda: self.everything(self.admin_port, self.http_junk()))

    def test_junk_on_the_data_port(self):
        self.unharmed(lambda: self.everything(self.target.port, self.frame_junk()))

    def half_open(self, port, openings):
        """Connections that say a beginning and no more; some have closed their side."""
        connections = [self.raw(port) for _ in range(90)]
        for i, connection in enumerate(connections):
            try:
                connection.sendall(openings[i % len(openings)])
                if i % 3 == 0:
                    connection.shutdown(socket.SHUT_WR)
            except (BrokenPipeError, ConnectionResetError):
                pass  # made room
        self.health()
        self.assert_serves(self.target)
        for connection in connections:  # every one is closed by its deadline
            try:
                while connection.recv(1 << 16):
                    pass
            except ConnectionResetError:
                pass
            connection.close()

    def test_half_open_on_the_admin_port(self):
        self.unharmed(lambda: self.half_open(self.admin_port, [b"", b"G", b"GET /metrics HTTP/1.1\r\nHost:"]))

    def test_half_open_on_the_data_port(self):
        begun = request_frame("put", [put_item(9, length=MIB, crc=0)], payload_bytes=MIB)
        self.unharmed(lambda: self.half_open(self.target.port, [b"", b"DFK", hello_frame()[:-1],
                                                                hello_frame() + begun[:40], hello_frame() + begun,
                                                                hello_frame() + begun + b"v" * 70_000]))

    def loris(self, port, words, count):
        """Bytes one by one on many connections, for as long as the node lets any of them."""
        connections = [self.raw(port) for _ in range(count)]
        until = time.monotonic() + 20
        at = 0
        while connections:
            self.assertLess(time.monotonic(), until, "drips are not ended")
            for connection in list(connections):
                connection.settimeout(0)
                try:
                    connection.send(words[at % len(words):][:1])
                    if not connection.recv(1 << 16):
                        raise ConnectionResetError
                except BlockingIOError:
                    pass
                except (BrokenPipeError, ConnectionResetError):
                    connection.close()
                    connections.remove(connection)
            at += 1
            if at % 10 == 0:
                self.health()
                self.assert_serves(self.target)
            pause(0.01)

    def test_loris_on_the_admin_port(self):
        self.unharmed(lambda: self.loris(self.admin_port, b"GET /healthz HTTP/1.1\r\nX: " + b"y" * 4000, 80), rounds=1)

    def test_loris_on_the_data_port(self):
        self.unharmed(lambda: self.loris(self.target.port, hello_frame(), 80), rounds=1)


class StoppedNodeTest(Network):
    def test_stopped_node(self):
        """SIGSTOP: a call ends by its deadline, the next ones miss at once, and it comes back by itself."""
        node = self.node()
        library = self.library(node, deadline_ms=0, stall_ms=1000, peer_cooldown_ms=200, peer_cooldown_max_ms=500)
        value = value_of("kept", 10_000)
        self.assertEqual(self.library(node).put("kept", value), OK)
        node.freeze()
        try:
            started = time.monotonic()
            self.assertNotEqual(library.exist("kept"), OK)
            first = time.monotonic() - started
            started = time.monotonic()
            for _ in range(20):
                self.assertNotEqual(library.exist("kept"), OK)
                self.assertNotEqual(library.get("kept")[0], OK)
            rest = time.monotonic() - started
        finally:
            node.process.send_signal(signal.SIGCONT)
        self.assertLess(first, 10)
        self.assertLess(rest, 10)
        until = time.monotonic() + 20
        while library.get("kept") != (OK, value):
            self.assertLess(time.monotonic(), until, "the node is not found again")
            pause(0.05)


if __name__ == "__main__":
    unittest.main()
