"""The page on SLC caches is current, and its sentences follow from its figures."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from script_modules import script_modules

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def scripts() -> Iterator[dict[str, ModuleType]]:
    names = ("slc_cache", "slc_cache_runs", "slc_cache_times")
    with script_modules(*names) as modules:
        yield dict(zip(names, modules, strict=True))


@pytest.fixture(scope="module")
def script(scripts: dict[str, ModuleType]) -> ModuleType:
    return scripts["slc_cache"]


@pytest.fixture(scope="module")
def found(scripts: dict[str, ModuleType], engine_is_built: None) -> dict[Any, Any]:
    """The run of each case."""
    runs = scripts["slc_cache_runs"].measured()
    assert len(runs) == 4
    return dict(runs)


@pytest.fixture(scope="module")
def known(script: ModuleType) -> Any:
    return script.times(script.DEVICE)


@pytest.fixture(scope="module")
def threshold(script: ModuleType, known: Any) -> float:
    return float(script.threshold(known))


def test_the_cliff_lies_at_the_size_of_the_cache(
    script: ModuleType, found: dict[Any, Any], threshold: float
) -> None:
    static, dynamic = (size / 1e9 for size in script.cache_bytes(script.DEVICE))
    assert (static, dynamic) == (pytest.approx(4, rel=0.05), pytest.approx(18, rel=0.05))
    at = {case: run.fall_gb(threshold) for case, run in found.items()}
    assert at[script.EMPTY] == pytest.approx(static + dynamic, rel=0.05)
    assert at[script.FOLDING] == pytest.approx(static + dynamic, rel=0.05)
    assert at[script.OVERWRITTEN] == pytest.approx(static, rel=0.05)
    # Spare blocks are lent, but not those that hold data.
    assert 1.5 * static < at[script.FILLED] < 0.5 * (static + dynamic)


def test_the_throughput_falls_once_or_as_often_as_a_block_is_folded(
    script: ModuleType, found: dict[Any, Any], known: Any, threshold: float
) -> None:
    for case in (script.EMPTY, script.FILLED, script.OVERWRITTEN):
        assert found[case].falls(threshold) == 1, case
    run = found[script.FOLDING]
    after_ms = (run.whole - run.fall(threshold)) * 10
    folds = after_ms / ((known.fold_block_ns + known.fill_block_ns) / 1e6)
    assert run.falls(threshold) == pytest.approx(folds, rel=0.05)
    assert run.falls(threshold) > 50


def test_two_points_a_second_hide_the_saw_tooth(
    script: ModuleType, found: dict[Any, Any], known: Any, threshold: float
) -> None:
    means = found[script.FOLDING].means(threshold, script.MEAN_MS)
    assert len(means) > 20
    assert max(means) < threshold / 2
    assert known.fold_block_ns + known.fill_block_ns < script.MEAN_MS * 1e6


def test_the_times_of_a_page_give_the_throughput(
    script: ModuleType, found: dict[Any, Any], known: Any, threshold: float
) -> None:
    empty, folding = found[script.EMPTY], found[script.FOLDING]
    assert empty.before(threshold) == pytest.approx(known.cache_mb_per_s, rel=0.01)
    assert empty.tail(threshold) == pytest.approx(known.bypass_mb_per_s, rel=0.01)
    assert folding.tail(threshold) == pytest.approx(known.fold_mb_per_s, rel=0.02)
    wanted = known.program_ns_for(600)
    assert replace(known, program_ns=wanted).bypass_mb_per_s == pytest.approx(600)
    assert replace(known, planes=1).one_plane_mb_per_s == pytest.approx(known.bypass_mb_per_s)


def test_only_folding_comes_near_the_published_rate(
    script: ModuleType, found: dict[Any, Any], threshold: float
) -> None:
    bypass, fold = (found[case].tail(threshold) for case in (script.EMPTY, script.FOLDING))
    assert bypass / script.PUBLISHED_MB_PER_S == pytest.approx(1.6, abs=0.05)
    assert fold / script.PUBLISHED_MB_PER_S == pytest.approx(1, abs=0.05)


def test_a_filled_drive_gives_lent_blocks_back_and_then_bypasses(
    script: ModuleType, found: dict[Any, Any], known: Any, threshold: float
) -> None:
    run = found[script.FILLED]
    assert run.between_gb(run.fall_gb(threshold), 12) < 0.75 * known.bypass_mb_per_s
    assert run.between_gb(14, 31) == pytest.approx(known.bypass_mb_per_s, rel=0.03)
    assert found[script.OVERWRITTEN].tail(threshold) < 0.25 * known.bypass_mb_per_s


def test_windows_without_a_request_count_as_nothing(scripts: dict[str, ModuleType]) -> None:
    # 10 ms each: 2,000, 2,000, 0, 0, 2,000, 500 MB/s, and the job ends within the last one.
    windows = [20_000_000, 20_000_000, 0, 0, 20_000_000, 5_000_000]
    run = scripts["slc_cache_runs"].Run(windows, 1, 55_000_000)
    assert (run.whole, run.fall(1000), run.falls(1000)) == (5, 2, 1)
    assert (run.fall_gb(1000), run.before(1000)) == (0.04, 2000)
    assert run.tail(1000) == pytest.approx(2000 / 3)
    assert run.between_gb(0.04, 0.06) == pytest.approx(0.02e3 / 0.03)
    assert run.between_gb(0.01, 0.05) == pytest.approx(0.04e3 / 0.04)
    with pytest.raises(ValueError, match="not written"):
        run.between_gb(0, 1)
    with pytest.raises(ValueError, match="no window"):
        run.fall(-1)


def test_the_page_and_its_picture_are_current(
    script: ModuleType, found: dict[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script, "measured", lambda: found)
    assert script.main(["--check"]) == 0, "docs/slc-cache.md or its picture is old: make docs"
    # Another figure, and another point of the chart.
    slower = replace(found[script.EMPTY], longest_write_ns=99_000_000)
    monkeypatch.setattr(script, "measured", lambda: found | {script.EMPTY: slower})
    assert script.main(["--check"]) == 1
    windows = list(found[script.EMPTY].bytes_by_window)
    windows[10], windows[100] = windows[10] * 2, windows[100] - windows[10]
    moved = replace(found[script.EMPTY], bytes_by_window=windows)
    monkeypatch.setattr(script, "measured", lambda: found | {script.EMPTY: moved})
    before = script.PICTURE.read_bytes()
    assert script.main(["--check"]) == 1
    assert script.PICTURE.read_bytes() == before


def test_the_page_on_accuracy_has_the_same_figure(
    script: ModuleType, found: dict[Any, Any], threshold: float
) -> None:
    rate = found[script.EMPTY].tail(threshold)
    text = (ROOT / "docs" / "accuracy.md").read_text(encoding="utf-8")
    ratio = rate / script.PUBLISHED_MB_PER_S
    assert f"`nvme-ssd-tlc` writes {rate:,.0f} MB/s, {ratio:.1f} times the published rate" in text
