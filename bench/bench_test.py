"""Tests of what the measurement makes of other programs' output, of the bars, and of the page."""

import pathlib
import tempfile
import types
import unittest

import bars
import bench_peers
import node
import peer_clients
import peers
import results_page
from cells import Cell, EVICT_LOAD, FULL, KIB, MIB, QUICK, Results, Sample, cells_of
from floors import Floors


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

    def test_floors(self):
        network = Floors.parse('{"gb_per_s": 2, "ops_per_s": 5, "server_cpu_s_per_gb": 0.25, "client_cpu_s_per_gb": 0.5}', 1)
        self.assertEqual(network, Sample(5, 2, 0.0, 0.0, 0.5, 0.25))
        copy = Floors.parse('{"gb_per_s": 2, "cpu_s_per_gb": null}', MIB)
        self.assertEqual((copy.ops_per_s, copy.cpu_s_per_gb), (2e9 / MIB, 0))

    def test_dfkv_takes_the_last_phase(self):
        numbers = {"ops_per_s_in_calls": 5, "gb_per_s_in_calls": 2, "batch_us": {"p50": 7, "p99": 9}}
        report = {"phases": [{}, {"get": numbers, "cpu_s_per_gb": {"client": 0.3, "node": None}}]}
        self.assertEqual(node.sample_of(report, "get"), Sample(5, 2, 7, 9, 0.3, 0.0))


def measured(plan, value=1.0):
    """Every cell of the plan with the same figures in each round."""
    results = Results()
    for cell in cells_of(plan):
        for _ in range(plan.rounds):
            results.add(cell, Sample(1000 * value, value, 10, 20, 0.1, 0.2))
    return results


ONCE = {"recovery": {"objects": 1000, "index_bytes_per_object": 90, "policy_bytes_per_object": 100,
                     "rss_bytes_per_object": 200, "ready_s": 1.5, "hits": 1000},
        "recovery_few": {"objects": 100, "rss_bytes_per_object": 400}}


