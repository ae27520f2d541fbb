"""What every joint reading predicts for every cell, as a matrix."""

import ast
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy

from nandlab.claims.quantity import evaluated, parse
from nandlab.errors import NandlabError
from nandlab.readings.simulation import Job, Kept
from nandlab.readings.spec import Cell, Choice, Formula, Readings, alternatives, filled

_SEED = 1
"""Of the draw of a fractional design."""

LEAST_READINGS = 5
"""Readings that every option is in, where a product is drawn from."""

Options = Mapping[str, str]
"""Option by choice."""


@dataclass(frozen=True)
class Design:
    """Joint readings: `table` has a row each, with the number of the option of every choice."""

    choices: tuple[Choice, ...]
    table: Any
    product: int
    """Readings of the whole product; the table is a fraction of it where it has fewer rows."""
    shipped: Mapping[str, int]
    """The row of the reading that each study ships."""

    def words(self, row: int) -> dict[str, str]:
        """Option by choice."""
        numbers = zip(self.choices, self.table[row], strict=True)
        return {choice.name: choice.names[number] for choice, number in numbers}

    def distinct(self, names: Iterable[str]) -> tuple[list[Options], Any]:
        """What the readings choose for some choices, and which of these each reading chooses."""
        wanted = set(names)
        columns = [number for number, one in enumerate(self.choices) if one.name in wanted]
        _, first, inverse = numpy.unique(
            codes(self.table, columns), return_index=True, return_inverse=True
        )
        taken = [self.choices[column] for column in columns]
        pairs = (zip(taken, self.table[row, columns], strict=True) for row in first)
        return [{one.name: one.names[n] for one, n in pair} for pair in pairs], inverse


def codes(table: Any, columns: Sequence[int]) -> Any:
    """A number a row, the same for rows that agree in the columns."""
    found = numpy.zeros(len(table), dtype=numpy.int64)
    for column in columns:
        found = found * (int(table[:, column].max()) + 1) + table[:, column]
    return found


def design(studies: Sequence[Readings], most: int) -> Design:
    """The product of all choices, or a balanced draw of `most` of it.

    In a draw every option of a choice comes up equally often, as in a Latin hypercube, and at least
    `LEAST_READINGS` times, if `most` has to grow for it.

    Raises `NandlabError` if studies give choices of the same name other options.
    """
    choices: dict[str, Choice] = {}
    for study in studies:
        for one in study.choices:
            if choices.setdefault(one.name, one).options != one.options:
                raise NandlabError(
                    f"{study.study}: choice {one.name!r} has other options than in "
                    f"{studies[0].study}; a shared choice must be the same"
                )
    taken = tuple(choices.values())
    counts = [len(one.options) for one in taken]
    # What only another study leaves unsaid stands as that one ships it.
    own = [{one.name: one.shipped for one in study.choices} for study in studies]
    shipped = [[one.names.index(of.get(one.name, one.shipped)) for one in taken] for of in own]
    most = max(most, LEAST_READINGS * max(counts))
    if math.prod(counts) <= most:
        table = numpy.array(list(itertools.product(*map(range, counts))), dtype=numpy.int16)
    else:
        draw = numpy.random.default_rng(_SEED)
        columns = [draw.permutation(numpy.arange(most) % count) for count in counts]
        table = numpy.vstack([shipped, numpy.stack(columns, axis=1)]).astype(numpy.int16)
        table = numpy.unique(table, axis=0)
        # A draw repeats readings, more of them the larger a part of the product it is.
        while _least_count(table, counts) < LEAST_READINGS:
            more = draw.integers(counts, size=(most, len(counts)))
            table = numpy.unique(numpy.vstack([table, more]).astype(numpy.int16), axis=0)
    rows = [int((table == row).all(axis=1).argmax()) for row in shipped]
    names = (study.study for study in studies)
    return Design(taken, table, math.prod(counts), dict(zip(names, rows, strict=True)))


def _least_count(table: Any, options: Sequence[int]) -> int:
    """The readings of the option that has fewest."""
    columns = zip(table.T, options, strict=True)
    return int(min(numpy.bincount(one, minlength=count).min() for one, count in columns))


def needed(studies: Sequence[Readings], readings: Design) -> list[Job]:
    """The jobs that the readings need."""
    return [
        Job(study, runs, tuple(options[name] for name in runs.choices))
        for study in studies
        for runs in study.runs
        for options in readings.distinct(runs.choices)[0]
    ]


