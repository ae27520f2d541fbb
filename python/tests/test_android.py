"""Claims, verdict and sections of android on made-up rows."""

from pathlib import Path
from typing import Any

import pytest

from nandlab.report.page import sections_of
from nandlab.results.reference import read_reference
from nandlab.results.study_result import StudyResult
from nandlab.verdicts import judge
from nandlab.verdicts.android_view import CALIBRATED, DATASHEET
from nandlab.verdicts.model import Claim, Verdict

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "studies" / "android.reference.csv"
OWN = ["test", "board", "file_system", "flash", "room", "data", "file_mib", "files"]
AXES = [*OWN, "rate_kib_per_s", "written_mib", "phase"]

FILLS = ("used-0", "used-25", "used-50", "used-75")
SECONDS = {
    "mount": {"ubifs": (0.9, 0.9, 0.9, 0.9), "yaffs2": (0.1, 0.1, 0.1, 0.1)},
    "mount-after-cut": {"ubifs": (3.4, 3.5, 3.5, 3.4), "yaffs2": (0.5, 4.0, 8.0, 12.0)},
}
RATES = {"write": (20.0, 2.0), "random-write": (20.0, 1.5), "read": (5.0, 4.6), "reread": (90, 90)}


def row(place: dict[str, str], metric: str, value: float, repeat: int = 0) -> list[Any]:
    whole = {"board": DATASHEET, "flash": "fresh", "room": "whole"} | place
    return [*(whole.get(axis, "-") for axis in AXES), repeat, metric, value, ""]


def mounts(board: str) -> list[list[Any]]:
    found = []
    for test, by_name in SECONDS.items():
        for name, series in by_name.items():
            for flash, seconds in zip(FILLS, series, strict=True):
                place = {
                    "test": test,
                    "board": board,
                    "file_system": name,
                    "flash": flash,
                    "phase": "mount",
                    "written_mib": "1" if test == "mount-after-cut" else "-",
                }
                metrics = {"mount_ns": seconds * 1e9, "page_reads": 4500.0, "spare_reads": 9e4}
                if name == "ubifs":
                    metrics |= {
                        "attach_ns": 0.7e9,
                        "attach_page_reads": 2070.0,
                        "replayed_nodes": 9.0,
                    }
                else:
                    metrics["is_from_checkpoint"] = float(test == "mount")
                found += [row(place, metric, value) for metric, value in metrics.items()]
    return found


def benchmark(room: str) -> list[list[Any]]:
    found = []
    for size in ("1", "8", "16"):
        for phase, rates in RATES.items():
            for name, rate in zip(("ubifs", "yaffs2"), rates, strict=True):
                place = {
                    "test": "iozone",
                    "file_system": name,
                    "room": room,
                    "data": "pattern",
                    "file_mib": size,
                    "phase": phase,
                }
                programs = 0.0 if name == "ubifs" else 500.0
                found += [
                    row(place, "throughput_kib_per_s", rate * 1024),
                    row(place, "elapsed_ns", float(size) / rate * 1e9),
                    row(place, "page_programs", programs),
                ]
    return found


def memory() -> list[list[Any]]:
    found = []
    for phase in ("created", "mounted", "touched"):
        for name, mebibytes in (("ubifs", 24), ("yaffs2", 18)):
            place = {"test": "files", "file_system": name, "files": "40000", "phase": phase}
            used = mebibytes * 2.0**20
            found += [
                row(place, "drop_bytes", used),
                row(place, "available_bytes", 300 * 2.0**20 - used),
                row(place, "structure_inode_bytes", used),
            ]
    return found


