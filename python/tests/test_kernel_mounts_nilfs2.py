"""NILFS2 images made here are mounted and written by a kernel, and its images are read here."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from kernel_listings import LIST_FUNCTION, WRITES, listed, own_view
from random_scripts import ScriptWriter
from workspace_example import example_or_skip

from nandlab.cli import main
from nandlab.vm import Contents, Drive, Machine, VmUnavailable, find_kernel, run_machine
from nandlab.vm.programs import MACHINE_PROGRAMS, require_programs

pytestmark = pytest.mark.usefixtures("engine_is_built")

ROOT = Path(__file__).parents[2]
MEBIBYTES = 32
OPERATIONS = 5000
LIVE_BYTES_MAX = 6 << 20
PROGRAMS = ("lscp", "lssu")

SEEDS = range(1, 1 + int(os.environ.get("NANDLAB_MOUNT_SEEDS", "1")))
"""More of them in the long run of the tests."""

CUTS = (3, 40, 333, 2222)
"""Blocks that are written after half of a script, before the power is cut."""

KERNEL_CUTS = 3
"""Times that the disk is copied while the kernel has it mounted."""

SETUP = f"""
{LIST_FUNCTION}
modprobe nilfs2
show() {{
    list /output/$2.tree
    lscp -a $1 > /output/$2.lscp
    lssu $1 > /output/$2.lssu
}}
"""


def _write_and_bring_back(device: str, name: str) -> str:
    """Guest commands that list a disk, write to it, and list what is there at the next mount."""
    return f"""
mount -t nilfs2 -o noatime {device} /mnt
show {device} {name}.first
{WRITES}
umount /mnt
mount -t nilfs2 -o noatime {device} /mnt
show {device} {name}.second
umount /mnt
"""


def _recover(device: str, name: str) -> str:
    """Guest commands that mount an unclean disk and list it, now and at the next mount."""
    return f"""
mount -t nilfs2 -o noatime {device} /mnt
show {device} {name}.first
umount /mnt
mount -t nilfs2 -o noatime {device} /mnt
show {device} {name}.second
umount /mnt
"""


KERNEL_IS_CUT = f"""
mount -t nilfs2 -o noatime /dev/vda /mnt
mkdir /mnt/turns
for turn in $(seq {KERNEL_CUTS}); do
    for number in 1 2 3 4 5 6; do
        dd if=/dev/urandom of=/mnt/turns/random$turn$number bs=4096 count=6 2>/dev/null
        cat /init /init > /mnt/turns/text$turn$number
        [ $number = 3 ] && sync
        mv /mnt/turns/text$turn$number /mnt/turns/moved$turn$number
    done
    rm /mnt/turns/random${{turn}}2
    dd if=/dev/urandom of=/mnt/turns/synced$turn bs=5000 count=3 conv=fsync 2>/dev/null
    ln /mnt/turns/random${{turn}}1 /mnt/turns/linked$turn
    dd if=/dev/urandom of=/mnt/turns/random${{turn}}1 bs=5000 count=2 conv=notrunc,fsync 2>/dev/null
    dd if=/dev/vda of=/output/kernel$turn.img bs=1M iflag=direct 2>/dev/null
done
umount /mnt
for turn in $(seq {KERNEL_CUTS}); do
    dd if=/output/kernel$turn.img of=/dev/vda bs=1M 2>/dev/null
    mount -t nilfs2 -o noatime /dev/vda /mnt
    list /output/kernel$turn.tree
    umount /mnt
