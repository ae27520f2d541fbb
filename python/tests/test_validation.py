"""`nandlab validate`: the page is current, and every figure is as near as asked, or explained."""

from pathlib import Path

import pytest

from nandlab.cli import main
from nandlab.validation.comparison import EXPLAINED, Asked
from nandlab.validation.workloads import find_workloads, join_mounts

PAGE = Path(__file__).parents[2] / "docs" / "validation.md"


@pytest.mark.usefixtures("engine_is_built")
def test_the_page_is_current_and_holds(tmp_path: Path) -> None:
    made = tmp_path / "validation.md"
    assert main(["validate", "--out", str(made)]) == 0
    assert made.read_text(encoding="utf-8") == PAGE.read_text(encoding="utf-8")


def test_every_workload_with_a_file_system_is_compared() -> None:
    workloads = find_workloads()
    assert len(workloads) == 14
    names = {one.name for one in workloads}
    assert {workload for workload, _ in EXPLAINED} <= names


def test_what_threads_do_after_a_mount_is_added_to_it() -> None:
    joined = join_mounts({"re-mount": [(1, 2, 3)], "re-mount-bg": [(4, 5, 6)], "x": [(7, 8, 9)]})
    assert joined == {"re-mount": [(5, 7, 9)], "x": [(7, 8, 9)]}


def test_equal_compares_the_median_and_a_share_the_mean() -> None:
    assert Asked(0).holds([5], [5, 5, 9])
    assert not Asked(0).holds([5], [5, 6, 6])
    assert Asked(0.1).holds([100, 100], [80, 130])
    assert not Asked(0.1).holds([100], [111])
    assert Asked(0.1).holds([3], [5])
    assert not Asked(0.1).holds([3], [6])
