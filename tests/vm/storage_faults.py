#!/usr/bin/python3
"""Faults of a real kernel's storage, inside the guest of run_in_vm.sh: `storage_faults.py WORK_FOLDER`.

Power cut: a node writes to a file system on dm-log-writes. Afterwards the log is replayed up to chosen moments; at each
the file system is mounted as after a power cut and a node is started on it. Checked: the node starts; never a wrong
byte; what was acknowledged longer than the bound before the cut is a hit; what was removed as long before is gone.
Disk errors: dm-flakey fails every write for a while. Checked: PUTs are refused with a code, what is stored can still be
read, the node lives, and PUTs work again when the disk does.

Needs three NVMe drives: data, log, replay.
"""

import os
import pathlib
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "system"))
from harness import BUSY, IO_ERROR, MIB, NOT_FOUND, OK, Library, Node, pause, value_of  # noqa: E402
from log_writes import Log  # noqa: E402

DATA, LOG, REPLAY = "/dev/nvme0n1", "/dev/nvme1n1", "/dev/nvme2n1"
SYNC_MS = 200
# Past --sync-ms comes the time of the sync itself, on an emulated CPU and drive.
BOUND_S = SYNC_MS / 1000 + 1.5
SIZES = (3000, 4096, 20_000, 70_000, 150_000)
CUTS = int(os.environ.get("DFKV_POWER_CUTS", "10"))


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)}: status {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


def sectors_of(device):
    return int(run("blockdev", "--getsz", device))


def node_on(folder):
    return Node(folder, f"--sync-ms={SYNC_MS}", "--log=warn", cap="96MiB", ram="32MiB")


def library_of(node):
    # An emulated CPU stalls for longer than a real one.
    return Library(f"n0=127.0.0.1:{node.port}", stall_ms=20_000, deadline_ms=60_000)


class PowerCutTest(unittest.TestCase):
    def setUp(self):
        self.mount = pathlib.Path("/mnt/power_cut")
        self.mount.mkdir(parents=True, exist_ok=True)

    def make_log(self):
        """Runs the workload; returns (time, what, key, size) of each answer, with a mark of the same number in the log."""
        run("dmsetup", "create", "logged", "--table", f"0 {sectors_of(DATA)} log-writes {DATA} {LOG}")
        run("mkfs.ext4", "-q", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0", "/dev/mapper/logged")
        run("mount", "-o", "nodiscard", "/dev/mapper/logged", str(self.mount))
        node = node_on(self.mount / "data").start()
        library = library_of(node)
        answers = []

        def answered(what, key, size):
            answers.append((time.monotonic(), what, key, size))
            run("dmsetup", "message", "logged", "0", "mark", f"answer-{len(answers) - 1}")

        for number in range(160):
            key, size = f"key-{number}", SIZES[number % len(SIZES)]
            self.assertEqual(library.put(key, value_of(key, size)), OK)
            answered("put", key, size)
            if number % 7 == 6:
                gone = f"key-{number - 6}"
                self.assertEqual(library.remove(gone), OK)
                answered("remove", gone, SIZES[(number - 6) % len(SIZES)])
        pause(BOUND_S)
        answered("end", "", 0)
        library.close()
        node.kill()
        run("umount", str(self.mount))
        run("dmsetup", "remove", "logged")
        return answers

    def check_cut(self, answers, last, name):
        """The file system as a cut left it, when answer `last` had been given."""
        run("dmsetup", "create", "cut", "--table", f"0 {sectors_of(REPLAY)} snapshot {REPLAY} /dev/ram0 N 8")
        try:
            run("mount", "/dev/mapper/cut", str(self.mount))
            try:
                return self.check_node(answers, last, name)
            finally:
                run("umount", str(self.mount))
        finally:
            run("dmsetup", "remove", "cut")

    def check_node(self, answers, last, name):
        if not (self.mount / "data").exists():
            self.assertLess(last, 0, f"{name}: no data folder")
            return 0
        node = node_on(self.mount / "data").start()
        library = library_of(node)
        try:
            return self.check_objects(library, answers, last, name)
        finally:
            library.close()
            node.kill()

    def check_objects(self, library, answers, last, name):
        now = answers[last][0] if last >= 0 else 0
        state = {}  # key: (its last answer before the cut, else its first; size; whether it is past the bound)
        for at, what, key, size in answers:
            if key and (key not in state or at <= now):
                state[key] = (what, size, at + BOUND_S <= now)
        found, lost = 0, []
        for key, (what, size, due) in state.items():
            code, got = library.get(key)
            self.assertIn(code, (OK, NOT_FOUND), f"{name}: {key}")
            if code == OK:
                found += 1
                self.assertTrue(got == value_of(key, size), f"{name}: wrong bytes of {key}")
            if due and what == "put" and code != OK:
                lost.append(key)
            self.assertFalse(due and what == "remove" and code == OK, f"{name}: {key} is back after its removal")
        self.assertEqual(lost, [], f"{name}: acknowledged more than {BOUND_S} s before the cut")
        return found

    def test_power_cut(self):
        answers = self.make_log()
        log = Log(LOG)
        marks = {entry.number: int(entry.text.split("-")[1]) for entry in log.entries
                 if entry.is_mark and entry.text.startswith("answer-")}
        self.assertEqual(len(marks), len(answers))
        first = min(marks)
        barriers = [entry.number for entry in log.entries if entry.is_barrier and entry.number >= first]
        # At flushes the log is what the disk must hold; anywhere else, what a disk without a cache of its own holds.
        anywhere = range(first, len(log.entries))
        cuts = sorted({*barriers[::max(len(barriers) * 2 // CUTS, 1)], *anywhere[::max(len(anywhere) * 2 // CUTS, 1)],
                       len(log.entries) - 1})
        print(f"power cut: {len(log.entries)} writes, {len(barriers)} flushes, {len(answers)} answers, {len(cuts)} cuts",
              flush=True)
        device = os.open(REPLAY, os.O_WRONLY)
        done = 0
        for cut in cuts:
            log.replay(device, log.entries[done:cut + 1])
            os.fsync(device)
            done = cut + 1
            last = max((marks[number] for number in marks if number <= cut), default=-1)
            found = self.check_cut(answers, last, f"cut after write {cut}, answer {last}")
            print(f"power cut: after write {cut}, answer {last}: {found} objects, all right", flush=True)
        os.close(device)
        self.assertGreater(found, 100)


class DiskErrorTest(unittest.TestCase):
    MOUNT = pathlib.Path("/mnt/disk_error")

    def table(self, down):
        """A linear device, or one whose writes all fail."""
        times = "0 3600 1 error_writes" if down else "3600 0"
        return f"0 {sectors_of(REPLAY)} flakey {REPLAY} 0 {times}"

    def switch(self, down):
        run("dmsetup", "suspend", "--nolockfs", "flaky")
        run("dmsetup", "load", "flaky", "--table", self.table(down))
        run("dmsetup", "resume", "flaky")

    def test_writes_that_fail(self):
        self.MOUNT.mkdir(parents=True, exist_ok=True)
        run("wipefs", "-a", REPLAY)
        run("dmsetup", "create", "flaky", "--table", self.table(False))
        # Without a journal: ext4 would abort and turn read-only, which is a fault of its own.
        run("mkfs.ext4", "-q", "-O", "^has_journal", "-E", "nodiscard", "/dev/mapper/flaky")
        run("mount", "-o", "nodiscard,errors=continue", "/dev/mapper/flaky", str(self.MOUNT))
        node = node_on(self.MOUNT / "data").start()
        library = library_of(node)
        before = [f"before-{i}" for i in range(40)]
        for key in before:
            self.assertEqual(library.put(key, value_of(key, 50_000)), OK)
        self.switch(down=True)
        codes = {library.put(f"down-{i}", value_of(f"down-{i}", 50_000)) for i in range(20)}
        self.assertNotIn(OK, codes)
        self.assertLessEqual(codes, {IO_ERROR, BUSY}, "a code that says what it is")
        for key in before:
            self.assertEqual(library.get(key), (OK, value_of(key, 50_000)))
        for i in range(20):
            self.assertEqual(library.get(f"down-{i}")[0], NOT_FOUND)
        self.assertTrue(node.alive())
        self.switch(down=False)
        until = time.monotonic() + 60
        while library.put("after", value_of("after", 50_000)) != OK:
            self.assertLess(time.monotonic(), until, "PUTs work again when the disk does")
            pause(0.1)
        self.assertEqual(node.restart("kill").objects, 41)
        library.close()
        library = library_of(node)
        for key in [*before, "after"]:
            self.assertEqual(library.get(key), (OK, value_of(key, 50_000)))
        library.close()
        self.assertEqual(node.stop(), 0)
        run("umount", str(self.MOUNT))
        run("dmsetup", "remove", "flaky")


def prepare():
    os.environ["DM_DISABLE_UDEV"] = "1"
    run("modprobe", "-a", "dm-log-writes", "dm-flakey", "dm-snapshot", "ext4")
    run("modprobe", "brd", "rd_nr=1", f"rd_size={128 * 1024}")


if __name__ == "__main__":
    prepare()
    unittest.main(verbosity=2)
