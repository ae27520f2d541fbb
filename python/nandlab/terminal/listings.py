"""A list of what nandlab has, as `nandlab list` prints it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nandlab.terminal.output import print_table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def print_listing(kind: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Prints name and summary of each item of the list `kind`."""
    print_table("", (kind, "what it is"), [(row["name"], row["summary"]) for row in rows])
