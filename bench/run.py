#!/usr/bin/python3
"""Measures dfkv beside iperf3, fio and redis-server in one run and writes bench/RESULTS.md.

Every round measures everything once, so that the machine's drift meets all programs alike. BENCH_QUICK=1 takes two
minutes and a small matrix. Only one run at a time: a lock file refuses a second one.
"""

import argparse
import datetime
import fcntl
import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import time

import node
import peers
import results_page
from cells import FULL, QUICK, Results

ROOT = pathlib.Path(__file__).resolve().parent.parent
NEEDED = {"iperf3": "iperf3", "fio": "fio", "redis-server": "redis-server", "redis-benchmark": "redis-tools"}


def fail(text):
    print(f"bench: {text}", file=sys.stderr)
    sys.exit(2)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", default=os.environ.get("BENCH_QUICK", "") not in ("", "0"))
    parser.add_argument("--programs", type=pathlib.Path, default=ROOT / "build/release/bin",
                        help="folder of dfkv_server and dfkv_bench")
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build/bench",
                        help="folder for data and results.json; on the disk that is to be measured")
    parser.add_argument("--page", type=pathlib.Path, default=ROOT / "bench/RESULTS.md")
    parser.add_argument("--rounds", type=int, help="instead of the plan's")
    return parser.parse_args()


def check_tools(programs):
    missing = [package for tool, package in NEEDED.items() if not shutil.which(tool)]
    if missing:
        fail(f"not installed: {' '.join(missing)}; run `make deps` or apt-get install {' '.join(missing)}")
    for name in ("dfkv_server", "dfkv_bench"):
        if not os.access(programs / name, os.X_OK):
            fail(f"{programs / name} is not there; run `make build` first")


def take_lock(work):
    """Held until the process ends."""
    file = open(work / "lock", "w", encoding="utf-8")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        fail(f"another measurement holds {work / 'lock'}; two at once measure each other")
    return file


def first_line(words):
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=ROOT)
    return done.stdout.splitlines()[0].strip() if done.returncode == 0 and done.stdout else "unknown"


def facts_of(programs, plan, quick):
    """What a reader must know to compare."""
    cpu = "unknown"
    for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            cpu = line.split(":", 1)[1].strip()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    return {
        "date": datetime.date.today().isoformat(),
        "dfkv": f"{first_line([programs / 'dfkv_server', '--version'])}, commit "
                f"{first_line(['git', 'rev-parse', '--short', 'HEAD'])}",
        "machine": f"{cpu}, {len(os.sched_getaffinity(0))} CPUs, {memory:.0f} GiB, Linux {platform.release()}",
        "beside": f"{first_line(['iperf3', '--version'])}; {first_line(['fio', '--version'])}; "
                  f"{first_line(['redis-server', '--version'])}",
        "plan": f"{'quick, ' if quick else ''}{plan.rounds} rounds, {plan.seconds} s a cell",
    }


def measure(arguments, plan, results):
    folder = arguments.work / "data"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    programs = []
    try:
        programs.append(peers.Iperf())
        programs.append(peers.Fio(folder, plan))
        programs.append(peers.Redis(folder))
        programs.append(node.Dfkv(arguments.programs, folder, plan))
        for number in range(plan.rounds):
            for program in programs:
                start = time.monotonic()
                program.measure(plan, results)
                print(f"bench: round {number + 1}/{plan.rounds}: {type(program).__name__.lower()} "
                      f"{time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
    finally:
        for program in programs:
            getattr(program, "close", lambda: None)()
        shutil.rmtree(folder, ignore_errors=True)


def main():
    arguments = parse_arguments()
    arguments.work.mkdir(parents=True, exist_ok=True)
    arguments.programs = arguments.programs.resolve()
    check_tools(arguments.programs)
    lock = take_lock(arguments.work)
    plan = QUICK if arguments.quick else FULL
    if arguments.rounds:
        plan = type(plan)(**{**plan.__dict__, "rounds": arguments.rounds})
    facts = facts_of(arguments.programs, plan, arguments.quick)
    results = Results()
    try:
        measure(arguments, plan, results)
        if not arguments.quick:
            memory = node.bytes_per_object(arguments.programs, arguments.work)
            facts["memory per object"] = f"{memory:.0f} bytes (index and policy, objects of 4 KiB)"
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        fail(str(error))
    document = {"facts": facts, "cells": results.to_json()}
    (arguments.work / "results.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    arguments.page.write_text(results_page.page(results, facts, plan), encoding="utf-8")
    print(f"bench: wrote {arguments.page} and {arguments.work / 'results.json'}")
    lock.close()


if __name__ == "__main__":
    main()
