"""Chips and disks torn in a real kernel are read here as it recovers them, and the other way."""

import os
import subprocess
from functools import cache
from pathlib import Path

import pytest
from workspace_example import ROOT, example_or_skip

from nandlab import engine
from nandlab.tearing.cases import Verdict, failed_calls, write_table
from nandlab.tearing.chips import BLOCKS, Bench, Recovery, kinds_of
from nandlab.tearing.disks import DISK_MEBIBYTES, calls_on_fat, require_disk_cuts
from nandlab.tearing.series import (
    CUTS_A_SCRIPT,
    Series,
    cut_disks,
    cut_here,
    cut_in_kernel,
    header_offset,
    recover_disks_of_here,
)
from nandlab.vm import VmUnavailable

pytestmark = [
    pytest.mark.usefixtures("engine_is_built"),
    pytest.mark.skipif(
        os.environ.get("NANDLAB_LONG_TESTS") != "1", reason="a part of make test-long"
    ),
]

CASES = int(os.environ.get("NANDLAB_TEAR_CASES", "20"))
"""Cuts of a file system in each direction: a hundred in the long run of the tests."""

KERNELS = os.environ.get("NANDLAB_TEAR_KERNELS", "6.12,6.1").split(",")
"""Those that share the cuts."""

SEED = int(os.environ.get("NANDLAB_TEAR_SEED", "1"))
KEEP = ROOT / "out" / "tearing"
"""Where the dumps and scripts of failing cases are kept."""


def _series(file_system: str, tmp_path: Path) -> list[Series]:
    """One series for each kernel, of scripts of its own."""
    share = -(-CASES // len(KERNELS))
    scripts = -(-share // CUTS_A_SCRIPT)
    return [
        Series(file_system, kernel, SEED + number * scripts, share, tmp_path / kernel, KEEP)
        for number, kernel in enumerate(KERNELS)
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


@cache
def _in_kernel(
    file_system: str, out: Path
) -> tuple[list[Verdict], list[tuple[Series, dict[int, Recovery]]]]:
    """Cuts within the kernel: two tests look at them."""
    verdicts, runs = [], []
    for series in _series(file_system, out):
        some, whole = cut_in_kernel(series)
        verdicts += some
        runs.append((series, whole))
    return verdicts, runs


@pytest.fixture(scope="module")
def chips_out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("torn")


@pytest.fixture(scope="module", autouse=True)
def _machine_is_there(tmp_path_factory: pytest.TempPathFactory) -> None:
    try:
        for kernel in KERNELS:
            Bench.of(kernel, "ubifs", tmp_path_factory.mktemp("module"))
            require_disk_cuts(kernel)
    except VmUnavailable as reason:
        pytest.skip(str(reason))


@pytest.mark.parametrize("file_system", sorted(BLOCKS))
def test_chips_torn_in_the_kernel_are_recovered_here(file_system: str, chips_out: Path) -> None:
    verdicts, runs = _in_kernel(file_system, chips_out / file_system)
    cuts = [verdict for verdict in verdicts if verdict.kind != "end"]
    assert len(cuts) >= 0.8 * CASES, "most scripts are to be cut before they end"
    kinds = {verdict.kind for verdict in cuts}
    rare = {"jffs2": {"erase"}, "ubifs": {"erase", "ubi-header"}}[file_system]
    assert rare <= kinds, f"operations of the rarer kinds are to be torn too: {kinds}"
    counted = kinds_of(run for _, whole in runs for run in whole.values())
    assert set(counted) == {"end"}, "a script that is not cut ends"
    _assert_agreed(verdicts, f"{file_system}-in-kernel")


@pytest.mark.parametrize("file_system", sorted(BLOCKS))
def test_calls_fail_in_the_kernel_as_they_do_here(
    file_system: str, chips_out: Path, tmp_path: Path
) -> None:
    _, runs = _in_kernel(file_system, chips_out / file_system)
    differences, failed = [], 0
    for series, whole in runs:
        for seed, script in series.scripts().items():
            there = failed_calls(whole[seed].failures)
            failed += len(there)
            here = _failed_here(file_system, script, header_offset(series.seed))
            differences += _different(script.name, series.kernel, script, there, here)
    assert failed >= CASES // 2, "some calls are to fail"
    assert not differences, "\n".join(differences)


def _failed_here(file_system: str, script: Path, offset: int | None) -> list[tuple[int, str]]:
    arguments = {
        "fs": file_system,
        "part": None,
        "blocks": BLOCKS.get(file_system),
        "vid_hdr_offset": offset if file_system == "ubifs" else None,
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
    for series in _series(file_system, tmp_path):
        verdicts += cut_here(series, program)
    assert len(verdicts) >= CASES
    assert "erase" in {verdict.kind for verdict in verdicts}
    _assert_agreed(verdicts, f"{file_system}-here")


@cache
def _disks_in_kernel(out: Path) -> tuple[list[Verdict], list[tuple[Series, dict[int, list[str]]]]]:
    """Cuts of disks within the kernel: two tests look at them."""
    verdicts, runs = [], []
    for series in _series("nilfs2", out):
        some, failures = cut_disks(series)
        verdicts += some
        runs.append((series, failures))
    return verdicts, runs


def test_disks_cut_at_the_kernels_bios_are_recovered_alike(chips_out: Path) -> None:
    verdicts, _ = _disks_in_kernel(chips_out / "nilfs2")
    kinds = {verdict.kind for verdict in verdicts}
    assert kinds == {"between-bios", "inside-bio", "bio-left-out"}
    _assert_agreed(verdicts, "nilfs2-in-kernel")


def test_calls_fail_on_the_kernels_nilfs2_as_they_do_here(chips_out: Path) -> None:
    differences, failed = [], 0
    for series, failures in _disks_in_kernel(chips_out / "nilfs2")[1]:
        for seed, script in series.scripts().items():
            there, here = failed_calls(failures[seed]), _failed_here("nilfs2", script, None)
            failed += len(there)
            differences += _different(script.name, series.kernel, script, there, here)
    assert failed >= CASES // 2, "some calls are to fail"
    assert not differences, "\n".join(differences)


def test_disks_cut_here_are_recovered_by_the_kernel(tmp_path: Path) -> None:
    program = example_or_skip("write_history")
    verdicts = []
    for series in _series("nilfs2", tmp_path):
        images, told = {}, {}
        for seed, script in series.scripts().items():
            for number in range(CUTS_A_SCRIPT):
                cut = 1 + (seed * 37 + number * 61) % 200
                image = series.out / f"{script.stem}-{cut}.img"
                command = [str(program), str(script), str(image), str(DISK_MEBIBYTES), str(cut)]
                # A cut that lies behind the end of the script is none.
                done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
                if done.returncode == 0:
                    images[image.stem], told[image.stem] = image, (seed, f"after {cut} blocks")
        verdicts += recover_disks_of_here(series, images, told)
    assert len(verdicts) >= CASES // 2
    _assert_agreed(verdicts, "nilfs2-here")


def test_calls_fail_on_the_kernels_fat_as_they_do_here(tmp_path: Path) -> None:
    differences: list[str] = []
    failed = 0
    for series in _series("fat", tmp_path):
        scripts = series.scripts()
        answers = calls_on_fat(series.kernel, list(scripts.values()), series.out / "fat")
        for script, (failures, _) in zip(scripts.values(), answers, strict=True):
            there, here = failed_calls(failures), _failed_here("fat", script, None)
            failed += len(there)
            differences += _different(script.name, series.kernel, script, there, here)
    assert failed >= CASES // 2, "some calls are to fail"
    assert not differences, "\n".join(differences)
