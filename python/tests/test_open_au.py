"""The page on open allocation units is current, and its sentences follow from its figures."""

import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import pytest
from script_modules import script_modules

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def script() -> Iterator[ModuleType]:
    with script_modules("open_au") as (module,):
        yield module


@pytest.fixture(scope="module")
def found(script: ModuleType, engine_is_built: None) -> dict[str, list[float]]:
    """Rates of each case, from an AU down to a page."""
    return {case.name: script.rates(case) for case in script.CASES}


def steps(rates: list[float], sizes: list[int], largest: int) -> list[float]:
    """How much less each row is than the one before it, from rows of `largest` bytes on."""
    rows = [rate for rate, size in zip(rates, sizes, strict=True) if size <= largest]
    return [before / after for before, after in pairwise(rows)]


def test_over_the_limit_the_rate_halves_with_the_segment(
    script: ModuleType, found: dict[str, list[float]]
) -> None:
    sizes = script.segments()
    for name in ("bast, 4 AU", "lexar, 4 AU"):
        assert all(1.85 <= step <= 2.05 for step in steps(found[name], sizes, 128 << 10)), name
        assert all(1.5 <= step <= 2.5 for step in steps(found[name], sizes, 4 << 20)), name


def test_within_the_limit_it_does_not(script: ModuleType, found: dict[str, list[float]]) -> None:
    within = [case.name for case in script.CASES if not case.is_over]
    assert len(within) == 3
    for name in within:
        assert all(step < 1.3 for step in steps(found[name], script.segments(), 4 << 20)), name


def test_fast_is_level_once_a_log_block_holds_pages_of_every_unit(
    script: ModuleType, found: dict[str, list[float]]
) -> None:
    sizes = script.segments()
    for units in (8, 32):
        rates = found[f"fast, {units} AU"]
        assert all(step < 1.1 for step in steps(rates, sizes, script.AU_BYTES // units)), units
    assert all(step > 1.7 for step in steps(found["fast, 32 AU"], sizes, 4 << 20)[:4])


def test_the_time_of_a_segment_is_that_of_a_merge(
    script: ModuleType, found: dict[str, list[float]]
) -> None:
    sizes = script.segments()
    times = [
        size / rate / 1e6
        for size, rate in zip(sizes, found["bast, 4 AU"], strict=True)
        if size <= 128 << 10
    ]
    assert max(times) / min(times) < 1.05
    # 256 pages of 16 KiB: a read, a copy within the die and a program of 1.1 ms each.
    assert 0.25 < min(times) < 0.40


def test_the_page_is_current() -> None:
    done = subprocess.run([sys.executable, "scripts/open_au.py", "--check"], cwd=ROOT, check=False)
    assert done.returncode == 0, "docs/open-au.md is old: make docs"
