"""Refuses documents that have drifted: layer READMEs, the options page, dependencies, links between documents."""

import re
from pathlib import Path

import options_page
from check_layers import parse_layers

README_LINES = 40


def check_readmes(tree):
    """Each folder under src/ that holds code has a README.md of at most 40 lines."""
    problems = []
    folders = {str(Path(path).parent) for path in tree.cpp("src")}
    for folder in sorted(folders):
        readme = folder + "/README.md"
        if readme not in tree.files:
            problems.append(f"{readme}: missing; say what the folder is, why, and which header to enter by")
        elif tree.text(readme).count("\n") > README_LINES:
            problems.append(f"{readme}: over {README_LINES} lines")
    return problems


def check_dependencies(tree):
    """Each third-party package that src/layers.cmake grants is explained in docs/DEPENDENCIES.md, for that layer."""
    page = "docs/DEPENDENCIES.md"
    if page not in tree.files:
        return [f"{page}: missing"]
    rows = {}
    for name, layers in re.findall(r"^\| *`([^`]+)` *\|[^|]*\|([^|]*)\|", tree.text(page), re.MULTILINE):
        rows[name] = layers.replace(",", " ").split()
    problems = []
    _, _, external = parse_layers(tree.text("src/layers.cmake"))
    for layer, packages in external.items():
        for package in packages:
            if package not in rows:
                problems.append(f"{page}: no row for `{package}`, which src/layers.cmake grants to {layer}")
            elif layer not in rows[package]:
                problems.append(f"{page}: the row of `{package}` does not name its layer {layer}")
    return problems


def check_options(tree):
    page = options_page.generate(tree.root)
    if page is None:
        print(f"{options_page.PAGE}: not checked: build the preset release first")
        return []
    present = tree.text(options_page.PAGE) if options_page.PAGE in tree.files else ""
    return [] if present == page else [f"{options_page.PAGE}: out of date; run `make docs`"]


def check_links(tree):
    """A relative link in a document names a file of the tree."""
    problems = []
    for path in tree.files:
        if not path.endswith(".md"):
            continue
        text = re.sub(r"```.*?```", "", tree.text(path), flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)\s#]+)(?:#[^)]*)?\)", text):
            if re.match(r"[a-z]+:", target):
                continue
            if not (Path(tree.root) / Path(path).parent / target).exists():
                problems.append(f"{path}: the link to {target} leads nowhere")
    return problems


def run(tree):
    return check_readmes(tree) + check_dependencies(tree) + check_options(tree) + check_links(tree)
