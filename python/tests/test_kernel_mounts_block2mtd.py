"""JFFS2 over block2mtd: disks written here are mounted by a kernel, and its disks are read here."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from kernel_listings import LIST_FUNCTION, WRITES, listed, own_view
from random_scripts import ScriptWriter
from workspace_example import example_or_skip

from nandlab.vm import Contents, Drive, Machine, VmUnavailable, find_kernel, run_machine
from nandlab.vm.programs import MACHINE_PROGRAMS, require_programs

pytestmark = pytest.mark.usefixtures("engine_is_built")

ROOT = Path(__file__).parents[2]
MEBIBYTES = 8
BLOCK_BYTES = 65536
OPERATIONS = 3000
LIVE_BYTES_MAX = 3 << 20
PROGRAMS = ("flash_erase",)

GUEST_SCRIPT = f"""
{LIST_FUNCTION}
for name in a b c; do
    echo /dev/vd$name,{BLOCK_BYTES} > /sys/module/block2mtd/parameters/block2mtd
done
# Erasing reads pages that are not in memory, and the SIGKILL of an unmount to JFFS2's thread ends
# that read ("erase failed err = -4"): on a busy host the disk is slow enough for it.
cat /dev/vda /dev/vdb /dev/vdc > /dev/null
cat /proc/mtd > /output/mtds
turn() {{
    mount -t jffs2 -o noatime $1 /mnt
    list /output/$2.first
    {WRITES}
    umount /mnt
    mount -t jffs2 -o noatime $1 /mnt
    list /output/$2.second
    umount /mnt
}}
turn mtd0 marks
turn mtd1 summaries
flash_erase -q -j /dev/mtd2 0 0
turn mtd2 empty
sync
dmesg > /output/messages
"""


@pytest.fixture
def machine_contents() -> Contents:
    try:
        require_programs((*MACHINE_PROGRAMS, *PROGRAMS))
        find_kernel("6.12")
    except VmUnavailable as reason:
        pytest.skip(str(reason))
    modules = ("block2mtd", "mtdblock")
    return Contents(modules=modules, available_modules=("jffs2",), programs=PROGRAMS)


def _write_history(form: str, image: Path) -> dict[str, int]:
    """Write the disk of a random history; what was done in it."""
    program = example_or_skip("write_block2mtd")
    script = image.with_suffix(".ops")
    script.write_text(ScriptWriter(1, LIVE_BYTES_MAX).write(OPERATIONS), encoding="utf-8")
    command = [str(program), str(script), str(image), str(MEBIBYTES), form]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    pairs = (line.split() for line in done.stdout.splitlines())
    return {name: int(value) for name, value in pairs}


def test_disks_are_mounted_written_and_come_back(
    tmp_path: Path, machine_contents: Contents, capsys: pytest.CaptureFixture[str]
) -> None:
    images = [tmp_path / f"{form}.img" for form in ("marks", "summaries", "empty")]
    marks, summaries = (_write_history(image.stem, image) for image in images[:2])
    assert marks["nodes_marked"] > 1000
    assert marks["summaries_written"] == 0
    assert summaries["nodes_marked"] == 0
    assert summaries["summaries_written"] > 100
    assert min(one["blocks_erased"] for one in (marks, summaries)) > MEBIBYTES << 4
    images[2].write_bytes(bytes(MEBIBYTES << 20))
    out = tmp_path / "out"
    out.mkdir()
    disks = [out / image.name for image in images]
    for image, disk in zip(images, disks, strict=True):
        shutil.copyfile(image, disk)
    machine = Machine(
        find_kernel("6.12"),
        GUEST_SCRIPT,
        1800.0,
        machine_contents,
        tuple(Drive(str(disk)) for disk in disks),
        # On a busy host the emulated timer may be late, and the kernel takes it for a broken one.
        kernel_arguments="no_timer_check",
    )
    files = run_machine(machine, out / "files").files
    messages = files["messages"].read_text(encoding="utf-8")
    complaint = r"jffs2.*(error|warning|crc|bad|empty flash)|block2mtd.*(error|fail)|call trace"
    assert [line for line in messages.splitlines() if re.search(complaint, line, re.I)] == []
    for image, disk in zip(images, disks, strict=True):
        first, second = (
            listed(files[f"{image.stem}.{turn}"].read_text(encoding="utf-8"))
            for turn in ("first", "second")
        )
        if image.stem != "empty":
            assert first == own_view(image, capsys), image.stem
        assert "from-the-kernel/file1" in second
        assert second == own_view(disk, capsys), image.stem
