"""Writes docs/config-patterns.md: three ways to save settings, cut at every operation."""

import sys
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from generated_page import DOCS, write_or_check

from nandlab.api.entries import entries
from nandlab.api.scripts import crash, script
from nandlab.terminal.output import counted

PAGE = DOCS / "config-patterns.md"
WORKLOADS = Path(__file__).resolve().parents[1] / "workloads"

UPDATES = 12
"""Passes of the block in each of the scripts."""

CHIP = {"part": "k9f2g08u0c", "blocks": 64}

HEAD = """# How to save settings

Made by `make docs`: do not edit. `scripts/config_patterns.py` makes it.

A program changes its settings, a file of 6,000 bytes, and the power fails. Does it find the old
settings, the new ones, or neither?

| pattern | calls of an update | script |
|---|---|---|
"""

PATTERNS = {
    "truncate": "make the file empty, write it again",
    "rename": "write a second file, rename it over the first",
    "safe": "write a second file, `fsync` it, rename it over the first, `fsync` the directory",
}
"""Patterns by the name of their script, and what they do."""

WHOLE = "nothing"
"""The torn model that leaves no part of the operation."""

PROMISES = ("safe",)
"""Patterns that must never fail."""

CUTS_HEAD = """
## What cuts leave

Each script saves {updates} times, and each says `expect cfg old-or-new`. The safe one has a line
`ack` behind each update: the new settings must then be there. The power is cut at every operation
of the chip, and each operation is torn in three ways. [Power cuts](power-cuts.md) explains the
symptoms. *Violations* are those of the file system's own guarantee.

| pattern | file system | cuts | failed | how they fail | violations |
|---|---|---:|---:|---|---:|
"""

COSTS_HEAD = """
## What an update costs

From a run without a cut, on a chip of {blocks} blocks of `{part}`. Programs and erases are those
of {updates} updates and the unmount. The time is that of the calls of one update, on average. What
is written later is no part of it.

| pattern | file system | programs | erases | time of an update (ms) |
|---|---|---:|---:|---:|
"""


@dataclass(frozen=True)
class Cell:
    """A pattern on a file system."""

    pattern: str
    file_system: str
    cuts: int
    failed: int
    symptoms: Mapping[str, int]
    """Failed cuts by symptom."""
    torn: Collection[str]
    """What is left of the torn operation where it fails."""
    violations: int
    """Of the guarantee of the file system."""
    programs: int
    erases: int
    update_ns: float
    """Simulated time of the calls of an update, on average."""


def file_systems() -> Sequence[str]:
    """Those that can be judged after a cut."""
    return [str(row["name"]) for row in entries("guarantees")]


def measured() -> Sequence[Cell]:
    """Every pattern on every file system."""
    return [cell(pattern, name) for pattern in PATTERNS for name in file_systems()]


def path(pattern: str) -> Path:
    """The script of a pattern."""
    return WORKLOADS / f"config-{pattern}.ops"


def cell(pattern: str, file_system: str) -> Cell:
    """A pattern on a file system: every cut, and a run without one."""
    cut = crash(path(pattern), fs=file_system, **CHIP)
    (line,) = cut.answer["expectations"]
    symptoms = Counter(failure["symptom"] for failure in line["failures"])
    phases = {row["phase"]: row for row in script(path(pattern), fs=file_system, **CHIP).rows}
    return Cell(
        pattern=pattern,
        file_system=file_system,
        cuts=line["cuts"],
        failed=line["failed"],
        symptoms=dict(sorted(symptoms.items())),
        torn=sorted({failure["torn"] for failure in line["failures"]}),
        violations=len(cut.violations),
        programs=sum(row["programs"] for row in phases.values()),
        erases=sum(row["erases"] for row in phases.values()),
        update_ns=phases["update"]["duration_ns"] / UPDATES,
    )


def findings(cells: Sequence[Cell]) -> Iterator[str]:
    """What the cells show, one sentence a pattern."""
    for pattern in PATTERNS:
        ours = [cell for cell in cells if cell.pattern == pattern]
        failing = [cell for cell in ours if cell.failed]
        total = sum(cell.cuts for cell in ours)
        if not failing:
            yield (
                f"**`{pattern}`** never fails: {counted(total, 'cut')} on "
                f"{counted(len(ours), 'file system')}."
            )
            continue
        shares = [f"{cell.file_system} {cell.failed:,} of {cell.cuts:,}" for cell in failing]
        holding = [cell.file_system for cell in ours if not cell.failed]
        holds = f" It holds on {' and '.join(holding)}." if holding else ""
        yield f"**`{pattern}`** fails on {', '.join(shares)} cuts.{holds}{_torn(failing)}"


def _torn(failing: Sequence[Cell]) -> str:
    """Which file systems fail only where a part of the torn page is left."""
    names = [cell.file_system for cell in failing if WHOLE not in cell.torn]
    if not names:
        return ""
    return f" On {' and '.join(names)} every such cut leaves a part of the torn page."


def page(cells: Sequence[Cell]) -> str:
    """The page."""
    text = HEAD
    for pattern, calls in PATTERNS.items():
        text += f"| `{pattern}` | {calls} | `workloads/{path(pattern).name}` |\n"
    text += "\n" + "".join(f"- {finding}\n" for finding in findings(cells))
    text += CUTS_HEAD.format(updates=UPDATES)
    for one in cells:
        how = ", ".join(f"{count:,} `{name}`" for name, count in one.symptoms.items()) or "-"
        text += f"| `{one.pattern}` | {one.file_system} | {one.cuts:,} | {one.failed:,} | {how} "
        text += f"| {one.violations:,} |\n"
    text += COSTS_HEAD.format(updates=UPDATES, **CHIP)
    for one in cells:
        text += f"| `{one.pattern}` | {one.file_system} | {one.programs:,} | {one.erases:,} "
        text += f"| {one.update_ns / 1e6:.2f} |\n"
    return text


def arguments() -> tuple[Any, ...]:
    """What `write_or_check` takes, but for the command line."""
    return PAGE, lambda: page(measured()), __doc__


if __name__ == "__main__":
    sys.exit(write_or_check(*arguments(), None))
