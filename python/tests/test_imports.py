"""Importing the package stays cheap, and its version is that of the engine."""

import resource
import subprocess
import sys
import tomllib
from pathlib import Path

from nandlab import __version__

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("cyclopts", "jinja2", "numpy", "polars", "rich", "vl_convert")


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


def test_import_takes_60_ms_and_help_100_ms() -> None:
    """The interpreter's own start included; twice the time is allowed on a busy machine."""
    assert _processor_ms("-c", "import nandlab") < 2 * 60
    assert _processor_ms("-m", "nandlab", "--help") < 2 * 100


def test_import_and_help_load_nothing_heavy() -> None:
    program = (
        "import io, sys, contextlib, nandlab\n"
        "from nandlab.cli import main\n"
        "with contextlib.redirect_stdout(io.StringIO()):\n"
        "    assert main(['--help']) == 0\n"
        f"print(sorted(set({HEAVY!r}) & set(sys.modules)))"
    )
    assert _run(program) == "[]"


def test_the_version_is_that_of_the_workspace() -> None:
    workspace = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]
    assert workspace["package"]["version"] == __version__