class TheBars(unittest.TestCase):
    def rows(self, results, plan=FULL, once=None):
        return bars.rows_of(results, plan, once or {})

    def row(self, rows, start, case=""):
        return next(row for row in rows if row.bar.startswith(start) and case in row.case)

    def test_each_bar_has_a_row_in_the_full_plan(self):
        names = " ".join(row.bar for row in self.rows(measured(FULL), FULL, ONCE))
        for bar in ("GET 1 MiB from RAM, 1 client", "2–4 threads", "CPU of client and server", "GET 64 KiB", "batch 64",
                    "16 connections", "depth 1, blocking", "spinning", "GET: batch 8", "PUT: batch 8",
                    "PUT 64 KiB–4 MiB, durable, ≥ 4", "durable, depth 1", "CPU of the server", "PUT 4 KiB",
                    "steady eviction", "from disk, caches cold, ≥ 4", "caches cold, depth 1", "memory per indexed",
                    "policy metadata", "kill -9: ready", "kill -9: hits", "10 × the objects: throughput",
                    "10 × the objects: memory", "further ones idle", "a thread each"):
            self.assertIn(bar, names)

    def test_a_ratio_is_the_median_of_the_rounds_ratios(self):
        results = Results()
        for value, floor in ((1.0, 1.0), (9.0, 18.0), (3.0, 30.0)):
            results.add(Cell("dfkv", "get", MIB, 1, 1), Sample(0, value))
            results.add(Cell("iperf3", "stream", 128 * KIB, 1, 1), Sample(0, floor))
        row = self.row(self.rows(results), "GET 1 MiB from RAM, 1 client")
        self.assertEqual((row.value, row.measured, row.met), (0.5, "3 GB/s", False))

    def test_depth_1_is_beside_one_after_the_other(self):
        results = Results()
        results.add(Cell("dfkv", "put", MIB, 1, 1), Sample(0, 0.9, node_cpu_s_per_gb=0.46))
        results.add(Cell("floor", "tcp", MIB, 1, 1), Sample(0, 2.0))
        results.add(Cell("floor", "write", MIB, 1, 1), Sample(0, 2.0))
        rows = self.rows(results)
        row = self.row(rows, "PUT 64 KiB–4 MiB, durable, depth 1")
        self.assertAlmostEqual(row.value, 0.9)
        self.assertTrue(row.met)
        self.assertFalse(self.row(rows, "PUT 64 KiB–4 MiB, durable: CPU of the server").met)

    def test_cpu_is_met_when_it_is_low(self):
        rows = self.rows(measured(FULL))
        cpu = self.row(rows, "GET 1 MiB and 4 MiB from RAM, 2–4 threads: CPU")
        self.assertTrue(cpu.at_most and cpu.met)
        results = measured(FULL)
        for sample in results.samples[Cell("dfkv", "get", MIB, 1, 2)]:
            sample.client_cpu_s_per_gb = 0.2
        self.assertFalse(self.row(self.rows(results), "GET 1 MiB and 4 MiB from RAM, 2–4 threads: CPU", "1 MiB").met)

    def test_either_of_two_is_enough(self):
        results = Results()
        results.add(Cell("iperf3", "stream", 128 * KIB, 1, 1), Sample(0, 10.0))
        results.add(Cell("dfkv", "get", 64 * KIB, 8, 1), Sample(0, 1.9))
        self.assertTrue(self.row(self.rows(results), "GET 64 KiB").met)
        results.samples[Cell("dfkv", "get", 64 * KIB, 8, 1)] = [Sample(0, 1.8)]
        self.assertFalse(self.row(self.rows(results), "GET 64 KiB").met)

    def test_memory_and_restart(self):
        rows = self.rows(Results(), FULL, ONCE)
        self.assertAlmostEqual(self.row(rows, "10 × the objects: memory").value, (200_000 - 40_000) / 900)
        self.assertTrue(all(row.met for row in rows))
        rows = self.rows(Results(), FULL, {"recovery": {**ONCE["recovery"], "hits": 999}})
        self.assertFalse(self.row(rows, "restart after kill -9: hits").met)

    def test_what_was_not_measured_has_no_row(self):
        self.assertEqual(self.rows(Results()), [])
        self.assertTrue(self.rows(measured(QUICK), QUICK))


class ThePlan(unittest.TestCase):
    def test_each_cell_once(self):
        for plan in (FULL, QUICK):
            cells = cells_of(plan)
            self.assertEqual(len(cells), len(set(cells)))
        self.assertIn(Cell("dfkv", "put-evict", MIB, *EVICT_LOAD), cells_of(FULL))
        self.assertGreaterEqual(FULL.rounds, 5)


class Page(unittest.TestCase):
    def setUp(self):
        self.results = Results()
        for value in (1.0, 3.0, 2.0):
            self.results.add(Cell("dfkv", "get", 4 * KIB, 1, 1), Sample(1000 * value, value, 10, 20, 0.5, 0.25))
            self.results.add(Cell("redis", "get", 4 * KIB, 1, 1), Sample(500, 0.5))
            self.results.add(Cell("iperf3", "stream", 128 * KIB, 1, 1), Sample(0, 4.0))

    def table(self):
        return results_page.load_table(self.results, "get", results_page.get_floor)

    def test_medians_spread_and_ratios(self):
        rows = [line for line in self.table() if line.startswith("| 4 KiB")]
        self.assertEqual(rows, ["| 4 KiB | 1 | 1 | 2 (1–3) | 2.0k | 10 | 20 | 0.5 | 0.25 | – | 0.50 | 4.00 |"])

    def test_what_was_not_measured_is_a_dash(self):
        self.results.add(Cell("dfkv", "get", MIB, 8, 4), Sample(1, 1))
        row = [line for line in self.table() if line.startswith("| 1 MiB")][0]
        self.assertTrue(row.endswith("| – | – | – |"), row)

    def test_the_page_names_every_part(self):
        results = measured(FULL)
        text = results_page.page(results, {"machine": "m"}, FULL, bars.rows_of(results, FULL, ONCE))
        for part in ("## The bars", "## GET from RAM", "spinning", "## PUT", "evicting", "## GET from disk",
                     "Ten times as many objects", "| fio |", "| iperf3 |", "| redis |", "- machine: m"):
            self.assertIn(part, text)

    def test_a_missed_bar_is_seen(self):
        missed = bars.Row("bar", "case", "1", "2", 0.5, 0.8)
        self.assertIn("| 0.50 | ≥ 0.8 × | **no** |", results_page.bars_table([missed])[2])
        limit = bars.Row("bar", "case", "3 s", "", 3.0, 2.0, True, "s")
        self.assertIn("|  | ≤ 2 s | **no** |", results_page.bars_table([limit])[2])


