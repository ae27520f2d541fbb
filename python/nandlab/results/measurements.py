"""Looks up and averages metrics over the axes of a study."""

import math
from collections.abc import Iterable

from nandlab.results.study_result import StudyResult

Number = float


class Measurements:
    """The rows of a result, by metric."""

    def __init__(self, result: StudyResult) -> None:
        """Indexes the rows of `result`."""
        self.axes = result.axes
        self._by_metric: dict[str, list[tuple[dict[str, str], float]]] = {}
        self._values: dict[str, list[str]] = {axis: [] for axis in result.axes}
        self.units: dict[str, str] = {}
        for row in result.rows.dicts():
            place = {axis: row[axis] for axis in result.axes}
            for axis, value in place.items():
                if value not in self._values[axis]:
                    self._values[axis].append(value)
            if row["value"] is None or not math.isfinite(row["value"]):
                continue
            self._by_metric.setdefault(row["metric"], []).append((place, float(row["value"])))
            self.units.setdefault(row["metric"], row["unit"] or "")

    def metrics(self) -> list[str]:
        """Names of all metrics, in the order of the rows."""
        return list(self._by_metric)

    def has(self, *metrics: str) -> bool:
        """Whether all of `metrics` were measured anywhere."""
        return all(metric in self._by_metric for metric in metrics)

    def axis_values(self, axis: str) -> list[str]:
        """Values of an axis that occur, in the order of the rows."""
        return list(self._values.get(axis, ()))

    def values(self, metric: str, **place: str | None) -> list[float]:
        """Every value of a metric at a place; an axis that is left out, or None, is any."""
        wanted = [(axis, value) for axis, value in place.items() if value is not None]
        return [
            value
            for at, value in self._by_metric.get(metric, ())
            if all(at.get(axis) == value_wanted for axis, value_wanted in wanted)
        ]

    def mean(self, metric: str, **place: str | None) -> float | None:
        """Mean over all runs at a place; None where nothing was measured."""
        return mean(self.values(metric, **place))

    def total(self, metric: str, **place: str | None) -> float | None:
        """Sum over all runs at a place; None where nothing was measured."""
        found = self.values(metric, **place)
        return math.fsum(found) if found else None


def mean(values: Iterable[float]) -> float | None:
    """Arithmetic mean; None of nothing."""
    numbers = list(values)
    return math.fsum(numbers) / len(numbers) if numbers else None


def mean_absolute_log_ratio(ratios: Iterable[float]) -> float | None:
    """Mean of |ln ratio|: 0 is equal, and twice as much counts as much as half."""
    return mean(abs(math.log(ratio)) for ratio in ratios if ratio > 0)
