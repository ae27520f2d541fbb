"""The report of a study without claims: what the axis that its question asks about changes.

The question decides which metric answers it: "fastest" asks for time, "least wear" for erases.
"""

import math
import re
from typing import TYPE_CHECKING

from nandlab.claims.quantity import Quantity, Sample
from nandlab.claims.schema import Reading
from nandlab.claims.statistics import LEAST_REPLICATES
from nandlab.frame import MEANINGLESS, RunFrame
from nandlab.present.charts import PALETTE, Chart, chart
from nandlab.present.headline import capital, joined, leaders, quick_words
from nandlab.present.measured import distance, distance_chart, distance_table, pairs
from nandlab.present.page import Presented, conditions, unclaimed
from nandlab.present.spec import Column, FigureSpec, ReportSpec
from nandlab.present.tables import ShownTable
from nandlab.present.units import estimate_text, number, scale_of

if TYPE_CHECKING:
    import polars

METRICS = (
    *("weighted_time_mean", "weighted_time", "waf", "erases", "busy_ns"),
    *("read_latency_mean_ns", "read_latency_max_ns"),
    *("write_latency_mean_ns", "write_latency_max_ns"),
    "elapsed_ns",
)
"""Metrics that tell most, best first; less is better in all of them."""

_TIME = ("elapsed_ns", "weighted_time_mean", "weighted_time", "busy_ns")
_READ_TIME = ("read_latency_mean_ns", "read_p99_ns", "read_latency_max_ns")
_WRITE_TIME = ("write_latency_mean_ns", "write_p99_ns", "write_latency_max_ns")
_FAST = r"fast|quick|speed|slow|soon|short|long|wait|latenc|time"

_ASKED: tuple[tuple[str, tuple[str, ...]], ...] = (
    (r"wear|worn|erase|endur|life|\blasts?\b", ("erases", "erase_count_max")),
    (r"amplif", ("waf",)),
    (r"memory|ram\b", ("memory_bytes_max", "memory_bytes", "ram_bytes")),
    (rf"\breads?\b.*\b({_FAST})|\b({_FAST})\w*\b.*\breads?\b", (*_READ_TIME, *_TIME)),
    (rf"\bwrites?\b.*\b({_FAST})|\b({_FAST})\w*\b.*\bwrites?\b", (*_WRITE_TIME, *_TIME)),
    (_FAST, (*_TIME, *_READ_TIME, *_WRITE_TIME)),
)
"""What a word of the question asks for, special words first; less is better in all of it."""

_COMPARED_MAX = 40
"""Values of an axis that are compared with each other: each with every other one."""

_ROWS_MAX = 500
"""Rows of a table; where more combinations were run, it has the means over some of the axes."""

_NAMED_MAX = 3
"""Candidates that a sentence names one by one."""


def default(run: RunFrame) -> Presented:
    """One sentence, one figure and one table; each only where there is something to show."""
    metrics, measured = _metrics(run), pairs(run)
    axis, samples = _compared(run, metrics[0]) if metrics else ("", {})
    tables = [distance_table(measured)] if measured else []
    tables += [_table(run, metrics)] if metrics else []
    drawn = distance_chart(measured)
    if drawn is None and axis:
        drawn = _figure(run, metrics[0], axis)
    if not metrics:
        headline = "Nothing was measured."
    elif run.is_quick:
        headline = quick_words(0)
    elif run.interrupted:
        headline = "Interrupted: nothing is judged."
    elif measured:
        headline = distance(measured)
    elif axis:
        headline = _best(axis, samples, metrics[0])
    else:
        headline = _alone(run, metrics[0])
    return unclaimed(run, headline, tables, [drawn] if drawn else [], conditions(run))