class Predictor:
    """Evaluates formulas under readings; a formula is worked out once for all that agree in it."""

    def __init__(
        self, studies: Sequence[Readings], design: Design, kept: Mapping[Job, Kept]
    ) -> None:
        self._studies = {one.study: one for one in studies}
        self._design = design
        self._distinct: dict[frozenset[str], tuple[list[Options], Any]] = {}
        self._rows = {
            (job.readings.study, job.runs.identifier, job.options): [
                ({axis: _text(value) for axis, value in place.items()}, values)
                for place, values in one.means
            ]
            for job, one in kept.items()
        }
        self._known: dict[tuple[object, ...], float] = {}

    def column(self, study: str, formula: Formula) -> Any:
        """The quantity under every reading."""
        own = self._studies[study]
        names = self.choices(study, formula)
        if (key := frozenset(names)) not in self._distinct:
            self._distinct[key] = self._design.distinct(names)
        distinct, inverse = self._distinct[key]
        return numpy.array([self._value(own, formula, one) for one in distinct])[inverse]

    def choices(self, study: str, formula: Formula) -> list[str]:
        """Choices that a quantity depends on."""
        own = self._studies[study]
        names = {name for at in formula.sides for one in own.runs_at(at) for name in one.choices}
        names |= {one.name for one in own.choices if one.words & formula.words}
        return sorted(names)

    def cell(self, cell: Cell) -> Any:
        """The prediction of every reading. A bound that a reading keeps counts as met exactly."""
        found = self.column(cell.study, cell.formula)
        if not cell.hedge:
            return found
        (choice,) = (one for one in self._studies[cell.study].choices if cell.hedge in one.words)
        distinct, inverse = self._design.distinct([choice.name])
        taken = [choice.options[one[choice.name]]["words"][cell.hedge] for one in distinct]
        is_bound = numpy.array([word == "bound" for word in taken])[inverse]
        sign = -1 if cell.relation == "at_most" else 1
        is_kept = is_bound & (sign * (found - cell.published) >= 0)
        return numpy.where(is_kept, cell.published, found)

    def _value(self, study: Readings, formula: Formula, options: Options) -> float:
        words: dict[str, str] = {}
        for one in study.choices:
            if one.name in options:
                words |= one.options[options[one.name]].get("words", {})
        found = [self._pooled(study, formula, side, options, words) for side in formula.sides]
        if len(found) == 1:
            return found[0]
        if formula.is_difference:
            return found[0] - found[1]
        return found[0] / found[1] if found[1] else math.inf

    def _pooled(
        self, study: Readings, formula: Formula, side: Mapping[str, Any],
        options: Options, words: Mapping[str, str],
    ) -> float:  # fmt: skip
        at = {axis: [_text(one) for one in alternatives(filled(value, words))]
              for axis, value in side.items()}  # fmt: skip
        # As in claims: what lacks the metric of the reading takes the plain one.
        plain = dict.fromkeys(words, "")
        metrics = [filled(formula.metric, one) for one in (words, plain)]
        places = [
            (study.study, runs.identifier, tuple(options[one] for one in runs.choices))
            for runs in study.runs_at(side)
        ]
        how = filled(formula.how, words)
        key = (tuple(places), repr(at), tuple(metrics), how)
        if key not in self._known:
            found = [
                _evaluated(metrics, values)
                for one in places
                for place, values in self._rows[one]
                if all(place.get(axis, "-") in allowed for axis, allowed in at.items())
            ]
            if not found:
                raise NandlabError(f"{study.study}: nothing was run at {dict(side)}")
            self._known[key] = _POOLED[how](found)
        return self._known[key]


def _evaluated(metrics: Sequence[str], values: Mapping[str, float]) -> float:
    """The first of two expressions of which all metrics are there."""
    for metric in metrics:
        if metric.strip():
            tree, names = _parsed(metric)
            if names <= values.keys():
                return float(evaluated(tree, values))
    raise NandlabError(f"no run has the metrics of {metrics[0]!r}")


@cache
def _parsed(metric: str) -> tuple[ast.expr, frozenset[str]]:
    tree = parse(metric)
    return tree, frozenset(one.id for one in ast.walk(tree) if isinstance(one, ast.Name))


def _text(value: Any) -> str:
    """A value of an axis: 4, 4.0 and "4" are the same; `-` is no value."""
    if value is None:
        return "-"
    return f"{value:g}" if isinstance(value, float | int) else str(value)


def _geometric(values: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values)) if min(values) > 0 else 0.0


_POOLED: Mapping[str, Callable[[Sequence[float]], float]] = {
    "geometric-mean": _geometric,
    "maximum": max,
    "mean": lambda values: sum(values) / len(values),
    "sum": sum,
}
