"""UBIFS images made here are checked and written by a real kernel, and its images are read here."""

import os
import re
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
PROGRAMS = ("flash_erase", "nanddump", "nandwrite", "ubiattach", "ubidetach")
MODULES = ("deflate", "nandsim", "ubi", "ubifs", "zstd")

SEEDS = range(1, 1 + int(os.environ.get("NANDLAB_MOUNT_SEEDS", "1")))
"""More of them in the long run of the tests."""

CUT_AFTER = (150, 800, 1700)
"""Lines of a script after which the power is cut."""

KERNEL_CUTS = 3
"""Times that the chip is read while the kernel has it mounted."""

SETUP = f"""
{LIST_FUNCTION}
modprobe nandsim id_bytes=0x20,0xa2,0x00,0x15 parts={BLOCKS}
for module in {" ".join(module for module in MODULES if module != "nandsim")}; do
    modprobe $module
done
mount -t debugfs debugfs /sys/kernel/debug 2>/dev/null || true
for check in general index orphans lprops fs; do
    echo 1 > /sys/kernel/debug/ubifs/chk_$check
done
put() {{
    flash_erase -q /dev/mtd0 0 0
    nandwrite -q -o -n --skip-all-ffs /dev/mtd0 -
    ubiattach -p /dev/mtd0 -O $OFFSET > /dev/null
    mount -t ubifs ubi0_0 /mnt
}}
take() {{
    umount /mnt
    ubidetach -p /dev/mtd0
}}
"""

WRITE_AND_BRING_BACK = f"""
dd if=/dev/vda bs=2112 count={PAGES} 2>/dev/null | put
list /output/first
{WRITES}
umount /mnt
mount -t ubifs ubi0_0 /mnt
list /output/second
take
nanddump -q --oob --bb=dumpbad /dev/mtd0 -f /output/back.oob
dmesg > /output/messages
"""


def _recover(source: str, name: str) -> str:
    """Guest commands that mount an unclean image and list it, now and at the next mount."""
    return f"""
{source} | put
list /output/{name}.first
umount /mnt
mount -t ubifs ubi0_0 /mnt
list /output/{name}.second
take
"""


KERNEL_IS_CUT = f"""
dd if=/dev/vda bs=2112 count={PAGES} 2>/dev/null | put
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
    nanddump -q --oob --bb=dumpbad /dev/mtd0 -f /output/kernel$turn.oob
done
take
"""


@pytest.fixture
def machine_contents() -> Contents:
    try:
        require_programs((*MACHINE_PROGRAMS, *PROGRAMS))
        find_kernel("6.12")
    except VmUnavailable as reason:
        pytest.skip(str(reason))
    return Contents(available_modules=MODULES, programs=PROGRAMS)


def _make(script: str, offset: int, seed: int, image: Path) -> None:
    path = image.with_suffix(".ops")
    path.write_text(script, encoding="utf-8")
    command = ["script", str(path), "--fs", "ubifs", "--blocks", str(BLOCKS)]
    command += ["--vid-hdr-offset", str(offset), "--seed", str(seed), "--dump", str(image)]
    assert main([*command, "--output-format", "csv"]) == 0


def _run(
    script: str, offset: int, images: list[Path], out: Path, contents: Contents
) -> dict[str, Path]:
    machine = Machine(
        find_kernel("6.12"),
        f"OFFSET={offset}\n{SETUP}\n{script}",
        900.0,
        contents,
        tuple(Drive(str(image), read_only=True) for image in images),
        # On a busy host the emulated timer may be late, and the kernel takes it for a broken one.
        kernel_arguments="no_timer_check",
    )
    return run_machine(machine, out).files


@pytest.mark.parametrize("seed", SEEDS)
def test_an_image_with_a_history_is_mounted_checked_written_and_comes_back(
    seed: int, tmp_path: Path, machine_contents: Contents, capsys: pytest.CaptureFixture[str]
) -> None:
    image, offset = tmp_path / "history.oob", (2048, 512)[seed % 2]
    _make(ScriptWriter(seed, LIVE_BYTES_MAX).write(OPERATIONS), offset, seed, image)
    counts = capsys.readouterr().out.splitlines()
    erases = dict(zip(counts[0].split(","), counts[1].split(","), strict=True))["erases"]
    assert int(erases) > 3 * BLOCKS, "the history is to be collected many times"

    files = _run(WRITE_AND_BRING_BACK, offset, [image], tmp_path / "out", machine_contents)
    messages = files["messages"].read_text(encoding="utf-8")
    assert "UBIFS: mounted UBI device 0, volume 0" in messages
    complaint = r"(ubi|ubifs).*(error|warning|assert)|\becc\b|call trace"
    assert [line for line in messages.splitlines() if re.search(complaint, line, re.I)] == []
    assert listed(files["first"].read_text(encoding="utf-8")) == own_view(image, capsys)
    second = listed(files["second"].read_text(encoding="utf-8"))
    assert "from-the-kernel/file1" in second
    assert second == own_view(files["back.oob"], capsys)


@pytest.mark.parametrize("seed", SEEDS)
def test_unclean_images_are_recovered_alike(
    seed: int, tmp_path: Path, machine_contents: Contents, capsys: pytest.CaptureFixture[str]
) -> None:
    offset = (2048, 512)[seed % 2]
    lines = ScriptWriter(seed, LIVE_BYTES_MAX).write(max(CUT_AFTER)).splitlines()
    images = {f"cut{count}": tmp_path / f"cut{count}.oob" for count in CUT_AFTER}
    for count, image in zip(CUT_AFTER, images.values(), strict=True):
        _make("\n".join([*lines[:count], "powercut", ""]), offset, seed, image)
    script = ""
    for number, name in enumerate(images):
        source = f"dd if=/dev/vd{'abc'[number]} bs=2112 count={PAGES} 2>/dev/null"
        script += _recover(source, name)
    script += KERNEL_IS_CUT
    names = [f"kernel{turn}" for turn in range(1, 1 + KERNEL_CUTS)]
    for name in names:
        script += _recover(f"cat /output/{name}.oob", name)

    files = _run(script, offset, list(images.values()), tmp_path / "out", machine_contents)
    images |= {name: files[f"{name}.oob"] for name in names}
    for name, image in images.items():
        first = listed(files[f"{name}.first"].read_text(encoding="utf-8"))
        assert first == own_view(image, capsys), name
        assert first == listed(files[f"{name}.second"].read_text(encoding="utf-8")), name
    assert "turns/synced1" in listed(files["kernel1.first"].read_text(encoding="utf-8"))
