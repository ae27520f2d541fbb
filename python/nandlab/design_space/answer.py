"""What a search answers as data and as a page."""

import csv
import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nandlab import __version__
from nandlab.design_space.answered import Answered
from nandlab.design_space.decision import POINTS_CSV, tables
from nandlab.design_space.figure import charts
from nandlab.design_space.front import RULE
from nandlab.design_space.metrics import Measured
from nandlab.design_space.points import POINTS
from nandlab.design_space.words import headline, remarks
from nandlab.frame import RunFrame
from nandlab.json_text import json_text
from nandlab.outputs import keep, write_whole
from nandlab.present.drawing import picture
from nandlab.present.page import FIGURES, REPORT, Presented, render, unclaimed
from nandlab.present.units import estimate_text
from nandlab.study_files import STUDY_FILE

SEARCH_JSON = "search.json"


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
    return unclaimed(
        run, headline(found), tables(found), charts(found), conditions(found), remarks(found)
    )


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
            "has_intervals": taken.has_intervals,
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
    found = value.found
    return {"value": estimate, "low": found.low, "high": found.high, "repeats": found.n,
            "unit": value.unit, "is_endless": value.is_endless}  # fmt: skip


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
    """Writes data, page and the picture of the first figure into the folder of a search.

    Raises `NandlabError` if the folder does not take them, with the place that does.
    """
    shown = presented(found)
    page = render(shown, command)
    pictures = {}
    for one in shown.charts:
        name = f"{one.identifier}.png"
        pictures[name] = picture(one.specification, one.title, folder / FIGURES / name)

    def put(place: Path) -> None:
        (place / FIGURES).mkdir(parents=True, exist_ok=True)
        write_whole(place / SEARCH_JSON, f"{json_text(data_of(found, folder))}\n".encode())
        write_whole(place / POINTS_CSV, points_text(points_rows(found)).encode())
        write_whole(place / REPORT, page.encode())
        for name, drawn in pictures.items():
            write_whole(place / FIGURES / name, drawn)

    keep(folder, put)
    return shown
