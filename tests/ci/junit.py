"""Counts tests from reports: JUnit files of ctest and pytest, and lines "N passed, N failed, N skipped"."""

import re
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field


@dataclass
class Results:
    """What a report says."""

    passed: int = 0
    failed: list = field(default_factory=list)  # names
    skipped: list = field(default_factory=list)  # (name, reason)


def _skip_reason(case, element):
    """GoogleTest prints the reason on the line after "Skipped"; pytest has it in the attribute."""
    output = case.findtext("system-out") or ""
    match = re.search(r"^\S+:\d+: Skipped\n(.+)$", output, re.MULTILINE)
    return match.group(1).strip() if match else element.get("message") or "no reason given"


def read(path):
    """The results of a JUnit file; none when there is no such file."""
    results = Results()
    if not path.exists():
        return results
    for case in ElementTree.parse(path).iter("testcase"):
        name = ".".join(filter(None, dict.fromkeys([case.get("classname"), case.get("name")])))
        skipped = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None or case.get("status") == "fail":
            results.failed.append(name)
        elif skipped is not None:
            results.skipped.append((name, _skip_reason(case, skipped)))
        elif case.get("status") in ("disabled", "notrun"):
            results.skipped.append((name, "disabled"))
        else:
            results.passed += 1
    return results


def read_counts(path):
    """The results of a log whose checks are "name ok" or "name FAILED" lines, one each."""
    results = Results()
    for name, verdict in re.findall(r"^(\S+) +(ok|FAILED) +[\d.]+ s$", path.read_text(errors="replace"),
                                    re.MULTILINE):
        if verdict == "ok":
            results.passed += 1
        else:
            results.failed.append(name)
    return results