class FakeCache:
    """A dict behind the interface of the peers' clients."""

    def __init__(self):
        self.values = {}

    def put(self, keys, values):
        self.values.update(zip(keys, values))

    def get(self, keys, _size):
        return [self.values.get(key) for key in keys]


class Peers(unittest.TestCase):
    def worker(self):
        worker = peer_clients.Worker(FakeCache())
        worker.fill(4096, 8, 0)
        return worker

    def test_puts_and_gets_are_counted(self):
        worker = self.worker()
        for operation in ("put", "get"):
            answer = worker.run(operation, 4096, 8, 0.0, 0)
            self.assertEqual(answer["operations"], 8)
            self.assertLessEqual(answer["p50_us"], answer["p99_us"])
        self.assertEqual(worker.written, 8)

    def test_puts_go_round_where_nothing_is_evicted(self):
        cache = FakeCache()
        cache.put_bytes_max = 16 * 4096
        worker = peer_clients.Worker(cache)
        for _ in range(5):
            worker.put(4096, 8, 0)
        self.assertEqual(len(cache.values), 16)

    def test_wrong_bytes_and_misses_end_the_run(self):
        for spoilt in (lambda value: value[:-1], lambda value: value[:-1] + b"x", lambda value: b"x" + value[1:],
                       lambda value: value + value[:8], lambda value: None):
            worker = self.worker()
            for key, value in worker.client.values.items():
                worker.client.values[key] = spoilt(value)
            with self.assertRaises(ValueError):
                worker.run("get", 4096, 8, 0.0, 0)

    def section(self):
        arguments = types.SimpleNamespace(peers=["dfkv", "redis", "lmcache"], rounds=3)
        figures = {("get", MIB, 8, 1, "dfkv"): [(1000, 5, 9)] * 3, ("get", MIB, 8, 1, "redis"): [(2000, 5, 9)] * 3,
                   ("put", MIB, 8, 1, "dfkv"): [(2000, 5, 9)] * 3, ("put", MIB, 8, 1, "redis"): [(2000, 5, 9)] * 3}
        return bench_peers.section(figures, {"dfkv": "d", "redis": "r", "lmcache": "not measured: why"}, arguments)

    def test_the_section_says_who_is_ahead_and_who_is_absent(self):
        text = self.section()
        self.assertIn("ahead of dfkv: GET 1 MiB, batch 8, 1 client: redis 2 ×.", text)
        self.assertIn("- lmcache: not measured: why", text)
        self.assertIn("| 1 MiB | 8 | 1 | 1.0k (1.05; 9 us) | 2.0k (2.1; 9 us) |", text)

    def test_the_section_stands_last_and_is_replaced(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "page.md"
            self.assertEqual(results_page.peers_section(path), "")
            path.write_text("# page\n\n", encoding="utf-8")
            for _ in range(2):
                results_page.replace_section(path, self.section())
            self.assertEqual(path.read_text(encoding="utf-8"), "# page\n\n" + self.section())
            self.assertEqual(results_page.peers_section(path), self.section())


if __name__ == "__main__":
    unittest.main()
