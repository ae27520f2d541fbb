"""`nandlab script --in kernel`: trees and counts of a real kernel are those of the simulation."""

import csv
from pathlib import Path

import pytest

from nandlab.cli import main
from nandlab.validation.workloads import join_mounts
from nandlab.vm import VmUnavailable, find_kernel
from nandlab.vm.guest_program import find_guest_program
from nandlab.vm.programs import MACHINE_PROGRAMS, require_programs

pytestmark = pytest.mark.usefixtures("engine_is_built")

WORKLOADS = Path(__file__).parents[2] / "workloads" / "raw-nand"
CUT = WORKLOADS / "jffs2-cut-x.ops"
NO_WRITE_BACK = ["--dirty-writeback-centisecs", "360000"]

ALL_CALLS = """\
mount -
mkdir d 755
put d/a%20b 640 20000 4096 x 1 fsync
put t 644 30000 4096 t 2
putn n 3 7 600 5000 1000 r 9
unlinkn n 4 6
append t 500 100 z 3 fsynceach
write t 40000 3000 1024 x 8
rwrite d/a%20b 3 1024 20000 5 r 6
read t 4096
truncate n00003 700
mkdir e 2755
rename d/a%20b e/moved
rmdir d
symlink ../t e/link
link t e/hard
mknod e/dev 600 c 4 64
mknod e/pipe 644 p
chmod t 4755
chown t 5 6
chown e/link 7 8
setxattr t user.a 0102
fsync t
utime t 100 200
sleep 100
snap kept.oob
umount
drop
mount -
put later 600 10 10 x 1
sync
settle 100
umount
cmd rmmod nandsim
cmd modprobe nandsim id_bytes=0x20,0xa2,0x00,0x15
load kept.oob
mount -
unlink n00006
umount
"""

NEW_CALLS = """\
mount -
mkdir d 755
mkdir d/e 755
put a 644 9000 4096 x 1
put d/b 644 5000 4096 x 2
rename a d/b exchange
rename a d/e exchange
rename d/b w whiteout
fails EEXIST rename w a noreplace
fails EOPNOTSUPP fallocate w 0 4k
fails EOPNOTSUPP fallocate w 0 4k punch-hole
open log d/log rw,creat,excl 600
repeat 3 {
  write log 1000 x 3
}
unlink d/log
pread log 0 10
fsync d
close log
for i in 1..2 {
 concurrent {
  put p$i 644 10 10 x 1
  sleep 300ms
 } {
  sleep 100
  read p$i 4k
  put q$i 644 10 10 x 1
 }
}
sync
umount
"""

MOMENT = 6
"""Column of the time in a row, which is that of another clock."""


@pytest.fixture(scope="module")
def _machine_is_there() -> None:
    try:
        require_programs((*MACHINE_PROGRAMS, "nanddump", "nandwrite", "ubiattach", "ubiformat"))
        find_kernel("6.12")
        find_guest_program()
    except VmUnavailable as reason:
        pytest.skip(str(reason))


def _rows(manifest: str) -> list[list[str]]:
    return [line.split("\t") for line in manifest.splitlines() if not line.startswith("#")]


def _without_times(rows: list[list[str]]) -> list[list[str]]:
    return [row[:MOMENT] + row[MOMENT + 1 :] for row in rows]


def _listed(image: Path, capsys: pytest.CaptureFixture[str]) -> list[list[str]]:
    capsys.readouterr()
    assert main(["image", "ls", str(image), "--hash", "--output-format", "tsv"]) == 0
    return _rows(capsys.readouterr().out)


def _run_in_both(
    script: Path, options: list[str], out: Path, capsys: pytest.CaptureFixture[str]
) -> tuple[list[list[str]], list[list[str]]]:
    """Run a script in the kernel and here; return both trees. Counts and dumps stay in `out`."""
    for place in ("kernel", "simulation"):
        files = ["--dump", str(out / f"{place}.oob"), "--counts", str(out / f"{place}.csv")]
        if place == "kernel":
            files += ["--manifest", str(out / "kernel.tsv"), "--dump-dir", str(out / "kept")]
        assert main(["script", str(script), "--in", place, *options, *files]) == 0
    shown = _rows((out / "kernel.tsv").read_text(encoding="utf-8"))
    assert shown == _listed(out / "kernel.oob", capsys), "the kernel's own dump, read here"
    return shown, _listed(out / "simulation.oob", capsys)


