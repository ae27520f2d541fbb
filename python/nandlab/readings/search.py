"""Searches the joint readings of studies and says what was found, as plain data."""

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy

from nandlab.readings.prediction import Design, Predictor, design, needed, predictions
from nandlab.readings.scoring import Scores, first_order_effects
from nandlab.readings.simulation import simulate
from nandlab.readings.spec import Readings

LEADING = 5
"""Joint readings that are told apart."""

SHUFFLES = 200
PLANTED = 20


@dataclass(frozen=True)
class Search:
    """All joint readings with their predictions, or what was finished before an interruption."""

    studies: tuple[Readings, ...]
    design: Design
    runs: int
    """Runs that the readings need, each once."""
    carried_out: int
    """Runs that were carried out now; all others were on disk."""
    scores: Scores | None
    predictor: Predictor | None

    def answer(self, by: str = "level") -> dict[str, Any]:
        """Everything that is shown; `by` is the score that ranks: level, shape or order."""
        scores, predictor = self.scores, self.predictor
        assert scores is not None
        assert predictor is not None
        ranking = {"level": scores.level, "shape": scores.shape, "order": -scores.tau}[by]
        ranked = numpy.lexsort((scores.level, ranking))
        leading = scores.leading(ranked, LEADING)
        best = leading[0]
        matrix = numpy.ascontiguousarray(numpy.round(scores.logarithms, 9))
        return {
            "studies": [one.study for one in self.studies],
            "by": by,
            "design": self._design(),
            "readings": [self._reading(row, leading, scores) for row in leading],
            "shipped": {
                study: self._reading(row, leading, scores)
                | {"own_error": _ratio(scores.error(scores.groups("study")[study])[row])}
                for study, row in self.design.shipped.items()
            },
            "effects": self._effects(scores, ranking),
            "cells": self._cells(scores, best),
            "orders": self._orders(scores, best),
            "against_every_reading": [
                {**_named(scores.cells[number]),
                 "nearest": float(scores.predicted[row, number])}
                for number, row in scores.against_every_reading()
            ],
            "measurements": self._measurements(predictor, leading),
            "trust": self._trust(scores, best),
            "not_tried": {one.study: one.plain.get("not_tried", []) for one in self.studies},
            "digest": hashlib.blake2b(matrix.tobytes(), digest_size=32).hexdigest(),
        }  # fmt: skip

    def _design(self) -> dict[str, Any]:
        readings, product = len(self.design.table), self.design.product
        return {
            "readings": readings,
            "product": product,
            "is_whole": readings >= product,
            "kind": "full product" if readings >= product else "balanced draw",
            "runs": self.runs,
            "carried_out": self.carried_out,
            "free_choices": len(self.design.choices),
            "options": sum(len(one.options) for one in self.design.choices),
            "least_readings_of_an_option": min(
                int(numpy.bincount(column, minlength=len(choice.options)).min())
                for choice, column in zip(self.design.choices, self.design.table.T, strict=True)
            ),
        }

    def _reading(self, row: int, leading: Sequence[int], scores: Scores) -> dict[str, Any]:
        alike = int((scores.distance(row, numpy.arange(len(scores.predicted))) <= 0.05).sum())
        return {
            "choices": self.design.words(row),
            "error": _ratio(scores.level[row]),
            "shape_error": _ratio(scores.shape[row]),
            "tau": None if math.isnan(scores.tau[row]) else float(scores.tau[row]),
            "from_best": _ratio(scores.distance(leading[0], [row])[0]),
            "alike": alike,
        }

    def _effects(self, scores: Scores, ranking: Any) -> list[dict[str, Any]]:
        """What each choice moves: its first-order share, and the error at each of its options."""
        shares = first_order_effects(self.design.table, ranking)
        found = []
        for number, choice in enumerate(self.design.choices):
            column = self.design.table[:, number]
            found.append({
                "choice": choice.name,
                "unsaid": choice.unsaid,
                "why": choice.why,
                "shipped": {one.study: own.shipped for one in self.studies
                            for own in one.choices if own.name == choice.name},
                "share": shares[number],
                "least_error": {name: _ratio(scores.level[column == option].min())
                                for option, name in enumerate(choice.names)},
            })  # fmt: skip
        return sorted(found, key=lambda one: -one["share"])

    def _cells(self, scores: Scores, best: int) -> list[dict[str, Any]]:
        """By group of cells: mean absolute errors, as parts of the published numbers."""
        off = numpy.abs(scores.predicted / numpy.exp(scores.published) - 1)
        found = []
        for study, wanted in scores.groups("study").items():
            for group in dict.fromkeys(scores.cells[number].group for number in wanted):
                own = [number for number in wanted if scores.cells[number].group == group]
                means = off[:, own].mean(axis=1)
                found.append({
                    "study": study, "group": group, "cells": len(own),
                    "shipped": float(means[self.design.shipped[study]]),
                    "best": float(means[best]), "least": float(means.min()),
                })  # fmt: skip
        return found

    def _orders(self, scores: Scores, best: int) -> list[dict[str, Any]]:
        found = []
        for name, taus in scores.taus.items():
            cells = scores.orders[name]
            ranked = sorted(cells, key=lambda number: scores.published[number])
            found.append({
                "order": name,
                "published": [str((scores.cells[n].order or ("", ""))[1]) for n in ranked],
                "shipped": float(taus[self.design.shipped[scores.cells[cells[0]].study]]),
                "best": float(taus[best]), "most": float(taus.max()),
                "share": float((taus > 1 - 1e-9).mean()),
            })  # fmt: skip
        return found

    def _measurements(self, predictor: Predictor, leading: Sequence[int]) -> list[dict[str, Any]]:
        """How far measurements on a real board would tell the leading readings apart."""
        found, wanted = [], list(leading)
        for study in self.studies:
            for one in study.measurements:
                values = predictor.column(study.study, one.formula)[wanted]
                seconds = predictor.column(study.study, one.seconds)[wanted].mean() + one.setup_s
                logs = numpy.log(values)
                apart = numpy.abs(logs[:, None] - logs[None, :])
                count = len(wanted) * (len(wanted) - 1)
                mean = float(apart.sum() / count) if count else 0.0
                found.append({
                    "study": study.study, "measurement": one.title, "minutes": seconds / 60,
                    "separation": _ratio(mean), "per_minute": mean / (seconds / 60),
                    "values": [float(value) for value in values],
                })  # fmt: skip
        return sorted(found, key=lambda one: -one["per_minute"])

    def _trust(self, scores: Scores, best: int) -> dict[str, Any]:
        """What speaks against taking the best reading for the truth."""
        shuffled = scores.shuffled(SHUFFLES)
        found: dict[str, Any] = {
            "left_out": {
                name: {"error": _ratio(error), "choices": self.design.words(row)}
                for name, (row, error) in scores.left_out().items()
            },
            "planted": {"draws": PLANTED, "found": scores.found_again(PLANTED)},
            "shuffled": None,
        }
        if shuffled is not None:
            least, true = shuffled
            found["shuffled"] = {
                "draws": len(least), "as_good": int((least <= true).sum()),
                "median_error": _ratio(float(numpy.median(least))), "error": _ratio(true),
            }  # fmt: skip
        return found


