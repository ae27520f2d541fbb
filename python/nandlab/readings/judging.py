"""Judges the claims of studies under every joint reading.

A joint reading takes the place of the readings that `claims.toml` names. The predicates are those
of every claim; what they measure are the runs that the joint reading needs.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy

from nandlab.claims.evaluate import few_replicates, finding_of
from nandlab.claims.predicates import Finding
from nandlab.claims.quantity import MissingError, Quantity, Sample, sample
from nandlab.claims.schema import Claim, Reading, has_claims, load_claims
from nandlab.claims.statistics import Status
from nandlab.frame import MEANINGLESS, RunFrame
from nandlab.readings.prediction import Design, Options
from nandlab.readings.simulation import Job, Kept
from nandlab.readings.spec import ClaimRule, Plain, Readings, alternatives, filled, words_of

if TYPE_CHECKING:
    import polars

_ALONE = re.compile(r"(?<!\w)\{(\w+)\}(?!\w)")
_EXPRESSIONS = ("right_metric", "successes", "trials")
"""Keys of predicates that hold expressions of metrics."""

Words = tuple[tuple[str, str], ...]
"""What stands for the words in braces."""

_RANKS = (Status.SUPPORTED, Status.UNDECIDED, Status.CONTRADICTED)


@dataclass(frozen=True)
class Judged:
    """A claim under all joint readings."""

    study: str
    claim: Claim
    choices: tuple[str, ...]
    """Choices that the claim depends on."""
    findings: Sequence[Finding]
    """A finding for each combination of their options."""
    of: Any
    """The number of the finding of each joint reading."""

    @property
    def is_run(self) -> bool:
        """Whether the runs of the search decide it in some reading."""
        return any(one.status in _RANKS for one in self.findings)

    def at(self, row: int) -> Finding:
        """The finding of a joint reading."""
        return self.findings[int(self.of[row])]

    def shares(self) -> dict[str, float]:
        """The share of joint readings that give each status."""
        counts = numpy.bincount(self.of, minlength=len(self.findings))
        found = dict.fromkeys((status.value for status in (*_RANKS, Status.NOT_RUN)), 0)
        for count, one in zip(counts, self.findings, strict=True):
            found[one.status.value] = found.get(one.status.value, 0) + int(count)
        return {status: count / len(self.of) for status, count in found.items()}

    def nearest(self, errors: Any) -> int:
        """The joint reading that comes nearest to the claim, and of these that of least error.

        A reading that supports it is nearer than one that leaves it undecided. Where none supports
        it, a larger margin is nearer.
        """
        ranks = [_nearness(one) for one in self.findings]
        order = {key: place for place, key in enumerate(sorted(set(ranks), reverse=True))}
        places = numpy.array([order[key] for key in ranks])[self.of]
        return int(numpy.lexsort((errors, places))[0])


def _nearness(one: Finding) -> tuple[int, float]:
    if one.status not in _RANKS:
        return -len(_RANKS), 0.0
    rank = -_RANKS.index(one.status)
    return rank, 0.0 if one.status is Status.SUPPORTED else one.margin


class Judge:
    """Judges claims of one study under the readings of a design."""

    def __init__(self, study: Readings, design: Design, kept: Mapping[Job, Kept]) -> None:
        self._study, self._design = study, design
        self._kept = {(job.runs.identifier, job.options): one for job, one in kept.items()
                      if job.readings.study == study.study}  # fmt: skip
        self._frames: dict[frozenset[tuple[str, tuple[str, ...]]], RunFrame] = {}
        self._samples: dict[tuple[object, ...], Sample] = {}
        self._bare = _frame(study, [])

    def all(self) -> list[Judged]:
        """The claims of the study's folder; none of a study without claims."""
        folder = self._study.path.parent
        found = load_claims(folder).claims if has_claims(folder) else ()
        return [self.judged(one) for one in found]

    def judged(self, claim: Claim) -> Judged:
        """A claim under all joint readings."""
        rules = [one for one in self._study.rules
                 if claim.identifier in (one.identifiers or (claim.identifier,))]  # fmt: skip
        # A rule may move the claim elsewhere on its axes, so they leave no run out.
        moved = {axis for rule in rules for axis in (*rule.select, *rule.values)}
        places = ({axis: one for axis, one in self._free(place).items() if axis not in moved}
                  for place in _places(claim))  # fmt: skip
        runs = {one.identifier: one for place in places
                for one in self._study.runs_at(_as_alternatives(place))}  # fmt: skip
        names = {name for one in runs.values() for name in one.choices}
        words = {word for rule in rules for word in rule.words} | words_of(_metrics(claim))
        names |= {one.name for one in self._study.choices if one.words & words}
        distinct, of = self._design.distinct(names)
        # What a claim says changes with the words, of which many readings have the same.
        read = cache(lambda said: _read(claim, rules, dict(said), self._free))
        findings = [self._finding(read, options) for options in distinct]
        return Judged(self._study.study, claim, tuple(sorted(names)), findings, of)

    def _finding(self, read: Callable[[Words], Claim], options: Options) -> Finding:
        words: dict[str, str] = {}
        for one in self._study.choices:
            if one.name in options:
                words |= one.options[options[one.name]].get("words", {})
        reading = Reading("joint", {}, words)
        return finding_of(
            self._bare,
            read(tuple(words.items())),
            reading,
            lambda quantity: self._measured(quantity, options, words),
        )

    def _free(self, place: Plain) -> dict[str, Any]:
        """A place without the axes that options set."""
        return {axis: one for axis, one in place.items() if axis not in self._study.chosen_axes}

    def _measured(self, quantity: Quantity, options: Options, words: Mapping[str, str]) -> Sample:
        """A quantity, of the runs that hold its place; measured once for all that agree in them."""
        places = [quantity.select]
        if quantity.relative_to is not None:
            places.append({**quantity.select, **quantity.relative_to})
        runs = {
            (one.identifier, tuple(options[name] for name in one.choices))
            for place in places
            for one in self._study.runs_at(_as_alternatives(place))
        }
        if not runs:
            raise MissingError(f"the search has no runs at {dict(quantity.select)}")
        parts = {word: words[word] for word in words_of([quantity.metric]) if word in words}
        key = frozenset(runs), repr(quantity), str(parts)
        if key not in self._samples:
            self._samples[key] = sample(self._frame(key[0]), quantity, parts)
        return self._samples[key]

    def _frame(self, runs: frozenset[tuple[str, tuple[str, ...]]]) -> RunFrame:
        if runs not in self._frames:
            self._frames[runs] = _frame(self._study, [self._kept[one] for one in sorted(runs)])
        return self._frames[runs]


