"""Which points no other beats, which of them to take, and what that costs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from nandlab.claims.statistics import DIFFERENCE_LEAST, LEAST_REPLICATES, t_interval
from nandlab.design_space.metrics import Measured, Metric
from nandlab.design_space.search import Found, Question

LOGARITHMIC_FROM = 10.0
"""Objectives whose values on the front span such a factor are compared by their logarithms."""

RULE = (
    "Of the points that keep every constraint and that no other beats in all objectives, the "
    "recommended one lies nearest to the best value of every objective. Each objective counts from "
    "0, its best value on the front, to 1, its worst there. Those that span a factor of ten or "
    "more count by their logarithm."
)
"""How the recommendation is made, in words."""

_LARGE = 1e12


@dataclass(frozen=True)
class Recommendation:
    """The point to take; `apart` is false where measurements do not tell it from others."""

    taken: Found
    distance: float
    ties: tuple[Found, ...] = ()
    """Other points of the same distance, and of the same values."""
    overlapping: tuple[Found, ...] = ()
    """Points that the intervals do not tell apart from it in any objective."""
    uncertain: tuple[str, ...] = ()
    """Constraints whose bound lies inside the interval of the point."""
    has_intervals: bool = True
    """False with fewer than three repeats: differences are then not tested."""

    @property
    def is_decided(self) -> bool:
        """Whether tests tell it apart from all others, and it keeps the constraints for certain."""
        return self.has_intervals and not (self.ties or self.overlapping or self.uncertain)


@dataclass(frozen=True)
class Front:
    """The points that no other beats, nearest to the best values first."""

    points: tuple[Found, ...]
    distances: tuple[float, ...]
    keeping: int
    """Points that keep all constraints."""
    recommendation: Recommendation | None


def front_of(found: Sequence[Found], question: Question) -> Front:
    """The front of the points that keep all constraints, by their means."""
    keeping = [one for one in found if one.keeps(question.constraints)]
    best = unbeaten(keeping, question.objectives)
    distances = _distances(best, question.objectives)
    order = sorted(range(len(best)), key=lambda at: (distances[at], best[at].number))
    points = tuple(best[at] for at in order)
    ranked = tuple(distances[at] for at in order)
    if not points:
        return Front((), (), 0, None)
    return Front(points, ranked, len(keeping), _recommended(points, ranked, keeping, question))


def unbeaten(found: Sequence[Found], objectives: Sequence[Metric]) -> list[Found]:
    """Points for which no other is as good in all objectives and better in one."""
    numbers = [one.numbers(objectives) for one in found]
    return [
        one
        for one, own in zip(found, numbers, strict=True)
        if not any(_beats(other, own) for other in numbers)
    ]


def _beats(other: Sequence[float], own: Sequence[float]) -> bool:
    pairs = list(zip(other, own, strict=True))
    return all(left <= right for left, right in pairs) and any(
        left < right for left, right in pairs
    )


def _distances(front: Sequence[Found], objectives: Sequence[Metric]) -> list[float]:
    """Root of the mean square of what each objective is worse than the best on the front."""
    sums = [0.0] * len(front)
    for place, _ in enumerate(objectives):
        values = [_finite(one.numbers(objectives)[place]) for one in front]
        sizes = [abs(one) for one in values]
        if min(sizes, default=0.0) > 0 and max(sizes) >= LOGARITHMIC_FROM * min(sizes):
            # Less is better in `numbers`: a maximised metric is negative there.
            values = [math.copysign(1.0, one) * math.log(abs(one)) for one in values]
        least, most = min(values, default=0.0), max(values, default=0.0)
        for at, value in enumerate(values):
            sums[at] += ((value - least) / (most - least)) ** 2 if most > least else 0.0
    return [math.sqrt(one / max(1, len(objectives))) for one in sums]


def _recommended(
    points: Sequence[Found],
    distances: Sequence[float],
    keeping: Sequence[Found],
    question: Question,
) -> Recommendation:
    taken = points[0]
    ties = [one for one, at in zip(points[1:], distances[1:], strict=True)
            if math.isclose(at, distances[0], abs_tol=1e-12)]  # fmt: skip
    objectives = question.objectives
    own = [taken.values[one.name] for one in objectives]
    overlapping = [
        one
        for one in keeping
        if one is not taken
        and one not in ties
        and all(
            may_be_the_same(mine, one.values[metric.name])
            for mine, metric in zip(own, objectives, strict=True)
        )
    ]
    uncertain = [one.text for one in question.constraints
                 if not one.is_certain(taken.values[one.metric.name].found)]  # fmt: skip
    has_intervals = all(one.is_endless or one.found.n >= LEAST_REPLICATES for one in own)
    return Recommendation(taken, distances[0], tuple(ties), tuple(overlapping), tuple(uncertain),
                          has_intervals)  # fmt: skip


def may_be_the_same(first: Measured, second: Measured) -> bool:
    """Whether the repeats of two points allow the same value.

    Repeats of the same seed had the same random numbers, so what they have in common cancels: the
    interval is that of their differences. Other repeats are compared by whether intervals overlap.
    """
    left, right = first.found, second.found
    if left.estimate == right.estimate:
        return True
    slack = DIFFERENCE_LEAST * max(abs(left.estimate), abs(right.estimate))
    if first.repeats and first.repeats.keys() == second.repeats.keys():
        differences = (one - second.repeats[key] for key, one in first.repeats.items())
        found = t_interval(list(differences))
        return found.low is not None and found.high is not None and (
            found.low <= slack and found.high >= -slack)  # fmt: skip
    if left.low is None or left.high is None or right.low is None or right.high is None:
        return False
    return left.low <= right.high + slack and right.low <= left.high + slack


def change(of: Measured, against: Measured) -> float | None:
    """By which part one value is more than another; None where that is no number."""
    if not (math.isfinite(of.value) and math.isfinite(against.value)) or against.value == 0:
        return None
    return of.value / against.value - 1


def _finite(value: float) -> float:
    return value if math.isfinite(value) else math.copysign(_LARGE, value)
