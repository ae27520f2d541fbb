"""Prints tables, CSV and JSON on standard output."""

import csv
import sys
from collections.abc import Sequence
from typing import Any, Literal

OutputFormat = Literal["table", "json", "csv"]

_PIPE_WIDTH = 120
_NAME_MAX = 40
"""Names up to this length are not broken into lines."""


def console() -> Any:
    """A rich console on standard output; in a pipe it is plain and of fixed width."""
    from rich.console import Console

    class Output(Console):
        """Passes on that the reader of a pipe has gone, as `print` does."""

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    is_terminal = sys.stdout.isatty()
    return Output(width=None if is_terminal else _PIPE_WIDTH, highlight=False, markup=False)


def print_table(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    numeric: frozenset[int] = frozenset(),
) -> None:
    """A table with the columns in `numeric` set to the right."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=Text(title, style="bold") if title else None,
        title_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    for index, column in enumerate(columns):
        longest = max((len(row[index]) for row in rows), default=0)
        table.add_column(
            Text(column),
            justify="right" if index in numeric else "left",
            no_wrap=index in numeric or (index == 0 and longest <= _NAME_MAX),
            overflow="fold",
        )
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console().print(table)


def print_text(text: str) -> None:
    """Text, wrapped to the terminal."""
    console().print(text, soft_wrap=not sys.stdout.isatty())


def print_json(value: object) -> None:
    """JSON, indented."""
    from nandlab.json_text import json_text

    encoding = (getattr(sys.stdout, "encoding", None) or "utf-8").lower().replace("-", "")
    print(json_text(value, is_ascii=not encoding.startswith("utf")))


def print_csv(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Comma-separated values with a heading."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
