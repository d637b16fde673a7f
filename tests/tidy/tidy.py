#!/usr/bin/env python3
"""Runs every tidy check: `tidy.py [--fast] [NAME...]`. Exit status 0 when the tree is clean.

--fast leaves out the checks that compile. The last line is "N passed, N failed, N skipped", in checks.
"""

import argparse
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import check_banned  # noqa: E402
import check_budgets  # noqa: E402
import check_clang  # noqa: E402
import check_docs  # noqa: E402
import check_layers  # noqa: E402
from common import Tree  # noqa: E402


def self_test(_tree):
    """The checks themselves, each of which must catch a planted violation, and the counting of CI."""
    here = Path(__file__).parent
    result = unittest.TestResult()
    for folder in (here, here.parent / "ci"):
        unittest.TestLoader().discover(str(folder), "test_*.py").run(result)
    return [f"{test}:\n{trace}" for test, trace in result.failures + result.errors]


def compiling_checks():
    state = {}

    def with_commands(check):
        def run(tree):
            if not state:
                state.update(cache=check_clang.open_cache(tree), commands=check_clang.configure(tree))
            return check(tree, state["cache"], state["commands"])
        return run
    return {
        "headers": with_commands(check_clang.check_headers),
        "clang": with_commands(check_clang.check_warnings),
        "clang-tidy": with_commands(check_clang.check_tidy),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fast", action="store_true", help="leave out the checks that compile")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these checks")
    arguments = parser.parse_args()
    checks = {
        "self-test": self_test, "layers": check_layers.run, "banned": check_banned.run,
        "budgets": check_budgets.run, "docs": check_docs.run, "format": check_clang.check_format,
    }
    slow = compiling_checks()
    checks.update(slow)
    unknown = set(arguments.names) - set(checks)
    if unknown:
        parser.error(f"no check {' '.join(sorted(unknown))}; there are {' '.join(checks)}")
    tree = Tree(Path(__file__).resolve().parents[2])
    passed = failed = skipped = 0
    for name, check in checks.items():
        if arguments.names and name not in arguments.names or arguments.fast and name in slow:
            skipped += 1
            continue
        start = time.monotonic()
        problems = check(tree)
        print(f"{name:12} {'FAILED' if problems else 'ok':6} {time.monotonic() - start:7.1f} s", flush=True)
        for problem in problems:
            print("  " + problem, flush=True)
        passed += not problems
        failed += bool(problems)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
