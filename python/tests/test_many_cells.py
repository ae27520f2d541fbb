"""Results of a hundred thousand cells: parts on disk, a report that reads what it shows."""

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import polars
import pytest

from nandlab.errors import NandlabError
from nandlab.frame import RunFrame, read
from nandlab.frame.row_parts import read_rows, write_rows
from nandlab.frame.run_directory import RESULTS_PARQUET, whole_folder, write_results
from nandlab.present import present

CELLS = 100_000
METRICS = ("waf", "erases", "busy_ns", *(f"counter_{number}" for number in range(17)))
MEMORY_MAX_BYTES = 400 << 20
"""A report of few cells takes half of it, for charts are drawn by a browser's engine. One that
holds all rows takes half as much again."""
REPORT = """import sys
from nandlab.cli import main
assert main(["report", sys.argv[1]]) == 0
print(open("/proc/self/status", encoding="utf-8").read())
"""
"""What a process has at most is asked within it: from outside it counts its parent's, too."""


def made_up(cells: int) -> RunFrame:
    """Runs of five layers over axes of many values, five repeats each; `page` is the best."""
    number = polars.int_range(cells, eager=True)
    layers = ["page", "dftl", "bast", "fast", "last"]
    keys = polars.DataFrame(
        {
            "ftl": (number % 5).replace_strict(range(5), layers, return_dtype=polars.String),
            "spare_percent": number // 25 % 20,
            "blocks": number // 500,
            "repeat": number // 5 % 5,
        }
    )
    first = 1.0 + (number % 5) * 0.1 + (number // 5 % 5) * 0.001
    rows = [
        keys.with_columns(
            metric=polars.lit(metric),
            value=first * (place + 1),
            unit=polars.lit("ns" if metric == "busy_ns" else "ratio"),
        ).with_columns(run=number)
        for place, metric in enumerate(METRICS)
    ]
    frame = polars.concat(rows).sort("run", maintain_order=True).drop("run")
    axes = ("ftl", "spare_percent", "blocks")
    study = {
        "name": "many",
        "title": "Many cells",
        "question": "Which ftl amplifies least?",
        "seed": 1,
        "repeats": 5,
        "workload": {"kind": "uniform"},
        "axes": {},
    }
    none = polars.DataFrame(schema=[*axes, "io"])
    return RunFrame(study, axes, frame, none, "ab" * 32)


def written(cells: int, place: Path) -> Path:
    """The folder of such a run."""
    with whole_folder(place) as folder:
        write_results(folder, made_up(cells), "nandlab run many", keeps_inputs=False)
    return place


def peak_bytes(run: Path) -> int:
    """The most memory that a process had which wrote the report of a run."""
    done = subprocess.run(
        [sys.executable, "-c", REPORT, str(run)],
        capture_output=True,
        encoding="utf-8",
        # Polars has buffers for each thread, and a machine may have many.
        env=os.environ | {"POLARS_MAX_THREADS": "2"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = re.search(r"VmHWM:\s+(\d+) kB", done.stdout)
    assert found is not None
    return int(found[1]) * 1024


def test_a_report_of_many_cells_reads_what_it_shows(tmp_path: Path) -> None:
    run = written(CELLS, tmp_path / "many")
    assert len(list((run / RESULTS_PARQUET).iterdir())) == 2
    assert peak_bytes(run) < MEMORY_MAX_BYTES
    shown = json.loads((run / "verdict.json").read_text(encoding="utf-8"))
    assert shown["headline"].startswith("Ftl page has the least waf:")
    table = shown["tables"]["results"]
    # 20,000 combinations: means over the axis of most values are left.
    assert len(table["rows"]) == 100
    assert (run / "report.html").stat().st_size < 3 << 20


def test_parts_are_the_rows_in_their_order(tmp_path: Path) -> None:
    rows = made_up(50).frame
    assert rows.height == 1000
    for part_rows, parts in ((300, 4), (500, 2), (999, 2)):
        place = tmp_path / str(part_rows)
        write_rows(rows, place, part_rows=part_rows)
        assert len(list(place.iterdir())) == parts
        assert polars.read_parquet(place).equals(rows), "polars reads the folder by its name"
        assert read_rows(place).lazy().collect().equals(rows)
    write_rows(rows, tmp_path / "one", part_rows=1000)
    assert (tmp_path / "one").is_file()


def test_rows_on_disk_answer_as_rows_in_memory_do(tmp_path: Path) -> None:
    here = made_up(500)
    write_rows(here.frame, tmp_path / "parts", part_rows=3000)
    there = replace(here, rows=read_rows(tmp_path / "parts"))
    assert isinstance(there.rows, polars.LazyFrame)
    assert list(there.metrics) == list(here.metrics)
    assert len(there.metrics) == len(METRICS)
    assert all(there.metrics[one].equals(here.metrics[one]) for one in METRICS)
    assert "waf" in there.metrics
    with pytest.raises(KeyError):
        there.metrics["none"]
    assert (there.units, there.varied) == (here.units, here.varied)
    assert there.text_axes == here.text_axes == {"ftl"}
    assert there.values_of("spare_percent") == here.values_of("spare_percent")
    assert there.wide("waf", "erases").equals(here.wide("waf", "erases"))
    assert present(there).as_dict() == present(here).as_dict()
    assert there.frame.equals(here.frame)


def test_a_lost_or_damaged_part_is_an_error(tmp_path: Path) -> None:
    run = written(50_001, tmp_path / "run")
    lost = run / RESULTS_PARQUET / "part-00001-of-00002.parquet"
    content = lost.read_bytes()
    assert read(run).rows.lazy().select(polars.len()).collect().item() == 50_001 * len(METRICS)
    lost.write_bytes(content[:-9])
    with pytest.raises(NandlabError, match=r"cannot be read: .*; run the study again"):
        read(run)
    lost.unlink()
    with pytest.raises(NandlabError, match=r"lacks parts, it has part-00000-of-00002\.parquet"):
        read(run)