def summary_of(found: Finding) -> dict[str, Any]:
    """A finding as plain data."""
    interval = found.interval
    ends = (interval.estimate, interval.low, interval.high) if interval else (None, None, None)
    finite = [one if one is not None and math.isfinite(one) else None for one in ends]
    return {
        "status": found.status.value,
        **dict(zip(("estimate", "low", "high"), finite, strict=True)),
        "n": None if interval is None else interval.n,
        "unit": found.unit,
        "reason": few_replicates(interval) or found.reason,
    }


def _frame(study: Readings, kept: Sequence[Kept]) -> RunFrame:
    """Runs as one frame, as claims are judged on it."""
    import polars

    axes = tuple(dict.fromkeys(axis for one in kept for axis in one.axes))
    if not kept:
        return RunFrame({"name": study.study}, (), polars.DataFrame(), polars.DataFrame(), "",
                        study.reference)  # fmt: skip
    text = [polars.col(axis).cast(polars.String) for axis in axes]
    rows = polars.concat([one.rows.with_columns(text) for one in kept], how="vertical_relaxed")
    with_curves = [one.curves for one in kept if one.curves.height]
    own = [polars.col(axis).cast(polars.String) for axis in axes
           if with_curves and axis in with_curves[0].columns]  # fmt: skip
    curves = (
        polars.concat([one.with_columns(own) for one in with_curves], how="diagonal_relaxed")
        if with_curves else polars.DataFrame()
    )  # fmt: skip
    numeric = [_as_number(axis) for axis in axes if _is_numeric(rows[axis])]
    names = {axis for axis in axes if _is_numeric(rows[axis])}
    curved = [_as_number(axis) for axis in axes if axis in names & set(curves.columns)]
    return RunFrame({"name": study.study}, axes, rows.with_columns(numeric),
                    curves.with_columns(curved), "", study.reference)  # fmt: skip


def _is_numeric(values: "polars.Series") -> bool:
    """Whether all values of an axis that mean something are numbers."""
    known = values.filter(values != MEANINGLESS)
    return bool(known.len()) and not known.cast(float, strict=False).has_nulls()


def _as_number(axis: str) -> "polars.Expr":
    import polars

    return polars.col(axis).replace(MEANINGLESS, None).cast(polars.Float64)


