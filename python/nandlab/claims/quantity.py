"""Quantities: a metric, or a few operations on metrics, selected and pooled over a run's rows."""

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from typing import Any

from nandlab.claims.statistics import (
    DRAWS,
    Interval,
    block_indices,
    block_length,
    log_interval,
    percentile_interval,
    t_interval,
)
from nandlab.errors import NandlabError
from nandlab.frame import MEANINGLESS, RunFrame

HOWS = ("geometric-mean", "maximum", "mean", "sum")
"""Ways to pool cells, sorted. `sum` adds each metric first and combines the sums."""

_FACTORS_KEPT = 4_096
"""Draws of so many curves are kept, which is at most 64 MiB."""

Place = Mapping[str, Any]


class MissingError(Exception):
    """A cell that the claim needs was not run."""


@dataclass(frozen=True)
class Quantity:
    """What is measured: `metric` at `select`, as a multiple of `relative_to` where that is given.

    `metric` is a name or an expression of names with + - * / and parentheses, or comparisons, which
    are 1 or 0. `{part}` in it stands for a word of the reading. The axes `pooled` are pooled by
    `how`.
    """

    metric: str
    select: Place = field(default_factory=dict)
    relative_to: Place | None = None
    pooled: tuple[str, ...] = ()
    how: str = "mean"
    replicates: tuple[str, ...] = ()
    windows: bool = False
    """Replicates are windows of one run, resampled in blocks."""

    def at(self, place: Place) -> "Quantity":
        """The same at a place; its axes replace those of `select`."""
        return replace(self, select={**self.select, **place})


@dataclass(frozen=True)
class Sample:
    """A quantity over replicates (by key), or over bootstrap draws with a point estimate."""

    by_key: Mapping[Any, float]
    draws: Any = None
    point: float = math.nan
    blocks: int = 0

    def divided_by(self, other: "Sample") -> "Sample":
        """The ratio, replicate by replicate."""
        return combined([self, other], lambda left, right: left / right)

    def minus(self, other: "Sample") -> "Sample":
        """The difference, replicate by replicate."""
        return combined([self, other], lambda left, right: left - right)

    def ratio(self) -> Interval:
        """The interval of a positive quantity, on its logarithm."""
        if self.draws is not None:
            return percentile_interval(self.point, self.draws, self.blocks)
        values = list(self.by_key.values())
        return log_interval(values) if all(one > 0 for one in values) else t_interval(values)

    def value(self) -> Interval:
        """The interval of the mean."""
        if self.draws is not None:
            return percentile_interval(self.point, self.draws, self.blocks)
        return t_interval(list(self.by_key.values()))


def combined(samples: Sequence[Sample], function: Callable[..., Any]) -> Sample:
    """A function of several samples, replicate by replicate or draw by draw.

    Raises `MissingError` if they share no replicate, or something is divided by 0.
    """
    first = samples[0]
    try:
        if first.draws is not None:
            return Sample(
                {},
                function(*(one.draws for one in samples)),
                function(*(one.point for one in samples)),
                min(one.blocks for one in samples),
            )
        keys = [key for key in first.by_key if all(key in one.by_key for one in samples)]
        values = {key: function(*(one.by_key[key] for one in samples)) for key in keys}
    except ZeroDivisionError:
        raise MissingError("a cell that is divided by is 0") from None
    if not values:
        raise MissingError("the cells that are compared share no replicate")
    return Sample(values)


def sample(run: RunFrame, quantity: Quantity, parts: Mapping[str, str]) -> Sample:
    """Measures a quantity; `parts` are the words of the reading.

    Raises `MissingError` if a cell was not run.
    """
    found = _sample(run, quantity, parts)
    if quantity.relative_to is None:
        return found
    base = _sample(run, quantity.at(quantity.relative_to), parts)
    return found.divided_by(base)


