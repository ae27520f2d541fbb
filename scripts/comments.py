#!/usr/bin/env python3
"""Counts the comments that say why, and the assertions, of every crate.

A comment that says why starts with `//` and stands on a line of its own. Doc comments are counted
apart. Modules for tests (`#[cfg(test)]`) count for nothing, nor do files outside of `src`.

    scripts/comments.py                       print the table
    scripts/comments.py --sample 60 --seed 1  print 60 drawn comments with their places, too

The exit status is 1 if a crate of `HELD` has fewer comments than `LEAST_PERCENT` of its lines of
code.
"""

import argparse
import random
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Comments that say why for each hundred lines of code, in the crates of `HELD`.
LEAST_PERCENT = 3.0
HELD = (
    "block",
    "block2mtd",
    "block_medium",
    "board",
    "conformance",
    "crash",
    "device",
    "file_systems",
    "file_workload",
    "fs_api",
    "ftl",
    "image",
    "ioping",
    "jobs",
    "mount",
    "mtd",
    "mtdblock",
    "nand",
    "page_cache",
    "sched",
    "script",
    "script_runner",
    "sim",
    "study",
    "trace",
    "vfs",
)

# Alternatives in this order: a comment inside a string is none, and the other way round. A quote
# after a name without a closing one is a lifetime, and matches nothing here.
TOKEN = re.compile(
    r"""
    (?P<line>//[^\n]*)
    | (?P<block>/\*)
    | (?P<raw>\b(?:b|c)?r(?P<hashes>\#*)".*?"(?P=hashes))
    | (?P<string>(?:\b[bc])?"(?:\\.|[^"\\])*")
    | (?P<character>b?'(?:\\(?:x[0-9a-fA-F]{2}|u\{[0-9a-fA-F_]+\}|.)|[^'\\\n])')
    """,
    re.VERBOSE | re.DOTALL,
)
BLOCK_EDGE = re.compile(r"/\*|\*/")
ASSERTION = re.compile(r"\b(?:debug_)?assert(?:_eq|_ne|_matches)?!")
TEST_ONLY = re.compile(r"#\[cfg\(test\)\]")
TEST_FILE = re.compile(r"(?:#\[path = \"(?P<path>[^\"]+)\"\]\s*)?mod\s+(?P<name>\w+)\s*;")


@dataclass(frozen=True)
class Comment:
    """Lines of one comment, joined, and the place of the first."""

    path: Path
    line: int
    text: str


@dataclass
class Count:
    """What a file or a crate holds: lines, and assertions."""

    code: int = 0
    why: int = 0
    doc: int = 0
    assertions: int = 0
    comments: list[Comment] = field(default_factory=list)

    @property
    def percent(self) -> float:
        """Comments that say why for each hundred lines of code."""
        return 100 * self.why / self.code if self.code else 0.0

    def add(self, other: "Count") -> None:
        """Adds what another file or crate holds."""
        self.code += other.code
        self.why += other.why
        self.doc += other.doc
        self.assertions += other.assertions
        self.comments += other.comments


def _spaces(text: str) -> str:
    """Text of the same shape, whose lines are empty."""
    return re.sub(r"[^\n]", " ", text)


def _block_end(text: str, start: int) -> int:
    """Where a block comment ends; Rust nests them."""
    depth = 0
    for edge in BLOCK_EDGE.finditer(text, start):
        depth += 1 if edge.group() == "/*" else -1
        if depth == 0:
            return edge.end()
    return len(text)


def split(text: str) -> tuple[str, list[tuple[int, str]]]:
    """The code with strings as `"` and comments as spaces, and the comments with their offsets."""
    code: list[str] = []
    comments: list[tuple[int, str]] = []
    place = 0
    while token := TOKEN.search(text, place):
        start, end = token.span()
        code.append(text[place:start])
        if token["block"]:
            end = _block_end(text, start)
        found = text[start:end]
        if token["line"] or token["block"]:
            comments.append((start, found))
            code.append(_spaces(found))
        else:
            # Every line of a string is code, blank ones too.
            code.append(re.sub(r"[^\n]", '"', found))
        place = end
    code.append(text[place:])
    return "".join(code), comments


def _item_end(code: str, start: int) -> int:
    """Where the item that starts at an offset ends: at its closing brace, or its semicolon."""
    depth = 0
    for place in range(start, len(code)):
        letter = code[place]
        if letter in "{([":
            depth += 1
        elif letter in "})]":
            depth -= 1
            if depth == 0 and letter == "}":
                return place + 1
        elif letter == ";" and depth == 0:
            return place + 1
    return len(code)


def test_items(code: str) -> list[tuple[int, int]]:
    """The spans of items under `#[cfg(test)]`."""
    return [(found.start(), _item_end(code, found.end())) for found in TEST_ONLY.finditer(code)]


