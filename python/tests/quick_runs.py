"""Quick forms of shipped studies, run once for all test files that look at them."""

import contextlib
import fcntl
import io
import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from nandlab.cli import main

FOLDER = "quick-runs"


@dataclass(frozen=True)
class QuickRun:
    """A run that one process made, and what the command printed. Tests only read it."""

    folder: Path
    printed: str


def quick_run(study: str, factory: pytest.TempPathFactory) -> QuickRun:
    """The run of a study; workers of pytest-xdist share it, and the second waits for the first."""
    own = factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    place = shared / FOLDER
    place.mkdir(exist_ok=True)
    printed = place / f"{study}.txt"
    with (place / f"{study}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not printed.is_file():
            text = io.StringIO()
            words = ["run", study, "--quick", "--jobs", "1", "--out", str(place / study)]
            with contextlib.redirect_stdout(text):
                assert main(words) == 0
            # The last to be written: a run that failed is made again by the next test.
            printed.write_text(text.getvalue(), encoding="utf-8")
    return QuickRun(place / study, printed.read_text(encoding="utf-8"))
