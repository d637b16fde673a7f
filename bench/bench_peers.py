#!/usr/bin/python3
"""Measures dfkv beside what a user would pick instead: redis, memcached, Mooncake Store, LMCache's remote server.

The same objects, batches and numbers of clients for each, through its own Python client (bench/peer_clients.py), in
turns. Peers from PyPI are installed into virtual environments under build/peers; one that cannot be had on this machine
is left out, and the page says why. Writes the section "Beside other caches" of bench/RESULTS.md and
build/peers/results.json.
"""

import argparse
import json
import os
import pathlib
import select
import shutil
import statistics
import subprocess
import sys
import time

import results_page
from bars import number, size_text
from cells import KIB, MIB
from node import Node
from peers import await_port, first_line, free_port

ROOT = pathlib.Path(__file__).resolve().parent.parent
PYTHON = "/usr/bin/python3" if os.access("/usr/bin/python3", os.X_OK) else sys.executable
INSTALL_TIMEOUT_S = 1200
ANSWER_TIMEOUT_S = 300
MEMORY_BYTES = 3 << 30  # of each cache
SIZES = (4 * KIB, 64 * KIB, MIB, 4 * MIB)
LOADS = ((1, 1), (8, 1), (8, 4))  # objects a call, clients


def say(text):
    print(f"bench-peers: {text}", file=sys.stderr, flush=True)


class Absent(Exception):
    """A peer that cannot be measured here, and why."""


def virtual_environment(work, name, packages):
    """The Python of an environment that has the packages, made when it is not there."""
    folder = work / name
    python = folder / "bin/python"
    if (folder / "complete").exists():
        return str(python)
    say(f"installing {' '.join(packages)} into {folder}")
    try:
        subprocess.run([PYTHON, "-m", "venv", str(folder)], check=True, capture_output=True, timeout=INSTALL_TIMEOUT_S)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages], check=True,
                       capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S)
    except subprocess.CalledProcessError as error:
        lines = str(error.stderr).strip().splitlines() or ["pip failed"]
        raise Absent(f"cannot be installed: {lines[-1][:200]}") from error
    except subprocess.TimeoutExpired as error:
        raise Absent(f"not installed within {INSTALL_TIMEOUT_S} s") from error
    (folder / "complete").touch()
    return str(python)