def test_files(path: Path, code: str, text: str) -> set[Path]:
    """Files and folders of modules that only tests compile."""
    own = path.parent if path.stem in ("mod", "lib", "main") else path.parent / path.stem
    found: set[Path] = set()
    for start, end in test_items(code):
        if module := TEST_FILE.search(text[start:end]):
            if module["path"]:
                found.add(path.parent / module["path"])
            found |= {own / f"{module['name']}.rs", own / module["name"]}
    return found


def count_file(path: Path, text: str) -> Count:
    """Counts one file, without what only tests compile."""
    code, comments = split(text)
    spans = test_items(code)
    for start, end in reversed(spans):
        code = code[:start] + _spaces(code[start:end]) + code[end:]
    lines = code.splitlines()
    count = Count(code=sum(1 for line in lines if line.strip()))
    count.assertions = len(ASSERTION.findall(code))
    previous: Comment | None = None
    for offset, comment in comments:
        if any(start <= offset < end for start, end in spans):
            continue
        line = text.count("\n", 0, offset)
        if re.match(r"//[/!](?!/)|/\*[*!](?!/)", comment):
            count.doc += comment.count("\n") + 1
            continue
        stands_alone = line >= len(lines) or not lines[line].strip()
        said = comment.lstrip("/").strip()
        # A ruler of dashes says nothing.
        if not stands_alone or not comment.startswith("//") or not re.search(r"\w", said):
            continue
        count.why += 1
        if previous and previous.line + previous.text.count("\n") + 1 == line + 1:
            count.comments.pop()
            previous = Comment(path, previous.line, f"{previous.text}\n{said}")
        else:
            previous = Comment(path, line + 1, said)
        count.comments.append(previous)
    return count


def count_crate(folder: Path) -> Count:
    """Counts the files under `src` of a crate."""
    texts = {
        path: path.read_text(encoding="utf-8") for path in sorted((folder / "src").rglob("*.rs"))
    }
    only_tests: set[Path] = set()
    for path, text in texts.items():
        only_tests |= test_files(path, split(text)[0], text)
    count = Count()
    for path, text in texts.items():
        if not only_tests.intersection((path, *path.parents)):
            count.add(count_file(path, text))
    return count


def table(counts: dict[str, Count]) -> str:
    """A line for each crate, and one for all."""
    everything = Count()
    for count in counts.values():
        everything.add(count)
    rows = [f"{'crate':14} {'code':>6} {'why':>5} {'why %':>6} {'doc':>6} {'assertions':>10}"]
    for name, count in [*counts.items(), ("all", everything)]:
        rows.append(
            f"{name:14} {count.code:6} {count.why:5} {count.percent:6.2f} {count.doc:6} "
            f"{count.assertions:10}"
        )
    return "\n".join(rows)


def drawn(counts: dict[str, Count], sample: int, seed: int) -> list[Comment]:
    """Comments that a seed draws, in the order of their places."""
    comments = [comment for count in counts.values() for comment in count.comments]
    comments.sort(key=lambda comment: (str(comment.path), comment.line))
    chosen = random.Random(seed).sample(range(len(comments)), min(sample, len(comments)))
    return [comments[place] for place in sorted(chosen)]


def below(counts: dict[str, Count], held: tuple[str, ...]) -> list[str]:
    """What is said of crates that are missing, or have too few comments."""
    complaints = []
    for name in held:
        if name not in counts:
            complaints.append(f"{name}: no such crate; change HELD in scripts/comments.py")
        elif counts[name].percent < LEAST_PERCENT:
            complaints.append(
                f"{name}: comments that say why are {counts[name].percent:.2f} % of the lines of "
                f"code; write more until they are {LEAST_PERCENT:g} %"
            )
    return complaints


def main(arguments: list[str], root: Path = ROOT, held: tuple[str, ...] = HELD) -> int:
    """Prints the table and the sample; the exit status is 1 if a crate has too few comments."""
    parser = argparse.ArgumentParser(description="Count comments that say why, and assertions.")
    parser.add_argument(
        "--sample", type=int, default=0, metavar="N", help="print N drawn comments, too"
    )
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="draw by this seed")
    options = parser.parse_args(arguments)
    if options.sample < 0:
        parser.error(f"--sample {options.sample}: the number must not be negative")
    crates = sorted(path.parent for path in (root / "crates").rglob("Cargo.toml"))
    counts = {crate.name: count_crate(crate) for crate in crates}
    print(table(counts))
    for comment in drawn(counts, options.sample, options.seed):
        text = comment.text.replace("\n", "\n    ")
        print(f"\n{comment.path.relative_to(root)}:{comment.line}\n    {text}")
    complaints = below(counts, held)
    for complaint in complaints:
        print(complaint, file=sys.stderr)
    return 1 if complaints else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
