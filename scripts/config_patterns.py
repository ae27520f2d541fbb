"""Writes docs/config-patterns.md: three ways to save settings, cut at every operation."""

import json
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
RECORD = DOCS / "config-patterns.json"
WORKLOADS = Path(__file__).resolve().parents[1] / "workloads"

UPDATES = 12
"""Passes of the block in each of the scripts."""

CHIP = {"part": "k9f2g08u0c", "blocks": 64}

CARD = "emmc-5.1-64gb"
"""A device with a volatile cache."""

MTDBLOCK = "mtdblock on the chip"
MTDBLOCK_EVERY = 7
"""Operations from cut to cut there: it writes 64 pages for each of the file system's. The number
shares no factor with 64, so that all pages are met."""
RAW_CHIP = "raw chip"

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
"""Patterns that must never fail where a file system keeps what was synced."""

CUTS_HEAD = """
## What cuts leave

Each script saves {updates} times, and each says `expect cfg old-or-new`. The safe one has a line
`ack` behind each update: the new settings must then be there. The power is cut at every operation
of the chip, and each operation is torn in three ways; on mtdblock at every {every}th operation. On
a card it is cut at every write and flush of the device, and its cache is kept, lost or kept in
parts. On FAT, `fsync` of the directory does not make a rename durable: `vfat_rename` leaves the new
entry to the inode of the file, which only `fsync` of the file or `sync` writes. The clusters of the
old file are free by then, so that `cfg` leads to nothing. [Power cuts](power-cuts.md) explains
the symptoms and the hazards. *Violations* are those of the file system's own guarantee; *hazards*
are losses that the real code permits, by the cuts that met them.

| pattern | file system | on | cuts | failed | how they fail | violations | hazards |
|---|---|---|---:|---:|---|---:|---|
"""

KERNEL_HEAD = """
## FAT's failures in a real kernel

FAT orders nothing, so every pattern can fail on it. Linux {kernel} mounted the disk after each
failed cut and read each file. A disk is alike if the kernel shows the same names with the same
bytes as the simulator, or refuses what the simulator refuses. On mtdblock these are the cuts that
leave `nothing` of an operation: a page that is torn in part fails its code on the chip, and a disk
has no such code. `scripts/config_patterns_kernel.py` makes these runs.

| pattern | on | failed cuts | different disks | alike |
|---|---|---:|---:|---:|
"""

OWN_HEAD = """
The same kernel also carried out the scripts itself, on a disk that recorded its writes in their
order. Each prefix of them is a cut that reorders and tears nothing. The first of them come before
`cfg` was synced for the first time.

| pattern | cuts | what `cfg` is then |
|---|---:|---|
"""

COSTS_HEAD = """
## What an update costs

From a run without a cut, on a chip of {blocks} blocks of `{part}` or a partition of that size.
Programs and erases of the chip are those of {updates} updates and the unmount. The time is that of
the calls of one update, on average. What is written later is no part of it.

| pattern | file system | on | programs | erases | time of an update (ms) |
|---|---|---|---:|---:|---:|
"""


@dataclass(frozen=True)
class Cell:
    """A pattern on a file system."""

    pattern: str
    file_system: str
    on: str
    """What the file system lies on."""
    cuts: int
    failed: int
    symptoms: Mapping[str, int]
    """Failed cuts by symptom."""
    torn: Collection[str]
    """What is left of the torn operation where it fails."""
    failed_whole: int
    """Cuts among the failed that a disk can show: no page is torn in part."""
    violations: int
    """Of the guarantee of the file system."""
    hazards: Mapping[str, int]
    """Losses that the real code permits, by their names: cuts that met them."""
    programs: int | None
    """None of a card, which has a layer of its own."""
    erases: int | None
    update_ns: float
    """Simulated time of the calls of an update, on average."""


@dataclass(frozen=True)
class Stack:
    """A file system and what it lies on."""

    file_system: str
    block_device: str | None = None
    """None: the chip itself, or mtdblock on it."""
    every: int = 1
    """Cut at every Nth operation."""

    @property
    def on(self) -> str:
        """In words."""
        if self.block_device is not None:
            return f"card ({self.block_device})"
        return MTDBLOCK if self.file_system in ON_BLOCK_DEVICES else RAW_CHIP

    @property
    def promises(self) -> bool:
        """What was synced stays: neither FAT nor a rewrite by mtdblock promises it."""
        return self.on != MTDBLOCK and self.file_system in ("jffs2", "nilfs2", "ubifs", "yaffs2")

    def arguments(self) -> dict[str, Any]:
        """What `crash` and `script` take."""
        return {"fs": self.file_system, "block_device": self.block_device, **CHIP}


ON_BLOCK_DEVICES = ("fat", "jffs2-block2mtd", "nilfs2")

STACKS = (
    Stack("fat", CARD),
    Stack("fat", every=MTDBLOCK_EVERY),
    Stack("jffs2"),
    Stack("jffs2-block2mtd", CARD),
    Stack("nilfs2", CARD),
    Stack("nilfs2", every=MTDBLOCK_EVERY),
    Stack("ubifs"),
    Stack("yaffs2"),
)


def file_systems() -> Sequence[str]:
    """Those that can be judged after a cut."""
    return [str(row["name"]) for row in entries("guarantees")]


