"""`nandlab image`: golden images through the commands, made ones, and bad input."""

import json
import os
import random
import subprocess
from pathlib import Path

import pytest

import nandlab as nl
from nandlab.cli import main

pytestmark = pytest.mark.usefixtures("engine_is_built")

CRATES = Path(__file__).parents[2] / "crates" / "fs"
JFFS2 = CRATES / "jffs2/tests/data"
YAFFS2 = CRATES / "yaffs2/tests/data"
NILFS2 = CRATES / "nilfs2/tests/data"
UBI = CRATES / "ubi/tests/data"
UBIFS = CRATES / "ubifs/tests/data"


def _unpacked(archive: Path, tmp_path: Path) -> str:
    out = tmp_path / archive.stem
    try:
        subprocess.run(["zstd", "-qdf", str(archive), "-o", str(out)], check=True)
    except FileNotFoundError:
        pytest.skip("zstd is not installed")
    return str(out)


def _made(tmp_path: Path, fs: str = "jffs2", *options: str) -> str:
    tree = tmp_path / "tree"
    (tree / "sub").mkdir(parents=True, exist_ok=True)
    (tree / "sub" / "text").write_text("flash block page " * 1000)
    if not (tree / "link").is_symlink():
        (tree / "link").symlink_to("sub/text")
    for path in (tree / "sub" / "text", tree / "sub", tree):
        os.utime(path, (1_600_000_000, 1_600_000_000))
    image = str(tmp_path / f"made.{fs}")
    assert main(["image", "make", image, "--fs", fs, "--from", str(tree), *options]) == 0
    return image


