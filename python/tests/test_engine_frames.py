"""Tables of a run as data frames, against the same rows as lists."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from nandlab import engine

STUDY = """
name = "frames"
title = "Frames"
question = "Are they the rows?"
part = "k9f2g08u0c"
blocks = 64
seed = 1
repeats = 2

[workload]
kind = "uniform"
warm_up_writes = 1
measured_writes = 1

[axes]
ftl = ["page", "dftl"]
spare_percent = [12.5, 50]
low_water = { from = 3, to = 4 }
"""

TYPES = {
    "ftl": pl.String,
    "low_water": pl.Int64,
    "spare_percent": pl.Float64,
    "initial": pl.String,
    "repeat": pl.Int64,
    "metric": pl.String,
    "value": pl.Float64,
    "count": pl.UInt64,
    "unit": pl.String,
}


def run(tmp_path: Path, text: str = STUDY, **options: Any) -> dict[str, Any]:
    path = tmp_path / "frames.toml"
    path.write_text(text, encoding="utf-8")
    return engine.run_study(path, [], None, quick=False, jobs=2, **options)


def test_the_frame_of_rows_holds_what_the_lists_hold(tmp_path: Path) -> None:
    answer = run(tmp_path, rows=True)
    frame = answer["frames"]["rows"]
    assert dict(frame.schema) == TYPES
    assert frame.height == len(answer["rows"]) > 0
    axes = answer["columns"]
    for row, cells in zip(answer["rows"], frame.to_dicts(), strict=True):
        # Axes are text in the lists; a decimal without a fraction has none there.
        assert [
            f"{cells[axis]:g}" if isinstance(cells[axis], float) else str(cells[axis])
            for axis in axes
        ] == row[: len(axes)]
        repeat, metric, value, unit = row[len(axes) :]
        assert (cells["repeat"], cells["metric"], cells["unit"]) == (repeat, metric, unit)
        assert cells["value"] == value
        assert cells["count"] == (value if isinstance(value, int) else None)


def test_the_lists_are_left_out_on_request(tmp_path: Path) -> None:
    with_lists, without = run(tmp_path, rows=True), run(tmp_path)
    assert "rows" not in without
    assert "curves" not in without
    assert without["frames"]["rows"].equals(with_lists["frames"]["rows"])
    assert without["results_digest"] == with_lists["results_digest"]
    assert list(without["frames"]) == ["rows", "derived", "curves"]
    with pytest.raises(KeyError):
        without["frames"]["colours"]


def test_other_libraries_can_take_the_columns_more_than_once(tmp_path: Path) -> None:
    columns = run(tmp_path)["frames"].columns("rows")
    first, second = pl.DataFrame(columns), pl.DataFrame(columns)
    assert first.equals(second)
    assert first.height == len(columns)


def test_tables_of_processes_are_frames(tmp_path: Path) -> None:
    text = """
name = "processes"
title = "Processes"
question = "Are their tables frames?"
seed = 1
[workload]
kind = "jobs"
[host]
board = "odroid-xu"
device = "emmc-4.5-64gb"
free_bytes = 16_777_216
[[job]]
name = "readers"
processes = 2
rw = "randread"
bs = "{request_kib}k"
requests = 20
mode = "direct"
[axes]
scheduler = ["noop", "cfq"]
request_kib = [4, 64]
"""
    answer = run(tmp_path, text)
    assert {"pooled", "latencies"} < set(answer["frames"])
    pooled = answer["frames"]["pooled"]
    assert pooled.schema["request_kib"] == pl.Int64
    assert pooled.schema["value"] == pl.Float64
    csv = next(table["csv"] for table in answer["tables"] if table["name"] == "pooled")
    assert pooled.height == csv.count("\n") - 1
    assert answer["frames"]["latencies"].schema["from_ns"] == pl.Int64


def test_a_replay_tells_the_service_times(tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    lines = [f"0,{number * 8},4096,W,{number / 1000:.6f}" for number in range(200)]
    trace.write_text("\n".join(lines) + "\n", encoding="utf-8")
    answer = engine.replay(trace, {"ftl": "page", "part": "k9f2g08u0c", "format": "spc"})
    times = answer["service_times"]
    assert set(times) == {"write", "all"}
    assert times["write"] == times["all"]
    names = ("p50_ns", "p90_ns", "p99_ns", "p999_ns", "p9999_ns", "max_ns")
    values = [times["all"][name] for name in names]
    assert values == sorted(values)
    assert all(isinstance(value, int) for value in values)
