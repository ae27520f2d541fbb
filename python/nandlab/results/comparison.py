"""Compares two runs row by row."""

import math
from dataclasses import dataclass
from pathlib import Path

from nandlab.results.run_directory import read_manifest, read_results


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
class Comparison:
    """What two runs have in common and what not."""

    equal_digest: bool
    rows_compared: int
    differences: tuple[RowDifference, ...]
    notes: tuple[str, ...]


def compare_runs(first: Path, second: Path) -> Comparison:
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
    rows = [_rows(run) for run in (first, second)]
    keys = list(dict.fromkeys([*rows[0], *rows[1]]))
    differences = [
        RowDifference(key[0], key[1], rows[0].get(key), rows[1].get(key))
        for key in keys
        if rows[0].get(key) != rows[1].get(key)
    ]
    differences.sort(key=lambda difference: -difference.weight)
    return Comparison(
        equal_digest=manifests[0]["results_digest"] == manifests[1]["results_digest"],
        rows_compared=len(keys),
        differences=tuple(differences),
        notes=tuple(notes),
    )


def _rows(run: Path) -> dict[tuple[tuple[tuple[str, str], ...], str], float | None]:
    result = read_results(run)
    return {
        (
            (*((axis, row[axis]) for axis in result.axes), ("repeat", f"{row['repeat']:.0f}")),
            row["metric"],
        ): row["value"]
        for row in result.rows.dicts()
    }
