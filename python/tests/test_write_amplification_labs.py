"""The page on write amplification is current, and its sentences follow from its figures."""

import copy
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from script_modules import script_modules

from nandlab.labs.amplification import carry_out, logger, record
from nandlab.labs.file_systems import FILE_SYSTEMS
from nandlab.vm import VmUnavailable, find_kernel, require_programs
from nandlab.vm.guest_program import find_guest_program
from nandlab.vm.programs import MACHINE_PROGRAMS

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def scripts() -> Iterator[dict[str, ModuleType]]:
    names = ("labs", "found", "runs")
    with script_modules(*(f"write_amplification_{name}" for name in names)) as modules:
        yield dict(zip(names, modules, strict=True))


@pytest.fixture(scope="module")
def script(scripts: dict[str, ModuleType]) -> ModuleType:
    return scripts["labs"]


@pytest.fixture(scope="module")
def found(script: ModuleType) -> Any:
    """The runs of the record."""
    return script.Found(script.rows(script.load()))


def test_the_record_has_all_runs(
    script: ModuleType, scripts: dict[str, ModuleType], found: Any
) -> None:
    rows = [row for row in found.known if row.run != scripts["runs"].DIRECT_RUN]
    layers = [layer.name for layer in script.LAYERS]
    assert found.runs() >= 2
    wanted = {
        (name, layer, run)
        for name in script.FILE_SYSTEMS
        for layer in layers
        for run in range(1, 1 + found.runs())
    }
    assert {(row.file_system, row.layer, row.run) for row in rows} == wanted
    assert len(rows) == len(wanted)
    assert {row.is_direct for row in rows if row.layer == "page"} == {True}
    written = scripts["runs"].calls().application_bytes
    assert {row.counted.application_bytes for row in found.known} == {written}
    # All layers got the same requests of a run.
    for name in script.FILE_SYSTEMS:
        for run in range(1, 1 + found.runs()):
            asked = {
                (row.counted.written_bytes, row.counted.writes, row.counted.flushes)
                for row in rows
                if (row.file_system, row.run) == (name, run)
            }
            assert len(asked) == 1


def test_a_layer_behind_the_socket_does_the_same(script: ModuleType, found: Any) -> None:
    for name in script.FILE_SYSTEMS:
        carried = found.product(name, script.DIRECT.name).mean
        direct = found.direct(name).product(script.PAGE_BYTES)
        assert direct == pytest.approx(carried, rel=0.2), name


def test_runs_of_a_kernel_differ_little(script: ModuleType, found: Any) -> None:
    for name in script.FILE_SYSTEMS:
        assert found.own(name).most / found.own(name).least < 1.15, name
        for layer in script.LAYERS:
            product = found.product(name, layer.name)
            assert product.most / product.least < 1.25, (name, layer.name)


def test_what_the_file_systems_add(script: ModuleType, found: Any) -> None:
    own = {name: found.own(name).mean for name in script.FILE_SYSTEMS}
    assert min(own, key=own.__getitem__) == "fat"
    assert 10 < own["btrfs"] < 30
    assert max(own["ext4"], own["f2fs"]) < 3
    assert found.request_bytes("fat") < 4096 < script.PAGE_BYTES
    assert found.request_bytes("btrfs") > 3 * script.PAGE_BYTES


def test_the_least_programs_and_what_fat_is_good_for(script: ModuleType, found: Any) -> None:
    layers = [layer.name for layer in script.LAYERS]
    assert [layer for layer in layers if found.least(layer) == ("f2fs",)] == layers[:-1]
    assert "fat" in found.least("hybrid")

    def over_fat(layer: str) -> float:
        return float(found.product("ext4", layer).mean / found.product("fat", layer).mean)

    assert over_fat("page") < 1
    assert over_fat("bast") == pytest.approx(1, abs=0.1)
    assert over_fat("fast") > 1.5
    assert over_fat("hybrid") > 3
    assert found.product("btrfs", "hybrid").mean < found.product("ext4", "hybrid").mean / 2


def test_layer_and_file_system_decide_together(script: ModuleType, found: Any) -> None:
    """One layer alone makes more of a difference than the file systems do."""
    facts = script._facts(found, script.load())
    assert script.LAYERS[-1].name == "hybrid"
    assert facts["over_layers"] > 5 * facts["over_systems"]
    assert facts["over_systems"] > facts["over_others"] > 2


def test_a_run_outside_of_the_spread_is_told(
    script: ModuleType, scripts: dict[str, ModuleType], found: Any
) -> None:
    told = script._outside(found)
    for name, shown in script.NAMES.items():
        product = found.product(name, script.DIRECT.name)
        direct = found.direct(name).product(script.PAGE_BYTES)
        assert (shown in told) == (not product.least <= direct <= product.most), name
    same = [row for row in found.known if row.run == 1 and row.layer == script.DIRECT.name]
    rows = [row for row in found.known if row.run != scripts["runs"].DIRECT_RUN]
    rows += [replace(row, run=scripts["runs"].DIRECT_RUN) for row in same]
    assert script._outside(script.Found(rows)) == "All lie within what the other runs span."


def test_spreads_are_told_as_they_read(scripts: dict[str, ModuleType]) -> None:
    spread = scripts["found"].Spread.of([2.001, 2.004])
    assert spread.span == "2.00"
    assert spread.mean == pytest.approx(2.0025)
    assert scripts["found"].Spread.of([9.996, 123.4]).span == "10.00 to 123"


def test_the_page_and_its_picture_are_current(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = "docs/write-amplification-by-file-system.md or its picture is old: make docs"
    assert script.main(["--check"]) == 0, old
    kept = copy.deepcopy(script.load())
    kept["rows"][0]["counted"]["programs"] *= 2
    monkeypatch.setattr(script, "load", lambda: kept)
    before = script.PICTURE.read_bytes()
    assert script.main(["--check"]) == 1
    assert script.PICTURE.read_bytes() == before


@pytest.mark.usefixtures("engine_is_built")
def test_requests_of_a_kernel_are_carried_out_on_other_layers(
    scripts: dict[str, ModuleType], tmp_path: Path
) -> None:
    """A short run, with a layer behind the socket that merges blocks."""
    runs, system = scripts["runs"], FILE_SYSTEMS["fat"]
    try:
        require_programs((*MACHINE_PROGRAMS, *system.programs))
        kernel = find_kernel("6.12")
        find_guest_program()
    except VmUnavailable as reason:
        pytest.skip(str(reason))
    calls = logger(appends=24, small_files=6, cold_mebibytes=1, rotate_after=8, seed=1)
    options = runs.DIRECT.options()
    recording, counted = record(system, kernel, runs.CARD, calls, tmp_path / "log", **options)
    # Each append and each small file is synced, and FAT flushes the card for each.
    assert counted.flushes >= 24 + 12
    assert counted.written_bytes > calls.application_bytes
    assert carry_out(recording, runs.CARD, calls, **options) == counted
    other = carry_out(recording, runs.CARD, calls, **runs.PAGE.options())
    assert other.written_bytes == counted.written_bytes
    assert other.programs < counted.programs
