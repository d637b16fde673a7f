"""The checks that compile: each header alone, the whole tree with clang's warnings, clang-tidy, clang-format.

They read the compile commands of the preset `clang`, so every file is parsed with its target's own flags. What
passed is remembered by the hash of the file, of all it includes from the tree, and of the command.
"""

import json
import re
import shlex
import subprocess
from pathlib import Path

from common import PassedCache, run_parallel, run_tool

CLANG_FORMAT = "clang-format-16"
CLANG_TIDY = "clang-tidy-16"
CLANG = "clang++-16"
PRESET = "clang"


def configure(tree):
    """Configures the preset and returns {path: arguments of clang without output options}."""
    done = subprocess.run(["cmake", "--preset", PRESET], cwd=tree.root, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"cmake --preset {PRESET}:\n{done.stdout[-2000:]}")
    build = Path(tree.root) / "build" / PRESET
    return commands_of(tree, json.loads((build / "compile_commands.json").read_text()))


def commands_of(tree, database):
    commands = {}
    for entry in database:
        path = str(Path(entry["file"]).resolve().relative_to(Path(tree.root).resolve()))
        words = shlex.split(entry["command"])
        while "clang" not in Path(words[0]).name:
            words.pop(0)  # ccache
        cut = words.index("-o")
        words = [word for word in words[:cut] + words[cut + 2:] if word not in ("-c", entry["file"])]
        commands.setdefault(path, words)
    return commands


def include_flags(words):
    flags = []
    for index, word in enumerate(words):
        if word.startswith(("-I", "-D", "-std=")):
            flags.append(word)
        elif word == "-isystem":
            flags += [word, words[index + 1]]
    return flags


def compile_all(tree, cache, name, jobs):
    """Runs {path: command}, in parallel, unless it passed before with the same inputs."""
    def one(job):
        path, command, stdin = job
        key = cache.key(tree, path, name, *command)
        if cache.has(key):
            return None
        done = subprocess.run(command, cwd=tree.root, input=stdin, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace")
        if done.returncode == 0:
            cache.add(key)
            return None
        return f"{path}: {name}:\n{first_errors(done.stdout)}"
    return [problem for problem in run_parallel(one, jobs) if problem]


def first_errors(output, limit=12):
    """The lines that name an error, or all when none does; at most `limit`."""
    lines = [line for line in output.splitlines() if re.search(r"error:|fatal:", line)] or output.splitlines()
    lines = list(dict.fromkeys(lines))
    return "\n".join("    " + line for line in lines[:limit] + (["..."] if len(lines) > limit else []))


def check_headers(tree, cache, commands):
    """Each header, included twice by an otherwise empty file, must compile."""
    by_folder = {"/".join(path.split("/")[:2]): words for path, words in commands.items() if not path.endswith(".c")}
    fallback = by_folder["src/base"]  # a folder that has only headers yet
    jobs = []
    for path in tree.cpp("src", "tests", "bench"):
        if not path.endswith(".h"):
            continue
        words = by_folder.get("/".join(path.split("/")[:2]), fallback)
        name = path.removeprefix("src/")
        text = f'#include "{name}"\n#include "{name}"\n'
        command = [CLANG, *include_flags(words), "-I.", "-Wall", "-Wextra", "-Wthread-safety", "-Werror",
                   "-fsyntax-only", "-x", "c++", "-"]
        jobs.append((path, command, text))
    return compile_all(tree, cache, "does not compile alone", jobs)


def is_tidied(path):
    """Unit tests are left out of clang-tidy: GoogleTest's macros cost most of its time, and what it finds in them
    is noise."""
    return path.startswith("src/") and not re.search(r"_test\.cc$|\.c$", path)


def check_warnings(tree, cache, commands):
    """Every source that clang-tidy does not see, parsed by clang with warnings as errors."""
    jobs = [(path, [*words, "-fsyntax-only", path], None) for path, words in sorted(commands.items())
            if not is_tidied(path)]
    return compile_all(tree, cache, "clang", jobs)


def check_tidy(tree, cache, commands):
    """The profile of .clang-tidy and, in the same pass, clang's warnings: GUARDED_BY is checked here."""
    jobs = [(path, [CLANG_TIDY, "--quiet", "--warnings-as-errors=*", path, "--", *words[1:]], None)
            for path, words in sorted(commands.items()) if is_tidied(path)]
    return compile_all(tree, _Salted(cache, tree.text(".clang-tidy")), "clang-tidy", jobs)


class _Salted:
    """A cache whose keys depend on one more text."""

    def __init__(self, cache, salt):
        self.cache, self.salt = cache, salt

    def key(self, tree, path, *more):
        return self.cache.key(tree, path, self.salt, *more)

    def has(self, key):
        return self.cache.has(key)

    def add(self, key):
        self.cache.add(key)


def check_format(tree):
    paths = [path for path in tree.cpp() if not path.startswith("build/")]
    if not paths:
        return []
    status, output = run_tool([CLANG_FORMAT, "--dry-run", "-Werror", *paths], tree.root)
    if status == 0:
        return []
    drift = sorted(set(re.findall(r"^(\S+?):\d+:\d+: error", output, re.MULTILINE)))
    return [f"{path}: not as clang-format-16 writes it; run `make fmt`" for path in drift] or [output]


def open_cache(tree):
    return PassedCache(Path(tree.root) / "build" / "tidy-cache")
