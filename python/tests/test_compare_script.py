"""A row of `compare` is that of a `script` of the same calls, to the nanosecond."""

import resource
import subprocess
import sys
from pathlib import Path

import pytest

import nandlab

LOGGER = Path(__file__).resolve().parents[2] / "workloads" / "compare" / "data-logger.ops"

POSITION_BYTES = 61 * 2048
"""The file that `compare` writes first with seed 1: a part of a block, drawn from the seed."""

BEFORE = """mount -
sleep 600000
sync
umount
mount -
put position 644 {bytes} {bytes} x 5 fsync
sleep 600000
drop
sleep 2
"""
"""What `compare` does before it counts; docs/compare.md has it."""

AFTER = "sync\nphase -\numount\n"
STACK = {"part": "k9f2g08u0c", "blocks": 512}


def _script(file_system: str, position_bytes: int) -> dict[str, int]:
    work = LOGGER.read_text(encoding="utf-8")
    before = BEFORE.format(bytes=position_bytes)
    done = nandlab.script(
        f"{before}phase work\n{work}\n{AFTER}",
        fs=file_system,
        board="s5pv210-datasheet",
        profile="linux-2.6.29",
        **STACK,
    )
    (phase,) = [row for row in done.rows if row["phase"] == "work"]
    return {key: phase[key] for key in ("reads", "programs", "erases", "duration_ns")}


def _compared(file_system: str, tmp_path: Path) -> dict[str, int]:
    path = tmp_path / "fresh.toml"
    path.write_text(f'[workload]\nkind = "script"\nfile = "{LOGGER.name}"\n', encoding="utf-8")
    (tmp_path / LOGGER.name).write_bytes(LOGGER.read_bytes())
    rows = nandlab.compare(workload=path, fs=file_system, **STACK).run.frame.to_dicts()
    work = {row["metric"]: int(row["value"]) for row in rows if row["phase"] == "work"}
    return {
        "reads": work["page_reads"] + work["spare_reads"],
        "programs": work["page_programs"] + work["spare_programs"],
        "erases": work["erases"],
        "duration_ns": work["elapsed_ns"],
    }


@pytest.mark.usefixtures("engine_is_built")
@pytest.mark.parametrize("file_system", ["jffs2", "yaffs2", "ubifs", "fat", "nilfs2"])
def test_a_row_is_that_of_a_script_of_the_same_calls(file_system: str, tmp_path: Path) -> None:
    compared = _compared(file_system, tmp_path)
    assert _script(file_system, POSITION_BYTES) == compared
    # Where the work begins in a block matters: another beginning is another time.
    assert _script(file_system, 2048) != compared


@pytest.mark.usefixtures("engine_is_built")
def test_compare_takes_little_more_processor_time_than_a_script(tmp_path: Path) -> None:
    """Beyond what loading its tables of results takes, which does not grow with the work."""
    work = "mkdir d 755\nputn d/f 0 6000 644 3000 3000 x 1\nsync\nput d/big 644 8m 64k x 3\n"
    work += "".join(f"rwrite d/big 2000 4096 8m {one} x {one}\nsync\n" for one in range(1, 6))
    # The work, a mount after it, and one after a power cut.
    before = BEFORE.format(bytes=POSITION_BYTES)
    (tmp_path / "alone.ops").write_text(
        f"{before}{work}sync\n" + "umount\nmount -\n" * 2 + "umount\n"
    )
    (tmp_path / "work.ops").write_text(work)
    (tmp_path / "little.ops").write_text("put a 644 1 1 x 1\n")
    for name in ("work", "little"):
        text = f'[workload]\nkind = "script"\nfile = "{name}.ops"\n'
        (tmp_path / f"{name}.toml").write_text(text)

    def seconds(*arguments: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        common = ("--fs", "yaffs2", "--part", "k9f2g08u0c", "--board", "s5pv210-datasheet")
        command = [sys.executable, "-m", "nandlab", *arguments, *common, "--blocks", "1024"]
        subprocess.run(command, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    script = seconds("script", str(tmp_path / "alone.ops"), "--profile", "linux-2.6.29")
    compared = seconds("compare", "--workload", str(tmp_path / "work.toml"))
    least = seconds("compare", "--workload", str(tmp_path / "little.toml"))
    assert compared - least < 1.5 * script, (script, compared, least)
