"""The part of docs/validation.md on published times: errors and orders of scheduler-filesystem.

A run of the whole study takes minutes, so its figures are on record in `published_times.json`.
`python -m nandlab.validation.published_times RUN` takes over those of a run, whole or quick;
then `nandlab validate` writes the page anew. A test runs the quick form and compares.
"""

import itertools
import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nandlab.claims import load_claims
from nandlab.errors import NandlabError
from nandlab.frame import RunFrame, read
from nandlab.frame.run_directory import read_manifest
from nandlab.present import load_report
from nandlab.present.spec import Column
from nandlab.present.tables import measured, published_beside
from nandlab.present.units import percent
from nandlab.study_files import shipped_studies
from nandlab.validation import prose
from nandlab.whole_files import whole_files

STUDY = "scheduler-filesystem"
AXES = ("file_system", "test", "scheduler", "file_mib")
"""Axes of the published cells."""

CELLS = "cells"
"""The table of the study's report that holds every published cell."""

ALIKE = 1e-9
"""Means this near, as a part of them, are the same."""

RECORD = Path(__file__).with_name("published_times.json")
FORMS = {"whole": "the whole study", "quick": "the quick form (1 and 4 MiB, two repeats)"}


def section() -> str:
    """The part of the page, from the figures on record."""
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    parts = [prose("published-times")]
    for form, words in FORMS.items():
        if form in record:
            parts += [f"From {words}, digest `{record[form]['digest'][:16]}`:\n"]
            parts.append(_table(record[form]["agreement"]))
    return "\n".join(parts)


def figures(run: Path) -> dict[str, Any]:
    """What is kept of a run: its digest and its agreement, rounded to what is shown and more."""
    manifest = read_manifest(run)
    if manifest["study"].get("name") != STUDY or manifest.get("interrupted"):
        raise NandlabError(f"{run}: this is not a finished run of {STUDY}")
    found: dict[tuple[str, str], dict[str, list[tuple[float, float]]]] = {}
    for (file_system, test, scheduler, _), pair in cells(read(run)).items():
        found.setdefault((file_system, test), {}).setdefault(scheduler, []).append(pair)
    return {
        "digest": manifest["results_digest"],
        "agreement": [
            {"file_system": file_system, "test": test} | _agreement(by_scheduler)
            for (file_system, test), by_scheduler in found.items()
        ],
    }


def cells(run: RunFrame) -> dict[tuple[Any, ...], tuple[float, float]]:
    """Simulated and published seconds of every published cell that ran, by the values of `AXES`."""
    folder = Path(shipped_studies()[STUDY]).parent
    definitions = load_claims(folder)
    table = next(one for one in load_report(folder, definitions).tables if one.identifier == CELLS)
    column: Column = table.columns[0]
    found = {}
    values = [
        run.values_of(axis) if axis not in table.values else table.values[axis] for axis in AXES
    ]
    for place in itertools.product(*values):
        at = dict(zip(AXES, place, strict=True))
        published = published_beside(run, column, at)
        ours = measured(run, column, column.quantity.at(at))
        if ours is not None and published is not None:
            found[place] = (ours.estimate, published)
    return found


def kendall_tau(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Kendall's tau-b: 1 for the same order, -1 for the reverse one; None if one is all ties."""
    pairs = list(itertools.combinations(range(len(first)), 2))
    untied = [sum(_sign(one[a], one[b]) != 0 for a, b in pairs) for one in (first, second)]
    return None if 0 in untied else _score(first, second) / math.sqrt(untied[0] * untied[1])


def exact_p_value(first: Sequence[float], second: Sequence[float]) -> float:
    """Two-sided p-value of the tau of two short lists, over all permutations of the second."""
    least = abs(_score(first, second))
    scores = [abs(_score(first, one)) for one in itertools.permutations(second)]
    return sum(one >= least for one in scores) / len(scores)


def _agreement(by_scheduler: Mapping[str, Sequence[tuple[float, float]]]) -> dict[str, Any]:
    means = [
        [sum(column) / len(column) for column in zip(*pairs, strict=True)]
        for pairs in by_scheduler.values()
    ]
    ours, published = ([pair[side] for pair in means] for side in (0, 1))
    tau = kendall_tau(ours, published)
    return {
        "error_of_means": round(_error(means), 6),
        "error_of_cells": round(_error(list(itertools.chain(*by_scheduler.values()))), 6),
        "tau": None if tau is None else round(tau, 6),
        "p_value": round(exact_p_value(ours, published), 6),
    }


def _error(pairs: Sequence[Sequence[float]]) -> float:
    """Mean absolute error, as a part of the published times."""
    return sum(abs(ours / published - 1) for ours, published in pairs) / len(pairs)


def _sign(one: float, other: float) -> int:
    if abs(one - other) <= ALIKE * max(abs(one), abs(other)):
        return 0
    return 1 if one > other else -1


def _score(first: Sequence[float], second: Sequence[float]) -> int:
    pairs = itertools.combinations(range(len(first)), 2)
    return sum(_sign(first[a], first[b]) * _sign(second[a], second[b]) for a, b in pairs)


def main(runs: Sequence[str]) -> int:
    """Takes over the figures of runs."""
    try:
        record = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.is_file() else {}
        for run in map(Path, runs):
            form = "quick" if read_manifest(run).get("quick") else "whole"
            record[form] = figures(run)
    except NandlabError as error:
        print(f"nandlab: error: {error}", file=sys.stderr)
        return 2
    with whole_files() as files:
        scratch = files.file(RECORD)
        assert scratch is not None
        scratch.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return 0


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    lines = [
        "| file system | test | error of means | error of cells | tau | p |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for row in rows:
        tau = "tied" if row["tau"] is None else f"{row['tau']:.2f}"
        line = [row["file_system"].upper(), row["test"], percent(row["error_of_means"])]
        line += [percent(row["error_of_cells"]), tau, f"{row['p_value']:.2f}"]
        lines.append(f"| {' | '.join(line)} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
