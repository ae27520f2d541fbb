"""Chips and disks torn in a real kernel are read here as it recovers them, and the other way."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from workspace_example import ROOT, example_or_skip

from nandlab import engine
from nandlab.vm import VmUnavailable
from tearing_lab.cases import Keeping, Verdict, failed_calls, write_table
from tearing_lab.chips import BLOCKS, Bench, Recovery, kinds_of
from tearing_lab.disks import calls_on_fat, require_disk_cuts
from tearing_lab.series import (
    CUTS_A_SCRIPT,
    Series,
    cut_disks,
    cut_disks_here,
    cut_here,
    cut_in_kernel,
    header_offset,
)

pytestmark = pytest.mark.usefixtures("engine_is_built")

CASES = int(os.environ.get("NANDLAB_TEAR_CASES", "4"))
"""Cuts of a file system in each direction: a hundred in the long run of the tests."""

KERNELS = os.environ.get("NANDLAB_TEAR_KERNELS", "6.12,6.1").split(",")
"""Those that share the cuts."""

SHARED_CASES_MAX = 20
"""So few cuts are all made in one kernel, and those of the other direction in the other one."""

FILE_SYSTEMS = ("jffs2", "ubifs", "nilfs2", "fat")
THERE, HERE = 0, 1
"""Where a medium is torn."""

SEED = int(os.environ.get("NANDLAB_TEAR_SEED", "1"))
KEEP = ROOT / "out" / "tearing"
KEEPING = Keeping(KEEP)
"""Where the dumps and scripts of failing cases are kept."""


def _kernels(file_system: str, direction: int) -> list[str]:
    """Kernels that share the cuts of a direction. Each machine takes seconds to boot."""
    if CASES > SHARED_CASES_MAX:
        return KERNELS
    turn = FILE_SYSTEMS.index(file_system) + direction
    return [KERNELS[turn % len(KERNELS)]]


def _series(file_system: str, direction: int, tmp_path: Path) -> list[Series]:
    """One series for each kernel, of scripts of its own."""
    kernels = _kernels(file_system, direction)
    share = -(-CASES // len(kernels))
    scripts = -(-share // CUTS_A_SCRIPT)
    return [
        Series(file_system, kernel, SEED + number * scripts, share, tmp_path / kernel, KEEPING)
        for number, kernel in enumerate(kernels)
    ]


def _assert_agreed(verdicts: list[Verdict], name: str) -> None:
    write_table(KEEP / f"{name}.csv", verdicts)
    failed = [verdict for verdict in verdicts if verdict.faults]
    shown = "\n".join(
        f"{verdict.case} ({verdict.kernel}, {verdict.kind}, {verdict.shape}): "
        f"{'; '.join(verdict.faults)[:600]}; kept in {verdict.kept}"
        for verdict in failed
    )
    assert not failed, f"{len(failed)} of {len(verdicts)} cases differ:\n{shown}"
    recovered = sum(verdict.outcome == "recovered" for verdict in verdicts)
    assert recovered > 0.7 * len(verdicts), "most media are to be recovered"


@pytest.fixture(scope="module", autouse=True)
def _machine_is_there(tmp_path_factory: pytest.TempPathFactory) -> None:
    try:
        for kernel in KERNELS:
            Bench.of(kernel, "ubifs", tmp_path_factory.mktemp("module"))
            require_disk_cuts(kernel)
    except VmUnavailable as reason:
        pytest.skip(str(reason))


@dataclass
class Calls:
    """Calls of scripts that failed in a kernel, and where they fail otherwise here."""

    failed: int = 0
    differences: list[str] = field(default_factory=list)

    def compare(self, series: Series, failures: Mapping[int, list[str]]) -> None:
        """Carry the scripts out here too; `failures` are the kernel's by the seeds of scripts."""
        is_ubifs = series.file_system == "ubifs"
        for seed, script in series.scripts().items():
            there = failed_calls(failures[seed])
            offset = header_offset(series.seed) if is_ubifs else None
            here = _failed_here(series.file_system, script, offset)
            self.failed += len(there)
            self.differences += _different(script.name, series.kernel, script, there, here)

    def assert_equal(self) -> None:
        """No call fails in one place alone, or with another error number."""
        assert self.failed >= CASES // 2, "some calls are to fail"
        assert not self.differences, "\n".join(self.differences)


