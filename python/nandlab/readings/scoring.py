"""Compares what readings predict with a reference: level, shape, orders, trust."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy

from nandlab.claims.statistics import CERTAINTY, DIFFERENCE_LEAST
from nandlab.readings.prediction import codes
from nandlab.readings.spec import Cell

NOISE = 0.05
"""Readings whose predictions differ by less count as one: what repeats of a test differ by."""

TOLERANCE = 0.1
"""A printed cell that no reading comes this near to contradicts every reading."""

_FARTHEST = math.log(10)
"""A cell that is off by more than a factor of 10 counts as off by that."""

LEAST = 1e-300
"""Stands for what is not positive where a logarithm is taken."""

_ALIKE = 1e-9
"""Logarithms this near are the same."""

_SEED = 1
_ROWS_MAX = 4_000
"""Readings among which shuffled references are searched."""

Matrix = Any
"""An array of numbers."""


@dataclass(frozen=True)
class Scores:
    """Predictions of all readings beside the reference. Every study counts the same."""

    cells: tuple[Cell, ...]
    predicted: Matrix

    @cached_property
    def weights(self) -> Matrix:
        """Weights of the cells by their certainty; those of all studies sum to the same."""
        raw = numpy.array([one.weight for one in self.cells])
        studies = numpy.array([one.study for one in self.cells])
        for study in set(studies):
            raw[studies == study] /= raw[studies == study].sum()
        weights: Matrix = raw / len(set(studies))
        return weights

    @cached_property
    def published(self) -> Matrix:
        """Logarithms of the published numbers."""
        return numpy.log([one.published for one in self.cells])

    @cached_property
    def logarithms(self) -> Matrix:
        """Logarithms of the predictions, no farther from the published numbers than counts.

        A prediction that is not positive is as far below as counts.
        """
        found = numpy.log(numpy.maximum(self.predicted, LEAST))
        return numpy.clip(found, self.published - _FARTHEST, self.published + _FARTHEST)

    @cached_property
    def residuals(self) -> Matrix:
        """Log ratios of predicted and published, readings by cells."""
        return self.logarithms - self.published

    @cached_property
    def distances(self) -> Matrix:
        """How far predicted and published are apart, readings by cells."""
        return numpy.abs(self.residuals)

    @cached_property
    def level(self) -> Matrix:
        """Weighted mean of the absolute log ratios, a reading."""
        return self.error(range(len(self.cells)))

    def error(self, cells: Sequence[int]) -> Matrix:
        """The same over some of the cells; each choice of cells is worked out once."""
        wanted = list(cells)
        cache: dict[tuple[int, ...], Matrix] = self.__dict__.setdefault("_errors", {})
        if (key := tuple(wanted)) not in cache:
            weights = self.weights[wanted]
            cache[key] = self.distances[:, wanted] @ (weights / weights.sum())
        return cache[key]

    @cached_property
    def shape(self) -> Matrix:
        """As `level`, after one common scale of each study is taken out."""
        total = numpy.zeros(len(self.residuals))
        for wanted in self.groups("study").values():
            weights = self.weights[wanted]
            own = self.residuals[:, wanted]
            scale = own @ (weights / weights.sum())
            total += numpy.abs(own - scale[:, None]) @ weights
        return total

    @cached_property
    def taus(self) -> Mapping[str, Matrix]:
        """Kendall's tau of each published order, a reading: 1 the same order, -1 the reverse."""
        return {name: self._tau(wanted) for name, wanted in self.orders.items()}

    @cached_property
    def tau(self) -> Matrix:
        """The mean of all taus; not a number without an order."""
        if not self.taus:
            return numpy.full(len(self.predicted), math.nan)
        found: Matrix = numpy.mean(list(self.taus.values()), axis=0)
        return found

    @cached_property
    def orders(self) -> dict[str, list[int]]:
        """Cells of each order."""
        found: dict[str, list[int]] = {}
        for number, cell in enumerate(self.cells):
            if cell.order is not None:
                found.setdefault(f"{cell.study}: {cell.order[0]}", []).append(number)
        return {name: wanted for name, wanted in found.items() if len(wanted) > 1}

    def groups(self, *by: str) -> dict[Any, list[int]]:
        """Numbers of the cells by attributes, such as `study` and `group`."""
        found: dict[Any, list[int]] = {}
        for number, cell in enumerate(self.cells):
            found.setdefault(tuple(getattr(cell, one) for one in by), []).append(number)
        return found

    def distance(self, row: int, others: Sequence[int] | Matrix) -> Matrix:
        """Weighted mean of how far the predictions of readings lie from those of one."""
        found: Matrix = numpy.abs(self.logarithms[others] - self.logarithms[row]) @ self.weights
        return found

    def leading(self, ranked: Sequence[int] | Matrix, count: int) -> list[int]:
        """The first `count` readings of a ranking that are no nearer to each other than noise."""
        found: list[int] = []
        for row in ranked:
            if not found or self.distance(row, found).min() > NOISE:
                found.append(int(row))
            if len(found) == count:
                break
        return found

    def tolerance(self, cell: int) -> float:
        """How far a prediction may be from a cell, as a logarithm."""
        return math.log1p(TOLERANCE * CERTAINTY[self.cells[cell].certainty])

    def against_every_reading(self) -> list[tuple[int, int]]:
        """Cells to which no reading comes near, with the reading that comes nearest."""
        found = []
        for number in range(len(self.cells)):
            nearest = int(self.distances[:, number].argmin())
            if self.distances[nearest, number] > self.tolerance(number):
                found.append((number, nearest))
        return found

    def left_out(self, rows: Matrix | None = None) -> dict[str, tuple[int, float]]:
        """The best reading of all other cells, and its error where it was not chosen.

        `rows` are the readings that may be chosen, all if None.
        What is left out is a study, or, of a single study, a group of cells. What the other cells
        do not depend on is chosen by those that are left out.
        """
        by = "study" if len(self.groups("study")) > 1 else "group"
        taken = numpy.arange(len(self.predicted)) if rows is None else numpy.asarray(rows)
        found = {}
        for (name,), wanted in self.groups(by).items():
            others = [number for number in range(len(self.cells)) if number not in set(wanted)]
            if others:
                own = self.logarithms[taken][:, others]
                apart = numpy.abs(own - own[self.error(others)[taken].argmin()]).max(axis=1)
                errors = numpy.where(apart < _ALIKE, self.error(wanted)[taken], math.inf)
                found[name] = int(taken[errors.argmin()]), float(errors.min())
        return found

    def shuffled(self, draws: int) -> tuple[Matrix, float] | None:
        """Least errors against shuffled references, and the least against the true one.

        Cells of a stratum exchange their published numbers. None if fewer than 20 references can
        be made so. Where there are many readings, both are searched among a draw of them.
        """
        strata = self.groups("study", "stratum")
        if math.prod(float(math.factorial(len(one))) for one in strata.values()) < 20:
            return None
        draw = numpy.random.default_rng(_SEED)
        # Drawn: every nth row of a product would hold some options fixed.
        own = self.logarithms[draw.permutation(len(self.predicted))[:_ROWS_MAX]]
        least = []
        for number in range(draws + 1):
            other = self.published.copy()
            for wanted in strata.values() if number else ():
                other[wanted] = other[draw.permutation(wanted)]
            apart = numpy.minimum(numpy.abs(own - other), _FARTHEST)
            least.append(float((apart @ self.weights).min()))
        return numpy.array(least[1:]), least[0]

    def found_again(self, draws: int, *, noise: float = NOISE) -> int:
        """Of references made from a hidden reading with noise, how many give it back.

        It is found if it is among the first three readings, or no farther from them than noise.
        """
        draw, found = numpy.random.default_rng(_SEED), 0
        for _ in range(draws):
            hidden = int(draw.integers(len(self.predicted)))
            reference = self.logarithms[hidden] + draw.normal(0, noise, len(self.cells))
            ranked = numpy.argsort(numpy.abs(self.logarithms - reference) @ self.weights)
            found += bool(self.distance(hidden, self.leading(ranked, 3)).min() <= noise)
        return found

    def _tau(self, wanted: Sequence[int]) -> Matrix:
        # Not of the bounded logarithms: bounds follow the published order.
        found = numpy.log(numpy.maximum(self.predicted[:, wanted], LEAST))
        published, total = self.published[wanted], numpy.zeros(len(found))
        pairs = list(itertools.combinations(range(len(wanted)), 2))
        for first, second in pairs:
            apart = found[:, first] - found[:, second]
            signs = numpy.sign(numpy.where(numpy.abs(apart) < DIFFERENCE_LEAST, 0, apart))
            total += signs * numpy.sign(published[first] - published[second])
        return total / len(pairs)


def effects(table: Matrix, score: Matrix) -> list[tuple[float, float]]:
    """The share of the variance of a score that each column of a design explains.

    The first number is the first-order effect: the variance of the mean scores of its options. The
    second is the total effect: the mean variance among readings that differ in this column alone,
    so it counts what the choice does together with others. Both are Sobol' indices in a full
    product. In a draw, few readings differ in one column alone, and the second says less.
    """
    whole = float(score.var()) or 1.0
    found = []
    for number, column in enumerate(table.T):
        others = [other for other in range(table.shape[1]) if other != number]
        _, rest = numpy.unique(codes(table, others), return_inverse=True)
        first = _variance_of_means(column, score)
        found.append((first / whole, 1 - _variance_of_means(rest, score) / whole))
    return found


def _variance_of_means(groups: Matrix, score: Matrix) -> float:
    counts = numpy.bincount(groups)
    means = numpy.bincount(groups, weights=score) / numpy.maximum(counts, 1)
    return float((counts * (means - score.mean()) ** 2).sum() / len(score))
