"""What the tidy checks share: the list of files, C++ text without comments and strings, include graphs, a cache."""

import concurrent.futures
import functools
import hashlib
import os
import re
import subprocess
from pathlib import Path

CPP_SUFFIXES = (".h", ".cc", ".c")
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)
_TOKENS = re.compile(
    r'//(?:\\\n|[^\n])*'
    r'|/\*.*?\*/'
    r'|R"(?P<delimiter>[^ ()\\\t\n]{0,16})\(.*?\)(?P=delimiter)"'
    r'|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])+'",
    re.DOTALL,
)


class Tree:
    """The files of one working tree: those git tracks and those it would track."""

    def __init__(self, root):
        self.root = Path(root)

    @functools.cached_property
    def files(self):
        """Paths relative to the root, sorted, as strings."""
        listed = subprocess.run(
            ["git", "-C", str(self.root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            check=True, stdout=subprocess.PIPE).stdout.decode()
        return sorted(path for path in set(listed.split("\0")) if path and (self.root / path).is_file())

    def cpp(self, *tops):
        """C and C++ files, of the given top-level folders or of all."""
        return [path for path in self.files
                if path.endswith(CPP_SUFFIXES) and (not tops or path.split("/")[0] in tops)]

    @functools.lru_cache(maxsize=None)
    def text(self, path):
        return (self.root / path).read_text(encoding="utf-8", errors="replace")

    @functools.lru_cache(maxsize=None)
    def code(self, path):
        return strip_comments_and_strings(self.text(path))

    @functools.lru_cache(maxsize=None)
    def includes(self, path):
        """(line number, '<' or '"', name) of each include."""
        text = self.text(path)
        return [(text.count("\n", 0, match.start(1)) + 1, match.group(1), match.group(2))
                for match in _INCLUDE.finditer(text)]

    def resolve(self, name):
        """The file of the tree that an include in quotes names, or None."""
        for path in ("src/" + name, name):
            if (self.root / path).is_file():
                return path
        return None

    def with_dependencies(self, path):
        """The file and all of the tree that it includes, directly or not."""
        seen, pending = set(), [path]
        while pending:
            current = pending.pop()
            if current in seen:
                continue
            seen.add(current)
            for _, quote, name in self.includes(current):
                found = self.resolve(name) if quote == '"' else None
                if found:
                    pending.append(found)
        return sorted(seen)


def strip_comments_and_strings(text):
    """The text with comments, strings and character literals blanked; every line keeps its number and length."""
    def blank(match):
        piece = match.group(0)
        hollow = re.sub(r"[^\n]", " ", piece)
        if piece.startswith(("'", '"')) and len(piece) >= 2:
            return piece[0] + hollow[1:-1] + piece[-1]
        return hollow
    return _TOKENS.sub(blank, text)


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


class PassedCache:
    """Remembers which (check, inputs) passed, so that an unchanged file costs one hash."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)

    @staticmethod
    def key(tree, path, *more):
        digest = hashlib.sha256("\0".join(more).encode())
        for name in tree.with_dependencies(path):
            digest.update(name.encode() + b"\0" + tree.text(name).encode() + b"\0")
        return digest.hexdigest()

    def has(self, key):
        return (self.folder / key).exists()

    def add(self, key):
        (self.folder / key).touch()


def run_parallel(function, items):
    """The results of function(item), in order, on as many threads as there are CPUs."""
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return list(pool.map(function, items))


def run_tool(command, cwd):
    """(exit status, stdout and stderr together)."""
    done = subprocess.run(command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace")
    return done.returncode, done.stdout
