"""What a search answers: data, tables, figures, a sentence, and the page that shows them."""

import csv
import hashlib
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nandlab import __version__
from nandlab.design_space.figure import charts
from nandlab.design_space.front import RULE, Front, change, front_of
from nandlab.design_space.metrics import Measured
from nandlab.design_space.points import POINTS
from nandlab.design_space.search import Found, Outcome, Question
from nandlab.design_space.space import Space
from nandlab.frame import RunFrame
from nandlab.interruption import held
from nandlab.json_text import json_text
from nandlab.outputs import write_whole
from nandlab.present.drawing import picture
from nandlab.present.headline import joined
from nandlab.present.page import FIGURES, REPORT, Presented, render, unclaimed
from nandlab.present.tables import CHANGE, ShownTable
from nandlab.present.units import estimate_text, interval_text
from nandlab.study_files import STUDY_FILE

SEARCH_JSON = "search.json"
POINTS_CSV = "points.csv"

FRONT_ROWS = 16
"""Points of the front that the first table has."""

_ENDLESS = "no end: nothing wears"


@dataclass(frozen=True)
class Answered:
    """A finished search with its front."""

    space: Space
    question: Question
    outcome: Outcome
    front: Front
    seed: int
    sampler: str

    @property
    def axes(self) -> list[str]:
        """Keys of the axes with more than one value: the others need not be said of a point."""
        return [axis.key for axis in self.space.axes if len(axis.values) > 1]

    def label(self, one: Found) -> str:
        """What was chosen at a point."""
        varied = {key: one.point.choices[key] for key in self.axes if key in one.point.choices}
        return self.space.label(varied or one.point.choices)

    def named(self, one: Found) -> str:
        """Number and choices of a point."""
        return f"#{one.number} ({self.label(one)})"

    @property
    def digest(self) -> str:
        """Digest of the points with their values, in the order of the asking."""
        rows = [[one.point.choices, {name: [value.found.estimate, value.found.n]
                 for name, value in one.values.items()}] for one in self.outcome.found]  # fmt: skip
        text = json.dumps([rows, self.outcome.refused.total()], sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=32).hexdigest()


def answered(
    space: Space, question: Question, outcome: Outcome, seed: int, sampler: str
) -> Answered:
    """The front and the recommendation of what was found."""
    return Answered(space, question, outcome, front_of(outcome.found, question), seed, sampler)


def headline(found: Answered) -> str:
    """The answer in a sentence."""
    taken = found.front.recommendation
    if taken is None:
        if not found.outcome.found:
            return "No point of the space could be run."
        return f"No point of {len(found.outcome.found):,} keeps every constraint."
    others = (*taken.ties, *taken.overlapping)
    if others:
        # Not all of many have to be named: the table has them.
        named = [f"#{one.number}" for one in (taken.taken, *others)]
        shown = named if len(named) <= 4 else [*named[:3], f"{len(named) - 3} more"]
        return f"Undecided between {joined(shown)}; nearest is {found.label(taken.taken)}."
    if taken.uncertain:
        return f"Undecided whether #{taken.taken.number} keeps {joined(taken.uncertain)}."
    return f"Take {found.label(taken.taken)}."


def remarks(found: Answered) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """What the recommendation costs, how it was made, and how far to trust it."""
    front, taken = found.front, found.front.recommendation
    if taken is None:
        return (("Why nothing is recommended", tuple(_nearest(found))),)
    told = [_cost(found, metric_at) for metric_at in range(len(found.question.objectives))]
    trust = []
    if taken.ties:
        trust.append(f"As near as the recommended point: {_names(found, taken.ties)}.")
    if taken.overlapping:
        trust.append(
            "In every objective the 95 % intervals overlap with those of "
            f"{_names(found, taken.overlapping)}. More repeats may tell them apart."
        )
    for one in taken.uncertain:
        trust.append(f"The interval of the recommended point lies on both sides of {one}.")
    if not taken.has_intervals:
        trust.append(
            "The study has fewer than three repeats, so there are no intervals. Differences are "
            "not tested."
        )
    if not trust:
        trust.append("No other point is the same within the 95 % intervals.")
    place = f"{POINTS}/{taken.taken.point.key}/{STUDY_FILE}"
    trust.append(
        f"{front.keeping:,} of {len(found.outcome.found):,} points keep the constraints, and "
        f"{len(front.points):,} of them no other beats. Run the recommended one again: nandlab run "
        f"{place}."
    )
    return (
        ("What the recommendation costs", tuple(told)),
        ("How far to trust it", tuple(trust)),
        ("How it was chosen", (RULE,)),
    )


def _names(found: Answered, points: Sequence[Found]) -> str:
    shown = [found.named(one) for one in points[:5]]
    more = [f"{len(points) - 5} more"] if len(points) > 5 else []
    return joined([*shown, *more])


