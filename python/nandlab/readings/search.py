"""Searches the joint readings of studies and says what was found, as plain data."""

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy

from nandlab.claims.statistics import Status
from nandlab.errors import NandlabError
from nandlab.readings.judging import Judge, summary_of
from nandlab.readings.prediction import Design, Predictor, design, needed
from nandlab.readings.scoring import LEAST, NOISE, Scores, effects
from nandlab.readings.simulation import simulate
from nandlab.readings.spec import Readings, Side

LEADING = 5
"""Joint readings that are told apart."""

SHUFFLES = 200
PLANTED = 20

Row = dict[str, Any]


@dataclass(frozen=True)
class Search:
    """All joint readings of studies, with what each predicts."""

    studies: Sequence[Readings]
    design: Design
    predictor: Predictor
    scores: Scores
    judges: Mapping[str, Judge]
    runs: int
    """Runs that the readings need, each once."""
    carried_out: int
    """Runs that were carried out now; all others were on disk."""

    def answer(self, by: str = "level") -> Row:
        """Everything that is shown; `by` is the score that ranks: level, shape or order.

        Raises `NandlabError` where the cells have no order to rank by.
        """
        scores = self.scores
        if by == "order" and not scores.orders:
            raise NandlabError("--by order: the cells are in no order; rank by level or shape")
        ranking = {"level": scores.level, "shape": scores.shape, "order": -scores.tau}[by]
        leading = scores.leading(numpy.lexsort((scores.level, ranking)), LEADING)
        best = leading[0]
        # Rounded, for the last digits of a logarithm differ between machines.
        predicted = numpy.ascontiguousarray(numpy.round(scores.logarithms, 9))
        return {
            "studies": [one.study for one in self.studies],
            "by": by,
            "design": self._design(),
            "readings": [self._reading(row, best) for row in leading],
            "shipped": {k: self._reading(row, best) for k, row in self.design.shipped.items()},
            "effects": self._effects(ranking),
            "cells": self._cells(best),
            "orders": self._orders(best),
            "claims": self._claims(best),
            "numbers": self._numbers(best),
            "contradictions": self._contradictions(best),
            "against_every_reading": self._against(),
            "measurements": self._measurements(leading),
            "shared": self._shared(),
            "trust": self._trust(),
            "short_forms": [one.study for one in self.studies if one.plain.get("quick")],
            "not_tried": {one.study: one.plain.get("not_tried", []) for one in self.studies},
            "digest": hashlib.blake2b(predicted.tobytes(), digest_size=32).hexdigest(),
        }

    def _design(self) -> Row:
        readings, choices = len(self.design.table), self.design.choices
        counts = [
            numpy.bincount(column, minlength=len(choice.options)).min()
            for choice, column in zip(choices, self.design.table.T, strict=True)
        ]
        return {
            "readings": readings,
            "product": self.design.product,
            "is_whole": readings == self.design.product,
            "runs": self.runs,
            "carried_out": self.carried_out,
            "free_choices": len(choices),
            "options": sum(len(one.options) for one in choices),
            "least_readings_of_an_option": int(min(counts)),
        }

    def _reading(self, row: int, best: int) -> Row:
        scores = self.scores
        apart = scores.distance(row, numpy.arange(len(scores.predicted)))
        return {
            "choices": self.design.words(row),
            "error": _ratio(scores.level[row]),
            "shape_error": _ratio(scores.shape[row]),
            "tau": None if math.isnan(scores.tau[row]) else float(scores.tau[row]),
            "from_best": _ratio(apart[best]),
            "alike": int((apart <= NOISE).sum()),
        }

    def _effects(self, ranking: Any) -> list[Row]:
        """What each choice moves: its shares of the variance, the least error with each option."""
        shares, found = effects(self.design.table, ranking), []
        for number, choice in enumerate(self.design.choices):
            errors = [
                self.scores.level[self.design.table[:, number] == option].min()
                for option in range(len(choice.options))
            ]
            shipped = {one.study: own.shipped for one in self.studies for own in one.choices
                       if own.name == choice.name}  # fmt: skip
            found.append({
                "choice": choice.name,
                "unsaid": choice.unsaid,
                "why": choice.why,
                "shipped": shipped,
                "share": shares[number][0],
                "total_share": shares[number][1],
                "least_error": dict(zip(choice.names, map(_ratio, errors), strict=True)),
            })  # fmt: skip
        return sorted(found, key=lambda one: -one["total_share"])

    def _cells(self, best: int) -> list[Row]:
        """By group of cells: mean absolute differences, as parts of the published numbers."""
        published = numpy.exp(self.scores.published)
        off, found = numpy.abs(self.scores.predicted / published - 1), []
        for (study, group), own in self.scores.groups("study", "group").items():
            means = off[:, own].mean(axis=1)
            parts = {"shipped": means[self.design.shipped[study]], "best": means[best]}
            errors = {name: float(one) for name, one in (*parts.items(), ("least", means.min()))}
            found.append({"study": study, "group": group, "cells": len(own), **errors})
        return found

    def _orders(self, best: int) -> list[Row]:
        found = []
        for name, taus in self.scores.taus.items():
            own = sorted(self.scores.orders[name], key=lambda cell: self.scores.published[cell])
            cells = [self.scores.cells[number] for number in own]
            found.append({
                "order": name,
                "published": [one.order[1] for one in cells if one.order],
                "shipped": float(taus[self.design.shipped[cells[0].study]]),
                "best": float(taus[best]),
                "most": float(taus.max()),
                "share": float((taus > 1 - 1e-9).mean()),
            })  # fmt: skip
        return found

    def _claims(self, best: int) -> list[Row]:
        """Each claim under the best reading, under the shipped one, and in all of them."""
        found = []
        for study, judge in self.judges.items():
            for one in judge.all():
                row = one.nearest(self.scores.level)
                found.append({
                    "study": study,
                    "id": one.claim.identifier,
                    "text": one.claim.text,
                    "where": one.claim.where,
                    "is_run": one.is_run,
                    "choices": list(one.choices),
                    "best": summary_of(one.at(best)),
                    "shipped": summary_of(one.at(self.design.shipped[study])),
                    "nearest": {**summary_of(one.at(row)), **self._place(study, row, one.choices)},
                    "shares": one.shares(),
                })  # fmt: skip
        return found

    def _shared(self) -> list[Row]:
        """Options of the choices that several studies share: least errors, and errors left out.

        Left out is a study whose reading the others chose, among those with the option.
        """
        found = []
        for number, choice in enumerate(self.design.choices):
            if sum(choice.name in {own.name for own in one.choices} for one in self.studies) < 2:
                continue
            for option, name in enumerate(choice.names):
                rows = numpy.flatnonzero(self.design.table[:, number] == option)
                best = rows[self.scores.level[rows].argmin()]
                left_out = self.scores.left_out(rows)
                found.append({
                    "choice": choice.name,
                    "option": name,
                    "error": _ratio(self.scores.level[best]),
                    "readings": len(rows),
                    "by_study": {one: _ratio(self.scores.error(own)[best])
                                 for (one,), own in self.scores.groups("study").items()},
                    "left_out": {one: _ratio(error) for one, (_, error) in left_out.items()},
                    "choices": self.design.words(int(best)),
                })  # fmt: skip
        return found

    def _place(self, study: str, row: int, choices: Sequence[str]) -> Row:
        """A reading by what it chooses of some choices, and what speaks against it."""
        words = self.design.words(row)
        return {
            "choices": {name: words[name] for name in choices},
            "error": _ratio(self.scores.level[row]),
            "against": self._worst(study, row),
        }

    def _worst(self, study: str, row: int) -> Row:
        """How many cells of a study a reading misses, and the one that it misses most."""
        own = [n for n, cell in enumerate(self.scores.cells) if cell.study == study]
        off = numpy.abs(self.scores.residuals[row, own])
        bounds = [self.scores.tolerance(number) for number in own]
        cell = self.scores.cells[own[int(off.argmax())]]
        return {
            "cells": len(own),
            "missed": int((off > bounds).sum()),
            "worst": f"{cell.group}, {cell.name}" if cell.name != cell.group else cell.group,
            "factor": float(numpy.exp(self.scores.residuals[row, own][off.argmax()])),
        }

    def _numbers(self, best: int) -> list[Row]:
        """Published numbers that stand alone: what each reading gives, and which is nearest.

        A number that may be a bound is compared as a point.
        """
        found = []
        for (study, _), own in self.scores.groups("study", "group").items():
            for number in own if len(own) == 1 else ():
                cell = self.scores.cells[number]
                values = self.predictor.column(study, cell.formula)
                off = numpy.abs(numpy.log(numpy.maximum(values, LEAST) / cell.published))
                row = int(numpy.lexsort((self.scores.level, numpy.round(off, 9)))[0])
                names = self.predictor.choices(study, cell.formula)
                shipped = self.design.shipped[study]
                found.append({
                    "study": study,
                    "number": cell.group,
                    "published": cell.published,
                    "relation": cell.relation,
                    "best": float(values[best]),
                    "shipped": float(values[shipped]),
                    "nearest": {"value": float(values[row]), **self._place(study, row, names)},
                    "is_reached": bool(off[row] <= self.scores.tolerance(number)),
                    "share": float((off <= self.scores.tolerance(number)).mean()),
                })  # fmt: skip
        return found

    def _contradictions(self, best: int) -> list[Row]:
        """Where a publication contradicts itself, with what the readings say to each side."""
        found = []
        for one in self.studies:
            shipped = self.design.shipped[one.study]
            for about in one.contradictions:
                for side in about.sides:
                    scored = self._side(one.study, side, best, shipped)
                    plain = {"study": one.study, "about": about.about, "says": side.says}
                    found.append({**plain, "where": side.where, **scored})
        return found

    def _side(self, study: str, side: Side, best: int, shipped: int) -> Row:
        if side.claim is not None:
            judged = self.judges[study].judged(side.claim)
            rows = {"best": summary_of(judged.at(best)), "shipped": summary_of(judged.at(shipped))}
            return {"kind": "claim", **rows, "share": judged.shares()[Status.SUPPORTED.value]}
        if side.option is not None:
            name, option = side.option
            number = [one.name for one in self.design.choices].index(name)
            wanted = self.design.choices[number].names.index(option)
            errors = [self._with(row, number, wanted) for row in (best, shipped)]
            least = self.scores.level[self.design.table[:, number] == wanted].min()
            parts = zip(("best", "shipped", "least"), (*errors, least), strict=True)
            plain = {key: None if math.isnan(value) else _ratio(value) for key, value in parts}
            return {"kind": "option", **plain}
        assert side.formula is not None
        assert side.published is not None
        values = self.predictor.column(study, side.formula)
        off = numpy.abs(numpy.log(numpy.maximum(values, LEAST) / side.published))
        parts = zip(("best", "shipped", "least"), (off[best], off[shipped], off.min()), strict=True)
        return {"kind": "number", **{key: _ratio(value) for key, value in parts}}

    def _with(self, row: int, choice: int, option: int) -> float:
        """The error of the reading that has another option of one choice; NaN if not drawn."""
        wanted = self.design.table[row].copy()
        wanted[choice] = option
        rows = numpy.flatnonzero((self.design.table == wanted).all(axis=1))
        return float(self.scores.level[rows[0]]) if len(rows) else math.nan

    def _against(self) -> list[Row]:
        """Cells to which no reading comes near."""
        found = []
        for number, row in self.scores.against_every_reading():
            cell, nearest = self.scores.cells[number], self.scores.predicted[row, number]
            known = {"published": cell.published, "certainty": cell.certainty}
            place = {"study": cell.study, "group": cell.group, "cell": cell.name}
            found.append({**place, **known, "nearest": float(nearest)})
        return found

    def _measurements(self, leading: Sequence[int]) -> list[Row]:
        """How far measurements on a real board would tell the leading readings apart."""
        found, pairs = [], max(len(leading) * (len(leading) - 1), 1)
        for study in self.studies:
            for one in study.measurements:
                values = self.predictor.column(study.study, one.formula)[leading]
                seconds = self.predictor.column(study.study, one.seconds)[leading].mean()
                minutes = float(seconds + one.setup_s) / 60
                logarithms = numpy.log(values)
                apart = float(numpy.abs(logarithms[:, None] - logarithms).sum() / pairs)
                found.append({
                    "study": study.study,
                    "measurement": one.title,
                    "minutes": minutes,
                    "separation": _ratio(apart),
                    "per_minute": apart / minutes,
                    "values": values.tolist(),
                })  # fmt: skip
        return sorted(found, key=lambda one: -one["per_minute"])

    def _trust(self) -> Row:
        """What speaks against taking the best reading for the truth."""
        left_out = {
            name: {"error": _ratio(error), "choices": self.design.words(row)}
            for name, (row, error) in self.scores.left_out().items()
        }
        planted = {"draws": PLANTED, "found": self.scores.found_again(PLANTED)}
        found: Row = {"left_out": left_out, "planted": planted, "shuffled": None}
        if (shuffled := self.scores.shuffled(SHUFFLES)) is not None:
            least, true = shuffled
            found["shuffled"] = {
                "draws": len(least),
                "as_good": int((least <= true).sum()),
                "median_error": _ratio(numpy.median(least)),
            }
        return found


