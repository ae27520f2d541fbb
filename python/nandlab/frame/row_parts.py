"""The rows of a run as Parquet: one file, or a folder of parts where they are many.

A folder of the same name is read by polars, pandas and DuckDB as the file is. Parts hold the rows
in the order of the plan. The name of a part says how many there are, so that a lost one shows.
"""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars

PART_ROWS = 1_000_000
"""Rows of a part; a run with no more of them has one file."""


def write_rows(rows: "polars.DataFrame", place: Path, *, part_rows: int = PART_ROWS) -> None:
    """Writes rows at a place where nothing is yet."""
    if rows.height <= part_rows:
        rows.write_parquet(place)
        return
    place.mkdir()
    parts = -(-rows.height // part_rows)
    for number in range(parts):
        part = rows.slice(number * part_rows, part_rows)
        part.write_parquet(place / f"part-{number:05}-of-{parts:05}.parquet")


def read_rows(place: Path) -> "polars.DataFrame | polars.LazyFrame":
    """Rows of one file as they are; those of a folder are read when they are asked for.

    Raises `OSError` if a part is lost, and what polars raises of a damaged file.
    """
    import polars

    if not place.is_dir():
        return polars.read_parquet(place)
    parts = sorted(place.glob("part-*.parquet"))
    names = [f"part-{number:05}-of-{len(parts):05}.parquet" for number in range(len(parts))]
    if not parts or [part.name for part in parts] != names:
        raise OSError(f"{place.name} lacks parts, it has {', '.join(one.name for one in parts)}")
    rows = polars.scan_parquet(parts)
    # A part that is no Parquet is told now, and not in the middle of a report.
    for part in parts:
        polars.read_parquet_schema(part)
    return rows
