"""The Parquet form of traces in other hands: what polars reads of it, and what polars writes."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import nandlab as nl

ROOT = Path(__file__).resolve().parents[2]
TRACE = ROOT / "traces" / "small" / "ntfs-jpg-1.parquet"
NAMES = ["read", "write", "trim", "flush", "write_zeroes"]
TYPES = {
    "arrival_ns": pl.UInt64(),
    "operation": pl.Categorical(),
    "device": pl.UInt32(),
    "offset_bytes": pl.UInt64(),
    "length_bytes": pl.UInt32(),
    "flags": pl.UInt8(),
    "latency_ns": pl.UInt64(),
    "file_operation": pl.UInt32(),
}


def converted(source: Path, target: Path) -> dict[str, Any]:
    """The summary of a trace that is converted."""
    return dict(nl.convert(source, target).answer)


def test_polars_reads_the_types_and_values_of_a_trace(tmp_path: Path) -> None:
    events = tmp_path / "trace.csv"
    # Columns of MSR: time in 100 ns, host, disk, kind, offset, bytes, response time in 100 ns.
    events.write_text("10,h,3,Write,1073741824,4096,7\n25,h,1,Read,512,8192,9\n", encoding="utf-8")
    converted(events, tmp_path / "trace.parquet")
    frame = pl.read_parquet(tmp_path / "trace.parquet")
    assert dict(frame.schema) == TYPES
    assert frame.with_columns(pl.col("operation").cast(pl.String)).rows() == [
        (0, "write", 3, 1 << 30, 4096, 0, 700, None),
        (1500, "read", 1, 512, 8192, 0, 900, None),
    ]


@pytest.mark.parametrize("operations", [pl.Categorical(), pl.String(), pl.Enum(NAMES)])
@pytest.mark.parametrize("compression", ["zstd", "uncompressed"])
@pytest.mark.parametrize("sizes", [{}, {"row_group_size": 3000, "data_page_size": 1024}])
def test_a_trace_that_polars_wrote_is_the_same_trace(
    tmp_path: Path, operations: pl.DataType, compression: Any, sizes: dict[str, Any]
) -> None:
    first = converted(TRACE, tmp_path / "first.parquet")
    frame = pl.read_parquet(TRACE).with_columns(pl.col("operation").cast(operations))
    frame = frame.select(sorted(frame.columns)).with_columns(comment=pl.lit("another column"))
    frame.write_parquet(tmp_path / "polars.parquet", compression=compression, **sizes)
    again = converted(tmp_path / "polars.parquet", tmp_path / "again.parquet")
    assert again["digest"] == first["digest"]
    assert again["records"] == frame.height > 3000
