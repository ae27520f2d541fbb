"""Small studies of equal cells, and the command that runs them."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

STUDY = """name = "cells"
title = "Cells"
question = "Are they equal?"
part = "published-small-block"
blocks = 80
seed = 1
repeats = {repeats}
[workload]
kind = "uniform"
warm_up_writes = {writes}
measured_writes = 1
[axes]
ftl = ["page", "dftl"]
spare_percent = [10, 20]
"""


def write_study(folder: Path, *, repeats: int = 5, writes: int = 1) -> Path:
    """A study of four combinations."""
    study = folder / "study.toml"
    study.write_text(STUDY.format(repeats=repeats, writes=writes), encoding="utf-8")
    return study


def words(study: Path, *more: str) -> list[str]:
    """The command line."""
    return [sys.executable, "-m", "nandlab", "run", str(study), "--jobs", "2", "--json", *more]


def run(study: Path, *more: str) -> dict[str, Any]:
    """The answer of the command."""
    done = subprocess.run(
        words(study, *more), capture_output=True, encoding="utf-8", cwd=study.parent, check=False
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer.get("result", answer)


def counts(answer: dict[str, Any]) -> tuple[int, int, int]:
    """Cells that were finished before, that were finished now, and that were damaged."""
    cells = answer["cells"]
    return cells["finished_before"], cells["finished_now"], cells["damaged"]