def _cost(found: Answered, place: int) -> str:
    """What the recommended point gives up in one objective, and for what."""
    recommendation = found.front.recommendation
    assert recommendation is not None
    metric, taken = found.question.objectives[place], recommendation.taken
    best = min(found.front.points, key=lambda one: one.numbers(found.question.objectives)[place])
    own, least = taken.values[metric.name], best.values[metric.name]
    if own.value == least.value:
        return f"{_capital(metric.title)}: {text_of(own)}, the best on the front."
    by = change(own, least)
    more = "" if by is None else f", {estimate_text(by, CHANGE)}"
    gains = []
    for other in found.question.objectives:
        gain = change(taken.values[other.name], best.values[other.name])
        if other is not metric and gain is not None:
            gains.append(f"{other.title} {estimate_text(gain, CHANGE)}")
    against = f" For that it has {joined(gains)}." if gains else ""
    return (
        f"{_capital(metric.title)}: {text_of(own)}{more} against {text_of(least)} of "
        f"{found.named(best)}.{against}"
    )


def _nearest(found: Answered) -> list[str]:
    """The points that break the constraints least."""
    def broken(one: Found) -> float:
        return max((rule.excess(one.values[rule.metric.name].value)
                    for rule in found.question.constraints), default=0.0)  # fmt: skip

    told = []
    for one in sorted(found.outcome.found, key=broken)[:3]:
        values = ", ".join(f"{rule.metric.title} {text_of(one.values[rule.metric.name])}"
                           for rule in found.question.constraints)  # fmt: skip
        told.append(f"Nearest to the constraints: {found.named(one)} with {values}.")
    return told


def text_of(value: Measured) -> str:
    """A value with its unit."""
    if value.is_endless:
        return _ENDLESS
    return estimate_text(value.value, value.unit)


def with_interval(value: Measured) -> str:
    """A value with its unit, and its 95 % interval where it has one that is wider than nothing."""
    low, high = value.found.low, value.found.high
    if value.is_endless or low is None or low == high:
        return text_of(value)
    return f"{text_of(value)} ({interval_text(low, high, value.unit)})"


def tables(found: Answered) -> list[ShownTable]:
    """The front beside the recommended point, all points, and what cannot be."""
    shown = [_front_table(found), _all_points(found), _refused(found)]
    return [one for one in shown if one.rows]


def _front_table(found: Answered) -> ShownTable:
    """A row for each point of the front, the recommended one first."""
    taken = found.front.recommendation
    metrics = found.question.metrics
    rows = []
    for one in found.front.points:
        word = "recommended" if taken and one is taken.taken else ""
        if taken and one in (*taken.ties, *taken.overlapping):
            word = "not told apart"
        values = [with_interval(one.values[metric.name]) for metric in metrics]
        changes = []
        for metric in found.question.objectives:
            by = change(one.values[metric.name], taken.taken.values[metric.name]) if taken else None
            is_same = taken is not None and one is taken.taken
            changes.append("" if is_same or by is None else estimate_text(by, CHANGE))
        rows.append((f"#{one.number}", found.label(one), *values, *changes, word))
    columns = ["point", "choices", *(_column(found, metric.name) for metric in metrics)]
    columns += [f"{metric.title}, change" for metric in found.question.objectives]
    note = (
        "Nearest to the best values first. Values are means over the repeats, with 95 % intervals. "
        "Change: against the recommended point."
    )
    return ShownTable("front", "Points that no other beats", (*columns, ""), tuple(rows), 2, note)


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


def conditions(found: Answered) -> tuple[tuple[str, str], ...]:
    """Under which conditions the answer holds."""
    study, outcome = found.space.study, found.outcome
    host = study.get("host") or {}
    told = [("study", found.space.base)]
    varied = {axis.key.rpartition(".")[2] for axis in found.space.axes}
    for name in ("part", "board", "kernel", "device", "blocks"):
        value = study.get(name) or host.get(name)
        if value and name not in varied:
            told.append((name, str(value)))
    size = found.space.count()
    told += [
        ("points of the space", "more than a million" if size is None else f"{size:,}"),
        ("evaluated", f"{len(outcome.found):,}"),
        ("cannot be", f"{outcome.refused.total():,}"),
        ("repeats", str(study.get("repeats", 1))),
        ("seed of the study", str(study.get("seed", 1))),
        ("seed of the search", str(found.seed)),
        ("proposed by", found.sampler),
    ]
    if found.question.constraints:
        told.append(("constraints", ", ".join(one.text for one in found.question.constraints)))
    if (rate := found.question.host_bytes_a_day) is not None:
        told.append(("host writes", f"{estimate_text(rate, 'bytes')} a day"))
    return tuple(told)


