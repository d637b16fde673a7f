"""Attacks by load: kill -9 in the middle of everything, few keys stored, read and removed from several threads, more
than the disk takes, full caches, and restarts with other sizes.
"""

import random
import signal
import threading
import time
import unittest

from harness import (BUSY, MIB, NOT_FOUND, OK, TIMEOUT, UNAVAILABLE, NodeTest, pause, value_of, wait_for)

SEED = 20260103


def in_threads(count, work):
    """Runs work(i) in threads; the first failure is raised."""
    failures = []

    def guarded(i):
        try:
            work(i)
        except BaseException as error:  # noqa: B902 - handed to the test's thread
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


class KillTest(NodeTest):
    SIZES = (3000, 4096, 20_000, 150_000)

    def put_until_it_dies(self, node, run, threads=3):
        """Acknowledged keys of threads that store until the node is gone."""
        acknowledged = [[] for _ in range(threads)]
        libraries = [self.library(node, deadline_ms=3000) for _ in range(threads)]

        def work(i):
            for number in range(10_000):
                key = f"{run}-{i}-{number}"
                size = self.SIZES[number % len(self.SIZES)]
                code = libraries[i].put(key, value_of(key, size))
                if code in (UNAVAILABLE, TIMEOUT):
                    return
                if code == OK:
                    acknowledged[i].append((key, size))

        def kill():
            wait_for(lambda: sum(map(len, acknowledged)) > 5 + 3 * (run % 7), what="some PUTs")
            node.process.kill()

        killer = threading.Thread(target=kill)
        killer.start()
        in_threads(threads, work)
        killer.join()
        return [pair for part in acknowledged for pair in part]

    def check(self, node, acknowledged):
        library = self.library(node)
        for key, size in acknowledged:
            code, got = library.get(key)
            self.assertEqual(code, OK, f"{key} of {size} bytes was acknowledged")
            self.assertTrue(got == value_of(key, size), f"wrong bytes of {key}")

    def kill_loop(self, *flags):
        node = self.node(*flags, cap="192MiB")
        acknowledged = []
        for run in range(20):
            stored = self.put_until_it_dies(node, run)
            node.kill()
            if run % 5 == 2:  # and once more while it recovers
                node.spawn()
                pause(0.002 * run)
                node.kill()
            node.start()
            acknowledged += stored
            self.check(node, stored)
        self.check(node, acknowledged)
        self.assertEqual(node.metrics()["dfkv_corrupt_total"], 0)
        self.assertGreater(len(acknowledged), 100)

    def test_kill_loop_on_uring(self):
        self.kill_loop()

    def test_kill_loop_on_epoll(self):
        self.kill_loop("--io=epoll")

    def test_kill_while_stopping(self):
        node = self.node(cap="192MiB")
        acknowledged = []
        for run in range(6):
            library = self.library(node)
            for i in range(30):
                key = f"{run}-{i}"
                self.assertEqual(library.put(key, value_of(key, 50_000)), OK)
                acknowledged.append((key, 50_000))
            node.process.send_signal(signal.SIGTERM)
            pause(0.001 * run)
            node.kill()
            node.start()
            self.check(node, acknowledged)

    def test_removed_stays_removed(self):
        """kill -9 in the middle of removals: what was acknowledged as removed does not come back."""
        node = self.node()
        for run in range(5):
            library = self.library(node, deadline_ms=3000)
            keys = [f"{run}-{i}" for i in range(60)]
            for key in keys:
                self.assertEqual(library.put(key, value_of(key, 9000)), OK)
            removed = []

            def work(i, library=library, keys=keys, removed=removed):
                for key in keys[i::2]:
                    if library.remove(key) != OK:
                        return
                    removed.append(key)
                    if len(removed) == 20 + run:
                        node.process.kill()

            in_threads(2, work)
            node.kill()
            node.start()
            library = self.library(node)
            for key in removed:
                self.assertEqual(library.get(key)[0], NOT_FOUND, key)
            for key in set(keys) - set(removed):
                code, got = library.get(key)
                self.assertIn(code, (OK, NOT_FOUND))
                self.assertIn(got, (None, value_of(key, 9000)))


