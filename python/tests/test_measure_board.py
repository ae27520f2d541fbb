"""scripts/measure-board.sh with programs that only pretend, and its CSV as a study's reference."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from made_up import run_of

from nandlab.cli import main
from nandlab.frame.reference import read_reference
from nandlab.present.measured import distance, distance_table, pairs

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "measure-board.sh"

# A mount takes a quarter of a second and a megabyte, and gives the megabyte back when it goes.
PROGRAMS = {
    "iozone": """
test "$2" = "$FAILS_AT" && exit 1
test "$2" = 2 && rates="300 40" || rates="1000 2000"
echo "	Iozone: Performance Test of File I/O"
echo "              kB  reclen   write rewrite    read    reread"
echo "            1024       4 $rates"
echo "            8192       4 $rates"
""",
    "mount": """
read up _ <"$NANDLAB_PROC/uptime"
echo "$(awk "BEGIN { print $up + 0.25 }") 0.00" >"$NANDLAB_PROC/uptime"
sed -i 's/^MemFree: .*/MemFree: 1000 kB/' "$NANDLAB_PROC/meminfo"
""",
    "umount": """sed -i 's/^MemFree: .*/MemFree: 2024 kB/' "$NANDLAB_PROC/meminfo"\n""",
    **dict.fromkeys(
        ("flash_erase", "sync", "ubiformat", "ubiattach", "ubidetach", "ubimkvol"), "true\n"
    ),
}


class Board:
    """A board in a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.out = root / "board.csv"
        self.log = root / "log"
        self.log.touch()
        (root / "bin").mkdir()
        for name, text in PROGRAMS.items():
            path = root / "bin" / name
            path.write_text(f'#!/bin/sh\necho "{name} $*" >>"{self.log}"\n{text}')
            path.chmod(0o755)
        (root / "proc" / "sys" / "vm").mkdir(parents=True)
        (root / "proc" / "uptime").write_text("100.10 0.00\n")
        memory = "MemTotal: 9000 kB\nMemFree: 2024 kB\nBuffers: 10 kB\nCached: 20 kB\n"
        (root / "proc" / "meminfo").write_text(memory)
        (root / "proc" / "mtd").write_text('dev: size erasesize name\nmtd4: 0 0 "data"\n')
        (root / "proc" / "mounts").write_text("/dev/root / ext4 rw 0 0\n")
        (root / "sys" / "class" / "ubi" / "ubi0").mkdir(parents=True)
        (root / "sys" / "class" / "ubi" / "ubi0" / "mtd_num").write_text("3\n")

    def measure(
        self, *options: str, shell: list[str] | None = None, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        extra = {"NANDLAB_PROC": str(self.root / "proc"), "NANDLAB_SYS": str(self.root / "sys")}
        path = f"{self.root / 'bin'}:{os.environ['PATH']}"
        return subprocess.run(
            [*(shell or ["sh"]), str(SCRIPT), *options],
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | extra | {"PATH": path, "TMPDIR": str(self.root)} | environment,
        )

    def calls(self) -> list[str]:
        return self.log.read_text().splitlines()


@pytest.fixture
def board(tmp_path: Path) -> Board:
    return Board(tmp_path)


def small(board: Board, *pairs_of: str) -> list[str]:
    return [
        "--yes",
        "--out",
        str(board.out),
        "--sizes",
        "1",
        "--files",
        "3",
        "--repeats",
        "2",
        *pairs_of,
    ]


def test_a_board_is_measured(board: Board) -> None:
    done = board.measure(*small(board, "yaffs2=/dev/mtd4", "ubifs=/dev/mtd4"))
    assert done.returncode == 0, done.stderr
    rows = read_reference(board.out).rows
    assert len(rows) == 2 * 2 * (6 + 1 + 2)
    found = {(row["file_system"], row["test"], row["phase"], row["metric"]): row for row in rows}
    for name in ("yaffs2", "ubifs"):
        read = found[name, "iozone", "reread", "throughput_kib_per_s"]
        assert (read["value"], read["file_mib"], read["unit"]) == (2000, 1, "KiB/s")
        assert found[name, "iozone", "random-write", "throughput_kib_per_s"]["value"] == 40
        assert found[name, "mount", "mount", "mount_ns"]["value"] == 250_000_000
        assert found[name, "files", "touched", "drop_bytes"]["value"] == 1024 * 1024
        assert found[name, "files", "touched", "available_bytes"]["value"] == 1030 * 1024
    calls = board.calls()
    assert calls.count("flash_erase -q /dev/mtd4 0 0") == calls.count("ubiformat /dev/mtd4 -y -q")
    assert calls.count("ubiattach -p /dev/mtd4 -d 31") == calls.count("ubidetach -d 31")
    mounts = [call for call in calls if call.startswith("mount ")]
    assert mounts[0].startswith("mount -t yaffs2 /dev/mtdblock4 ")
    assert mounts[-1].startswith("mount -t ubifs ubi31:measured ")
    assert len(mounts) == sum(call.startswith("umount ") for call in calls)
    # What was not there before is gone, but for the files that a pretended disk keeps.
    assert not list(board.root.glob("*.part"))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--out", "x.csv", "jffs2=/dev/mtd4"], "say --yes"),
        (["--yes", "--out", "x.csv"], "there is no default partition"),
        (["--yes", "jffs2=/dev/mtd4"], "--out"),
        (["--yes", "--out", "x.csv", "jffs2=/dev/mtd5"], "lists the partitions"),
        (["--yes", "--out", "x.csv", "jffs2=/dev/sda"], "MTD partition"),
        (["--yes", "--out", "x.csv", "ext4=/dev/mtd4"], "unknown argument ext4=/dev/mtd4"),
        (["--yes", "--out", "x.csv", "--files", "0", "jffs2=/dev/mtd4"], "0: not a whole number"),
    ],
)
def test_nothing_is_erased_without_being_told(board: Board, options: list[str], words: str) -> None:
    done = board.measure(*options)
    assert done.returncode == 2
    assert words in done.stderr
    assert board.calls() == []


