"""What every joint reading predicts for every cell, as a matrix."""

import ast
import itertools
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from nandlab.claims.quantity import evaluated, parse
from nandlab.errors import NandlabError
from nandlab.readings.simulation import Job, Rows
from nandlab.readings.spec import Cell, Choice, Formula, Readings, alternatives, filled

_SEED = 1
"""Of the draw of a fractional design."""


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

    def columns(self, names: Iterable[str]) -> list[int]:
        """Columns of choices, in the order of the table."""
        wanted = set(names)
        return [column for column, one in enumerate(self.choices) if one.name in wanted]


def design(studies: Sequence[Readings], most: int) -> Design:
    """The product of all choices, or a balanced draw of `most` of it.

    In a draw every option of a choice comes up equally often, as in a Latin hypercube.

    Raises `NandlabError` if studies give choices of the same name other options.
    """
    choices: dict[str, Choice] = {}
    for one in studies:
        for choice in one.choices:
            known = choices.setdefault(choice.name, choice)
            if known.options != choice.options:
                raise NandlabError(
                    f"{one.study}: choice {choice.name!r} has other options than in "
                    f"{studies[0].study}; a shared choice must be the same"
                )
    taken = tuple(choices.values())
    counts = [len(one.options) for one in taken]
    product = math.prod(counts)
    first = numpy.array([_shipped(taken, one) for one in studies], dtype=numpy.int16)
    if product <= most:
        table = numpy.array(list(itertools.product(*map(range, counts))), dtype=numpy.int16)
    else:
        draw = numpy.random.default_rng(_SEED)
        drawn = [draw.permutation(numpy.arange(most) % count) for count in counts]
        drawn_table = numpy.stack(drawn, axis=1).astype(numpy.int16)
        table = numpy.unique(numpy.vstack([first, drawn_table]), axis=0)
    rows = {one.study: int(numpy.flatnonzero((table == row).all(axis=1))[0])
            for one, row in zip(studies, first, strict=True)}  # fmt: skip
    return Design(taken, table, product, rows)


def _shipped(choices: Sequence[Choice], study: Readings) -> list[int]:
    """What a study ships; what only another study leaves unsaid stands as that one ships it."""
    own = {one.name: one.shipped for one in study.choices}
    return [one.names.index(own.get(one.name, one.shipped)) for one in choices]


def needed(studies: Sequence[Readings], readings: Design) -> dict[str, list[Job]]:
    """The jobs that the readings need, by study."""
    found: dict[str, list[Job]] = {}
    for study in studies:
        jobs = found.setdefault(study.study, [])
        for runs in study.runs:
            columns = readings.columns(runs.choices)
            by_name = [readings.choices[column].name for column in columns]
            for numbers in numpy.unique(readings.table[:, columns], axis=0):
                names = {
                    name: readings.choices[column].names[number]
                    for name, column, number in zip(by_name, columns, numbers, strict=True)
                }
                jobs.append(Job(study, runs, tuple(names[one] for one in runs.choices)))
    return found


class Predictor:
    """Evaluates formulas under readings; a formula is worked out once for all that agree in it."""

    def __init__(self, studies: Sequence[Readings], design: Design, rows: Mapping[Job, Rows]):
        self.studies = {one.study: one for one in studies}
        self.design = design
        self._rows = {(j.readings.study, j.runs.identifier, j.options): r for j, r in rows.items()}

    def column(self, study: str, formula: Formula) -> Any:
        """The quantity under every reading."""
        own, table = self.studies[study], self.design.table
        runs = {one.identifier: one for side in formula.sides for one in own.runs_at(side)}
        names = {name for one in runs.values() for name in one.choices}
        names |= {one.name for one in own.choices if one.words & formula.words}
        columns = self.design.columns(names)
        rows, inverse = numpy.unique(table[:, columns], axis=0, return_inverse=True)
        values = [self._value(own, formula, self._options(columns, row)) for row in rows]
        return numpy.asarray(values)[inverse.reshape(-1)]

    def _options(self, columns: Sequence[int], numbers: Sequence[int]) -> dict[str, str]:
        taken = (self.design.choices[column] for column in columns)
        return {one.name: one.names[number] for one, number in zip(taken, numbers, strict=True)}

    def _value(self, study: Readings, formula: Formula, options: Mapping[str, str]) -> float:
        words: dict[str, str] = {}
        for choice in study.choices:
            if choice.name in options:
                words |= choice.options[options[choice.name]].get("words", {})
        found = [self._pooled(study, formula, side, options, words) for side in formula.sides]
        if len(found) == 1:
            return found[0]
        if formula.is_difference:
            return found[0] - found[1]
        return found[0] / found[1] if found[1] else math.inf

    def _pooled(
        self, study: Readings, formula: Formula, side: Mapping[str, Any],
        options: Mapping[str, str], words: Mapping[str, str],
    ) -> float:  # fmt: skip
        at = {axis: _texts(filled(value, words)) for axis, value in side.items()}
        tree = _tree(filled(formula.metric, words))
        found = []
        for runs in study.runs_at(side):
            key = (study.study, runs.identifier, tuple(options[one] for one in runs.choices))
            for place, metrics in self._rows[key]:
                if not all(_text(place.get(axis)) in allowed for axis, allowed in at.items()):
                    continue
                if (value := _evaluated(tree, metrics)) is None:
                    # As in claims: what lacks the metric of the reading takes the plain one.
                    plain = filled(formula.metric, dict.fromkeys(words, "")).strip()
                    value = _evaluated(_tree(plain), metrics) if plain else None
                if value is None:
                    raise NandlabError(f"{study.study}: no run has {formula.metric!r}")
                found.append(value)
        if not found:
            raise NandlabError(f"{study.study}: nothing was run at {dict(side)}")
        return _POOLED[filled(formula.how, words)](found)


def predictions(predictor: Predictor, cells: Sequence[Cell]) -> Any:
    """Readings by cells. A bound that a reading keeps counts as met exactly."""
    columns = []
    for cell in cells:
        found = predictor.column(cell.study, cell.formula)
        if cell.hedge:
            bound = _bounds(predictor, cell)
            is_kept = found <= cell.published if cell.relation == "at_most" else (
                found >= cell.published
            )  # fmt: skip
            found = numpy.where(bound & is_kept, cell.published, found)
        columns.append(found)
    return numpy.stack(columns, axis=1)


def _bounds(predictor: Predictor, cell: Cell) -> Any:
    """Where a reading takes the published number as a bound."""
    design = predictor.design
    (word,) = re.findall(r"\{(\w+)\}", cell.hedge)
    (column,) = [i for i, one in enumerate(design.choices) if word in one.words]
    kept = [one["words"][word] == "bound" for one in design.choices[column].options.values()]
    return numpy.asarray(kept)[design.table[:, column]]


def _tree(metric: str) -> ast.expr:
    return _TREES.setdefault(metric, parse(metric))


_TREES: dict[str, ast.expr] = {}


def _evaluated(tree: ast.expr, metrics: Mapping[str, float]) -> float | None:
    """The value; None if a metric is missing."""
    try:
        return float(evaluated(tree, metrics))
    except KeyError:
        return None


def _texts(value: Any) -> frozenset[str]:
    return frozenset(_text(one) for one in alternatives(value))


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