@pytest.mark.parametrize(
    "name", ["clean.oob", "cut1.oob", "gc.oob", "unclean.oob", "mkfs-lzo-cm.img", "mkfs-zlib.img"]
)
def test_golden_images_of_jffs2_list_as_their_manifests(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image = _unpacked(JFFS2 / f"{name}.zst", tmp_path)
    assert main(["image", "ls", "--hash", "--output-format", "tsv", image]) == 0
    manifest = JFFS2 / f"{name.rsplit('.', 1)[0]}.manifest.tsv"
    assert capsys.readouterr().out == manifest.read_text(encoding="utf-8")
    assert main(["image", "check", image]) == 0


@pytest.mark.parametrize(
    ("name", "manifest"),
    [
        *((f"ubifs-{name}.oob", name) for name in ("clean", "gc", "cut1", "cut3", "unclean")),
        *((f"ubi-{name}.ubi", f"mkfs-{name}") for name in ("lzo-s2048", "zstd-s512")),
    ],
)
def test_golden_images_of_ubifs_list_as_their_manifests(
    name: str, manifest: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image = _unpacked(UBI / f"{name}.zst", tmp_path)
    assert main(["image", "ls", "--hash", "--output-format", "tsv", image]) == 0
    expected = (UBIFS / f"{manifest}.manifest.tsv").read_text(encoding="utf-8")
    assert capsys.readouterr().out == expected
    assert main(["image", "check", image]) == 0


def test_an_image_of_ubi_is_described(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    image = _unpacked(UBI / "ubifs-unclean.oob.zst", tmp_path)
    assert main(["image", "info", "--json", image]) == 0
    info = json.loads(capsys.readouterr().out)["result"]
    assert (info["ubi"]["vid_header_offset"], info["ubi"]["image_sequence"]) == (512, 11)
    assert sum(info["ubi"]["blocks_by_erase_counter"].values()) == 512
    (volume,) = info["volumes"]
    assert (volume["name"], volume["ubifs"]["unmounted_cleanly"]) == ("gold", False)
    assert main(["image", "info", image]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any("volume 0: ubifs: compressor" in line and "lzo" in line for line in lines)
    assert any("blocks with erase counter" in line for line in lines)


def test_volumes_of_a_configuration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kernel = tmp_path / "zImage"
    kernel.write_bytes(bytes(range(256)) * 1000)
    config = tmp_path / "volumes.cfg"
    config.write_text(
        f"[kernel]\nmode=ubi\nimage={kernel}\nvol_id=0\nvol_type=static\nvol_name=kernel\n"
        "[root]\nmode=ubi\nvol_id=1\nvol_name=root\nvol_size=16MiB\nvol_flags=autoresize\n"
    )
    image = _made(tmp_path, "ubifs", "--ubinize", str(config), "--vid-hdr-offset", "2048")
    assert main(["image", "ls", image]) == 0
    shown = capsys.readouterr().out
    assert "kernel.bin" in shown
    assert "root/link" in shown
    assert main(["image", "extract", image, str(tmp_path / "all")]) == 2
    assert "--volume" in capsys.readouterr().err
    assert main(["image", "ls", image, "--volume", "kernel"]) == 0
    shown = capsys.readouterr()
    assert "kernel.bin" in shown.out
    assert "raw data" in shown.err
    out = tmp_path / "kernel"
    assert main(["image", "extract", image, str(out), "--volume", "kernel"]) == 0
    assert (out / "kernel.bin").read_bytes() == kernel.read_bytes()
    assert main(["image", "extract", image, str(tmp_path / "root"), "--volume", "root"]) == 0
    assert (tmp_path / "root" / "link").readlink() == Path("sub/text")
    assert main(["image", "check", image]) == 0


def test_a_file_system_without_ubi(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    image = _made(
        tmp_path,
        "ubifs",
        *("--bare", "--leb-size", "124KiB", "--max-leb-cnt", "200", "--compr", "zstd"),
        *("--jrn-size", "1MiB", "--space-fixup"),
    )
    capsys.readouterr()
    assert main(["image", "info", "--json", image]) == 0
    info = json.loads(capsys.readouterr().out)["result"]["ubifs"]
    assert (info["leb_bytes"], info["max_lebs"]) == (124 * 1024, 200)
    assert (info["compressor"], info["space_fixup"]) == ("zstd", True)


def test_an_image_of_yaffs2_lists_in_all_formats(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image = _unpacked(YAFFS2 / "linux61-clean.oob.zst", tmp_path)
    assert main(["image", "ls", "--json", image]) == 0
    rows = json.loads(capsys.readouterr().out)["result"]
    assert list(rows[0]) == [
        *("path", "type", "mode", "nlink", "uid", "gid", "size", "mtime", "rdev"),
        *("target", "xattrs"),
    ]
    assert main(["image", "ls", image]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(rows)
    assert main(["image", "info", "--json", image]) == 0
    info = json.loads(capsys.readouterr().out)["result"]
    assert (info["form"]["fs"], info["space"]["checkpoint"]) == ("yaffs2", "valid")


@pytest.mark.parametrize("fs", ["jffs2", "nilfs2", "ubifs", "yaffs2"])
def test_what_is_made_comes_out_again(
    fs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image = _made(tmp_path, fs)
    out = tmp_path / f"out-{fs}"
    assert main(["image", "extract", image, str(out)]) == 0
    assert (out / "sub" / "text").read_text() == "flash block page " * 1000
    assert (out / "link").readlink() == Path("sub/text")
    assert (out / "sub").stat().st_mtime == 1_600_000_000
    assert main(["image", "check", image]) == 0
    assert main(["image", "diff", image, image]) == 0
    capsys.readouterr()


def test_checkpoints_are_listed_and_chosen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image = _unpacked(NILFS2 / "gc.img.zst", tmp_path)
    assert main(["image", "info", image]) == 0
    shown = capsys.readouterr().out
    assert (NILFS2 / "gc.lscp.txt").read_text(encoding="utf-8") in shown
    assert "              SEGNUM        DATE     TIME STAT     NBLOCKS\n" in shown
    assert "superblock: created at" in shown
    assert main(["image", "ls", image, "--checkpoint", "3", "--json"]) == 0
    old = {row["path"] for row in json.loads(capsys.readouterr().out)["result"]}
    assert main(["image", "ls", image, "--json"]) == 0
    assert old != {row["path"] for row in json.loads(capsys.readouterr().out)["result"]}
    assert main(["image", "diff", image, image, "--checkpoint", "3"]) == 0
    assert main(["image", "diff", image, image, "--right-checkpoint", "3"]) == 1
    assert main(["image", "check", image]) == 0
    assert "nilfs2, consistent\n" in capsys.readouterr().out
    assert main(["image", "ls", image, "--checkpoint", "4"]) == 2
    message = capsys.readouterr().err
    assert "--checkpoint" in message
    assert "from 3 to" in message


def test_a_device_is_made_in_the_words_of_mkfs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1500000000")
    image = _made(tmp_path, "nilfs2", *("--size", "16MiB", "-B", "64", "-L", "root", "-m", "7"))
    assert Path(image).stat().st_size == 16 << 20
    capsys.readouterr()
    assert main(["image", "info", "--json", image]) == 0
    superblock = json.loads(capsys.readouterr().out)["result"]["superblock"]
    names = ("label", "blocks_per_segment", "reserved_percent", "created_at")
    assert [superblock[name] for name in names] == ["root", 64, 7, 1_500_000_000]


def test_differences_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    image = _made(tmp_path)
    other = tmp_path / "other"
    (tmp_path / "tree" / "more").write_text("x")
    assert (
        main(["image", "make", str(other), "--fs", "jffs2", "--from", str(tmp_path / "tree")]) == 0
    )
    capsys.readouterr()
    assert main(["image", "diff", image, str(other)]) == 1
    assert "more: type - f" in capsys.readouterr().out.splitlines()


def test_damage_is_found_and_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    image = Path(_made(tmp_path, "jffs2", "--no-oob"))
    sound = bytearray(image.read_bytes())
    damaged = bytearray(sound)
    damaged[sound.index(b"text")] ^= 1
    image.write_bytes(damaged)
    capsys.readouterr()
    assert main(["image", "check", str(image)]) == 1
    out = capsys.readouterr().out
    assert "block 0 page 0 offset" in out
    assert "the CRC of the node is wrong" in out
    assert image.read_bytes() == damaged


def test_an_image_that_is_not_certain_has_a_status_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image = Path(_made(tmp_path, "jffs2", "--no-oob", "--pad", "block"))
    sound = image.read_bytes()
    image.write_bytes(sound + random.Random(1).randbytes(len(sound)))
    capsys.readouterr()
    assert main(["image", "check", str(image)]) == 3
    assert "not certain" in capsys.readouterr().err
    with pytest.raises(nl.UncertainError, match="not certain"):
        nl.image.ls(image)


def test_times_are_limited_and_images_repeat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1000000000")
    first = Path(_made(tmp_path)).read_bytes()
    assert Path(_made(tmp_path)).read_bytes() == first
    capsys.readouterr()
    main(["image", "ls", "--json", str(tmp_path / "made.jffs2")])
    assert {row["mtime"] for row in json.loads(capsys.readouterr().out)["result"]} == {
        1_000_000_000
    }


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("ls", "nowhere"), ["nowhere", "No such file"]),
        (("ls", "README.md"), ["README.md", "--fs"]),
        (("ls", "README.md", "--fs", "ext4"), ["--fs", "ext4", "nilfs2, ubifs"]),
        (("ls", "README.md", "--oob-layout", "big"), ["--oob-layout", "linux-large"]),
        (("ls", "README.md", "--page-size", "4KiB"), ["--page-size", "2048"]),
        (("ls", "README.md", "--vid-hdr-offset", "512"), ["--vid-hdr-offset", "UBI"]),
        (("ls", "README.md", "--fs", "ubifs"), ["README.md", "--block-size"]),
        (("ls", "README.md", "--volume", "root"), ["--volume", "UBI"]),
        (("check", "README.md"), ["README.md"]),
        (("ls", "README.md", "--fs", "nilfs2"), ["README.md", "superblock"]),
        (("ls", "README.md", "--checkpoint", "1"), ["--checkpoint", "NILFS2"]),
        (("ls", "README.md", "--checkpoint", "0"), ["--checkpoint", "at least 1"]),
        (("make", "x", "--fs", "nilfs2", "--from", "docs", "--oob"), ["--oob", "raw NAND"]),
        (("make", "x", "--fs", "nilfs2", "--from", "docs", "-B", "9"), ["power of two"]),
        (("make", "x", "--fs", "nilfs2", "--from", "docs", "--size", "1MiB"), ["--size", "-B"]),
        (("make", "x", "--fs", "jffs2", "--from", "docs", "--size", "1MiB"), ["--size", "nilfs2"]),
        (("make", "x", "--fs", "jffs2"), ["--from"]),
        (("make", "x", "--fs", "jffs2", "--from", "docs", "--bare"), ["--bare", "ubifs"]),
        (("make", "x", "--fs", "ubifs", "--ubinize", "nowhere"), ["nowhere"]),
        (("make", "x", "--fs", "ubifs", "--from", "docs", "--blocks", "20"), ["too few"]),
        (("make", "x", "--fs", "ubifs", "--from", "docs", "--leb-size", "1KiB"), ["--bare"]),
        (("make", "x", "--fs", "jffs2", "--from", "nowhere"), ["nowhere"]),
        (("make", "x", "--fs", "jffs2", "--from", "docs", "--part", "no"), ["--part", "no"]),
        (("make", "x", "--fs", "jffs2", "--from", "docs", "--pad", "lots"), ["--pad", "lots"]),
        (("make", "x", "--fs", "jffs2", "--from", "docs", "--option", "y"), ["`y`", "compr=zlib"]),
    ],
)
def test_bad_input(
    arguments: tuple[str, ...],
    expected: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])
    assert main(["image", *arguments]) == 2
    message = capsys.readouterr().err
    assert message.startswith("nandlab: error: ")
    for part in expected:
        assert part in message
    assert not Path("x").exists()
