"""Runs MQSim and nandlab on one device and the same workloads, and prints a Markdown table.

    MQSIM=/path/to/MQSim scripts/compare-mqsim.sh [OPTIONS]

MQSim is a simulator of SSDs by others; its binary is named, not built. Each figure is the median
over the seeds, with the smallest and the largest. Every run is done twice, with all requests and
with few. The difference of their processor times belongs to the requests: filling the device,
reading the configuration and writing the report are not in it. Exit status 2: no MQSim, no
nandlab, or a bad option.
"""

import argparse
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NoReturn

from compare_mqsim_sides import (
    QUEUE_DEPTH,
    WORKLOADS,
    ComparisonError,
    Outcome,
    Workload,
    rate,
    run_mqsim,
    run_nandlab,
)

ROOT = Path(__file__).resolve().parents[1]

FEW_REQUESTS = 1_000
"""Requests of the runs that measure the set-up; more than the queue holds."""

QUANTITIES: tuple[tuple[str, str, Callable[[Outcome], float | None]], ...] = (
    ("requests asked", ",.0f", lambda one: one.asked),
    ("requests answered", ",.0f", lambda one: one.answered),
    ("requests lost", ",.0f", lambda one: one.asked - one.answered),
    ("simulated IOPS", ",.0f", lambda one: rate(one.answered, one.simulated_s)),
    ("flash reads", ",.0f", lambda one: one.reads),
    ("flash programs", ",.0f", lambda one: one.programs),
    ("flash erases", ",.0f", lambda one: one.erases),
    ("write amplification", ".3f", lambda one: one.write_amplification),
    ("processor seconds, whole command", ".2f", lambda one: one.processor_s),
    ("processor seconds, set-up", ".2f", lambda one: one.setup_s),
    ("requests a processor second", ",.0f", lambda one: one.requests_per_processor_s),
    ("flash operations a processor second", ",.0f", lambda one: one.operations_per_processor_s),
)
"""Name, format and value of each row of a workload. Rates leave the set-up out."""


def with_setup(run: Callable[[int], Outcome], requests: int) -> Outcome:
    """A run with all requests, beside what a run with few requests took."""
    whole, few = run(requests), run(min(FEW_REQUESTS, requests // 2))
    return replace(
        whole,
        setup_s=few.processor_s,
        setup_requests=few.answered,
        setup_operations=few.operations,
    )


def spread(values: Sequence[float | None], form: str) -> str:
    """Median, and smallest and largest where they differ; `-` if a value is missing."""
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return "-"
    middle, low, high = (format(f(known), form) for f in (statistics.median, min, max))
    return middle if low == high else f"{middle} ({low} to {high})"


def rows(
    workload: Workload, mqsim: Sequence[Outcome | ComparisonError], ours: Sequence[Outcome]
) -> list[str]:
    """Rows of the table. A seed at which MQSim failed is left out of both columns, and said."""
    both = zip(mqsim, ours, strict=True)
    pairs = [(theirs, own) for theirs, own in both if isinstance(theirs, Outcome)]
    failures = [str(one) for one in mqsim if isinstance(one, ComparisonError)]
    ended = f"{len(pairs)} of {len(mqsim)}" + "".join(f"; {text}" for text in failures[:1])
    lines = [f"| {workload.title} | runs that ended | {ended} | {len(ours)} of {len(ours)} | |"]
    # Without any run of MQSim, nandlab's own figures are shown alone.
    shown = [own for _, own in pairs] or list(ours)
    for name, form, value in QUANTITIES:
        left = [value(theirs) for theirs, _ in pairs]
        right = [value(own) for own in shown]
        ratios = [
            mine / other if mine is not None and other else None
            for other, mine in zip(left, right, strict=False)
        ]
        cells = (name, spread(left, form), spread(right, form), spread(ratios, ".3g"))
        lines.append(f"| | {' | '.join(cells)} |")
    return lines


def compare(binary: Path, nandlab: str, given: argparse.Namespace) -> list[str]:
    """All rows, one workload after the other, the two simulators in turns."""
    lines = []
    for workload in (one for one in WORKLOADS if one.name in given.workload):
        theirs: list[Outcome | ComparisonError] = []
        ours: list[Outcome] = []
        for seed in range(1, given.seeds + 1):
            with tempfile.TemporaryDirectory(prefix="compare-mqsim-") as name:
                folder = Path(name)
                mqsim = partial(run_mqsim, binary, workload, seed, folder)
                # The device is the same for few requests.
                own = partial(run_nandlab, nandlab, workload, given.requests, seed, folder)
                try:
                    theirs.append(with_setup(mqsim, given.requests))
                except ComparisonError as error:
                    theirs.append(error)
                ours.append(with_setup(own, given.requests))
        lines += rows(workload, theirs, ours)
    return lines


def _fail(reason: str) -> NoReturn:
    print(f"compare-mqsim.sh: error: {reason}", file=sys.stderr)
    sys.exit(2)


def _arguments(words: Sequence[str]) -> argparse.Namespace:
    names = [workload.name for workload in WORKLOADS]
    summary = "Runs MQSim and nandlab side by side and prints a Markdown table."
    parser = argparse.ArgumentParser(prog="compare-mqsim.sh", description=summary)
    parser.add_argument("mqsim", nargs="?", default=os.environ.get("MQSIM"), help="MQSim's binary")
    parser.add_argument("--requests", type=int, default=300_000, help="requests of each run")
    parser.add_argument("--seeds", type=int, default=3, help="runs of each workload")
    parser.add_argument("--workload", action="append", choices=names, help="only this; repeatable")
    parser.add_argument("--nandlab", help="the command nandlab")
    given = parser.parse_args(words)
    given.workload = given.workload or names
    return given


def main(words: Sequence[str]) -> None:
    """The command; ends with status 2 and one line if there is nothing to compare."""
    given = _arguments(words)
    if not given.mqsim:
        _fail("set MQSIM to the path of MQSim's binary, or give it as the first argument")
    binary = Path(given.mqsim).resolve()
    if not (binary.is_file() and os.access(binary, os.X_OK)):
        _fail(f"{given.mqsim} is no program that can be run")
    if given.requests < 2 * QUEUE_DEPTH or given.seeds < 1:
        _fail(f"--requests must be at least {2 * QUEUE_DEPTH}, --seeds at least 1")
    beside = ROOT / ".venv/bin/nandlab"
    nandlab = given.nandlab or (str(beside) if beside.exists() else shutil.which("nandlab"))
    if nandlab is None:
        _fail("the command nandlab was not found; build it with `make build`, or use --nandlab")
    try:
        lines = compare(binary, nandlab, given)
    except ComparisonError as error:
        _fail(str(error))
    print("| workload | quantity | MQSim | nandlab | nandlab/MQSim |\n|---|---|---:|---:|---:|")
    print("\n".join(lines))


if __name__ == "__main__":
    main(sys.argv[1:])
