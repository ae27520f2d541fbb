"""`nandlab image`: golden images through the commands, made ones, and bad input."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from nandlab.cli import main

pytestmark = pytest.mark.usefixtures("engine_is_built")

CRATES = Path(__file__).parents[2] / "crates"
JFFS2 = CRATES / "jffs2/tests/data"
YAFFS2 = CRATES / "yaffs2/tests/data"


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
    assert main(["image", "ls", "--hash", "--format", "tsv", image]) == 0
    manifest = JFFS2 / f"{name.rsplit('.', 1)[0]}.manifest.tsv"
    assert capsys.readouterr().out == manifest.read_text(encoding="utf-8")
    assert main(["image", "check", image]) == 0


def test_an_image_of_yaffs2_lists_in_all_formats(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image = _unpacked(YAFFS2 / "linux61-clean.oob.zst", tmp_path)
    assert main(["image", "ls", "--format", "json", image]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert list(rows[0]) == [
        *("path", "type", "mode", "nlink", "uid", "gid", "size", "mtime", "rdev"),
        *("target", "xattrs"),
    ]
    assert main(["image", "ls", image]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(rows)
    assert main(["image", "info", "--format", "json", image]) == 0
    info = json.loads(capsys.readouterr().out)
    assert (info["form"]["fs"], info["space"]["checkpoint"]) == ("yaffs2", "valid")


@pytest.mark.parametrize("fs", ["jffs2", "yaffs2"])
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


def test_times_are_limited_and_images_repeat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1000000000")
    first = Path(_made(tmp_path)).read_bytes()
    assert Path(_made(tmp_path)).read_bytes() == first
    capsys.readouterr()
    main(["image", "ls", "--format", "json", str(tmp_path / "made.jffs2")])
    assert {row["mtime"] for row in json.loads(capsys.readouterr().out)} == {1_000_000_000}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("ls", "nowhere"), ["nowhere", "No such file"]),
        (("ls", "README.md"), ["README.md", "--fs"]),
        (("ls", "README.md", "--fs", "ext4"), ["--fs", "ext4", "jffs2, yaffs2"]),
        (("ls", "README.md", "--oob-layout", "big"), ["--oob-layout", "linux-large"]),
        (("ls", "README.md", "--page-size", "4KiB"), ["--page-size", "2048"]),
        (("ls", "README.md", "--vid-hdr-offset", "512"), ["--vid-hdr-offset", "UBI"]),
        (("check", "README.md"), ["README.md"]),
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
