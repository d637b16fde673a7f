#!/usr/bin/env python3
"""Runs the stages of CI and counts their tests: `ci.py [--only STAGE]... [--fuzz-seconds N] [--demo-seconds N]`.

Every stage runs even when an earlier one failed. It ends with a table of times, the skipped tests with their
reasons, what failed, and the line "N passed, N failed, N skipped". Logs lie in build/ci/.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import junit  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
LOGS = ROOT / "build" / "ci"
CPUS = len(os.sched_getaffinity(0))
FUZZ_PARALLEL = min(2, CPUS)
PROBE = re.compile(r'DFKV_PROBE\("([^"]+)"\)')
SANITIZER_ENVIRONMENT = {
    "ASAN_OPTIONS": "detect_stack_use_after_return=1:strict_string_checks=1:detect_leaks=1",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1",
}


@dataclass
class Stage:
    """What a stage counted."""

    name: str
    passed: int = 0
    failed: list = field(default_factory=list)  # what failed, a line each
    skipped: list = field(default_factory=list)  # (test, reason)
    parts: list = field(default_factory=list)  # (what, seconds)
    seconds: float = 0.0

    def run(self, what, command, environment=None):
        """Runs a command with its output in a log; False, with the log's end shown, when it failed."""
        start = time.monotonic()
        log = LOGS / f"{self.name}-{what}.log"
        with open(log, "wb") as output:
            done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output,
                                  stderr=subprocess.STDOUT, env={**os.environ, **(environment or {})})
        self.parts.append((what, time.monotonic() - start))
        if done.returncode != 0:
            tail = log.read_text(errors="replace").splitlines()[-60:]
            print(f"--- {self.name} {what} failed ({done.returncode}), the end of {log}:\n" + "\n".join(tail))
        return done.returncode == 0

    def count(self, results):
        self.passed += results.passed
        self.failed += [f"{self.name}: {test}" for test in results.failed]
        self.skipped += [(f"{self.name}: {test}", reason) for test, reason in results.skipped]


def build(stage, preset):
    if not stage.run("configure", ["cmake", "--preset", preset]):
        stage.failed.append(f"{stage.name}: configure")
        return False
    if not stage.run("build", ["cmake", "--build", "--preset", preset, "-j", str(CPUS)]):
        stage.failed.append(f"{stage.name}: build")
        return False
    return True


