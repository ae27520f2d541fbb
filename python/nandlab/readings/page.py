"""An answer as tables: for the terminal, for documents, and as a chapter of a report."""

import json
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from nandlab.present.tables import ShownTable
from nandlab.present.units import estimate_text, interval_text, percent

RECORDED = "readings.json"
"""The answer on record in the folder of a study, which the chapter of its report shows."""

_WIDTH = 110
"""Characters of a line of a document."""

Answer = Mapping[str, Any]
Form = Callable[[Any], str]


def page_of(answer: Answer) -> str:
    """The tables as Markdown."""
    parts = []
    for table in tables_of(answer):
        ends = ["---" + ":" * (place >= table.first_number) for place in range(len(table.columns))]
        rows = [f"| {' | '.join(row)} |" for row in (table.columns, ends, *table.rows)]
        caption = [f"{textwrap.fill(table.caption, _WIDTH)}\n"] if table.caption else []
        parts.append("\n".join([f"### {table.title}\n", *caption, *rows, ""]))
    return "\n".join(parts)


def tables_of(answer: Answer) -> list[ShownTable]:
    """What the command prints, in its order; a table without rows is left out."""
    if "searches" in answer:
        own = (one for search in answer["searches"] for one in tables_of(search))
        return [_joint(answer), *own]
    others = (_plain(answer, name) for name in _PLAIN if name != "effects")
    found = [_readings(answer), _plain(answer, "effects"), shared(answer), nearest(answer),
             claims(answer), contradictions(answer), *others, _trust(answer)]  # fmt: skip
    gaps = tuple((study, one) for study, own in answer["not_tried"].items() for one in own)
    found.append(ShownTable("not_tried", "Not tried", ("study", "what"), gaps, 2))
    return [one for one in found if one.rows]


def _joint(answer: Answer) -> ShownTable:
    """A row for each study, where studies that share nothing are searched apart."""
    rows = []
    for one in answer["readings"]:
        design, error, claims = one["design"], one["error"], one["claims"]
        size = f"{design['readings']:,} of {design['product']:,}"
        kept = "; ".join(str(one["supported"][key]) for key in ("shipped", "best"))
        taken = "; ".join(f"{name}: {option}" for name, option in one["choices"].items())
        rows.append((
            one["study"], ", ".join(one["searched_with"]) or "apart", taken, size,
            str(one["cells"]), percent(error["shipped"]), percent(error["best"]),
            f"{kept} of {claims}",
        ))  # fmt: skip
    columns = ("study", "searched with", "best reading", "readings", "cells", "error shipped",
               "best", "claims supported")  # fmt: skip
    note = (
        "Studies that share a choice are searched together, others apart. Errors are mean absolute "
        "differences from the published numbers. Claims supported: under the shipped reading; "
        "under the best one, of those that the search decides."
    )
    return ShownTable("joint", "All studies", columns, tuple(rows), 3, note)


def summary(answer: Answer) -> str:
    """What was searched, in a sentence."""
    design = answer["design"]
    what = f"{', '.join(answer['studies'])}: {design['readings']:,} joint readings"
    if not design["is_whole"]:
        what += f", a balanced draw of {design['product']:,},"
    return (
        f"{what} of {design['free_choices']} unsaid choices from {design['runs']:,} runs; "
        f"every option is in at least {design['least_readings_of_an_option']:,} readings."
    )


def claims(answer: Answer, study: str = "") -> ShownTable:
    """Status of each claim that the search decides; of one study, or of all."""
    study = _only(answer, study)
    own = [one for one in answer.get("claims", ()) if study in ("", one["study"])]
    rows = []
    for one in own:
        if one["is_run"]:
            best, shares = one["best"], one["shares"]
            shown = estimate_text(best["estimate"], best["unit"])
            interval = interval_text(best["low"], best["high"], best["unit"])
            cells = (one["text"], one["shipped"]["status"], best["status"], shown, interval,
                     _count(best["n"]))  # fmt: skip
            parts = [percent(shares[status]) for status in ("supported", "contradicted")]
            rows.append((*([] if study else [one["study"]]), *cells, *parts))
    fixed = sum(one["best"]["status"] == "by construction" for one in own)
    left = len(own) - len(rows) - fixed
    note = (
        f"{len(rows)} of {len(own)} claims; {fixed} hold by construction, and {left} rest on runs "
        "that the search leaves out. The last two columns are shares of all joint readings."
    )
    for one in answer.get("short_forms", ()):
        if study in ("", one):
            note += (
                f" {one} is judged on its short form, which is less than its own claims rest on."
            )
    columns = [] if study else ["study"]
    columns += ["claim", "shipped", "best reading", "estimate there", "interval", "n",
                "supported in", "contradicted in"]  # fmt: skip
    first = columns.index("estimate there")
    title = "Claims under the readings"
    return ShownTable("joint_claims", title, tuple(columns), tuple(rows), first, note)


