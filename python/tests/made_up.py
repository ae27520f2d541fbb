"""Results made up of rows, as if the engine had answered them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars

from nandlab.frame import MEANINGLESS, RunFrame
from nandlab.frame.reference import Reference
from nandlab.frame.run_frame import ROW_COLUMNS

Rows = Sequence[Sequence[Any]]


def typed(columns: Sequence[str], rows: Rows) -> polars.DataFrame:
    """A table whose columns are of numbers where all cells but `-` are."""
    cells = list(zip(*rows, strict=True)) or [()] * len(columns)
    return polars.DataFrame(
        [_column(name, found) for name, found in zip(columns, cells, strict=True)]
    )


def _column(name: str, cells: Sequence[Any]) -> polars.Series:
    if name in ("metric", "unit"):
        return polars.Series(name, cells, dtype=polars.String)
    if name == "value":
        return polars.Series(name, cells, dtype=polars.Float64, strict=False)
    text = polars.Series(name, [None if cell is None else str(cell) for cell in cells])
    known = text.cast(polars.String).replace(MEANINGLESS, None)
    for dtype in (polars.Int64, polars.Float64):
        numbers = known.cast(dtype, strict=False)
        is_known = known.null_count() < len(known) or name == "repeat"
        if is_known and numbers.null_count() == known.null_count():
            return numbers
    return text.cast(polars.String)


def csv(columns: Sequence[str], rows: Rows) -> str:
    """The rows as the engine writes them."""
    return "".join(",".join(map(str, line)) + "\n" for line in (columns, *rows))


def answered(answer: Mapping[str, Any]) -> dict[str, Any]:
    """An answer with `rows`, and perhaps `curves`, in the form of the engine's."""
    axes = [name for name in answer["columns"] if name not in ROW_COLUMNS]
    columns = [*axes, *ROW_COLUMNS]
    curves = answer.get("curves") or {"columns": axes, "rows": []}
    frames = {"rows": typed(columns, answer["rows"])}
    frames["curves"] = typed(curves["columns"], curves["rows"])
    for table in answer.get("tables", ()):
        frames[table["name"]] = polars.read_csv(table["csv"].encode())
    texts = {"results_csv": csv(columns, answer["rows"]), "results_digest": "ab" * 32}
    return {**texts, **answer, "frames": frames}


def run_of(
    answer: Mapping[str, Any], reference: Reference | None = None, folder: Path | None = None
) -> RunFrame:
    """The results of an answer, with a reference and the folder of a study."""
    bare = {key: value for key, value in answer["study"].items() if key != "reference"}
    run = RunFrame.from_answer(answered({**answer, "study": bare}))
    return replace(run, study=answer["study"], reference=reference, folder=folder)
