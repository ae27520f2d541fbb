"""What a report page consists of."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Figure:
    """A chart: a Vega-Lite specification whose width follows its place."""

    identifier: str
    title: str
    caption: str
    specification: Mapping[str, Any]
    is_main: bool = False
    """Main figures are also written as pictures."""


@dataclass(frozen=True)
class DataTable:
    """A table; the columns named in `numeric` are set to the right."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    numeric: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Section:
    """A part of the page under one heading; `template` replaces the general layout."""

    identifier: str
    title: str
    paragraphs: Sequence[str] = ()
    items: Sequence[str] = ()
    tables: Sequence[DataTable] = ()
    figures: Sequence[Figure] = ()
    template: str = "section.html.j2"


def numeric(first: int, count: int) -> frozenset[int]:
    """Columns of a table that are set to the right."""
    return frozenset(range(first, first + count))
