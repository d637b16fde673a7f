"""Attacks on what a node finds on its disks: flipped, swapped, copied, truncated and deleted bytes, foreign formats,
a second node. Nothing wrong is served, the rest is, and the node starts.
"""

import os
import random
import shutil
import struct
import unittest

from harness import (CORRUPT, MIB, NOT_FOUND, OK, Node, NodeError, NodeTest, value_of)

RECORD = struct.Struct("<IIQQQQQIIII")  # docs/DISK_FORMAT.md
TABLE_HEADER = 4096
SEED = 20260101
SIZES = (3001, 8192, 20_000, 65_536, 100_001)


class Record:
    def __init__(self, offset, raw):
        self.offset, self.raw = offset, raw
        (_, _, self.tenant, self.id_hi, self.id_lo, self.generation, self.slot_address, self.length, self.crc, _,
         self.slot_bytes) = RECORD.unpack(raw)


def records_of(directory):
    """The slot records of a table, empty ones left out."""
    table = (directory / "table").read_bytes()
    found = []
    for offset in range(TABLE_HEADER, len(table) - RECORD.size + 1, RECORD.size):
        raw = table[offset:offset + RECORD.size]
        if raw.strip(b"\0"):
            found.append(Record(offset, raw))
    return found


def overwrite(path, offset, data):
    with open(path, "r+b") as file:
        file.seek(offset)
        file.write(data)


def flip(path, offset):
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)
        file.seek(offset)
        file.write(bytes([byte[0] ^ 0x5A]))


