"""Figures of a search: objectives against each other with the front, or values over the search."""

import itertools
import math
from typing import Any

from nandlab.claims.quantity import Quantity
from nandlab.claims.schema import Reading
from nandlab.design_space.answered import Answered
from nandlab.design_space.metrics import Metric
from nandlab.design_space.search import Found
from nandlab.present.charts import Chart
from nandlab.present.scatter import COLOURS, PointClass, Scattered, scatter
from nandlab.present.spec import Column, FigureSpec

BREAKS = PointClass("breaks a constraint", "#94704a", 22, "cross")
BEATEN = PointClass("beaten by another")
FRONT = PointClass("no other beats it", COLOURS[0], 70, is_joined=True)
TAKEN = PointClass("recommended", COLOURS[1], 160, "diamond")
_NEAR = 3.0
"""The first figure leaves out what is so many times worse than the worst of the front."""

CLASSES = (BREAKS, BEATEN, FRONT, TAKEN)


def charts(found: Answered) -> list[Chart]:
    """A figure for each pair of objectives; of one objective, its value over the search."""
    objectives = found.question.objectives
    if not found.outcome.found:
        return []
    if len(objectives) == 1:
        return [_over_search(found, objectives[0])]
    pairs = list(itertools.combinations(objectives, 2))
    drawn = [_pair(found, x, y, is_near=True) for x, y in pairs]
    drawn += [_pair(found, x, y, is_near=False) for x, y in pairs]
    return [one for one in drawn if one is not None]


def _pair(found: Answered, x: Metric, y: Metric, *, is_near: bool) -> Chart | None:
    is_alone = len(found.question.objectives) == 2
    points: list[dict[str, Any]] = []
    for one in found.outcome.found:
        across, up = one.values[x.name], one.values[y.name]
        if not (math.isfinite(across.value) and math.isfinite(up.value)):
            continue
        kind = _class(found, one)
        has_bars = kind in (FRONT, TAKEN)
        points.append({
            "x": across.value, "y": up.value, "series": kind.name, "name": found.named(one),
            "x_low": across.found.low if has_bars else None,
            "x_high": across.found.high if has_bars else None,
            "low": up.found.low if has_bars else None,
            "high": up.found.high if has_bars else None,
            # The front of three objectives is no line in a plane of two.
            "is_joined": is_alone and has_bars,
        })  # fmt: skip
    if not points:
        return None
    near = [one for one in points if _is_near(one, points, x, y)] if is_near else points
    units = [next(one.values[metric.name].unit for one in found.outcome.found)
             for metric in (x, y)]  # fmt: skip
    title = f"{_capital(y.title)} against {x.title}"
    caption = (
        f"Each dot is a point. Better is: {_best(x)}; {_best(y)}. Bars are 95 % "
        "intervals over the repeats."
    )
    if len(near) < len(points):
        caption += f" {len(points) - len(near):,} points lie far outside."
    name = f"{'front' if is_near else 'points'}-{x.name}-{y.name}"
    spec = _spec(name, title if is_near else f"{title}, all points", caption, x)
    steps = "step-after" if x.is_least_best else "step-before"
    return scatter(near, spec, Scattered(x.title, units[0]), Scattered(y.title, units[1]),
                   CLASSES, steps)  # fmt: skip


def _is_near(point: dict[str, Any], points: list[dict[str, Any]], x: Metric, y: Metric) -> bool:
    """Whether a point is not much worse than the worst of the front in either direction."""
    front = [one for one in points if one["series"] in (FRONT.name, TAKEN.name)]
    for key, metric in (("x", x), ("y", y)):
        values = [one[key] for one in front]
        if values and metric.is_least_best and point[key] > max(values) * _NEAR:
            return False
        if values and not metric.is_least_best and point[key] < min(values) / _NEAR:
            return False
    return True


def _over_search(found: Answered, metric: Metric) -> Chart:
    """Each value at its place in the search, and the best that was known by then."""
    points: list[dict[str, Any]] = []
    best: float | None = None
    for one in found.outcome.found:
        value = one.values[metric.name].value
        if not math.isfinite(value):
            continue
        kind = _class(found, one)
        own = {"x": one.number, "y": value, "name": found.named(one)}
        is_better = best is None or (value < best if metric.is_least_best else value > best)
        if kind is not BREAKS and is_better:
            best = value
        shown = kind if kind in (BREAKS, TAKEN) else FRONT if best == value else BEATEN
        points.append({**own, "series": shown.name, "is_joined": shown in (FRONT, TAKEN)})
    unit = next((one.values[metric.name].unit for one in found.outcome.found), "")
    title = f"{_capital(metric.title)} of the points, in the order of the search"
    spec = _spec(f"search-{metric.name}", title, f"Better is: {_best(metric)}.", metric)
    y = Scattered(metric.title, unit)
    return scatter(points, spec, Scattered("points evaluated", ""), y, CLASSES)


def _class(found: Answered, one: Found) -> PointClass:
    taken = found.front.recommendation
    if taken is not None and one is taken.taken:
        return TAKEN
    if any(one is other for other in found.front.points):
        return FRONT
    return BEATEN if one.keeps(found.question.constraints) else BREAKS


def _best(metric: Metric) -> str:
    return f"{metric.title}, {'smaller' if metric.is_least_best else 'larger'}"


def _spec(identifier: str, title: str, caption: str, metric: Metric) -> FigureSpec:
    column = Column(metric.title, Quantity(metric.name), Reading("as run"))
    return FigureSpec(identifier, title, "x", column, caption=caption)


def _capital(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"