class Peer:
    """A cache that runs, and what starts a client of it."""

    name = server = settings = ""
    python = PYTHON
    environment = {}

    def __init__(self):
        self.processes = []
        self.address = ""

    def spawn(self, words, **more):
        process = subprocess.Popen([str(word) for word in words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   **more)
        self.processes.append(process)
        return process

    def close(self):
        for process in reversed(self.processes):
            process.terminate()
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


class DfkvPeer(Peer):
    name = "dfkv"
    settings = "PUTs are on disk before they are acknowledged, every CRC is checked"

    def __init__(self, arguments, work):
        super().__init__()
        self.server = first_line([arguments.programs / "dfkv_server", "--version"])
        self.node = Node(arguments.programs, work / "dfkv", 2 * MEMORY_BYTES, MEMORY_BYTES)
        self.address = self.node.members.partition("=")[2]
        self.environment = {"PYTHONPATH": str(ROOT / "python/src"), "DFKV_BUILD": str(arguments.programs.parent)}

    def close(self):
        self.node.close()


class RedisPeer(Peer):
    name = "redis"
    settings = "RAM only, no persistence, maxmemory with allkeys-lru"

    def __init__(self, _arguments, work):
        super().__init__()
        self.server = first_line(["redis-server", "--version"])
        port = free_port()
        process = self.spawn(["redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
                              "--maxmemory", MEMORY_BYTES, "--maxmemory-policy", "allkeys-lru", "--dir", work])
        await_port(port, process)
        self.address = f"127.0.0.1:{port}"


class MemcachedPeer(Peer):
    name = "memcached"
    settings = "RAM only, -I 8m, as many threads as CPUs"

    def __init__(self, _arguments, _work):
        super().__init__()
        self.server = first_line(["memcached", "--version"])
        port = free_port()
        user = ["-u", "nobody"] if os.getuid() == 0 else []
        process = self.spawn(["memcached", "-p", port, "-l", "127.0.0.1", "-U", 0, "-m", MEMORY_BYTES // MIB, "-I", "8m",
                              "-t", len(os.sched_getaffinity(0)), *user])
        await_port(port, process)
        self.address = f"127.0.0.1:{port}"


MOONCAKE_SEGMENT = """
import sys
from mooncake.store import MooncakeDistributedStore
store = MooncakeDistributedStore()
assert store.setup("127.0.0.1", "P2PHANDSHAKE", int(sys.argv[2]), 64 << 20, "tcp", "", sys.argv[1]) == 0
print("ready", flush=True)
sys.stdin.read()
store.close()
"""


class MooncakePeer(Peer):
    name = "mooncake"
    settings = "Store over TCP: a master, one process with the segment, P2P handshake, leases of 1 s"

    def __init__(self, _arguments, work):
        super().__init__()
        self.python = virtual_environment(work, "mooncake", ["mooncake-transfer-engine-non-cuda", "numpy"])
        self.server = "Mooncake Store"
        port, metrics = free_port(), free_port()
        try:
            master = self.spawn([pathlib.Path(self.python).parent / "mooncake_master", f"--rpc_port={port}",
                                 "--rpc_address=127.0.0.1", f"--metrics_port={metrics}", "--default_kv_lease_ttl=1000"])
            await_port(port, master)
            self.address = f"127.0.0.1:{port}"
            segment = subprocess.Popen([self.python, "-c", MOONCAKE_SEGMENT, self.address, str(MEMORY_BYTES)],
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            self.processes.append(segment)
            if b"ready" not in read_line(segment, b"ready"):
                raise Absent("its segment did not start")
        except (Absent, RuntimeError) as error:
            self.close()
            raise Absent(str(error)) from error


class LmCachePeer(Peer):
    name = "lmcache"
    settings = ("lmcache_server on the CPU; its PUT is not acknowledged: only the sending is timed; it never evicts: PUTs go "
                "round 64 MiB a client")

    def __init__(self, _arguments, work):
        super().__init__()
        self.python = virtual_environment(work, "lmcache", ["lmcache"])
        self.server = "lmcache_server"
        port = free_port()
        try:
            server = self.spawn([self.python, "-m", "lmcache.v1.server", "127.0.0.1", port, "cpu"])
            await_port(port, server)
        except RuntimeError as error:
            self.close()
            raise Absent(f"its server does not start here: {error}") from error
        self.address = f"127.0.0.1:{port}"


PEERS = {peer.name: peer for peer in (DfkvPeer, RedisPeer, MemcachedPeer, MooncakePeer, LmCachePeer)}


def read_line(process, wanted=b"{"):
    """The next line that starts with `wanted`; empty at the end or after a time."""
    end = time.monotonic() + ANSWER_TIMEOUT_S
    while time.monotonic() < end:
        ready, _, _ = select.select([process.stdout], [], [], end - time.monotonic())
        line = process.stdout.readline() if ready else b""
        if not line or line.startswith(wanted):
            return line
    return b""


class Clients:
    """The processes that put a peer under load."""

    def __init__(self, peer, count):
        self.peer = peer
        self.processes = []
        self.version = ""
        for _ in range(count):
            self.processes.append(subprocess.Popen(
                [peer.python, "-B", str(ROOT / "bench/peer_clients.py"), peer.name, peer.address],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0,
                env={**os.environ, **peer.environment}))
        try:
            for process in self.processes:
                self.version = self.answer(process)["version"]
        except Absent:
            self.close()
            raise

    def answer(self, process):
        line = read_line(process)
        if not line:
            raise Absent(f"its client ended with status {process.poll()}")
        answer = json.loads(line)
        if "error" in answer:
            raise Absent(answer["error"])
        return answer

    def ask(self, count, **request):
        """The same of `count` clients at once; their answers."""
        for worker, process in enumerate(self.processes[:count]):
            process.stdin.write((json.dumps({**request, "worker": worker}) + "\n").encode())
        return [self.answer(process) for process in self.processes[:count]]

    def close(self):
        for process in self.processes:
            process.kill()
            process.wait()


def measure(clients, size, batch, count, seconds, figures):
    """One round of a load: GB/s of PUTs and of GETs."""
    clients.ask(count, operation="fill", size=size, batch=batch)
    for operation in ("put", "get"):
        answers = clients.ask(count, operation=operation, size=size, batch=batch, seconds=seconds)
        rate = sum(answer["operations"] / answer["seconds"] for answer in answers)
        figures.setdefault((operation, size, batch, count, clients.peer.name), []).append(
            (rate, statistics.median(answer["p50_us"] for answer in answers),
             max(answer["p99_us"] for answer in answers)))


def measure_all(arguments, work):
    """(figures by (operation, size, batch, clients, peer), a line on each peer)"""
    figures, notes, running = {}, {}, []
    try:
        for name in arguments.peers:
            peer = None
            try:
                peer = PEERS[name](arguments, work)
                running.append((peer, Clients(peer, max(count for _, count in LOADS))))
                notes[name] = f"{peer.server}; client: {running[-1][1].version}; {peer.settings}"
            except Absent as absent:
                notes[name] = f"not measured: {absent}"
                if peer:
                    peer.close()
            say(f"{name}: {notes[name]}")
        for turn in range(arguments.rounds):
            for size in SIZES:
                for batch, count in LOADS:
                    for peer, clients in list(running):
                        try:
                            measure(clients, size, batch, count, arguments.seconds, figures)
                        except Absent as absent:
                            notes[peer.name] += f"; stopped at {size_text(size)}, batch {batch}: {absent}"
                            running.remove((peer, clients))
                            clients.close()
                            peer.close()
                say(f"round {turn + 1}/{arguments.rounds}: {size_text(size)} done")
    finally:
        for peer, clients in running:
            clients.close()
            peer.close()
    return figures, notes


def section(figures, notes, arguments):
    """The part of the page, as text."""
    names = [name for name in arguments.peers if any(key[4] == name for key in figures)]
    lines = [results_page.PEERS_HEAD, "", "Written by `make bench-peers`: the same objects, objects a call and clients "
             f"(processes) for each cache, through its own Python client, on loopback; medians of {arguments.rounds} "
             "rounds, in turns. Time in calls only. Values are compared by length, first and last word. PUTs store new "
             "objects; those of dfkv are on disk when they are acknowledged, the others' are in RAM.", ""]
    lines += [f"- {name}: {notes[name]}" for name in arguments.peers] + [""]
    ahead = []
    for operation in ("get", "put"):
        rows = []
        for size in SIZES:
            for batch, count in LOADS:
                cells = {name: figures.get((operation, size, batch, count, name)) for name in names}
                rates = {name: statistics.median(rate for rate, _, _ in cell) for name, cell in cells.items() if cell}
                load = f"{operation.upper()} {size_text(size)}, batch {batch}, {count} client{'s' if count > 1 else ''}"
                ahead += [f"{load}: {name} {number(rates[name] / rates['dfkv'])} ×" for name in rates
                          if "dfkv" in rates and rates[name] > 1.05 * rates["dfkv"]]
                rows.append([size_text(size), str(batch), str(count)] + [rate_text(rates.get(name), size, cells[name])
                                                                         for name in names])
        lines += [f"{operation.upper()}, objects/s (GB/s; p99 of a call):", ""]
        lines += results_page.table(["size", "batch", "clients", *names], rows)
    if "dfkv" in names:
        lines += ["Where another is ahead of dfkv: " + ("; ".join(ahead) if ahead else "nowhere") + ".", ""]
    return "\n".join(lines)


def rate_text(rate, size, cell):
    if rate is None:
        return "–"
    return f"{number(rate)} ({number(rate * size / 1e9)}; {number(statistics.median(p99 for _, _, p99 in cell))} us)"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build/peers")
    parser.add_argument("--page", type=pathlib.Path, default=ROOT / "bench/RESULTS.md")
    parser.add_argument("--peers", type=lambda text: text.split(","), default=list(PEERS), help=",".join(PEERS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5, help="of one load of one peer in one round")
    arguments = parser.parse_args()
    arguments.programs = arguments.programs.resolve()
    arguments.work.mkdir(parents=True, exist_ok=True)
    figures, notes = measure_all(arguments, arguments.work)
    shutil.rmtree(arguments.work / "dfkv", ignore_errors=True)
    document = {"notes": notes, "figures": [[*key, values] for key, values in figures.items()]}
    (arguments.work / "results.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    text = section(figures, notes, arguments)
    results_page.replace_section(arguments.page, text)
    print(text)
    print(f"bench-peers: wrote {arguments.page} and {arguments.work / 'results.json'}")


if __name__ == "__main__":
    main()