def nearest(answer: Answer, study: str = "") -> ShownTable:
    """The joint reading that comes nearest to each published number and claim."""
    study, rows = _only(answer, study), []
    for one in answer.get("numbers", ()):
        if study in ("", one["study"]):
            bound = {"at_least": "at least ", "at_most": "at most "}.get(one["relation"], "")
            said, found = f"{bound}{_number(one['published'])}", one["nearest"]
            status = "reached" if one["is_reached"] else "not reached"
            cells = (f"{one['number']}: {said}", status, _number(found["value"]), "-", "-",
                     percent(one["share"]))  # fmt: skip
            rows.append((*([] if study else [one["study"]]), *cells, *_where(answer, one)))
    for one in answer.get("claims", ()):
        if study in ("", one["study"]) and one["is_run"] and one["best"]["status"] != "supported":
            found = one["nearest"]
            shown = estimate_text(found["estimate"], found["unit"])
            if found["low"] is not None and found["reason"]:
                shown += f" ({found['reason']})"
            interval = interval_text(found["low"], found["high"], found["unit"])
            cells = (one["text"], found["status"], shown, interval, _count(found["n"]),
                     percent(one["shares"]["supported"]))  # fmt: skip
            rows.append((*([] if study else [one["study"]]), *cells, *_where(answer, one)))
    columns = [] if study else ["study"]
    columns += ["number or claim", "nearest", "there", "interval", "n", "in readings", "reading",
                "cells against it"]  # fmt: skip
    note = (
        "Numbers, and claims that the best reading does not support. A claim's nearest reading "
        "supports it, or contradicts it least; of several, the one of least error. A reading is "
        "given by what it chooses otherwise than the best one. In readings: the share that "
        "comes within 10 % of the number, or supports the claim. Cells against it: those that it "
        "misses by more than 10 %."
    )
    title = "The reading nearest to each number and claim"
    return ShownTable("nearest", title, tuple(columns), tuple(rows), len(columns), note)


def contradictions(answer: Answer, study: str = "") -> ShownTable:
    """Where publications contradict themselves, with both sides scored."""
    study, rows = _only(answer, study), []
    for one in answer.get("contradictions", ()):
        if study in ("", one["study"]):
            if one["kind"] == "claim":
                found = [one["best"]["status"], one["shipped"]["status"]]
                found.append(f"supported in {percent(one['share'])}")
            else:
                off = [_off(one[key]) for key in ("best", "shipped", "least")]
                found = [*off[:2], f"least {off[2]}"]
            cells = (one["about"], one["says"], one["where"], *found)
            rows.append((*([] if study else [one["study"]]), *cells))
    columns = [*([] if study else ["study"]), "about", "it says", "where", "best reading",
               "shipped", "all readings"]  # fmt: skip
    note = (
        "A number is scored by how far a reading is from it, a statement by its status, and an "
        "option by the error over all cells of the reading that takes it."
    )
    title = "Where the publication contradicts itself"
    return ShownTable("contradictions", title, tuple(columns), tuple(rows), len(columns), note)


def shared(answer: Answer) -> ShownTable:
    """Options of the choices that several studies share, in sample and left out."""
    names = answer["studies"]
    rows = tuple(
        (one["choice"], one["option"], percent(one["error"]),
         *(percent(one["by_study"][name]) for name in names),
         *(percent(one["left_out"][name]) for name in names))
        for one in answer.get("shared", ())
    )  # fmt: skip
    columns = ["choice", "option", "error", *(f"of {name}" for name in names),
               *(f"{name} left out" for name in names)]  # fmt: skip
    note = (
        "Error: that of the best reading with the option, over all studies and of each one. Left "
        "out: the error of a study where the others chose the reading, among those with the option."
    )
    return ShownTable("shared", "What the studies share", tuple(columns), rows, 2, note)


