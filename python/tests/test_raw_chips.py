"""A raw chip goes from here into a real kernel and comes back, whole or torn.

JFFS2 is always tried; UBIFS and the other kernel are part of `make test-long`.
"""

import json
from pathlib import Path

import pytest
from kernel_listings import LIST_FUNCTION, WRITES, listed, own_view
from long_tests import IS_LONG

import nandlab as nl
from nandlab.cli import main
from nandlab.labs.raw_chip import BLOCK_BYTES, PAGE_BYTES, PARTS, _used_blocks, blocks_of
from nandlab.vm import VmUnavailable, find_build_root, find_kernel, require_programs
from nandlab.vm.modules import BUILD_PROGRAMS
from nandlab.vm.programs import MACHINE_PROGRAMS

pytestmark = pytest.mark.usefixtures("engine_is_built")

BLOCKS = 40
BAD_BLOCK = 33
OPERATIONS = """mkdir d 755
putn d/f 0 12 644 30000 4096 x 3
put big 600 200k 4096 t 4 fsync
unlink d/f00003
symlink big link
append d/f00005 5000 512 x 9 fsync
"""
ATTACH = {"jffs2": "", "ubifs": "ubiattach -p /dev/mtd0 > /dev/null"}
DETACH = {"jffs2": "", "ubifs": "ubidetach -p /dev/mtd0"}
SOURCE = {"jffs2": "mtd0", "ubifs": "ubi0_0"}


def _mounted(file_system: str, work: str) -> str:
    """A script of the guest that mounts the chip and tells what it shows."""
    mount = f"mount -t {file_system} {SOURCE[file_system]} /mnt"
    return f"""{LIST_FUNCTION}
{ATTACH[file_system]}
{mount}
{work}
umount /mnt
{mount}
list /tmp/listing
cat /tmp/listing
umount /mnt
{DETACH[file_system]}
"""


@pytest.fixture
def machine() -> None:
    try:
        require_programs((*MACHINE_PROGRAMS, "nanddump", "nandwrite", "ubiattach"))
        find_kernel("6.12")
    except VmUnavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture
def module_source() -> None:
    """What the module that cuts the power is built with."""
    try:
        require_programs(BUILD_PROGRAMS)
        find_build_root(find_kernel("6.12"))
    except VmUnavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "script.sh"
    path.write_text("true\n", encoding="utf-8")
    return path


