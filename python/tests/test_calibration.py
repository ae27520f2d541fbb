"""The calibrated board, and the claims that rest on it, on made-up rows and on real cells."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from made_up import run_of as made_up

from nandlab.calibration import DATASHEET, STUDY, page_costs, run_cells
from nandlab.claims import evaluate, load_claims
from nandlab.claims.evaluate import counted
from nandlab.frame import RunFrame
from nandlab.frame.reference import read_reference
from nandlab.present import present
from nandlab.study_files import shipped_studies

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(shipped_studies()[STUDY]).parent
CALIBRATED = "s5pv210-calibrated"
SCHEDULERS = ("noop", "anticipatory", "deadline", "cfq")
AXES = (
    "board", "flash", "cleaner", "data", "cache", "passes",
    "file_system", "file_mib", "scheduler", "test",
)  # fmt: skip

# Seconds and pages of a mebibyte on the made-up board without calibration.
WRITE_S, READ_S, PAGES = 0.25, 0.125, 500


def rows(
    board: str, file_system: str, times: Mapping[str, float], pages_read: float = 1.0
) -> list[list[Any]]:
    """Cells of 1 and 4 MiB; `times` multiplies the time of writes by scheduler."""
    found: list[list[Any]] = []
    for scheduler, factor in times.items():
        for size in (1, 4):
            for test in ("write", "read"):
                seconds = size * (WRITE_S * factor if test == "write" else READ_S)
                pages = PAGES * size
                values = {
                    "elapsed_ns": seconds * 1e9,
                    "page_reads": 0 if test == "write" else pages * pages_read,
                    "page_programs": pages if test == "write" else 0,
                    "spare_programs": 0,
                    "spare_reads": 0,
                    "records": 32 * size,
                }
                place = [board, "fresh", "on", "random", "cold", "1", file_system, str(size)]
                found += [
                    [*place, scheduler, test, repeat, metric, value * (1 + repeat / 1e6), "ns"]
                    for metric, value in values.items()
                    for repeat in range(3)
                ]
    return found


def run_of(found: list[list[Any]]) -> RunFrame:
    answer = {
        "study": {"name": STUDY, "title": "made up", "seed": 1, "repeats": 3},
        "columns": list(AXES),
        "rows": found,
        "results_digest": "ef" * 32,
        "tables": [],
    }
    reference = read_reference(FOLDER / "reference.csv")
    return made_up(answer, reference, FOLDER)


def statuses(run: RunFrame) -> dict[str, str]:
    frame = counted(evaluate(run, load_claims(FOLDER)))
    return dict(zip(frame["id"], frame["status"], strict=True))


def all_systems(nilfs2: Mapping[str, float], raw: Mapping[str, float]) -> RunFrame:
    return run_of(
        rows(CALIBRATED, "jffs2", raw)
        + rows(CALIBRATED, "yaffs2", dict.fromkeys(SCHEDULERS, 1.0))
        + rows(CALIBRATED, "nilfs2", nilfs2)
    )


def test_costs_follow_from_cells() -> None:
    run = run_of(rows(DATASHEET, "yaffs2", {"noop": 1.0}))
    one, three = page_costs(run, 1), page_costs(run, 3)
    assert one is not None
    assert three is not None
    read = [(0.4432 - READ_S) / PAGES, (1.7679 - 4 * READ_S) / (4 * PAGES)]
    write = [(1.2579 - WRITE_S) / PAGES, (5.0125 - 4 * WRITE_S) / (4 * PAGES)]
    assert one.read_page_ns == pytest.approx(sum(read) / 2 * 1e9, abs=600)
    assert one.program_page_ns == pytest.approx(sum(write) / 2 * 1e9, abs=600)
    assert three.written_page_ns == pytest.approx(one.written_page_ns / 3)
    assert three.read_page_ns < one.read_page_ns / 3


@pytest.mark.usefixtures("engine_is_built")
def test_the_calibrated_board_is_what_the_published_cells_imply() -> None:
    found = page_costs(run_cells(), 1)
    assert found is not None
    assert found.cells == 10
    boards = {
        name: tomllib.loads((ROOT / "boards" / f"{name}.toml").read_text(encoding="utf-8"))
        for name in (CALIBRATED, DATASHEET)
    }
    costs = boards[CALIBRATED]["raw_nand"]
    assert (costs["read_page_ns"], costs["program_page_ns"]) == (
        found.read_page_ns,
        found.program_page_ns,
    )
    # Nothing else differs between the two.
    for board in boards.values():
        for key in ("name", "summary"):
            del board[key]
        for key in ("read_page_ns", "program_page_ns"):
            del board["raw_nand"][key]
            del board["sources"][f"raw_nand.{key}"]
    assert boards[CALIBRATED] == boards[DATASHEET]


def test_ties_support_no_winner_and_a_difference_would_be_seen() -> None:
    tied = dict.fromkeys(SCHEDULERS, 1.0)
    slower = {"noop": 1.0, "anticipatory": 1.1, "deadline": 1.0, "cfq": 1.05}
    run = all_systems(slower, tied)
    found = statuses(run)
    assert found["jffs2-write-best"] == found["jffs2-write-margin"] == "contradicted"
    assert found["nilfs2-write-best"] == found["nilfs2-anticipatory"] == "contradicted"
    assert found["nilfs2-reads-alike"] == "supported"
    assert found["yaffs2-indifferent"] == "by construction"
    assert found["nilfs2-slows-when-cleaning"] == "not run"
    headline = present(run).headline
    assert headline.startswith("Schedulers change only the writes of NILFS2: +10 % under Antici")
    # A scheduler that saves time: the claims turn, and the sentence is not shown.
    saving = {"noop": 1.0, "anticipatory": 0.8, "deadline": 1.0, "cfq": 0.9}
    best = {"noop": 1.0, "anticipatory": 0.95, "deadline": 0.9, "cfq": 0.95}
    run = all_systems(best, saving)
    found = statuses(run)
    for name in ("jffs2-write-best", "jffs2-write-margin", "nilfs2-write-best"):
        assert found[name] == "supported"
    assert found["nilfs2-write-worst"] == found["nilfs2-write-margin"] == "supported"
    assert found["nilfs2-anticipatory"] == "supported"
    assert not present(run).headline.startswith("Schedulers")


def test_a_read_that_reads_more_than_its_file_leaves_room_for_the_checkpoint() -> None:
    tied = {"noop": 1.0}
    for pages, status in ((1.0, "contradicted"), (1.2, "supported")):
        run = run_of(rows(CALIBRATED, "yaffs2", tied, pages))
        assert statuses(run)["why-checkpoint"] == status


def test_published_values_follow_what_a_figure_is_relative_to() -> None:
    run = all_systems(dict.fromkeys(SCHEDULERS, 1.0), dict.fromkeys(SCHEDULERS, 1.0))
    writes = next(one for one in present(run).charts if one.identifier == "writes")
    points = {(point["x"], point["series"]): point["value"] for point in writes.data}
    assert points["NOOP", "JFFS2, published"] == 1.0
    assert points["Anticipatory", "JFFS2, published"] == pytest.approx(47.79 / 51.97)


def test_the_swapped_rows_of_figure_4_are_those_of_the_tables() -> None:
    table = read_reference(FOLDER / "reference.csv").rows
    for scheduler, label in (("deadline", "CFQ"), ("cfq", "Deadline")):
        own = [
            row for row in table if (row["file_system"], row["scheduler"]) == ("nilfs2", scheduler)
        ]
        cells = [row for row in own if row["test"] == "write"]
        places = {row["place"] for row in cells if row["file_mib"] != "mean"}
        assert places == {f"figure 4 (labelled {label})"}
        printed = next(row["seconds"] for row in cells if row["file_mib"] == "mean")
        mean = sum(row["seconds"] for row in cells if row["file_mib"] != "mean") / 5
        assert mean == pytest.approx(printed, abs=0.03)
