"""The counting that CI's last line rests on."""

import tempfile
import unittest
from pathlib import Path

import junit

CTEST = """<testsuite name="x" tests="4" failures="1" disabled="1" skipped="1">
<testcase name="base.A" classname="base.A" status="run"/>
<testcase name="base.B" classname="base.B" status="fail"><failure message=""/></testcase>
<testcase name="base.C" classname="base.C" status="notrun"><skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/>
<system-out>[ RUN ] C
../../x_test.cc:7: Skipped
the kernel has no io_uring
[  SKIPPED ] C</system-out></testcase>
<testcase name="base.D" classname="base.D" status="disabled"/>
</testsuite>"""
PYTEST = """<testsuites><testsuite>
<testcase classname="t" name="a"/>
<testcase classname="t" name="b"><error message="x"/></testcase>
<testcase classname="t" name="c"><skipped message="no torch"/></testcase>
</testsuite></testsuites>"""


class Junit(unittest.TestCase):
    def read(self, text):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "report.xml"
            path.write_text(text)
            return junit.read(path)

    def test_ctest(self):
        results = self.read(CTEST)
        self.assertEqual(results.passed, 1)
        self.assertEqual(results.failed, ["base.B"])
        self.assertEqual(results.skipped, [("base.C", "the kernel has no io_uring"), ("base.D", "disabled")])

    def test_pytest(self):
        results = self.read(PYTEST)
        self.assertEqual((results.passed, results.failed, results.skipped), (1, ["t.b"], [("t.c", "no torch")]))

    def test_no_report_counts_nothing(self):
        self.assertEqual(junit.read(Path("/nonexistent.xml")), junit.Results())

    def test_lines(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "log"
            path.write_text("layers       ok         0.0 s\nbudgets      FAILED     0.1 s\n  a: b\n1 passed\n")
            self.assertEqual(junit.read_counts(path), junit.Results(1, ["budgets"], []))


if __name__ == "__main__":
    unittest.main()
