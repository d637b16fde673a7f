"""Writes docs/METRICS.md from what a running node exposes: `metrics_page.py [--write|--check]`.

DFKV_PROGRAMS is the folder of the programs. --check exits with 1 when the page lacks a metric or has one too many.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.request

from harness import Wire, put_item

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PROGRAMS = pathlib.Path(os.environ.get("DFKV_PROGRAMS", ROOT / "build/release/bin"))
PAGE = ROOT / "docs/METRICS.md"
HEAD = """# Metrics of a node

What `/metrics` of `dfkv_server --metrics-port N` and the STATS request answer, as Prometheus text. Generated from a
running node by `tests/system/metrics_page.py --write`; a test compares them. Counters end in `_total`; times are in
seconds, sizes in bytes. `dfkv_errors_total` appears with its first event; series with `tenant_hash` or `slot_size`
come and go with the objects that they count.

Hit ratio: `dfkv_cache_hit_total / (dfkv_cache_hit_total + dfkv_cache_miss_total)`. The same numbers as JSON: `/stats`.
The client's metrics are in [CLIENT.md](CLIENT.md).

| metric | type | labels | meaning |
|---|---|---|---|
"""
ON_EVENT = {"dfkv_errors_total": ("counter", "op, status", "Items that failed, by operation and code.")}


def scrape():
    """The metrics text of a fresh node."""
    folder = tempfile.mkdtemp(prefix="dfkv_metrics.", dir="/var/tmp")
    node = subprocess.Popen([PROGRAMS / "dfkv_server", "--dir", f"{folder}/data", "--cap", "128MiB", "--ram-tier-bytes",
                             "64MiB", "--max-object-bytes", "4MiB", "--metrics-port", "0", "--log", "error"],
                            stdout=subprocess.PIPE, text=True)
    try:
        for line in node.stdout:
            found = re.search(r"^READY .*metrics=(\S+)", line)
            if found:
                with Wire(int(re.search(r":(\d+) ", line)[1])) as wire:  # so that series by tenant and class are there
                    wire.call("put", [put_item(1, b"value")], payload=b"value")
                with urllib.request.urlopen(f"http://{found[1]}/metrics", timeout=30) as answer:
                    return answer.read().decode()
        sys.exit("metrics_page: the node did not become ready")
    finally:
        node.terminate()
        node.wait()
        shutil.rmtree(folder, ignore_errors=True)


def families(text):
    """{name: (type, labels, meaning)}"""
    help_of, type_of, labels_of = {}, {}, {}
    for line in text.splitlines():
        if line.startswith("# HELP "):
            _, _, name, meaning = line.split(" ", 3)
            help_of[name] = meaning
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ", 3)
            type_of[name] = kind
        elif line:
            name = re.match(r"[a-zA-Z0-9_:]+", line)[0]
            for family in (name, re.sub(r"_(bucket|sum|count)$", "", name)):
                found = labels_of.setdefault(family, [])
                found += [label for label in re.findall(r'[{,]([a-z_]+)="', line) if label != "le" and label not in found]
    rows = {name: (kind, ", ".join(labels_of.get(name, [])), help_of.get(name, "")) for name, kind in type_of.items()}
    return ON_EVENT | rows


# What promtool says of names that users of the existing dfkv know: they stay.
KNOWN_LINT = {"dfkv_tcp_first_req_ms metric names should not contain abbreviated units"}


def lint(text):
    """What promtool finds wrong with the text."""
    promtool = shutil.which("promtool")
    if promtool is None:
        print("metrics_page: no promtool (Debian package prometheus): the text is not checked with it")
        return []
    done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    lines = set((done.stdout + done.stderr).splitlines())
    return sorted(lines - KNOWN_LINT)


def main():
    text = scrape()
    rows = families(text)
    page = HEAD + "".join(f"| `{name}` | {kind} | {labels or '–'} | {meaning} |\n"
                          for name, (kind, labels, meaning) in sorted(rows.items()))
    if "--write" in sys.argv[1:]:
        PAGE.write_text(page)
    elif "--check" in sys.argv[1:]:
        there = set(re.findall(r"^\| `(\w+)`", PAGE.read_text(), re.M))
        wrong = sorted(there ^ set(rows))
        if wrong:
            sys.exit(f"docs/METRICS.md is out of date ({', '.join(wrong)}): run tests/system/metrics_page.py --write")
        found = lint(text)
        if found:
            sys.exit("promtool check metrics:\n" + "\n".join(found))
    else:
        print(page, end="")


if __name__ == "__main__":
    main()