def without_address_randomisation():
    """g++ 12's ThreadSanitizer refuses the address layouts that newer kernels draw."""
    prefix = ["setarch", os.uname().machine, "-R"]
    works = shutil.which("setarch") and subprocess.run(
        [*prefix, "true"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0
    return prefix if works else []


def report_probes(stage, reached):
    """Prints the probes of rare paths that no test of the stage reached; of programs that tests start, nothing is
    known."""
    declared = set()
    for path in sorted((ROOT / "src").rglob("*")):
        if path.suffix in (".h", ".cc") and not path.name.endswith("_test.cc") and path.name != "fault.h":
            declared |= set(PROBE.findall(path.read_text()))
    lines = reached.read_text().splitlines() if reached.exists() else []
    never = sorted(declared - {line.rsplit(" ", 1)[0] for line in lines})
    print(f"    {stage.name}: {len(declared) - len(never)} of {len(declared)} probes reached"
          + (f"; never: {', '.join(never)}" if never else ""))


def ctest(stage, _arguments):
    """Builds the preset of the stage's name and runs its tests."""
    if not build(stage, stage.name):
        return
    report = LOGS / f"{stage.name}.xml"
    report.unlink(missing_ok=True)
    reached = LOGS / f"{stage.name}-probes.txt"
    reached.unlink(missing_ok=True)
    prefix = without_address_randomisation() if stage.name == "tsan" else []
    ok = stage.run("test", [*prefix, "ctest", "--preset", stage.name, "-j", str(CPUS), "--output-junit",
                            str(report)], {**SANITIZER_ENVIRONMENT, "DFKV_PROBES_FILE": str(reached)})
    report_probes(stage, reached)
    results = junit.read(report)
    stage.count(results)
    if not ok and not results.failed:
        stage.failed.append(f"{stage.name}: ctest")


def tidy(stage, _arguments):
    ok = stage.run("checks", [sys.executable, "tests/tidy/tidy.py"])
    results = junit.read_counts(LOGS / f"{stage.name}-checks.log")
    stage.count(results)
    if not ok and not results.failed:
        stage.failed.append("tidy: did not finish")


def fuzz(stage, arguments):
    """Runs each fuzzer for the given time, two at once; each counts as one test."""
    if not build(stage, "fuzz"):
        return
    fuzzers = sorted((ROOT / "build/fuzz/bin").glob("fuzz_*"))
    if not fuzzers:
        stage.failed.append("fuzz: no fuzzer was built")
    start = time.monotonic()
    pending, running = list(fuzzers), []
    while pending or running:
        while pending and len(running) < FUZZ_PARALLEL:
            running.append(start_fuzzer(pending.pop(0), arguments.fuzz_seconds))
        name, process, log = running.pop(0)
        if process.wait() == 0:
            stage.passed += 1
        else:
            print(f"--- {name} failed, the end of {log}:\n" + "\n".join(log.read_text(errors="replace")
                                                                      .splitlines()[-40:]))
            stage.failed.append(f"fuzz: {name}")
    stage.parts.append(("run", time.monotonic() - start))


def start_fuzzer(path, seconds):
    name = path.name.removeprefix("fuzz_")
    found = ROOT / "build/fuzz/corpus" / name
    artifacts = ROOT / "build/fuzz/artifacts"
    found.mkdir(parents=True, exist_ok=True)
    artifacts.mkdir(parents=True, exist_ok=True)
    seeds = ROOT / "tests/fuzz/corpus" / name
    log = LOGS / f"fuzz-{name}.log"
    command = [str(path), f"-max_total_time={seconds}", "-timeout=10", "-rss_limit_mb=2048", "-max_len=65536",
               f"-artifact_prefix={artifacts}/{name}-", str(found), *([str(seeds)] if seeds.is_dir() else [])]
    with open(log, "wb") as output:
        process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output,
                                   stderr=subprocess.STDOUT, env={**os.environ, **SANITIZER_ENVIRONMENT})
    return name, process, log


def python(stage, _arguments):
    if not (ROOT / "python/pyproject.toml").exists():
        stage.skipped.append(("python", "there is no package in python/ yet"))
        return
    report = LOGS / "python.xml"
    report.unlink(missing_ok=True)
    ok = stage.run("test", ["tests/ci/python_tests.sh", f"--junitxml={report}"])
    results = junit.read(report)
    stage.count(results)
    if not ok and not results.failed:
        stage.failed.append("python: did not finish")


def demo(stage, arguments):
    if not (ROOT / "deploy/demo.sh").exists():
        stage.skipped.append(("demo", "there is no deploy/demo.sh yet"))
        return
    if stage.run("run", ["make", "run", "NO_DEPS=1", f"DEMO_SECONDS={arguments.demo_seconds}"]):
        stage.passed += 1
    else:
        stage.failed.append("demo: make run")


def vm(stage, _arguments):
    """One boot of a guest: power cuts and failing disks under a real kernel, with the release build's programs."""
    if stage.run("storage", ["tests/vm/storage_test.sh"]):
        stage.passed += 1
    else:
        stage.failed.append("vm: tests/vm/storage_test.sh")


# tidy after release: it asks the built programs for the options page.
STAGES = {"release": ctest, "tidy": tidy, "asan": ctest, "tsan": ctest, "fuzz": fuzz, "python": python, "vm": vm,
          "demo": demo}


def report(stages):
    """Prints the summary; the number of failures."""
    print("\nstage        seconds  passed  failed  skipped")
    for stage in stages:
        parts = ", ".join(f"{what} {seconds:.0f} s" for what, seconds in stage.parts)
        print(f"{stage.name:10} {stage.seconds:9.0f} {stage.passed:7} {len(stage.failed):7} {len(stage.skipped):8}"
              f"   {parts}")
    print(f"{'total':10} {sum(stage.seconds for stage in stages):9.0f}")
    for stage in stages:
        for test, reason in stage.skipped:
            print(f"skipped: {test}: {reason}")
    failures = [line for stage in stages for line in stage.failed]
    for line in failures:
        print(f"FAILED: {line}")
    passed = sum(stage.passed for stage in stages)
    skipped = sum(len(stage.skipped) for stage in stages)
    print(f"{passed} passed, {len(failures)} failed, {skipped} skipped")
    return len(failures)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", choices=STAGES, help="only this stage (repeatable)")
    parser.add_argument("--fuzz-seconds", type=int, default=60)
    parser.add_argument("--demo-seconds", type=int, default=10)
    arguments = parser.parse_args()
    LOGS.mkdir(parents=True, exist_ok=True)
    stages = []
    for name, run in STAGES.items():
        if arguments.only and name not in arguments.only:
            continue
        stage = Stage(name)
        stages.append(stage)
        print(f"=== {name}", flush=True)
        start = time.monotonic()
        run(stage, arguments)
        stage.seconds = time.monotonic() - start
        print(f"    {stage.passed} passed, {len(stage.failed)} failed, {len(stage.skipped)} skipped, "
              f"{stage.seconds:.0f} s", flush=True)
    return 1 if report(stages) else 0


if __name__ == "__main__":
    sys.exit(main())