def _sample(run: RunFrame, quantity: Quantity, parts: Mapping[str, str]) -> Sample:
    """The quantity at its place, measured once for all claims, tables and figures of a run."""
    cache: dict[str, Sample] = run.__dict__.setdefault("_samples", {})
    key = f"{replace(quantity, relative_to=None)!r} {parts!r}"
    if key not in cache:
        cache[key] = _measured(run, quantity, parts)
    return cache[key]


def _measured(run: RunFrame, quantity: Quantity, parts: Mapping[str, str]) -> Sample:
    tree = parse(quantity.metric)
    names = sorted({node.id for node in ast.walk(tree) if isinstance(node, ast.Name)})
    cells = [_cells(run, name, quantity, parts) for name in names]
    places = [place for place in cells[0] if all(place in column for column in cells)]
    if not places:
        raise MissingError(f"no run at {_words(quantity.select)}")
    _check_pooled(run, quantity, places)
    keyed = _grouped(run, quantity, places)
    values: dict[Any, Any] = {}
    for key, group in keyed.items():
        if quantity.how == "sum":
            sums = {
                name: sum(column[place] for place in group)
                for name, column in zip(names, cells, strict=True)
            }
            values[key] = evaluated(tree, sums)
            continue
        found = [
            evaluated(tree, {name: col[place] for name, col in zip(names, cells, strict=True)})
            for place in group
        ]
        values[key] = _POOLED[quantity.how](found)
    if not quantity.windows:
        return Sample(values)
    joined = _mean(list(values.values()))
    draws, point = joined[1:], float(joined[0])
    blocks = min(_blocks(run, place) for place in places)
    return Sample({}, draws, point, blocks)


def _check_pooled(run: RunFrame, quantity: Quantity, places: Sequence[Any]) -> None:
    """Refuses to pool an axis that is not named: what is averaged must be said."""
    for index, axis in enumerate(run.axes):
        if axis in quantity.pooled or axis in quantity.replicates:
            continue
        if axis in quantity.select and not isinstance(quantity.select[axis], list):
            continue
        if len({place[index] for place in places}) > 1:
            raise NandlabError(
                f"{run.name}: axis {axis!r} has several values for {quantity.metric!r}; "
                "select one, or name the axis in pool.over or replicates"
            )


def _grouped(run: RunFrame, quantity: Quantity, places: Sequence[Any]) -> dict[Any, list[Any]]:
    """Places by the key of their replicate: the repeat, and the axes that are replicates."""
    if quantity.windows:
        return {(): list(places)}
    taken = [run.axes.index(axis) for axis in quantity.replicates]
    groups: dict[Any, list[Any]] = {}
    for place in places:
        key = (place[-1], *(place[index] for index in taken))
        groups.setdefault(key, []).append(place)
    most = max(len(group) for group in groups.values())
    # A repeat that lacks a cell would be pooled over something else than the others.
    return {key: group for key, group in groups.items() if len(group) == most}


def _cells(
    run: RunFrame, template: str, quantity: Quantity, parts: Mapping[str, str]
) -> dict[Any, Any]:
    """Values of one metric by place; cells that lack the reading's metric take the plain one."""
    found: dict[Any, Any] = {}
    plain = _filled(template, dict.fromkeys(parts, ""))
    for metric in dict.fromkeys((_filled(template, parts), plain)):
        if metric not in run.metrics:
            continue
        for row in _rows(run, metric, quantity.select):
            if row[:-1] not in found:
                place, value = row[:-1], row[-1]
                found[place] = _drawn(run, place, metric, value) if quantity.windows else value
    if not found:
        if plain not in run.metrics:
            raise MissingError(f"the run has no metric {plain}")
        raise MissingError(f"no run at {_words(quantity.select)}")
    return found


