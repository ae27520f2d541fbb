"""Writes docs/aging.md: how long files last without power, by part, ECC and file system."""

import itertools
import math
import re
import statistics
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from generated_page import DOCS, write_or_check

from nandlab.api.scripts import is_lost, script
from nandlab.terminal.output import counted

PAGE = DOCS / "aging.md"
PARTS = Path(__file__).resolve().parents[1] / "parts"

PAGES_OF = "k9f2g08u0c"
"""Pages of 2048 + 64 bytes: the raw file systems have no layout for larger ones."""

SEEDS = range(1, 11)
"""Each draws the cells that fail anew."""

STEP_WEEKS = 13
YEARS_MAX = 10
STEPS = round(YEARS_MAX * 52.18 / STEP_WEEKS)
BLOCKS = 128

FILES = {"app": 1024, "photo": 512, "log": 64, "cfg": 8}
"""Files and their KiB."""

WRONG = "wrong bytes"
FAILS = "a mount that fails"

WAYS = {
    "EIO": ": a checksum covers each node.",
    "ENOENT": ": the name is in a node that is damaged, or below a directory that cannot be read.",
    WRONG: ", and no error. YAFFS2 has no checksum of data. JFFS2 drops a damaged node when it "
    "first looks at an inode after a mount, and the place reads as zeros or as an older version.",
    FAILS: ".",
}
"""What a reader gets, and why."""

FILE_SYSTEMS = ("jffs2", "ubifs", "yaffs2")

SCRIPT = """mount -
{files}
umount
wear {cycles}
repeat {steps} {{
  age {weeks} weeks
  mount -
  scrub
  umount
}}
"""

HEAD = """# How long files last without power

Made by `make docs`: do not edit. `scripts/aging_page.py` makes it.

A device lies in a drawer. Its cells lose charge, and one day a codeword has more wrong bits than
the ECC corrects. Which file is lost first, and after how long?

{findings}
## How it was measured

Files of {files} KiB are written and unmounted, and
every block counts as erased as often as the table says. Then {weeks} weeks pass at 40 °C, the file
system is mounted, a [`scrub`](scripts.md#aging) reads every file, and so on for {years} years.
*Lost* is a file whose name is gone, whose read fails, or which has other bytes than were written.
The seed decides which bits fail: n = {seeds} seeds a row. The years are the median of all seeds,
with the least and the most, and known to {weeks} weeks. Between two scrubs the chip is written by
mounts alone.

The raw file systems have no layout for pages above 2048 + 64 bytes. So each chip has {blocks}
blocks of `{pages_of}`, with the error model and the ECC of the part that is named. Another
temperature changes these years by the factor in [chips](chips.md#what-the-chip-does): at 55 °C
divide them by 6.4.

**The error rates of the parts are assumed.** They have the order of magnitude of field studies,
and none was fitted to a chip ([sources](chips.md)). So the years rank parts, codes and file
systems under this model. They are no forecast for a product.

| part | ECC | cycles | file system | lost a file | years to first loss | lost first | reader gets |
|---|---|---:|---|---:|---:|---|---|
"""


@dataclass(frozen=True)
class Chip:
    """Cells of a part, the code that corrects them, and their wear."""

    part: str
    """Whose error model it has."""
    correctable_bits: int | None = None
    """None: as in the part file."""
    wear: float = 1.0
    """Share of the rated cycles."""


CHIPS = (
    Chip("k9f2g08u0c"),
    Chip("k9gag08u0m", wear=0.5),
    Chip("k9gag08u0m"),
    Chip("k9gag08u0m", correctable_bits=8),
    Chip("generic-mlc-2x"),
    Chip("generic-tlc-2d"),
    Chip("generic-tlc-3d"),
)


@dataclass(frozen=True)
class Row:
    """A chip under a file system."""

    part: str
    bits: int
    """Bits that the ECC corrects."""
    codeword_bytes: int
    cycles: int
    file_system: str
    years: Sequence[float]
    """Until the first loss, of the seeds that lost any."""
    seeds: int
    first: Mapping[str, int]
    """Seeds by the file that they lost first."""
    how: Mapping[str, int]
    """First losses by what the reader gets."""


