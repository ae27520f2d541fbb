"""The examples of policies in Python, changed for tests, and studies that take them."""

import shutil
from pathlib import Path

import nandlab as nl

EXAMPLES = Path(__file__).parents[2] / "docs" / "policies"

STUDY = """
name = "own"
title = "A policy of one's own"
question = "What does it do?"
part = "generic-mlc-2x"
blocks = 64
seed = 3
repeats = {repeats}
[workload]
kind = "hot-cold"
hot_pages_percent = 20
hot_writes_percent = 98
warm_up_writes = 1
measured_writes = {writes}
[axes]
{axes}
spare_percent = [20]
pages_per_block = [16]
"""


def copy_examples(folder: Path) -> None:
    """Copies the examples into a folder, where tests name them."""
    for path in EXAMPLES.glob("*.py"):
        shutil.copy(path, folder)


def changed(folder: Path, example: str, old: str, new: str, name: str = "wrong.py") -> str:
    """Writes an example in which one text is replaced; the name of its policy."""
    text = (EXAMPLES / example).read_text(encoding="utf-8")
    assert old in text
    (folder / name).write_text(text.replace(old, new), encoding="utf-8")
    (made_of,) = (line for line in text.splitlines() if line.startswith("class "))
    return f"{name}:{made_of.split()[1].split('(')[0]}"


def run_study(
    folder: Path,
    axes: str,
    *,
    repeats: int = 1,
    writes: int = 2,
    jobs: int = 1,
    seed: int = 3,
    out: Path | None = None,
) -> nl.Run:
    """Runs a small study with these axes, in this process if `jobs` is 1."""
    study = STUDY.format(axes=axes, repeats=repeats, writes=writes)
    (folder / "own.toml").write_text(study, encoding="utf-8")
    return nl.run(folder / "own.toml", jobs=jobs, seed=seed, out=out)
