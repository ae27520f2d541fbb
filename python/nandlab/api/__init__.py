"""What `import nandlab` gives: runs, replays, comparisons, scripts and lists as objects."""

from nandlab.api.interrupted import Interrupted
from nandlab.api.listings import (
    boards,
    devices,
    file_systems,
    formats,
    ftls,
    guarantees,
    oob_layouts,
    parts,
    policies,
    schedulers,
    studies,
    tests,
    workloads,
)  # fmt: skip
from nandlab.api.runs import Run, open_run, run
from nandlab.api.study import Study
from nandlab.api.tools import Comparison, Crash, Replay, Script, compare, crash, replay, script

__all__ = [
    "Comparison", "Crash", "Interrupted", "Replay", "Run", "Script", "Study", "boards", "compare",
    "crash", "devices", "file_systems", "formats", "ftls", "guarantees", "oob_layouts", "open_run",
    "parts", "policies", "replay", "run", "schedulers", "script", "studies", "tests", "workloads",
]  # fmt: skip