@pytest.mark.usefixtures("_machine_is_there")
def test_every_call_does_what_it_does_here(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "all-calls.ops"
    script.write_text(ALL_CALLS, encoding="utf-8")
    options = ["--fs", "jffs2", "--blocks", "32", *NO_WRITE_BACK]
    kernel, here = _run_in_both(script, options, tmp_path, capsys)
    assert _without_times(kernel) == _without_times(here)
    paths = [row[-1] for row in kernel]
    assert "e/moved" in paths
    assert "later" not in paths, "the chip was taken back"
    (kept,) = (tmp_path / "kept").iterdir()
    assert kept.name == "kept.oob"
    assert kept.stat().st_size == 32 * 64 * 2112


@pytest.mark.usefixtures("_machine_is_there")
def test_a_workload_costs_the_kernel_what_it_costs_here(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel, here = _run_in_both(CUT, NO_WRITE_BACK, tmp_path, capsys)
    assert len(kernel) > 1
    assert _without_times(kernel) == _without_times(here)
    counts = {}
    for place in ("kernel", "simulation"):
        with (tmp_path / f"{place}.csv").open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        counts[place] = {
            row["phase"]: (row["nandsim_log_reads"], row["programs"], row["erases"]) for row in rows
        }
    assert list(counts["kernel"]) == list(counts["simulation"])
    for phase in ("fill", "write-fsynced", "write-unsynced"):
        assert counts["kernel"][phase] == counts["simulation"][phase], phase


@pytest.mark.usefixtures("_machine_is_there")
def test_ubifs_costs_the_kernel_what_it_costs_here(tmp_path: Path) -> None:
    script = WORKLOADS / "ubifs-cut-x.ops"
    counts = {}
    for place in ("kernel", "simulation"):
        table, dump = tmp_path / f"{place}.csv", tmp_path / f"{place}.oob"
        options = ["--in", place, *NO_WRITE_BACK, "--counts", str(table), "--dump", str(dump)]
        if place == "kernel":
            options += ["--manifest", str(tmp_path / "kernel.tsv")]
        assert main(["script", str(script), *options]) == 0
        with table.open(encoding="utf-8", newline="") as file:
            columns = ("nandsim_log_reads", "programs", "erases")
            counts[place] = join_mounts(
                {
                    row["phase"]: [tuple(float(row[column]) for column in columns)]
                    for row in csv.DictReader(file)
                }
            )
    assert counts["kernel"] == counts["simulation"]
    # The kernel mounts what was made here, and shows the same tree.
    again = tmp_path / "again.ops"
    again.write_text("mount -\numount\n", encoding="utf-8")
    listed = tmp_path / "again.tsv"
    image = ["--image", str(tmp_path / "simulation.oob"), "--manifest", str(listed)]
    assert main(["script", str(again), "--in", "kernel", "--fs", "ubifs", *image]) == 0
    kernel = _rows((tmp_path / "kernel.tsv").read_text(encoding="utf-8"))
    assert len(kernel) > 60
    assert _without_times(_rows(listed.read_text(encoding="utf-8"))) == _without_times(kernel)


@pytest.mark.usefixtures("_machine_is_there")
@pytest.mark.parametrize(
    ("script", "options", "message"),
    [
        ("mount -\n\npowercut\n", ["--fs", "jffs2"], "FILE:3: the power of a chip"),
        ("mount yaffs2 /dev/mtdblock0 -\n", [], "FILE:1: no distribution kernel has YAFFS2"),
        ("sync\n", [], "FILE:1: which file system is mounted? give --fs: jffs2, ubifs"),
        ("mount ubifs ubi0:a -\n", [], "FILE:1: the chip is not attached to UBI"),
        ("unlnk a\n", [], "FILE:1:1: `unlnk` is no call; did you mean `unlink`?"),
        ("sync\n", ["--fs", "jffs2", "--blocks", "600"], "--blocks 600: the chip of --in kernel"),
        ("sync\n", ["--profile", "linux-2.6.29"], "--profile linux-2.6.29: no such kernel"),
    ],
)
def test_what_a_kernel_cannot_do_is_refused_before_it_boots(
    script: str,
    options: list[str],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("nandlab.kernel_script.run_machine", None)
    path = tmp_path / "refused.ops"
    path.write_text(script, encoding="utf-8")
    assert main(["script", str(path), "--in", "kernel", *options]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"nandlab: error: {message.replace('FILE', str(path))}")
    assert error.count("\n") == 1


@pytest.mark.usefixtures("_machine_is_there")
def test_a_call_that_fails_in_the_kernel_ends_the_script(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, dump = tmp_path / "fails.ops", tmp_path / "dump.oob"
    path.write_text("mkdir a 755\n\nunlink b\n", encoding="utf-8")
    command = ["script", str(path), "--in", "kernel", "--fs", "jffs2", "--blocks", "16"]
    assert main([*command, "--dump", str(dump)]) == 2
    assert f"{path}:3: unlink: No such file or directory" in capsys.readouterr().err
    assert not dump.exists()


@pytest.mark.parametrize("option", ["--board", "--part", "--seq"])
def test_options_of_the_simulation_are_refused(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "some.ops"
    path.write_text("sync\n", encoding="utf-8")
    command = ["script", str(path), "--in", "kernel", "--fs", "jffs2", option, "other"]
    assert main(command) == 2
    assert capsys.readouterr().err.startswith(f"nandlab: error: {option}")


@pytest.mark.usefixtures("_machine_is_there")
@pytest.mark.parametrize("fs", ["ubifs", "jffs2"])
def test_blocks_open_files_and_flags_leave_the_tree_of_the_kernel(
    fs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = NEW_CALLS
    if fs == "jffs2":
        # `jffs2_rename` knows neither flag; the names go on as if it did.
        lines = [line for line in text.splitlines() if "rename d/b w" not in line]
        text = "\n".join(f"fails EINVAL {one}" if "exchange" in one else one for one in lines)
        text = text.replace("fails EEXIST rename w a", "fails EEXIST rename a d/b")
        text = text.replace("fallocate w", "fallocate a") + "\n"
    script = tmp_path / "new.ops"
    script.write_text(text, encoding="utf-8")
    dumps = {"kernel": tmp_path / "kernel.oob", "simulation": tmp_path / "simulation.oob"}
    trees = []
    for place, dump in dumps.items():
        words = ["script", str(script), "--fs", fs, "--blocks", "64", "--dump", str(dump)]
        assert main([*words, "--in", place]) == 0
        capsys.readouterr()
        assert main(["image", "ls", str(dump), "--hash", "--output-format", "tsv"]) == 0
        trees.append(_without_times(_rows(capsys.readouterr().out)))
    assert trees[0] == trees[1]
    assert len(trees[0]) > 8
