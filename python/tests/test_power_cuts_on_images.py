"""`crash` on block devices and from images, and `script` from images without spare areas."""

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from script_modules import script_modules

import nandlab
from nandlab.errors import NandlabError

ROOT = Path(__file__).parents[2]
PAGE, SPARE, PAGES = 2048, 64, 64
OLD = "put old 755 9000 4096 x 7\nsync\n"
NEW = "put new 755 5000 4096 x 1 fsync\nsync\n"

pytestmark = pytest.mark.usefixtures("engine_is_built")


def plain(dump: Path) -> bytes:
    """A dump without its spare areas."""
    data = dump.read_bytes()
    whole = PAGE + SPARE
    assert data
    assert not len(data) % (whole * PAGES)
    return b"".join(data[at : at + PAGE] for at in range(0, len(data), whole))


def dumped(folder: Path, fs: str, blocks: int) -> Path:
    """A dump of a chip with one file."""
    dump = folder / f"{fs}.dump"
    nandlab.script(OLD, fs=fs, part="k9f2g08u0c", blocks=blocks, dump=dump)
    return dump


def test_an_image_of_ubi_without_spare_areas_is_read(tmp_path: Path) -> None:
    dump = dumped(tmp_path, "ubifs", 64)
    image = tmp_path / "a.ubi"
    image.write_bytes(plain(dump))
    # The file is there: a second one of its name would be made anew.
    lines = "fails ENOENT chmod missing 600\nchmod old 600\nread old 4096\n"
    nandlab.script(lines, fs="ubifs", part="k9f2g08u0c", image=image)
    with pytest.raises(NandlabError, match="ENOENT"):
        nandlab.script("read missing 4096\n", fs="ubifs", part="k9f2g08u0c", image=image)
    image.write_bytes(plain(dump)[:-1])
    with pytest.raises(NandlabError, match="no whole number of blocks of 135168 bytes"):
        nandlab.script(lines, fs="ubifs", part="k9f2g08u0c", image=image)


@pytest.mark.parametrize(("fs", "blocks"), [("ubifs", 64), ("fat", 64), ("nilfs2", 128)])
def test_crash_begins_with_an_image(tmp_path: Path, fs: str, blocks: int) -> None:
    dump = dumped(tmp_path, fs, blocks)
    image = tmp_path / "plain.img"
    image.write_bytes(plain(dump))
    found = []
    for given in (dump, image):
        # `old` would be made, and not lengthened, on an empty medium.
        text = f"append old 100 100 x 3 fsync\n{NEW}"
        cut = nandlab.crash(text, fs=fs, image=given, every=7)
        assert cut.answer["refused_lines"] == 0
        assert cut.is_clean, cut.rows
        found.append((cut.answer["operations"], cut.answer["torn"]))
    assert found[0] == found[1]


@pytest.mark.parametrize(("fs", "blocks"), [("fat", 64), ("nilfs2", 128)])
def test_a_card_begins_with_a_disk_image(tmp_path: Path, fs: str, blocks: int) -> None:
    dump = dumped(tmp_path, fs, blocks)
    image = tmp_path / "disk.img"
    image.write_bytes(plain(dump))
    text = f"append old 100 100 x 3 fsync\n{NEW}"
    cut = nandlab.crash(text, fs=fs, image=image, block_device="emmc-5.1-64gb")
    assert [torn["torn"] for torn in cut.answer["torn"]] == ["kept", "lost", "reordered"]
    assert cut.is_clean, cut.rows
    with pytest.raises(NandlabError, match="does not fit on a card"):
        nandlab.crash(text, fs=fs, image=dump, block_device="emmc-5.1-64gb")


def test_models_and_devices_that_do_not_fit_are_refused() -> None:
    with pytest.raises(NandlabError, match="--torn: `prefix` is no way"):
        nandlab.crash(NEW, fs="fat", block_device="emmc-5.1-64gb", torn=["prefix"])
    with pytest.raises(NandlabError, match=r"--block-device: .*raw NAND itself"):
        nandlab.crash(NEW, fs="jffs2", block_device="emmc-5.1-64gb")


@pytest.fixture(scope="module")
def script() -> Iterator[ModuleType]:
    with script_modules("power_cut_stacks") as (module,):
        yield module


def test_the_table_of_stacks_is_what_the_page_shows(script: ModuleType) -> None:
    page = (ROOT / "docs" / "power-cuts.md").read_text(encoding="utf-8")
    stack = script.STACKS[3]
    assert (stack.file_system, stack.block_device) == ("fat", None)
    outcome = script.cut(stack)
    assert script.row(stack, outcome) in page, "run scripts/power_cut_stacks.py"
    for one in script.STACKS:
        assert f"| {one.file_system} | {one.medium} |" in page
    outcome["torn"][0]["cuts"] += 1
    assert script.row(stack, outcome) not in page
    assert script.with_table(page, script.table(["| x |"])).count("| file system | on |") == 1