def bursts(wrong: float = 0.0) -> list[list[Any]]:
    found = []
    for name, lost in (("ubifs", 4e6), ("yaffs2", 2e3)):
        place = {"test": "burst", "file_system": name, "rate_kib_per_s": "128", "phase": "cut"}
        metrics = {
            "written_bytes": 6e6,
            "written_kib_per_s": 128.0,
            "is_mounted": 1.0,
            "lost_unsynced_bytes": lost,
            "lost_synced_bytes": 0.0,
            "zero_bytes": 4096.0 if name == "ubifs" else 0.0,
            "wrong_bytes": wrong if name == "yaffs2" else 0.0,
            "missing_files": 0.0,
            "empty_files": 0.0,
            "complaints": 0.0,
        }
        found += [row(place, metric, value) for metric, value in metrics.items()]
    return found


def result_of(found: list[list[Any]]) -> StudyResult:
    return StudyResult.from_engine(
        {
            "study": {"name": "android", "title": "made up", "seed": 1},
            "columns": AXES,
            "rows": found,
            "results_digest": "ef" * 32,
            "tables": [],
        },
        read_reference(REFERENCE),
    )


@pytest.fixture
def result() -> StudyResult:
    rows = [*mounts(DATASHEET), *mounts(CALIBRATED), *benchmark("whole"), *memory(), *bursts()]
    return result_of(rows + benchmark("ram-40mib"))


def claim_of(verdict: Verdict, identifier: str) -> Claim:
    return next(one for one in verdict.claims if one.identifier == identifier)


def test_every_published_claim_is_judged(result: StudyResult) -> None:
    verdict = judge(result)
    held = {claim.identifier: claim.evaluations[0].holds for claim in verdict.claims}
    assert held == {
        "mounts-faster-mount": False,
        "mounts-faster-mount-after-cut": False,
        "unclean-minus-clean": True,
        "yaffs2-grows": True,
        "ubifs-flat": True,
        "reads-alike": True,
        "reads-alike-random": None,
        "small-reads": False,
        "small-reads-random": None,
        "reread-rises": False,
        "reread-rises-random": None,
        "writes-faster": True,
        "writes-faster-random": None,
        "memory-used": True,
        "memory-sum": False,
        "ubifs-integrity": True,
        "yaffs2-no-integrity": False,
        "full-scan": False,
        "checkpoint": True,
        "attach": True,
        "journal": True,
        "write-back": True,
    }
    after_cut = claim_of(verdict, "mounts-faster-mount-after-cut").evaluations[0]
    assert (after_cut.workloads_hold, after_cut.workloads) == (2, 4)
    assert claim_of(verdict, "memory-used").evaluations[1].holds is None


def test_the_headline_says_which_for_whom(result: StudyResult) -> None:
    verdict = judge(result)
    assert verdict.headline == (
        "UBIFS for quick starts after a power cut and writes that return at once; YAFFS2 for quick "
        "starts after an orderly shutdown, less memory and less lost to a power cut."
    )
    assert any("2,070 pages with headers" in sentence for sentence in verdict.sentences)


def test_a_wrong_byte_is_a_loss_of_integrity() -> None:
    verdict = judge(result_of([*mounts(DATASHEET), *bursts(wrong=4096.0)]))
    assert claim_of(verdict, "yaffs2-no-integrity").evaluations[0].holds is True
    # Zeros where bytes were never synced are told, and are no loss of integrity.
    ubifs = claim_of(verdict, "ubifs-integrity").evaluations[0]
    assert ubifs.holds is True
    assert "zeros for bytes that were not synced" in ubifs.detail
    assert claim_of(verdict, "writes-faster").evaluations[0].holds is None


def test_sections_are_filled(result: StudyResult) -> None:
    sections = {one.identifier: one for one in sections_of(result, judge(result), ())}
    assert list(sections) == [
        "claims",
        "mounts",
        "mechanism",
        "throughput",
        "rooms",
        "memory",
        "integrity",
    ]
    for section in sections.values():
        for table in section.tables:
            assert all(len(line) == len(table.columns) for line in table.rows), table.title
    assert len(sections["rooms"].tables[0].rows) == 2


def test_rows_without_a_claim_have_no_verdict() -> None:
    assert judge(result_of([])).headline.startswith("No verdict")
