#!/usr/bin/python3
"""Replays the published traces against a node and compares with the bars of the default policy.

    replay_traces.py                  everything: both traces, 5, 10 and 20 % and the infinite cache, each also with kill -9
    replay_traces.py --only synth:0.1 --no-kill

The traces (Mooncake, Apache-2.0) are not part of the project: --traces or DFKV_TRACES names their folder, else
../shared/traces beside the checkout. Without them nothing is tested and the exit status is 77.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FILES = {"conv": "conversation_trace.jsonl.gz", "synth": "synthetic_trace.jsonl.gz"}
# Token hit % by the share of the distinct blocks that the cache holds; 0: it holds all.
BARS = {"conv": {0.05: 21.6, 0.1: 28.5, 0.2: 35.2, 0: 37.4}, "synth": {0.05: 16.4, 0.1: 27.1, 0.2: 40.7, 0: 65.1}}
TOLERANCE = 1.0
KILL_AFTER = {"conv": 6000, "synth": 2000}
SKIPPED = 77


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=pathlib.Path,
                        default=os.environ.get("DFKV_TRACES", ROOT.parent / "shared/traces"))
    parser.add_argument("--programs", type=pathlib.Path,
                        default=os.environ.get("DFKV_PROGRAMS", ROOT / "build/release/bin"))
    parser.add_argument("--block-bytes", default="64KiB")
    parser.add_argument("--only", action="append", metavar="TRACE:SHARE", help="as in synth:0.1; repeatable")
    parser.add_argument("--no-kill", action="store_true")
    parser.add_argument("--data", default="/var/tmp", help="folder on the disk to use")
    return parser.parse_args()


def replay(arguments, trace, share, kill):
    """The report of one replay, and what is wrong with it."""
    with tempfile.TemporaryDirectory(prefix="dfkv_replay.", dir=arguments.data) as folder:
        words = [arguments.programs / "dfkv_bench", "replay", f"--trace={arguments.traces / FILES[trace]}",
                 f"--serve={arguments.programs / 'dfkv_server'}", f"--dir={folder}", "--json=-",
                 f"--block-bytes={arguments.block_bytes}", f"--cache-fraction={share}"]
        if kill:
            words.append(f"--kill-at={KILL_AFTER[trace]}")
        done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode not in (0, 1):
        return None, [f"dfkv_bench ended with status {done.returncode}"]
    report = json.loads(done.stdout)
    faults = [] if done.returncode == 0 else ["an operation failed"]
    if report["wrong"] != 0:
        faults.append(f"{report['wrong']} blocks with wrong bytes")
    bar = BARS[trace][share]
    # After a kill the policy starts anew: such a run is judged on its bytes. The infinite cache forgets nothing.
    if (not kill or share == 0) and abs(report["token_hit_percent"] - bar) > TOLERANCE:
        faults.append(f"token hit ratio {report['token_hit_percent']:.2f} %, wanted {bar} ± {TOLERANCE}")
    if kill and "kill" not in report:
        faults.append("the node was not killed")
    return report, faults


def line_of(trace, share, kill, report, faults, seconds):
    share_text = f"{100 * share:g} %" if share else "all"
    text = f"{trace:5} {share_text:>5}{' kill -9' if kill else '':8} "
    if report:
        text += (f"token hits {report['token_hit_percent']:6.2f} % (bar {BARS[trace][share]}, offline best "
                 f"{report['offline_best_percent']:.1f})  wrong {report['wrong']}  {report['gb_per_s']:.2f} GB/s  ")
    return text + f"{seconds:.0f} s  " + ("ok" if not faults else "FAILED: " + "; ".join(faults))


def main():
    arguments = parse_arguments()
    arguments.traces = pathlib.Path(arguments.traces)
    missing = [name for name in FILES.values() if not (arguments.traces / name).exists()]
    if missing:
        print(f"SKIPPED: {', '.join(missing)} not in {arguments.traces}; nothing was replayed. Name their folder with "
              "--traces or DFKV_TRACES.", file=sys.stderr)
        return SKIPPED
    chosen = [(trace, share) for trace, bars in BARS.items() for share in bars]
    if arguments.only:
        named = [(only.split(":")[0], float(only.split(":")[1])) for only in arguments.only]
        if not set(named) <= set(chosen):
            sys.exit(f"--only: choose from {', '.join(f'{trace}:{share:g}' for trace, share in chosen)}")
        chosen = named
    failed = 0
    for trace, share in chosen:
        for kill in (False,) if arguments.no_kill else (False, True):
            start = time.monotonic()
            report, faults = replay(arguments, trace, share, kill)
            failed += bool(faults)
            print(line_of(trace, share, kill, report, faults, time.monotonic() - start), flush=True)
    print(f"{failed} failed" if failed else "all replays as they should be")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
