#!/usr/bin/python3
"""Measures what a node remembers of small objects, and how soon it serves all of them again after `kill -9`.

    recovery.py [--objects 1000000] [--work FOLDER] [--programs FOLDER]

Prints one JSON object; `measure` is the same as a function. The status is 1 when an object is not a hit afterwards.
"""

import argparse
import json
import os
import pathlib
import re
import select
import shutil
import subprocess
import sys
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
OBJECT_BYTES = 4096
RAM_BYTES = 256 << 20
START_TIMEOUT_S = 120
RUN_TIMEOUT_S = 1800


class Server:
    """dfkv_server over a folder that outlives it."""

    def __init__(self, programs, folder, capacity_bytes):
        began = time.monotonic()
        self.process = subprocess.Popen(
            [programs / "dfkv_server", f"--dir={folder}", f"--cap={capacity_bytes}", f"--ram-tier-bytes={RAM_BYTES}",
             "--port=0", "--metrics-port=0", "--log=info"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        text = self.await_ready()
        self.ready_s = time.monotonic() - began
        self.cpu_s = self.cpu()
        self.members = "node=127.0.0.1:" + re.search(r"^PORT (\d+)$", text, re.MULTILINE)[1]
        self.admin = re.search(r" metrics=(\S+)", text)[1]
        self.objects = int(re.search(r" objects=(\d+)", text)[1])

    def await_ready(self):
        text = ""
        end = time.monotonic() + START_TIMEOUT_S
        while " objects=" not in text or not text.endswith("\n"):
            ready, _, _ = select.select([self.process.stdout], [], [], max(0, end - time.monotonic()))
            part = os.read(self.process.stdout.fileno(), 4096) if ready else b""
            if not part:
                self.kill()
                raise RuntimeError(f"dfkv_server did not become ready: {text!r}")
            text += part.decode()
        return text

    def cpu(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def rss_bytes(self):
        """Resident memory without the arena, which is shared."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        return int(re.search(r"^RssAnon:\s+(\d+)", status, re.MULTILINE)[1]) * 1024

    def metric(self, name):
        with urllib.request.urlopen(f"http://{self.admin}/metrics", timeout=60) as answer:
            text = answer.read().decode()
        return float(re.search(rf"^{name} (\S+)$", text, re.MULTILINE)[1])

    def bench(self, programs, *flags):
        words = [programs / "dfkv_bench", f"--members={self.members}", "--progress=off", "--json=-", *flags]
        done = subprocess.run(words, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(map(str, words))}: status {done.returncode}:\n{done.stderr[-2000:]}")
        return json.loads(done.stdout)

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()


def measure(programs, folder, objects=1_000_000):
    """Bytes per object and seconds of the restart. `folder` is made, and removed in the end."""
    programs, folder = pathlib.Path(programs), pathlib.Path(folder)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    capacity = objects * OBJECT_BYTES * 5 // 4
    load = [f"--size={OBJECT_BYTES}", f"--count={objects}", "--batch=64", "--threads=2", "--namespace=recovery"]
    server = None
    try:
        server = Server(programs, folder, capacity)
        empty = server.rss_bytes()
        server.bench(programs, "--op=put", *load)
        result = {
            "objects": objects,
            "index_bytes_per_object": server.metric("dfkv_index_bytes") / objects,
            "policy_bytes_per_object": server.metric("dfkv_policy_bytes") / objects,
            "rss_bytes_per_object": (server.rss_bytes() - empty) / objects,
        }
        server.kill()
        server = None
        server = Server(programs, folder, capacity)
        result["ready_s"] = round(server.ready_s, 3)
        result["ready_cpu_s"] = server.cpu_s
        result["found"] = server.objects
        result["restarted_rss_bytes_per_object"] = (server.rss_bytes() - empty) / objects
        report = server.bench(programs, "--op=get", "--allow-misses", *load)
        result["hits"] = report["phases"][-1]["get"]["good"]
        return result
    finally:
        if server:
            server.kill()
        shutil.rmtree(folder, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--objects", type=int, default=1_000_000)
    parser.add_argument("--programs", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build/bench/recovery")
    arguments = parser.parse_args()
    result = measure(arguments.programs, arguments.work, arguments.objects)
    print(json.dumps(result, indent=2))
    sys.exit(0 if result["hits"] == arguments.objects else 1)


if __name__ == "__main__":
    main()
