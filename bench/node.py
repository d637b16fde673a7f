"""dfkv under measurement: nodes on loopback, driven by dfkv_bench."""

import json
import os
import pathlib
import re
import select
import shutil
import socket
import subprocess
import time
import urllib.request

from cells import KIB, MIB, Sample

READY_TIMEOUT_S = 120
RUN_TIMEOUT_S = 600
SPIN_US = 200
IDLE = 144


class Node:
    """A dfkv_server with its data in a folder of its own, which is removed when it is closed."""

    def __init__(self, programs, folder, capacity_bytes, ram_bytes, *flags):
        self.programs = pathlib.Path(programs)
        self.folder = pathlib.Path(folder)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.process = subprocess.Popen(
            [self.programs / "dfkv_server", f"--dir={self.folder}", f"--cap={capacity_bytes}",
             f"--ram-tier-bytes={ram_bytes}", "--port=0", "--metrics-port=0", "--log=warn",
             "--tcp-first-req-ms=600000", *flags],
            stdout=subprocess.PIPE)
        text = self.await_ready()
        self.members = "node=127.0.0.1:" + re.search(r"^PORT (\d+)$", text, re.MULTILINE)[1]
        self.admin = re.search(r" metrics=(\S+)", text)[1]

    def await_ready(self):
        """What it prints until it is ready."""
        text = ""
        end = time.monotonic() + READY_TIMEOUT_S
        while " metrics=" not in text or not text.endswith("\n"):
            ready, _, _ = select.select([self.process.stdout], [], [], max(0, end - time.monotonic()))
            part = os.read(self.process.stdout.fileno(), 4096) if ready else b""
            if not part:
                self.close()
                raise RuntimeError(f"dfkv_server did not become ready: {text.strip()!r}")
            text += part.decode()
        return text

    def bench(self, *flags):
        """One run of dfkv_bench as its JSON. A wrong byte or an error fails the whole measurement."""
        words = [self.programs / "dfkv_bench", f"--members={self.members}", "--progress=off", "--json=-", *flags]
        done = subprocess.run(words, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(map(str, words))}: status {done.returncode}:\n{done.stderr[-2000:]}")
        return json.loads(done.stdout)

    def connect(self):
        """A connection that says nothing."""
        return socket.create_connection(("127.0.0.1", int(self.members.rsplit(":", 1)[1])), timeout=30)

    def metric(self, name):
        """The sum over all its series."""
        with urllib.request.urlopen(f"http://{self.admin}/metrics", timeout=60) as answer:
            text = answer.read().decode()
        return sum(float(value) for value in re.findall(rf"^{name}(?:{{.*}})? (\S+)$", text, re.MULTILINE))

    def rss_bytes(self):
        """Resident memory without the arena, which is shared."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        return int(re.search(r"^RssAnon:\s+(\d+)", status, re.MULTILINE)[1]) * 1024

    def close(self):
        self.process.terminate()
        try:
            self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
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
    """The nodes that the cells need, each started and filled when first asked for.

    RAM, written over by nothing else: get, get-spin, get-few, get-many; get-idle is get while IDLE further
    connections are open. A RAM tier far smaller than what is read:
    get-disk. Space that is written through once and emptied after each cell: put. Space that is full: put-evict.
    """

    def __init__(self, programs, folder, plan):
        self.programs = programs
        self.folder = pathlib.Path(folder)
        self.plan = plan
        self.nodes = {}
        self.filled = set()
        self.seeds = 1000  # every PUT cell writes objects that are not there yet

    def measure(self, cell):
        if cell.operation == "put":
            return self.put(self.node("put"), cell, emptied=True)
        if cell.operation == "put-evict":
            return self.put(self.node(f"put-evict-{cell.size}"), cell, emptied=False)
        node = self.node("get" if cell.operation == "get-idle" else cell.operation)
        objects = self.working_set(cell)
        load = self.fill(node, cell, objects)
        more = [f"--spin-us={SPIN_US}"] if cell.operation == "get-spin" else []
        idle = [node.connect() for _ in range(IDLE)] if cell.operation == "get-idle" else []
        try:
            report = node.bench("--op=get", "--count=1000000000", f"--seconds={self.plan.seconds}", "--order=random",
                                "--verify=off", f"--batch={cell.batch}", f"--threads={cell.threads}", "--allow-misses",
                                *load, *more)
        finally:
            for connection in idle:
                connection.close()
        return sample_of(report, "get")

    def node(self, use):
        if use not in self.nodes:
            capacity, ram, flags = self.size_of(use)
            node = Node(self.programs, self.folder / use, capacity, ram, *flags)
            self.nodes[use] = node
            if use.startswith("put"):
                self.write_through(node, capacity, evict=use != "put")
        return self.nodes[use]

    def size_of(self, use):
        """(capacity, RAM tier, further flags)"""
        plan = self.plan
        ram = plan.ram_bytes * 5 // 4
        few = plan.growth_objects // 10 * 4 * KIB * 3 // 2 + 256 * MIB
        return {"get": (3 * ram * len(plan.sizes), ram * len(plan.sizes) + 256 * MIB, []),
                "get-spin": (3 * ram, ram, [f"--spin-us={SPIN_US}"]),
                "get-disk": (2 * plan.file_bytes * len(plan.sizes), 64 * MIB, []),
                "get-few": (2 * few, few, []),
                "get-many": (20 * few, plan.growth_objects * 4 * KIB * 3 // 2 + 256 * MIB, []),
                "put": (max(1024 * MIB, int(plan.seconds * 5e9)), 512 * MIB, []),
                }.get(use, (1024 * MIB, 128 * MIB, []))

    def working_set(self, cell):
        many = self.plan.growth_objects
        if cell.operation in ("get-few", "get-many"):
            return many if cell.operation == "get-many" else many // 10
        wanted = (self.plan.file_bytes if cell.operation == "get-disk" else self.plan.ram_bytes) // cell.size
        return max(wanted, 1)

    def fill(self, node, cell, objects):
        """Stores the working set and compares every byte of it once; the flags that name it."""
        load = [f"--size={cell.size}", f"--namespace=read-{cell.size}", f"--working-set={objects}"]
        if (node, cell.size) not in self.filled:
            self.filled.add((node, cell.size))
            batch = max(1, min(64, 8 * MIB // cell.size))
            for operation in ("put", "get"):
                node.bench(f"--op={operation}", f"--count={objects}", "--threads=2", f"--batch={batch}",
                           "--allow-misses", *load)
        return load

    def write_through(self, node, capacity, evict):
        """Every block written once, so that cells overwrite; then the space is free, or stays full."""
        size = int(node.folder.name.removeprefix("put-evict-")) if evict else MIB
        batch = max(1, min(64, 8 * MIB // size))
        count = capacity // size * 5 // 4 if evict else capacity // size * 9 // 10
        flags = [f"--size={size}", "--namespace=through", "--threads=2", f"--batch={batch}", f"--count={count}",
                 "--allow-misses"]
        node.bench("--op=put", *flags)
        if not evict:
            node.bench("--op=remove", *flags)

    def put(self, node, cell, emptied):
        self.seeds += 1
        name = [f"--size={cell.size}", f"--namespace=write-{cell.size}", f"--key-seed={self.seeds}"]
        report = node.bench("--op=put", "--count=1000000000", f"--seconds={self.plan.seconds}",
                            f"--batch={cell.batch}", f"--threads={cell.threads}", *name)
        if emptied:
            count = report["phases"][-1]["put"]["items"]
            node.bench("--op=remove", f"--count={count}", "--threads=2", "--batch=64", "--allow-misses", *name)
        return sample_of(report, "put")

    def ram_percent(self, use):
        """Share of a node's reads that were served from RAM so far; None when it was not used."""
        if use not in self.nodes:
            return None
        hits, misses = (self.nodes[use].metric(f"dfkv_ram_{name}_total") for name in ("hit", "miss"))
        return 100 * hits / max(hits + misses, 1)

    def close(self):
        for node in self.nodes.values():
            node.close()


def bytes_per_connection(programs, folder, connections=500):
    """Memory that a node takes for a connection that sends nothing."""
    node = Node(programs, folder, 256 * MIB, 64 * MIB, f"--tcp-max-conns={2 * connections}")
    sockets = []
    try:
        before = node.rss_bytes()
        sockets = [node.connect() for _ in range(connections)]
        end = time.monotonic() + 30
        while node.metric("dfkv_open_connections") < connections:
            if time.monotonic() > end:
                raise RuntimeError(f"the node did not take {connections} connections")
        return (node.rss_bytes() - before) / connections
    finally:
        for connection in sockets:
            connection.close()
        node.close()