done
"""


@pytest.fixture
def machine_contents() -> Contents:
    try:
        require_programs((*MACHINE_PROGRAMS, *PROGRAMS))
        find_kernel("6.12")
    except VmUnavailable as reason:
        pytest.skip(str(reason))
    return Contents(available_modules=("nilfs2",), programs=PROGRAMS)


def _write_history(seed: int, image: Path, cut: int | None = None) -> dict[str, int]:
    """Write the image of a random history; what was done in it."""
    program = example_or_skip("write_history")
    lines = ScriptWriter(seed, LIVE_BYTES_MAX).write(OPERATIONS).splitlines()
    script = image.with_suffix(".ops")
    # NILFS2 has no extended attributes.
    kept = [line for line in lines if not line.startswith("setxattr")]
    script.write_text("\n".join(kept) + "\n", encoding="utf-8")
    command = [str(program), str(script), str(image), str(MEBIBYTES)]
    command += [] if cut is None else [str(cut)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    pairs = (line.split() for line in done.stdout.splitlines())
    return {name: int(value) for name, value in pairs}


def _run(
    script: str, images: list[Path], out: Path, contents: Contents
) -> tuple[dict[str, Path], list[Path]]:
    """What the guest left, and the disks as it left them: copies of the images."""
    out.mkdir()
    disks = [out / f"{image.stem}.disk" for image in images]
    for image, disk in zip(images, disks, strict=True):
        shutil.copyfile(image, disk)
    machine = Machine(
        find_kernel("6.12"),
        f"{SETUP}\n{script}\ndmesg > /output/messages\n",
        900.0,
        contents,
        tuple(Drive(str(disk)) for disk in disks),
        # On a busy host the emulated timer may be late, and the kernel takes it for a broken one.
        kernel_arguments="no_timer_check",
    )
    files = run_machine(machine, out / "files").files
    messages = files["messages"].read_text(encoding="utf-8")
    complaint = r"nilfs.*(error|bad|corrupt|broken|invalid|fail)|call trace"
    assert [line for line in messages.splitlines() if re.search(complaint, line, re.I)] == []
    return files, disks


def _tables(image: Path, capsys: pytest.CaptureFixture[str]) -> tuple[list[str], list[str]]:
    """What `nandlab image info` prints of checkpoints and of segments."""
    capsys.readouterr()
    assert main(["image", "info", str(image)]) == 0
    lines = capsys.readouterr().out.splitlines()
    tables = []
    for head in ("CNO", "SEGNUM"):
        start = next(number for number, line in enumerate(lines) if line.split()[:1] == [head])
        tables.append(lines[start : lines.index("", start)])
    return tables[0], tables[1]


def _assert_shown(
    files: dict[str, Path], name: str, image: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The tree, the checkpoints and the segments of the guest are those that are shown here."""
    shown = {
        ending: files[f"{name}.{ending}"].read_text(encoding="utf-8")
        for ending in ("tree", "lscp", "lssu")
    }
    assert listed(shown["tree"]) == own_view(image, capsys), name
    checkpoints, segments = _tables(image, capsys)
    assert shown["lscp"].splitlines() == checkpoints, name
    assert shown["lssu"].splitlines() == segments, name


def _make(tmp_path: Path) -> Path:
    tree = tmp_path / "tree"
    shutil.copytree(ROOT / "crates/fs/nilfs2", tree)
    (tree / "link").symlink_to("src/lib.rs")
    os.link(tree / "Cargo.toml", tree / "src/another-name")
    image = tmp_path / "made.img"
    options = ["--size", f"{MEBIBYTES}MiB", "-B", "128", "-L", "made", "-m", "10"]
    assert main(["image", "make", str(image), "--fs", "nilfs2", "--from", str(tree), *options]) == 0
    return image


@pytest.mark.parametrize("seed", SEEDS)
def test_images_are_mounted_written_and_come_back(
    seed: int, tmp_path: Path, machine_contents: Contents, capsys: pytest.CaptureFixture[str]
) -> None:
    history = tmp_path / "history.img"
    counts = _write_history(seed, history)
    assert counts["cleaned_segments"] > 200, "the history is to be cleaned many times"
    assert counts["moved_blocks"] > 1000
    assert counts["snapshots"] == 3
    assert counts["failed_calls"] == 0
    images = [_make(tmp_path), history]
    script = _write_and_bring_back("/dev/vda", "made")
    script += _write_and_bring_back("/dev/vdb", "history")
    files, disks = _run(script, images, tmp_path / "out", machine_contents)
    for image, disk in zip(images, disks, strict=True):
        _assert_shown(files, f"{image.stem}.first", image, capsys)
        _assert_shown(files, f"{image.stem}.second", disk, capsys)
        tree = listed(files[f"{image.stem}.second.tree"].read_text(encoding="utf-8"))
        assert "from-the-kernel/file1" in tree
        assert main(["image", "check", str(disk)]) == 0


@pytest.mark.parametrize("seed", SEEDS)
def test_unclean_images_are_recovered_alike(
    seed: int, tmp_path: Path, machine_contents: Contents, capsys: pytest.CaptureFixture[str]
) -> None:
    images = [_make(tmp_path)]
    for cut in CUTS:
        images.append(tmp_path / f"cut{cut}.img")
        _write_history(seed, images[-1], cut)
    script = KERNEL_IS_CUT
    for number, image in enumerate(images[1:], start=1):
        script += _recover(f"/dev/vd{'abcdefg'[number]}", image.stem)
    files, disks = _run(script, images, tmp_path / "out", machine_contents)
    for image, disk in list(zip(images, disks, strict=True))[1:]:
        first = listed(files[f"{image.stem}.first.tree"].read_text(encoding="utf-8"))
        assert first == own_view(image, capsys), image.stem
        # The kernel's recovery made a checkpoint, which is shown here as there.
        _assert_shown(files, f"{image.stem}.second", disk, capsys)
    for turn in range(1, 1 + KERNEL_CUTS):
        image = files[f"kernel{turn}.img"]
        tree = listed(files[f"kernel{turn}.tree"].read_text(encoding="utf-8"))
        assert f"turns/synced{turn}" in tree
        assert tree == own_view(image, capsys), turn
        assert main(["image", "check", str(image)]) == 0
