"""Runs a study and leaves its folder: the way from a study file to a report."""

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from nandlab import engine
from nandlab.claims import has_claims
from nandlab.engine import Progress
from nandlab.frame import RunFrame
from nandlab.outputs import keep
from nandlab.present import Presented, present
from nandlab.present import write_report as write_presented
from nandlab.results.reference import find_reference
from nandlab.results.run_directory import check_target, whole_folder, write_results
from nandlab.results.study_result import StudyResult
from nandlab.verdicts import judge
from nandlab.verdicts.model import Verdict


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
    as_given: str | None = None
    """The command line, where it was not `nandlab run`."""
    keeps_inputs: bool = True
    """Copies of the user's own parts, boards, devices and scripts go into the folder."""

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
    """A run whose folder is written."""

    result: StudyResult
    verdict: Verdict | Presented
    folder: Path


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
    result = result_of(request, progress)
    out = request.out
    if result.interrupted and out.exists():
        out = out.with_name(f"{out.name}-interrupted")
    keep(out, partial(write_run, result, request.command, keeps_inputs=request.keeps_inputs))
    if result.interrupted:
        return FinishedRun(result, answer_of(result), out)
    # The results are safe by now, whatever becomes of the report.
    verdict = write_report_of(out, result, request.command)
    return FinishedRun(result, verdict, out)


def write_run(result: StudyResult, command: str, out: Path, *, keeps_inputs: bool = True) -> None:
    """Writes the folder of a run, without a report."""
    with whole_folder(out) as folder:
        write_results(folder, result, command, keeps_inputs=keeps_inputs)


def result_of(request: RunRequest, progress: Progress | None = None) -> StudyResult:
    """Runs a study and writes nothing."""
    answer = _answer(request, progress)
    path = Path(request.path)
    return StudyResult.from_engine(answer, find_reference(answer["study"], path), path.parent)


def _answer(request: RunRequest, progress: Progress | None) -> dict[str, Any]:
    """What the study yields: of the engine, or of a real kernel."""
    from nandlab.kernel_study import is_kernel_study, run_kernel_study

    sets, jobs = list(request.sets), request.jobs or processors()
    study = engine.describe_study(request.path, sets, request.seed, quick=request.quick)
    if is_kernel_study(study):
        return run_kernel_study(study, jobs=jobs, progress=progress)
    return engine.run_study(
        request.path, sets, request.seed, quick=request.quick, jobs=jobs, progress=progress
    )


def answer_of(result: StudyResult) -> Verdict | Presented:
    """What a result says: its claims, tables and figures, or the verdict of an older study."""
    return present(RunFrame.of(result)) if has_claims(result.folder) else judge(result)


def write_report_of(folder: Path, result: StudyResult, command: str) -> Verdict | Presented:
    """Judges `result` and writes page, pictures and verdict into `folder`."""
    if has_claims(result.folder):
        return write_presented(folder, RunFrame.of(result), command)
    from nandlab.report.page import write_report

    verdict = judge(result)
    write_report(folder, result, verdict, engine.listing("ftls"), command)
    return verdict
