"""What a call of the API answers with."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars

Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Answer:
    """What a call found. A notebook shows its table."""

    answer: Any
    """The whole answer, as the command prints it with `--json`."""
    rows: Rows = ()
    """Rows of the table, if the answer has one."""
    text: str = ""
    """The table as separated values, as the command prints it with `--output-format`."""
    complaints: tuple[str, ...] = ()
    """What failed or could not be read; the command prints it on standard error."""
    is_clean: bool = True
    """False for a difference, a violation, damage, or no answer; the exit status is then 1."""

    @property
    def frame(self) -> "polars.DataFrame":
        """The rows as a frame."""
        return frame_of(self.rows)

    def _repr_html_(self) -> str:
        return str(self.frame._repr_html_())


def frame_of(rows: Rows) -> "polars.DataFrame":
    """A frame of rows; a column is of numbers or switches where all rows agree, else of text."""
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


def csv_text(columns: Sequence[str], rows: Rows) -> str:
    """The rows as comma-separated values, with a heading."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([row[column] for column in columns] for row in rows)
    return text.getvalue()
