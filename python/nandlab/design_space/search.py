"""The search itself: asks for points in batches, evaluates them, and tells what they are worth."""

import math
import random
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from nandlab.cells import OpenCluster
from nandlab.design_space.evaluate import Evaluated, evaluate
from nandlab.design_space.metrics import Constraint, Measured, Metric, MissingMetricError, measured
from nandlab.design_space.points import Point, Points
from nandlab.design_space.space import Axis, Choices, Space, shown
from nandlab.engine import Progress
from nandlab.errors import NandlabError

BATCH = 8
"""Points that are asked for before any of them is told; the number of jobs changes nothing."""

_REFUSED_MAX = 20
"""A search ends when so many points for each run that was asked for were refused."""

_OTHERS = 24
"""Points that are tried with a choice before it is called impossible."""

_LARGE = 1e12
"""What a value without an end counts as for the estimator, which takes finite ones."""


class Asking(Protocol):
    """What proposes points."""

    def ask(self) -> Choices | None:
        """The next point; None if there is none."""

    def tell(self, choices: Choices, values: Sequence[float], broken: dict[str, float]) -> None:
        """What a point is worth."""

    @property
    def is_exhausted(self) -> bool:
        """Whether every point of the space was asked for; false where nobody can count them."""


@dataclass(frozen=True)
class Question:
    """What is asked of a space."""

    objectives: tuple[Metric, ...]
    constraints: tuple[Constraint, ...]
    runs: int
    host_bytes_a_day: float | None = None

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Every metric once, objectives first."""
        bounds = (one.metric for one in self.constraints)
        return tuple({one.name: one for one in (*self.objectives, *bounds)}.values())


@dataclass(frozen=True)
class Found:
    """A point that was evaluated, with its metrics by name."""

    number: int
    point: Point
    values: Mapping[str, Measured]

    def numbers(self, objectives: Sequence[Metric]) -> tuple[float, ...]:
        """The objectives so that less is better."""
        values = (self.values[one.name].value for one in objectives)
        return tuple(value if metric.is_least_best else -value
                     for value, metric in zip(values, objectives, strict=True))  # fmt: skip

    def keeps(self, constraints: Sequence[Constraint]) -> bool:
        """Whether the means keep all constraints."""
        return all(one.is_kept(self.values[one.metric.name].value) for one in constraints)


@dataclass
class Outcome:
    """What a search found, in the order of the asking."""

    found: list[Found] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    kinds: dict[str, str] = field(default_factory=dict)
    """The first reason of each kind."""
    examples: dict[str, str] = field(default_factory=dict)
    """A point for each reason."""
    carried_out: int = 0
    """Points that were run now; the others were there."""
    same: int = 0
    """Points that are the same study as one before."""
    is_exhausted: bool = False
    """Every point of the space was evaluated or cannot be."""
    missing: MissingMetricError | None = None
    """The first metric that the results of a point lack."""


def check_axes(space: Space, points: Points, seed: int) -> None:
    """Refuses a choice that is in no stack that can be, before anything is run.

    A choice is tried beside the first ones of the other axes, and then beside drawn ones. Raises
    `NandlabError` with file, line and what the engine says of it.
    """
    generator = random.Random(f"check {seed}")
    first = space.completed({axis.key: axis.values[0] for axis in space.axes}, generator)
    known: dict[str, str] = {}
    for axis in space.axes:
        if axis.is_range:
            # A range is a bound: its ends may be more than some stacks, or all, can have.
            ends = [axis.values[0], axis.values[-1], axis.values[len(axis.values) // 2]]
            reasons = [_refusal(space, points, first, axis, one, generator, known) for one in ends]
            if all(reasons):
                raise space.error(axis, f"no point of this range can be: {reasons[0]}")
            continue
        whys = [_refusal(space, points, first, axis, one, generator, known) for one in axis.values]
        for value, why in zip(axis.values, whys, strict=True):
            if why:
                raise _blamed(space, axis, value, why, is_alone=len(set(whys)) > 1)


def _blamed(space: Space, axis: Axis, value: object, why: str, *, is_alone: bool) -> NandlabError:
    """The error of a choice that is in no point: of it, of another key, or of the base study."""
    # The engine names first what it does not know: the key of another axis, perhaps.
    named = re.search("`([^`]+)`", why)
    for other in space.axes:
        if why.startswith(f"{other.key}: "):
            return space.error(other, why.removeprefix(f"{other.key}: "))
        if named and other.key.rpartition(".")[2] == named[1]:
            return space.error(other, why)
    if not is_alone and (not named or named[1] != shown(value)):
        return NandlabError(f"{space.path}: no point can be: {why}")
    return space.error(axis, f"no point with {shown(value)} can be: {why}")


def _refusal(
    space: Space, points: Points, first: Choices, axis: Axis, value: object,
    generator: random.Random, known: dict[str, str],
) -> str:  # fmt: skip
    """Why a choice is in no point; empty if it is in one."""
    from nandlab.design_space.sampler import identity

    key = axis.key
    needed = {one: ones[0] for one, ones in axis.when.items()}
    reasons = []
    for number in range(_OTHERS):
        others = first if number == 0 else {}
        tried = space.completed({**others, **needed, key: value}, generator)
        if key not in tried:
            continue
        name = identity(tried)
        if name not in known:
            known[name] = points.point(tried).refusal
        if not known[name]:
            return ""
        reasons.append(known[name])
    return reasons[0] if reasons else "its condition is never met"


def search(
    space: Space,
    question: Question,
    asking: Asking,
    points: Points,
    jobs: int,
    progress: Progress,
    cluster: OpenCluster | None = None,
) -> Outcome:
    """Evaluates points until as many as asked for are known, or none is left.

    Points of earlier calls are taken from the folder and count like others, so that a search that
    was stopped goes on, and the same call gives the same answer again.
    """
    outcome = Outcome()
    by_key: dict[str, Found | str] = {}
    while len(outcome.found) < question.runs:
        batch = _batch(space, question, asking, points, outcome, by_key)
        if not batch:
            break
        new = [one for one in batch if one.key not in by_key]
        outcome.carried_out += sum(not points.is_finished(one.key) for one in new)
        done = len(outcome.found)

        def told(at: int, _total: int, label: str, done: int = done) -> None:
            progress(done + at, question.runs, label)

        for one in evaluate(new, points, jobs, told, cluster):
            _take(one, question, asking, outcome, by_key)
        progress(len(outcome.found), question.runs, "")
        if outcome.missing is not None and not outcome.found:
            # No point of a whole batch has it: the metric is wrong, not the points.
            raise outcome.missing
        if outcome.refused.total() > _REFUSED_MAX * question.runs:
            break
    # What was asked for was evaluated or refused by now, whatever ended the loop.
    outcome.is_exhausted = asking.is_exhausted
    return outcome


def _batch(
    space: Space,
    question: Question,
    asking: Asking,
    points: Points,
    outcome: Outcome,
    by_key: dict[str, Found | str],
) -> list[Point]:
    """The next points to evaluate; those that cannot be, or are known, are told at once."""
    wanted = min(BATCH, question.runs - len(outcome.found))
    batch: list[Point] = []
    limit = _REFUSED_MAX * question.runs
    while len(batch) < wanted and outcome.refused.total() + outcome.same <= limit:
        choices = asking.ask()
        if choices is None:
            break
        point = points.point(choices)
        if point.refusal:
            _refuse(point, point.refusal, question, asking, outcome)
        elif (known := by_key.get(point.key)) is not None:
            # Another choice, the same study: an option that means nothing here.
            outcome.same += 1
            if isinstance(known, Found):
                _tell(choices, known, question, asking)
            else:
                _refuse(point, known, question, asking, outcome)
        elif point.key in (one.key for one in batch):
            outcome.same += 1
            asking.tell(choices, *_worst(question, outcome))
        else:
            batch.append(point)
    return batch


def _take(
    one: Evaluated,
    question: Question,
    asking: Asking,
    outcome: Outcome,
    by_key: dict[str, Found | str],
) -> None:
    """Measures a point and tells what it is worth."""
    if one.run is None:
        by_key[one.point.key] = one.refusal
        _refuse(one.point, one.refusal, question, asking, outcome)
        return
    values = {}
    for metric in question.metrics:
        try:
            values[metric.name] = measured(one.run, metric, question.host_bytes_a_day)
        except MissingMetricError as error:
            outcome.missing = outcome.missing or error
            by_key[one.point.key] = str(error)
            _refuse(one.point, str(error).partition(":")[0] + ": not measured", question, asking,
                    outcome)  # fmt: skip
            return
    found = Found(len(outcome.found) + 1, one.point, values)
    outcome.found.append(found)
    by_key[one.point.key] = found
    _tell(one.point.choices, found, question, asking)


def _tell(choices: Choices, found: Found, question: Question, asking: Asking) -> None:
    values = [_finite(found.values[one.name].value) for one in question.objectives]
    asking.tell(choices, values, {
        one.text: one.excess(_finite(found.values[one.metric.name].value))
        for one in question.constraints
    })  # fmt: skip


def _refuse(point: Point, why: str, question: Question, asking: Asking, outcome: Outcome) -> None:
    # Reasons of a kind differ in their numbers, and in the run that they name before the last
    # colon: the first stands for all of them.
    kind = re.sub(r"\d[\d,.]*", "N", why.rpartition(": ")[2])
    told = outcome.kinds.setdefault(kind, why)
    outcome.refused[told] += 1
    outcome.examples.setdefault(told, point.label)
    asking.tell(point.choices, *_worst(question, outcome))


def _worst(question: Question, outcome: Outcome) -> tuple[list[float], dict[str, float]]:
    """What a point that cannot be is told as: the worst known values, and a broken constraint."""
    values = []
    for metric in question.objectives:
        known = [_finite(one.values[metric.name].value) for one in outcome.found]
        worst = max if metric.is_least_best else min
        values.append(worst(known) if known else 0.0)
    return values, {"it can be": 1.0, **{one.text: 1.0 for one in question.constraints}}


def _finite(value: float) -> float:
    return value if math.isfinite(value) else math.copysign(_LARGE, value)
