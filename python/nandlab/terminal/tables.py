"""Tables of rows, declared by their columns, and tables of facts."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from nandlab.terminal.output import print_table


def shown(value: object) -> str:
    """A cell: numbers with thousands separators, fractions with four digits."""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return f"{value:,.4g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True)
class Column:
    """A column: its heading, the key or function that gives a cell of a row, and the cell's form.

    A column of numbers is set to the right.
    """

    heading: str
    value: str | Callable[[Mapping[str, Any]], object]
    form: str | Callable[[Any], str] = shown
    is_number: bool = True

    def cell(self, row: Mapping[str, Any]) -> str:
        """The cell of a row as text."""
        value = row[self.value] if isinstance(self.value, str) else self.value(row)
        return self.form.format(value) if isinstance(self.form, str) else self.form(value)


def text_column(
    heading: str, value: str | Callable[[Mapping[str, Any]], object] | None = None
) -> Column:
    """A column of text; the key in a row is that of the heading unless another is given."""
    return Column(heading, heading if value is None else value, str, is_number=False)


def print_rows(title: str, columns: Iterable[Column], rows: Iterable[Mapping[str, Any]]) -> None:
    """A table with a line for each row."""
    columns = tuple(columns)
    right = frozenset(index for index, column in enumerate(columns) if column.is_number)
    cells = [[column.cell(row) for column in columns] for row in rows]
    print_table(title, [column.heading for column in columns], cells, right)


def print_facts(title: str, facts: Mapping[str, object], heading: str = "") -> None:
    """A table of two columns: the name of each fact, and its value."""
    rows = [(name, shown(value)) for name, value in facts.items()]
    print_table(title, (heading, ""), rows)
