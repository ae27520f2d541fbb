"""An answer as tables: for the terminal, for documents, and as a chapter of a report."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nandlab.present.tables import ShownTable
from nandlab.present.units import percent

RECORDED = "readings.json"
"""The answer on record in the folder of a study, which the chapter of its report shows."""

Answer = Mapping[str, Any]


def page_of(answer: Answer) -> str:
    """The tables as Markdown."""
    parts = []
    for table in tables_of(answer):
        ends = ["---" + ":" * (place >= table.first_number) for place in range(len(table.columns))]
        rows = [f"| {' | '.join(row)} |" for row in (table.columns, ends, *table.rows)]
        parts.append("\n".join([f"### {table.title}\n", f"{table.caption}\n", *rows, ""]))
    return "\n".join(parts)


def tables_of(answer: Answer) -> list[ShownTable]:
    """What the command prints, in its order; a table without rows is left out."""
    makers = (_readings, _effects, _cells, _orders, _against, _measurements, _trust, _not_tried)
    return [table for make in makers if (table := make(answer)).rows]


def summary(answer: Answer) -> str:
    """What was searched, in a sentence."""
    design = answer["design"]
    what = f"{design['readings']:,} joint readings"
    if not design["is_whole"]:
        what += f", a balanced draw of {design['product']:,},"
    return (
        f"{what} of {design['free_choices']} unsaid choices from {design['runs']:,} runs; "
        f"every option is in at least {design['least_readings_of_an_option']:,} readings."
    )


def chapter(folder: Path) -> tuple[ShownTable, tuple[str, ...]] | None:
    """The chapter of a study's report: what is unsaid, what each choice moves, what decides.

    None of a study without an answer on record. A joint answer shows the choices of the study.
    """
    path = folder / RECORDED
    if not path.is_file():
        return None
    answer = json.loads(path.read_text(encoding="utf-8"))
    study, best = folder.name, answer["readings"][0]
    rows = []
    for one in answer["effects"]:
        if study in one["shipped"]:
            options = "; ".join(f"{k}: {percent(e)}" for k, e in one["least_error"].items())
            nearest = best["choices"][one["choice"]]
            shares = (options, percent(one["share"]))
            rows.append((one["unsaid"], one["shipped"][study], nearest, *shares))
    columns = ("What is unsaid", "shipped", "nearest", "least error with each option", "share")
    caption = "Share: of the variance of the error, by this choice alone (first-order effect)."
    shipped, others = answer["shipped"][study], answer["studies"]
    told = [
        f"Searched with {', '.join(others)}: {summary(answer)}"
        if len(others) > 1
        else f"Searched: {summary(answer)}",
        f"The nearest reading is off by {percent(best['error'])}, the shipped one by "
        f"{percent(shipped['error'])}. {_luck(answer)}",
    ]
    if against := sum(one["study"] == study for one in answer["against_every_reading"]):
        cells = "1 cell contradicts" if against == 1 else f"{against} cells contradict"
        told.append(f"{cells} every reading.")
    if answer["measurements"] and (first := answer["measurements"][0])["separation"] > 0:
        told.append(
            f"The cheapest measurement that would decide: {first['measurement']} "
            f"({first['minutes']:.1f} minutes; the nearest readings differ by a factor of "
            f"{_factor(first['separation'])} there)."
        )
    return ShownTable("unsaid", "What is unsaid", columns, tuple(rows), 4, caption), tuple(told)


def _luck(answer: Answer) -> str:
    shuffled = answer["trust"]["shuffled"]
    if shuffled is None:
        return "There are too few cells to shuffle."
    return (
        f"Of {shuffled['draws']} shuffled references {shuffled['as_good']} are fitted as well by "
        "some reading."
    )


def _readings(answer: Answer) -> ShownTable:
    rows = [(str(number), one) for number, one in enumerate(answer["readings"], 1)]
    rows += [(f"shipped: {study}", one) for study, one in answer["shipped"].items()]
    first = answer["readings"][0]["choices"]
    named = [name for name in first if len({one["choices"][name] for _, one in rows}) > 1]
    cells = tuple(
        (name, *(one["choices"][c] for c in named), percent(one["error"]),
         percent(one["shape_error"]), _tau(one["tau"]), percent(one["from_best"]),
         f"{one['alike']:,}")
        for name, one in rows
    )  # fmt: skip
    same = [f"{name} {first[name]}" for name in first if name not in named]
    note = f"{', '.join(answer['studies'])}: {summary(answer)}"
    note += f" In all of these: {', '.join(same)}." if same else ""
    note += " Readings within 5 % of each other count as one: `alike` counts them."
    columns = ("reading", *named, "error", "shape", "tau", "from best", "alike")
    return ShownTable(
        "readings", "The nearest joint readings", columns, cells, 1 + len(named), note
    )


def _effects(answer: Answer) -> ShownTable:
    rows = []
    for one in answer["effects"]:
        errors = "; ".join(f"{name}: {percent(e)}" for name, e in one["least_error"].items())
        shipped = ", ".join(dict.fromkeys(one["shipped"].values()))
        rows.append((one["choice"], one["unsaid"], shipped, errors, percent(one["share"])))
    note = "Share: of the variance of the score, by this choice alone (first-order effect)."
    columns = ("choice", "what is unsaid", "shipped", "least error with each option", "share")
    return ShownTable("effects", "What each choice moves", columns, tuple(rows), 4, note)


def _cells(answer: Answer) -> ShownTable:
    rows = tuple(
        (one["study"], one["group"], f"{one['cells']:,}", percent(one["shipped"]),
         percent(one["best"]), percent(one["least"]))
        for one in answer["cells"]
    )  # fmt: skip
    note = "Mean absolute difference from the published numbers, as a part of them."
    columns = ("study", "cells", "n", "shipped", "best reading", "least of any reading")
    return ShownTable("cells", "Errors by group of cells", columns, rows, 2, note)


def _orders(answer: Answer) -> ShownTable:
    rows = tuple(
        (one["order"], " < ".join(one["published"]), _tau(one["shipped"]), _tau(one["best"]),
         _tau(one["most"]), percent(one["share"]))
        for one in answer["orders"]
    )  # fmt: skip
    note = "Kendall's tau: 1 is the published order, -1 its reverse. Ties count as 0."
    columns = ("order", "published", "shipped", "best reading", "most", "readings that have it")
    return ShownTable("orders", "Published orders", columns, rows, 2, note)


def _against(answer: Answer) -> ShownTable:
    rows = tuple(
        (one["study"], one["group"], one["cell"], one["certainty"], f"{one['published']:.4g}",
         f"{one['nearest']:.4g}")
        for one in answer["against_every_reading"]
    )  # fmt: skip
    note = "No reading comes nearer than 10 %, or than 15 or 20 % to a cell that is not printed."
    columns = ("study", "cells", "cell", "certainty", "published", "nearest")
    return ShownTable("against", "Cells against every reading", columns, rows, 4, note)


def _measurements(answer: Answer) -> ShownTable:
    rows = tuple(
        (one["study"], one["measurement"], ", ".join(f"{value:.3g}" for value in one["values"]),
         f"{one['minutes']:.1f}", _factor(one["separation"]), f"{one['per_minute']:.2g}")
        for one in answer["measurements"]
    )  # fmt: skip
    note = "By the mean log ratio of the readings above a minute of board time."
    columns = ("study", "measurement", "by reading", "minutes", "factor apart", "a minute")
    return ShownTable("measurements", "Measurements that decide", columns, rows, 3, note)


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


def _not_tried(answer: Answer) -> ShownTable:
    rows = tuple((study, one) for study, found in answer["not_tried"].items() for one in found)
    return ShownTable("not-tried", "Not tried", ("study", "what"), rows, 2)


def _tau(value: float | None) -> str:
    return "-" if value is None else f"{value:+.2f}"


def _factor(part: float) -> str:
    """A distance as a factor: 0.1 is 1.1."""
    return f"{1 + part:.2f}" if math.isfinite(part) else "-"
