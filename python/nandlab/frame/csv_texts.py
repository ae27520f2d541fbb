"""Tables as text, over which digests are taken, and as frames."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Comma-separated lines; the engine lets no cell need quotes."""
    return "".join(",".join(map(str, line)) + "\n" for line in (columns, *rows))


def frame_of(text: str, columns: Sequence[str]) -> "polars.DataFrame":
    """A table as the engine hands it over, but that its axes are words."""
    import polars

    types = {**dict.fromkeys(columns, polars.String), "value": polars.Float64}
    return polars.read_csv(text.encode(), schema_overrides=types, infer_schema_length=None)
