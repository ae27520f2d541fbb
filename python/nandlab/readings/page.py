"""An answer as a page of tables, for the terminal and for documents."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nandlab.present.units import percent


@dataclass(frozen=True)
class Table:
    """A table with a title; `note` is a sentence above it."""

    title: str
    note: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: frozenset[int] = frozenset()
    """Columns that are set to the right."""


def page_of(answer: Mapping[str, Any]) -> str:
    """The tables as Markdown."""
    parts = []
    for table in tables_of(answer):
        lines = [f"### {table.title}", ""] + ([table.note, ""] if table.note else [])
        if table.rows:
            ends = ["---:" if i in table.numbers else "---" for i in range(len(table.columns))]
            rows = [table.columns, ends, *table.rows]
            lines += [f"| {' | '.join(row)} |" for row in rows] + [""]
        parts.append("\n".join(lines))
    return "\n".join(parts)


def tables_of(answer: Mapping[str, Any]) -> list[Table]:
    """What the command prints, in its order."""
    makers = (_readings, _effects, _cells, _orders, _against, _measurements, _trust, _not_tried)
    return [table for make in makers if (table := make(answer)) is not None]


def summary(answer: Mapping[str, Any]) -> str:
    """What was searched, in a sentence or two."""
    design = answer["design"]
    what = f"{design['readings']:,} joint readings"
    if not design["is_whole"]:
        what += f", a balanced draw of {design['product']:,},"
    return (
        f"{', '.join(answer['studies'])}: {what} of {design['free_choices']} unsaid choices "
        f"from {design['runs']:,} runs; every option is in at least "
        f"{design['least_readings_of_an_option']:,} readings."
    )


def differing(answer: Mapping[str, Any]) -> list[str]:
    """Choices in which the readings of an answer differ, or differ from what is shipped."""
    readings = [one["choices"] for one in (*answer["readings"], *answer["shipped"].values())]
    return [name for name in readings[0] if len({one[name] for one in readings}) > 1]


def _readings(answer: Mapping[str, Any]) -> Table:
    named = differing(answer)
    same = [name for name in answer["readings"][0]["choices"] if name not in named]
    rows = [(str(number), one) for number, one in enumerate(answer["readings"], 1)]
    rows += [(f"shipped by {study}", one) for study, one in answer["shipped"].items()]
    columns = ("reading", "error", "shape", "tau", "from best", "alike", *named)
    cells = tuple(
        (name, percent(one["error"]), percent(one["shape_error"]), _tau(one["tau"]),
         percent(one["from_best"]), f"{one['alike']:,}", *(one["choices"][c] for c in named))
        for name, one in rows
    )  # fmt: skip
    note = summary(answer)
    if same:
        choices = answer["readings"][0]["choices"]
        note += f" In all of these: {', '.join(f'{name} {choices[name]}' for name in same)}."
    note += " Readings within 5 % of each other count as one; `alike` says how many do."
    return Table("The nearest joint readings", note, columns, cells, frozenset(range(1, 6)))


def _effects(answer: Mapping[str, Any]) -> Table:
    rows = []
    for one in answer["effects"]:
        errors = "; ".join(f"{name}: {percent(e)}" for name, e in one["least_error"].items())
        shipped = ", ".join(dict.fromkeys(one["shipped"].values()))
        rows.append((one["choice"], one["unsaid"], percent(one["share"]), shipped, errors))
    note = "Share: of the variance of the score, by this choice alone (first-order effect)."
    columns = ("choice", "what is unsaid", "share", "shipped", "least error with each option")
    return Table("What each choice moves", note, columns, tuple(rows), frozenset({2}))


def _cells(answer: Mapping[str, Any]) -> Table:
    several = len(answer["studies"]) > 1
    rows = tuple(
        ((f"{one['study']}: " if several else "") + one["group"], f"{one['cells']:,}",
         percent(one["shipped"]), percent(one["best"]), percent(one["least"]))
        for one in answer["cells"]
    )  # fmt: skip
    note = "Mean absolute difference from the published numbers, as a part of them."
    columns = ("cells", "n", "shipped", "best reading", "least of any reading")
    return Table("Errors by group of cells", note, columns, rows, frozenset(range(1, 5)))


def _orders(answer: Mapping[str, Any]) -> Table | None:
    rows = tuple(
        (one["order"], " < ".join(one["published"]), _tau(one["shipped"]), _tau(one["best"]),
         _tau(one["most"]), percent(one["share"]))
        for one in answer["orders"]
    )  # fmt: skip
    note = "Kendall's tau: 1 is the published order, -1 its reverse. Ties count as 0."
    columns = ("order", "published", "shipped", "best reading", "most", "readings that have it")
    return Table("Published orders", note, columns, rows, frozenset(range(2, 6))) if rows else None


def _against(answer: Mapping[str, Any]) -> Table:
    found = answer["against_every_reading"]
    rows = tuple(
        (f"{one['study']}: {one['group']}", one["cell"], one["certainty"],
         f"{one['published']:.4g}", f"{one['nearest']:.4g}")
        for one in found
    )  # fmt: skip
    note = "Printed cells that no reading comes nearer to than 10 %, others than 15 or 20 %."
    if not rows:
        note = "No cell contradicts every reading."
    columns = ("cells", "cell", "certainty", "published", "nearest")
    return Table("Cells against every reading", note, columns, rows, frozenset({3, 4}))


def _measurements(answer: Mapping[str, Any]) -> Table | None:
    rows = tuple(
        (one["measurement"], f"{one['minutes']:.1f}", percent(one["separation"]),
         percent(one["per_minute"]), ", ".join(f"{value:.3g}" for value in one["values"]))
        for one in answer["measurements"]
    )  # fmt: skip
    note = "What would tell these readings apart on a real board, the cheapest first."
    columns = ("measurement", "minutes", "separation", "a minute", "by reading")
    title = "Measurements that decide"
    return Table(title, note, columns, rows, frozenset(range(1, 4))) if rows else None


def _trust(answer: Mapping[str, Any]) -> Table:
    trust, best = answer["trust"], answer["readings"][0]
    design = answer["design"]
    rows = [
        ("error of the best reading", percent(best["error"])),
        ("free choices, options", f"{design['free_choices']}, {design['options']}"),
    ]
    for name, one in trust["left_out"].items():
        rows.append((f"error of {name}, chosen without it", percent(one["error"])))
    if (shuffled := trust["shuffled"]) is None:
        rows.append(("shuffled references", "too few cells to shuffle"))
    else:
        median, as_good = percent(shuffled["median_error"]), shuffled["as_good"]
        rows.append((
            "shuffled references that fit as well", f"{as_good} of {shuffled['draws']}"
        ))  # fmt: skip
        rows.append(("median error of the best reading of a shuffled reference", median))
    planted = trust["planted"]
    found = f"{planted['found']} of {planted['draws']}"
    rows.append(("hidden readings found again, with noise of 5 %", found))
    return Table("How far to trust it", "", ("check", "value"), tuple(rows), frozenset({1}))


def _not_tried(answer: Mapping[str, Any]) -> Table | None:
    rows = tuple((study, one) for study, found in answer["not_tried"].items() for one in found)
    return Table("Not tried", "", ("study", "what"), rows) if rows else None


def _tau(value: float | None) -> str:
    return "-" if value is None else f"{value:+.2f}"