class RegisterTest(NodeTest):
    """Few keys under many hands. A value names its writer, so a mix and a value that comes back are seen."""

    def churn(self, node, sizes, removes, seconds=2.5, threads=4, keys=6):
        lock = threading.Lock()
        state = [{"next": 1, "present": False} for _ in range(keys)]
        until = time.monotonic() + seconds
        libraries = [self.library(node) for _ in range(threads)]
        counts = {OK: 0, NOT_FOUND: 0}

        def check(key, got):
            writer = int(got[16:32])
            self.assertTrue(got == value_of(f"k{key}", sizes[key % len(sizes)], writer), f"a mix in k{key}")
            self.assertLess(writer, state[key]["next"], "of a PUT that nobody made")

        def work(i):
            rng = random.Random(SEED + i)
            library = libraries[i]
            while time.monotonic() < until:
                key = rng.randrange(keys)
                name, size, of = f"k{key}", sizes[key % len(sizes)], state[key]
                action = rng.random()
                if action < 0.35:
                    with lock:
                        writer = of["next"]
                        of["next"] += 1
                    code = library.put(name, value_of(name, size, writer))
                    self.assertIn(code, (OK, BUSY))
                    if code == OK and not removes:
                        of["present"] = True
                elif action < 0.9 or not removes:
                    present = of["present"]
                    code, got = library.get(name)
                    self.assertIn(code, (OK, NOT_FOUND, BUSY), name)
                    counts[code] = counts.get(code, 0) + 1
                    if code == OK:
                        check(key, got)
                    if present:
                        self.assertNotEqual(code, NOT_FOUND, f"{name}: a spurious miss")
                elif action < 0.95:
                    library.exist(name)
                else:
                    self.assertIn(library.remove(name), (OK, NOT_FOUND))

        in_threads(threads, work)
        self.assertGreater(counts[OK], 100)
        return state, counts

    def test_no_spurious_miss(self):
        """Nothing is removed and there is room for all: after its first PUT a key always hits, with its first bytes."""
        node = self.node(ram="2MiB")  # 16 extents of 128 KiB: promoted and evicted all the time
        sizes = (100_000, 60_000, 128_000, 5000)
        state, _ = self.churn(node, sizes, removes=False, keys=40)
        library = self.library(node)
        first = {key: library.get(f"k{key}") for key in range(40) if state[key]["present"]}
        self.assertEqual({code for code, _ in first.values()}, {OK})
        node.restart("kill")
        library = self.library(node)
        for key, wanted in first.items():
            self.assertTrue(library.get(f"k{key}") == wanted, f"k{key} changed")

    def test_removes(self):
        node = self.node("--io=epoll", ram="2MiB")
        self.churn(node, (100_000, 5000, 60_000), removes=True)

    def test_one_winner(self):
        """Many PUTs of one key at once: one value, for everybody, also after a restart."""
        node = self.node()
        threads = 4
        libraries = [self.library(node) for _ in range(threads)]
        barrier = threading.Barrier(threads)
        seen = [{} for _ in range(threads)]

        def work(i):
            for number in range(100):
                key = f"one-{number}"
                barrier.wait()
                self.assertEqual(libraries[i].put(key, value_of(key, 30_000, writer=i + 1)), OK)
                code, got = libraries[i].get(key)
                self.assertEqual(code, OK)
                seen[i][key] = got

        in_threads(threads, work)
        for part in seen[1:]:
            self.assertTrue(part == seen[0], "two winners")
        node.restart("kill")
        library = self.library(node)
        for key, value in seen[0].items():
            self.assertTrue(library.get(key) == (OK, value), key)

    def test_removal_is_final(self):
        """Each value is stored once, then removed while others read and store it: afterwards it is gone."""
        node = self.node(ram="2MiB")
        threads = 4
        libraries = [self.library(node) for _ in range(threads)]
        barrier = threading.Barrier(threads)

        def work(i):
            for number in range(150):
                key, size = f"final-{number}", (90_000, 4000)[number % 2]
                barrier.wait()
                if i == 0:
                    self.assertEqual(libraries[0].put(key, value_of(key, size, number)), OK)
                barrier.wait()
                if i == 1:
                    self.assertEqual(libraries[1].remove(key), OK)
                elif i > 1:
                    code, got = libraries[i].get(key)
                    self.assertIn(code, (OK, NOT_FOUND))
                    self.assertIn(got, (None, value_of(key, size, number)))
                barrier.wait()
                self.assertEqual(libraries[i].get(key)[0], NOT_FOUND, key)

        in_threads(threads, work)
        node.restart("kill")
        library = self.library(node)
        for number in range(150):
            self.assertEqual(library.exist(f"final-{number}"), NOT_FOUND)


