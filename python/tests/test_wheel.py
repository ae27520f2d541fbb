"""The wheel of `make wheel` works without Rust and away from the tree.

It is installed into a new environment, whose dependencies are those of this one;
`NANDLAB_WHEEL=1` takes them from the package index by the ranges of the wheel's metadata instead.
"""

import ast
import importlib.metadata
import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "python/nandlab"
FROM_THE_INDEX = os.environ.get("NANDLAB_WHEEL") == "1"
DATA = ("boards", "devices", "parts", "studies", "traces", "workloads")
GLIBC = "2_34"
"""Debian 12, Ubuntu 22.04 and RHEL 9 have at least this version."""


@pytest.fixture(scope="module")
def wheel() -> Path:
    found = sorted((ROOT / "dist").glob("nandlab-*.whl"))
    if not found:
        pytest.skip("dist/ has no wheel: run `make wheel`")
    assert len(found) == 1, found
    return found[0]


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command of the installed wheel."""
    place = tmp_path_factory.mktemp("wheel")
    environment = place / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    python = environment / "bin/python"
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if FROM_THE_INDEX:
        subprocess.run([*install, str(wheel)], check=True)
    else:
        subprocess.run([*install, "--no-index", "--no-deps", str(wheel)], check=True)
        (packages,) = environment.glob("lib/python*/site-packages")
        # The path alone: its own .pth files, one of which leads to the tree, are not read.
        borrowed = sysconfig.get_paths()["purelib"]
        (packages / "borrowed.pth").write_text(f"{borrowed}\n", encoding="utf-8")
    return environment / "bin/nandlab"


def _run(installed: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Runs the installed command elsewhere, without Rust and without variables of the tree."""
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "LC_ALL": "C.UTF-8"}
    return subprocess.run(
        [str(installed), *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


def _prints(installed: Path, folder: Path, *words: str) -> str:
    done = _run(installed, folder, *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [one for one in archive.namelist() if one.endswith(".dist-info/METADATA")]
        return Parser().parsestr(archive.read(name).decode())


def _requirements() -> dict[str, Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    # Extras as well: what they bring is imported where it is asked for.
    extras = [line for lines in project["optional-dependencies"].values() for line in lines]
    found = [Requirement(line) for line in [*project["dependencies"], *extras]]
    return {requirement.name: requirement for requirement in found}


def test_the_wheel_fits_every_python_and_this_glibc(wheel: Path) -> None:
    assert re.fullmatch(
        rf"nandlab-[\d.]+-cp311-abi3-manylinux_{GLIBC}_(x86_64|aarch64)\.whl", wheel.name
    )


def test_the_wheel_has_the_files_of_the_tree(wheel: Path) -> None:
    tree = {
        f"nandlab/{path.relative_to(PACKAGE).as_posix()}": path
        for path in PACKAGE.rglob("*")
        if path.is_file() and path.suffix != ".so" and "__pycache__" not in path.parts
    }
    for kind in DATA:
        files = (path for path in (ROOT / kind).rglob("*") if path.is_file())
        tree |= {f"nandlab/data/{path.relative_to(ROOT).as_posix()}": path for path in files}
    with zipfile.ZipFile(wheel) as archive:
        names = {one for one in archive.namelist() if not one.startswith("nandlab-")}
        old = [
            name
            for name, path in tree.items()
            if name in names and archive.read(name) != path.read_bytes()
        ]
    assert names - {"nandlab/_native.abi3.so"} == set(tree), "run `make wheel`"
    assert not old, "the wheel is older than the tree: run `make wheel`"


def test_the_wheel_lists_and_explains(installed: Path, tmp_path: Path) -> None:
    assert "ftl-windows" in _prints(installed, tmp_path, "list", "studies")
    for kind, name in (("parts", "k9f2g08u0c"), ("boards", "odroid-xu"), ("devices", "sata-ssd")):
        assert name in _prints(installed, tmp_path, "list", kind)
    assert "K9F2G08U0C" in _prints(installed, tmp_path, "explain", "k9f2g08u0c")


def test_the_package_comes_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    python = installed.with_name("python")
    program = "import nandlab.data; print(nandlab.data.folder('traces'))"
    shown = _prints(python, tmp_path, "-c", program)
    assert str(installed.parents[1]) in shown
    assert str(ROOT) not in shown


def test_the_wheel_runs_a_quick_study(installed: Path, tmp_path: Path) -> None:
    words = ("--quick", "--set", "axes.ftl=bast,page", "--out", "out")
    assert "Report: out/report.html" in _prints(installed, tmp_path, "run", "ftl-windows", *words)
    assert (tmp_path / "out/report.html").stat().st_size > 100_000
    again = _prints(installed, tmp_path, "compare", "out", "out")
    assert "digests are equal" in again


def test_the_wheel_compares_candidates(installed: Path, tmp_path: Path) -> None:
    _prints(installed, tmp_path, "new", "workload", "mine")
    words = ("--fs", "jffs2,yaffs2", "--blocks", "512", "--workload", "mine.toml")
    assert "Side by side" in _prints(installed, tmp_path, "compare", *words)


def test_the_wheel_makes_and_lists_an_image(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/hello").write_text("hello", encoding="utf-8")
    make = ("image", "make", "image.jffs2", "--fs", "jffs2", "--from", "tree")
    _prints(installed, tmp_path, *make)
    assert "hello" in _prints(installed, tmp_path, "image", "ls", "image.jffs2")


def test_what_needs_the_tree_says_so(installed: Path, tmp_path: Path) -> None:
    done = _run(installed, tmp_path, "run", "sfq-kernel", "--quick")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "source tree" in done.stderr


def _imported() -> set[str]:
    """Packages outside of the standard library that the sources import, at any level."""
    found = set()
    for source in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.split(".")[0])
    return found - set(sys.stdlib_module_names) - {"nandlab"}


def test_what_is_imported_is_what_is_required() -> None:
    by_module = importlib.metadata.packages_distributions()
    imported = {
        distribution.lower() for module in _imported() for distribution in by_module[module]
    }
    assert imported == set(_requirements())


def test_ranges_of_the_metadata_hold_what_is_locked(wheel: Path) -> None:
    told = {Requirement(line).name for line in _metadata(wheel).get_all("Requires-Dist", [])}
    assert told == set(_requirements())
    locked = dict(
        line.lower().split("==")
        for line in (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
        if "==" in line
    )
    for name, requirement in _requirements().items():
        assert locked[name] in requirement.specifier
        assert any(one.operator == ">=" for one in requirement.specifier)
        assert any(one.operator == "<" for one in requirement.specifier)
        assert not any(one.operator == "==" for one in requirement.specifier)
