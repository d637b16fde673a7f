#!/usr/bin/python3
"""Measures dfkv beside its floors, iperf3, fio and redis-server in one run and writes bench/RESULTS.md.

Every round measures everything once, so that the machine's drift meets all programs alike. --quick (or BENCH_QUICK=1)
takes two minutes and a smaller matrix. Only one run at a time: a lock file refuses a second one.
"""

import argparse
import dataclasses
import datetime
import fcntl
import json
import os
import pathlib
import platform
import re
import select
import shutil
import subprocess
import sys
import time

import bars
import node
import peers
import results_page
from cells import FULL, QUICK, Results, cells_of
from floors import Floors

QUIET_PERCENT = 15
ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAMS = ("dfkv_server", "dfkv_bench", "floor_tcp", "floor_reply", "floor_copy", "floor_disk")
NEEDED = {"iperf3": "iperf3", "fio": "fio", "redis-server": "redis-server", "redis-benchmark": "redis-tools"}


def fail(text):
    print(f"bench: {text}", file=sys.stderr)
    sys.exit(2)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", default=os.environ.get("BENCH_QUICK", "") not in ("", "0"))
    parser.add_argument("--programs", type=pathlib.Path, default=ROOT / "build/release/bin",
                        help="folder of dfkv_server, dfkv_bench and the floors")
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build/bench",
                        help="folder for data and results.json; on the disk that is to be measured")
    parser.add_argument("--page", type=pathlib.Path, default=ROOT / "bench/RESULTS.md")
    parser.add_argument("--rounds", type=int, help="instead of the plan's")
    parser.add_argument("--only", help="only cells whose text (program operation size batch threads) has this pattern")
    parser.add_argument("--settle-s", type=float, default=60,
                        help="wait at most so long until the machine is idle (60)")
    return parser.parse_args()


def check_tools(programs):
    missing = [package for tool, package in NEEDED.items() if not shutil.which(tool)]
    if missing:
        fail(f"not installed: {' '.join(missing)}; run `make deps` or apt-get install {' '.join(missing)}")
    for name in PROGRAMS:
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


def facts_of(programs, plan, quick):
    """What a reader must know to compare."""
    cpu = "unknown"
    for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            cpu = line.split(":", 1)[1].strip()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    return {
        "date": datetime.date.today().isoformat(),
        "dfkv": f"{peers.first_line([programs / 'dfkv_server', '--version'])}, commit "
                f"{peers.first_line(['git', '-C', ROOT, 'rev-parse', '--short', 'HEAD'])}",
        "machine": f"{cpu}, {len(os.sched_getaffinity(0))} CPUs, {memory:.0f} GiB, Linux {platform.release()}",
        "beside": f"{peers.first_line(['iperf3', '--version'])}; {peers.first_line(['fio', '--version'])}; "
                  f"{peers.first_line(['redis-server', '--version'])}",
        "plan": f"{'quick, ' if quick else ''}{plan.rounds} rounds, {plan.seconds} s a cell",
    }


def busy_percent(seconds):
    """Share of the CPUs' time that something runs, looked at for so long."""
    def times():
        fields = [int(f) for f in pathlib.Path("/proc/stat").read_text(encoding="ascii").split("\n")[0].split()[1:]]
        return sum(fields[:8]), fields[3] + fields[4]
    before = times()
    select.select([], [], [], seconds)
    after = times()
    total = max(after[0] - before[0], 1)
    return 100 * (total - (after[1] - before[1])) / total


def settle(limit_s):
    """Waits for a quiet machine; what the page says of it."""
    end = time.monotonic() + limit_s
    while (busy := busy_percent(2)) > QUIET_PERCENT and time.monotonic() < end:
        say(f"waiting for a quiet machine: {busy:.0f} % busy, load average {os.getloadavg()[0]:.1f}")
    quiet = "quiet" if busy <= QUIET_PERCENT else "NOT quiet: figures and ratios are worth little"
    return f"{quiet} ({busy:.0f} % busy before the start, load average {os.getloadavg()[0]:.1f})"


