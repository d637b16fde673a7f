"""Tests of what the measurement makes of other programs' output, and of the page."""

import unittest

import node
import peers
import results_page
from cells import Cell, FULL, KIB, MIB, Results, Sample, fits


class Parsing(unittest.TestCase):
    def test_redis(self):
        text = ('"test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms","p99_latency_ms",'
                '"max_latency_ms"\n"SET","1000.00","0.1","0.1","0.25","0.3","0.5","1"\n'
                '"GET","2000.00","0.1","0.1","0.125","0.3","0.4","1"\n')
        samples = peers.Redis.parse(text, MIB)
        self.assertAlmostEqual(samples["put"].gb_per_s, 1.048576)
        self.assertEqual(samples["get"].ops_per_s, 2000)
        self.assertEqual(samples["get"].p50_us, 125)
        self.assertEqual(samples["put"].p99_us, 500)

    def test_fio(self):
        text = ('note: a warning\n{"jobs": [{"read": {"iops": 0, "bw_bytes": 0, "clat_ns": {}}, "write": {"iops": 10.5,'
                ' "bw_bytes": 2000000000, "clat_ns": {"percentile": {"50.000000": 1500, "99.000000": 9000}}}}]}')
        sample = peers.Fio.parse(text, "randwrite")
        self.assertEqual((sample.ops_per_s, sample.gb_per_s, sample.p50_us, sample.p99_us), (10.5, 2.0, 1.5, 9.0))

    def test_iperf3(self):
        self.assertEqual(peers.Iperf.parse('{"end": {"sum_received": {"bits_per_second": 16e9}}}').gb_per_s, 2)

    def test_dfkv_takes_the_last_phase(self):
        numbers = {"ops_per_s_in_calls": 5, "gb_per_s_in_calls": 2, "batch_us": {"p50": 7, "p99": 9}}
        report = {"phases": [{}, {"get": numbers, "cpu_s_per_gb": {"client": 0.3, "node": None}}]}
        self.assertEqual(node.sample_of(report, "get"), Sample(5, 2, 7, 9, 0.3, 0.0))


class Page(unittest.TestCase):
    def setUp(self):
        self.results = Results()
        for value in (1.0, 3.0, 2.0):
            self.results.add(Cell("dfkv", "get", 4 * KIB, 1, 1), Sample(1000 * value, value, 10, 20, 0.5, 0.25))
        self.results.add(Cell("redis", "get", 4 * KIB, 1, 1), Sample(500, 0.5))
        self.results.add(Cell("iperf3", "stream", 128 << 10, 1, 1), Sample(0, 4.0))

    def test_medians_spread_and_ratios(self):
        rows = [line for line in results_page.ram_table(self.results, "get") if line.startswith("| 4 KiB")]
        self.assertEqual(rows, ["| 4 KiB | 1 | 1 | 2 (1–3) | 2.0k | 10 | 20 | 0.5 | 4.00 | 0.50 |"])

    def test_what_was_not_measured_is_a_dash(self):
        self.results.add(Cell("dfkv", "get", MIB, 8, 4), Sample(1, 1))
        row = [line for line in results_page.ram_table(self.results, "get") if line.startswith("| 1 MiB")][0]
        self.assertTrue(row.endswith("| – | – | – |"), row)

    def test_the_page_names_every_part(self):
        text = results_page.page(self.results, {"machine": "m"}, FULL)
        for part in ("iperf3 on loopback", "GET from RAM", "## PUT", "GET from disk", "## CPU", "fio", "- machine: m"):
            self.assertIn(part, text)

    def test_cells_that_need_too_much_memory_are_left_out(self):
        self.assertTrue(fits(4 * MIB, 64, 2))
        self.assertFalse(fits(4 * MIB, 64, 4))


if __name__ == "__main__":
    unittest.main()
