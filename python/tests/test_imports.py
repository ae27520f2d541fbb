"""Importing the package stays cheap, and its version is that of the engine."""

import resource
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from nandlab import __version__
from nandlab.api.entries import entries
from nandlab.api.listings import KINDS
from nandlab.errors import NandlabError

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("cyclopts", "jinja2", "numpy", "polars", "rich", "vl_convert")
SLOW = ("csv", "dataclasses", "importlib", "inspect", "pathlib", "shutil", "typing", "unicodedata")
"""Modules of the standard library that together take longer to load than a list takes."""


def _run(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def _processor_ms(*words: str) -> float:
    """Processor time of a process from its start to its end, the least of five."""
    times = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *words], stdout=subprocess.DEVNULL, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(times) * 1000


def _loaded_by(*words: str) -> set[str]:
    """Modules that a command loads beside those that the interpreter had loaded before."""
    program = (
        "import io, sys, contextlib\n"
        "before = set(sys.modules)\n"
        "from nandlab.cli import main\n"
        "with contextlib.redirect_stdout(io.StringIO()):\n"
        f"    assert main({words!r}) == 0\n"
        "print(*(set(sys.modules) - before))"
    )
    return set(_run(program).split())


def test_import_takes_60_ms_and_help_40_ms() -> None:
    """The interpreter's own start included; twice the time is allowed on a busy machine."""
    assert _processor_ms("-c", "import nandlab") < 2 * 60
    assert _processor_ms("-m", "nandlab", "--help") < 2 * 40


@pytest.mark.usefixtures("engine_is_built")
def test_a_list_takes_40_ms() -> None:
    assert _processor_ms("-m", "nandlab", "list", "ftls") < 2 * 40


def test_help_loads_nothing_slow() -> None:
    assert _loaded_by("--help").isdisjoint((*HEAVY, *SLOW))
    # What a command needs beside its own module is seen.
    assert {"cyclopts", "typing"} <= _loaded_by("completion", "bash")


@pytest.mark.usefixtures("engine_is_built")
def test_a_list_loads_nothing_slow() -> None:
    assert _loaded_by("list", "ftls").isdisjoint((*HEAVY, *SLOW))


@pytest.mark.usefixtures("engine_is_built")
def test_the_engine_and_the_option_parser_have_the_same_lists() -> None:
    """A list that is asked for without an option does not go through the parser."""
    with pytest.raises(NandlabError, match="unknown kind of list") as caught:
        entries("no-list")
    _, _, known = str(caught.value).partition("known: ")
    assert sorted([*known.split(", "), "studies"]) == sorted(KINDS)


def test_the_version_is_that_of_the_workspace() -> None:
    workspace = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]
    assert workspace["package"]["version"] == __version__
