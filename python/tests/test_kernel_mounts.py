"""JFFS2 images made here are mounted and written by a real kernel, and come back."""

import os
from pathlib import Path

import pytest
from kernel_listings import LIST_FUNCTION, WRITES, listed, own_view
from random_scripts import ScriptWriter

from nandlab.cli import main
from nandlab.vm import Contents, Drive, Machine, VmUnavailable, find_kernel, run_machine
from nandlab.vm.programs import MACHINE_PROGRAMS, require_programs

pytestmark = pytest.mark.usefixtures("engine_is_built")

BLOCKS = 64
PAGES = BLOCKS * 64
OPERATIONS = 5000
LIVE_BYTES_MAX = 3 << 20
PROGRAMS = ("nanddump", "nandwrite")

SEEDS = range(1, 1 + int(os.environ.get("NANDLAB_MOUNT_SEEDS", "1")))
"""More of them in the long run of the tests."""

GUEST_SCRIPT = f"""
{LIST_FUNCTION}
load() {{
    modprobe nandsim id_bytes=0x20,0xa2,0x00,0x15 parts={BLOCKS}
    dd if=/dev/vda bs=2112 count={PAGES} 2>/dev/null |
        nandwrite -q -o -n --skip-all-ffs /dev/mtd0 -
}}
load
mount -t jffs2 mtd0 /mnt
list /output/first
{WRITES}
umount /mnt
mount -t jffs2 mtd0 /mnt
list /output/second
umount /mnt
nanddump -q --oob --bb=dumpbad /dev/mtd0 -f /output/back.oob
dmesg | grep -i -E 'jffs2.*(error|warning|crc)|ecc' > /output/complaints || true
"""


@pytest.fixture
def machine_contents() -> Contents:
    try:
        require_programs((*MACHINE_PROGRAMS, *PROGRAMS))
        find_kernel("6.12")
    except VmUnavailable as reason:
        pytest.skip(str(reason))
    return Contents(available_modules=("jffs2", "nandsim"), programs=PROGRAMS)


@pytest.mark.parametrize("seed", SEEDS)
def test_an_image_with_a_history_is_mounted_written_and_comes_back(
    seed: int, tmp_path: Path, machine_contents: Contents, capsys: pytest.CaptureFixture[str]
) -> None:
    script, image = tmp_path / "history.ops", tmp_path / "history.oob"
    script.write_text(ScriptWriter(seed, LIVE_BYTES_MAX).write(OPERATIONS), encoding="utf-8")
    command = ["script", str(script), "--fs", "jffs2", "--blocks", str(BLOCKS)]
    assert (
        main([*command, "--seed", str(seed), "--dump", str(image), "--output-format", "csv"]) == 0
    )
    counts = capsys.readouterr().out.splitlines()
    erases = dict(zip(counts[0].split(","), counts[1].split(","), strict=True))["erases"]
    assert int(erases) > 3 * BLOCKS, "the history is to be collected many times"

    machine = Machine(
        find_kernel("6.12"),
        GUEST_SCRIPT,
        600.0,
        machine_contents,
        (Drive(str(image), read_only=True),),
        # On a busy host the emulated timer may be late, and the kernel takes it for a broken one.
        kernel_arguments="no_timer_check",
    )
    files = run_machine(machine, tmp_path / "out").files
    assert files["complaints"].read_text(encoding="utf-8") == ""
    assert listed(files["first"].read_text(encoding="utf-8")) == own_view(image, capsys)
    second = listed(files["second"].read_text(encoding="utf-8"))
    assert "from-the-kernel/file1" in second
    assert second == own_view(files["back.oob"], capsys)
