"""bench/RESULTS.md: the bars, then every figure: medians with their spread, and the ratios to what the machine gives."""

from bars import number, size_text
from cells import Cell, KIB

PEERS_HEAD = "## Beside other caches"  # bench_peers.py writes from here to the end of the page


def peers_section(path):
    """That part of the page as it is, or nothing."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return text[text.index(PEERS_HEAD):] if PEERS_HEAD in text else ""


def replace_section(path, section):
    """Puts the part on other caches at the end of the page, in place of an older one."""
    text = path.read_text(encoding="utf-8") if path.exists() else "# Results\n\n"
    path.write_text(text.partition(PEERS_HEAD)[0] + section, encoding="utf-8")


def ratio(results, cell, floor, field="gb_per_s"):
    value = results.ratio(cell, floor, field)
    return "–" if value is None else f"{value:.2f}"


def with_spread(results, cell, field="gb_per_s"):
    if cell not in results.samples:
        return "–"
    low, high = results.spread(cell, field)
    return f"{number(results.median(cell, field))} ({number(low)}–{number(high)})"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows] + [""]


def need_text(row):
    sign = "≤" if row.at_most else "≥"
    return f"{sign} {row.need:g}" + (f" {row.unit}" if row.unit else " ×")


def bars_table(rows):
    cells = []
    for row in rows:
        value = "" if row.unit else f"{row.value:.2f}"
        met = "yes" if row.met else "**no**"
        cells.append([row.bar, row.case, row.measured, row.floor, value, need_text(row), met])
    return table(["bar", "case", "measured", "beside", "ratio", "needed", "met"], cells)


def bars_summary(rows):
    missed = [row for row in rows if not row.met]
    return [f"{len(rows) - len(missed)} of {len(rows)} cases are met.", ""]


def load_table(results, operation, floor_of):
    """A row for each load, with the floor that `floor_of` gives beside it; nothing when none was measured."""
    head = ["size", "batch", "threads", "GB/s", "ops/s", "p50 us", "p99 us", "client CPU s/GB", "node CPU s/GB",
            "to floor", "to iperf3", "to redis"]
    rows = []
    for cell in sorted(results.cells("dfkv", operation), key=lambda c: (c.size, c.threads, c.batch)):
        redis = Cell("redis", cell.operation, cell.size, cell.batch, cell.threads)
        iperf = Cell("iperf3", "stream", 128 * KIB, 1, cell.threads)
        rows.append([size_text(cell.size), str(cell.batch), str(cell.threads), with_spread(results, cell),
                     number(results.median(cell, "ops_per_s")), number(results.median(cell, "p50_us")),
                     number(results.median(cell, "p99_us")), number(results.median(cell, "client_cpu_s_per_gb")),
                     number(results.median(cell, "node_cpu_s_per_gb")), ratio(results, cell, floor_of(cell)),
                     ratio(results, cell, iperf), ratio(results, cell, redis)])
    return table(head, rows) if rows else ["Not measured in this run.", ""]


def get_floor(cell):
    if cell.size == 4 * KIB:
        return Cell("floor", cell.operation.replace("get", "reply"), cell.size, cell.batch, cell.threads)
    return Cell("floor", "tcp", cell.size, 1, cell.threads)


def put_floor(cell):
    return Cell("floor", "write", cell.size, cell.batch * cell.threads, 1)


def disk_floor(cell):
    return Cell("floor", "randread", cell.size, cell.batch * cell.threads, 1)


def other_table(results, programs):
    rows = [[c.program, c.operation, size_text(c.size), str(c.batch), str(c.threads), with_spread(results, c),
             number(results.median(c, "ops_per_s") or None), number(results.median(c, "p50_us") or None),
             number(results.median(c, "p99_us") or None), number(results.median(c, "cpu_s_per_gb") or None)]
            for program in programs for c in results.cells(program)]
    return table(["program", "operation", "size", "batch or depth", "connections", "GB/s", "ops/s", "p50 us", "p99 us",
                  "CPU s/GB"], rows)


def page(results, facts, plan, rows):
    """The whole page as text."""
    lines = ["# Results of `make bench`", "",
             "Written by `bench/run.py`; see [docs/BENCHMARKING.md](../docs/BENCHMARKING.md) for how it measures. "
             f"Medians of {plan.rounds} rounds, (lowest–highest); all programs take turns in each round, and a ratio is "
             "the median of the rounds' ratios. Times are of a call, that is of a whole batch. The CRC of every value is "
             "checked, in GETs and PUTs. Figures of a virtual machine drift; ratios within one run do not, much.", ""]
    lines += [f"- {name}: {value}" for name, value in facts.items()] + [""]
    lines += ["## The bars", ""] + bars_summary(rows) + bars_table(rows)
    lines += ["## GET from RAM", "", "Floor: streams of the same size; for 4 KiB, the server of answers under the same "
              "client. redis: the same size, pipeline and connections, one key.", ""]
    lines += load_table(results, "get", get_floor) + ["Both sides spinning:", ""]
    lines += load_table(results, "get-spin", get_floor)
    lines += ["## PUT", "", "On disk before it is acknowledged. Floor: sequential overwrites with as many in flight.", ""]
    lines += load_table(results, "put", put_floor) + ["Into full space, evicting:", ""]
    lines += load_table(results, "put-evict", put_floor)
    lines += ["## GET from disk", "", "A working set far larger than the RAM tier. Floor: random reads with as many in "
              "flight.", ""] + load_table(results, "get-disk", disk_floor)
    lines += ["## Ten times as many objects", ""]
    lines += load_table(results, "get-few", get_floor) + load_table(results, "get-many", get_floor)
    lines += ["## The floors and the programs beside them", ""] + other_table(results, ("floor", "iperf3", "fio", "redis"))
    return "\n".join(lines)
