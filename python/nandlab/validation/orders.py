"""The order of the chip's operations against a recorded one."""

from collections import Counter
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

import polars as pl

from nandlab.validation.workloads import Workload

_NOT_COUNTED = "B"
"""Queries of bad blocks, which the library's recordings tell too."""

_PHASE = "# phase "


@dataclass(frozen=True)
class PhaseOrder:
    """How the order of a phase compares: the same, the same operations reordered, or else."""

    name: str
    is_same: bool
    has_same_operations: bool


@dataclass(frozen=True)
class Departure:
    """The first operation that differs."""

    phase: str
    number: int
    """Within the phase, from 1."""
    recorded: str | None
    """As a line of a sequence; none if the recorded phase ends before."""
    shown: str | None


@dataclass(frozen=True)
class Order:
    """Two sequences compared."""

    workload: Workload
    length: int
    """Operations of the recorded run."""
    in_step: int
    """Operations before the first that differs."""
    departure: Departure | None
    phases: list[PhaseOrder]


def compare_orders(workload: Workload, recorded: Path, shown: Path) -> Order:
    """Compares the operations of a replay with those of a recorded run, phase by phase."""
    theirs, ours = _phases(recorded), _phases(shown)
    phases, in_step, departure = [], 0, None
    for name, operations in theirs.items():
        if name not in ours:
            # The script of the recording went on where this one ends.
            break
        own = ours[name]
        phases.append(PhaseOrder(name, operations == own, Counter(operations) == Counter(own)))
        if departure is not None:
            continue
        pairs = enumerate(zip_longest(operations, own), start=1)
        differing = next(((at, a, b) for at, (a, b) in pairs if a != b), None)
        if differing is None:
            in_step += len(operations)
        else:
            departure = Departure(name, *differing)
            in_step += differing[0] - 1
    length = sum(len(theirs[phase.name]) for phase in phases)
    return Order(workload, length, in_step, departure, phases)


def _phases(path: Path) -> dict[str, list[str]]:
    """Operations by phase; what threads do after a mount is added to the mount."""
    # It decompresses, too.
    table = pl.read_csv(
        path, has_header=False, new_columns=["line"], separator="\x01", quote_char=None
    )
    phases: dict[str, list[str]] = {}
    operations: list[str] = []
    for line in table["line"].to_list():
        if line.startswith(_PHASE):
            name = line.removeprefix(_PHASE)
            mount = name.removesuffix("-bg")
            operations = phases.setdefault(mount if name.endswith("-mount-bg") else name, [])
        elif not line.startswith(_NOT_COUNTED):
            operations.append(line)
    return phases
