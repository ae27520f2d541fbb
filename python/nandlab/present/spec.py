"""Reads `report.toml`; docs/studies.md describes every key."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nandlab.claims.quantity import Quantity
from nandlab.claims.schema import ClaimFile, Reader, Reading, merged
from nandlab.claims.statistics import Status
from nandlab.errors import NandlabError
from nandlab.frame import MEANINGLESS
from nandlab.present.discussion import placeholders
from nandlab.suggest import unknown

REPORT = "report.toml"

KINDS = ("bars", "curve", "dots", "lines", "points")
"""Kinds of figures, sorted; without one an axis of numbers gives lines, others bars."""

_QUANTITY = {"metric", "select", "relative_to", "pool", "replicates", "reading", "unit"}
_FIGURE = {"id", "title", "caption", "x", "values", "series", "y_title", "x_title", "kind"}
_FIGURE |= {"log_x", "log_y", "published", "full_only", "at", "parts", "table", "x_size"}
_TABLE = {"id", "title", "caption", "rows", "values", "column", "full_only"}
_COLUMN = {"title", "published"}


@dataclass(frozen=True)
class Column:
    """A column of a table: a quantity, and the published column beside it."""

    title: str
    quantity: Quantity
    reading: Reading
    unit: str = ""
    published: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class TableSpec:
    """A table: a row for each combination of the axes `rows`."""

    identifier: str
    title: str
    rows: tuple[str, ...]
    columns: tuple[Column, ...]
    values: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    caption: str = ""
    full_only: bool = False
    """Left out of quick forms, whose cells pool over fewer values than the published ones."""


@dataclass(frozen=True)
class FigureSpec:
    """A figure of one quantity over the axis `x`, a colour for each value of `series`."""

    identifier: str
    title: str
    x: str
    column: Column
    series: str | None = None
    values: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    kind: str | None = None
    caption: str = ""
    x_title: str = ""
    at: Mapping[str, float] = field(default_factory=dict)
    """Numbers at which values of the axis `x` lie, where they are words."""
    parts: Mapping[str, str] = field(default_factory=dict)
    """Metrics that are stacked, by the names of their colours; they take the place of `series`."""
    table: str = ""
    """Table of the run, `latencies` for one, whose rows are drawn instead of a quantity."""
    x_size: float = 1.0
    """What one unit of the x axis is in the table: 1e6 shows nanoseconds as milliseconds."""
    log_x: bool | None = None
    log_y: bool | None = None
    full_only: bool = False
    """Left out of quick forms, whose cells pool over fewer values than the published ones."""


@dataclass(frozen=True)
class HeadlinePart:
    """What candidates are ranked by: a quantity, and what the best of them does."""

    column: Column
    best: str
    phrase: str


@dataclass(frozen=True)
class HeadlineSpec:
    """Which candidates the headline ranks, and by what; or a sentence, and when it is true."""

    axis: str = ""
    values: tuple[Any, ...] = ()
    parts: tuple[HeadlinePart, ...] = ()
    sentence: str = ""
    """Text with placeholders as in the discussion."""
    when: Mapping[str, str] = field(default_factory=dict)
    """Status by claim: with any other status the sentence is not shown."""


@dataclass(frozen=True)
class ChangesSpec:
    """A headline of changes: `subject` changes what is named by what its claims measured."""

    subject: str
    changes: tuple[tuple[str, str], ...]
    """Id of a claim whose predicate is `change`, and what it changes."""


@dataclass(frozen=True)
class ReportSpec:
    """What a report shows."""

    publication: Mapping[str, Any] = field(default_factory=dict)
    headline: HeadlineSpec | ChangesSpec | None = None
    first_figure: str | None = None
    first_claims: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    tables: tuple[TableSpec, ...] = ()
    figures: tuple[FigureSpec, ...] = ()
    first_tables: tuple[str, ...] | None = None
    """Tables that the terminal prints; all if None."""

    def name(self, value: Any) -> str:
        """A value of an axis as the report writes it."""
        if value is None:
            return MEANINGLESS
        return self.names.get(str(value), str(value))


def load_report(folder: Path, claims: ClaimFile) -> ReportSpec:
    """The report of a study's folder; one without `report.toml` shows claims only.

    Raises `NandlabError` that names file, line, key, and the nearest key that is known.
    """
    path = folder / REPORT
    if not path.is_file():
        return ReportSpec()
    text = path.read_text(encoding="utf-8")
    try:
        plain = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise NandlabError(f"{path}: {error}") from None
    return _ReportReader(path, text, claims).report(plain)


class _ReportReader(Reader):
    def __init__(self, path: Path, text: str, claims: ClaimFile) -> None:
        super().__init__(path, text)
        self.claims = claims

    def report(self, plain: Mapping[str, Any]) -> ReportSpec:
        known = {"publication", "headline", "first", "names", "defaults", "table", "figure"}
        self.check_keys(plain, known, "")
        self.defaults = plain.get("defaults", {})
        self.check_keys(self.defaults, _QUANTITY, "")
        publication = plain.get("publication", {})
        self.check_keys(publication, {"title", "authors", "where", "year", "answer"}, "")
        first = plain.get("first", {})
        self.check_keys(first, {"figure", "claims", "tables"}, "")
        figures = tuple(self.figure(one) for one in plain.get("figure", ()))
        spec = ReportSpec(
            publication=publication,
            headline=self.headline(plain["headline"]) if "headline" in plain else None,
            first_figure=first.get("figure"),
            first_claims=tuple(first.get("claims", ())),
            names={str(key): str(value) for key, value in plain.get("names", {}).items()},
            tables=tuple(self.table(one) for one in plain.get("table", ())),
            figures=figures,
            first_tables=tuple(first["tables"]) if "tables" in first else None,
        )
        self.check_names("tables", spec.first_tables or (), [one.identifier for one in spec.tables])
        self.check_names(
            "figure",
            [spec.first_figure] if spec.first_figure else [],
            [one.identifier for one in figures],
        )
        self.check_names(
            "claims", spec.first_claims, [one.identifier for one in self.claims.claims]
        )
        return spec

    def check_names(
        self, key: str, names: Sequence[str], known: Sequence[str], table: str = "first"
    ) -> None:
        for name in names:
            if name not in known:
                raise self.error(f"{table}.{key}: {unknown('name', name, known)}", "", key)

    def headline(self, plain: Mapping[str, Any]) -> HeadlineSpec | ChangesSpec:
        if "changes" in plain:
            return self.changes(plain)
        own = _QUANTITY | {"best", "phrase"}
        self.check_keys(plain, own | {"axis", "values", "part", "sentence", "when"}, "")
        if "sentence" in plain:
            return self.sentence(plain)
        self.require(plain, ("axis", "values"), "[headline]")
        parts = []
        for one in plain.get("part", ({},)):
            self.check_keys(one, own, "")
            joined = merged({key: plain[key] for key in own if key in plain}, one)
            self.require(joined, ("best", "phrase"), "[headline]")
            if joined["best"] not in ("least", "most"):
                told = f"headline.best = {joined['best']!r}: known are least, most"
                raise self.error(told, "", "best")
            column = self.column(merged(self.defaults, joined), "headline")
            parts.append(HeadlinePart(column, joined["best"], joined["phrase"]))
        return HeadlineSpec(plain["axis"], tuple(plain["values"]), tuple(parts))

    def sentence(self, plain: Mapping[str, Any]) -> HeadlineSpec:
        self.require(plain, ("when",), "[headline] with a sentence")
        when = {str(key): str(value) for key, value in plain["when"].items()}
        known = [one.identifier for one in self.claims.claims]
        names = [name for name, _ in placeholders(plain["sentence"])]
        self.check_names("when", [*when, *names], known, table="headline")
        for name in names:
            if name not in when:
                raise self.error(f"headline.when lacks the claim {name!r}; add its status", "")
        for status in when.values():
            if status not in list(Status):
                told = f"headline.when: {unknown('status', status, list(Status))}"
                raise self.error(told, "", "when")
        return HeadlineSpec(sentence=plain["sentence"], when=when)

    def changes(self, plain: Mapping[str, Any]) -> ChangesSpec:
        self.check_keys(plain, {"subject", "changes"}, "")
        self.require(plain, ("subject",), "[headline]")
        for one in plain["changes"]:
            self.check_keys(one, {"claim", "name"}, "")
            self.require(one, ("claim", "name"), "headline.changes")
        found = tuple((one["claim"], one["name"]) for one in plain["changes"])
        known = [one.identifier for one in self.claims.claims if one.predicate == "change"]
        self.check_names("changes", [claim for claim, _ in found], known, "headline")
        return ChangesSpec(str(plain["subject"]), found)

    def table(self, plain: Mapping[str, Any]) -> TableSpec:
        name = str(plain.get("id", ""))
        self.check_keys(plain, _TABLE | _QUANTITY, name)
        self.require(plain, ("id", "title", "rows", "column"), f"table {name!r}")
        base = merged(self.defaults, {key: plain[key] for key in _QUANTITY if key in plain})
        for one in plain["column"]:
            self.check_keys(one, _COLUMN | _QUANTITY, name)
        columns = tuple(self.column(merged(base, one), name) for one in plain["column"])
        rows = plain["rows"]
        values = plain.get("values", {})
        caption, full_only = plain.get("caption", ""), bool(plain.get("full_only", False))
        return TableSpec(name, plain["title"], tuple(rows), columns, values, caption, full_only)

    def figure(self, plain: Mapping[str, Any]) -> FigureSpec:
        name = str(plain.get("id", ""))
        self.check_keys(plain, _FIGURE | _QUANTITY, name)
        self.require(plain, ("id", "title", "x"), f"figure {name!r}")
        kind = plain.get("kind")
        if kind is not None and kind not in KINDS:
            raise self.error(unknown("kind", kind, KINDS), name, "kind")
        parts = plain.get("parts", {})
        joined = merged({"metric": next(iter(parts.values()))} if parts else {}, self.defaults)
        joined = merged(joined, plain)
        return FigureSpec(
            identifier=name,
            title=plain["title"],
            x=plain["x"],
            column=self.column({**joined, "title": plain.get("y_title", plain["title"])}, name),
            series=plain.get("series"),
            values=plain.get("values", {}),
            kind=kind,
            caption=plain.get("caption", ""),
            x_title=plain.get("x_title", ""),
            at=plain.get("at", {}),
            parts=plain.get("parts", {}),
            table=plain.get("table", ""),
            x_size=float(plain.get("x_size", 1.0)),
            log_x=plain.get("log_x"),
            log_y=plain.get("log_y"),
            full_only=bool(plain.get("full_only", False)),
        )

    def column(self, plain: Mapping[str, Any], name: str) -> Column:
        readings = {one.name: one for one in self.claims.readings}
        wanted = plain.get("reading", self.claims.readings[0].name)
        if wanted not in readings:
            raise self.error(unknown("reading", wanted, readings), name)
        reading = readings[wanted]
        quantity = self.quantity(plain, name, needs_metric=True)
        quantity = quantity.at({**reading.select, **quantity.select})
        return Column(
            str(plain.get("title", "")),
            quantity,
            reading,
            str(plain.get("unit", "")),
            plain.get("published"),
        )