def measured() -> Sequence[Cell]:
    """Every pattern on every stack."""
    return [cell(pattern, stack) for pattern in PATTERNS for stack in STACKS]


def path(pattern: str) -> Path:
    """The script of a pattern."""
    return WORKLOADS / f"config-{pattern}.ops"


def cell(pattern: str, stack: Stack) -> Cell:
    """A pattern on a stack: every cut, and a run without one."""
    cut = crash(path(pattern), every=stack.every, **stack.arguments())
    (line,) = cut.answer["expectations"]
    symptoms = Counter(failure["symptom"] for failure in line["failures"])
    hazards: Counter[str] = Counter()
    for model in cut.answer["torn"]:
        hazards.update(model["hazards"])
    phases = {row["phase"]: row for row in script(path(pattern), **stack.arguments()).rows}
    is_on_chip = stack.block_device is None
    return Cell(
        pattern=pattern,
        file_system=stack.file_system,
        on=stack.on,
        cuts=line["cuts"],
        failed=line["failed"],
        symptoms=dict(sorted(symptoms.items())),
        torn=sorted({failure["torn"] for failure in line["failures"]}),
        failed_whole=sum(
            failure["torn"] not in ("prefix", "data-only") for failure in line["failures"]
        ),
        violations=len(cut.violations),
        hazards=dict(sorted(hazards.items())),
        programs=sum(row["programs"] for row in phases.values()) if is_on_chip else None,
        erases=sum(row["erases"] for row in phases.values()) if is_on_chip else None,
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
                f"{counted(len(ours), 'stack')}."
            )
            continue
        shares = [f"{_stack(cell)} {cell.failed:,} of {cell.cuts:,}" for cell in failing]
        holding = [_stack(cell) for cell in ours if not cell.failed]
        holds = f" It holds on {_joined(holding)}." if holding else ""
        yield f"**`{pattern}`** fails on {', '.join(shares)} cuts.{holds}{_torn(failing)}"
    held = {_stack(cell) for cell in cells if not cell.failed}
    lost = [name for name in dict.fromkeys(_stack(cell) for cell in cells) if name not in held]
    if lost:
        yield f"**No pattern** holds on {_joined(lost)}."


def _joined(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _stack(cell: Cell) -> str:
    """The stack of a cell, as a finding names it."""
    if cell.on == RAW_CHIP:
        return cell.file_system
    return f"{cell.file_system} on {'mtdblock' if cell.on == MTDBLOCK else 'a card'}"


def _torn(failing: Sequence[Cell]) -> str:
    """Which file systems fail only where a part of the torn page is left."""
    names = [_stack(cell) for cell in failing if cell.on == RAW_CHIP and WHOLE not in cell.torn]
    if not names:
        return ""
    return f" On {_joined(names)} every such cut leaves a part of the torn page."


def page(cells: Sequence[Cell], record: Mapping[str, Any]) -> str:
    """The page."""
    text = HEAD
    for pattern, calls in PATTERNS.items():
        text += f"| `{pattern}` | {calls} | `workloads/{path(pattern).name}` |\n"
    text += "\n" + "".join(f"- {finding}\n" for finding in findings(cells))
    text += CUTS_HEAD.format(updates=UPDATES, every=MTDBLOCK_EVERY)
    for one in cells:
        how = ", ".join(f"{count:,} `{name}`" for name, count in one.symptoms.items()) or "-"
        text += f"| `{one.pattern}` | {one.file_system} | {one.on} | {one.cuts:,} | {one.failed:,} "
        met = ", ".join(f"{count:,} `{name}`" for name, count in one.hazards.items()) or "-"
        text += f"| {how} | {one.violations:,} | {met} |\n"
    text += kernel_section(record)
    text += COSTS_HEAD.format(updates=UPDATES, **CHIP)
    for one in cells:
        counts = ["-" if count is None else f"{count:,}" for count in (one.programs, one.erases)]
        text += f"| `{one.pattern}` | {one.file_system} | {one.on} | {' | '.join(counts)} "
        text += f"| {one.update_ns / 1e6:.2f} |\n"
    return text


def kernel_section(record: Mapping[str, Any]) -> str:
    """What a kernel made of the disks of failed cuts."""
    text = KERNEL_HEAD.format(kernel=record["kernel"])
    for row in record["rows"]:
        alike = row["failed"] - len(row["differences"])
        text += f"| `{row['pattern']}` | {row['on']} | {row['failed']:,} | {row['disks']:,} "
        text += f"| {alike:,} |\n"
    text += OWN_HEAD
    for row in record["own"]:
        how = ", ".join(f"{count:,} times {name}" for name, count in row["found"].items())
        text += f"| `{row['pattern']}` | {row['cuts']:,} | {how} |\n"
    return text


def recorded() -> Mapping[str, Any]:
    """What `config_patterns_kernel.py` has found."""
    found: Mapping[str, Any] = json.loads(RECORD.read_text(encoding="utf-8"))
    return found


def arguments() -> tuple[Any, ...]:
    """What `write_or_check` takes, but for the command line."""
    return PAGE, lambda: page(measured(), recorded()), __doc__


if __name__ == "__main__":
    sys.exit(write_or_check(*arguments(), None))