def presented(found: Answered) -> Presented:
    """What the page and the terminal show."""
    run = _frame(found)
    shown = [one.head(FRONT_ROWS) if one.identifier == "front" else one for one in tables(found)]
    return unclaimed(run, headline(found), shown, charts(found), conditions(found), remarks(found))


def _frame(found: Answered) -> RunFrame:
    """The values of all points as rows, which the page is made of."""
    import polars

    rows = [
        {"point": one.number, "repeat": 1, "metric": name, "value": value.value, "unit": value.unit}
        for one in found.outcome.found
        for name, value in one.values.items()
    ]
    kinds = {"point": polars.Int64, "repeat": polars.Int64, "metric": polars.String,
             "value": polars.Float64, "unit": polars.String}  # fmt: skip
    frame = polars.DataFrame(rows, schema=kinds)
    title = found.space.title or f"Search of {found.space.base}"
    study: Mapping[str, Any] = {
        "name": "search",
        "title": title,
        "seed": found.seed,
        "repeats": found.space.study.get("repeats", 1),
    }
    return RunFrame(study, ("point",), frame, polars.DataFrame(), found.digest)


def data_of(found: Answered, folder: Path) -> dict[str, Any]:
    """The answer as plain data: what `search.json` and `--json` hold."""
    taken = found.front.recommendation
    on_front = {one.number for one in found.front.points}
    return {
        "version": __version__,
        "space": str(found.space.path),
        "folder": str(folder),
        "headline": headline(found),
        "conditions": dict(conditions(found)),
        "objectives": [{"metric": one.name, "direction": one.direction}
                       for one in found.question.objectives],
        "constraints": [one.text for one in found.question.constraints],
        "rule": RULE,
        "recommendation": None if taken is None else {
            "point": taken.taken.number,
            "choices": dict(taken.taken.point.choices),
            "study": f"{POINTS}/{taken.taken.point.key}/{STUDY_FILE}",
            "distance": taken.distance,
            "is_decided": taken.is_decided,
            "ties": [one.number for one in taken.ties],
            "overlapping": [one.number for one in taken.overlapping],
            "uncertain_constraints": list(taken.uncertain),
            "costs": list(remarks(found)[0][1]),
        },
        "front": [one.number for one in found.front.points],
        "points": [{
            "point": one.number,
            "key": one.point.key,
            "choices": dict(one.point.choices),
            "values": {name: _value(value) for name, value in one.values.items()},
            "keeps_constraints": one.keeps(found.question.constraints),
            "is_on_front": one.number in on_front,
        } for one in found.outcome.found],
        "refused": [{"reason": why, "points": count, "example": found.outcome.examples[why]}
                    for why, count in found.outcome.refused.most_common()],
        "is_exhausted": found.outcome.is_exhausted,
        "digest": found.digest,
    }  # fmt: skip


def _value(value: Measured) -> dict[str, Any]:
    estimate = value.value if math.isfinite(value.value) else None
    return {"value": estimate, "low": value.found.low, "high": value.found.high,
            "repeats": value.found.n, "unit": value.unit, "is_endless": value.is_endless}  # fmt: skip


def points_rows(found: Answered) -> list[dict[str, Any]]:
    """A row for each point, for other programs."""
    on_front = {one.number for one in found.front.points}
    rows = []
    for one in found.outcome.found:
        row: dict[str, Any] = {"point": one.number, "key": one.point.key}
        for axis in found.space.axes:
            row[axis.name] = one.point.choices.get(axis.key)
        for name, value in one.values.items():
            row |= {name: value.value, f"{name}_low": value.found.low,
                    f"{name}_high": value.found.high}  # fmt: skip
        row["keeps_constraints"] = one.keeps(found.question.constraints)
        row["is_on_front"] = one.number in on_front
        rows.append(row)
    return rows


def points_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows as comma-separated values."""
    text = io.StringIO()
    names = list(rows[0]) if rows else ["point"]
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def write(found: Answered, folder: Path, command: str) -> Presented:
    """Writes data, page and the picture of the first figure into the folder of a search."""
    shown = presented(found)
    page = render(shown, command)
    pictures = {}
    for one in shown.charts:
        place = folder / FIGURES / f"{one.identifier}.png"
        pictures[place] = picture(one.specification, one.title, place)
    with held():
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / SEARCH_JSON, f"{json_text(data_of(found, folder))}\n".encode())
        write_whole(folder / POINTS_CSV, points_text(points_rows(found)).encode())
        write_whole(folder / REPORT, page.encode())
        for place, drawn in pictures.items():
            place.parent.mkdir(exist_ok=True)
            write_whole(place, drawn)
    return shown


def _capital(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"