def _only(answer: Answer, study: str) -> str:
    """The study that a table is of, or that the answer is of alone; empty if of several."""
    return study or (answer["studies"][0] if len(answer["studies"]) == 1 else "")


def _where(answer: Answer, row: Mapping[str, Any]) -> tuple[str, str]:
    """The nearest reading as it differs from the best one, and the cells against it."""
    best = answer["readings"][0]["choices"]
    own = [f"{name}: {option}" for name, option in row["nearest"]["choices"].items()
           if best[name] != option]  # fmt: skip
    against = row["nearest"]["against"]
    told = f"{against['missed']} of {against['cells']}"
    if against["missed"]:
        told += f"; most {against['worst']} (×{_number(against['factor'])})"
    return "; ".join(own) or "as the best", told


def _off(part: float | None) -> str:
    return "not drawn" if part is None else percent(part)


def _count(value: int | None) -> str:
    return "-" if value is None else str(value)


def chapter(folder: Path, study: str) -> tuple[ShownTable, tuple[str, ...]] | None:
    """The chapter of a study's report: what is unsaid, what each choice moves, what decides.

    None of a study without an answer on record. A joint answer shows the choices of the study.
    """
    answer = _recorded(folder)
    if answer is None:
        return None
    best = answer["readings"][0]
    rows = tuple(
        (one["unsaid"], one["shipped"][study], best["choices"][one["choice"]],
         _options(one["least_error"]), percent(one["share"]), percent(one["total_share"]))
        for one in answer["effects"] if study in one["shipped"]
    )  # fmt: skip
    columns = ["What is unsaid", "shipped", "nearest", "least error with each option"]
    columns += ["alone", "with others"]
    told = [summary(answer)]
    errors = percent(best["error"]), percent(answer["shipped"][study]["error"])
    told.append("The nearest reading is off by {}, the shipped one by {}.".format(*errors))
    if shuffled := answer["trust"]["shuffled"]:
        told.append(
            f"Some reading fits {shuffled['as_good']} of {shuffled['draws']} shuffled references "
            "as well."
        )
    if against := sum(one["study"] == study for one in answer["against_every_reading"]):
        cells = "1 cell contradicts" if against == 1 else f"{against} cells contradict"
        told.append(f"{cells} every reading.")
    for first in answer["measurements"][:1]:
        told.append(
            f"The cheapest measurement that decides: {first['measurement']}. It takes "
            f"{first['minutes']:.1f} minutes, and the nearest readings differ by a factor of "
            f"{_factor(first['separation'])} there."
        )
    caption = _PLAIN["effects"][1]
    return ShownTable("unsaid", "What is unsaid", tuple(columns), rows, 4, caption), tuple(told)


def chapter_tables(folder: Path, study: str) -> list[ShownTable]:
    """What the record says of a study's claims, numbers and contradictions."""
    answer = _recorded(folder)
    if answer is None:
        return []
    found = (claims(answer, study), nearest(answer, study), contradictions(answer, study),
             shared(answer))  # fmt: skip
    return [one for one in found if one.rows]


def _recorded(folder: Path) -> Answer | None:
    path = folder / RECORDED
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def _readings(answer: Answer) -> ShownTable:
    """A column for each reading: what it scores, and what it chooses where readings differ."""
    is_one = len(answer["shipped"]) == 1
    found = {str(number): one for number, one in enumerate(answer["readings"], 1)}
    found |= {"shipped" if is_one else f"{name} ships": one
              for name, one in answer["shipped"].items()}  # fmt: skip
    scores: tuple[tuple[str, str, Form], ...] = (
        ("error", "error", percent), ("shape", "shape_error", percent), ("tau", "tau", _tau),
        ("from the first", "from_best", percent), ("readings alike", "alike", "{:,}".format),
    )  # fmt: skip
    rows = [(name, *(form(one[key]) for one in found.values())) for name, key, form in scores]
    same = []
    for name, option in answer["readings"][0]["choices"].items():
        own = [one["choices"][name] for one in found.values()]
        rows.append((name, *own))
        if len(set(own)) == 1:
            same.append(f"{name} {option}")
            rows.pop()
    note = summary(answer) + (f" In all of these: {', '.join(same)}." if same else "")
    note += " Readings within 5 % of each other count as one."
    title = "The nearest joint readings"
    return ShownTable("readings", title, ("reading", *found), tuple(rows), 1, note)


