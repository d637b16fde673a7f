"""Attacks over the network: announcements, idle and dripping connections, slow readers, garbage, a stopped node, odd
ranges. New clients are served, memory stays flat, and the node lives.
"""

import random
import signal
import socket
import struct
import time
import unittest

from harness import (CORRUPT, HEADER, INVALID, MAGIC, MIB, NOT_FOUND, OK, TOO_SMALL, Closed, NodeTest, Wire, pause,
                     crc32c, frame_of, get_item, hello_frame, key_item, put_item, request_frame, value_of)

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


class StoppedNodeTest(Network):
    def test_stopped_node(self):
        """SIGSTOP: a call ends by its deadline, the next ones miss at once, and it comes back by itself."""
        node = self.node()
        library = self.library(node, deadline_ms=0, peer_cooldown_ms=200, peer_cooldown_max_ms=500)
        value = value_of("kept", 10_000)
        self.assertEqual(library.put("kept", value), OK)
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