def measured() -> Sequence[Row]:
    """Every file system on every chip."""
    return [row for chip in CHIPS for row in rows(chip)]


def rows(chip: Chip) -> Iterator[Row]:
    """A chip under each file system."""
    part = tomllib.loads(part_of(chip))
    errors = part["errors"]
    cycles = round(errors["erase_cycles_max"] * chip.wear)
    bits, codeword_bytes = errors["ecc_correctable_bits"], errors["ecc_codeword_bytes"]
    files = "\n".join(f"put {name} 644 {size}k 64k x {size} fsync" for name, size in FILES.items())
    lines = SCRIPT.format(files=files, cycles=cycles, steps=STEPS, weeks=STEP_WEEKS)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "part.toml"
        file.write_text(part_of(chip), encoding="utf-8")
        for file_system in FILE_SYSTEMS:
            asked = {"fs": file_system, "part": file, "blocks": BLOCKS}
            losses = [loss(lines, asked | {"seed": seed}) for seed in SEEDS]
            lost = [one for one in losses if one is not None]
            first = Counter(name for one in lost for name in one.files)
            how = Counter(way for one in lost for way in one.ways)
            years = [one.years for one in lost]
            yield Row(
                chip.part,
                bits,
                codeword_bytes,
                cycles,
                file_system,
                years,
                len(losses),
                first,
                how,
            )


def _way(file: Mapping[str, Any]) -> str:
    if not file["error"]:
        return WRONG
    return FAILS if str(file["error"]).startswith("the mount fails") else str(file["error"])


def part_of(chip: Chip) -> str:
    """A part file with the pages of one part and the errors of another."""
    pages, _, _ = _sections(PAGES_OF)
    _, errors, _ = _sections(chip.part)
    if chip.correctable_bits is not None:
        known = re.search(r"^ecc_correctable_bits = \d+$", errors, re.MULTILINE)
        assert known is not None, errors
        errors = errors.replace(known[0], f"ecc_correctable_bits = {chip.correctable_bits}")
    return f'{pages}{errors}[sources]\n"geometry" = "as {PAGES_OF}"\n"errors" = "as {chip.part}"\n'


def _sections(part: str) -> tuple[str, str, str]:
    """What stands before the errors, the errors, and what follows."""
    text = (PARTS / f"{part}.toml").read_text(encoding="utf-8")
    before, _, rest = text.partition("[errors]")
    errors, _, sources = rest.partition("[sources]")
    return before, f"[errors]{errors}", sources


@dataclass(frozen=True)
class Loss:
    """The first loss of a run."""

    years: float
    files: Sequence[str]
    ways: Collection[str]
    """What the readers get."""


def loss(lines: str, asked: Mapping[str, Any]) -> Loss | None:
    """Run a script; none if it loses no file."""
    scrubs = script(lines, **asked).scrubs
    for scrub in scrubs:
        lost = [one for one in scrub["files"] if is_lost(one)]
        if lost:
            years = scrub["aged_ms"] / 31_557_600_000
            ways = {_way(one) for one in lost}
            return Loss(years, [one["path"] for one in lost], ways)
    return None


def shown(row: Row) -> str:
    """A row as a line of the table."""
    years = "-"
    if row.years:
        middle, most = _years(_median(row)), max(row.years)
        end = _years(most if len(row.years) == row.seeds else math.inf)
        years = f"{middle} ({min(row.years):.1f} to {end})"
    cells = (
        f"`{row.part}`",
        f"{counted(row.bits, 'bit')} in {row.codeword_bytes} bytes",
        f"{row.cycles:,}",
        row.file_system,
        f"{len(row.years)} of {row.seeds}",
        years,
        _counts(row.first),
        _counts(row.how),
    )
    return f"| {' | '.join(cells)} |\n"


def _years(years: float) -> str:
    return f"over {YEARS_MAX}" if years == math.inf else f"{years:.1f}"


