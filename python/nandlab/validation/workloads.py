"""The recorded workloads, and what they are replayed on."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from nandlab import data

KINDS = ("reads", "programs", "erases")
"""Operations of the chip's array."""

Counts = tuple[float, float, float]
"""Reads, programs and erases."""

SMALL_CHIP_BLOCKS = 64
"""Blocks of the partition of the workloads called gc; the others have the whole chip."""


@dataclass(frozen=True)
class Implementation:
    """Real code, and the file system here that stands for it.

    Without a board only the chip takes time: the counts of YAFFS2 and UBIFS do not depend on how
    fast the host is, as long as it is fast.
    """

    name: str
    title: str
    file_system: str
    profile: str
    board: str | None
    seeds: int


IMPLEMENTATIONS = (
    Implementation("jffs2", "JFFS2 of Linux 6.12", "jffs2", "linux-6.12", "emulated-pc", 20),
    Implementation("ubifs", "UBIFS of Linux 6.12", "ubifs", "linux-6.12", None, 11),
    Implementation(
        "ubifs2048", "UBIFS of Linux 6.12, UBI's headers in pages", "ubifs", "linux-6.12", None, 11
    ),
    Implementation("yaffs2", "YAFFS2's module on Linux 6.1", "yaffs2", "linux-6.1", None, 1),
    Implementation("yaffsdirect", "YAFFS2's library", "yaffs2", "yaffs-direct", None, 1),
)


@dataclass(frozen=True)
class Workload:
    """A script, and the counts by phase of every run that was recorded."""

    name: str
    implementation: Implementation
    script: Path
    recorded: Mapping[str, list[Counts]] = field(hash=False)

    @property
    def blocks(self) -> int | None:
        """Blocks of its device, if not the part's own number."""
        return SMALL_CHIP_BLOCKS if "/gc-" in self.name else None

    @property
    def sequence(self) -> Path | None:
        """Every operation of one of the runs in order, if that was kept."""
        path = self.script.parent / "sequences" / f"{self.script.stem}.seq.zst"
        return path if path.is_file() else None


def find_workloads() -> list[Workload]:
    """The workloads whose file systems are here, in the order of the recording."""
    folder = data.folder("workloads") / "raw-nand"
    by_name = {one.name: one for one in IMPLEMENTATIONS}
    runs: dict[str, dict[str, list[tuple[str, Counts]]]] = {}
    with (folder / "counts.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            counts = (float(row["reads"]), float(row["programs"]), float(row["erases"]))
            phases = runs.setdefault(row["workload"], {})
            phases.setdefault(row["phase"], []).append((row["run"], counts))
    return [
        Workload(
            name,
            by_name[name.split("/")[0]],
            folder / f"{name.replace('/', '-')}.ops",
            join_mounts({phase: [counts for _, counts in rows] for phase, rows in phases.items()}),
        )
        for name, phases in runs.items()
        if name.split("/")[0] in by_name
    ]


def join_mounts(phases: Mapping[str, list[Counts]]) -> dict[str, list[Counts]]:
    """Adds what threads do after a mount to the mount: the border is a matter of timing."""
    joined: dict[str, list[Counts]] = {}
    for phase, rows in phases.items():
        mount = phase.removesuffix("-bg")
        if phase.endswith("-mount-bg") and mount in joined:
            pairs = zip(joined[mount], rows, strict=True)
            joined[mount] = [(a[0] + b[0], a[1] + b[1], a[2] + b[2]) for a, b in pairs]
        else:
            joined[phase] = list(rows)
    return joined