def _plain(answer: Answer, name: str) -> ShownTable:
    title, note, first_number, columns = _PLAIN[name]
    rows = tuple(tuple(form(row[key]) for _, key, form in columns) for row in answer[name])
    return ShownTable(name, title, tuple(one[0] for one in columns), rows, first_number, note)


def _trust(answer: Answer) -> ShownTable:
    trust, design = answer["trust"], answer["design"]
    rows = [
        ("error of the best reading", percent(answer["readings"][0]["error"])),
        ("free choices, options", f"{design['free_choices']}, {design['options']}"),
    ]
    for name, one in trust["left_out"].items():
        rows.append((f"error of {name}, chosen without it", percent(one["error"])))
    if (shuffled := trust["shuffled"]) is None:
        rows.append(("shuffled references", "too few cells to shuffle"))
    else:
        fits = f"{shuffled['as_good']} of {shuffled['draws']}"
        rows.append(("shuffled references that some reading fits as well", fits))
        rows.append(("median error of their best readings", percent(shuffled["median_error"])))
    planted = trust["planted"]
    found = f"{planted['found']} of {planted['draws']}"
    rows.append(("hidden readings found again, with noise of 5 %", found))
    return ShownTable("trust", "How far to trust it", ("check", "value"), tuple(rows), 1)


def _tau(value: float | None) -> str:
    return "-" if value is None else f"{value:+.2f}"


def _factor(part: float) -> str:
    """A distance as a factor: 0.1 is 1.1."""
    return f"{1 + part:.2f}"


def _options(errors: Mapping[str, float]) -> str:
    return "; ".join(f"{name}: {percent(error)}" for name, error in errors.items())


def _number(value: float) -> str:
    return f"{value:.4g}"


# fmt: off
_PLAIN: Mapping[str, tuple[str, str, int, tuple[tuple[str, str, Form], ...]]] = {
    "effects": (
        "What each choice moves",
        "Shares of the variance of the score: by the choice alone (first-order effect), and with "
        "what it does together with others (total effect).", 4,
        (("choice", "choice", str), ("what is unsaid", "unsaid", str),
         ("shipped", "shipped", lambda own: ", ".join(dict.fromkeys(own.values()))),
         ("least error with each option", "least_error", _options),
         ("alone", "share", percent), ("with others", "total_share", percent)),
    ),
    "cells": (
        "Errors by group of cells",
        "Mean absolute difference from the published numbers, as a part of them.", 2,
        (("study", "study", str), ("cells", "group", str), ("n", "cells", str),
         ("shipped", "shipped", percent), ("best reading", "best", percent),
         ("least of any reading", "least", percent)),
    ),
    "orders": (
        "Published orders",
        "Kendall's tau: 1 is the published order, -1 its reverse. Ties count as 0.", 2,
        (("order", "order", str), ("published", "published", " < ".join),
         ("shipped", "shipped", _tau), ("best reading", "best", _tau), ("most", "most", _tau),
         ("readings that have it", "share", percent)),
    ),
    "against_every_reading": (
        "Cells against every reading",
        "No reading comes nearer than 10 %, or than 15 or 20 % to a cell that is not printed.", 4,
        (("study", "study", str), ("cells", "group", str), ("cell", "cell", str),
         ("certainty", "certainty", str), ("published", "published", _number),
         ("nearest", "nearest", _number)),
    ),
    "measurements": (
        "Measurements that decide",
        "The first has the largest mean log ratio of the readings above a minute of board time.", 3,
        (("study", "study", str), ("measurement", "measurement", str),
         ("by reading", "values", lambda values: ", ".join(f"{one:.3g}" for one in values)),
         ("minutes", "minutes", "{:.1f}".format), ("factor apart", "separation", _factor),
         ("a minute", "per_minute", "{:.2g}".format)),
    ),
}
# fmt: on
"""Tables of rows: title, note, first column of numbers; heading, key and form of each column."""
