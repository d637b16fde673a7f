"""Refuses an include that src/layers.cmake does not grant.

In src/, an include in quotes is the path from src/ of a header of the file's own layer or of one that its row
names; an include in angle brackets is the system's, or a third-party package's that the row grants. Some packages
are confined further, to the one file that hides them. A unit test obeys its layer's row, too: what spans layers
belongs into tests/.
"""

import re

# Third-party headers by their beginning, and the name that layers.cmake grants them under.
PACKAGES = {
    "CLI/": "CLI", "absl/": "absl", "benchmark/": "benchmark", "fmt/": "fmt", "gmock/": "gtest", "gtest/": "gtest",
    "hiredis/": "hiredis", "httplib.h": "httplib", "infiniband/": "ibverbs", "isa-l": "isal", "liburing": "liburing",
    "nlohmann/": "nlohmann", "openssl/": "openssl", "rdma/": "ibverbs", "spdlog/": "spdlog", "toml++/": "toml++",
    "xxhash.h": "xxhash", "zlib.h": "zlib",
}
# Where a package may be included within its layer: files or folders.
CONFINED = {
    "CLI": ["src/base/option_cli.cc"], "toml++": ["src/base/option_cli.cc"], "spdlog": ["src/base/log.cc"],
    "fmt": ["src/base/log.cc"], "ibverbs": ["src/net/rdma/"],
}
SYSTEM_FOLDERS = ("arpa/", "asm/", "linux/", "net/", "netinet/", "sys/", "sanitizer/")
SYSTEM_HEADERS = """aio assert cpuid ctype cxxabi dirent dlfcn endian errno execinfo fcntl fenv float fnmatch ftw
    getopt grp immintrin inttypes libgen limits locale malloc math memory netdb nmmintrin numa poll pthread pwd sched
    semaphore setjmp signal spawn stdalign stdarg stdatomic stdbool stddef stdint stdio stdlib stdnoreturn string
    strings termios time ucontext uchar unistd wchar wctype x86intrin""".split()


def parse_layers(text):
    """(layers, uses of each layer, external packages of each layer) of src/layers.cmake."""
    values = {name: body.replace('"', "").split()
              for name, body in re.findall(r"^set\((\w+)\s+([^)]*)\)", text, re.MULTILINE)}
    layers = values["DFKV_LAYERS"]
    uses = {layer: values["DFKV_LAYER_" + layer] for layer in layers}
    external = {layer: values.get(f"DFKV_LAYER_{layer}_EXTERNAL", []) for layer in layers}
    return layers, uses, external


def package_of(name):
    """The package of a third-party header, "" for the system's, None for an unknown header."""
    for prefix, package in PACKAGES.items():
        if name.startswith(prefix):
            return package
    if name.startswith(SYSTEM_FOLDERS) or re.fullmatch(r"[a-z_]+", name):
        return ""
    return "" if name.removesuffix(".h") in SYSTEM_HEADERS else None


def is_test(path):
    """Tests and what only tests include: x_test.cc, typed suites, fakes for tests, and all of tests/ and bench/."""
    return path.startswith(("tests/", "bench/")) or re.search(r"_(test|suite|contract|testing|bench)\.(h|cc|c)$", path)


def check_quoted(tree, path, name, uses):
    layer = path.split("/")[1] if path.startswith("src/") else None
    if name.startswith(".") or "/" not in name:
        return f'include "{name}" is not a path from src/'
    top = name.split("/")[0]
    if layer is None:
        return None if tree.resolve(name) or top in uses else f'include "{name}" names no file'
    if top not in uses:
        return f'include "{name}" names no layer'
    if top != layer and top not in uses[layer]:
        granted = " ".join(uses[layer]) or "nothing"
        return f'layer {layer} may not include "{name}": its row in src/layers.cmake grants {granted}'
    return None


def check_angled(path, name, external):
    package = package_of(name)
    if package is None:
        return f"<{name}> is unknown; add its package to tests/tidy/check_layers.py and to src/layers.cmake"
    if package in ("", None) or (is_test(path) and package in ("gtest", "benchmark")):
        return None
    if not path.startswith("src/"):
        return None
    layer = path.split("/")[1]
    if package not in external[layer]:
        return f"layer {layer} may not include <{name}>: src/layers.cmake does not grant it {package}"
    homes = CONFINED.get(package, ["src/"])
    if not path.startswith(tuple(homes)):
        return f"<{name}> is confined to {' '.join(homes)}"
    return None


def run(tree):
    layers, uses, external = parse_layers(tree.text("src/layers.cmake"))
    problems = []
    for path in tree.cpp("src", "tests", "bench"):
        parts = path.split("/")
        if parts[0] == "src" and parts[1] not in layers:
            problems.append(f"{path}: src/{parts[1]} is no layer of src/layers.cmake")
            continue
        for line, quote, name in tree.includes(path):
            problem = check_quoted(tree, path, name, uses) if quote == '"' else check_angled(path, name, external)
            if problem:
                problems.append(f"{path}:{line}: {problem}")
    return problems
