"""A sample of power cuts in the script of a comparison."""

from dataclasses import dataclass
from pathlib import Path

from nandlab import engine
from nandlab.engine import Progress
from nandlab.interruption import received

_SAMPLE = 40
"""Cut points that are looked at, for each way in which an operation can be torn."""

_BLOCKS = 256
"""Blocks of the part's chip that is cut: small enough to be mounted often."""


@dataclass(frozen=True)
class Cuts:
    """What became of one file system."""

    file_system: str
    cuts: int
    violations: int
    hazards: int
    note: str = ""


def cut_sample(
    file_systems: tuple[str, ...], script: Path, part: str, seed: int, progress: Progress | None
) -> tuple[Cuts, ...]:
    """Cuts the script on each file system that guarantees something, on a piece of the part."""
    known = {str(row["name"]) for row in engine.listing("guarantees")}
    text = script.read_text(encoding="utf-8")
    found = []
    for name in file_systems:
        if name not in known:
            found.append(Cuts(name, 0, 0, 0, "guarantees nothing that a cut could break"))
            continue
        found.append(_cut(name, script, text, part, seed, progress))
    return tuple(found)


def _cut(
    name: str, script: Path, text: str, part: str, seed: int, progress: Progress | None
) -> Cuts:
    arguments = {"fs": name, "part": part, "blocks": _BLOCKS, "seed": seed, "torn": []}
    # One cut tells how many operations there are; the sample is spread over them.
    probe = engine.cut_script(str(script), text, {**arguments, "only": 0, "every": 1})
    every = max(int(probe["operations"]) // _SAMPLE, 1)
    outcome = engine.cut_script(str(script), text, {**arguments, "every": every}, progress)
    if probe["interrupted"] or outcome["interrupted"]:
        raise received() or KeyboardInterrupt
    torn = outcome["torn"]
    return Cuts(
        name,
        sum(int(one["cuts"]) for one in torn),
        sum(len(one["violations"]) for one in torn),
        sum(sum(one["hazards"].values()) for one in torn),
    )
