#!/usr/bin/python3
"""Soaks one node: connections come and go, sizes and tenants change, caches overflow, some clients misbehave; memory,
descriptors and threads have to stay flat, and every byte that is read has to be right.

    soak.py [--seconds 600] [--threads 6]

The first third of the time warms up. After that nothing of the node may grow by more than the stated slack
(RSS 8 MiB without the arena, 24 descriptors, no thread), however long it runs: a leak of a few bytes an operation
exceeds that within minutes.
"""

import argparse
import pathlib
import random
import shutil
import sys
import tempfile
import threading
import time

from harness import (BUSY, MIB, NOT_FOUND, OK, Closed, Library, Node, Wire, hello_frame, pause, put_item, request_frame,
                     value_of)

SIZES = (100, 4096, 4097, 20_000, 65_536, 300_000, 1_000_000)
RSS_SLACK_BYTES = 8 * MIB
DESCRIPTOR_SLACK = 24
TENANTS = 40
KEYS = 4000


class Soak:
    """Workers on one node until the time is up; `failures` is what went wrong."""

    def __init__(self, node, seconds, threads, seed):
        self.node, self.seconds, self.seed = node, seconds, seed
        self.until = time.monotonic() + seconds
        self.failures = []
        self.counts = {}
        self.lock = threading.Lock()
        self.workers = [threading.Thread(target=self.guard, args=(self.client, i)) for i in range(threads)]
        self.workers.append(threading.Thread(target=self.guard, args=(self.hostile, threads)))

    def guard(self, work, number):
        rng = random.Random(self.seed + number)
        try:
            while time.monotonic() < self.until and not self.failures:
                work(rng)
        except BaseException as error:  # noqa: B902 - reported by the main thread
            self.failures.append(f"{type(error).__name__}: {error}")

    def count(self, what):
        with self.lock:
            self.counts[what] = self.counts.get(what, 0) + 1

    def client(self, rng):
        """A handle that lives for some operations, of one tenant."""
        tenant = rng.randrange(TENANTS)
        library = Library(f"n0=127.0.0.1:{self.node.port}", namespace=b"soak-%d" % tenant, stall_ms=20_000)
        try:
            for _ in range(rng.randrange(1, 120)):
                number = rng.randrange(KEYS)
                key, size = f"{tenant}-{number}", SIZES[number % len(SIZES)]
                action = rng.random()
                if action < 0.45:
                    code = library.put(key, value_of(key, size))
                    self.expect(code, (OK, BUSY), f"put {key}")
                elif action < 0.55:
                    pairs = [(f"{key}-{i}", value_of(f"{key}-{i}", 4096)) for i in range(rng.randrange(1, 64))]
                    for code in library.batch_put(pairs):
                        self.expect(code, (OK, BUSY), f"batch put {key}")
                elif action < 0.95:
                    code, got = library.get(key)
                    self.expect(code, (OK, NOT_FOUND, BUSY), f"get {key}")
                    if code == OK and got != value_of(key, size):
                        raise AssertionError(f"wrong bytes of {key}")
                else:
                    self.expect(library.remove(key), (OK, NOT_FOUND), f"remove {key}")
        finally:
            library.close()

    def expect(self, code, allowed, what):
        self.count(f"code {code}")
        if code not in allowed:
            raise AssertionError(f"{what}: code {code}")

    def hostile(self, rng):
        """Connections that stop in the middle, send junk, or announce what never comes."""
        wires = []
        try:
            for _ in range(rng.randrange(1, 30)):
                wire = Wire(self.node.port, hello=False)
                wires.append(wire)
                kind = rng.randrange(5)
                if kind == 0:
                    wire.send(rng.randbytes(rng.randrange(1, 500)))
                elif kind == 1:
                    wire.send(hello_frame()[:rng.randrange(1, 60)])
                elif kind >= 2:
                    wire.send(hello_frame())
                    wire.receive()
                    size = rng.choice((1, 5000, MIB))
                    item = put_item(rng.randrange(1 << 30), length=size, crc=0)
                    wire.send(request_frame("put", [item], payload_bytes=size))
                    if kind == 3:
                        wire.send(b"x" * rng.randrange(size))
                self.count("hostile")
        except Closed:
            self.count("closed early")
        finally:
            for wire in wires:
                wire.close()
        pause(0.05)

    def usage(self):
        process = pathlib.Path(f"/proc/{self.node.process.pid}")
        # The kernel's own workers for io_uring come and go, within its limits.
        threads = [name for name in self.thread_names(process) if not name.startswith("iou-")]
        return {"rss": self.node.rss(), "descriptors": len(list((process / "fd").iterdir())),
                "threads": len(threads)}

    def thread_names(self, process):
        for task in (process / "task").iterdir():
            try:
                yield (task / "comm").read_text()
            except (FileNotFoundError, ProcessLookupError):
                continue  # it ended between two looks

    def run(self):
        """The highest usage of the second third of the time, and that of the last."""
        for worker in self.workers:
            worker.start()
        peaks = [{}, {}, {}]
        start = time.monotonic()
        shown = start
        while any(worker.is_alive() for worker in self.workers):
            now = self.usage()
            at = time.monotonic()
            third = min(int(3 * (at - start) / self.seconds), 2)
            for name, value in now.items():
                peaks[third][name] = max(peaks[third].get(name, 0), value)
            if at - shown >= 10:
                shown = at
                print(f"soak: {at - start:.0f}/{self.seconds:.0f} s  RSS {now['rss'] / MIB:.1f} MiB  "
                      f"descriptors {now['descriptors']}  threads {now['threads']}  "
                      f"{sum(self.counts.values())} operations", flush=True)
            if not self.node.alive():
                self.failures.append("the node died: " + self.node.log()[-2000:])
                break
            pause(0.2)
        for worker in self.workers:
            worker.join()
        return peaks[1], peaks[2]


def judge(before, after):
    """What grew."""
    faults = []
    if after["rss"] > before["rss"] + RSS_SLACK_BYTES:
        faults.append(f"RSS grew from {before['rss'] / MIB:.1f} to {after['rss'] / MIB:.1f} MiB")
    if after["descriptors"] > before["descriptors"] + DESCRIPTOR_SLACK:
        faults.append(f"descriptors grew from {before['descriptors']} to {after['descriptors']}")
    if after["threads"] > before["threads"]:
        faults.append(f"threads grew from {before['threads']} to {after['threads']}")
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--threads", type=int, default=6)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    arguments = parser.parse_args()
    print(f"soak: seed {arguments.seed}", flush=True)
    folder = tempfile.mkdtemp(prefix="dfkv_soak.", dir="/var/tmp")
    node = Node(pathlib.Path(folder) / "data", "--stall-ms=500", "--tcp-max-conns=128", cap="256MiB", ram="64MiB")
    try:
        node.start()
        soak = Soak(node, arguments.seconds, arguments.threads, arguments.seed)
        before, after = soak.run()
        faults = soak.failures + (judge(before, after) if before and after else ["it ran too short to compare"])
        if node.alive():
            metrics = node.metrics()
            if metrics["dfkv_corrupt_total"] != 0:
                faults.append(f"{metrics['dfkv_corrupt_total']:.0f} corrupt objects")
            if node.stop() != 0:
                faults.append("the node did not stop cleanly")
    finally:
        if node.alive():
            node.kill()
        shutil.rmtree(folder, True)
    print(f"soak: {soak.counts}")
    print(f"soak: middle third {before}, last third {after}")
    print("soak: ok" if not faults else "soak: FAILED: " + "; ".join(faults))
    return 0 if not faults else 1


if __name__ == "__main__":
    sys.exit(main())