@pytest.mark.parametrize("file_system", sorted(BLOCKS))
def test_chips_torn_in_the_kernel_are_recovered_here(file_system: str, tmp_path: Path) -> None:
    """Also, calls fail there as they do here: the scripts are carried out once for both."""
    verdicts: list[Verdict] = []
    ends: list[Recovery] = []
    calls = Calls()
    for series in _series(file_system, THERE, tmp_path):
        some, whole = cut_in_kernel(series)
        verdicts += some
        ends += whole.values()
        calls.compare(series, {seed: run.failures for seed, run in whole.items()})
    cuts = [verdict for verdict in verdicts if verdict.kind != "end"]
    assert len(cuts) >= 0.8 * CASES, "most scripts are to be cut before they end"
    kinds = {verdict.kind for verdict in cuts}
    rare = {"jffs2": {"erase"}, "ubifs": {"erase", "ubi-header"}}[file_system]
    assert rare <= kinds, f"operations of the rarer kinds are to be torn too: {kinds}"
    assert set(kinds_of(ends)) == {"end"}, "a script that is not cut ends"
    _assert_agreed(verdicts, f"{file_system}-in-kernel")
    calls.assert_equal()


def _failed_here(file_system: str, script: Path, offset: int | None) -> list[tuple[int, str]]:
    arguments = {
        "fs": file_system,
        "part": None,
        "blocks": BLOCKS.get(file_system),
        "vid_hdr_offset": offset,
        "profile": None,
        "block_device": None,
        "board": None,
        "image": None,
        "seed": 1,
        "dirty_writeback_centisecs": 200,
        "keep_going": True,
        "workload": "failing",
        "dump": None,
        "sequence": None,
        "dump_directory": None,
    }
    text = script.read_text(encoding="utf-8")
    answer = engine.run_script(script.name, text, arguments)
    return failed_calls(answer["failures"])


def _different(
    name: str, kernel: str, script: Path, there: list[tuple[int, str]], here: list[tuple[int, str]]
) -> list[str]:
    """Calls that fail otherwise, both ways, with their lines."""
    lines = script.read_text(encoding="utf-8").splitlines()
    known = {"kernel": dict(there), "here": dict(here)}
    numbers = sorted(set(known["kernel"]) | set(known["here"]))
    return [
        f"{name}:{number} `{lines[number - 1][:120]}`: {kernel} {known['kernel'].get(number)}, "
        f"here {known['here'].get(number)}"
        for number in numbers
        if known["kernel"].get(number) != known["here"].get(number)
    ]


@pytest.mark.parametrize("file_system", sorted(BLOCKS))
def test_chips_torn_here_are_recovered_by_the_kernel(file_system: str, tmp_path: Path) -> None:
    program = example_or_skip("tear_images")
    verdicts = []
    for series in _series(file_system, HERE, tmp_path):
        verdicts += cut_here(series, program)
    assert len(verdicts) >= CASES
    assert "erase" in {verdict.kind for verdict in verdicts}
    _assert_agreed(verdicts, f"{file_system}-here")


def test_disks_cut_at_the_kernels_bios_are_recovered_alike(tmp_path: Path) -> None:
    """Also, calls fail there as they do here."""
    verdicts: list[Verdict] = []
    calls = Calls()
    for series in _series("nilfs2", THERE, tmp_path):
        some, failures = cut_disks(series)
        verdicts += some
        calls.compare(series, failures)
    kinds = {verdict.kind for verdict in verdicts}
    assert kinds == {"between-bios", "inside-bio", "bio-left-out"}
    _assert_agreed(verdicts, "nilfs2-in-kernel")
    calls.assert_equal()


def test_disks_cut_here_are_recovered_by_the_kernel(tmp_path: Path) -> None:
    program = example_or_skip("write_history")
    verdicts = []
    for series in _series("nilfs2", HERE, tmp_path):
        verdicts += cut_disks_here(series, program)
    assert len(verdicts) >= CASES
    _assert_agreed(verdicts, "nilfs2-here")


def test_calls_fail_on_the_kernels_fat_as_they_do_here(tmp_path: Path) -> None:
    calls = Calls()
    for series in _series("fat", THERE, tmp_path):
        scripts = series.scripts()
        answers = calls_on_fat(series.kernel, list(scripts.values()), series.out / "fat")
        failures = (failures for failures, _ in answers)
        calls.compare(series, dict(zip(scripts, failures, strict=True)))
    calls.assert_equal()
