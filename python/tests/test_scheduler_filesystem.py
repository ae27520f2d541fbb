"""`scheduler-filesystem` and its board: claims and tables on made-up rows, options shipped."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from made_up import run_of as made_up

from nandlab.claims import evaluate, load_claims
from nandlab.claims.evaluate import counted
from nandlab.frame import RunFrame
from nandlab.frame.reference import read_reference
from nandlab.present import present
from nandlab.readings.spec import load_readings
from nandlab.study_files import shipped_studies
from nandlab.validation.published_times import cells

ROOT = Path(__file__).resolve().parents[2]
STUDY = "scheduler-filesystem"
SHARING = ("android", STUDY)
"""Studies of one board."""

FOLDER = Path(shipped_studies()[STUDY]).parent
BOARD = "s5pv210-datasheet"
SCHEDULERS = ("noop", "anticipatory", "deadline", "cfq")
AXES = (
    "board", "flash", "cleaner", "data", "cache", "passes",
    "file_system", "file_mib", "scheduler", "test",
)  # fmt: skip

# Seconds and pages of a mebibyte on the made-up board, in one pass of IOzone.
WRITE_S, READ_S, PAGES = 0.25, 0.125, 500


def rows(file_system: str, times: Mapping[str, float], pages_read: float = 1.0) -> list[list[Any]]:
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
                place = [BOARD, "fresh", "on", "random", "cold", "1", file_system, str(size)]
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
        rows("jffs2", raw) + rows("yaffs2", dict.fromkeys(SCHEDULERS, 1.0)) + rows("nilfs2", nilfs2)
    )


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
        run = run_of(rows("yaffs2", tied, pages))
        assert statuses(run)["why-checkpoint"] == status


def test_a_published_time_stands_beside_the_sum_of_ten_passes() -> None:
    tied = dict.fromkeys(SCHEDULERS, 1.0)
    found = cells(all_systems(tied, tied))
    ours, published = found["yaffs2", "write", "noop", 4]
    assert ours == pytest.approx(10 * 4 * WRITE_S, rel=1e-5)
    assert published == 5.0125


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


def toml(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


def value_at(plain: Mapping[str, Any], key: str) -> Any:
    """What a file has at a key with dots; an axis of one value is that value."""
    found: Any = plain
    for name in key.split("."):
        found = found[name]
    return found[0] if isinstance(found, list) and len(found) == 1 else found


@pytest.mark.parametrize("study", SHARING)
def test_a_study_runs_the_options_that_it_ships(study: str) -> None:
    """Board, chip and axes are those of the shipped options, so both describe one reading."""
    own = toml(shipped_studies()[study])
    board = toml(ROOT / "boards" / f"{own['host']['board']}.toml")
    assert own["host"]["board"] == load_readings(study).plain["board"]
    compared = 0
    for choice in load_readings(study).choices:
        shipped = choice.options[choice.shipped]
        for plain, keys in ((board, shipped.get("board", {})), (own, shipped.get("set", {}))):
            for key, value in keys.items():
                assert value_at(plain, key) == value, (choice.name, key)
                compared += 1
    assert compared >= 4


def test_a_published_time_is_the_sum_of_the_shipped_number_of_passes() -> None:
    readings = load_readings(STUDY)
    passes = next(one for one in readings.choices if one.name == "passes")
    number = passes.options[passes.shipped]["words"]["passes"]
    metrics = {cell.formula.metric.replace("{passes}", number) for cell in readings.cells}
    for name in ("claims", "report"):
        assert {toml(FOLDER / f"{name}.toml")["defaults"]["metric"]} == metrics
    # What is not told otherwise is one pass on a fresh file system.
    assert toml(FOLDER / "study.toml")["axes"]["passes"] == [1]


def test_studies_of_one_board_ask_the_same_of_it() -> None:
    android, own = (
        {one["name"]: one for one in load_readings(name).plain["choice"]} for name in SHARING
    )
    shared = sorted(set(android) & set(own))
    assert shared == ["bus", "driver", "part"]
    for name in shared:
        assert android[name] == own[name]
