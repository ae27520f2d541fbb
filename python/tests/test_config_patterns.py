"""The page on saving settings is current, and its sentences follow from its figures."""

import importlib
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytestmark = pytest.mark.usefixtures("engine_is_built")

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def script() -> Iterator[ModuleType]:
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        yield importlib.import_module("config_patterns")
    finally:
        sys.path.remove(str(ROOT / "scripts"))


@pytest.fixture(scope="module")
def cells(script: ModuleType, engine_is_built: None) -> Sequence[Any]:
    found = script.measured()
    assert len(found) == 3 * len(script.file_systems())
    return list(found)


def test_the_page_is_current(script: ModuleType, cells: Sequence[Any]) -> None:
    page, _, description = script.arguments()
    check = ["--check"]
    assert script.write_or_check(page, lambda: script.page(cells), description, check) == 0
    other = [replace(cells[0], failed=cells[0].failed + 1), *cells[1:]]
    assert script.write_or_check(page, lambda: script.page(other), description, check) == 1


def test_the_patterns_keep_what_they_promise(script: ModuleType, cells: Sequence[Any]) -> None:
    for cell in cells:
        assert cell.cuts > 30
        assert cell.failed == 0 or cell.pattern not in script.PROMISES, cell
        if cell.pattern == "truncate":
            assert cell.failed > 0, cell


def test_sentences_follow_from_the_cells(script: ModuleType, cells: Sequence[Any]) -> None:
    one = replace(cells[0], pattern="truncate", file_system="a", cuts=9, failed=2)
    one = replace(one, torn=["nothing", "prefix"])
    none = replace(one, failed=0, cuts=1)
    held = [replace(one, pattern=name, failed=0) for name in ("rename", "safe")]
    told = list(script.findings([one, replace(none, file_system="b"), *held]))
    assert told[0] == "**`truncate`** fails on a 2 of 9 cuts. It holds on b."
    assert told[1] == "**`rename`** never fails: 9 cuts on 1 file system."
    torn = [replace(one, torn=["prefix"]), replace(one, file_system="b"), *held]
    assert next(iter(script.findings(torn))).endswith(
        "b 2 of 9 cuts. On a every such cut leaves a part of the torn page."
    )
    several = [one, replace(one, file_system="b", failed=9), *held]
    assert next(iter(script.findings(several))) == (
        "**`truncate`** fails on a 2 of 9, b 9 of 9 cuts."
    )
    assert next(iter(script.findings([none, *held]))) == (
        "**`truncate`** never fails: 1 cut on 1 file system."
    )
