"""Importing the package stays cheap, and its version is that of the engine."""

import subprocess
import sys
import tomllib
from pathlib import Path

from nandlab import __version__

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("altair", "jinja2", "numpy", "polars", "vl_convert")


def _run(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_import_takes_less_than_100_ms() -> None:
    # Of the processor: how long it waits for one says nothing of nandlab.
    program = (
        "import time; start = time.process_time(); import nandlab; "
        "print((time.process_time() - start) * 1000)"
    )
    assert min(float(_run(program)) for _ in range(3)) < 100


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
