"""Refuses tokens outside the one place that owns them, so that the simulator can own clock, threads and chance."""

import re

from common import line_of

_TEST_FILE = re.compile(r"^tests/|_test\.(cc|c)$|^bench/")


class Rule:
    """A pattern, where it is allowed, and what to use instead. `code`: search C++ without comments and strings."""

    def __init__(self, pattern, allowed, instead, suffixes=(".h", ".cc", ".c"), code=True):
        self.pattern = re.compile(pattern)
        self.allowed = re.compile(allowed) if allowed else None
        self.instead = instead
        self.suffixes = suffixes
        self.code = code


RULES = [
    Rule(r"\b(?:secure_)?getenv\s*\(|\benviron\b", r"^src/base/option\.cc$", "declare an option (base/option.h)"),
    Rule(r"\b(?:setenv|unsetenv|putenv)\s*\(", _TEST_FILE.pattern, "pass the value as an argument"),
    Rule(r"\bstd::(?:jthread|async|thread)\b|\bpthread_create\b", r"^src/base/sync\.(h|cc)$",
         "use dfkv::Thread (base/sync.h)"),
    Rule(r"\bclock_gettime\b|\bgettimeofday\b|::now\s*\(\s*\)|\bstd::chrono::\w+_clock\b"
         r"|(?<![\w.>:])(?:::|std::)?time\s*\(\s*(?:NULL|nullptr|0|&\w+)\s*\)|\bstd::clock\b|\b_*rdtscp?\b",
         r"^src/base/clock\.cc$|^tests/system/wall_clock\.c$", "ask the reactor or a dfkv::Clock (base/clock.h)"),
    Rule(r"\bWallMicros\b|\bCLOCK_REALTIME\w*|\bsystem_clock\b", r"^src/base/clock\.(h|cc)$|^tests/system/wall_clock\.c$",
         "the wall clock steps; ask the reactor or a dfkv::Clock (base/clock.h)"),
    Rule(r"\b(?:sleep|usleep|nanosleep|clock_nanosleep|sleep_for|sleep_until|thrd_sleep)\s*\("
         r"|\bpoll\s*\(\s*(?:nullptr|NULL)\b", None,
         "wait for the event itself: a timer of the reactor, a CondVar, a sync point"),
    Rule(r"\bstd::(?:random_device|mt19937(?:_64)?|default_random_engine)\b|(?<![\w.>:])(?:std::)?s?rand\s*\(|\bs?random\s*\(\s*\)",
         r"^src/base/random\.(h|cc)$", "use dfkv::Random (base/random.h)"),
    Rule(r"\bthrow\b", r"^src/base/option_cli\.cc$", "return a Status"),
    Rule(r"\busing\s+namespace\b", None, "name what is used"),
    Rule(r"(?<![\w.])(?:time\.|_time\.)?sleep\s*\(", r"^tests/(?:tidy/|system/harness\.py$)", "wait for the event itself", (".py",), False),
    Rule(r"^[^#\n]*(?<![\w./-])u?sleep\s+[\d.$]", None, "wait for the event itself", (".sh", "Makefile"), False),
    Rule(r"\b(?:TODO|FIXME|XXX)\b", r"^tests/tidy/", "do it, or file an issue",
         (".h", ".cc", ".c", ".py", ".sh", ".md", ".cmake", ".txt", ".toml", ".json", ".yml", "Makefile"), False),
]


def run(tree):
    problems = []
    for path in tree.files:
        for rule in RULES:
            if not path.endswith(rule.suffixes) or (rule.allowed and rule.allowed.search(path)):
                continue
            text = tree.code(path) if rule.code else tree.text(path)
            for match in re.finditer(rule.pattern.pattern, text, re.MULTILINE):
                token = match.group(0).strip()
                problems.append(f"{path}:{line_of(text, match.start())}: {token!r} is banned here: {rule.instead}")
    return problems
