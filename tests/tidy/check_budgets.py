"""Refuses files of over 800 lines and functions of over 70: a screenful can be checked by one reader.

tests/tidy/budget_exceptions.txt lists older excess: "<path> <function name, or - for the file> <lines>" per row.
An entry must equal the present size, and the list may only shrink: no row may be new or larger than in the list's
first committed version.
"""

import ast
import re
import subprocess

FILE_LINES = 800
FUNCTION_LINES = 70
LIST = "tests/tidy/budget_exceptions.txt"
SUFFIXES = (".h", ".cc", ".c", ".py", ".sh", ".cmake")

_NOT_FUNCTION = re.compile(r"^\s*(?:\[\[.*?\]\]\s*)?(?:template\s*<.*?>\s*)?"
                           r"(?:namespace|class|struct|union|enum)\b", re.DOTALL)
_NAME = re.compile(r"([\w:~]+(?:operator\s*[^\s\w(]+)?)\s*\(")


def _blank_preprocessor(code):
    return re.sub(r"^[ \t]*#(?:\\\n|[^\n])*", lambda m: re.sub(r"[^\n]", " ", m.group(0)), code, flags=re.MULTILINE)


def _head_name(head):
    if re.match(r"\s*(TEST|TEST_F|TEST_P|TYPED_TEST|TYPED_TEST_P|BENCHMARK\w*)\s*\(", head):
        return re.sub(r"\s+", "", head)
    match = _NAME.search(head)
    return match.group(1) if match else "lambda"


def functions_of(code):
    """(name, first line, last line) of each outermost function body in C++ text without comments and strings.

    It relies on clang-format: a body's brace follows a space, a braced initialiser's follows its type or name.
    """
    code = _blank_preprocessor(code)
    found = []
    blocks = []  # (is function, head, offset of the head) of each open brace
    head_start = 0
    inside = 0  # how many open braces are functions
    parens = 0
    for match in re.finditer(r"[{}();]", code):
        at, token = match.start(), match.group(0)
        if token == "(":
            parens += 1
        elif token == ")":
            parens -= 1
        elif token == ";" and parens == 0:
            head_start = at + 1
        elif token == "{":
            head = code[head_start:at]
            spaced = at > 0 and code[at - 1].isspace()
            last = head.rstrip()[-1:]
            initialiser = not spaced or parens > 0 or last in ("=", ",")
            is_function = not initialiser and (")" in head or "]" in head) and not _NOT_FUNCTION.match(head)
            blocks.append((is_function, initialiser, head, head_start))
            inside += is_function
            if not initialiser:
                head_start = at + 1
        elif token == "}" and blocks:
            is_function, initialiser, head, start = blocks.pop()
            inside -= is_function
            if initialiser:
                continue
            if is_function and inside == 0:
                first = start + len(head) - len(head.lstrip())
                label = re.match(r"\s*(?:public|private|protected)\s*:\s*", code[start:])
                if label:
                    first = start + label.end()
                found.append((_head_name(code[first:start + len(head)]),
                              code.count("\n", 0, first) + 1, code.count("\n", 0, at) + 1))
            head_start = at + 1
    return found


def python_functions_of(text):
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return []  # a test run says so better
    return [(node.name, node.lineno, node.end_lineno) for node in ast.walk(tree)
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]


def parse_list(text):
    """{(path, name): lines}"""
    rows = [line.split() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return {(row[0], " ".join(row[1:-1])): int(row[-1]) for row in rows}


def first_committed_list(tree):
    """The list's first version in history; None where there is no history."""
    def git(*arguments):
        done = subprocess.run(["git", "-C", str(tree.root), *arguments], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True)
        return done.stdout if done.returncode == 0 else ""
    commits = git("log", "--diff-filter=A", "--format=%H", "--", LIST).split()
    return parse_list(git("show", f"{commits[-1]}:{LIST}")) if commits else None


def measure(tree):
    """{(path, name or "-"): lines} of everything over its budget."""
    excess = {}
    for path in tree.files:
        if not path.endswith(SUFFIXES):
            continue
        text = tree.text(path)
        lines = text.count("\n")
        if lines > FILE_LINES:
            excess[path, "-"] = lines
        functions = []
        if path.endswith((".h", ".cc", ".c")):
            functions = functions_of(tree.code(path))
        elif path.endswith(".py"):
            functions = python_functions_of(text)
        for name, first, last in functions:
            if last - first + 1 > FUNCTION_LINES:
                excess[path, name] = max(last - first + 1, excess.get((path, name), 0))
    return excess


def run(tree):
    problems = []
    listed = parse_list(tree.text(LIST)) if LIST in tree.files else {}
    excess = measure(tree)
    for (path, name), lines in excess.items():
        what = "the file" if name == "-" else f"function {name}"
        budget = FILE_LINES if name == "-" else FUNCTION_LINES
        allowed = listed.get((path, name))
        if allowed is None:
            problems.append(f"{path}: {what} has {lines} lines, the budget is {budget}: split it")
        elif lines > allowed:
            problems.append(f"{path}: {what} has grown to {lines} lines, {LIST} allows {allowed}")
        elif lines < allowed:
            problems.append(f"{LIST}: {path} {name}: now {lines} lines; lower the entry")
    for path, name in listed.keys() - excess.keys():
        problems.append(f"{LIST}: {path} {name} is within its budget; remove the entry")
    first = first_committed_list(tree)
    if first is not None:
        for key, lines in listed.items():
            if lines > first.get(key, 0):
                problems.append(f"{LIST}: {' '.join(key)} is new or larger; the list may only shrink")
    return problems