def _image(file_system: str, tmp_path: Path) -> Path:
    """A chip with a file system of this laboratory; a block of JFFS2's is bad from the factory."""
    operations, image = tmp_path / "before.ops", tmp_path / "before.oob"
    operations.write_text(OPERATIONS, encoding="utf-8")
    nl.script(operations, fs=file_system, blocks=BLOCKS, dump=image)
    if file_system == "jffs2":
        data = bytearray(image.read_bytes())
        begin = BAD_BLOCK * BLOCK_BYTES
        data[begin : begin + BLOCK_BYTES] = b"\xff" * BLOCK_BYTES
        data[begin + PAGE_BYTES] = 0
        image.write_bytes(data)
    return image


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("file_system", ["jffs2", "ubifs"])
def test_a_chip_goes_into_a_kernel_and_comes_back(
    file_system: str, script: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if file_system == "ubifs" and not IS_LONG:
        pytest.skip("ubifs on a raw chip is part of make test-long")
    image, back = _image(file_system, tmp_path), tmp_path / "back.oob"
    before = own_view(image, capsys)
    # The first line tells the bad blocks that the kernel knows.
    text = _mounted(file_system, WRITES)
    script.write_text(f"cat /sys/class/mtd/mtd0/bad_blocks\n{text}", encoding="utf-8")
    found = nl.serve_raw(image, script=script, output=back, kernel="6.1" if IS_LONG else "6.12")
    assert found.is_clean, found.complaints
    bad, _, listing = found.answer["printed"].partition("\n")
    after = own_view(back, capsys)
    assert listed(listing) == after
    # It is the chip that went in, and what the kernel wrote.
    assert before["link"][-1] == after["link"][-1] == "big"
    assert before["d/f00004"][5] == "30000"
    assert set(before) < set(after)
    assert "from-the-kernel/file1" in after
    assert blocks_of(back) == BLOCKS
    assert int(bad) == (file_system == "jffs2")
    assert _used_blocks(back)[0] == ([BAD_BLOCK] if file_system == "jffs2" else [])


@pytest.mark.usefixtures("machine", "module_source")
@pytest.mark.parametrize("file_system", ["jffs2", "ubifs"])
def test_a_chip_that_is_torn_in_the_kernel_is_recovered_alike(
    file_system: str, script: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if file_system == "ubifs" and not IS_LONG:
        pytest.skip("ubifs on a raw chip is part of make test-long")
    image, torn, back = (tmp_path / name for name in ("before.oob", "torn.oob", "back.oob"))
    _image(file_system, tmp_path)
    script.write_text(_mounted(file_system, WRITES), encoding="utf-8")
    options = {"cut_at": 60, "torn": "first-half"}
    found = nl.serve_raw(image, script=script, output=torn, **options)  # type: ignore[arg-type]
    assert found.is_clean, found.complaints
    answer = found.answer
    assert answer["torn_kind"] is not None
    assert sum(answer["counts"]) == 60
    shown = own_view(torn, capsys)
    # The file that the kernel made last before the cut is not whole, or not there.
    assert "moved" not in shown
    script.write_text(_mounted(file_system, ""), encoding="utf-8")
    found = nl.serve_raw(torn, script=script, output=back)
    assert found.is_clean, found.complaints
    assert listed(found.answer["printed"]) == shown


@pytest.mark.usefixtures("machine")
def test_a_script_that_fails_or_leaves_the_chip_in_use_is_told(
    script: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script.write_text(
        "mount -t jffs2 mtd0 /mnt\necho before\nfalse\necho after\n", encoding="utf-8"
    )
    back = tmp_path / "back.oob"
    words = ["serve-raw", "--script", str(script), "--output", str(back), "--blocks", "8"]
    assert main([*words, "--json"]) == 1
    told = capsys.readouterr()
    answer = json.loads(told.out)["result"]
    assert (answer["printed"], answer["status"]) == ("before\n", 1)
    assert answer["still_used"] == ["jffs2 /mnt"]
    assert "ended with status 1" in told.err
    assert "in use by jffs2 /mnt" in told.err
    assert blocks_of(back) == 8


def test_blocks_that_are_bad_or_erased_are_not_loaded(tmp_path: Path) -> None:
    image = tmp_path / "chip.oob"
    data = bytearray(b"\xff" * 8 * BLOCK_BYTES)
    data[5] = data[BLOCK_BYTES + 5] = 0
    data[3 * BLOCK_BYTES + PAGE_BYTES] = 0xFE
    # A clean marker alone: its block is loaded.
    data[6 * BLOCK_BYTES + PAGE_BYTES + 2] = 0x85
    image.write_bytes(data)
    assert _used_blocks(image) == ([3], [(0, 2), (6, 7)])
    assert _used_blocks(None) == ([], [])


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--part", "k9f1g08"], "did you mean k9f1g08u0a?"),
        (["--blocks", "513"], "513 blocks are too many: nandsim-64MiB has 512"),
        (["--blocks", "0"], "--blocks: 0 must be at least 1"),
        (["--cut-at", "0"], "--cut-at: 0 must be at least 1"),
        (["--seconds", "0"], "--seconds: 0 must be at least 1"),
        (["SHORT"], "5 bytes are no whole number of blocks of 135168 bytes"),
        (["MISSING"], "No such file or directory: name a dump"),
        (["CHIP", "--blocks", "1"], "the image has 2 blocks"),
    ],
)
def test_bad_input_is_told_before_a_machine_boots(
    words: list[str],
    told: str,
    script: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "SHORT").write_bytes(b"short")
    (tmp_path / "CHIP").write_bytes(b"\xff" * 2 * BLOCK_BYTES)
    words = [str(tmp_path / word) if word.isupper() else word for word in words]
    common = ["--script", str(script), "--output", str(tmp_path / "back")]
    assert main(["serve-raw", *words, *common]) == 2
    assert told in capsys.readouterr().err
    assert not (tmp_path / "back").exists()


def test_parts_are_those_of_the_catalogue() -> None:
    """Also: 0x15 is a page of 2 KiB with 64 spare bytes, and a block of 64 pages."""
    known = {row["name"]: row for row in nl.parts().to_dicts()}
    for name, part in PARTS.items():
        summary = known[name]["summary"]
        assert "2048+64 B pages, 128 KiB blocks" in summary, name
        assert f"{part.blocks // 8} MiB" in summary, name
        assert part.identification[3] == 0x15
