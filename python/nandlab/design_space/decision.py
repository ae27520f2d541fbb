"""Tables of a search: the front to decide from, all points, and what cannot be."""

from collections.abc import Sequence
from typing import Any

from nandlab.design_space.answered import Answered
from nandlab.design_space.front import Recommendation, change
from nandlab.design_space.metrics import Measured
from nandlab.design_space.search import Found
from nandlab.design_space.words import text_of
from nandlab.present.tables import CHANGE, ShownTable
from nandlab.present.units import estimate_text, number, scale_of

POINTS_CSV = "points.csv"
"""File with all points for other programs."""

FRONT_ROWS = 16
"""Points of the front that the first table has."""


def tables(found: Answered) -> list[ShownTable]:
    """The front beside the recommended point, all points, and what cannot be."""
    shown = [_front_table(found), _all_points(found), _refused(found)]
    return [one for one in shown if one.rows]


def with_interval(value: Measured) -> str:
    """A value with half the width of its 95 % interval, where that is more than nothing."""
    low, high = value.found.low, value.found.high
    if value.is_endless or low is None or high is None or low == high:
        return text_of(value)
    scale = scale_of([value.value], value.unit)
    half = (high - low) / 2 / scale.size
    return f"{number(value.value / scale.size)} ± {number(half, 2)} {scale.unit}".strip()


def _front_table(found: Answered) -> ShownTable:
    """A row for each point of the front, the recommended one first."""
    taken = found.front.recommendation
    shown = found.front.points[:FRONT_ROWS]
    same = _shared(found, shown)
    objectives = found.question.objectives
    rows = []
    for one in shown:
        own = {key: value for key, value in one.point.choices.items()
               if key in found.axes and key not in same}  # fmt: skip
        word = _word(one, taken)
        cells = [f"#{one.number}{word and ', '}{word}", found.space.label(own) or "-"]
        for metric in found.question.metrics:
            cells.append(with_interval(one.values[metric.name]))
            if metric in objectives:
                cells.append(_against(one, taken, metric.name))
        rows.append(tuple(cells))
    columns = ["point", "choices"]
    for metric in found.question.metrics:
        columns += [_column(found, metric.name), *(["change"] if metric in objectives else [])]
    note = (
        "Nearest to the best values first. Values are means over the repeats, with half the width "
        "of their 95 % intervals. Change: against the recommended point."
    )
    if same:
        note += f" All of these: {found.space.label(same)}."
    if (left := len(found.front.points) - len(shown)) > 0:
        note += f" {left:,} more are in {POINTS_CSV}."
    title = "Points that no other beats"
    return ShownTable("front", title, tuple(columns), tuple(rows), 2, note)


def _shared(found: Answered, points: Sequence[Found]) -> dict[str, Any]:
    """Choices of searched axes that all of several points have in common."""
    if len(points) < 2:
        return {}
    first = points[0].point.choices
    return {key: value for key, value in first.items()
            if key in found.axes
            and all(one.point.choices.get(key) == value for one in points)}  # fmt: skip


def _against(one: Found, taken: Recommendation | None, name: str) -> str:
    """By how much a point is more or less than the recommended one."""
    if taken is None or one is taken.taken:
        return ""
    by = change(one.values[name], taken.taken.values[name])
    return "" if by is None else estimate_text(by, CHANGE)


def _word(one: Found, taken: Recommendation | None) -> str:
    if taken is not None and one is taken.taken:
        return "recommended"
    others = () if taken is None else (*taken.ties, *taken.overlapping)
    return "not told apart" if any(one is other for other in others) else ""


def _column(found: Answered, name: str) -> str:
    """The title of a metric with the bounds that it has to keep."""
    metric = next(one for one in found.question.metrics if one.name == name)
    bounds = [f"{one.comparison} {one.text.partition(one.comparison)[2].strip()}"
              for one in found.question.constraints if one.metric.name == name]  # fmt: skip
    return f"{metric.title} ({', '.join(bounds)})" if bounds else metric.title


def _all_points(found: Answered) -> ShownTable:
    metrics = found.question.metrics
    on_front = {one.number for one in found.front.points}
    rows = []
    for one in found.outcome.found:
        keeps = one.keeps(found.question.constraints)
        word = "on the front" if one.number in on_front else "" if keeps else "breaks a constraint"
        values = [with_interval(one.values[metric.name]) for metric in metrics]
        rows.append((f"#{one.number}", found.label(one), *values, word, one.point.key))
    columns = ["point", "choices", *(metric.title for metric in metrics), "", "folder in points/"]
    title = "All points, in the order in which they were tried"
    return ShownTable("points", title, tuple(columns), tuple(rows), 2)


def _refused(found: Answered) -> ShownTable:
    rows = [(why, found.outcome.examples[why], f"{count:,}")
            for why, count in found.outcome.refused.most_common()]  # fmt: skip
    title = "Points that cannot be"
    return ShownTable("refused", title, ("first reason of its kind", "such as", "points"),
                      tuple(rows), 2)  # fmt: skip
