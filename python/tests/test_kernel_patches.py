"""SFQ and SFQ2 as patches against kernel trees: what they hold, and that they build."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from kernel_lab import SERIES, build_root_or_skip, kernel_or_skip

from nandlab.vm import require_programs

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

import sfq_patches

NOT_OURS = ("MISSING_SIGN_OFF", "FILE_PATH_CHANGES")
"""Whoever sends the patches signs them off; who maintains a file is decided in the tree."""


def _source_tree(series: str) -> tuple[Path, Path]:
    root = build_root_or_skip(kernel_or_skip(series))
    return root, root / "usr" / "src" / f"linux-source-{series}"


@pytest.mark.parametrize(
    ("is_set", "left"),
    [
        (False, "a\nd\n#ifdef Y\ne\n#endif\n#ifdef Z\ng\n#endif\n"),
        (True, "a\nb\n#ifdef X\nc\n#endif\nf\n#ifdef Z\ng\n#endif\n"),
    ],
)
def test_code_for_other_kernels_goes(is_set: bool, left: str) -> None:
    text = (
        "a\n#ifdef M\nb\n#ifdef X\nc\n#endif\n#else\nd\n#ifdef Y\ne\n#endif\n#endif\n"
        "#ifdef M\nf\n#endif\n#ifdef Z\ng\n#endif\n"
    )
    assert sfq_patches.resolved(text, "M", is_set=is_set) == left


def test_a_replacement_that_finds_no_place_is_refused() -> None:
    with pytest.raises(sfq_patches.DoesNotFitError, match="has no 'gone'"):
        sfq_patches.replaced("text", [("gone", "")])


@pytest.mark.parametrize("series", SERIES)
def test_the_patches_are_those_of_the_sources(series: str, tmp_path: Path) -> None:
    _, tree = _source_tree(series)
    sfq_patches.write_series(series, tree, tmp_path)
    written = {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()}
    kept = {
        path.name: path.read_text(encoding="utf-8")
        for path in (sfq_patches.PATCHES / series).iterdir()
    }
    assert written == kept, "run scripts/sfq_patches.py"


@pytest.mark.parametrize("series", SERIES)
def test_checkpatch_has_nothing_to_say_to_the_patches(series: str) -> None:
    _, tree = _source_tree(series)
    if shutil.which("perl") is None:
        pytest.skip("checkpatch needs perl")
    patches = sorted((sfq_patches.PATCHES / series).glob("000[1-9]-*.patch"))
    command = ["perl", str(tree / "scripts" / "checkpatch.pl"), "--no-tree", "--terse"]
    command += ["--ignore", ",".join(NOT_OURS), *map(str, patches)]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("series", SERIES)
def test_the_form_inside_a_tree_builds_without_a_remark(series: str, tmp_path: Path) -> None:
    kernel = kernel_or_skip(series)
    root, tree = _source_tree(series)
    make = require_programs(["make"])["make"]
    for _, content in sfq_patches.patches(series, tree):
        for name, text in content.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    headers = tmp_path / "private"
    shutil.copytree(tree / "block", headers, ignore=shutil.ignore_patterns("[!*.h]*Make*", "Kc*"))
    (tmp_path / "block" / "Makefile").unlink()
    (tmp_path / "Kbuild").write_text(
        "".join(
            f"obj-m += block/{one.name}-iosched.o\n"
            f"CFLAGS_block/{one.name}-iosched.o := -I{headers} -I{tmp_path}/include\n"
            for one in sfq_patches.SCHEDULERS
        ),
        encoding="utf-8",
    )
    (tmp_path / "block" / "Kbuild").unlink(missing_ok=True)
    built = root / "usr" / "src" / f"linux-headers-{kernel.release}"
    common = next(
        line.split()[1]
        for line in (built / "Makefile").read_text(encoding="utf-8").splitlines()
        if line.startswith("include ")
    )
    # Debian's headers include their common part by its installed place.
    command = [str(make), "-C", str(built), "-f", f"{root}{common}", f"M={tmp_path}", "W=1"]
    command += ["CONFIG_DEBUG_INFO_BTF_MODULES=", "modules"]
    if shutil.which("sparse"):
        command += ["C=2", "CF=-D__CHECK_ENDIAN__"]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", check=False
    )
    assert done.returncode == 0, done.stdout
    remarks = [
        line
        for line in done.stdout.splitlines()
        if "sfq" in line and ("warning" in line or "error" in line)
    ]
    assert remarks == [], done.stdout
    if not shutil.which("sparse"):
        pytest.skip("built without a warning, but sparse is not installed")