def _alone(run: RunFrame, metric: str) -> str:
    """The value of a metric that no two values of an axis share a place for; silent of several."""
    values = run.metrics[metric].select(run.axes).n_unique()
    mean = run.metrics[metric]["value"].mean()
    shown = estimate_text(mean, run.units[metric])  # type: ignore[arg-type]
    told = f"{capital(words(metric))} is {shown}; there is nothing to compare it with."
    return told if values == 1 else ""


def _metrics(run: RunFrame) -> list[str]:
    """The metric that the question asks for, then others that tell much."""
    question = str(run.study.get("question") or "").lower()
    asked = [one for asks, wanted in _ASKED if re.search(asks, question) for one in wanted]
    known = [metric for metric in (*asked, *METRICS) if metric in run.metrics][:1]
    first = known or list(run.metrics)[:1]
    return first + [one for one in METRICS if one in run.metrics and one not in first]


def words(metric: str) -> str:
    """A metric in words; the unit stands behind the value."""
    plain = metric.removesuffix("_ns").replace("_", " ")
    return f"{plain} time" if metric in ("busy_ns", "elapsed_ns") else plain


def _compared(run: RunFrame, metric: str) -> tuple[str, dict[str, Sample]]:
    """The first axis whose values can be compared; those that the question names come first."""
    question = str(run.study.get("question") or "").lower()
    counts = {axis: run.metrics[metric][axis].n_unique() for axis in run.axes}
    few = [axis for axis in run.axes if counts[axis] <= _COMPARED_MAX]
    for axis in sorted(few, key=lambda axis: axis.replace("_", " ") not in question):
        if found := candidates(run, metric, axis):
            return axis, found
    return "", {}


def candidates(run: RunFrame, metric: str, axis: str) -> dict[str, Sample]:
    """The repeats of each value of an axis, pooled over the places at which all of them were run.

    Where all values give the same, the place has no such setting: it is left out, so that it hides
    no difference of the others. Empty if no two values were run in the same places.
    """
    import polars

    frame = run.metrics[metric].filter(polars.col(axis).cast(polars.String) != MEANINGLESS)
    names = [str(value) for value in frame[axis].unique(maintain_order=True)]
    others = [one for one in run.axes if one != axis]
    # Columns of their own names: a value may be called like another axis (the phase `operations`).
    columns = [f"value {name}" for name in names]
    frame = frame.with_columns(polars.format("value {}", polars.col(axis)).alias(axis))
    wide = frame.pivot(axis, index=[*others, "repeat"], values="value").drop_nulls(columns)
    if len(names) < 2 or wide.is_empty():
        return {}
    differs = polars.any_horizontal(polars.col(columns[1:]) != polars.col(columns[0]))
    changed = wide.filter(differs.any().over(others)) if others else wide
    wide = wide if changed.is_empty() else changed
    by_repeat = wide.partition_by("repeat", as_dict=True)
    most = max(part.height for part in by_repeat.values())
    is_positive = bool(wide.select(polars.min_horizontal(columns).min()).item() > 0)
    # A repeat that lacks a place would be pooled over others than the rest.
    whole = {key[0]: part for key, part in by_repeat.items() if part.height == most}
    return {
        name: Sample({key: _mean(part[column], is_positive) for key, part in whole.items()})
        for name, column in zip(names, columns, strict=True)
    }


def _mean(values: "polars.Series", is_positive: bool) -> float:
    """Geometric where it can be: a place with large values does not decide alone."""
    if not is_positive:
        return float(values.mean())  # type: ignore[arg-type]
    return math.exp(float(values.log().mean()))  # type: ignore[arg-type]


