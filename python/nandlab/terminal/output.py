"""Prints tables, CSV and JSON on standard output."""

import math
import sys
from collections.abc import Mapping, Sequence

from nandlab.terminal.layout import paragraph_lines, table_lines

_PIPE_WIDTH = 120


def text_width() -> int:
    """Columns of the terminal on standard output; in a pipe a fixed number."""
    # None where standard output was closed before the program began.
    if sys.stdout is None or not sys.stdout.isatty():
        return _PIPE_WIDTH
    from shutil import get_terminal_size

    return get_terminal_size((80, 24)).columns


def print_table(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    right: frozenset[int] = frozenset(),
) -> None:
    """A table with the columns in `right` set to the right."""
    for line in table_lines(title, columns, rows, right, width=text_width()):
        print(line)


def print_text(text: str) -> None:
    """Text, wrapped to the width of a terminal. In a pipe lines stay whole."""
    is_terminal = sys.stdout.isatty()
    print("\n".join(paragraph_lines(text, text_width())) if is_terminal else text)


def counted(number: int, one: str, many: str | None = None) -> str:
    """A number with its noun: `1 run`, `0 runs`, `1,200 inconsistencies`."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def print_json(command: str, result: object) -> None:
    """The answer of a command as JSON, with the command and the version that gave it."""
    from nandlab import __version__
    from nandlab.json_text import json_text

    value = {"command": command, "version": __version__, "result": _finite(result)}

    encoding = (getattr(sys.stdout, "encoding", None) or "utf-8").lower().replace("-", "")
    print(json_text(value, is_ascii=not encoding.startswith("utf")))


def _finite(value: object) -> object:
    """The value with null for infinity and for what is not a number: JSON has neither."""
    if isinstance(value, Mapping):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
