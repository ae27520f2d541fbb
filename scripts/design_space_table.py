"""Every point of workloads/search/small-chip.toml: what tests of the search compare with.

Run it again after a change of the engine that changes results; it takes two minutes.
"""

import csv
import sys
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from nandlab.design_space.metrics import measured, parse_objectives
from nandlab.design_space.points import Points
from nandlab.design_space.space import Choices, read_space
from nandlab.study_runs import RunRequest, frame_of, processors

ROOT = Path(__file__).parents[1]
SPACE = ROOT / "workloads" / "search" / "small-chip.toml"
TABLE = ROOT / "python" / "tests" / "data" / "small-chip.csv"
METRICS = parse_objectives("write_amplification,ram_bytes,life_bytes")
VALUES = tuple(one.name for one in METRICS)
REFUSED = "-"
"""Stands for the values of a point that cannot be."""


def row(points: Points, choices: Choices) -> Mapping[str, Any]:
    """The choices of a point and its metrics, means over the repeats."""
    point = points.point(choices)
    if point.refusal:
        return {**choices, **dict.fromkeys(VALUES, REFUSED)}
    with points.written(point) as path:
        run = frame_of(RunRequest(study=str(path), path=str(path), out=path, jobs=1))
    return {**choices, **{one.name: measured(run, one, None).value for one in METRICS}}


def read_table() -> list[tuple[Choices, Mapping[str, float] | None]]:
    """Choices of every point with its metrics; none of a point that cannot be."""
    found = []
    with TABLE.open(encoding="utf-8", newline="") as file:
        for cells in csv.DictReader(file):
            values = {name: cells.pop(name) for name in VALUES}
            choices = {key: _value(cell) for key, cell in cells.items() if cell}
            is_refused = REFUSED in values.values()
            numbers = None if is_refused else {key: float(one) for key, one in values.items()}
            found.append((choices, numbers))
    return found


def _value(cell: str) -> Any:
    return int(cell) if cell.isdigit() else cell


def main() -> int:
    """Writes the table."""
    space = read_space(SPACE)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(processors()) as workers:
        points = Points(space, Path(folder))
        rows = list(workers.map(lambda choices: row(points, choices), space.points()))
    columns = [*(axis.key for axis in space.axes), *VALUES]
    TABLE.parent.mkdir(exist_ok=True)
    with TABLE.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    print(f"{TABLE}: {len(rows):,} points")
    return 0


if __name__ == "__main__":
    sys.exit(main())
