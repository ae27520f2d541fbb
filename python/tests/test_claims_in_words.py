"""Claims of publications whose figures carry no numbers, on made-up rows of a shipped study."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import polars
import pytest
from made_up import run_of as made_up

from nandlab.claims import evaluate, load_claims
from nandlab.claims.evaluate import counted
from nandlab.errors import NandlabError
from nandlab.frame import RunFrame
from nandlab.frame.reference import read_reference
from nandlab.frame.run_frame import stated
from nandlab.present import load_report
from nandlab.present.charts import chart
from nandlab.present.headline import best_words
from nandlab.study_files import shipped_studies

FOLDER = shipped_studies()["android"].parent
AXES = (
    "test", "board", "file_system", "flash", "room", "data",
    "file_mib", "files", "rate_kib_per_s", "written_mib", "phase",
)  # fmt: skip
USUAL = {"board": "s5pv210-datasheet", "flash": "fresh", "room": "whole"}
FILLS = ("used-0", "used-25", "used-50", "used-75")


def rows(metric: str, value: float, repeats: int = 3, **place: str) -> list[list[Any]]:
    at = [(USUAL | place).get(axis, "-") for axis in AXES]
    return [[*at, repeat, metric, value * (1 + repeat / 1e4), ""] for repeat in range(repeats)]


def mounts(ubifs_s: float, yaffs2_s: float) -> list[list[Any]]:
    found: list[list[Any]] = []
    for name, seconds in (("ubifs", ubifs_s), ("yaffs2", yaffs2_s)):
        for flash in FILLS:
            place = {"test": "mount", "file_system": name, "flash": flash, "phase": "mount"}
            found += rows("mount_ns", seconds * 1e9, **place)
    return found


def bursts(broken_cuts: int) -> list[list[Any]]:
    metrics = {"is_mounted": 1.0, "complaints": 0.0, "lost_synced_bytes": 0.0, "wrong_bytes": 0.0}
    found: list[list[Any]] = []
    for rate in ("32", "128", "512", "2048"):
        for repeat in range(10):
            is_broken = rate == "32" and repeat < broken_cuts
            place = {"test": "burst", "file_system": "yaffs2", "rate_kib_per_s": rate}
            for metric, value in metrics.items():
                shown = 4096.0 if is_broken and metric == "wrong_bytes" else value
                row = rows(metric, shown, 1, phase="cut", **place)[0]
                found.append([*row[: len(AXES)], repeat, *row[len(AXES) + 1 :]])
    return found


def run_of(found: list[list[Any]], *, quick: bool = False) -> RunFrame:
    answer = {
        "study": {"name": "android", "title": "made up", "seed": 1, "quick": quick},
        "columns": list(AXES),
        "rows": found,
        "results_digest": "ef" * 32,
        "tables": [],
    }
    reference = read_reference(FOLDER / "reference.csv")
    return made_up(answer, reference)


def claim(run: RunFrame, identifier: str) -> dict[str, Any]:
    shown = counted(evaluate(run, load_claims(FOLDER)))
    return next(row for row in shown.to_dicts() if row["id"] == identifier)


@pytest.mark.parametrize(
    ("ubifs_s", "status"), [(0.50, "supported"), (0.52, "contradicted"), (5.0, "contradicted")]
)
def test_a_bound_comes_from_the_reference(ubifs_s: float, status: str) -> None:
    found = claim(run_of(mounts(ubifs_s, 1.0)), "mounts-faster-mount")
    assert (found["status"], found["published"]) == (status, "-49 %")


def test_another_reference_moves_the_bound() -> None:
    run = run_of(mounts(0.52, 1.0))
    assert run.reference is not None
    lines = [
        {name: -0.1 if cell == -0.49 else cell for name, cell in line.items()}
        for line in run.reference.rows
    ]
    moved = replace(run, reference=replace(run.reference, rows=tuple(lines)))
    assert claim(moved, "mounts-faster-mount")["status"] == "supported"


def test_a_published_bound_needs_a_published_cell() -> None:
    run = replace(run_of(mounts(0.5, 1.0)), reference=None)
    with pytest.raises(NandlabError, match="needs a published cell"):
        claim(run, "mounts-faster-mount")


@pytest.mark.parametrize(
    ("broken_cuts", "estimate", "status"), [(0, 0.0, "undecided"), (1, 0.025, "supported")]
)
def test_cuts_that_break_something_are_counted(
    broken_cuts: int, estimate: float, status: str
) -> None:
    found = claim(run_of(bursts(broken_cuts)), "yaffs2-no-integrity")
    assert (found["estimate"], found["n"], found["status"]) == (estimate, 40, status)
    assert found["published"] == "not guaranteed"


def test_what_was_not_run_is_not_judged_and_a_quick_form_estimates_the_rest() -> None:
    half = [row for row in mounts(0.5, 1.0) if row[3] in FILLS[:2]]
    assert claim(run_of(half), "mounts-faster-mount")["status"] == "not run"
    quick = claim(run_of(half, quick=True), "mounts-faster-mount")
    assert quick["status"] == "not judged"
    assert quick["estimate"] == pytest.approx(-0.5)
    assert quick["low"] is None


def test_an_axis_of_numbers_is_numeric_where_some_runs_have_none() -> None:
    """As the study states them: a version is a word, even if it looks like a number."""
    cells = {"size": ["-", "16", "8"], "name": ["-", "a", "b"], "kernel": ["6.1", "6.12", "6.1"]}
    axes = {"size": ["-"], "name": ["-", "a", "b"], "kernel": ["6.1", "6.12"]}
    frame = stated(
        polars.DataFrame(cells), {"axes": axes, "extra_runs": [{"axes": {"size": [16, 8]}}]}
    )
    assert frame["size"].to_list() == [None, 16, 8]
    assert frame["name"].to_list() == ["-", "a", "b"]
    assert frame["kernel"].to_list() == ["6.1", "6.12", "6.1"]


def test_ticks_are_the_fills_with_all_their_digits() -> None:
    report = load_report(FOLDER, load_claims(FOLDER))
    spec = next(one for one in report.figures if one.identifier == "mount")
    drawn = chart(run_of(mounts(0.5, 1.0)), spec, report)
    assert drawn is not None
    axis = drawn.specification["encoding"]["x"]["axis"]
    # Without a precision the chart engine rounds 25 to 30.
    assert axis == {"values": [0, 25, 50, 75], "format": ",.9~r"}


def test_the_headline_names_who_leads_in_what() -> None:
    report = load_report(FOLDER, load_claims(FOLDER))
    assert report.headline is not None
    assert best_words(run_of(mounts(0.5, 1.0)), report.headline, report) == "UBIFS mounts faster."
    assert best_words(run_of(mounts(1.0, 0.5)), report.headline, report) == "YAFFS2 mounts faster."
    # Of equal candidates none leads.
    assert best_words(run_of(mounts(1.0, 1.0)), report.headline, report) == ""


def test_the_recorded_headline_and_its_count_have_at_most_25_words() -> None:
    report = load_report(FOLDER, load_claims(FOLDER))
    assert report.headline is not None
    answer = [word for part in report.headline.parts for word in part.phrase.split()]
    # Two names, an `and` for each, and eleven words that count the claims.
    assert len(answer) + 4 + 11 <= 25
    assert Path(FOLDER / "recorded.json").is_file()
