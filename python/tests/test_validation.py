"""`nandlab validate`: the page is current, and every figure is as near as asked, or explained."""

import json
from pathlib import Path

import polars
import pytest

from nandlab.study_files import shipped_studies
from nandlab.validation import named_devices, published_times
from nandlab.validation.comparison import Asked, Comparison, Figure, asked_of, compare
from nandlab.validation.explanations import DEPARTURES, EXPLAINED
from nandlab.validation.orders import Departure, compare_orders
from nandlab.validation.page import render
from nandlab.validation.published_times import RECORD, exact_p_value, kendall_tau, section
from nandlab.validation.workloads import find_workloads, join_mounts

PAGE = Path(__file__).parents[2] / "docs" / "validation.md"
STUDY_FOLDER = Path(shipped_studies()[published_times.STUDY]).parent
AXES = (
    "board", "flash", "cleaner", "data", "cache", "passes",
    "file_system", "file_mib", "scheduler", "test",
)  # fmt: skip


@pytest.fixture(scope="module")
def comparison(engine_is_built: None) -> Comparison:
    """Every workload, replayed."""
    return compare(find_workloads(), lambda done, total, label: None)


def test_the_page_is_current(comparison: Comparison) -> None:
    assert render(comparison) == PAGE.read_text(encoding="utf-8")


def test_the_published_times_stand_on_the_page() -> None:
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    assert set(record) == {"quick", "whole"}
    for form in record.values():
        rows = {(row["file_system"], row["test"]): row for row in form["agreement"]}
        assert set(rows) == {
            (name, test) for name in ("jffs2", "nilfs2", "yaffs2") for test in ("write", "read")
        }
        # No level is fitted, and none is off by half.
        assert all(0.01 < row["error_of_means"] < 0.5 for row in rows.values())
    assert PAGE.read_text(encoding="utf-8").endswith(f"\n{section()}")


def test_the_cells_of_named_devices_are_on_record_and_near(engine_is_built: None) -> None:
    record = json.loads(named_devices.RECORD.read_text(encoding="utf-8"))
    devices = named_devices.devices()
    assert set(record) == {device["name"] for device in devices}
    assert len(devices) == 7
    for device in devices:
        here = named_devices.measure(device)
        assert here == record[device["name"]], device["name"]
        for cell in named_devices.CELLS:
            off = here[cell] / device["published"][cell] - 1
            assert abs(off) <= named_devices.TOLERANCE, (device["name"], cell, off)