class Damage(NodeTest):
    def setUp(self):
        super().setUp()
        self.random = random.Random(SEED)
        self.values = {}

    def fill(self, library, count=40, prefix="object"):
        values = {}
        for i in range(count):
            key = f"{prefix}-{i}"
            values[key] = value_of(key, SIZES[i % len(SIZES)])
            self.assertEqual(library.put(key, values[key]), OK)
        self.values.update(values)
        return values

    def check(self, library, values, hits=None):
        """No wrong byte; every other answer is a miss. Returns the keys that hit."""
        found = []
        for key, wanted in values.items():
            code, got = library.get(key)
            self.assertIn(code, (OK, NOT_FOUND, CORRUPT), key)
            if code == OK:
                self.assertTrue(got == wanted, f"wrong bytes of {key}")
                found.append(key)
        if hits is not None:
            self.assertEqual(len(found), hits)
        return found

    def check_stores_again(self, node, values):
        """What was lost can be stored again, in any order, and is there after a restart."""
        keys = self.random.sample(list(values), len(values))
        for part in (keys[len(keys) // 2:], keys):
            stored = {key: values[key] for key in part}
            library = self.library(node)
            for key, value in stored.items():
                self.assertEqual(library.put(key, value), OK)
            self.check(library, stored, hits=len(stored))
            node.restart("kill")
            self.check(self.library(node), stored, hits=len(stored))


# --- N1, N2 ---


class DamagedRecordsTest(Damage):
    def flip_payloads(self, node, running):
        directory = node.directory
        library = self.library(node)
        values = self.fill(library, 100)
        if running:
            node.restart()
        else:
            node.stop()
        records = records_of(directory)
        self.assertEqual(len(records), 100)
        for record in records:
            flip(directory / "slab", record.slot_address + self.random.randrange(record.length))
        if not running:
            node.start()
        self.assertEqual(node.objects, 100)
        library = self.library(node)
        keys = list(values)
        for key in keys[:20]:  # a part of a damaged object is as bad as the whole
            self.assertIn(library.get_range(key, 0, 16)[0], (CORRUPT, NOT_FOUND))
        self.check(library, values, hits=0)
        self.assertEqual(node.metrics()["dfkv_corrupt_total"], 100)
        for key in keys:
            self.assertEqual(library.exist(key), NOT_FOUND)
        self.check_stores_again(node, values)

    def test_flipped_payloads(self):
        self.flip_payloads(self.node(), running=False)

    def test_flipped_payloads_of_a_running_node(self):
        self.flip_payloads(self.node("--io=epoll"), running=True)

    def records_attacked(self, attack, lost, corrupt=None, count=40):
        """Runs `attack(directory, records)` between two starts; at most `lost` objects are lost."""
        node = self.node()
        values = self.fill(self.library(node), count)
        node.stop()
        attack(node.directory, records_of(node.directory))
        node.start()
        library = self.library(node)
        found = self.check(library, values)
        self.assertGreaterEqual(len(found), count - lost)
        if corrupt is not None:
            self.assertEqual(node.metrics()["dfkv_rebuild_corrupt_records"], corrupt)
            self.assertEqual(node.log().count("were not valid in their place"), 1)
        self.check_stores_again(node, values)

    def test_swapped_records(self):
        def attack(directory, records):
            for one, other in zip(records[0:20:2], records[1:20:2]):
                overwrite(directory / "table", one.offset, other.raw)
                overwrite(directory / "table", other.offset, one.raw)
        self.records_attacked(attack, lost=20, corrupt=20)

    def test_swapped_records_of_one_class(self):
        """Neighbours of one extent: nothing but the address tells them apart."""
        node = self.node()
        library = self.library(node)
        values = {f"same-{i}": value_of(i, 5000) for i in range(40)}
        for key, value in values.items():
            self.assertEqual(library.put(key, value), OK)
        node.stop()
        records = records_of(node.directory)
        for one, other in zip(records[0::2], records[1::2]):
            overwrite(node.directory / "table", one.offset, other.raw)
            overwrite(node.directory / "table", other.offset, one.raw)
        node.start()
        self.check(self.library(node), values, hits=0)
        self.check_stores_again(node, values)

    def test_duplicated_records(self):
        def attack(directory, records):
            for i in range(10):
                overwrite(directory / "table", records[2 * i].offset, records[2 * i + 1].raw)
                free = records[i].offset + 200 * RECORD.size  # a slot that has none
                overwrite(directory / "table", free, records[i + 20].raw)
        self.records_attacked(attack, lost=20)

    def test_record_flips(self):
        def attack(directory, records):
            for byte in range(RECORD.size):  # every byte of a record, on a record each
                flip(directory / "table", records[byte].offset + byte)
        self.records_attacked(attack, lost=RECORD.size, corrupt=RECORD.size, count=80)

    def test_replayed_records(self):
        """Old copies of records, whose slots have been given to other objects since."""
        node = self.node(cap="16MiB")
        library = self.library(node)
        old = self.fill(library, 300, "old")
        node.stop()
        replayed = records_of(node.directory)
        node.start()
        library = self.library(node)
        for key in old:
            self.assertIn(library.remove(key), (OK, NOT_FOUND))
        young = self.fill(library, 250, "young")
        node.stop()
        for record in replayed:
            overwrite(node.directory / "table", record.offset, record.raw)
        node.start()
        library = self.library(node)
        self.check(library, old)
        self.check(library, young)
        self.check_stores_again(node, dict(list(young.items())[:100]))

    def test_records_of_another_disk(self):
        """The same keys with other bytes, in the same places, of another node."""
        node = self.node()
        other = self.node(name="other")
        library, foreign = self.library(node), self.library(other)
        values = self.fill(library, 40)
        for key, value in values.items():
            self.assertEqual(foreign.put(key, value_of(key, len(value), writer=9)), OK)
        node.stop()
        other.stop()
        for record in records_of(other.directory):
            overwrite(node.directory / "table", record.offset, record.raw)
        node.start()
        self.check(self.library(node), values, hits=0)
        self.assertEqual(node.metrics()["dfkv_rebuild_corrupt_records"], 40)
        self.check_stores_again(node, values)

    def test_two_disks_exchanged(self):
        """Whole files of two disks of one node, exchanged: table and slab apart from each other."""
        node = Node(f"{self.folder}/a,{self.folder}/b", cap="32MiB")
        self.addCleanup(lambda: node.alive() and node.kill())
        node.start()
        values = self.fill(self.library(node), 60)
        node.stop()
        for name in ("slab", "table"):
            for start in (1, 2):
                a, b, spare = (self.folder / "a" / name, self.folder / "b" / name, self.folder / "spare")
                os.rename(a, spare)
                os.rename(b, a)
                os.rename(spare, b)
                node.start()
                found = self.check(self.library(node), values)
                if start == 2:
                    self.assertLessEqual(len(found), 60)
                node.stop()


# --- N3 ---

def delete(path, _):
    path.unlink()


def empty(path, _):
    os.truncate(path, 0)


def halve(path, _):
    os.truncate(path, path.stat().st_size // 2)


def cut_odd(path, _):
    os.truncate(path, path.stat().st_size * 3 // 4 + 77)


def garbage(path, rng):
    size = path.stat().st_size
    path.write_bytes(rng.randbytes(size))


def garbage_behind(path, rng):
    with open(path, "ab") as file:
        file.write(rng.randbytes(100_000))


def zeros(path, _):
    size = path.stat().st_size
    path.write_bytes(bytes(size))


def scatter(path, rng):
    for _ in range(20):
        flip(path, rng.randrange(path.stat().st_size))


class DamagedFilesTest(Damage):
    damages = (delete, empty, halve, cut_odd, garbage, garbage_behind, zeros, scatter)

    def setUp(self):
        super().setUp()
        self.master = self.node(name="master", cap="8MiB")
        self.all = self.fill(self.library(self.master), 40)
        self.master.stop()

    def copy(self, name):
        shutil.copytree(self.master.directory, self.folder / name)
        return self.node(name=name, cap="8MiB", start=False)

    def attack(self, names, damage, least=0):
        """Damages these files; the node starts, serves nothing wrong, and stores again."""
        with self.subTest(damage=damage.__name__, files=names):
            node = self.copy(f"{damage.__name__}-{'-'.join(names)}")
            for name in names:
                damage(node.directory / name, self.random)
            node.start()
            found = self.check(self.library(node), self.all)
            self.assertGreaterEqual(len(found), least)
            self.check_stores_again(node, self.all)
            node.stop()
            shutil.rmtree(node.directory)

    def test_meta(self):
        for damage in self.damages:
            self.attack(["meta"], damage, least=40)

    def test_table(self):
        for damage in self.damages:
            self.attack(["table"], damage, least=20 if damage in (scatter, halve, cut_odd) else 0)

    def test_slab(self):
        for damage in self.damages:
            self.attack(["slab"], damage, least=20 if damage is scatter else 0)

    def test_table_and_slab(self):
        for damage in (delete, empty, halve, garbage):
            self.attack(["table", "slab"], damage)

    def test_meta_and_table(self):
        for damage in (delete, empty, zeros):
            self.attack(["meta", "table"], damage)

    def test_everything(self):
        for damage in (delete, empty, zeros):
            self.attack(["meta", "table", "slab"], damage)

    def test_files_that_are_directories(self):
        for name in ("meta", "table", "slab", "LOCK"):
            with self.subTest(file=name):
                node = self.copy(f"directory-{name}")
                (node.directory / name).unlink()
                (node.directory / name).mkdir()
                self.assertIn(f"{node.directory}/{name}", self.refused(node))

    def test_a_full_header_of_garbage_is_refused(self):
        """When neither copy of the format can be read, the files may be anybody's: refused, and they stay."""
        node = self.copy("nobodys")
        for name in ("meta", "table"):
            garbage(node.directory / name, self.random)
        before = {name: (node.directory / name).read_bytes() for name in ("meta", "table", "slab")}
        self.assertIn("meta", self.refused(node))
        for name, content in before.items():
            self.assertEqual((node.directory / name).read_bytes(), content, name)

    def foreign(self, node, name):
        block = bytearray((node.directory / name).read_bytes()[:56])
        struct.pack_into("<I", block, 8, 77)
        overwrite(node.directory / name, 0, bytes(block))

    def test_a_foreign_version_is_refused(self):
        node = self.copy("foreign")
        self.foreign(node, "meta")
        self.foreign(node, "table")
        before = (node.directory / "slab").read_bytes()
        text = self.refused(node)
        self.assertIn("version", text)
        self.assertIn("77", text)
        self.assertEqual((node.directory / "slab").read_bytes(), before)

    def test_a_flipped_version_is_not_foreign(self):
        """One flipped byte in the version of one copy must not cost the cache."""
        for name in ("meta", "table"):
            with self.subTest(file=name):
                node = self.copy(f"flipped-{name}")
                flip(node.directory / name, 8)
                node.start()
                self.check(self.library(node), self.all, hits=40)
                node.stop()


# --- N4 ---


class SecondNodeTest(Damage):
    def test_second_node_is_refused(self):
        node = self.node()
        library = self.library(node)
        values = self.fill(library, 20)
        directory = node.directory
        link = self.folder / "link"
        link.symlink_to(directory)
        for path in (directory, link, f"{self.folder}/more,{directory}"):
            second = Node(path, cap="64MiB")
            text = self.refused(second)
            self.assertIn("in use", text)
            self.assertIn(str(node.process.pid), text)
        self.assertEqual(self.check(library, values), list(values))
        node.restart("kill")
        self.check(self.library(node), values, hits=20)

    def test_second_node_after_the_lock_file_was_deleted(self):
        node = self.node()
        library = self.library(node)
        values = self.fill(library, 20)
        (node.directory / "LOCK").unlink()
        second = Node(node.directory)
        self.assertIn("in use", self.refused(second))
        self.assertEqual(self.check(library, values), list(values))

    def test_one_directory_twice(self):
        node = Node(f"{self.folder}/a,{self.folder}/a", cap="64MiB")
        with self.assertRaises(NodeError) as raised:
            node.start()
        self.assertIn("in use", str(raised.exception))

    def test_two_at_once(self):
        """Of nodes that start at the same instant on a new directory, one wins."""
        nodes = [Node(self.folder / "data") for _ in range(4)]
        for i, node in enumerate(nodes):
            node.log_path = self.folder / f"log{i}"
            node.spawn()
            self.addCleanup(lambda n=node: n.process and n.end(9))
        lines = [node.process.stdout.readline() for node in nodes]
        self.assertEqual(sum(line.startswith(b"PORT") for line in lines), 1, lines)


if __name__ == "__main__":
    unittest.main()
