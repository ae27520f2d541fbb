"""Finds circles of files: files of a crate that use each other, directly or by way of others.

A circle means that none of its files can be read, tested or moved alone. What counts is the text of
`use` declarations and of paths that begin with `crate` or `super`; modules that only tests compile
are left out. The exit status is 1 if a circle has more than `MOST_FILES` files.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Two files that need each other, or three, can be read side by side.
MOST_FILES = 3

USE = re.compile(r"\buse\s+((?:crate|super|self)::[^;]+);")
PATH = re.compile(r"(?<![\w:])((?:crate|super)(?:::\w+)+)")
COMMENT = re.compile(r"//[^\n]*")
TESTS = re.compile(r"#\[cfg\(test\)\]\s*mod \w+ \{.*", re.DOTALL)

Graph = dict[str, set[str]]


def used_paths(text: str) -> Iterator[str]:
    """The paths within the crate that a file uses; a tree of `use` yields one for each leaf."""
    code = TESTS.sub("", COMMENT.sub("", text))
    for tree in USE.finditer(code):
        yield from _leaves("", tree[1])
    for path in PATH.finditer(code):
        yield path[1]


def _leaves(prefix: str, tree: str) -> Iterator[str]:
    opening = tree.find("{")
    if opening < 0:
        yield prefix + tree.split(" as ")[0].strip()
        return
    prefix += tree[:opening].strip()
    depth, branch = 0, ""
    for letter in tree[opening + 1 : tree.rfind("}")] + ",":
        if letter == "," and depth == 0:
            if branch.strip():
                yield from _leaves(prefix, branch.strip())
            branch = ""
            continue
        depth += {"{": 1, "}": -1}.get(letter, 0)
        branch += letter


def module_of(source: Path, path: Path) -> tuple[str, ...]:
    """The module that a file is; the root of the crate is the empty tuple."""
    parts = path.relative_to(source).with_suffix("").parts
    return parts[:-1] if parts[-1] in ("mod", "lib", "main") else parts


def graph_of(source: Path) -> Graph:
    """Which modules of a crate each module uses; the crate's root, which names all, is left out."""
    files = {module_of(source, path): path for path in sorted(source.rglob("*.rs"))}
    graph: Graph = {}
    for module, path in files.items():
        used = {
            _nearest(files, _absolute(module, text.split("::")))
            for text in used_paths(path.read_text(encoding="utf-8"))
        }
        graph["::".join(module)] = {"::".join(name) for name in used - {(), module}}
    return graph


def _absolute(module: tuple[str, ...], parts: list[str]) -> tuple[str, ...]:
    if parts[0] == "crate":
        return tuple(parts[1:])
    base = module
    while parts and parts[0] == "super":
        base, parts = base[:-1], parts[1:]
    return base + tuple(part for part in parts if part != "self")


def _nearest(files: dict[tuple[str, ...], Path], name: tuple[str, ...]) -> tuple[str, ...]:
    """The file that an item is in: the longest beginning of its path that is a module."""
    while name and name not in files:
        name = name[:-1]
    return name


def circles(graph: Graph) -> list[list[str]]:
    """The sets of modules each of which reaches all others of its set, the largest first."""
    reached = {module: _reached(graph, module) for module in graph}
    found = {
        frozenset(other for other in reached[module] if module in reached[other])
        for module in graph
        if module in reached[module]
    }
    return sorted((sorted(circle) for circle in found), key=lambda names: (-len(names), names))


def _reached(graph: Graph, start: str) -> set[str]:
    seen: set[str] = set()
    open_ends = list(graph[start])
    while open_ends:
        module = open_ends.pop()
        if module not in seen:
            seen.add(module)
            open_ends.extend(graph.get(module, ()))
    return seen


def main(root: Path = ROOT) -> int:
    """Prints the circles of every crate; the exit status is 1 if one is too large."""
    too_large = 0
    for source in sorted((root / "crates").glob("*/*/src")):
        for circle in circles(graph_of(source)):
            print(f"{source.parent.relative_to(root)}: {len(circle)} files: {' '.join(circle)}")
            too_large += len(circle) > MOST_FILES
    if too_large:
        print(f"{too_large} circles have more than {MOST_FILES} files", file=sys.stderr)
    return 1 if too_large else 0


if __name__ == "__main__":
    sys.exit(main())