def measure_rounds(arguments, plan, folder, results):
    """All cells, `plan.rounds` times; facts about what the nodes did."""
    cells = cells_of(plan)
    if arguments.only:
        cells = [c for c in cells if re.search(arguments.only, f"{c.program} {c.operation} {c.size} {c.batch} {c.threads}")]
    programs = {}
    makers = {"floor": lambda: Floors(arguments.programs, folder, plan), "iperf3": lambda: peers.Iperf(plan),
              "fio": lambda: peers.Fio(folder, plan), "redis": lambda: peers.Redis(folder, plan),
              "dfkv": lambda: node.Dfkv(arguments.programs, folder, plan)}
    start = time.monotonic()
    try:
        for number in range(plan.rounds):
            for at, cell in enumerate(cells):
                if cell.program not in programs:
                    programs[cell.program] = makers[cell.program]()
                results.add(cell, programs[cell.program].measure(cell))
                say(f"{time.monotonic() - start:4.0f} s  round {number + 1}/{plan.rounds}  {at + 1:3}/{len(cells)}  "
                    f"{cell.program} {cell.operation} {bars.load_text(cell)}: "
                    f"{bars.number(results.samples[cell][-1].gb_per_s)} GB/s")
        return facts_of_nodes(programs.get("dfkv"))
    finally:
        for program in programs.values():
            getattr(program, "close", lambda: None)()


def facts_of_nodes(dfkv):
    shares = {use: dfkv.ram_percent(use) for use in ("get", "get-spin", "get-few", "get-many", "get-disk")} if dfkv else {}
    text = ", ".join(f"{use} {share:.1f} %" for use, share in shares.items() if share is not None)
    return {"reads served from RAM": text} if text else {}


def measure_once(arguments, plan, folder):
    """Memory and the restart; empty in a plan that leaves them out."""
    if not plan.recovery_objects or arguments.only:
        return {}
    try:
        import recovery
    except ImportError:
        say("memory and restart are not measured: bench/recovery.py is not there")
        return {}
    once = {}
    for name, objects in (("recovery_few", plan.recovery_objects // 10), ("recovery", plan.recovery_objects)):
        say(f"memory and restart with {objects:,} objects")
        once[name] = recovery.measure(arguments.programs, folder / "recovery", objects)
    once["bytes_per_connection"] = node.bytes_per_connection(arguments.programs, folder / "connections")
    return once


def say(text):
    print(f"bench: {text}", file=sys.stderr, flush=True)


def write(arguments, plan, facts, results, once):
    rows = bars.rows_of(results, plan, once)
    document = {"facts": facts, "bars": [{**dataclasses.asdict(row), "met": row.met} for row in rows], "once": once,
                "cells": results.to_json()}
    (arguments.work / "results.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    arguments.page.write_text(results_page.page(results, facts, plan, rows) + "\n"
                              + results_page.peers_section(arguments.page), encoding="utf-8")
    for row in rows:
        if not row.met:
            print(f"bench: missed: {row.bar}: {row.case}: {row.measured} beside {row.floor or row.need}"
                  + (f", {row.value:.2f}, needed {row.need:g}" if not row.unit else ""))
    print(f"bench: {sum(row.met for row in rows)} of {len(rows)} cases of the bars are met")
    print(f"bench: wrote {arguments.page} and {arguments.work / 'results.json'}")


def main():
    arguments = parse_arguments()
    arguments.work.mkdir(parents=True, exist_ok=True)
    arguments.programs = arguments.programs.resolve()
    check_tools(arguments.programs)
    lock = take_lock(arguments.work)
    plan = QUICK if arguments.quick else FULL
    if arguments.rounds:
        plan = dataclasses.replace(plan, rounds=arguments.rounds)
    facts = facts_of(arguments.programs, plan, arguments.quick)
    facts["the machine at the start"] = settle(arguments.settle_s)
    results = Results()
    start = time.monotonic()
    folder = arguments.work / "data"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        facts.update(measure_rounds(arguments, plan, folder, results))
        once = measure_once(arguments, plan, folder)
    except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
        fail(str(error))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if "bytes_per_connection" in once:
        facts["memory per idle connection"] = f"{once['bytes_per_connection']:.0f} bytes"
    facts["took"] = f"{(time.monotonic() - start) / 60:.1f} minutes"
    write(arguments, plan, facts, results, once)
    lock.close()


if __name__ == "__main__":
    main()
