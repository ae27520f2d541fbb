"""A reference in the shape of results: what was measured beside what was simulated.

Such a reference has the columns `metric` and `value`, and any axes of the study; a row is one
measurement, and rows of the same place are averaged. docs/own-board.md shows one.
"""

from dataclasses import dataclass

from nandlab.results import Measurements, StudyResult
from nandlab.results.measurements import mean
from nandlab.verdicts.wording import number, percent


@dataclass(frozen=True)
class Pair:
    """A measured cell and the simulated one; None if the study did not run it."""

    place: tuple[tuple[str, str], ...]
    metric: str
    measured: float
    simulated: float | None

    @property
    def ratio(self) -> float | None:
        """Simulated as a multiple of measured."""
        return self.simulated / self.measured if self.simulated is not None else None

    @property
    def words(self) -> str:
        """The place, as `write, yaffs2, 8`."""
        return ", ".join(value for _, value in self.place if value != "-")


def pairs(result: StudyResult) -> list[Pair]:
    """Every measured cell that is not 0, in the order of the reference; none without a reference.

    An axis that the reference leaves out, or leaves empty in a row, is any.
    """
    reference = result.reference
    if reference is None or not {"metric", "value"} <= set(reference.columns):
        return []
    axes = [name for name in reference.columns if name in result.axes]
    found: dict[tuple[tuple[tuple[str, str], ...], str], list[float]] = {}
    for row in reference.dicts():
        if isinstance(row["value"], float):
            place = tuple((axis, _text(row[axis])) for axis in axes if row[axis] is not None)
            found.setdefault((place, str(row["metric"])), []).append(row["value"])
    rows = Measurements(result)
    return [
        Pair(place, metric, measured, rows.mean(metric, **dict(place)))
        for (place, metric), values in found.items()
        if (measured := mean(values))
    ]


def sentence(result: StudyResult) -> str:
    """How near the simulated cells come to the measured ones; nothing without any."""
    found = pairs(result)
    near = [one for one in found if one.ratio is not None]
    if not found:
        return ""
    missing = len(found) - len(near)
    not_run = f"; {missing} more were not simulated" if missing else ""
    if not near:
        return f"Of {len(found)} measured cells none was simulated."
    ratios = {one: one.ratio or 0.0 for one in near}
    farthest = max(near, key=lambda one: abs(ratios[one] - 1))
    error = mean(abs(ratio - 1) for ratio in ratios.values()) or 0.0
    return (
        f"Against the reference, {len(near)} cells: simulated is {number(min(ratios.values()))} to "
        f"{number(max(ratios.values()))} times measured, off by {percent(error)} in the mean, "
        f"farthest in {farthest.words} {farthest.metric}{not_run}."
    )


def _text(value: float | str) -> str:
    return f"{value:g}" if isinstance(value, float) else value
