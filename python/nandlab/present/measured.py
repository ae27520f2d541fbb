"""A reference in the shape of results: what was measured beside what was simulated.

Such a reference has the columns `metric` and `value`, and any axes of the study; a row is one
measurement, and rows of the same place are averaged. docs/own-board.md shows one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from nandlab.claims.quantity import Quantity, selected
from nandlab.claims.schema import Reading
from nandlab.frame import MEANINGLESS, RunFrame
from nandlab.frame.reference import Cell
from nandlab.present.charts import Chart, drawn
from nandlab.present.spec import Column, FigureSpec
from nandlab.present.tables import ShownTable
from nandlab.present.units import number, percent


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
        return ", ".join(value for _, value in self.place if value != MEANINGLESS)


def pairs(run: RunFrame) -> list[Pair]:
    """Every measured cell that is not 0, in the order of the reference; none without a reference.

    An axis that the reference leaves out, or leaves empty in a row, is any.
    """
    if run.reference is None or not {"metric", "value"} <= set(run.reference.columns):
        return []
    found: dict[tuple[tuple[tuple[str, str], ...], str], list[float]] = {}
    for row in run.reference.rows:
        value = row["value"]
        if isinstance(value, float):
            axes = (axis for axis in run.reference.columns if axis in run.axes)
            place = tuple((axis, _text(row[axis])) for axis in axes if row[axis] is not None)
            found.setdefault((place, str(row["metric"])), []).append(value)
    return [
        Pair(place, metric, mean, _simulated(run, metric, dict(place)))
        for (place, metric), values in found.items()
        if (mean := fmean(values))
    ]


def _simulated(run: RunFrame, metric: str, place: dict[str, str]) -> float | None:
    if metric not in run.metrics:
        return None
    mean = selected(run, run.metrics[metric], place)["value"].mean()
    return None if mean is None else float(mean)


def distance(found: Sequence[Pair]) -> str:
    """How near the simulated cells come to the measured ones."""
    ratios = [one.ratio for one in found if one.ratio is not None]
    if not ratios:
        return f"Of {len(found)} measured cells none was simulated."
    missing = len(found) - len(ratios)
    error = fmean(abs(ratio - 1) for ratio in ratios)
    return (
        f"Against the reference, {len(ratios)} cells: simulated is {number(min(ratios))} to "
        f"{number(max(ratios))} times measured, off by {percent(error)} in the mean"
        + (f"; {missing} more were not simulated." if missing else ".")
    )


def distance_table(found: Sequence[Pair]) -> ShownTable:
    """Every measured cell, the farthest first; those that were not simulated last."""
    far = {one: abs(one.ratio - 1) if one.ratio is not None else -1.0 for one in found}
    rows = tuple(
        (one.words, one.metric, number(one.measured), number(one.simulated), number(one.ratio))
        for one in sorted(found, key=lambda one: -far[one])
    )
    columns = ("cell", "metric", "measured", "simulated", "simulated / measured")
    return ShownTable("measured", "Measured, and simulated", columns, rows, 2)


def distance_chart(found: Sequence[Pair]) -> Chart | None:
    """How far each simulated cell lies from the measured one; None without any."""
    near = [(one, one.ratio) for one in found if one.ratio is not None]
    points = [{"x": one.words or "all", "series": one.metric, "value": x} for one, x in near]
    title = "Simulated over measured"
    column = Column(title, Quantity("ratio"), Reading("as run"))
    spec = FigureSpec(
        "simulated-over-measured",
        title,
        "",
        column,
        kind="dots",
        log_x=min((x for _, x in near), default=0) > 0,
    )
    return drawn(points, spec, "ratio") if points else None


def _text(value: Cell) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
