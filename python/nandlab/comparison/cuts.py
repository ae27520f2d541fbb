"""A sample of power cuts in the script of a comparison."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nandlab import engine
from nandlab.comparison.request import on_block_device
from nandlab.engine import Progress
from nandlab.interruption import received

_SAMPLE = 40
"""Cut points that are looked at, for each way in which an operation can be torn."""

BLOCKS = 256
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
    file_systems: Sequence[tuple[str, str]],
    script: Path,
    part: str,
    seed: int,
    progress: Progress | None,
) -> tuple[Cuts, ...]:
    """Cuts the script on each file system that guarantees something, on a piece of the part.

    `file_systems` has names and profiles: the kernels whose code the comparison is about.
    """
    known = {str(row["name"]) for row in engine.listing("guarantees")} - set(on_block_device())
    text = script.read_text(encoding="utf-8")
    found = []
    for name, profile in file_systems:
        if name not in known:
            found.append(Cuts(name, 0, 0, 0, "guarantees nothing that a cut could break"))
            continue
        asked = {"fs": name, "part": part, "profile": profile, "seed": seed}
        found.append(_cut(asked, script, text, progress))
    return tuple(found)


def _cut(asked: dict[str, Any], script: Path, text: str, progress: Progress | None) -> Cuts:
    arguments = {**asked, "blocks": BLOCKS, "torn": []}
    # One cut tells how many operations there are; the sample is spread over them.
    probe = engine.cut_script(str(script), text, {**arguments, "only": 0, "every": 1})
    every = max(int(probe["operations"]) // _SAMPLE, 1)
    outcome = engine.cut_script(str(script), text, {**arguments, "every": every}, progress)
    if probe["interrupted"] or outcome["interrupted"]:
        raise received() or KeyboardInterrupt
    torn = outcome["torn"]
    return Cuts(
        asked["fs"],
        sum(int(one["cuts"]) for one in torn),
        sum(len(one["violations"]) for one in torn),
        sum(sum(one["hazards"].values()) for one in torn),
        f"profile {asked['profile']}",
    )
