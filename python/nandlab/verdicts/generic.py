"""The verdict of studies that have none of their own: what each axis changes.

The question of the study decides which metric answers it: "fastest" asks for time, "least wear" for
erases. Values of an axis that come out the same, or differ by no more than the repeats of one value
differ among themselves, are called a tie: nothing is won by chance.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nandlab.results import Measurements, StudyResult
from nandlab.results.measurements import mean
from nandlab.verdicts import measured
from nandlab.verdicts.model import Verdict
from nandlab.verdicts.wording import duration, joined, number, times

HEADLINE_METRICS = (
    *("weighted_time_mean", "weighted_time", "waf", "erases", "busy_ns"),
    *("read_latency_mean_ns", "read_latency_max_ns"),
    *("write_latency_mean_ns", "write_latency_max_ns"),
    "elapsed_ns",
)
"""Metrics that tell most, best first; less is better in all of them."""

_TIME = ("elapsed_ns", "weighted_time_mean", "weighted_time", "busy_ns")
_READ_TIME = ("read_latency_mean_ns", "read_p99_ns", "read_latency_max_ns")
_WRITE_TIME = ("write_latency_mean_ns", "write_p99_ns", "write_latency_max_ns")
_FAST = r"fast|quick|speed|slow|soon|short|long|wait|latenc|time"

_ASKED: tuple[tuple[str, tuple[str, ...]], ...] = (
    (r"wear|worn|erase|endur|life|\blasts?\b", ("erases", "erase_count_max")),
    (r"amplif", ("waf",)),
    (r"memory|ram\b", ("memory_bytes_max", "memory_bytes", "ram_bytes")),
    (rf"\breads?\b.*\b({_FAST})|\b({_FAST})\w*\b.*\breads?\b", (*_READ_TIME, *_TIME)),
    (rf"\bwrites?\b.*\b({_FAST})|\b({_FAST})\w*\b.*\bwrites?\b", (*_WRITE_TIME, *_TIME)),
    (_FAST, (*_TIME, *_READ_TIME, *_WRITE_TIME)),
)
"""What a word of the question asks for, special words first; less is better in all of it."""


@dataclass(frozen=True)
class _Standing:
    """A value of an axis: its mean, and the means of its single repeats."""

    value: str
    mean: float
    repeats: tuple[float, ...]

    def ties_with(self, other: "_Standing") -> bool:
        """Whether the two look the same, or lie within the spread of their repeats."""
        if number(self.mean) == number(other.mean):
            return True
        return min(self.repeats) <= max(other.repeats) and min(other.repeats) <= max(self.repeats)


def judge(result: StudyResult) -> Verdict:
    """Says of each axis which values are best by the metric that the question asks for."""
    rows = Measurements(result)
    question = str(result.study.get("question", ""))
    metric = headline_metric(rows, question)
    if metric is None:
        return Verdict(result.name, "No verdict: nothing was measured.", ())
    varied = [axis for axis in result.axes if len(rows.axis_values(axis)) > 1]
    # What the question names comes first: `Which file system ...` is answered by file_system.
    varied.sort(key=lambda axis: axis.replace("_", " ") not in question.lower())
    unit = rows.units[metric]
    found = [_sentence(axis, _standings(result, metric, axis), metric, unit) for axis in varied]
    sentences = [one for one in found if one]
    if not sentences:
        sentences = [f"{metric} is {_shown(rows.mean(metric), unit)}: nothing to compare it with."]
    if against := measured.sentence(result):
        return Verdict(result.name, against, tuple(sentences))
    return Verdict(result.name, sentences[0], tuple(sentences[1:]))


def headline_metric(rows: Measurements, question: str = "") -> str | None:
    """The metric to show first: what the question asks for, if it was measured."""
    metrics = rows.metrics()
    for words, wanted in _ASKED:
        if re.search(words, question.lower()):
            asked = [metric for metric in wanted if metric in metrics]
            if asked:
                return asked[0]
    chosen = [metric for metric in HEADLINE_METRICS if metric in metrics]
    return chosen[0] if chosen else next(iter(metrics), None)


def _standings(result: StudyResult, metric: str, axis: str) -> list[_Standing]:
    """The values of an axis, best first, over the places at which all of them were measured."""
    others = [one for one in result.axes if one != axis]
    cells: dict[str, dict[tuple[Any, ...], dict[Any, float]]] = {}
    for row in result.rows.dicts():
        if row["metric"] == metric and row["value"] is not None:
            place = tuple(row[one] for one in others)
            by_repeat = cells.setdefault(row[axis], {}).setdefault(place, {})
            by_repeat[row["repeat"]] = float(row["value"])
    shared = set.intersection(*(set(places) for places in cells.values())) if cells else set()
    found = [
        _standing(value, {place: places[place] for place in shared or places})
        for value, places in cells.items()
    ]
    return sorted(found, key=lambda standing: standing.mean)


def _standing(value: str, places: Mapping[tuple[Any, ...], Mapping[Any, float]]) -> _Standing:
    repeats = sorted({repeat for by_repeat in places.values() for repeat in by_repeat})
    means = (mean(at[repeat] for at in places.values() if repeat in at) for repeat in repeats)
    of_repeats = tuple(one for one in means if one is not None)
    return _Standing(value, mean(of_repeats) or 0.0, of_repeats)


def _sentence(axis: str, standings: list[_Standing], metric: str, unit: str) -> str:
    """Which values of an axis are best; nothing where there are not two to compare."""
    if len(standings) < 2:
        return ""
    best, worst = standings[0], standings[-1]
    alike = [one for one in standings if one.ties_with(best)]
    if len(alike) == len(standings):
        return f"{axis}: no difference: {_alike(alike, metric, unit)}."
    last = [one for one in standings if one.ties_with(worst) and one not in alike]
    verb = "has" if len(alike) == 1 else "have"
    tie = "" if len(alike) == 1 else ", with no difference between them"
    ratio = f", {times(worst.mean / best.mean)} as much" if best.mean > 0 else ""
    return (
        f"{axis}: {joined([one.value for one in alike])} {verb} the least {metric} "
        f"({_shown(best.mean, unit)}{tie}), {joined([one.value for one in last])} the most "
        f"({_shown(worst.mean, unit)}{ratio})."
    )


def _alike(standings: list[_Standing], metric: str, unit: str) -> str:
    """What values that tie have in common."""
    names = joined([one.value for one in standings])
    low, high = _shown(standings[0].mean, unit), _shown(standings[-1].mean, unit)
    if low == high:
        return f"{metric} is {low} with {names}"
    return f"{metric} is {low} to {high} with {names}, which is within the spread of the repeats"


def _shown(value: float | None, unit: str) -> str:
    """A value with its unit; times in the unit that suits them."""
    if value is None:
        return "-"
    return duration(value) if unit == "ns" else " ".join(filter(None, (number(value), unit)))
