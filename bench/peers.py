"""The programs that dfkv is measured beside: iperf3 for the network, fio for the disk, redis for a cache in RAM."""

import csv
import json
import pathlib
import socket
import subprocess

from cells import MIB, Sample

TIMEOUT_S = 120


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run_text(words):
    """The program's stdout; its stderr is part of the error when it fails."""
    done = subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, words))}: status {done.returncode}: {done.stderr.strip()[-500:]}")
    return done.stdout


def first_line(words):
    """The first line that a program prints, as of --version."""
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.stdout.splitlines()[0].strip() if done.returncode == 0 and done.stdout else "unknown"


def await_port(port, process):
    """Until something listens; what ends first has failed."""
    while process.poll() is None:
        with socket.socket() as probe:
            probe.settimeout(1)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        try:
            process.wait(timeout=0.02)
        except subprocess.TimeoutExpired:
            pass
    raise RuntimeError(f"{process.args[0]} ended with status {process.returncode} before it was ready")


class Iperf:
    """Raw TCP over loopback: what a transport could reach at best."""

    def __init__(self, plan):
        self.seconds = max(1, round(plan.seconds))  # whole ones only

    def measure(self, cell):
        port = free_port()
        # The server ends by itself after one client (-1).
        server = subprocess.Popen(["iperf3", "-s", "-1", "-B", "127.0.0.1", "-p", str(port), "--forceflush"],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            while "listening" not in server.stdout.readline():
                if server.poll() is not None:
                    raise RuntimeError("iperf3 -s ended before it was ready")
            return self.parse(run_text(["iperf3", "-c", "127.0.0.1", "-p", str(port), "-P", str(cell.threads), "-J",
                                        "-t", str(self.seconds)]))
        finally:
            server.kill()
            server.wait()

    @staticmethod
    def parse(text):
        end = json.loads(text)["end"]
        gb_per_s = end["sum_received"]["bits_per_second"] / 8e9
        return Sample(ops_per_s=0, gb_per_s=gb_per_s)


class Fio:
    """The disk with O_DIRECT: what storage could reach at best."""

    def __init__(self, folder, plan):
        self.path = pathlib.Path(folder) / "fio.dat"
        self.size = plan.file_bytes
        self.seconds = plan.seconds
        self.engine = "io_uring" if self.works("io_uring") else "libaio"
        # Written once, so that reads read written blocks and writes overwrite them.
        self.run("write", 4 * MIB, 8, [f"--size={self.size}"])

    def works(self, engine):
        done = subprocess.run(["fio", "--name=probe", f"--filename={self.path}", f"--ioengine={engine}", "--size=1M",
                               "--rw=write", "--direct=1"], capture_output=True, timeout=TIMEOUT_S, check=False)
        return done.returncode == 0

    def run(self, operation, size, depth, extra):
        return run_text(["fio", "--name=cell", f"--filename={self.path}", f"--ioengine={self.engine}", "--direct=1",
                         f"--rw={operation}", f"--bs={size}", f"--iodepth={depth}", "--output-format=json",
                         "--randrepeat=0", "--norandommap", *extra])

    def measure(self, cell):
        text = self.run(cell.operation, cell.size, cell.batch,
                        [f"--size={self.size}", "--time_based", f"--runtime={round(1000 * self.seconds)}ms"])
        return self.parse(text, cell.operation)

    @staticmethod
    def parse(text, operation):
        # Warnings may stand before the JSON.
        job = json.loads(text[text.index("{"):])["jobs"][0]["read" if operation.endswith("read") else "write"]
        percentiles = job["clat_ns"].get("percentile", {})
        return Sample(ops_per_s=job["iops"], gb_per_s=job["bw_bytes"] / 1e9,
                      p50_us=percentiles.get("50.000000", 0) / 1e3, p99_us=percentiles.get("99.000000", 0) / 1e3)

    def close(self):
        self.path.unlink(missing_ok=True)


class Redis:
    """A cache in RAM, without persistence: SET and GET of one key, pipelined as dfkv batches."""

    def __init__(self, folder, plan):
        self.seconds = plan.seconds
        self.rates = {}  # requests a second of a cell, as it was last time
        self.port = free_port()
        self.process = subprocess.Popen(
            ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
             "--dir", str(folder)], stdout=subprocess.DEVNULL)
        await_port(self.port, self.process)

    def measure(self, cell):
        # It takes a number of requests, not a time.
        rate = self.rates.get(cell, min(2e9 / cell.size, 5e4))
        count = max(int(rate * self.seconds), 4 * cell.batch * cell.threads)
        if cell.operation == "get":
            self.run(cell.size, 1, 1, "set", 1)  # the key that is read
        sample = self.run(cell.size, cell.threads, cell.batch, {"get": "get", "put": "set"}[cell.operation], count)
        self.rates[cell] = sample.ops_per_s
        return sample

    def run(self, size, connections, batch, test, count):
        text = run_text(["redis-benchmark", "-p", str(self.port), "-t", test, "-d", str(size), "-c", str(connections),
                         "-P", str(batch), "-n", str(count), "--csv"])
        return next(iter(self.parse(text, size).values()))

    @staticmethod
    def parse(text, size):
        samples = {}
        for row in csv.DictReader(text.splitlines()):
            operation = {"GET": "get", "SET": "put"}.get(row["test"])
            if operation:
                rate = float(row["rps"])
                samples[operation] = Sample(ops_per_s=rate, gb_per_s=rate * size / 1e9,
                                            p50_us=float(row["p50_latency_ms"]) * 1e3,
                                            p99_us=float(row["p99_latency_ms"]) * 1e3)
        return samples

    def close(self):
        self.process.terminate()
        self.process.wait(timeout=30)