def _best(axis: str, found: dict[str, Sample], metric: str) -> str:
    """The values of an axis that no other beats; equal ones are named together, and none wins."""
    value, named = axis.replace("_", " "), words(metric)
    repeats = min(len(one.by_key) for one in found.values())
    if repeats < LEAST_REPLICATES:
        told = f"{repeats} repeat{'s' if repeats != 1 else ''}"
        return f"Undecided: {told}; at least {LEAST_REPLICATES} are needed to judge."
    names = leaders(found, most=False)
    over = f"({repeats} repeats)"
    if len(names) == len(found):
        if len({tuple(one.by_key.values()) for one in found.values()}) == 1:
            return f"{capital(named)} is the same with every {value} {over}."
        return f"{capital(named)} tells no {value} apart from the others {over}."
    if len(names) > 1:
        shown = joined(names) if len(names) <= _NAMED_MAX else f"{len(names)} of {len(found)}"
        return f"{capital(value)} {shown} have the least {named}; nothing tells them apart {over}."
    rest = {name: one for name, one in found.items() if name not in names}
    second = min(rest, key=lambda name: rest[name].value().estimate)
    least = f"{capital(value)} {names[0]} has the least {named}"
    if not any(rest[second].by_key.values()):
        return f"{least} {over}."
    ratio = found[names[0]].divided_by(rest[second]).ratio()
    interval = f"{number(ratio.low)} to {number(ratio.high)}, {repeats} repeats"
    return f"{least}: {number(ratio.estimate)} times that of {second} ({interval})."


def _figure(run: RunFrame, metric: str, x: str) -> Chart | None:
    """A metric along an axis, a colour for each value of another; all others stand still."""
    frame = run.metrics[metric]
    others = [axis for axis in run.axes if axis != x and frame[axis].n_unique() > 1]
    series = next((one for one in others if frame[one].n_unique() <= len(PALETTE)), None)
    fixed = [one for one in others if one != series]
    places = frame.group_by(fixed, maintain_order=True).len() if fixed else frame.clear()
    # Where most was run, the first of several: what stands still is shown, never averaged over.
    most = places.sort("len", descending=True, maintain_order=True).drop("len") if fixed else places
    at = most.row(0, named=True) if fixed else {}
    told = [f"Colours: {series.replace('_', ' ')}."] if series else []
    stands = [f"{axis} {MEANINGLESS if one is None else one}" for axis, one in at.items()]
    told += [f"At {joined(stands)}."] if stands else []
    spec = FigureSpec(
        identifier=metric.replace("_", "-"),
        title=f"{capital(words(metric))} by {x.replace('_', ' ')}",
        x=x,
        column=Column(words(metric), Quantity(metric, select=at), Reading("as run")),
        series=series,
        caption=" ".join(told),
    )
    return chart(run, spec, ReportSpec())


def _table(run: RunFrame, metrics: list[str]) -> ShownTable:
    """A row for each combination of what varies, the means over its repeats.

    Of many combinations the axes with most values are averaged over.
    """
    import polars

    means = polars.col(metrics).mean()
    wide = run.wide(*metrics).filter(polars.any_horizontal(polars.col(metrics).is_not_null()))
    axes = [axis for axis in run.varied if wide[axis].n_unique() > 1]
    values = {axis: wide[axis].n_unique() for axis in axes}
    over: list[str] = []
    while axes and wide.select(polars.struct(axes).n_unique()).item() > _ROWS_MAX:
        # The last of those with most values: the first axes are what a study is about.
        most = max(reversed(axes), key=lambda axis: values[axis])
        axes.remove(most)
        over.append(most.replace("_", " "))
    rows = wide.group_by(axes, maintain_order=True).agg(means) if axes else wide.select(means)
    scales = [scale_of(rows[metric].to_list(), run.units[metric]) for metric in metrics]
    cells = [
        [MEANINGLESS if value is None else str(value) for value in row[: len(axes)]]
        + [
            number(None if value is None else value / scale.size)
            for value, scale in zip(row[len(axes) :], scales, strict=True)
        ]
        for row in rows.iter_rows()
    ]
    heads = [scale.titled(words(one)) for one, scale in zip(metrics, scales, strict=True)]
    columns = (*(axis.replace("_", " ") for axis in axes), *heads)
    title = f"Means over {joined(['repeats', *over])}"
    return ShownTable("results", title, columns, tuple(map(tuple, cells)), len(axes))