def _rows(run: RunFrame, metric: str, select: Place) -> list[tuple[Any, ...]]:
    """Rows of a metric at a place, as `selected` finds them.

    A report asks a thousand times for a few cells. A filter of polars makes a plan each time, which
    costs more than the rows; here each axis is indexed once.
    """
    cache: dict[str, tuple[list[tuple[Any, ...]], dict[str, Any]]]
    cache = run.__dict__.setdefault("_indexed_rows", {})
    if metric not in cache:
        cache[metric] = run.metrics[metric].rows(), {}
    rows, indices = cache[metric]
    kept: set[int] | None = None
    for axis, wanted in select.items():
        _check_axis(run, axis)
        is_text = axis in run.text_axes
        if axis not in indices:
            column = run.axes.index(axis)
            index = indices[axis] = {}
            for number, row in enumerate(rows):
                index.setdefault(_key(row[column], is_text), set()).add(number)
        values = wanted if isinstance(wanted, list) else [wanted]
        empty: set[int] = set()
        found = empty.union(*(indices[axis].get(_key(one, is_text), empty) for one in values))
        kept = found if kept is None else kept & found
    return rows if kept is None else [rows[number] for number in sorted(kept)]


def _key(value: Any, is_text: bool) -> str | float | None:
    """What stands for a value: a number may be whole in the study's list and a decimal in rows."""
    if is_text:
        return None if value is None else str(value)
    return None if value in (MEANINGLESS, None) else float(value)


def _check_axis(run: RunFrame, axis: str) -> None:
    if axis not in run.axes:
        raise NandlabError(f"{run.name} has no axis {axis!r}; it has {', '.join(run.axes)}")


def selected(run: RunFrame, frame: Any, select: Place) -> Any:
    """Rows at a place; a list stands for any of its values, `-` for an axis that means nothing."""
    import polars

    wholes = []
    for axis, wanted in select.items():
        _check_axis(run, axis)
        values = wanted if isinstance(wanted, list) else [wanted]
        if frame[axis].dtype == polars.String:
            texts = [str(value) for value in values]
            wholes.append(polars.col(axis).is_in(texts))
            continue
        # An axis may hold whole numbers where the study's list has a decimal.
        numbers = [float(value) for value in values if value not in (MEANINGLESS, None)]
        chosen = polars.col(axis).cast(polars.Float64).is_in(numbers)
        if len(numbers) < len(values):
            chosen |= polars.col(axis).is_null()
        wholes.append(chosen)
    # One filter for all axes: each costs a plan of its own.
    return frame.filter(wholes) if wholes else frame


def _drawn(run: RunFrame, place: tuple[Any, ...], metric: str, value: float) -> Any:
    """The value, followed by its bootstrap draws.

    Draws multiply the value by how far the mean of resampled windows of the run's curve lies from
    the mean of all; for a standard deviation, by how far that of the windows does. A count of
    another kind than the curve's is a constant of the trace.
    """
    import numpy

    windows = _windows(run, place)
    base = next(
        (name for name in windows if re.search(rf"(^|_){name}(_mean|_stddev)?$", metric)), ""
    )
    found = windows.get(base)
    is_spread = metric.endswith("_stddev")
    if found is None or len(found) < 2:
        return numpy.concatenate(([value], value * numpy.ones(DRAWS)))
    factors = _factors(found.tobytes(), found.dtype.str, is_spread)
    return numpy.concatenate(([value], value * factors))


@lru_cache(maxsize=_FACTORS_KEPT)
def _factors(content: bytes, kind: str, is_spread: bool) -> Any:
    """What each draw of windows makes of their mean, or of their standard deviation.

    Windows are named by their content: a search of readings has the same ones in many frames.
    """
    import numpy

    windows = numpy.frombuffer(content, kind)
    statistic = numpy.std if is_spread else numpy.mean
    whole = statistic(windows)
    if not whole:
        return numpy.ones(DRAWS)
    return statistic(windows[block_indices(len(windows))], axis=1) / whole


def _windows(run: RunFrame, place: tuple[Any, ...]) -> dict[str, Any]:
    """What each window of a run's curve adds, by column; longest names first."""
    cache: dict[Any, dict[str, Any]] = run.__dict__.setdefault("_windows", {})
    if not cache:
        axes = [axis for axis in run.axes if axis in run.curves.columns]
        columns = [name for name in run.curves.columns if name not in (*axes, "io", "repeat")]
        columns.sort(key=lambda name: -len(name))
        parts = run.curves.partition_by(axes, as_dict=True, maintain_order=True)
        for key, part in parts.items():
            cache[key] = {name: _steps(part[name]) for name in columns}
    return cache.get(place[:-1], {})


