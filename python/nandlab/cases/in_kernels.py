"""Has real kernels carry out cases, in emulated machines that count instructions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nandlab.cases.measured import Watched, watched_of
from nandlab.cases.schema import Case, CaseJob, Place
from nandlab.engine import Progress
from nandlab.errors import NandlabError
from nandlab.kernel_measurements import Measurement, MeasurementError
from nandlab.kernel_study import Cell, Load, measure_cells
from nandlab.vm import ModuleBuildError, VmRunError, VmUnavailable

LOAD = Load("fair.sh", "fair-load")
"""What runs in the machine, of kernel/sfq/tests."""


@dataclass(frozen=True)
class CaseCell(Cell):
    """One case under one scheduler, once."""

    case: Case
    place: Place

    @property
    def line(self) -> str:
        """The cell as `fair.sh` reads it."""
        words = (self.name, self.place.device, self.axes["scheduler"], str(self.seed))
        return " ".join((*words, str(self.place.runtime_ms), *self.jobs))


def cell_of(
    number: int, case: Case, place: Place, scheduler: str, repeat: int, seed: int
) -> CaseCell:
    """A cell, whose jobs are in the words of `fair-load`."""
    axes = {
        "kernel": place.kernel,
        "device": place.device,
        "case": case.name,
        "scheduler": scheduler,
    }
    # The deadline of the machine counts requests: as many as a fast disk makes in the time.
    requests = place.runtime_ms * 10
    jobs = tuple(_job_in_words(job) for job in case.job)
    return CaseCell(number, axes, repeat, seed, jobs, requests, case, place)


def _job_in_words(job: CaseJob) -> str:
    life = "short" if job.is_short_lived else "lasting"
    words = (job.direction, job.processes, job.threads, job.iodepth, job.block_bytes, job.mode)
    return ",".join(map(str, (*words, job.prioclass, life)))


def carry_out(
    name: str, cells: Sequence[CaseCell], jobs: int, progress: Progress | None
) -> tuple[dict[int, Watched], list[str], bool]:
    """What was measured by the number of the cell, kernels, and whether it was stopped.

    Raises `NandlabError` when the machine cannot be used here or a run in it fails.
    """
    try:
        measured, kernels, is_stopped = measure_cells(cells, jobs, progress, LOAD)
    except (VmUnavailable, VmRunError, ModuleBuildError, MeasurementError) as error:
        advice = "; --set axes.where=simulated does without a kernel"
        unavailable = advice if isinstance(error, VmUnavailable) else ""
        raise NandlabError(f"{name}: {error}{unavailable}") from error
    return _watched(cells, measured), kernels, is_stopped


def _watched(cells: Sequence[CaseCell], measured: Mapping[int, Measurement]) -> dict[int, Watched]:
    found = {}
    for cell in cells:
        if (one := measured.get(cell.number)) is not None:
            blocks = [job.block_bytes for job in cell.case.job for _ in range(job.processes)]
            first = cell.case.job[0].processes
            found[cell.number] = watched_of(one, first, blocks, is_shared=cell.case.is_shared)
    return found
