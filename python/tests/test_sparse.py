"""Files that are holes for the most part: claimed gigabytes cost neither time nor memory.

What is bounded here is processor time, which other programs of the machine do not change.
"""

import hashlib
import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("engine_is_built")

MEMORY_BYTES = 2 << 30
CLAIMED = 4_294_963_200
"""As long as a file of JFFS2 may be: all pages below 4 GiB but the last."""


def _nandlab(*words: str) -> tuple[subprocess.CompletedProcess[str], float]:
    """Runs a command with little memory; and the processor time that it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-m", "nandlab", *words],
        capture_output=True,
        encoding="utf-8",
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES)),
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return done, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _sparse(path: Path, length: int) -> None:
    """A file with data at its beginning, in the middle and at its end."""
    with path.open("wb") as file:
        for place in (0, length // 2, length - 5):
            file.seek(place)
            file.write(b"data!")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@pytest.fixture(scope="module")
def claims(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An image of JFFS2 with twenty files, each of which claims four gigabytes."""
    folder = tmp_path_factory.mktemp("claims")
    script = folder / "claims.ops"
    lines = (
        f"put f{number} 644 4k 4096 x {number}\ntruncate f{number} {CLAIMED}\n"
        for number in range(20)
    )
    script.write_text("".join(lines), encoding="utf-8")
    image = folder / "image.jffs2"
    options = ["--fs", "jffs2", "--blocks", "16", "--dump", str(image)]
    done, _ = _nandlab("script", str(script), *options)
    assert done.returncode == 0, done.stderr
    return image


def test_claimed_gigabytes_are_checked_and_listed_at_once(claims: Path) -> None:
    done, used_s = _nandlab("image", "check", str(claims))
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert used_s < 10
    done, used_s = _nandlab("image", "ls", str(claims))
    assert str(CLAIMED) in done.stdout
    assert used_s < 10


def test_claimed_gigabytes_are_extracted_as_holes(claims: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done, used_s = _nandlab("image", "extract", str(claims), str(out))
    assert done.returncode == 0, done.stderr
    assert used_s < 10
    for path in out.iterdir():
        assert path.stat().st_size == CLAIMED
        assert path.stat().st_blocks * 512 <= 1 << 16


@pytest.mark.parametrize(
    ("fs", "length"),
    [("jffs2", 1 << 30), ("yaffs2", 1 << 30), ("ubifs", (4 << 30) + 12_345), ("nilfs2", 5 << 30)],
)
def test_holes_go_through_an_image(fs: str, length: int, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    _sparse(tree / "sparse", length)
    (tree / "zeros").write_bytes(bytes(1 << 20))
    with (tree / "tail").open("wb") as file:
        file.write(b"begin")
        file.truncate(300_000)
    image, out = tmp_path / "image", tmp_path / "out"
    done, used_s = _nandlab("image", "make", str(image), "--fs", fs, "--from", str(tree))
    assert done.returncode == 0, done.stderr
    # The identifiers of NILFS2 follow from all contents, holes included.
    assert used_s < (40 if fs == "nilfs2" else 10)
    done, _ = _nandlab("image", "check", str(image))
    assert done.returncode == 0, done.stdout + done.stderr
    done, used_s = _nandlab("image", "extract", str(image), str(out))
    assert done.returncode == 0, done.stderr
    assert used_s < 10
    for name in ("sparse", "zeros", "tail"):
        one, other = tree / name, out / name
        assert other.stat().st_size == one.stat().st_size
        assert other.stat().st_blocks * 512 <= 1 << 17
    with (out / "sparse").open("rb") as file:
        for place in (0, length // 2, length - 5):
            file.seek(place)
            assert file.read(5) == b"data!"
    assert (out / "tail").read_bytes() == (tree / "tail").read_bytes()
    if fs in ("jffs2", "ubifs"):
        done, _ = _nandlab("image", "ls", "--hash", "--json", str(image))
        hashes = {row["path"]: row["sha256"] for row in json.loads(done.stdout)["result"]}
        for name in ("sparse", "zeros", "tail"):
            assert hashes[name] == _sha256(tree / name), name


def test_the_same_tree_makes_the_same_image_however_the_host_stores_it(tmp_path: Path) -> None:
    images = []
    for name in ("holes", "plain"):
        tree = tmp_path / name
        tree.mkdir()
        _sparse(tree / "file", 3_000_000)
        if name == "plain":
            content = (tree / "file").read_bytes()
            (tree / "file").write_bytes(content)
        os.utime(tree / "file", (1_600_000_000, 1_600_000_000))
        os.utime(tree, (1_600_000_000, 1_600_000_000))
        image = tmp_path / f"{name}.image"
        done, _ = _nandlab("image", "make", str(image), "--fs", "ubifs", "--from", str(tree))
        assert done.returncode == 0, done.stderr
        images.append(image.read_bytes())
    assert images[0] == images[1]