class SpaceTest(NodeTest):
    def test_puts_faster_than_the_disk(self):
        """Memory stays flat; what cannot be taken is Busy, not lost and not wrong."""
        node = self.node(cap="128MiB", ram="16MiB")
        before = node.rss()
        libraries = [self.library(node) for _ in range(4)]
        codes = {}
        peak = [0]

        def work(i):
            value = value_of(i, MIB)
            for number in range(60):
                code = libraries[i].put(f"{i}-{number}", value)
                codes[code] = codes.get(code, 0) + 1
                if number % 10 == 0:
                    peak[0] = max(peak[0], node.rss())

        in_threads(4, work)
        self.assertLessEqual(set(codes), {OK, BUSY})
        self.assertGreater(codes[OK], 100)
        self.assertLess(peak[0] - before, 24 * MIB)
        library = self.library(node)
        for i in range(4):
            code, got = library.get(f"{i}-59")
            self.assertIn(code, (OK, NOT_FOUND))
            self.assertIn(got, (None, value_of(i, MIB)))

    def test_small_objects_fill_the_cap(self):
        """4 KiB objects: at least 97 % of the cap holds them, and a restart finds them all."""
        node = self.node(cap="32MiB")
        library = self.library(node)
        fits = 32 * MIB // 4096
        value = b"4" * 4096
        for start in range(0, fits + 500, 500):
            codes = library.batch_put([(f"s{i}", value) for i in range(start, start + 500)])
            self.assertEqual(set(codes), {OK})
        objects = node.metrics()["dfkv_objects"]
        self.assertGreater(objects, fits * 0.97)
        node.restart("kill")
        self.assertEqual(node.objects, objects)

    def test_a_new_size_in_a_full_cache(self):
        """What was just written survives, whatever its size, and the old size is not flushed as a whole."""
        node = self.node(cap="64MiB", ram="64MiB")
        library = self.library(node)
        for i in range(64):
            self.assertEqual(library.put(f"old-{i}", value_of(f"old-{i}", 900_000)), OK)
        for size in (50_000, 4096, 300_000):
            fresh = [f"new-{size}-{i}" for i in range(20)]
            for key in fresh:
                self.assertEqual(library.put(key, value_of(key, size)), OK)
            found = [library.get(key) for key in fresh]
            hits = [key for key, pair in zip(fresh, found) if pair == (OK, value_of(key, size))]
            self.assertEqual(hits, fresh)
        left = sum(library.exist(f"old-{i}") == OK for i in range(64))
        self.assertGreater(left, 40)


class OtherSizesTest(NodeTest):
    """Restarts with other sizes keep what can be kept, and say what they do not."""

    def setUp(self):
        super().setUp()
        self.values = {f"big-{i}": value_of(f"big-{i}", 3 * MIB) for i in range(4)}
        self.values.update({f"small-{i}": value_of(f"small-{i}", 40_000) for i in range(40)})

    def hits(self, node):
        library = self.library(node)
        found = []
        for key, value in self.values.items():
            code, got = library.get(key, 4 * MIB)
            self.assertIn(code, (OK, NOT_FOUND))
            self.assertEqual(library.exist(key), code, "present is readable")
            if code == OK:
                self.assertTrue(got == value, key)
                found.append(key)
        return found

    def restart(self, node, **sizes):
        node.stop()
        for name, size in sizes.items():
            setattr(node, name, size)
        node.start()

    def test_ram_tier(self):
        node = self.node(cap="128MiB", ram="64MiB")
        library = self.library(node)
        for key, value in self.values.items():
            self.assertEqual(library.put(key, value), OK)
        self.restart(node, ram="1MiB")
        self.assertEqual([key for key in self.hits(node) if key.startswith("big")], [])
        self.assertEqual(len(self.hits(node)), 40)
        self.assertIn("4 objects of up to 3 MiB are kept but not served", node.log())
        library = self.library(node)
        self.assertNotEqual(library.put("big-0", self.values["big-0"]), OK)
        small = value_of("big-1", 1000, writer=5)  # the key is free to be stored
        self.assertEqual(library.put("big-1", small), OK)
        self.assertEqual(library.get("big-1"), (OK, small))
        self.assertIn(library.remove("big-2"), (OK, NOT_FOUND))
        self.restart(node, ram="64MiB")
        self.values["big-1"] = small
        found = self.hits(node)
        self.assertEqual(sorted(set(self.values) - set(found)), ["big-2"])

    def test_capacity(self):
        node = self.node(cap="128MiB", ram="64MiB")
        library = self.library(node)
        for key, value in self.values.items():
            self.assertEqual(library.put(key, value), OK)
        self.restart(node, cap="256MiB")
        self.assertEqual(len(self.hits(node)), 44)
        self.restart(node, cap="128MiB")
        self.assertEqual(len(self.hits(node)), 44)
        self.restart(node, cap="8MiB")
        few = self.hits(node)
        self.assertLess(len(few), 44)
        self.assertIn("shrinks", node.log())
        self.restart(node, cap="128MiB")
        self.assertEqual(self.hits(node), few)
        library = self.library(node)
        for key, value in self.values.items():
            self.assertEqual(library.put(key, value), OK)
        node.restart("kill")
        self.assertEqual(len(self.hits(node)), 44)

    def test_extent_size(self):
        node = self.node(cap="128MiB", ram="64MiB")
        library = self.library(node)
        for key, value in self.values.items():
            self.assertEqual(library.put(key, value), OK)
        node.flags = ["--extent-bytes=1MiB"]
        node.restart()
        self.assertEqual(len(self.hits(node)), 44)
        self.assertIn("extent size", node.log())


if __name__ == "__main__":
    unittest.main()