def search(
    studies: Sequence[Readings], most: int, folder: Path, workers: int,
    progress: Callable[[int, int, str], None],
) -> Search | int:  # fmt: skip
    """Carries out what the readings need, and predicts every cell.

    After an interruption it returns the number of runs that were carried out.
    """
    readings = design(studies, most)
    jobs = needed(studies, readings)
    kept, carried_out, is_whole = simulate(jobs, folder, workers, progress)
    if not is_whole:
        return carried_out
    predictor = Predictor(studies, readings, kept)
    cells = tuple(cell for one in studies for cell in one.cells)
    predicted = numpy.stack([predictor.cell(one) for one in cells], axis=1)
    scores = Scores(cells, predicted)
    runs = len({job.key for job in jobs})
    judges = {one.study: Judge(one, readings, kept) for one in studies}
    return Search(studies, readings, predictor, scores, judges, runs, carried_out)


def apart(studies: Sequence[Readings]) -> list[list[Readings]]:
    """Studies in groups that share choices; those of different groups are searched apart."""
    groups: list[list[Readings]] = []
    for study in studies:
        names = {one.name for one in study.choices}
        joined = [own for own in groups
                  if any(names & {one.name for one in other.choices} for other in own)]  # fmt: skip
        groups = [own for own in groups if own not in joined]
        groups.append([*(one for own in joined for one in own), study])
    return sorted(groups, key=lambda own: min(map(studies.index, own)))


