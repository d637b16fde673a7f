"""The bars: what dfkv has to reach beside its floors, each case a row that says whether it does."""

import dataclasses
import statistics

from cells import Cell, EVICT_LOAD, KIB, MIB

CLOSE = 0.95  # "not slower" within the spread


@dataclasses.dataclass(frozen=True)
class Row:
    """One case of a bar. `value` is compared with `need`; None: not measured in this run."""

    bar: str
    case: str
    measured: str
    floor: str
    value: float
    need: float
    at_most: bool = False  # value <= need instead of value >= need
    unit: str = ""  # of value and need; empty: a ratio
    instead: bool = False  # met by what the bar allows instead

    @property
    def met(self):
        if self.instead:
            return True
        return self.value <= self.need if self.at_most else self.value >= self.need


def size_text(size):
    return f"{size // MIB} MiB" if size >= MIB else f"{size // KIB} KiB"


def number(value):
    """Three significant digits, thousands as k."""
    if value is None:
        return "–"
    if value >= 10_000:
        return f"{value / 1000:.0f}k"
    if value >= 1000:
        return f"{value / 1000:.1f}k"
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def load_text(cell):
    return f"{size_text(cell.size)}, {cell.threads} thread{'s' if cell.threads > 1 else ''}, batch {cell.batch}"


def figure(results, cell, field):
    unit = {"gb_per_s": " GB/s", "ops_per_s": "/s", "cpu_s_per_gb": " s/GB"}[field]
    return number(results.median(cell, field)) + unit


class Bars:
    """Computes the rows from the cells; what was not measured gives none."""

    def __init__(self, results):
        self.results = results
        self.rows = []

    def against(self, bar, cell, floor, need, field="gb_per_s", at_most=False):
        """`cell` divided by `floor`."""
        value = self.results.ratio(cell, floor, field)
        if value is not None:
            name = {"floor": f"floor {floor.operation}"}.get(floor.program, floor.program)
            measured = figure(self.results, cell, field)
            self.rows.append(Row(bar, load_text(cell), measured, f"{name} {figure(self.results, floor, field)}", value,
                                 need, at_most))

    def allow_instead(self, cell, least_gb_per_s):
        """The last row is met, too, when `cell` has so many GB/s."""
        if self.results.has(cell) and self.rows and self.rows[-1].case == load_text(cell):
            instead = self.results.median(cell) >= least_gb_per_s
            self.rows[-1] = dataclasses.replace(self.rows[-1], instead=instead)

    def against_sum(self, bar, cell, floors, need):
        """`cell` against 1 / (1/a + 1/b) of the same round: one after the other, as at depth 1."""
        if not self.results.has(cell, *floors):
            return
        bases = [self.results.values(floor) for floor in floors]
        serial = [1 / sum(1 / base for base in bases_of_round) for bases_of_round in zip(*bases)]
        ratios = [value / base for value, base in zip(self.results.values(cell), serial)]
        self.rows.append(Row(bar, load_text(cell), figure(self.results, cell, "gb_per_s"),
                             f"1/(1/TCP + 1/disk) {number(statistics.median(serial))} GB/s",
                             statistics.median(ratios), need))

    def limit(self, bar, case, value, most, unit):
        if value is not None:
            self.rows.append(Row(bar, case, f"{number(value)} {unit}", "", value, most, True, unit))

    def least(self, bar, case, value, least, unit):
        if value is not None:
            self.rows.append(Row(bar, case, f"{number(value)} {unit}", "", value, least, False, unit))


def stream(threads):
    return Cell("iperf3", "stream", 128 * KIB, 1, threads)


def get(size, batch, threads, operation="get"):
    return Cell("dfkv", operation, size, batch, threads)


def reply(batch, threads, kind="reply"):
    return Cell("floor", kind, 4 * KIB, batch, threads)


def network_bars(bars):
    for batch in (1, 8):
        bars.against("GET 1 MiB from RAM, 1 client thread", get(MIB, batch, 1), stream(1), 0.8)
    for size in (MIB, 4 * MIB):
        for threads in (2, 4):
            text = "GET 1 MiB and 4 MiB from RAM, 2–4 threads"
            cell, floor = get(size, 1, threads), Cell("floor", "tcp", size, 1, threads)
            bars.against(text, cell, stream(threads), 1.0)
            bars.against(f"{text}: CPU of client and server, CRC on", cell, floor, 1.25, "cpu_s_per_gb", at_most=True)
    bars.against("GET 64 KiB, 1 thread, batch 8 (or 1.9 GB/s)", get(64 * KIB, 8, 1), stream(1), 0.8)
    bars.allow_instead(get(64 * KIB, 8, 1), 1.9)
    text = "GET 4 KiB from RAM, batch 64, 1 client thread"
    bars.against(text, get(4 * KIB, 64, 1), reply(64, 1), 0.7, "ops_per_s")
    bars.against(text, get(4 * KIB, 64, 1), Cell("redis", "get", 4 * KIB, 64, 1), 1.3, "ops_per_s")
    text = "GET 4 KiB unbatched, 16 connections"
    bars.against(text, get(4 * KIB, 1, 16), reply(1, 16), 0.8, "ops_per_s")
    bars.against(f"{text}; floor: a client with one event loop", get(4 * KIB, 1, 16), reply(1, 16, "reply-loop"), 0.8,
                 "ops_per_s")
    bars.against("GET 4 KiB, depth 1, blocking", get(4 * KIB, 1, 1), reply(1, 1), 0.8, "ops_per_s")
    bars.against("GET 4 KiB, depth 1, both sides spinning", get(4 * KIB, 1, 1, "get-spin"), reply(1, 1, "reply-spin"),
                 0.8, "ops_per_s")


