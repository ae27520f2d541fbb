"""Looks up what the runs of a study of processes measured, run by run."""

import csv
import io
from collections.abc import Iterator, Mapping

from nandlab.results import StudyResult


class JobRuns:
    """Metrics of single runs by axis values and repeat, and the tables pooled over repeats."""

    def __init__(self, result: StudyResult) -> None:
        """Indexes `result`."""
        self.axes = result.axes
        self._tables = result.tables
        self._runs: dict[tuple[str, ...], dict[str, dict[int, float]]] = {}
        places = [result.rows.columns.index(axis) for axis in result.axes]
        repeat, metric, value = (
            result.rows.columns.index(name) for name in ("repeat", "metric", "value")
        )
        for row in result.rows.rows:
            if row[value] is None:
                continue
            at = self._runs.setdefault(tuple(row[place] for place in places), {})
            at.setdefault(row[metric], {})[int(row[repeat])] = float(row[value])

    def axis_values(self, axis: str, **place: str) -> list[str]:
        """Values of an axis among the runs at a place, in the order of the rows."""
        index = self.axes.index(axis)
        wanted = [(self.axes.index(name), value) for name, value in place.items()]
        found = (key[index] for key in self._runs if all(key[at] == value for at, value in wanted))
        return list(dict.fromkeys(found))

    def repeats(self, metric: str, place: Mapping[str, str]) -> dict[int, float]:
        """The metric in every repeat; `place` names all axes."""
        at = self._runs.get(tuple(place.get(axis, "") for axis in self.axes), {})
        return at.get(metric, {})

    def mean(self, metric: str, place: Mapping[str, str]) -> float | None:
        """Mean over repeats; None where it was not measured."""
        found = self.repeats(metric, place)
        return sum(found.values()) / len(found) if found else None

    def greatest(self, metric: str, place: Mapping[str, str]) -> float | None:
        """The greatest over repeats; None where it was not measured."""
        return max(self.repeats(metric, place).values(), default=None)

    def table(self, name: str, **place: str) -> Iterator[dict[str, str]]:
        """Rows of a table at a place."""
        for row in csv.DictReader(io.StringIO(self._tables.get(name, ""))):
            if all(row[axis] == value for axis, value in place.items()):
                yield row