def _counts(counts: Mapping[str, int]) -> str:
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{name} {count}" for name, count in ranked) or "-"


def page(found: Sequence[Row]) -> str:
    """The whole page."""
    head = HEAD.format(
        findings="".join(f"- {sentence}\n" for sentence in findings(found)),
        files=", ".join(f"`{name}` {size:,}" for name, size in FILES.items()),
        blocks=BLOCKS,
        pages_of=PAGES_OF,
        weeks=STEP_WEEKS,
        years=YEARS_MAX,
        seeds=len(SEEDS),
    )
    return head + "".join(map(shown, found))


def findings(found: Sequence[Row]) -> Iterator[str]:
    """What the table shows, in sentences."""
    losing = {row.part for row in found if row.years}
    sound = [f"`{part}`" for part in dict.fromkeys(row.part for row in found) if part not in losing]
    if sound:
        runs = counted(sum(row.seeds for row in found if row.part not in losing), "run")
        yield f"**No file is lost** in {YEARS_MAX} years on {_joined(sound)}: {runs}."
    yield from _comparisons(found)
    lost = sum((Counter(row.first) for row in found), Counter[str]())
    if lost:
        most, count = min(lost.items(), key=lambda item: (-item[1], item[0]))
        runs = sum(len(row.years) for row in found)
        share = "the largest file" if FILES.get(most) == max(FILES.values()) else "not the largest"
        yield (
            f"**`{most}`**, {share}, is among the first that are lost in {count:,} of "
            f"{counted(runs, 'run')}."
        )
    ways = sum((Counter(row.how) for row in found), Counter[str]())
    assert ways.keys() <= WAYS.keys(), f"a loss without a reason: {ways}"
    for way, reason in WAYS.items():
        names = sorted({row.file_system for row in found if row.how.get(way)})
        if names:
            yield f"**Readers get {way}** on {_joined(names)}{reason}"


def _comparisons(found: Sequence[Row]) -> Iterator[str]:
    """Chips of a part that differ in their ECC alone, or in their cycles alone."""
    chips: dict[tuple[str, int, int], list[Row]] = {}
    for row in found:
        chips.setdefault((row.part, row.bits, row.cycles), []).append(row)
    for one, other in itertools.permutations(chips, 2):
        (part, bits, cycles), (other_part, other_bits, other_cycles) = one, other
        if part != other_part:
            continue
        told = f"the first loss after {_medians(chips[other])} in place of {_medians(chips[one])}."
        if cycles == other_cycles and bits < other_bits:
            codes = f"{other_bits} in place of {counted(bits, 'bit')}"
            yield f"**{codes}** that the ECC of `{part}` corrects at {cycles:,} cycles: {told}"
        if bits == other_bits and cycles > other_cycles:
            yield f"**{other_cycles:,} in place of {cycles:,} cycles** of `{part}`: {told}"


def _medians(rows: Sequence[Row]) -> str:
    """Medians of the file systems, the least and the most of them."""
    medians = [_median(row) for row in rows]
    least, most = min(medians), max(medians)
    if least == math.inf:
        return f"more than {YEARS_MAX} years"
    if most == math.inf:
        return f"{least:.1f} to more than {YEARS_MAX} years"
    shown = f"{least:.1f}", f"{most:.1f}"
    return f"{shown[0]} years" if shown[0] == shown[1] else f"{shown[0]} to {shown[1]} years"


def _median(row: Row) -> float:
    """Of all seeds: one that lost no file lasted longer than was measured."""
    return statistics.median([*row.years, *[math.inf] * (row.seeds - len(row.years))])


def _joined(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def arguments() -> tuple[Path, Any, str | None]:
    """What `write_or_check` takes, for the page and its test."""
    return PAGE, lambda: page(measured()), __doc__


def main(given: list[str] | None = None) -> int:
    """Write the page, or check it."""
    path, text, description = arguments()
    return write_or_check(path, text, description, given)


if __name__ == "__main__":
    sys.exit(main())
