"""The page on SQLite on each file system is current, and a part of it comes out again."""

import json
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
from script_modules import script_modules

pytestmark = pytest.mark.usefixtures("engine_is_built")

ROOT = Path(__file__).parents[2]

REPEATED = (
    ("yaffs2", "wal", "full"),
    ("ubifs", "delete", "off"),
    ("jffs2", "truncate", "normal"),
    ("nilfs2-card", "delete", "extra"),
    ("fat-card", "wal", "full"),
    ("fat", "persist", "off"),
)
"""Cells that are cut again: two that hold, three that fail, and one that leaves the chip alone."""


@pytest.fixture(scope="module")
def script() -> Iterator[ModuleType]:
    with script_modules("sqlite_file_systems") as (module,):
        yield module


@pytest.fixture(scope="module")
def runs() -> Iterator[ModuleType]:
    with script_modules("sqlite_file_systems_runs") as (module,):
        yield module


def test_the_page_is_current(script: ModuleType) -> None:
    page = script.PAGE.read_text(encoding="utf-8")
    assert page == script.made(), "docs/sqlite-file-systems.md is old: make docs"
    cells = list(script.kept())
    assert script.is_whole(cells)
    assert not script.is_whole(cells[1:])
    record = json.loads(script.RECORD.read_text(encoding="utf-8"))
    other = [replace(cells[0], lost_cuts=cells[0].lost_cuts + 1), *cells[1:]]
    assert script.page(record, other) != page


@pytest.mark.parametrize("key", REPEATED)
def test_a_cell_comes_out_again(key: tuple[str, str, str], runs: ModuleType) -> None:
    record = json.loads(runs.RECORD.read_text(encoding="utf-8"))
    if record["sqlite"]["opened"] != sqlite3.sqlite_version:
        pytest.skip(f"SQLite {sqlite3.sqlite_version} is not that of the record")
    name, journal_mode, synchronous = key
    (stack,) = (one for one in runs.STACKS if one.name == name)
    (known,) = (one for one in runs.kept() if (one.stack, one.journal_mode, one.synchronous) == key)
    assert runs.measured(stack, journal_mode, synchronous) == known


def test_a_wrong_answer_makes_another_cell(runs: ModuleType) -> None:
    """A checker that counts one transaction more than was acknowledged sees losses everywhere."""

    def strict(folder: Path, acknowledged: int | None) -> str | None:
        return str(runs.checker().check(folder, (acknowledged or 0) + 9))

    (stack,) = (one for one in runs.STACKS if one.name == "yaffs2")
    found = runs.measured(stack, "wal", "full", strict)
    (known,) = (
        one
        for one in runs.kept()
        if (one.stack, one.journal_mode, one.synchronous) == ("yaffs2", "wal", "full")
    )
    assert found != known
    assert found.lost_cuts == found.cuts
    assert replace(found, lost_cuts=0, lost_most=0, asked=0) == replace(
        known, lost_cuts=0, lost_most=0, asked=0
    )
