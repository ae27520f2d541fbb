"""Calibration, verdict and sections of scheduler-filesystem on made-up rows, and on real cells."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from nandlab.calibration import run_cells
from nandlab.report.page import sections_of
from nandlab.results.reference import read_reference
from nandlab.results.study_result import StudyResult
from nandlab.verdicts import judge
from nandlab.verdicts import scheduler_filesystem_block2mtd as block2mtd
from nandlab.verdicts import scheduler_filesystem_cleaning as cleaning
from nandlab.verdicts import scheduler_filesystem_nilfs2 as nilfs2
from nandlab.verdicts.model import Verdict
from nandlab.verdicts.page_costs import page_costs
from nandlab.verdicts.scheduler_filesystem_causes import slow_stretches, spans
from nandlab.verdicts.scheduler_filesystem_effect import effect, effects
from nandlab.verdicts.scheduler_filesystem_view import CALIBRATED, DATASHEET, SCHEDULERS, View

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "studies" / "scheduler-filesystem.reference.csv"
AXES = [
    "board",
    "flash",
    "cleaner",
    "data",
    "cache",
    "passes",
    "file_system",
    "file_mib",
    "scheduler",
    "test",
]

# Seconds and pages of a mebibyte on the made-up board without calibration.
WRITE_S, READ_S, PAGES = 0.25, 0.125, 500


def rows(board: str, scheduler: str, flash: str = "fresh", times: float = 1.0) -> list[list[Any]]:
    found: list[list[Any]] = []
    for file_system, slower in (("jffs2", 3.0), ("yaffs2", 1.0)):
        for size in (1, 4):
            for test, seconds in (("write", WRITE_S), ("read", READ_S)):
                place = [
                    board,
                    flash,
                    "on",
                    "random",
                    "cold",
                    "1",
                    file_system,
                    str(size),
                    scheduler,
                ]
                pages = PAGES * size
                reads, programs = (0, pages) if test == "write" else (pages, 0)
                for repeat in range(2):
                    elapsed = seconds * slower * size * times * 1e9
                    values = {
                        "elapsed_ns": elapsed,
                        "page_reads": reads,
                        "page_programs": programs,
                        "array_program_ns": elapsed * 0.7,
                        "software_ns": elapsed * 0.3,
                    }
                    found += [
                        [*place, test, repeat, metric, value, "ns"]
                        for metric, value in values.items()
                    ]
    return found


def result_of(found: list[list[Any]]) -> StudyResult:
    return StudyResult.from_engine(
        {
            "study": {"name": "scheduler-filesystem", "title": "made up", "seed": 1},
            "columns": AXES,
            "rows": found,
            "results_digest": "ef" * 32,
            "tables": [],
        },
        read_reference(REFERENCE),
    )


@pytest.fixture
def result() -> StudyResult:
    tied = [row for scheduler in SCHEDULERS for row in rows(CALIBRATED, scheduler, times=5.0)]
    aged = rows(CALIBRATED, "noop", flash="aged", times=20.0)
    return result_of(tied + rows(DATASHEET, "noop") + aged)


def test_costs_follow_from_cells(result: StudyResult) -> None:
    view = View(result)
    one = page_costs(view, 1)
    assert one is not None
    read = [(0.4432 - READ_S) / PAGES, (1.7679 - 4 * READ_S) / (4 * PAGES)]
    write = [(1.2579 - WRITE_S) / PAGES, (5.0125 - 4 * WRITE_S) / (4 * PAGES)]
    assert one.read_page_ns == pytest.approx(sum(read) / 2 * 1e9, abs=500)
    assert one.program_page_ns == pytest.approx(sum(write) / 2 * 1e9, abs=500)
    three = page_costs(view, 3)
    assert three is not None
    assert three.written_page_ns == pytest.approx(one.written_page_ns / 3)
    assert three.read_page_ns < one.read_page_ns / 3


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


def test_ties_are_named_and_a_difference_would_be_seen(result: StudyResult) -> None:
    verdict = judge(result)
    assert verdict.headline.startswith("The scheduler does not matter to JFFS2 and YAFFS2")
    assert any("tied by construction" in sentence for sentence in verdict.sentences)
    best = [claim for claim in verdict.claims if claim.identifier == "jffs2-write-best"]
    assert best[0].evaluations[0].holds is False
    slower = [row for name in SCHEDULERS[1:] for row in rows(CALIBRATED, name, times=5.5)]
    other = judge(result_of(rows(CALIBRATED, "noop", times=5.0) + slower))
    assert "defect" in other.headline


def test_spans_and_slow_stretches(result: StudyResult) -> None:
    view = View(result)
    found = {(one.file_system, one.test, one.size): one for one in spans(view)}
    span = found["jffs2", "write", "1"]
    assert span.ours == pytest.approx(4.0)
    assert span.published == pytest.approx(13.8445 / 7.0409)
    assert span.is_explained
    assert span.repeats == 1.0
    stretches = {one.scheduler: one for one in slow_stretches(view, "jffs2", "write")}
    assert stretches["noop"].sizes == ("1", "2")
    assert stretches["anticipatory"].sizes == ()
    assert stretches["deadline"].mebibytes == 70
    assert all(one.is_at_start for one in stretches.values())


def test_the_report_has_every_section(result: StudyResult) -> None:
    found = {section.identifier: section for section in sections_of(result, judge(result), [])}
    assert list(found) == ["cells", "effect", "claims", "where", "passes", "causes", "settings"]
    assert len(found["cells"].tables) == 3
    lines = [line for line in found["cells"].tables[0].rows if line[0] == "write"]
    assert [line[1] for line in lines][-1] == "simulated, all four"
    assert len(found["passes"].tables[0].rows) == 3
    effect = [line[:3] for line in found["effect"].tables[0].rows]
    assert effect[0] == ["JFFS2", "write", "0"]


def holds(verdict: Verdict) -> dict[str, bool | None]:
    return {claim.identifier: claim.evaluations[0].holds for claim in verdict.claims}


def test_the_reasons_that_are_published_are_claims(result: StudyResult) -> None:
    tied = holds(judge(result))
    assert tied["yaffs2-indifferent"] is True
    assert tied["why-anticipation"] is False
    assert tied["jffs2-read-margin"] is False
    assert tied["why-checkpoint"] is False
    # A scheduler that saves time, and a read that reads more than its file.
    times = {"noop": 5.0, "anticipatory": 4.0, "deadline": 5.0, "cfq": 4.5}
    found = [row for name, factor in times.items() for row in rows(CALIBRATED, name, times=factor)]
    for row in found:
        if row[-3] == "page_reads" and row[AXES.index("file_system")] == "yaffs2":
            row[-2] *= 2
    other = holds(judge(result_of(found)))
    assert other["yaffs2-indifferent"] is False
    assert other["why-anticipation"] is True
    assert other["jffs2-read-margin"] is True
    assert other["why-checkpoint"] is True


def test_the_margin_is_held_against_the_published_table(result: StudyResult) -> None:
    claims = {claim.identifier: claim for claim in judge(result).claims}
    assert claims["jffs2-read-margin"].published == (
        "1.5 % or more in the text; by the table 6.9 % against noop, 3.4 % against deadline and "
        "0.6 % against cfq"
    )


def test_the_effect_of_a_tied_scheduler_is_exactly_nothing(result: StudyResult) -> None:
    found = {(one.file_system, one.test): one for one in effects(View(result))}
    for name in ("jffs2", "yaffs2"):
        for test in ("write", "read"):
            ours = found[name, test].ours
            assert ours is not None
            assert (ours.eta_squared, ours.spread) == (0.0, 0.0)
    published = found["jffs2", "write"].published
    assert published is not None
    assert published.eta_squared == pytest.approx(0.52, abs=0.005)
    assert published.by_chance == pytest.approx(3 / 19)


def test_eta_squared() -> None:
    # Means 0.9 and 1.1, each time 0.1 off its mean: half of the squares lie between the two.
    half = effect([{"a": [0.8, 1.0], "b": [1.0, 1.2]}])
    assert half is not None
    assert half.eta_squared == pytest.approx(0.5)
    assert half.by_chance == pytest.approx(1 / 3)
    assert half.spread == pytest.approx(1.1 / 0.9 - 1)
    # A size ten times as large weighs no more.
    both = effect([{"a": [0.8, 1.0], "b": [1.0, 1.2]}, {"a": [8.0, 10.0], "b": [10.0, 12.0]}])
    assert both is not None
    assert both.eta_squared == pytest.approx(0.5)
    repeats = [1.1, 1.7, 2.3]
    tied = effect([dict.fromkeys(SCHEDULERS, repeats)])
    assert tied is not None
    assert (tied.eta_squared, tied.spread) == (0.0, 0.0)
    assert effect([{"a": [1.0]}]) is None


def nilfs2_rows(times: dict[str, float], erases: dict[str, int]) -> list[list[Any]]:
    """Writes as long as published under noop, times a factor by scheduler; reads alike."""
    published = {"write": {1: 2.2759, 4: 9.2071}, "read": {1: 0.462, 4: 1.886}}
    found: list[list[Any]] = []
    for scheduler, factor in times.items():
        for test, sizes in published.items():
            for size, seconds in sizes.items():
                place = [CALIBRATED, "fresh", "on", "random", "cold", "1", "nilfs2", str(size)]
                elapsed = seconds * 1e9 * (factor if test == "write" else 1.0)
                blocks = erases[scheduler] if test == "write" else 0
                for metric, value in (("elapsed_ns", elapsed), ("erases", blocks)):
                    found.append([*place, scheduler, test, 0, metric, value, "ns"])
    return found


def with_state(found: list[list[Any]], flash: str, cleaner: str, times: float) -> list[list[Any]]:
    """The same cells in another state, each so many times as long."""
    value = AXES.index("test") + 3
    return [
        [row[0], flash, cleaner, *row[3:value], row[value] * times, *row[value + 1 :]]
        for row in found
    ]


def test_nilfs2_slows_when_cleaning_is_due_or_not() -> None:
    fresh = nilfs2_rows({"noop": 1.0, "cfq": 1.0}, {"noop": 10, "cfq": 10})
    base = nilfs2_rows({"noop": 1.0}, {"noop": 10})
    idle = with_state(base, "used", "off", 1.0)
    for factor, word in ((1.5, "holds"), (1.0, "falls")):
        active = with_state(base, "used", "on", factor)
        result = result_of(fresh + idle + active)
        found = cleaning.cleanings(View(result))
        assert [one.size for one in found] == ["1", "4", "1", "4"]
        assert all(one.slower == pytest.approx(factor - 1) for one in found)
        verdict = judge(result)
        assert any(f"when cleaning is due: {word}." in text for text in verdict.sentences)
        claim = next(one for one in verdict.claims if one.identifier.startswith("nilfs2-slows"))
        assert claim.evaluations[0].holds is (word == "holds")
        sections = {one.identifier: one for one in sections_of(result, verdict, [])}
        assert any("cleaning is due" in table.title for table in sections["nilfs2"].tables)
    assert cleaning.sentences(View(result_of(fresh))) == []


def test_orders_of_nilfs2_are_compared_and_explained() -> None:
    times = {"noop": 1.0, "anticipatory": 1.2, "deadline": 1.0, "cfq": 1.1}
    erases = {"noop": 10, "anticipatory": 14, "deadline": 10, "cfq": 12}
    extra = {"anticipatory-no-wait": 1.2, "sfq": 1.5}
    found = nilfs2_rows(times | extra, erases | {"anticipatory-no-wait": 14, "sfq": 20})
    tied = [row for scheduler in SCHEDULERS for row in rows(CALIBRATED, scheduler, times=5.0)]
    verdict = judge(result_of(tied + found))
    assert verdict.headline == (
        "The scheduler does not matter to JFFS2 and YAFFS2, whose requests never meet it. To "
        "NILFS2's writes it matters by 20 % (noop and deadline fastest, anticipatory slowest), and "
        "to its reads not at all."
    )
    text = " ".join(verdict.sentences)
    assert "cfq 2 more (0.29 s each)" in text
    assert "anticipatory 4 more (0.29 s each)" in text
    assert "anticipatory without anticipation 0 %" in text
    assert "sfq +50 %" in text
    best = {claim.identifier: claim.evaluations[0].holds for claim in verdict.claims}
    assert (best["nilfs2-write-best"], best["nilfs2-read-best"]) == (False, False)
    alone = judge(result_of(nilfs2_rows(times | {"deadline": 0.9}, erases)))
    best = {claim.identifier: claim.evaluations[0].holds for claim in alone.claims}
    assert best["nilfs2-write-best"] is True


def block2mtd_rows(times: dict[str, float]) -> list[list[Any]]:
    """Reads of a second a mebibyte, times a factor by scheduler, and writes that come later."""
    found: list[list[Any]] = []
    for scheduler, factor in times.items():
        for size in (1, 4):
            for test in ("write", "read"):
                place = [CALIBRATED, "fresh", "on", "random", "cold", "1", block2mtd.NAME]
                values = {
                    "elapsed_ns": size * 1e9 * (factor if test == "read" else 1.0),
                    "device_reads": 300 * size,
                    "device_writes": 0,
                    "device_reads_before": 100 * size,
                    "device_writes_before": 10 * size,
                    "dirty_bytes_at_end": (size << 20) * 0.9 if test == "write" else 0,
                }
                for metric, value in values.items():
                    found.append([*place, str(size), scheduler, test, 0, metric, value, "ns"])
    return found


def test_jffs2_over_block2mtd_is_beside_what_is_published(result: StudyResult) -> None:
    tied = [row for scheduler in SCHEDULERS for row in rows(CALIBRATED, scheduler, times=5.0)]
    found = block2mtd_rows({"noop": 1.0, "anticipatory": 1.1, "deadline": 1.0, "cfq": 1.0})
    both = result_of(tied + found)
    verdict, without = judge(both), judge(result_of(tied))
    assert verdict.headline == without.headline
    assert verdict.claims == without.claims
    assert verdict.agreement == without.agreement
    text = " ".join(one for one in verdict.sentences if one not in without.sentences)
    assert "it matters: the slowest takes longer than the fastest by writes 0 % and reads 10 %" in (
        text
    )
    alike = View(result_of(tied + block2mtd_rows(dict.fromkeys(SCHEDULERS, 1.0))))
    assert "still it hardly matters" in block2mtd.sentences(alike)[0]
    assert "none was written within the time" in text
    assert "1,100 requests while the file system was unmounted" in text
    assert "pages of 90 % of their size were dirty in memory" in text
    assert "Opening a file" not in text
    assert block2mtd.DEVICE in verdict.caveats
    assert block2mtd.DEVICE not in without.caveats
    write, read = block2mtd.meetings(View(both))
    assert write.requests == dict.fromkeys(SCHEDULERS, 1500)
    assert read.spread == pytest.approx(0.1)
    sections = {one.identifier: one for one in sections_of(both, verdict, [])}
    lines = sections["block2mtd"].tables[0].rows
    assert ["read", "anticipatory", "+10 %"] in [[*line[:2], line[3]] for line in lines]
    assert block2mtd.sentences(View(result)) == []


def test_errors_of_means_and_of_cells(result: StudyResult) -> None:
    found = {(one.file_system, one.test): one for one in judge(result).agreement}
    ours = {1: WRITE_S * 5, 4: 4 * WRITE_S * 5}
    published = {1: (1.2579, 1.2666, 1.2593, 1.2604), 4: (5.0125, 5.0392, 5.0392, 5.0082)}
    cells = [abs(ours[size] / one - 1) for size in ours for one in published[size]]
    write = found["yaffs2", "write"]
    assert write.error_of_cells == pytest.approx(sum(cells) / 8)
    sums = [sum(pair) for pair in zip(*published.values(), strict=True)]
    means = [abs(sum(ours.values()) / one - 1) for one in sums]
    assert write.error_of_means == pytest.approx(sum(means) / 4)
    assert (write.tau, write.p_value) == (None, 1.0)


def test_tau_and_its_exact_p_value() -> None:
    upwards, swapped = [1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 4.0, 3.0]
    assert nilfs2.kendall_tau(upwards, upwards) == pytest.approx(1.0)
    assert nilfs2.exact_p_value(upwards, upwards) == pytest.approx(2 / 24)
    assert nilfs2.kendall_tau(upwards, upwards[::-1]) == pytest.approx(-1.0)
    assert nilfs2.kendall_tau(upwards, swapped) == pytest.approx(4 / 6)
    # One order of the 24 has no pair in reverse and three have one; as many on the other side.
    assert nilfs2.exact_p_value(upwards, swapped) == pytest.approx(8 / 24)
    assert nilfs2.kendall_tau([1.0, 1.0, 1.0, 1.0], upwards) is None
    assert nilfs2.exact_p_value([1.0, 1.0, 1.0, 1.0], upwards) == 1.0