def batch_bars(bars, plan):
    for operation in ("get", "put"):
        for size in plan.sizes:
            for threads in sorted({1, 2, 4} | set(plan.threads)):
                batch = get(size, 8, threads, operation)
                bars.against(f"{operation.upper()}: batch 8 not slower than batch 1", batch,
                             get(size, 1, threads, operation), CLOSE, "ops_per_s")


def put_bars(bars, plan):
    text = "PUT 64 KiB–4 MiB, durable"
    for size in plan.sizes:
        if size < 64 * KIB:
            continue
        for batch, threads in ((8, 1), (1, 4)):
            bars.against(f"{text}, ≥ 4 in flight", get(size, batch, threads, "put"),
                         Cell("floor", "write", size, batch * threads, 1), 0.9)
        alone = get(size, 1, 1, "put")
        bars.against_sum(f"{text}, depth 1", alone, [Cell("floor", "tcp", size, 1, 1), Cell("floor", "write", size, 1, 1)],
                         0.9)
        for batch, threads in ((1, 1), (8, 1), (1, 4)):
            cell = get(size, batch, threads, "put")
            bars.limit(f"{text}: CPU of the server", load_text(cell), bars.results.median(cell, "node_cpu_s_per_gb"),
                       0.45, "s/GB")
    text = "PUT 4 KiB, durable, 8 threads × batch 8"
    cell = get(4 * KIB, 8, 8, "put")
    bars.against(text, cell, Cell("floor", "randwrite", 4 * KIB, 64, 1), 0.8, "ops_per_s")
    for size in plan.sizes[:3]:
        bars.against("PUT at steady eviction, beside PUT without", get(size, *EVICT_LOAD, "put-evict"),
                     get(size, *EVICT_LOAD, "put"), 0.8)


def disk_bars(bars, plan):
    text = "GET from disk, caches cold"
    for size in plan.sizes:
        for batch, threads in ((8, 1), (1, 4)):
            bars.against(f"{text}, ≥ 4 in flight", get(size, batch, threads, "get-disk"),
                         Cell("floor", "randread", size, batch * threads, 1), 0.85)
        if size >= 64 * KIB:
            floors = [Cell("floor", "tcp", size, 1, 1), Cell("floor", "randread", size, 1, 1)]
            bars.against_sum(f"{text}, depth 1", get(size, 1, 1, "get-disk"), floors, 0.85)


def growth_bars(bars):
    text = "10 × the objects: throughput within 15 %"
    for batch, threads in ((64, 1), (1, 16)):
        bars.against(text, get(4 * KIB, batch, threads, "get-many"), get(4 * KIB, batch, threads, "get-few"), 0.85,
                     "ops_per_s")
    text = "10 × the connections: throughput within 15 %"
    bars.against(f"{text}, the further ones idle", get(4 * KIB, 1, 16, "get-idle"), get(4 * KIB, 1, 16), 0.85, "ops_per_s")
    floor = bars.results.ratio(reply(1, 160), reply(1, 16), "ops_per_s")
    bars.against(f"{text}, a thread each (the floor itself: {number(floor)} ×)", get(4 * KIB, 1, 160),
                 get(4 * KIB, 1, 16), 0.85, "ops_per_s")


def once_bars(bars, once):
    """What is measured once in a run, not in rounds: memory and the restart."""
    recovery = once.get("recovery")
    if recovery:
        count = f"{recovery['objects']:,} objects"
        bars.limit("memory per indexed object", count, recovery["index_bytes_per_object"], 100, "bytes")
        bars.limit("memory per indexed object: policy metadata", count, recovery["policy_bytes_per_object"], 160, "bytes")
        bars.limit("restart after kill -9: ready", count, recovery["ready_s"], 2.0, "s")
        bars.least("restart after kill -9: hits", count, 100 * recovery["hits"] / recovery["objects"], 100, "%")
    few = once.get("recovery_few")
    if recovery and few:
        slope = ((recovery["rss_bytes_per_object"] * recovery["objects"]
                  - few["rss_bytes_per_object"] * few["objects"]) / (recovery["objects"] - few["objects"]))
        bars.limit("10 × the objects: memory linear, resident bytes per further object",
                   f"{few['objects']:,} to {recovery['objects']:,} objects", slope, 260, "bytes")


def rows_of(results, plan, once):
    """Every bar, in the order of the table that sets them."""
    bars = Bars(results)
    network_bars(bars)
    batch_bars(bars, plan)
    put_bars(bars, plan)
    disk_bars(bars, plan)
    once_bars(bars, once)
    growth_bars(bars)
    return bars.rows
