"""dfkv_bench and the demo as a user runs them, against real nodes. DFKV_PROGRAMS is the folder of the programs."""

import gzip
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PROGRAMS = pathlib.Path(os.environ.get("DFKV_PROGRAMS", ROOT / "build/release/bin"))
TRACE = HERE / "data/chats.jsonl"
TIMEOUT_S = 240


def run(words, **options):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
                          **options)


class BenchTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="dfkv_system.", dir="/var/tmp"))
        self.addCleanup(shutil.rmtree, self.folder, True)
        (self.folder / "data").mkdir()

    def bench(self, *flags, status=0):
        """The JSON of a run that serves its own node."""
        done = run([PROGRAMS / "dfkv_bench", *flags, f"--serve={PROGRAMS / 'dfkv_server'}",
                    f"--dir={self.folder / 'data'}", "--json=-", "--progress=off"])
        self.assertEqual(done.returncode, status, done.stderr)
        return json.loads(done.stdout)

    def load(self, *flags, status=0):
        return self.bench("--cap=128MiB", "--ram-tier-bytes=32MiB", "--node-flags=--max-object-bytes=4MiB", *flags,
                          status=status)

    def replay(self, *flags, status=0, trace=TRACE):
        report = self.bench("replay", f"--trace={trace}", *flags, status=status)
        self.assertEqual(report["wrong"], 0)
        return report

    def test_both_and_later_get(self):
        report = self.load("--op=both", "--size=300001", "--count=64", "--batch=4", "--threads=2")
        self.assertEqual([phase["name"] for phase in report["phases"]], ["put", "get"])
        self.assertEqual(report["phases"][1]["get"]["codes"], {"Ok": 64})
        for phase in report["phases"]:  # from the node's own clock, which is finer than the system's ticks
            self.assertGreater(phase["cpu_s_per_gb"]["node"], 0, phase["name"])
            self.assertGreater(phase["cpu_s_per_gb"]["client"], 0, phase["name"])
        again = self.load("--op=get", "--size=300001", "--count=64", "--order=random", "--warm")
        self.assertEqual(again["phases"][1]["get"]["good"], 64)

    def test_mixed(self):
        report = self.load("--op=mixed", "--size=4KiB", "--count=2000", "--working-set=500", "--batch=8", "--threads=3")
        mixed = report["phases"][1]
        self.assertGreater(mixed["get"]["good"], 1000)
        self.assertGreater(mixed["put"]["good"], 100)

    def test_cold(self):
        report = self.load("--op=both", "--cold", "--size=1MiB", "--count=50", "--threads=2")
        self.assertEqual(report["phases"][1]["get"]["codes"], {"Ok": 50})

    def test_misses(self):
        report = self.load("--op=get", "--size=4KiB", "--count=10", status=1)
        self.assertEqual(report["phases"][0]["get"]["codes"], {"NotFound": 10})

    def test_wrong_usage(self):
        for flags, text in ((["--op=get"], "--members"), (["--members=x"], "x"), (["--op=fly"], "fly"),
                            (["--members=n=127.0.0.1:1", "--ready-timeout=0"], "did not answer"),
                            (["--serve=auto", f"--dir={self.folder}", "--cap=1", "--ram-tier-bytes=64MiB"], "cap")):
            done = run([PROGRAMS / "dfkv_bench", *flags])
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(text, done.stderr)

    def test_replay(self):
        report = self.replay("--block-bytes=20000")
        self.assertEqual(report["requests"], 160)
        self.assertAlmostEqual(report["token_hit_percent"], report["offline_best_percent"], places=6)
        self.assertEqual(report["hit_blocks"] + report["footprint_blocks"], report["blocks"])

    def test_replay_gzip(self):
        packed = self.folder / "packed.jsonl.gz"
        packed.write_bytes(gzip.compress(TRACE.read_bytes()))
        report = self.replay("--limit=50", "--batch=3", trace=packed)
        self.assertEqual(report["requests"], 50)
        self.assertEqual(report["trace"], "packed")

    def test_replay_evicting(self):
        report = self.replay("--cache-fraction=0.2")
        self.assertLess(report["token_hit_percent"], report["offline_best_percent"])
        self.assertGreater(report["token_hit_percent"], 0.5 * report["offline_best_percent"])

    def test_replay_kill(self):
        report = self.replay("--kill-at=60")
        kill = report["kill"]
        self.assertEqual(report["requests"], 160)
        self.assertGreaterEqual(kill["request"], 60)
        self.assertEqual(kill["checked"], kill["acknowledged"])
        self.assertEqual((kill["missing"], kill["wrong"]), (0, 0))

    def test_replay_kill_evicting(self):
        report = self.replay("--cache-fraction=0.3", "--kill-at=100")
        kill = report["kill"]
        self.assertGreater(kill["checked"], 0)
        self.assertLess(kill["checked"], kill["acknowledged"])
        self.assertLessEqual(kill["missing"], kill["missing_allowed"])

    def test_replay_parallel(self):
        report = self.replay("--threads=4", "--cache-fraction=0.5", "--speed=200")
        self.assertEqual(report["requests"], 160)

    def demo_environment(self, **more):
        return {**os.environ, "DEMO_PROGRAMS": str(PROGRAMS), "DEMO_DIR": str(self.folder / "demo"),
                "DEMO_CAP": "256MiB", "DEMO_RAM": str(128 << 20), "DEMO_SECONDS": "1", **more}

    def demo(self, **more):
        done = run([ROOT / "deploy/demo.sh"], env=self.demo_environment(**more))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_demo_ends_by_itself(self):
        text = self.demo()
        for part in ("token hit ratio: ", "GB/s", "p50", "p99", "wrong bytes: 0", "/metrics", "/stats"):
            self.assertIn(part, text)

    def test_demo_starts_warm(self):
        self.assertIn(" 0 objects found", self.demo())
        second = self.demo()
        self.assertNotIn(" 0 objects found", second)
        self.assertRegex(second, r"warm start: .* wrong bytes 0")

    def test_demo_refuses_a_second(self):
        environment = self.demo_environment(DEMO_SECONDS="", DEMO_WORK_SECONDS="1")
        words = [str(ROOT / "deploy/demo.sh")]
        with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              start_new_session=True) as first:
            try:
                for line in first.stdout:
                    if "until Ctrl-C" in line:
                        break
                else:
                    self.fail("the first demo ended early")
                second = run(words, env=self.demo_environment())
                self.assertEqual(second.returncode, 1)
                self.assertIn("another demo runs", second.stderr)
                os.killpg(first.pid, signal.SIGINT)  # what Ctrl-C does
                rest = first.stdout.read()
                self.assertEqual(first.wait(timeout=60), 0, rest)
            finally:
                if first.poll() is None:
                    first.terminate()
        self.assertFalse(re.search("ended with status", rest), rest)


if __name__ == "__main__":
    unittest.main()
