"""A wall clock that steps by years, back and forth, with every look at it: nothing expires, hangs or is lost.

Node and client run under it, preloaded from wall_clock.c (DFKV_WALL_CLOCK); what they do is measured by time that does
not step.
"""

import json
import os
import re
import subprocess
import unittest

from harness import OK, PROGRAMS, NodeTest, value_of

DEADLINE_S = 120


class WallClockTest(NodeTest):
    def setUp(self):
        super().setUp()
        self.environment = {**os.environ, "LD_PRELOAD": os.environ["DFKV_WALL_CLOCK"]}

    def bench(self, node, operation):
        words = [PROGRAMS / "dfkv_bench", f"--members=node=127.0.0.1:{node.port}", f"--op={operation}", "--count=2000",
                 "--size=20000", "--threads=2", "--batch=4", "--progress=off", "--json=-"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=DEADLINE_S, env=self.environment, check=False)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        phase = json.loads(done.stdout)["phases"][-1][operation]
        self.assertEqual((phase["good"], phase["misses"]), (2000, 0))

    def test_nothing_depends_on_it(self):
        node = self.node("--sync-ms=20", cap="256MiB", env=self.environment)
        for round_number in range(3):
            self.bench(node, "put")
            self.bench(node, "get")
            key = f"kept-{round_number}"
            self.assertEqual(self.library(node).put(key, value_of(key, 9000)), OK)
            node.restart("kill" if round_number == 1 else "stop")
            library = self.library(node)
            for earlier in range(round_number + 1):
                key = f"kept-{earlier}"
                self.assertEqual(library.get(key), (OK, value_of(key, 9000)))
        years = {int(year) for year in re.findall(r"^(\d{4})-\d\d-\d\dT", node.log(), re.MULTILINE)}
        self.assertGreater(max(years) - min(years), 4, "the clock did not step")


if __name__ == "__main__":
    unittest.main()
