"""A list of what nandlab has, as `nandlab list` prints it."""

from collections.abc import Mapping, Sequence
from typing import Any

from nandlab.terminal.tables import print_rows, text_column


def print_listing(kind: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Prints name and summary of each item of the list `kind`."""
    print_rows("", (text_column(kind, "name"), text_column("what it is", "summary")), rows)
