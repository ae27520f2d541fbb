"""JFFS2 that collects all the time reads, programs and erases as often as a kernel's does."""

import csv
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from nandlab.cli import main
from nandlab.vm import VmUnavailable, find_kernel
from nandlab.vm.guest_program import find_guest_program
from nandlab.vm.programs import MACHINE_PROGRAMS, require_programs

pytestmark = pytest.mark.usefixtures("engine_is_built")

BLOCKS = 64
FILES = 22
FILE_BYTES = 256 << 10
PHASES = 4
SEEDS = range(1, 7)
COLUMNS = ("nandsim_log_reads", "programs", "erases")
"""Reads as nandsim's log has them, here as there: a line for each read and one for each change of
the column within a page. They are a quarter more than reads of the array."""

PHASE_SHARE = 0.15
"""How far a phase of the kernel may lie outside what the seeds span. The next block to collect is
drawn from the clock, and runs of one kernel differ by 13 % in reads."""

SUM_SHARE = 0.06
"""How far all phases together may differ from the mean of the seeds: draws even out."""


def _script() -> str:
    """A chip that is filled to 70 %, then overwritten: an fsync after sixteen pages of a file."""
    draw = random.Random(FILES)
    lines = ["mount -", "mkdir g 755", "phase fill"]
    lines += [f"putn g/f 0 {FILES} 644 {FILE_BYTES} 32768 x 500", "sync", "settle 1200"]
    seed = 600
    for phase in range(1, PHASES + 1):
        lines.append(f"phase overwrite{phase}")
        for _ in range(32):
            name = f"g/f{draw.randrange(FILES):05d}"
            lines.append(f"rwrite {name} 16 4096 {FILE_BYTES} {seed} x {seed + 100} fsync")
            seed += 1
        lines.append("settle 1200")
    return "\n".join([*lines, "phase end", "umount", ""])


@pytest.fixture(scope="module")
def _machine_is_there() -> None:
    try:
        require_programs(MACHINE_PROGRAMS)
        find_kernel("6.12")
        find_guest_program()
    except VmUnavailable as reason:
        pytest.skip(str(reason))


def _counts(script: Path, options: list[str], out: Path) -> list[tuple[int, ...]]:
    """Reads, programs and erases of the phases in which files are overwritten."""
    command = ["script", str(script), "--fs", "jffs2", "--blocks", str(BLOCKS)]
    command += ["--profile", "linux-6.12", "--dirty-writeback-centisecs", "0"]
    assert main([*command, *options, "--counts", str(out)]) == 0
    with out.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["phase"].startswith("overwrite")]
    assert len(rows) == PHASES
    return [tuple(int(row[column]) for column in COLUMNS) for row in rows]


def _wrong(kernel: list[tuple[int, ...]], seeds: list[list[tuple[int, ...]]]) -> Iterator[str]:
    """What lies outside, as lines."""
    for number, column in enumerate(COLUMNS):
        for phase in range(PHASES):
            known = [run[phase][number] for run in seeds]
            least, most = min(known) * (1 - PHASE_SHARE), max(known) * (1 + PHASE_SHARE)
            there = kernel[phase][number]
            if not least - 2 <= there <= most + 2:
                yield f"phase {phase + 1}, {column}: {there} there, {sorted(known)} here"
        there = sum(phase[number] for phase in kernel)
        mean = sum(phase[number] for run in seeds for phase in run) / len(seeds)
        if abs(there - mean) > SUM_SHARE * there + 2:
            yield f"all phases, {column}: {there} there, {mean:.0f} here"


@pytest.mark.usefixtures("_machine_is_there")
def test_a_kernel_that_collects_counts_alike(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "pages.ops"
    script.write_text(_script(), encoding="utf-8")
    kernel = _counts(script, ["--in", "kernel"], tmp_path / "kernel.csv")
    seeds = [
        _counts(script, ["--board", "emulated-pc", "--seed", str(seed)], tmp_path / f"{seed}.csv")
        for seed in SEEDS
    ]
    assert list(_wrong(kernel, seeds)) == []
    # A tenth less would be seen.
    less = [tuple(int(count * 0.9) for count in phase) for phase in kernel]
    assert list(_wrong(less, seeds)) != []
    with capsys.disabled():
        sums = [sum(phase[0] for phase in run) for run in seeds]
        print(f"\n{sum(phase[0] for phase in kernel)} log lines of reads there, {sums} here")
