"""Runs every candidate on the workload: the way from options to results."""

import shlex
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from nandlab import data
from nandlab.comparison.cards import cards_of
from nandlab.comparison.cuts import Cuts, cut_sample
from nandlab.comparison.request import (
    Candidates,
    Named,
    WorkloadFile,
    find_board,
    find_part,
    kernel_of,
    names,
    on_block_device,
    read_workload,
)
from nandlab.comparison.study import DEFAULT_BOARD, Host, study_of, write_study
from nandlab.engine import Progress, describe_study
from nandlab.errors import NandlabError
from nandlab.frame import RunFrame
from nandlab.frame.run_directory import check_target
from nandlab.outputs import keep, write_whole
from nandlab.present import Presented, present
from nandlab.study_runs import RunRequest, frame_of, write_run
from nandlab.study_runs import run as run_study


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
    kernel: str | None = None
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
            "--kernel": self.kernel,
        }
        given = ([key, str(value)] for key, value in options.items() if value is not None)
        words = ["nandlab", "compare", *(word for pair in given for word in pair)]
        return shlex.join([*words, "--crash"] if self.crash else words)


@dataclass(frozen=True)
class FinishedComparison:
    """What a comparison yields; `folder` is where it was written, if anywhere."""

    run: RunFrame
    shown: Presented
    folder: Path | None
    cuts: tuple[Cuts, ...] = ()


def run(asked: Asked, progress: Progress | None = None) -> FinishedComparison:
    """Checks all that was asked for, then runs it and writes the folder, if one is named."""
    candidates = _candidates(asked)
    if asked.workload is None:
        raise NandlabError(
            f"--workload: name a workload file; {data.folder('workloads')}/compare has examples"
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
    host = _host(asked, workload)
    study = study_of(candidates, workload, part, asked.blocks, host)
    cards = cards_of(candidates.layers if candidates.file_systems else (), part, asked.blocks)
    if cards and workload.flash:
        raise NandlabError(
            f"{workload.shown}: [flash] is a history of the chip, and cards come as they are "
            "delivered: leave out [flash] or --ftl"
        )
    with tempfile.TemporaryDirectory(prefix="nandlab-compare-") as folder:
        path = write_study(study, cards, workload, (part, host.board), Path(folder))
        try:
            return _run(asked, candidates, workload, path, progress)
        except NandlabError as error:
            message = _as_the_user_knows_it(str(error), path, workload, (part, host.board))
            raise NandlabError(message) from None


def _host(asked: Asked, workload: WorkloadFile) -> Host:
    """Board and kernel: of the options, else of the workload file, else the usual ones."""
    if asked.board is not None:
        board = find_board("--board", asked.board, Path())
    else:
        given = str(workload.host.get("board", DEFAULT_BOARD))
        board = find_board(f"{workload.shown}: board", given, Path(workload.shown).parent)
    kernel = asked.kernel or workload.host.get("kernel") or kernel_of(board)
    return Host(board, str(kernel))


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
    path: Path,
    progress: Progress | None,
) -> FinishedComparison:
    request = RunRequest(
        study=str(path),
        path=str(path),
        out=asked.out or Path(),
        jobs=asked.jobs,
        as_given=asked.command,
        # They are kept beside the study, which names them.
        keeps_inputs=False,
    )
    cuts: tuple[Cuts, ...] = ()
    if asked.crash and workload.file is not None:
        cuts = _cuts(candidates, workload, workload.file, path, progress)
    if asked.out is None:
        found = frame_of(request, progress)
        folder = _kept(found, request.command) if found.interrupted else None
        return FinishedComparison(found, present(found), folder, cuts)
    finished = run_study(request, progress)
    _keep_study(finished.folder, path)
    return FinishedComparison(finished.run, finished.shown, finished.folder, cuts)


def _cuts(
    candidates: Candidates,
    workload: WorkloadFile,
    script: Path,
    path: Path,
    progress: Progress | None,
) -> tuple[Cuts, ...]:
    """Cuts the power under the same kernel and on the same part as the comparison."""
    study = describe_study(path, [], None, quick=False)
    profiles = {str(stack["file_system"]): str(stack["profile"]) for stack in study["stacks"]}
    file_systems = {name: profiles[name] for name in candidates.file_systems}
    part = path.parent / str(study["part"])
    named = str(part) if part.is_file() else str(study["part"])
    return cut_sample(file_systems, script, named, workload.seed, progress)


def _kept(found: RunFrame, command: str) -> Path | None:
    """A temporary folder with what finished before somebody asked to stop, if anything did."""
    if found.frame.is_empty():
        return None
    out = Path(tempfile.mkdtemp(prefix="nandlab-results-")) / "compare"
    keep(out, partial(write_run, found, command))
    return out


def _keep_study(folder: Path, path: Path) -> None:
    """Study, cards and workload go into the folder, so that `nandlab run` can repeat it there."""
    for file in path.parent.iterdir():
        if file.is_file():
            write_whole(folder / file.name, file.read_bytes())


def _as_the_user_knows_it(
    message: str, path: Path, workload: WorkloadFile, own: Sequence[Named]
) -> str:
    """Names the user's files where the engine names the copies and the study made of them."""
    copies = {path.parent / named.name: named.file for named in own if named.file is not None}
    if workload.file is not None:
        copies[path.parent / workload.file.name] = workload.file
    for copy, file in copies.items():
        message = message.replace(str(copy), str(file))
    return message.replace(str(path), workload.shown)
