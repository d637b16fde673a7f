"""What is measured: the cells of the matrix, and the samples that the rounds add to them."""

import dataclasses
import statistics

KIB = 1 << 10
MIB = 1 << 20


@dataclasses.dataclass(frozen=True)
class Cell:
    """One thing measured: a program, an operation, and the load it is put under."""

    program: str  # dfkv, redis, fio, iperf3
    operation: str  # get, put, get-disk; randread, ...; stream
    size: int  # bytes of an object or block
    batch: int  # objects of a call; fio: queue depth
    threads: int  # callers, connections or streams


@dataclasses.dataclass
class Sample:
    """What one round gave. Times are of a call (a whole batch), in microseconds."""

    ops_per_s: float
    gb_per_s: float
    p50_us: float = 0.0
    p99_us: float = 0.0
    client_cpu_s_per_gb: float = 0.0
    node_cpu_s_per_gb: float = 0.0


@dataclasses.dataclass(frozen=True)
class Plan:
    """The size of a run."""

    rounds: int
    seconds: float  # of one cell in one round
    sizes: tuple
    batches: tuple
    threads: tuple
    disk_batches: tuple
    disk_threads: tuple
    file_bytes: int  # fio's file, and the working set of reads from disk
    ram_bytes: int  # the working set of reads from RAM, at most
    objects_max: int  # of a working set


FULL = Plan(rounds=5, seconds=1.0, sizes=(4 * KIB, 64 * KIB, MIB, 4 * MIB), batches=(1, 8, 64), threads=(1, 2, 4),
            disk_batches=(1, 8), disk_threads=(1, 4), file_bytes=2048 * MIB, ram_bytes=512 * MIB, objects_max=65536)
QUICK = Plan(rounds=3, seconds=0.4, sizes=(4 * KIB, MIB), batches=(1, 8), threads=(1, 4), disk_batches=(8,),
             disk_threads=(1, 4), file_bytes=1024 * MIB, ram_bytes=256 * MIB, objects_max=16384)

# Buffers of all callers together; larger cells say more about memory than about the cache.
BATCH_BYTES_MAX = 512 * MIB


def fits(size, batch, threads):
    return size * batch * threads <= BATCH_BYTES_MAX


class Results:
    """Samples by cell, in the order in which the cells were first measured."""

    def __init__(self):
        self.samples = {}

    def add(self, cell, sample):
        self.samples.setdefault(cell, []).append(sample)

    def median(self, cell, field="gb_per_s"):
        """None when the cell was not measured."""
        samples = self.samples.get(cell)
        return statistics.median(getattr(s, field) for s in samples) if samples else None

    def spread(self, cell, field="gb_per_s"):
        values = [getattr(s, field) for s in self.samples[cell]]
        return min(values), max(values)

    def cells(self, program, operation=None):
        return [c for c in self.samples if c.program == program and operation in (None, c.operation)]

    def to_json(self):
        return [{**dataclasses.asdict(cell), "samples": [dataclasses.asdict(s) for s in samples]}
                for cell, samples in self.samples.items()]
