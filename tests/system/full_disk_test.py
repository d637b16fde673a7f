"""A filesystem that is full: at start, and later. Needs the right to mount; skipped, saying so, without it."""

import os
import shutil
import subprocess
import unittest

from harness import BUSY, IO_ERROR, MIB, NO_SPACE, NOT_FOUND, OK, NodeTest, value_of, wait_for

SIZE = 96 * MIB


class FullDiskTest(NodeTest):
    def mounted(self, kind):
        """A small filesystem of its own."""
        where = self.folder / "mount"
        where.mkdir()
        if kind == "tmpfs":
            command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", where]
        else:
            image = self.folder / "image"
            with open(image, "wb") as file:
                file.truncate(SIZE)
            subprocess.run([f"mkfs.{kind}", "-q", "-F", image], check=True)
            command = ["mount", "-o", "loop", image, where]
        if shutil.which("mount") is None or subprocess.run(command, capture_output=True, check=False).returncode != 0:
            self.skipTest("may not mount")
        self.addCleanup(subprocess.run, ["umount", "-l", str(where)], check=False)
        return where

    def fill(self, where):
        """Takes what is left of the filesystem."""
        with open(where / "filler", "wb", buffering=0) as file:
            try:
                for size in (MIB, 4096):
                    while True:
                        try:
                            file.write(b"f" * size)
                        except OSError:
                            break
            finally:
                os.fsync(file.fileno())

    def test_at_start(self):
        where = self.mounted("ext4")
        node = self.node(name="mount/data", cap="2GiB", start=False)
        text = self.refused(node)
        for part in (str(where / "data"), "2 GiB", "available", "NoSpace"):
            self.assertIn(part, text)
        node.cap = "32MiB"  # what was refused has left nothing in the way
        node.start()
        self.assertEqual(self.library(node).put("a", b"b" * 5000), OK)
        node.stop()
        self.fill(where)
        node.restart()  # its space is its own
        self.assertEqual(self.library(node).get("a"), (OK, b"b" * 5000))
        node.stop()
        node.cap = "64MiB"
        self.assertIn("available", self.refused(node))
        node.cap = "32MiB"
        node.start()
        self.assertEqual(self.library(node).get("a"), (OK, b"b" * 5000))

    def later(self, kind, *flags):
        where = self.mounted(kind)
        node = self.node(*flags, name="mount/data", cap="32MiB")
        library = self.library(node)
        stored = {f"before-{i}": value_of(i, 4096) for i in range(50)}
        for key, value in stored.items():
            self.assertEqual(library.put(key, value), OK)
        self.fill(where)
        codes = set()
        for size in (4096, 30_000, 200_000):  # new extents, new pages of the table
            for i in range(60):
                key = f"full-{size}-{i}"
                value = value_of(key, size)
                code = library.put(key, value)
                codes.add(code)
                if code == OK:
                    stored[key] = value
                else:
                    self.assertEqual(library.get(key)[0], NOT_FOUND)
        self.assertLessEqual(codes, {OK, NO_SPACE, BUSY, IO_ERROR})
        self.check(library, stored)
        os.unlink(where / "filler")

        def stores():
            key = f"after-{len(stored)}"
            stored[key] = value_of(key, 50_000)
            if library.put(key, stored[key]) == OK:
                return True
            del stored[key]
            return False

        wait_for(stores, 30, "storing again")
        for _ in range(20):
            self.assertTrue(stores())
        self.check(library, stored)
        node.restart("kill")
        self.check(self.library(node), stored)

    def check(self, library, stored):
        for key, value in stored.items():
            self.assertTrue(library.get(key) == (OK, value), key)

    def test_later_on_ext4(self):
        self.later("ext4")

    def test_later_on_tmpfs(self):
        self.later("tmpfs", "--io=epoll")


if __name__ == "__main__":
    unittest.main()
