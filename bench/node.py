"""dfkv under measurement: a node on loopback, driven by dfkv_bench."""

import json
import os
import pathlib
import select
import shutil
import subprocess

from cells import Cell, MIB, Sample, fits

READY_TIMEOUT_S = 60
RUN_TIMEOUT_S = 600


class Node:
    """A dfkv_server with its data in a folder of its own, which is removed when it is closed."""

    def __init__(self, programs, folder, capacity_bytes, ram_bytes):
        self.programs = pathlib.Path(programs)
        self.folder = pathlib.Path(folder)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.process = subprocess.Popen(
            [self.programs / "dfkv_server", f"--dir={self.folder}", f"--cap={capacity_bytes}",
             f"--ram-tier-bytes={ram_bytes}", "--port=0", "--log=warn"], stdout=subprocess.PIPE)
        self.members = f"node=127.0.0.1:{self.await_port()}"

    def await_port(self):
        ready, _, _ = select.select([self.process.stdout], [], [], READY_TIMEOUT_S)
        line = self.process.stdout.readline().decode() if ready else ""
        if not line.startswith("PORT "):
            self.close()
            raise RuntimeError(f"dfkv_server did not become ready: {line.strip()!r}")
        return int(line.split()[1])

    def bench(self, *flags):
        """One run of dfkv_bench as its JSON. A wrong byte or an error fails the whole measurement."""
        words = [self.programs / "dfkv_bench", f"--members={self.members}", "--progress=off", "--json=-", *flags]
        done = subprocess.run(words, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(map(str, words))}: status {done.returncode}:\n{done.stderr[-2000:]}")
        return json.loads(done.stdout)

    def rss_bytes(self):
        pages = int(pathlib.Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def close(self):
        self.process.terminate()
        try:
            self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def sample_of(report, kind):
    """The last phase's numbers of `kind` (get or put): time in calls, without making and checking of values."""
    phase = report["phases"][-1]
    numbers = phase[kind]
    cpu = phase["cpu_s_per_gb"]
    return Sample(ops_per_s=numbers["ops_per_s_in_calls"], gb_per_s=numbers["gb_per_s_in_calls"],
                  p50_us=numbers["batch_us"]["p50"], p99_us=numbers["batch_us"]["p99"],
                  client_cpu_s_per_gb=cpu["client"] or 0.0, node_cpu_s_per_gb=cpu["node"] or 0.0)


class Dfkv:
    """GET from RAM and PUT against one node, GET from disk against another whose RAM tier is small."""

    def __init__(self, programs, folder, plan):
        free = shutil.disk_usage(folder).free
        self.warm = Node(programs, folder / "warm", min(16 << 30, free // 4), 4 * plan.ram_bytes)
        self.cold = Node(programs, folder / "cold", 2 * plan.file_bytes, 64 * MIB)
        self.put_seed = 1000  # every PUT cell writes objects that are not there yet

    def measure(self, plan, results):
        for size in plan.sizes:
            self.read(plan, results, self.warm, "get", size, plan.ram_bytes, plan.batches, plan.threads)
            self.read(plan, results, self.cold, "get-disk", size, plan.file_bytes, plan.disk_batches,
                      plan.disk_threads)
            self.write(plan, results, size)

    def read(self, plan, results, node, operation, size, bytes_max, batches, threads):
        objects = max(1, min(bytes_max // size, plan.objects_max if operation == "get" else bytes_max // size))
        load = [f"--size={size}", f"--namespace=read-{size}", f"--working-set={objects}"]
        # What is stored already costs nothing; then one pass that compares every byte.
        node.bench("--op=put", f"--count={objects}", "--threads=2", "--batch=8", *load)
        node.bench("--op=get", f"--count={objects}", "--threads=2", "--batch=8", "--allow-misses", *load)
        for batch in batches:
            for callers in threads:
                if fits(size, batch, callers):
                    report = node.bench("--op=get", "--count=1000000000", f"--seconds={plan.seconds}",
                                        "--order=random", "--verify=off", f"--batch={batch}", f"--threads={callers}",
                                        "--allow-misses", *load)
                    results.add(Cell("dfkv", operation, size, batch, callers), sample_of(report, "get"))

    def write(self, plan, results, size):
        for batch in plan.batches:
            for threads in plan.threads:
                if fits(size, batch, threads):
                    self.put_seed += 1
                    report = self.warm.bench("--op=put", "--count=1000000000", f"--seconds={plan.seconds}",
                                             f"--size={size}", f"--namespace=write-{size}",
                                             f"--key-seed={self.put_seed}", f"--batch={batch}", f"--threads={threads}")
                    results.add(Cell("dfkv", "put", size, batch, threads), sample_of(report, "put"))

    def close(self):
        self.warm.close()
        self.cold.close()


def bytes_per_object(programs, folder, objects=200_000):
    """Memory that the node takes for an object it indexes: the growth of its resident set by small objects."""
    node = Node(programs, folder / "index", (objects + objects // 4) * 4096, 256 * MIB)
    try:
        load = ["--op=put", "--size=4096", "--batch=64", "--threads=2"]
        node.bench(*load, "--count=1000", "--namespace=first")  # what is taken once
        before = node.rss_bytes()
        node.bench(*load, f"--count={objects}", "--namespace=many")
        return (node.rss_bytes() - before) / objects
    finally:
        node.close()