@pytest.mark.skipif(shutil.which("busybox") is None, reason="not installed: busybox")
def test_the_shell_of_busybox_reads_it(board: Board) -> None:
    # Its own mount would be taken before one that pretends, so it gets no further than the refusal.
    done = board.measure("--out", "x.csv", "jffs2=/dev/mtd4", shell=["busybox", "sh"])
    assert (done.returncode, "say --yes" in done.stderr) == (2, True)
    check = subprocess.run(["busybox", "sh", "-n", str(SCRIPT)], capture_output=True, check=False)
    assert (check.returncode, check.stderr) == (0, b"")


def test_a_partition_in_use_is_refused(board: Board) -> None:
    for line in ("/dev/mtdblock4 /data jffs2 rw 0 0\n", "mtd4 /data jffs2 rw 0 0\n"):
        (board.root / "proc" / "mounts").write_text(line)
        done = board.measure(*small(board, "jffs2=/dev/mtd4"))
        assert (done.returncode, "mounted; unmount it first" in done.stderr) == (2, True)
    (board.root / "proc" / "mounts").write_text("/dev/mtdblock41 /data jffs2 rw 0 0\n")
    (board.root / "sys" / "class" / "ubi" / "ubi0" / "mtd_num").write_text("4\n")
    done = board.measure(*small(board, "jffs2=/dev/mtd4"))
    assert (done.returncode, "attached to UBI" in done.stderr) == (2, True)
    (board.root / "bin" / "iozone").unlink()
    (board.root / "sys" / "class" / "ubi" / "ubi0" / "mtd_num").write_text("3\n")
    done = board.measure(*small(board, "jffs2=/dev/mtd4"))
    assert (done.returncode, "iozone: not found" in done.stderr) == (2, True)
    assert board.calls() == []


def test_a_failure_leaves_nothing_mounted_and_no_file(board: Board) -> None:
    done = board.measure(*small(board, "ubifs=/dev/mtd4"), FAILS_AT="1")
    assert done.returncode == 2
    assert "iozone -i 1 -s 1m on ubifs printed no line of results" in done.stderr
    assert [call.split()[0] for call in board.calls()[-2:]] == ["umount", "ubidetach"]
    assert not board.out.exists()
    assert not list(board.root.glob("*.part"))


@pytest.mark.usefixtures("engine_is_built")
def test_the_measurements_become_the_reference_of_a_study(board: Board, tmp_path: Path) -> None:
    assert board.measure(*small(board, "yaffs2=/dev/mtd4")).returncode == 0
    study = tmp_path / "mine.toml"
    study.write_text(
        """
name = "mine"
title = "Mine"
question = "How near?"
seed = 1
repeats = 1
part = "k9f2g08u0c"
reference = "board.csv"
[workload]
kind = "raw-nand"
options = "-i 0 -i 1 -i 2 -s {file_mib}m -r 4k"
[host]
board = "s5pv210-datasheet"
kernel = "2.6.35"
[limits.mine]
partition_mib = 16
[axes]
test = ["mount"]
file_system = ["yaffs2"]
flash = ["fresh"]
limits = ["mine"]
data = ["-"]
file_mib = ["-"]
files = ["-"]
rate_kib_per_s = ["-"]
written_mib = ["-"]
[[extra_runs]]
axes = { test = ["iozone"], data = ["pattern"], file_mib = [1] }
""",
        encoding="utf-8",
    )
    out = tmp_path / "out"
    assert main(["run", str(study), "--out", str(out)]) == 0
    verdict = json.loads((out / "verdict.json").read_text(encoding="utf-8"))
    assert verdict["headline"].startswith("Against the reference, 7 cells: simulated is ")
    assert verdict["headline"].endswith("; 2 more were not simulated.")
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "Measured, and simulated" in page
    assert "iozone, random-write, yaffs2, 1" in page


def test_repeats_are_averaged_and_empty_cells_are_any(tmp_path: Path) -> None:
    path = tmp_path / "reference.csv"
    path.write_text("size,metric,value,note\n1,time,2,a\n1,time,4,b\n,time,5,c\n2,time,1,d\n")
    rows = [["1", "x", 0, "time", 6.0, "s"], ["1", "y", 0, "time", 8.0, "s"]]
    answer = {
        "study": {"name": "mine", "seed": 1},
        "columns": ["size", "kind", "repeat", "metric", "value", "unit"],
        "rows": rows,
    }
    found = pairs(run_of(answer, read_reference(path)))
    assert [(one.place, one.measured, one.simulated) for one in found] == [
        ((("size", "1"),), 3, 7),
        ((), 5, 7),
        ((("size", "2"),), 1, None),
    ]
    assert distance(found) == (
        "Against the reference, 2 cells: simulated is 1.40 to 2.33 times measured, off by 87 % in "
        "the mean; 1 more were not simulated."
    )
    assert distance_table(found).rows[0] == ("1", "time", "3", "7", "2.33")