def test_figures_are_taken_over_from_a_run(
    tmp_path: Path, run_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(published_times, "RECORD", tmp_path / "record.json")
    run = tmp_path / "run"
    run.mkdir()
    study = {"name": published_times.STUDY}
    manifest = {"results_digest": "ab", "study": study, "axes": list(AXES), "quick": True}
    (run / "manifest.json").write_text(json.dumps(manifest))
    (run / "reference.csv").write_bytes((STUDY_FOLDER / "reference.csv").read_bytes())
    # Reads of 1 MiB, in ten passes: half, twice, once and once the published time.
    times = {"noop": 0.4432 / 2, "anticipatory": 0.4437 * 2, "deadline": 0.4434, "cfq": 0.4417}
    place = "fresh,on,random,cold,1,yaffs2,1"
    lines = [
        f"s5pv210-datasheet,{place},{name},read,0,elapsed_ns,{1e9 * one / 10},ns"
        for name, one in times.items()
    ]
    head = ",".join((*AXES, "repeat", "metric", "value", "unit"))
    rows = polars.read_csv("\n".join((head, *lines)).encode())
    rows.write_parquet(run / "results.parquet")
    (run / "curves.csv").write_text(",".join((*AXES, "io")) + "\n")
    assert published_times.main([str(run)]) == 0
    kept = json.loads(published_times.RECORD.read_text(encoding="utf-8"))
    (row,) = kept["quick"]["agreement"]
    assert (kept["quick"]["digest"], row["file_system"], row["test"]) == ("ab", "yaffs2", "read")
    assert row["error_of_means"] == row["error_of_cells"] == 0.375
    # Of the six pairs only NOOP and CFQ come in reverse.
    assert row["tau"] == pytest.approx(4 / 6, abs=1e-6)
    assert "| YAFFS2 | read | 38 % | 38 % | 0.67 | 0.33 |" in published_times.section()
    assert published_times.main([str(run_folder)]) == 2
    assert json.loads(published_times.RECORD.read_text(encoding="utf-8")) == kept


def test_tau_and_its_exact_p_value() -> None:
    upwards, swapped = [1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 4.0, 3.0]
    assert kendall_tau(upwards, upwards) == pytest.approx(1.0)
    assert exact_p_value(upwards, upwards) == pytest.approx(2 / 24)
    assert kendall_tau(upwards, upwards[::-1]) == pytest.approx(-1.0)
    assert kendall_tau(upwards, swapped) == pytest.approx(4 / 6)
    # One order of the 24 has no pair in reverse and three have one; as many on the other side.
    assert exact_p_value(upwards, swapped) == pytest.approx(8 / 24)
    assert kendall_tau([1.0, 1.0, 1.0, 1.0], upwards) is None
    assert exact_p_value([1.0, 1.0, 1.0, 1.0], upwards) == 1.0


def test_every_figure_is_as_near_as_asked_or_explained(comparison: Comparison) -> None:
    wrong = [one for one in comparison.figures if not one.holds and one.explanation is None]
    assert [(one.workload.name, one.phase, one.kind) for one in wrong] == []


def test_every_explanation_is_needed(comparison: Comparison) -> None:
    found = {(one.workload.name, one.phase, one.kind): one.holds for one in comparison.figures}
    assert {key: found.get(key) for key in EXPLAINED} == dict.fromkeys(EXPLAINED, False)


def test_an_explanation_excuses_one_kind_of_operation_and_has_a_bound() -> None:
    workload = next(one for one in find_workloads() if one.name == "jffs2/gc-x")

    def figure(kind: str, shown: float) -> Figure:
        return Figure(workload, "ow1", kind, [1000], [shown], Asked(0))

    most = EXPLAINED["jffs2/gc-x", "ow1", "reads"].most
    assert figure("reads", 1000 + most).explanation
    assert figure("reads", 1001 + most).explanation is None
    assert figure("programs", 1001).explanation is None


def test_every_departure_of_an_order_is_explained(comparison: Comparison) -> None:
    found = {one.workload.name: one.departure.phase for one in comparison.orders if one.departure}
    assert found == {name: phase for name, (phase, _) in DEPARTURES.items()}


def test_an_order_is_compared_phase_by_phase(tmp_path: Path) -> None:
    workload = next(one for one in find_workloads() if one.name == "ubifs/base-x")
    recorded, shown = tmp_path / "recorded.seq", tmp_path / "shown.seq"
    recorded.write_text("# phase a\nP 1\nB 7\n# phase b-mount\nR 1\nR 2\nE 3\n# phase end\nR 9\n")
    shown.write_text("# phase a\nP 1\n# phase b-mount\nR 1\n# phase b-mount-bg\nE 3\nR 2\n")
    order = compare_orders(workload, recorded, shown)
    assert (order.length, order.in_step) == (4, 2)
    assert order.departure == Departure("b-mount", 2, "R 2", "E 3")
    assert [(one.is_same, one.has_same_operations) for one in order.phases] == [
        (True, True),
        (False, True),
    ]


def test_every_workload_with_a_file_system_is_compared() -> None:
    workloads = find_workloads()
    assert len(workloads) == 21
    names = {one.name for one in workloads}
    assert {workload for workload, *_ in EXPLAINED} <= names


def test_ubifs_is_asked_to_be_equal_where_the_kernel_agrees_with_itself() -> None:
    workloads = {one.name: one for one in find_workloads()}
    asked = {
        (name, phase, kind): str(asked_of(workloads[name], phase, kind))
        for name, phase in (
            ("ubifs/gc-x", "ow2"),
            ("ubifs/cut-x", "fill"),
            ("ubifs/base-t", "read"),
        )
        for kind in range(3)
    }
    assert [asked["ubifs/gc-x", "ow2", kind] for kind in range(3)] == ["equal", "2% or 2", "equal"]
    assert asked["ubifs/cut-x", "fill", 0] == "2% or 2"
    assert asked["ubifs/base-t", "read", 0] == "2%"
    assert str(asked_of(workloads["ubifs2048/fill-x"], "ow-attach", 0)) == "equal"


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
