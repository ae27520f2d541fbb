"""The page on saving settings is current, and its sentences follow from its figures."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from script_modules import script_modules

pytestmark = pytest.mark.usefixtures("engine_is_built")

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def script() -> Iterator[ModuleType]:
    with script_modules("config_patterns") as (module,):
        yield module


@pytest.fixture(scope="module")
def cells(script: ModuleType, engine_is_built: None) -> Sequence[Any]:
    found = script.measured()
    assert {stack.file_system for stack in script.STACKS} == set(script.file_systems())
    assert len(found) == 3 * len(script.STACKS)
    return list(found)


def test_the_page_is_current(script: ModuleType, cells: Sequence[Any]) -> None:
    page, _, description = script.arguments()
    check = ["--check"]
    record = script.recorded()
    assert script.write_or_check(page, lambda: script.page(cells, record), description, check) == 0
    other = [replace(cells[0], failed=cells[0].failed + 1), *cells[1:]]
    assert script.write_or_check(page, lambda: script.page(other, record), description, check) == 1


def test_the_patterns_keep_what_they_promise(script: ModuleType, cells: Sequence[Any]) -> None:
    stacks = {(stack.file_system, stack.on): stack for stack in script.STACKS}
    for cell in cells:
        # block2mtd writes to its device at the unmount alone.
        assert cell.cuts >= (3 if cell.on.startswith("card") else 27)
        assert cell.violations == 0, cell
        promises = stacks[cell.file_system, cell.on].promises
        assert cell.failed == 0 or not promises or cell.pattern not in script.PROMISES, cell
        # NILFS2 makes no checkpoint between the two calls.
        holds = cell.file_system == "nilfs2" and cell.on.startswith("card")
        if cell.pattern == "truncate":
            assert (cell.failed > 0) != holds, cell


def test_every_failure_of_fat_was_confirmed_by_a_kernel(
    script: ModuleType, cells: Sequence[Any]
) -> None:
    record = script.recorded()
    fat = [cell for cell in cells if cell.file_system == "fat"]
    failed = {(cell.pattern, cell.on): cell.failed_whole for cell in fat}
    rows = {(row["pattern"], row["on"]): row for row in record["rows"]}
    assert {key: row["failed"] for key, row in rows.items()} == failed
    assert [row["differences"] for row in record["rows"] if row["differences"]] == []
    other = {**record, "rows": [{**record["rows"][0], "differences": [{}]}]}
    assert script.kernel_section(other) not in script.kernel_section(record)


def test_sentences_follow_from_the_cells(script: ModuleType, cells: Sequence[Any]) -> None:
    one = replace(cells[0], pattern="truncate", file_system="a", cuts=9, failed=2)
    one = replace(one, torn=["nothing", "prefix"], on=script.RAW_CHIP)
    none = replace(one, failed=0, cuts=1)
    held = [replace(one, pattern=name, failed=0) for name in ("rename", "safe")]
    told = list(script.findings([one, replace(none, file_system="b"), *held]))
    assert told[0] == "**`truncate`** fails on a 2 of 9 cuts. It holds on b."
    assert told[1] == "**`rename`** never fails: 9 cuts on 1 stack."
    torn = [replace(one, torn=["prefix"]), replace(one, file_system="b"), *held]
    assert next(iter(script.findings(torn))).endswith(
        "b 2 of 9 cuts. On a every such cut leaves a part of the torn page."
    )
    several = [one, replace(one, file_system="b", failed=9, on="card (c)"), *held]
    assert next(iter(script.findings(several))) == (
        "**`truncate`** fails on a 2 of 9, b on a card 9 of 9 cuts."
    )
    assert list(script.findings(several))[3] == "**No pattern** holds on b on a card."
    assert len(list(script.findings([one, *held]))) == 3
    lost = [replace(one, pattern=name) for name in script.PATTERNS]
    assert list(script.findings(lost))[3] == "**No pattern** holds on a."
    holding = [replace(none, file_system=name) for name in "bcd"]
    assert next(iter(script.findings([one, *holding, *held]))) == (
        "**`truncate`** fails on a 2 of 9 cuts. It holds on b, c and d."
    )
    assert next(iter(script.findings([none, *held]))) == (
        "**`truncate`** never fails: 1 cut on 1 stack."
    )
