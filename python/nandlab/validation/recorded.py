"""Sections of docs/validation.md whose figures were recorded by runs of hours.

`make mutants` and `make tear-long` leave a table each beside this file; the page shows them.
"""

import csv
from collections import Counter
from pathlib import Path

from nandlab.validation import prose

PLANTED_FAULTS = Path(__file__).with_name("planted_faults.csv")
TORN_MEDIA = Path(__file__).with_name("torn_media.csv")

_TORN_COLUMNS = ("file system", "kernel", "media", "equal", "lost alike", "differ", "findings")
_EXCUSED_SHAPES = ("random-bits",)
"""A page of random bits may claim anything to a check."""
_EXCUSED_KINDS = ("bio-left-out", "blocks-left-out")
"""A log with a hole is damaged, though the kernel may recover what it can read."""
_DIFFERENCE = """
A known difference: a log of NILFS2 with a hole may lose the inode of the root directory. The kernel
then refuses to mount (`nilfs_get_root_dentry`). nandlab mounts the disk, and its root directory
cannot be read.
"""


def sections() -> str:
    """The sections, each with the table that is recorded."""
    torn = prose("torn-media") + (prose("torn-media-differ") if _differ() else "")
    return "\n".join([prose("planted-faults"), _table(PLANTED_FAULTS), torn, _table(TORN_MEDIA)])


def _differ() -> int:
    """Media on record that kernel and engine read differently."""
    with TORN_MEDIA.open(newline="", encoding="utf-8") as file:
        return sum(int(row["differ"]) for row in csv.DictReader(file))


def write_torn_media(rows: list[dict[str, str]], path: Path = TORN_MEDIA) -> None:
    """Record the cases of a long run, summed by file system and kernel.

    `rows` are those of its results.csv. Cases of which a fault was told count as *differ*.
    """
    sums: dict[tuple[str, str], Counter[str]] = {}
    for row in rows:
        counts = sums.setdefault((row["case"].partition("-")[0], row["kernel"]), Counter())
        is_equal = row["ls_equal"] == "yes"
        is_excused = row["shape"] in _EXCUSED_SHAPES or row["kind"] in _EXCUSED_KINDS
        counts["media"] += 1
        counts["equal"] += is_equal
        counts["lost alike"] += not is_equal and not row["faults"]
        counts["differ"] += bool(row["faults"])
        counts["findings"] += bool(row["findings"]) and not is_excused
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(_TORN_COLUMNS)
        writer.writerows(
            [*place, *(counts[column] for column in _TORN_COLUMNS[2:])]
            for place, counts in sorted(sums.items())
        )


def _table(path: Path) -> str:
    with path.open(newline="", encoding="utf-8") as file:
        head, *rows = csv.reader(file)
    lines = [f"| {' | '.join(head)} |", f"|---{'|---:' * (len(head) - 1)}|"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([*lines, ""])
