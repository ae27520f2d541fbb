"""Runs every candidate on the workload: the way from options to results."""

import shlex
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from nandlab.comparison.cards import cards_of
from nandlab.comparison.cuts import Cuts, cut_sample
from nandlab.comparison.request import (
    Candidates,
    WorkloadFile,
    find_part,
    names,
    on_block_device,
    read_workload,
)
from nandlab.comparison.study import study_of, write_study
from nandlab.engine import Progress
from nandlab.errors import NandlabError
from nandlab.outputs import keep, write_whole
from nandlab.results import StudyResult
from nandlab.results.run_directory import check_target
from nandlab.study_runs import RunRequest, result_of, write_run
from nandlab.study_runs import run as run_study
from nandlab.verdicts import judge
from nandlab.verdicts.model import Verdict


@dataclass(frozen=True)
class Asked:
    """The options as they were given."""

    file_systems: str | None = None
    layers: str | None = None
    schedulers: str | None = None
    workload: Path | None = None
    part: str = "k9f2g08u0c"
    blocks: int | None = None
    board: str | None = None
    crash: bool = False
    out: Path | None = None
    jobs: int | None = None

    @property
    def command(self) -> str:
        """The command line."""
        options = {
            "--fs": self.file_systems,
            "--ftl": self.layers,
            "--scheduler": self.schedulers,
            "--workload": self.workload,
            "--part": self.part,
            "--blocks": self.blocks,
            "--board": self.board,
        }
        given = ([key, str(value)] for key, value in options.items() if value is not None)
        words = ["nandlab", "compare", *(word for pair in given for word in pair)]
        return shlex.join([*words, "--crash"] if self.crash else words)


@dataclass(frozen=True)
class FinishedComparison:
    """What a comparison yields; `folder` is where it was written, if anywhere."""

    result: StudyResult
    verdict: Verdict
    folder: Path | None
    cuts: tuple[Cuts, ...] = ()


def run(asked: Asked, progress: Progress | None = None) -> FinishedComparison:
    """Checks all that was asked for, then runs it and writes the folder, if one is named."""
    candidates = _candidates(asked)
    if asked.workload is None:
        raise NandlabError(
            "--workload: name a workload file; workloads/compare has some to begin with"
        )
    workload = read_workload(asked.workload)
    if workload.kind not in candidates.kinds:
        takers = "--ftl" if candidates.file_systems else "--fs"
        raise NandlabError(
            f"{workload.shown}: kind {workload.kind} is for {takers}; this comparison takes "
            f"{' or '.join(candidates.kinds)}"
        )
    if asked.crash and workload.kind != "script":
        raise NandlabError(
            f"--crash: {workload.shown} is of kind {workload.kind}, and only scripts are cut"
        )
    for option, value in (("--jobs", asked.jobs), ("--blocks", asked.blocks)):
        if value is not None and not 1 <= value < 2**32:
            raise NandlabError(f"{option} {value}: must be at least 1")
    if asked.out is not None:
        check_target(asked.out)
    part = find_part(asked.part)
    study = study_of(candidates, workload, part, asked.blocks, asked.board)
    cards = cards_of(candidates.layers if candidates.file_systems else (), part, asked.blocks)
    if cards and workload.flash:
        raise NandlabError(
            f"{workload.shown}: [flash] is a history of the chip, and cards come as they are "
            "delivered: leave out [flash] or --ftl"
        )
    with tempfile.TemporaryDirectory(prefix="nandlab-compare-") as folder:
        path = write_study(study, cards, workload, Path(folder))
        try:
            return _run(asked, candidates, workload, part, path, progress)
        except NandlabError as error:
            raise NandlabError(_as_the_user_knows_it(str(error), path, workload)) from None


def _candidates(asked: Asked) -> Candidates:
    if asked.file_systems is None and asked.layers is None:
        raise NandlabError(
            "compare: name two runs, or candidates with --fs (or --ftl) and a --workload"
        )
    if asked.file_systems is None and asked.schedulers is not None:
        raise NandlabError(
            "--scheduler: translation layers alone are compared on block requests, without what is "
            "above them; name file systems with --fs, or leave out --scheduler"
        )
    candidates = Candidates(
        file_systems=_names("--fs", asked.file_systems, "file-systems", "file system"),
        layers=_names("--ftl", asked.layers, "ftls", "translation layer"),
        schedulers=_names("--scheduler", asked.schedulers, "schedulers", "scheduler"),
    )
    if candidates.file_systems and candidates.layers and not candidates.on_cards:
        raise NandlabError(
            f"--ftl: none of {', '.join(candidates.file_systems)} stands on a block device; a "
            f"translation layer goes under {' or '.join(sorted(on_block_device()))}"
        )
    return candidates


def _names(option: str, given: str | None, listing: str, what: str) -> tuple[str, ...]:
    return () if given is None else names(option, given, listing, what)


def _run(
    asked: Asked,
    candidates: Candidates,
    workload: WorkloadFile,
    part: str,
    path: Path,
    progress: Progress | None,
) -> FinishedComparison:
    request = RunRequest(
        study=str(path),
        path=str(path),
        out=asked.out or Path(),
        jobs=asked.jobs,
        as_given=asked.command,
    )
    cuts: tuple[Cuts, ...] = ()
    if asked.crash and workload.file is not None:
        cuts = cut_sample(candidates.file_systems, workload.file, part, workload.seed, progress)
    if asked.out is None:
        result = result_of(request, progress)
        folder = _kept(result, request.command) if result.interrupted else None
        return FinishedComparison(result, judge(result), folder, cuts)
    finished = run_study(request, progress)
    _keep_study(finished.folder, path)
    return FinishedComparison(finished.result, finished.verdict, finished.folder, cuts)


def _kept(result: StudyResult, command: str) -> Path | None:
    """A temporary folder with what finished before somebody asked to stop, if anything did."""
    if not result.rows.rows:
        return None
    out = Path(tempfile.mkdtemp(prefix="nandlab-results-")) / "compare"
    keep(out, partial(write_run, result, command))
    return out


def _keep_study(folder: Path, path: Path) -> None:
    """Study, cards and workload go into the folder, so that `nandlab run` can repeat it there."""
    for file in path.parent.iterdir():
        if file.is_file():
            write_whole(folder / file.name, file.read_bytes())


def _as_the_user_knows_it(message: str, path: Path, workload: WorkloadFile) -> str:
    """Names the workload file where the engine names the study that was made of it."""
    if workload.file is not None:
        message = message.replace(str(path.parent / workload.file.name), str(workload.file))
    return message.replace(str(path), workload.shown)
