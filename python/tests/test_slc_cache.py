"""The page on SLC caches is current, and its sentences follow from its figures."""

import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
Rates = list[tuple[float, float]]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        return importlib.import_module("slc_cache")
    finally:
        sys.path.remove(str(ROOT / "scripts"))


@pytest.fixture(scope="module")
def found(script: ModuleType, engine_is_built: None) -> dict[str, Rates]:
    """Throughput over the bytes written, of each drive."""
    return {case.name: script.rates(case) for case in script.CASES}


def test_an_empty_drive_falls_once_where_its_cache_is_full(
    script: ModuleType, found: dict[str, Rates]
) -> None:
    rows = found["empty drive"]
    first, falls, last = script.plateaus(rows)
    assert falls == pytest.approx(script.WHOLE_GB, rel=0.05)
    assert script.swings(rows) <= 2
    before, after = script.PUBLISHED
    assert first > before
    assert last > 1.4 * after


def test_a_full_drive_falls_sooner_and_not_before_its_static_blocks_are_full(
    script: ModuleType, found: dict[str, Rates]
) -> None:
    _, falls, _ = script.plateaus(found["full drive"])
    assert script.STATIC_GB < falls < script.WHOLE_GB / 2
    assert script.swings(found["full drive"]) > 20


def test_a_drive_that_folds_first_is_slower_in_a_saw_tooth(
    script: ModuleType, found: dict[str, Rates]
) -> None:
    _, falls, last = script.plateaus(found["empty drive that folds first"])
    assert falls == pytest.approx(script.WHOLE_GB, rel=0.05)
    assert script.swings(found["empty drive that folds first"]) > 50
    past = script.plateaus(found["empty drive"])[2]
    # The published rate lies between.
    assert last < script.PUBLISHED[1] < past
    assert last < 0.75 * past


def test_the_page_is_current() -> None:
    done = subprocess.run(
        [sys.executable, "scripts/slc_cache.py", "--check"], cwd=ROOT, check=False
    )
    assert done.returncode == 0, "docs/slc-cache.md is old: make docs"
