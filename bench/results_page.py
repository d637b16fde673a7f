"""bench/RESULTS.md: medians with their spread, and the ratios to what the machine gives."""

from cells import Cell, KIB, MIB


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


def ratio(part, whole):
    return f"{part / whole:.2f}" if part is not None and whole else "–"


def with_spread(results, cell, field="gb_per_s"):
    if cell not in results.samples:
        return "–"
    low, high = results.spread(cell, field)
    return f"{number(results.median(cell, field))} ({number(low)}–{number(high)})"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows] + [""]


def ram_table(results, operation):
    head = ["size", "batch", "threads", "GB/s", "ops/s", "p50 us", "p99 us", "redis GB/s", "to redis", "to iperf3"]
    rows = []
    for cell in results.cells("dfkv", operation):
        gb_per_s = results.median(cell)
        redis = results.median(Cell("redis", cell.operation, cell.size, cell.batch, cell.threads))
        iperf = results.median(Cell("iperf3", "stream", 128 << 10, 1, 1 if cell.threads == 1 else 4))
        rows.append([size_text(cell.size), str(cell.batch), str(cell.threads), with_spread(results, cell),
                     number(results.median(cell, "ops_per_s")), number(results.median(cell, "p50_us")),
                     number(results.median(cell, "p99_us")), number(redis), ratio(gb_per_s, redis),
                     ratio(gb_per_s, iperf)])
    return table(head, rows)


def disk_table(results, operation, peer):
    head = ["size", "batch", "threads", "GB/s", "ops/s", "p50 us", "p99 us", f"fio {peer} GB/s", "to fio"]
    rows = []
    for cell in results.cells("dfkv", operation):
        fio = results.median(Cell("fio", peer, cell.size, cell.batch, 1))
        rows.append([size_text(cell.size), str(cell.batch), str(cell.threads), with_spread(results, cell),
                     number(results.median(cell, "ops_per_s")), number(results.median(cell, "p50_us")),
                     number(results.median(cell, "p99_us")), number(fio), ratio(results.median(cell), fio)])
    return table(head, rows)


def fio_table(results):
    rows = [[c.operation, size_text(c.size), str(c.batch), with_spread(results, c),
             number(results.median(c, "ops_per_s")), number(results.median(c, "p50_us")),
             number(results.median(c, "p99_us"))] for c in results.cells("fio")]
    return table(["operation", "size", "depth", "GB/s", "ops/s", "p50 us", "p99 us"], rows)


def cpu_table(results):
    rows = []
    for cell in results.cells("dfkv"):
        if cell.batch == 8 or cell.size >= MIB:
            rows.append([cell.operation, size_text(cell.size), str(cell.batch), str(cell.threads),
                         number(results.median(cell, "client_cpu_s_per_gb")),
                         number(results.median(cell, "node_cpu_s_per_gb"))])
    return table(["operation", "size", "batch", "threads", "client CPU s/GB", "node CPU s/GB"], rows)


def page(results, facts, plan):
    """The whole page as text."""
    lines = ["# Results of `make bench`", "",
             "Written by `bench/run.py`; see [docs/BENCHMARKING.md](../docs/BENCHMARKING.md) for how it measures. "
             f"Medians of {plan.rounds} rounds, (lowest–highest); all programs take turns in each round. Times are of "
             "a call, that is of a whole batch. Figures of a virtual machine drift; ratios within one run do not, "
             "much.", ""]
    lines += [f"- {name}: {value}" for name, value in facts.items()] + [""]
    lines += ["## The network: iperf3 on loopback", ""]
    lines += table(["streams", "GB/s"], [[str(c.threads), with_spread(results, c)] for c in results.cells("iperf3")])
    lines += ["## GET from RAM", "", "redis: the same size, pipeline and connections, one key. iperf3: 1 stream for "
              "1 thread, else 4.", ""] + ram_table(results, "get")
    lines += ["## PUT", "", "On disk before it is acknowledged. fio: sequential writes, depth = batch; redis keeps its "
              "values in RAM only.", ""] + disk_table(results, "put", "write")
    lines += ["Beside redis and the network:", ""] + ram_table(results, "put")
    lines += ["## GET from disk", "", "A working set far larger than the RAM tier. fio: random reads, depth = batch.",
              ""] + disk_table(results, "get-disk", "randread")
    lines += ["## CPU", ""] + cpu_table(results)
    lines += ["## The disk: fio, O_DIRECT", ""] + fio_table(results)
    return "\n".join(lines)
