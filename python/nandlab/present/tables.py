"""Builds a table from its declaration: for the terminal, a page, JSON and a notebook."""

import html
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from nandlab.claims.evaluate import NoCellError, published_cell
from nandlab.claims.quantity import MissingError, Quantity, sample
from nandlab.claims.statistics import Interval
from nandlab.errors import NandlabError
from nandlab.frame import RunFrame
from nandlab.present.spec import Column, ReportSpec, TableSpec
from nandlab.present.units import estimate_text, interval_text, number, scale_of

if TYPE_CHECKING:
    import polars


CHANGE = "change"
"""The unit of a ratio that is shown less 1, in percent; its interval is on the logarithm."""


@dataclass(frozen=True)
class ShownTable:
    """A finished table; columns from `first_number` on are set to the right."""

    identifier: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    first_number: int
    caption: str = ""

    def head(self, rows: int) -> "ShownTable":
        """The first rows; the title says where some are left out."""
        if len(self.rows) <= rows:
            return self
        title = f"{self.title} (first {rows} of {len(self.rows)})"
        return replace(self, title=title, rows=self.rows[:rows])

    def print(self) -> None:
        """Prints the table in the terminal."""
        from nandlab.terminal.output import print_table

        numeric = frozenset(range(self.first_number, len(self.columns)))
        print_table(self.title, self.columns, self.rows, numeric)

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "title": self.title,
            "columns": list(self.columns),
            "rows": [list(row) for row in self.rows],
            "caption": self.caption,
        }

    def _repr_html_(self) -> str:
        cells = ["".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in self.rows]
        head = "".join(f"<th>{html.escape(title)}</th>" for title in self.columns)
        body = "".join(f"<tr>{row}</tr>" for row in cells)
        caption = f"<caption>{html.escape(self.title)}</caption>"
        return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def measured(run: RunFrame, column: Column, quantity: Quantity) -> Interval | None:
    """The interval of a quantity; None where it was not run. A quick form has no interval."""
    if run.is_quick:
        quantity = Quantity(**{**vars(quantity), "windows": False})
    try:
        found = sample(run, quantity, column.reading.parts)
    except MissingError:
        return None
    if column.unit == CHANGE:
        interval = found.ratio().mapped(lambda ratio: ratio - 1)
    else:
        interval = found.value()
    return Interval(interval.estimate, None, None, interval.n) if run.is_quick else interval


def table(run: RunFrame, spec: TableSpec, report: ReportSpec) -> ShownTable:
    """The table that `spec` declares, over the rows of a run."""
    values = [_values(run, spec, axis) for axis in spec.rows]
    places = [dict(zip(spec.rows, one, strict=True)) for one in itertools.product(*values)]
    shown: list[list[str]] = [[report.name(place[axis]) for axis in spec.rows] for place in places]
    heads = [axis.replace("_", " ") for axis in spec.rows]
    captions = [spec.caption] if spec.caption else []
    keep = [False] * len(places)
    for column in spec.columns:
        cells = [measured(run, column, column.quantity.at(place)) for place in places]
        unit = column.unit or run.units.get(column.quantity.metric, "")
        scale = scale_of([cell.estimate if cell else None for cell in cells], unit)
        published = [published_beside(run, column, place) for place in places]
        has_published = any(one is not None for one in published)
        if has_published:
            heads.append(f"{column.title}, published")
        is_change = unit == CHANGE
        heads.append(column.title if is_change else scale.titled(column.title))
        if has_published and not is_change:
            heads.append("here over published")
        ratios = []
        for index, (cell, one) in enumerate(zip(cells, published, strict=True)):
            keep[index] |= cell is not None
            if is_change:
                changes = [one] if has_published else []
                changes.append(cell.estimate if cell else None)
                shown[index] += [estimate_text(change, unit) for change in changes]
                continue
            if has_published:
                shown[index].append(number(one))
            shown[index].append(number(cell.estimate / scale.size) if cell else "-")
            if has_published:
                ratio = cell.estimate / one if cell and one else None
                ratios += [ratio] if ratio else []
                shown[index].append(number(ratio))
        if ratios:
            captions.append(_distance(column.title, ratios))
    rows = [row for row, is_kept in zip(shown, keep, strict=True) if is_kept]
    return ShownTable(
        spec.identifier,
        spec.title,
        tuple(heads),
        tuple(tuple(row) for row in rows),
        len(spec.rows),
        " ".join(captions),
    )


def claims_table(
    frame: "polars.DataFrame", report: ReportSpec, title: str = "Claims of the publication"
) -> ShownTable:
    """Claims under their first reading: published, here, interval, status.

    A quick form shows neither interval nor status.
    """
    from nandlab.claims.evaluate import counted

    rows = counted(frame).to_dicts()
    is_quick = all(row["status"] == "not judged" for row in rows)
    columns = ["claim", "published", "here"] + ([] if is_quick else ["interval", "n", "status"])
    shown = []
    for row in rows:
        cells = [row["text"], row["published"] or "-", estimate_text(row["estimate"], row["unit"])]
        if not is_quick:
            cells += [interval_text(row["low"], row["high"], row["unit"])]
            cells += [str(row["n"]) if row["n"] is not None else "-", row["status"]]
        shown.append(tuple(cells))
    return ShownTable("claims", title, tuple(columns), tuple(shown), len(columns))


def _values(run: RunFrame, spec: TableSpec, axis: str) -> Sequence[Any]:
    chosen = spec.values.get(axis)
    present = run.values_of(axis)
    if chosen is None:
        return present
    texts = {str(value) for value in present}
    return [value for value in chosen if str(value) in texts]


def published_beside(run: RunFrame, column: Column, place: dict[str, Any]) -> float | None:
    """The published value at a place, as a multiple of another where the quantity is one.

    None where nothing is published: the publication's table need not hold every cell that was run.
    Raises `NandlabError` where several published cells fit, or where a cell would be divided by
    itself.
    """
    if column.published is None or run.reference is None:
        return None
    base = column.quantity.relative_to
    is_direct = base is None or column.published.get("direct")
    if not is_direct and base is not None and not set(base) & set(run.reference.columns):
        raise NandlabError(
            f"{column.title}: the reference has no column {', '.join(base)}, so the published "
            "value would be divided by itself; if it is a change or ratio, add direct = true"
        )
    try:
        found = published_cell(run, column.published, place)
        if found is None or base is None or is_direct:
            return found
        divisor = published_cell(run, column.published, {**place, **base})
    except NoCellError:
        return None
    return found / divisor if divisor else None


def _distance(title: str, ratios: Sequence[float]) -> str:
    logs = [abs(math.log(ratio)) for ratio in ratios]
    factor = math.exp(math.fsum(logs) / len(logs))
    return f"{title}: off by a factor of {number(factor)} in the geometric mean."
