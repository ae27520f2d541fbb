"""Reads a published reference, a CSV beside the study."""

import csv
from pathlib import Path

from nandlab.errors import NandlabError
from nandlab.results.study_result import Table


def read_reference(path: Path) -> Table:
    """The published table; cells that are numbers become numbers."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            lines = [line for line in csv.reader(file) if line]
    except OSError as error:
        raise NandlabError(f"{path}: the reference of the study: {error.strerror}") from None
    if not lines:
        raise NandlabError(f"{path}: the reference of the study is empty")
    for number, line in enumerate(lines[1:], start=2):
        if len(line) != len(lines[0]):
            raise NandlabError(
                f"{path}:{number}: {len(line)} cells under {len(lines[0])} column heads"
            )
    return Table.of(lines[0], [[_cell(text) for text in line] for line in lines[1:]])


def find_reference(study: dict[str, object], study_path: Path | None) -> Table | None:
    """The reference a resolved study names, which lies beside the study file."""
    name = study.get("reference")
    if not name:
        return None
    folder = study_path.parent if study_path is not None else Path()
    return read_reference(folder / str(name))


def _cell(text: str) -> float | str | None:
    try:
        return float(text)
    except ValueError:
        return text or None
