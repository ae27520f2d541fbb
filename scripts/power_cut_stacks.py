"""Writes the table of stacks in docs/power-cuts.md: what cuts left of each file system."""

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from generated_page import DOCS, write_or_check

import nandlab

PAGE = DOCS / "power-cuts.md"
HEADING = "## What each stack keeps\n"
WORKLOADS = Path(__file__).resolve().parents[1] / "workloads"
CUT_POINTS = 150
"""Cut points of each stack, spread over its operations; each is cut in three ways."""

CACHE, NO_CACHE = "emmc-5.1-64gb", "sd-c10-16gb"


@dataclass(frozen=True)
class Stack:
    """A file system and what it stands on."""

    file_system: str
    medium: str
    blocks: int
    block_device: str | None = None

    @property
    def script(self) -> Path:
        """Calls that the file system has."""
        name = "power-cuts-fat" if self.file_system == "fat" else "power-cuts"
        return WORKLOADS / f"{name}.ops"


_CARDS = ((CACHE, f"card with a cache ({CACHE})"), (NO_CACHE, f"card without a cache ({NO_CACHE})"))

STACKS = (
    Stack("jffs2", "raw chip", 64),
    Stack("ubifs", "raw chip", 64),
    Stack("yaffs2", "raw chip", 64),
    Stack("fat", "mtdblock on the chip", 128),
    Stack("nilfs2", "mtdblock on the chip", 512),
    *(Stack("fat", medium, 128, device) for device, medium in _CARDS),
    *(Stack("nilfs2", medium, 512, device) for device, medium in _CARDS),
    *(Stack("jffs2-block2mtd", medium, 64, device) for device, medium in _CARDS),
)


def cut(stack: Stack) -> dict[str, Any]:
    """The outcome of the cuts of a stack."""
    asked: dict[str, Any] = {
        "fs": stack.file_system,
        "block_device": stack.block_device,
        "blocks": stack.blocks,
        "pages_per_block": 16,
    }
    # One cut tells how many operations there are.
    probe = nandlab.crash(stack.script, only=0, **asked).answer
    every = max(int(probe["operations"]) // CUT_POINTS, 1)
    return dict(nandlab.crash(stack.script, every=every, **asked).answer)


def row(stack: Stack, outcome: dict[str, Any]) -> str:
    """The row of a stack."""
    torn = outcome["torn"]
    hazards: Counter[str] = Counter()
    for one in torn:
        hazards.update(one["hazards"])
    named = ", ".join(f"`{name}` {count}" for name, count in sorted(hazards.items())) or "none"
    cuts = sum(one["cuts"] for one in torn)
    violations = sum(len(one["violations"]) for one in torn)
    cells = (
        stack.file_system,
        stack.medium,
        f"{outcome['operations']:,}",
        f"{cuts:,}",
        str(violations),
        named,
    )
    return f"| {' | '.join(cells)} |"


def table(rows: Sequence[str]) -> str:
    """The table with its head."""
    head = (
        "| file system | on | operations | cuts | violations | hazards, by cuts that met them |",
        "|---|---|---|---|---|---|",
    )
    return "\n".join((*head, *rows)) + "\n"


def with_table(page: str, new: str) -> str:
    """The page with this table under its heading, in place of the one that stands there."""
    before, found, rest = page.partition(HEADING)
    if not found:
        raise SystemExit(f"{PAGE}: there is no heading {HEADING.strip()!r}")
    kept, _, behind = rest.partition("\n| file system | on |")
    after = behind.partition("\n\n")[2]
    return f"{before}{HEADING}{kept}\n{new}\n{after}"


def page() -> str:
    """The page with the table as it is now."""
    rows = [row(stack, cut(stack)) for stack in STACKS]
    return with_table(PAGE.read_text(encoding="utf-8"), table(rows))


def main(arguments: list[str] | None = None) -> int:
    """Write the page, or check it with --check."""
    return write_or_check(PAGE, page, __doc__, arguments)


if __name__ == "__main__":
    sys.exit(main())
