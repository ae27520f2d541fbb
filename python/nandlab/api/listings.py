"""The lists of what nandlab has, as frames: one row an item, one column a property."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars


def boards() -> "polars.DataFrame":
    """Boards: kernel, memory and processor costs of each."""
    return _listing("boards")


def devices() -> "polars.DataFrame":
    """Block devices: eMMC, SSDs and a disk."""
    return _listing("devices")


def file_systems() -> "polars.DataFrame":
    """File systems with their aliases and profiles."""
    return _listing("file-systems")


def formats() -> "polars.DataFrame":
    """Trace formats that are read."""
    return _listing("formats")


def ftls() -> "polars.DataFrame":
    """Translation layers with their features, settings and sources."""
    return _listing("ftls")


def guarantees() -> "polars.DataFrame":
    """What each file system guarantees across a power cut."""
    return _listing("guarantees")


def oob_layouts() -> "polars.DataFrame":
    """Layouts of the spare area of a page."""
    return _listing("oob-layouts")


def parts() -> "polars.DataFrame":
    """Chips of the catalogue: geometry, timing (ns) and errors, each with its source."""
    return _listing("parts")


def policies() -> "polars.DataFrame":
    """Cleaning policies of page mapping."""
    return _listing("policies")


def schedulers() -> "polars.DataFrame":
    """I/O schedulers with their tunables and sources."""
    return _listing("schedulers")


def studies() -> "polars.DataFrame":
    """Shipped studies: name, title, question and file."""
    from nandlab import engine
    from nandlab.study_files import shipped_studies

    rows = []
    for name, path in shipped_studies().items():
        study = engine.describe_study(path, [], None, quick=False)
        texts = {key: str(study.get(key, "")) for key in ("title", "question")}
        rows.append({"name": name, **texts, "runs": study.get("runs"), "file": str(path)})
    return _frame(rows)


def tests() -> "polars.DataFrame":
    """Tests of IOzone that are carried out."""
    return _listing("tests")


def workloads() -> "polars.DataFrame":
    """Kinds of workload that a study may name."""
    return _listing("workloads")


def _listing(kind: str) -> "polars.DataFrame":
    from nandlab import engine

    return _frame([_flat(row) for row in engine.listing(kind)])


def _frame(rows: list[dict[str, Any]]) -> "polars.DataFrame":
    """A column is of numbers or switches where all rows agree, and of text otherwise."""
    import polars

    columns: dict[str, list[Any]] = {}
    for name in dict.fromkeys(key for row in rows for key in row):
        cells = [row.get(name) for row in rows]
        kinds = {type(cell) for cell in cells if cell is not None}
        is_plain = kinds <= {int, float} or len(kinds) == 1
        columns[name] = cells if is_plain else [_text(cell) for cell in cells]
    return polars.DataFrame(columns, strict=False)


def _text(cell: object) -> str | None:
    return None if cell is None else str(cell)


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """A table inside a row becomes columns `table.key`, and a list becomes text."""
    found: dict[str, Any] = {}
    for key, value in row.items():
        if isinstance(value, Mapping):
            found |= {f"{key}.{inner}": one for inner, one in _flat(value).items()}
        elif isinstance(value, list):
            is_of_tables = any(isinstance(one, Mapping | list) for one in value)
            found[key] = json.dumps(value) if is_of_tables else ", ".join(map(str, value))
        else:
            found[key] = value
    return found
