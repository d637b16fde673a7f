"""The floors of bench/floor, run as cells."""

import json
import pathlib

from cells import Cell, MIB, Sample
from peers import run_text

SOURCE_BYTES_MAX = 512 * MIB


class Floors:
    """The programs of bench/floor; the disk's work on a file of their own, which is removed at the end."""

    def __init__(self, programs, folder, plan):
        self.programs = pathlib.Path(programs)
        self.file = pathlib.Path(folder) / "floor.dat"
        self.plan = plan
        self.measure(Cell("floor", "write", 4 * MIB, 8, 1))  # fills the file

    def flags(self, cell):
        source = f"--source={min(SOURCE_BYTES_MAX, self.plan.ram_bytes)}"
        if cell.operation == "tcp":
            return ["floor_tcp", f"--connections={cell.threads}", source]
        if cell.operation.startswith("reply"):
            more = {"reply": [], "reply-loop": ["--client=loop"], "reply-spin": ["--spin"]}[cell.operation]
            return ["floor_reply", f"--connections={cell.threads}", f"--batch={cell.batch}", source, *more]
        if cell.operation.startswith("copy"):
            kind = "plain" if cell.operation == "copy" else "non-temporal"
            return ["floor_copy", f"--kind={kind}", f"--threads={cell.threads}"]
        order = "random" if cell.operation.startswith("rand") else "sequential"
        return ["floor_disk", f"--file={self.file}", f"--file-bytes={self.plan.file_bytes}", f"--depth={cell.batch}",
                f"--order={order}", f"--op={cell.operation.removeprefix('rand')}"]

    def measure(self, cell):
        name, *flags = self.flags(cell)
        text = run_text([self.programs / name, f"--size={cell.size}", f"--seconds={self.plan.seconds}",
                         "--warm-up=0.1", *flags])
        return self.parse(text, cell.size)

    @staticmethod
    def parse(text, size):
        found = json.loads(text)
        return Sample(ops_per_s=found.get("ops_per_s", found["gb_per_s"] * 1e9 / size), gb_per_s=found["gb_per_s"],
                      p50_us=found.get("p50_us", 0.0), p99_us=found.get("p99_us", 0.0),
                      client_cpu_s_per_gb=found.get("client_cpu_s_per_gb", found.get("cpu_s_per_gb")) or 0.0,
                      node_cpu_s_per_gb=found.get("server_cpu_s_per_gb") or 0.0)

    def close(self):
        self.file.unlink(missing_ok=True)
