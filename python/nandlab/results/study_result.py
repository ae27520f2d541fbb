"""What a run of a study gave, as the engine told it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROW_COLUMNS = ("repeat", "metric", "value", "unit")
"""Columns of a result row after those of the axes."""


def axis_text(value: object) -> str:
    """The value of an axis as it stands in files: studies mix numbers and words on one axis."""
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True)
class Table:
    """Rows with named columns."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    @classmethod
    def of(cls, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> "Table":
        """A table of lists."""
        return cls(tuple(columns), tuple(tuple(row) for row in rows))

    def dicts(self) -> list[dict[str, Any]]:
        """One dictionary a row."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


@dataclass(frozen=True)
class StudyResult:
    """A finished, or interrupted, run of a study."""

    study: dict[str, Any]
    axes: tuple[str, ...]
    rows: Table
    curves: Table
    results_digest: str
    notes: tuple[str, ...] = ()
    interrupted: bool = False
    reference: Table | None = None
    tables: Mapping[str, str] = field(default_factory=dict)
    """Tables made of several runs (pooled values, distributions, time lines), by name, as CSV."""
    inputs: tuple[Mapping[str, str], ...] = ()
    """Files of the user's own that the study names: what each is, its name there, and its path."""
    results_csv: str | None = None
    """The rows as the engine wrote them for the digest; None when read back from a folder."""
    folder: Path | None = None
    """Folder with the claims, tables and discussion of the study."""

    @property
    def name(self) -> str:
        """Name of the study."""
        return str(self.study["name"])

    @classmethod
    def from_engine(
        cls,
        answer: Mapping[str, Any],
        reference: Table | None = None,
        folder: Path | None = None,
    ) -> "StudyResult":
        """Takes over the answer of `engine.run_study`."""
        axes = tuple(name for name in answer["columns"] if name not in ROW_COLUMNS)
        curves = answer.get("curves") or {"columns": [], "rows": []}
        study = dict(answer["study"])
        # Where they lie is a matter of this machine, and no part of the study.
        inputs = tuple(study.pop("own_files", ()))
        return cls(
            study=study,
            axes=axes,
            rows=_with_axis_text(Table.of((*axes, *ROW_COLUMNS), answer["rows"]), axes),
            curves=_with_axis_text(Table.of(curves["columns"], curves["rows"]), axes),
            results_digest=str(answer["results_digest"]),
            notes=tuple(answer.get("notes", ())),
            interrupted=bool(answer.get("interrupted", False)),
            reference=reference,
            tables={str(table["name"]): str(table["csv"]) for table in answer.get("tables", ())},
            inputs=inputs,
            results_csv=answer.get("results_csv"),
            folder=folder,
        )


def _with_axis_text(table: Table, axes: tuple[str, ...]) -> Table:
    places = {index for index, name in enumerate(table.columns) if name in axes}
    rows = [
        [axis_text(cell) if index in places else cell for index, cell in enumerate(row)]
        for row in table.rows
    ]
    return Table.of(table.columns, rows)