def search(
    studies: Sequence[Readings], *, most: int, folder: Path, workers: int,
    progress: Callable[[int, int, str], None],
) -> Search:  # fmt: skip
    """Carries out what the readings of the studies need, and predicts every cell."""
    readings = design(studies, most)
    jobs = [job for own in needed(studies, readings).values() for job in own]
    rows, carried_out, is_whole = simulate(jobs, folder, workers, progress)
    runs = len({job.key for job in jobs})
    if not is_whole:
        return Search(tuple(studies), readings, runs, carried_out, None, None)
    predictor = Predictor(studies, readings, rows)
    cells = tuple(cell for one in studies for cell in one.cells)
    scores = Scores(cells, predictions(predictor, cells))
    return Search(tuple(studies), readings, runs, carried_out, scores, predictor)


def _ratio(logarithm: float) -> float:
    """A distance of logarithms as a part: 0.1 is a tenth more."""
    return math.expm1(float(logarithm))


def _named(cell: Any) -> dict[str, Any]:
    return {
        "study": cell.study, "group": cell.group, "cell": cell.name,
        "published": cell.published, "certainty": cell.certainty,
    }  # fmt: skip


def text_of(answer: Mapping[str, Any]) -> str:
    """An answer as text that is the same wherever it is made."""
    return json.dumps(answer, indent=1, sort_keys=True) + "\n"
