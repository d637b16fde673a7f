"""Each floor runs for a tenth of a second and prints sane JSON: `floor_test.py FOLDER_OF_PROGRAMS`."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAMS = pathlib.Path(sys.argv.pop() if len(sys.argv) > 1 else "build/release/bin")
TIMEOUT_S = 60


def run(name, *flags, seconds=0.1):
    done = subprocess.run([PROGRAMS / name, f"--seconds={seconds}", "--warm-up=0.02", *flags], capture_output=True,
                          text=True, timeout=TIMEOUT_S, check=False)
    return done.returncode, done.stdout, done.stderr


class Floors(unittest.TestCase):
    def measure(self, name, *flags):
        for seconds in (0.1, 0.5, 2.5, 12.5):  # on a crowded machine nothing may happen in a short time
            status, out, err = run(name, *flags, seconds=seconds)
            self.assertEqual(status, 0, err)
            result = json.loads(out)
            self.assertEqual(result["program"], name)
            self.assertGreaterEqual(result["seconds"], seconds)
            if result["gb_per_s"] > 0:
                break
        self.assertGreater(result["gb_per_s"], 0)
        self.assertLess(result["gb_per_s"], 1000)
        cpu = [value for key, value in result.items() if key.endswith("cpu_s_per_gb")]
        self.assertTrue(cpu)
        for value in cpu:
            self.assertGreaterEqual(value, 0, result)
        self.assertGreater(sum(cpu), 0, result)
        return result

    def test_tcp(self):
        for connections in (1, 3):
            result = self.measure("floor_tcp", "--size=64KiB", "--source=1MiB", f"--connections={connections}")
            self.assertEqual(result["connections"], connections)

    def test_reply(self):
        for flags in (["--batch=64"], ["--connections=4", "--batch=1"], ["--batch=1", "--spin"],
                      ["--connections=4", "--batch=8", "--client=loop"], ["--batch=100", "--size=100KB"]):
            result = self.measure("floor_reply", "--source=1MiB", *flags)
            self.assertAlmostEqual(result["gb_per_s"], result["ops_per_s"] * result["size"] / 1e9, 5)
            self.assertGreater(result["p99_us"], 0)
            self.assertLessEqual(result["p50_us"], result["p99_us"])

    def test_copy(self):
        for kind in ("plain", "non-temporal"):
            self.measure("floor_copy", "--memory=1MiB", "--size=64KiB", f"--kind={kind}")

    def test_disk(self):
        with tempfile.TemporaryDirectory() as folder:
            for operation in ("write", "read"):
                for order in ("random", "sequential"):
                    self.measure("floor_disk", f"--file={folder}/file", "--file-bytes=4MiB", "--size=16KiB",
                                 f"--op={operation}", f"--order={order}")
            self.assertEqual(run("floor_disk", f"--file={folder}/file", "--size=4097")[0], 2)
            self.assertEqual(run("floor_disk", f"--file={folder}/none/file")[0], 1)
        self.assertEqual(run("floor_disk")[0], 2)

    def test_reactors(self):
        with tempfile.TemporaryDirectory() as folder:
            for reactor in ("epoll", "auto"):
                for flags in (["--batch=8"], ["--connections=4", "--batch=1"], ["--batch=3", "--size=100KB"]):
                    self.measure("io_bench", f"--reactor={reactor}", *flags)
                for mode in ("read", "write"):
                    self.measure("io_bench", f"--reactor={reactor}", f"--mode={mode}", f"--file={folder}/file",
                                 "--file-bytes=4MiB", "--size=64KiB")
        self.assertEqual(run("io_bench", "--mode=read")[0], 1)

    def test_an_unknown_flag_is_refused(self):
        for name in ("floor_tcp", "floor_reply", "floor_copy", "floor_disk", "io_bench"):
            self.assertEqual(run(name, "--nonsense=1")[0], 2)


if __name__ == "__main__":
    unittest.main()
