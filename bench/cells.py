"""What is measured: cells, the plan that lists them, and the samples that the rounds add to them."""

import dataclasses
import statistics

KIB = 1 << 10
MIB = 1 << 20
SIZES = (4 * KIB, 64 * KIB, MIB, 4 * MIB)


@dataclasses.dataclass(frozen=True)
class Cell:
    """One thing measured: a program, an operation, and the load it is put under.

    dfkv    get, get-spin, get-idle, get-disk, get-few, get-many, put, put-evict
    floor   tcp, reply, reply-loop, reply-spin, copy, copy-nt, read, randread, write, randwrite
    redis   get, put          iperf3  stream          fio  read, randread, write, randwrite
    """

    program: str
    operation: str
    size: int  # bytes of an object, a block, a send
    batch: int  # objects of a call; of a disk: operations in flight
    threads: int  # callers, connections, streams


@dataclasses.dataclass
class Sample:
    """What one round gave. Times are of a call (a whole batch), in microseconds; CPU in seconds per GB."""

    ops_per_s: float
    gb_per_s: float
    p50_us: float = 0.0
    p99_us: float = 0.0
    client_cpu_s_per_gb: float = 0.0
    node_cpu_s_per_gb: float = 0.0

    @property
    def cpu_s_per_gb(self):
        return self.client_cpu_s_per_gb + self.node_cpu_s_per_gb


@dataclasses.dataclass(frozen=True)
class Plan:
    """The size of a run."""

    rounds: int
    seconds: float  # of one cell in one round
    sizes: tuple
    threads: tuple  # of the comparison of batches
    file_bytes: int  # of the disk floors, and the working set of reads from disk
    ram_bytes: int  # the working set of reads from RAM, at most
    recovery_objects: int
    growth_objects: int  # the larger of the two nodes; the smaller has a tenth


FULL = Plan(rounds=5, seconds=0.8, sizes=SIZES, threads=(1, 2, 4), file_bytes=1024 * MIB, ram_bytes=512 * MIB,
            recovery_objects=1_000_000, growth_objects=500_000)
QUICK = Plan(rounds=2, seconds=0.2, sizes=SIZES[:3], threads=(1, 4), file_bytes=256 * MIB, ram_bytes=128 * MIB,
             recovery_objects=0, growth_objects=0)

# A PUT cell gets a node that is written through once: first writes to fresh space are slow and uneven.
PUT_LOADS = ((1, 1), (8, 1), (1, 4), (8, 4))  # batch, threads
EVICT_LOAD = (8, 2)


def network_cells(plan):
    """Large GETs beside streams, small GETs beside the server of answers, batch 1 beside batch 8."""
    for threads in sorted({1, 2, 4} | set(plan.threads)):
        yield Cell("iperf3", "stream", 128 * KIB, 1, threads)
        for size in plan.sizes:
            if size >= 64 * KIB:
                yield Cell("floor", "tcp", size, 1, threads)
            for batch in (1, 8):
                yield Cell("dfkv", "get", size, batch, threads)
    for batch, threads in ((64, 1), (1, 16), (1, 1)):
        yield Cell("floor", "reply", 4 * KIB, batch, threads)
        if threads > 1:
            yield Cell("floor", "reply-loop", 4 * KIB, batch, threads)
        yield Cell("redis", "get", 4 * KIB, batch, threads)
        yield Cell("dfkv", "get", 4 * KIB, batch, threads)
    yield Cell("floor", "reply-spin", 4 * KIB, 1, 1)
    yield Cell("dfkv", "get-spin", 4 * KIB, 1, 1)
    yield Cell("dfkv", "get-spin", 4 * KIB, 64, 1)
    yield Cell("floor", "reply", 4 * KIB, 1, 160)
    yield Cell("dfkv", "get", 4 * KIB, 1, 160)
    yield Cell("dfkv", "get-idle", 4 * KIB, 1, 16)


def disk_cells(plan):
    """PUTs beside writes, GETs from disk beside reads; fio at some points as a check on the floors."""
    for size in plan.sizes:
        for batch, threads in PUT_LOADS:
            yield Cell("floor", "write", size, batch * threads, 1)
            yield Cell("dfkv", "put", size, batch, threads)
        for batch, threads in ((1, 1), (1, 4), (8, 1)):
            yield Cell("floor", "randread", size, batch * threads, 1)
            yield Cell("dfkv", "get-disk", size, batch, threads)
    for operation in ("randwrite", "write"):
        yield Cell("floor", operation, 4 * KIB, 64, 1)
        yield Cell("dfkv", "put", 4 * KIB, 8, 8)
    for size in plan.sizes[:3]:
        yield Cell("dfkv", "put", size, *EVICT_LOAD)
        yield Cell("dfkv", "put-evict", size, *EVICT_LOAD)
    for operation, size, depth in (("randread", 4 * KIB, 64), ("randwrite", 4 * KIB, 64), ("write", MIB, 8),
                                   ("randread", MIB, 8)):
        yield Cell("floor", operation, size, depth, 1)
        yield Cell("fio", operation, size, depth, 1)


def cells_of(plan):
    """The cells of a round in order, each once; what is compared stands close together."""
    cells = list(network_cells(plan)) + list(disk_cells(plan))
    cells += [Cell("floor", "copy", MIB, 1, 1), Cell("floor", "copy-nt", MIB, 1, 1)]
    if plan.growth_objects:
        cells += [Cell("dfkv", operation, 4 * KIB, batch, threads) for batch, threads in ((64, 1), (1, 16))
                  for operation in ("get-few", "get-many")]
    return list(dict.fromkeys(cells))


class Results:
    """Samples by cell, one a round, in the order in which the cells were first measured."""

    def __init__(self):
        self.samples = {}

    def add(self, cell, sample):
        self.samples.setdefault(cell, []).append(sample)

    def has(self, *cells):
        return all(cell in self.samples for cell in cells)

    def values(self, cell, field="gb_per_s"):
        return [getattr(sample, field) for sample in self.samples[cell]]

    def median(self, cell, field="gb_per_s"):
        """None when the cell was not measured."""
        return statistics.median(self.values(cell, field)) if cell in self.samples else None

    def spread(self, cell, field="gb_per_s"):
        values = self.values(cell, field)
        return min(values), max(values)

    def ratio(self, cell, floor, field="gb_per_s"):
        """The median of the rounds' ratios: what a machine's drift leaves alone. None without both."""
        if not self.has(cell, floor):
            return None
        pairs = zip(self.values(cell, field), self.values(floor, field))
        ratios = [value / base for value, base in pairs if base]
        return statistics.median(ratios) if ratios else None

    def cells(self, program, operation=None):
        return [c for c in self.samples if c.program == program and operation in (None, c.operation)]

    def to_json(self):
        return [{**dataclasses.asdict(cell), "samples": [dataclasses.asdict(s) for s in samples]}
                for cell, samples in self.samples.items()]
