"""Compares two runs row by row."""

import math
from dataclasses import dataclass
from pathlib import Path

from nandlab.frame.run_directory import read, read_manifest
from nandlab.frame.run_frame import MEANINGLESS, RunFrame


@dataclass(frozen=True)
class RowDifference:
    """A row whose value differs; None where one run lacks the row."""

    place: tuple[tuple[str, str], ...]
    metric: str
    first: float | None
    second: float | None

    @property
    def relative(self) -> float | None:
        """Change from the first to the second run as a part of the first."""
        if self.first is None or self.second is None or self.first == 0:
            return None
        return (self.second - self.first) / abs(self.first)

    @property
    def weight(self) -> float:
        """Sorts the largest differences first, missing rows before all."""
        if self.first is None or self.second is None:
            return math.inf
        return abs(self.relative) if self.relative is not None else math.inf


@dataclass(frozen=True)
class Difference:
    """What two runs have in common and what not."""

    equal_digest: bool
    rows_compared: int
    rows: tuple[RowDifference, ...]
    notes: tuple[str, ...]


def compare_runs(first: Path, second: Path) -> Difference:
    """Compares the rows of two run folders; equal digests mean equal results."""
    manifests = read_manifest(first), read_manifest(second)
    notes = [
        f"{name}: {manifests[0].get(name)} and {manifests[1].get(name)}"
        for name in ("nandlab_version", "seed", "quick", "interrupted")
        if manifests[0].get(name) != manifests[1].get(name)
    ]
    names = [manifest["study"].get("name") for manifest in manifests]
    if names[0] != names[1]:
        notes.insert(0, f"different studies: {names[0]} and {names[1]}")
    rows = [_rows(read(run)) for run in (first, second)]
    keys = list(dict.fromkeys([*rows[0], *rows[1]]))
    differences = [
        RowDifference(key[0], key[1], rows[0].get(key), rows[1].get(key))
        for key in keys
        if rows[0].get(key) != rows[1].get(key)
    ]
    differences.sort(key=lambda difference: -difference.weight)
    return Difference(
        equal_digest=manifests[0]["results_digest"] == manifests[1]["results_digest"],
        rows_compared=len(keys),
        rows=tuple(differences),
        notes=tuple(notes),
    )


def _rows(run: RunFrame) -> dict[tuple[tuple[tuple[str, str], ...], str], float | None]:
    names = (*run.axes, "repeat")
    found = {}
    for row in run.frame.iter_rows(named=True):
        place = ((name, MEANINGLESS if row[name] is None else str(row[name])) for name in names)
        found[tuple(place), row["metric"]] = row["value"]
    return found
