"""The published or measured table beside a study."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from nandlab.errors import NandlabError

Cell = float | str | None


@dataclass(frozen=True)
class Reference:
    """Rows by column; a cell that reads as a number is one. `text` is the file as it was."""

    columns: tuple[str, ...]
    rows: tuple[Mapping[str, Cell], ...]
    text: str = ""


def read_reference(path: Path) -> Reference:
    """Reads a reference.

    Raises `NandlabError` if it is missing or empty, or if a line has too few or too many cells.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise NandlabError(f"{path}: the reference of the study: {error.strerror}") from None
    lines = [line for line in csv.reader(text.splitlines()) if line]
    if not lines:
        raise NandlabError(f"{path}: the reference of the study is empty")
    head, *rest = lines
    for number, line in enumerate(rest, start=2):
        if len(line) != len(head):
            raise NandlabError(f"{path}:{number}: {len(line)} cells under {len(head)} column heads")
    rows = (dict(zip(head, map(_cell, line), strict=True)) for line in rest)
    return Reference(tuple(head), tuple(rows), text)


def _cell(text: str) -> Cell:
    try:
        return float(text)
    except ValueError:
        return text or None