def _places(claim: Claim) -> list[dict[str, Any]]:
    """Places that a claim and the claims inside it measure."""
    if claim.children:
        return [place for one in claim.children for place in _places(one)]
    keys, select = claim.keys, dict(claim.quantity.select)
    sides = [keys[side] for side in ("left", "right") if side in keys]
    if "axis" in keys:
        sides += [{keys["axis"]: value} for value in keys["values"]]
    relative = [claim.quantity.relative_to or {}, {}]
    return [{**select, **side, **one} for side in sides or [{}] for one in relative]


def _metrics(claim: Claim) -> list[str]:
    """Expressions that a claim and the claims inside it measure."""
    own = [str(claim.keys[key]) for key in _EXPRESSIONS if key in claim.keys]
    inner = (text for one in claim.children for text in _metrics(one))
    return [claim.quantity.metric, *own, *inner]


def _as_alternatives(place: Plain) -> dict[str, Any]:
    """A place with the values of a list as the words of a cell have them."""
    return {axis: "|".join(map(str, value)) if isinstance(value, list) else value
            for axis, value in place.items()}  # fmt: skip


def _read(
    claim: Claim, rules: Iterable[ClaimRule], words: Mapping[str, str],
    free: Callable[[Plain], dict[str, Any]],
) -> Claim:  # fmt: skip
    """A claim as a joint reading has it."""
    quantity, keys = claim.quantity, dict(claim.keys)
    metric = _with_words(quantity.metric, words)
    quantity = replace(quantity, select=free(quantity.select), metric=metric)
    keys |= {key: _with_words(keys[key], words) for key in _EXPRESSIONS if key in keys}
    for rule in rules:
        if rule.pooled:
            if set(rule.pooled) != set(quantity.pooled):
                continue
            quantity = replace(quantity, how=str(filled(rule.how, words)) or quantity.how)
        if axes := str(filled(rule.replicates, words)):
            quantity = _replicated(quantity, axes.split("|"))
        chosen = {axis: _one_or_list(filled(text, words)) for axis, text in rule.select.items()}
        quantity = replace(quantity, select={**quantity.select, **chosen})
        quantity = replace(quantity, metric=_with_metrics(quantity.metric, rule, words))
        for key in _EXPRESSIONS:
            if key in keys:
                keys[key] = _with_metrics(keys[key], rule, words)
        for key in ("left", "right"):
            if key in keys:
                keys[key] = _with_values(keys[key], rule, words)
        quantity = replace(quantity, select=_with_values(quantity.select, rule, words))
        if quantity.relative_to is not None:
            relative = _with_values(quantity.relative_to, rule, words)
            quantity = replace(quantity, relative_to=relative)
        for key in ("values", "most", "least"):
            if key in keys and keys.get("axis") in rule.values:
                keys[key] = _with_values({keys["axis"]: keys[key]}, rule, words)[keys["axis"]]
    children = tuple(_read(one, rules, words, free) for one in claim.children)
    return replace(claim, quantity=quantity, keys=keys, children=children)


def _replicated(quantity: Quantity, axes: Sequence[str]) -> Quantity:
    """The quantity with other replicates; the axes that were its replicates are pooled."""
    pooled = dict.fromkeys((*quantity.pooled, *quantity.replicates))
    return replace(quantity, pooled=tuple(pooled), replicates=tuple(axes), windows=False)


def _with_words(text: str, words: Mapping[str, str]) -> str:
    """An expression with the words that stand alone; a word in a name is a part of claims."""
    return _ALONE.sub(lambda found: words.get(found[1], found[0]), text)


def _one_or_list(value: Any) -> Any:
    found = alternatives(value)
    return found[0] if len(found) == 1 else found


def _with_metrics(text: str, rule: ClaimRule, words: Mapping[str, str]) -> str:
    for metric, other in rule.metrics.items():
        text = re.sub(rf"\b{re.escape(metric)}\b", f"({filled(other, words)})", text)
    return text


def _with_values(place: Plain, rule: ClaimRule, words: Mapping[str, str]) -> dict[str, Any]:
    """A place with other values; a list is replaced value by value."""
    found = dict(place)
    for axis, others in rule.values.items():
        if axis in found:
            values = found[axis] if isinstance(found[axis], list) else [found[axis]]
            own = [filled(others.get(str(one), one), words) for one in values]
            found[axis] = own if isinstance(found[axis], list) else own[0]
    return found
