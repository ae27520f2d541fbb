"""Runs a study and leaves its folder: the way from a study file to a report."""

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nandlab import engine
from nandlab.byte_sizes import natural_number
from nandlab.cells import (
    CellChoice,
    CellCounts,
    CellStudy,
    OpenCluster,
    answer_of_cells,
    cells_of,
)
from nandlab.cells.store import CellFolder
from nandlab.engine import Progress
from nandlab.errors import NandlabError
from nandlab.frame import RunFrame
from nandlab.frame.run_directory import check_target, whole_folder, write_results
from nandlab.outputs import check_file, keep
from nandlab.policy.loading import register_for_study
from nandlab.present import Presented, present, write_report

if TYPE_CHECKING:
    from nandlab.cases.study import Plan

_KERNEL = "kernel"
"""The kind of study that a real kernel carries out."""


@dataclass(frozen=True)
class RunRequest:
    """What to run and where to put it; `study` is a name or a path as the user gave it."""

    study: str
    path: str
    out: Path
    sets: Sequence[str] = ()
    seed: int | None = None
    quick: bool = False
    jobs: int | None = None
    timeline: Path | None = None
    """File that takes a timeline of the first run."""
    as_given: str | None = None
    """The command line, where it was not `nandlab run`."""
    keeps_inputs: bool = True
    """Copies of the user's own parts, boards, devices and scripts go into the folder."""
    cells: CellChoice | None = None
    """Where finished cells are kept, so that a later call goes on from there."""
    cluster: str | OpenCluster | None = None
    """Where cells are carried out, as `--cluster` names it; none for this process."""
    beside: Mapping[str, Any] = field(default_factory=dict)
    """What else is known of a comparison."""

    def __post_init__(self) -> None:
        """Refuses numbers that the engine cannot take, in the words of the command line."""
        if self.jobs is not None:
            natural_number("--jobs", self.jobs)
        if self.seed is not None:
            natural_number("--seed", self.seed, least=0, bits=64)
        if self.timeline is not None:
            check_file(self.timeline)
        if isinstance(self.cluster, str):
            from nandlab.cells.place import place_of

            place_of(self.cluster)

    def plan(self) -> dict[str, Any]:
        """The resolved study.

        Raises `NandlabError` with file, line and a suggestion if something is wrong with it.
        """
        if self.has_cases:
            return dict(self.cases_plan.study)
        return engine.describe_study(self.path, list(self.sets), self.seed, quick=self.quick)

    @cached_property
    def has_cases(self) -> bool:
        """Whether the study has cases beside it."""
        # Asked of the folder: `nandlab run` does without the module where there are none.
        return (Path(self.path).parent / "cases.toml").is_file()

    @cached_property
    def cases_plan(self) -> "Plan":
        """The plan of a study of cases."""
        from nandlab.cases.study import plan_of

        return plan_of(self.path, self.sets, self.seed, quick=self.quick)

    @cached_property
    def needs_processes(self) -> bool:
        """True where cells side by side need a process each: policies in Python take turns."""
        if self.cluster is not None or (self.jobs or processors()) == 1:
            return False
        return bool(register_for_study(self.path, self.sets))

    @property
    def command(self) -> str:
        """The command line that does the same."""
        if self.as_given is not None:
            return self.as_given
        words = ["nandlab", "run", self.study]
        for one in self.sets:
            words += ["--set", one]
        if self.seed is not None:
            words += ["--seed", str(self.seed)]
        if self.quick:
            words.append("--quick")
        return shlex.join(words)


@dataclass(frozen=True)
class FinishedRun:
    """A run whose folder is written, and what its report shows."""

    run: RunFrame
    shown: Presented
    folder: Path
    cells: CellCounts | None = None
    """What became of the cells, where they are kept."""


def processors() -> int:
    """Processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run(request: RunRequest, progress: Progress | None = None) -> FinishedRun:
    """Runs a study and writes its folder.

    An interrupted study leaves what finished: in `out` if nothing was there, else beside it; a
    report is not made then, for that takes longer than somebody who interrupts will wait.

    Raises `NandlabError` if `out` cannot be written: before the study where that shows, and after
    it with the name of the temporary folder that has the results.
    """
    check_target(request.out)
    with cells_of(request.cells, is_needed=_passes_cells_on(request)) as store:
        found = _frame_of(request, progress, store)
        finished = _written(request, found, None if store is None else store.counts)
        if store is not None:
            store.write()
            if not (found.interrupted or (request.cells and request.cells.stays)):
                store.remove()
    return finished


def _passes_cells_on(request: RunRequest) -> bool:
    return request.cluster is not None or request.needs_processes


def _written(request: RunRequest, found: RunFrame, counts: CellCounts | None) -> FinishedRun:
    """The folder of a run; the results are safe before there is a report."""
    out = request.out
    if found.interrupted and out.exists():
        out = out.with_name(f"{out.name}-interrupted")
    keep(out, partial(write_run, found, request.command, keeps_inputs=request.keeps_inputs))
    if found.interrupted:
        return FinishedRun(found, present(found), out, counts)
    # The results are safe by now, whatever becomes of the report.
    return FinishedRun(found, write_report(out, found, request.command), out, counts)


def write_run(found: RunFrame, command: str, out: Path, *, keeps_inputs: bool = True) -> None:
    """Writes the folder of a run, without a report."""
    with whole_folder(out) as folder:
        write_results(folder, found, command, keeps_inputs=keeps_inputs)


def frame_of(request: RunRequest, progress: Progress | None = None) -> RunFrame:
    """Runs a study and writes nothing but the cells that it is asked to keep."""
    with cells_of(request.cells, is_needed=_passes_cells_on(request)) as store:
        found = _frame_of(request, progress, store)
        if store is not None and not (found.interrupted or (request.cells and request.cells.stays)):
            store.remove()
        return found


def _frame_of(request: RunRequest, progress: Progress | None, store: CellFolder | None) -> RunFrame:
    from nandlab.comparison.beside import with_beside

    found = RunFrame.from_answer(_answer(request, progress, store), Path(request.path))
    return with_beside(found, request.beside)


def _answer(
    request: RunRequest, progress: Progress | None, store: CellFolder | None
) -> dict[str, Any]:
    """What the study yields: of the engine, or of a real kernel."""
    study, jobs = request.plan(), request.jobs or processors()
    if request.has_cases:
        from nandlab.cases.study import run_cases

        for option, given in (("timeline", request.timeline), ("cluster", request.cluster)):
            if given is not None:
                raise NandlabError(f"--{option}: a study of cases has none; take it out")
        return run_cases(request.cases_plan, jobs=jobs, progress=progress)
    # Asked before the modules of emulated machines are loaded, which takes as long as a short run.
    if study["workload"]["kind"] == _KERNEL:
        from nandlab.kernel_study import run_kernel_study

        if request.timeline is not None:
            raise NandlabError("--timeline: runs of a real kernel have none; take it out")
        if request.cluster is not None:
            raise NandlabError(
                "--cluster: a study of kind `kernel` starts virtual machines and measures time on "
                "this machine, which no other one can do in its place; take it out"
            )
        return run_kernel_study(study, jobs=jobs, progress=progress)
    if store is not None:
        return answer_of_cells(
            CellStudy(request.path, request.sets, request.seed, request.quick),
            store,
            jobs=jobs,
            progress=progress,
            timeline=request.timeline,
            cluster=request.cluster,
            in_processes=request.needs_processes,
        )
    return engine.run_study(
        request.path,
        list(request.sets),
        request.seed,
        quick=request.quick,
        jobs=jobs,
        progress=progress,
        timeline=request.timeline,
    )