def _steps(counts: Any) -> Any:
    """What each place of a curve adds to the one before."""
    import numpy
    import polars

    # In polars, each column of each curve costs two plans.
    if counts.dtype in (polars.Int64, polars.Float64) and not counts.null_count():
        return numpy.diff(counts.to_numpy())
    return counts.diff().drop_nulls().to_numpy()


def _blocks(run: RunFrame, place: tuple[Any, ...]) -> int:
    counts = [len(found) for found in _windows(run, place).values()]
    return counts[0] // block_length(counts[0]) if counts and counts[0] else 1


@cache
def parse(metric: str) -> ast.expr:
    """The expression of a metric; raises `NandlabError` if it holds anything but operators."""
    try:
        tree = ast.parse(re.sub(r"\{(\w+)\}", rf"{_MARK}\1{_MARK}", metric), mode="eval").body
    except SyntaxError:
        raise NandlabError(f"{metric!r} is no metric and no expression of metrics") from None
    for node in ast.walk(tree):
        if not isinstance(node, _ALLOWED) or (isinstance(node, ast.Compare) and len(node.ops) > 1):
            raise NandlabError(
                f"{metric!r}: only names, numbers, + - * / == != < <= > >= and ( ) are allowed"
            )
    return tree


def evaluated(tree: ast.expr, values: Mapping[str, Any]) -> Any:
    """The value of an expression."""
    if isinstance(tree, ast.Name):
        return values[tree.id]
    if isinstance(tree, ast.Constant):
        return tree.value
    if isinstance(tree, ast.Compare):
        compare = _COMPARISONS[type(tree.ops[0])]
        left, right = evaluated(tree.left, values), evaluated(tree.comparators[0], values)
        return compare(left, right) * 1.0
    assert isinstance(tree, ast.BinOp)
    left, right = evaluated(tree.left, values), evaluated(tree.right, values)
    if isinstance(tree.op, ast.Add):
        return left + right
    if isinstance(tree.op, ast.Sub):
        return left - right
    if isinstance(tree.op, ast.Mult):
        return left * right
    if isinstance(right, int | float) and right == 0:
        raise MissingError("a metric that is divided by is 0")
    return left / right


_MARK = "Ω"
"""Stands for the braces of a part: a letter that no metric holds."""

_COMPARISONS: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.NotEq: operator.ne,
}

_ALLOWED = (
    ast.Name, ast.Load, ast.Constant, ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.Div,
    ast.Compare, *_COMPARISONS,
)  # fmt: skip


def _filled(template: str, parts: Mapping[str, str]) -> str:
    return re.sub(rf"{_MARK}(\w+?){_MARK}", lambda found: parts.get(found[1], ""), template)


def _mean(values: Sequence[Any]) -> Any:
    return sum(values[1:], start=values[0]) / len(values)


def _geometric(values: Sequence[Any]) -> Any:
    if _are_numbers(values) and min(values) > 0:
        return math.exp(_mean([math.log(value) for value in values]))
    import numpy

    found = numpy.exp(_mean([numpy.log(value) for value in values]))
    return float(found) if found.ndim == 0 else found


def _maximum(values: Sequence[Any]) -> Any:
    if _are_numbers(values):
        return float(max(values))
    import numpy

    found = numpy.maximum.reduce(values)
    return float(found) if found.ndim == 0 else found


def _are_numbers(values: Sequence[Any]) -> bool:
    """False of bootstrap draws: without them a report does not load numpy."""
    return all(isinstance(value, int | float) and math.isfinite(value) for value in values)


_POOLED = {"geometric-mean": _geometric, "maximum": _maximum, "mean": _mean}


def _words(select: Place) -> str:
    return ", ".join(f"{axis} {value}" for axis, value in select.items()) or "any place"