def together(answers: Sequence[Mapping[str, Any]]) -> Row:
    """The answers of searches that share nothing, with a row for each study."""
    digests = "\0".join(one["digest"] for one in answers)
    return {
        "studies": [name for one in answers for name in one["studies"]],
        "readings": [row for one in answers for row in _joint_rows(one)],
        "searches": list(answers),
        "digest": hashlib.blake2b(digests.encode(), digest_size=32).hexdigest(),
    }


def _joint_rows(answer: Mapping[str, Any]) -> list[Row]:
    """A row for each study of a search: its size, and what it says of the study."""
    best, found = answer["readings"][0], []
    for name in answer["studies"]:
        groups = [one for one in answer["cells"] if one["study"] == name]
        cells = sum(one["cells"] for one in groups)
        errors = {key: sum(one[key] * one["cells"] for one in groups) / cells
                  for key in ("best", "shipped")}  # fmt: skip
        claims = [one for one in answer["claims"] if one["study"] == name and one["is_run"]]
        supported = {key: sum(one[key]["status"] == "supported" for one in claims)
                     for key in ("best", "shipped")}  # fmt: skip
        own = [one for one in answer["effects"] if name in one["shipped"]]
        found.append({
            "study": name,
            "searched_with": [one for one in answer["studies"] if one != name],
            "design": answer["design"],
            "cells": cells,
            "error": errors,
            "claims": len(claims),
            "supported": supported,
            "choices": {one["choice"]: best["choices"][one["choice"]] for one in own},
        })  # fmt: skip
    return found


def text_of(answer: Mapping[str, Any]) -> str:
    """An answer as text; without infinity, which JSON does not have."""
    return json.dumps(answer, indent=1, allow_nan=False) + "\n"


def _ratio(logarithm: float) -> float:
    """A distance of logarithms as a part: 0.1 is a tenth more."""
    return math.expm1(float(logarithm))
