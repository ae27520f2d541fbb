"""Runs every candidate on the workload: the way from options to results."""

import shlex
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from nandlab import data
from nandlab.comparison.beside import COUNTED, FOUND, NOTES, archived
from nandlab.comparison.cards import cards_of
from nandlab.comparison.cuts import Cuts, cut_sample
from nandlab.comparison.losses import MEASURED, found_losses
from nandlab.comparison.named import Named, find_boards, find_parts, kernel_of, with_kernel, words
from nandlab.comparison.operations import by_operations
from nandlab.comparison.own_policies import OwnPolicies
from nandlab.comparison.questions import POWER_CUTS, in_study, questions
from nandlab.comparison.request import (
    Candidates,
    WorkloadFile,
    mount_options,
    names,
    on_block_device,
    read_workload,
    with_cleaning,
)
from nandlab.comparison.study import DEFAULT_BOARD, WORKLOAD_COPY, Host, study_of, write_study
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
    cleaning: str | None = None
    workload: Path | None = None
    part: str = "k9f2g08u0c"
    blocks: int | None = None
    board: str | None = None
    kernel: str | None = None
    options: Sequence[str] = ()
    question: str | None = None
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
            "--cleaning": self.cleaning,
            "--workload": self.workload,
            "--part": self.part,
            "--blocks": self.blocks,
            "--board": self.board,
            "--kernel": self.kernel,
        }
        given = ([key, str(value)] for key, value in options.items() if value is not None)
        told = ["nandlab", "compare", *(word for pair in given for word in pair)]
        told += [word for options in self.options for word in ("--option", options)]
        told += [] if self.question is None else ["--question", self.question]
        return shlex.join([*told, "--crash"] if self.crash else told)


@dataclass(frozen=True)
class FinishedComparison:
    """What a comparison yields; `folder` is where it was written, if anywhere."""

    run: RunFrame
    shown: Presented
    folder: Path | None
    cuts: tuple[Cuts, ...] = ()


def run(asked: Asked, progress: Progress | None = None) -> FinishedComparison:
    """Checks all that was asked for, then runs it and writes the folder, if one is named."""
    policies = OwnPolicies()
    candidates = _candidates(asked, policies)
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
    parts = find_parts(asked.part)
    host = _host(asked, workload)
    question = in_study(questions(asked.question))
    study = study_of(candidates, workload, parts, asked.blocks, host, question)
    cards = cards_of(candidates.layers if candidates.file_systems else (), parts, asked.blocks)
    if cards and workload.flash:
        raise NandlabError(
            f"{workload.shown}: [flash] is a history of the chip, and cards come as they are "
            "delivered: leave out [flash] or --ftl"
        )
    own = (*parts, *host.boards, *policies.files)
    with tempfile.TemporaryDirectory(prefix="nandlab-compare-") as folder:
        path = write_study(study, cards, workload, own, Path(folder))
        try:
            return _run(asked, candidates, workload, own, path, progress)
        except NandlabError as error:
            message = _as_the_user_knows_it(str(error), path, workload, own)
            raise NandlabError(message) from None


def _host(asked: Asked, workload: WorkloadFile) -> Host:
    """Boards and kernels: of the options, else of the workload file, else the usual ones."""
    if asked.board is not None:
        boards = find_boards("--board", asked.board, Path())
    else:
        given = str(workload.host.get("board", DEFAULT_BOARD))
        boards = find_boards(f"{workload.shown}: board", given, Path(workload.shown).parent)
    kernels = [] if asked.kernel is None else words("--kernel", asked.kernel)
    if len(kernels) > 1:
        return Host(tuple(with_kernel(board, one) for board in boards for one in kernels), None)
    kernel = kernels[0] if kernels else workload.host.get("kernel")
    if kernel is None and len(boards) == 1:
        kernel = kernel_of(boards[0])
    return Host(boards, None if kernel is None else str(kernel))


def _candidates(asked: Asked, own: OwnPolicies) -> Candidates:
    if asked.file_systems is None and asked.layers is None:
        raise NandlabError(
            "compare: name two runs, or candidates with --fs (or --ftl) and a --workload"
        )
    if asked.file_systems is None and asked.schedulers is not None:
        raise NandlabError(
            "--scheduler: translation layers alone are compared on block requests, without what is "
            "above them; name file systems with --fs, or leave out --scheduler"
        )
    if asked.file_systems is None:
        of_hosts = {"--board": asked.board, "--kernel": asked.kernel, "--option": asked.options}
        for option in (option for option, value in of_hosts.items() if value):
            raise NandlabError(
                f"{option}: translation layers alone are compared on block requests, without a "
                f"host; name file systems with --fs, or leave out {option}"
            )
    file_systems = _names("--fs", asked.file_systems, "file-systems", "file system")
    candidates = Candidates(
        file_systems=file_systems,
        layers=_names("--ftl", asked.layers, "ftls", "translation layer", own),
        schedulers=_names("--scheduler", asked.schedulers, "schedulers", "scheduler", own),
        cleaning=_names("--cleaning", asked.cleaning, "policies", "cleaning policy", own),
        options=mount_options(asked.options, file_systems),
    )
    if candidates.file_systems and candidates.layers and not candidates.on_cards:
        raise NandlabError(
            f"--ftl: none of {', '.join(candidates.file_systems)} stands on a block device; a "
            f"translation layer goes under {' or '.join(sorted(on_block_device()))}"
        )
    if candidates.cleaning and (candidates.file_systems or not _has_choice(candidates)):
        raise NandlabError(
            f"--cleaning: name layers with a choice of it by --ftl ({', '.join(with_cleaning())}), "
            "and no file systems"
        )
    return candidates


def _has_choice(candidates: Candidates) -> bool:
    return any(layer in with_cleaning() for layer in candidates.layers)


def _names(
    option: str, given: str | None, listing: str, what: str, own: OwnPolicies | None = None
) -> tuple[str, ...]:
    return () if given is None else names(option, given, listing, what, own)


def _run(
    asked: Asked,
    candidates: Candidates,
    workload: WorkloadFile,
    own: Sequence[Named],
    path: Path,
    progress: Progress | None,
) -> FinishedComparison:
    cuts: tuple[Cuts, ...] = ()
    beside: dict[str, Any] = {"files": archived(path.parent, _kinds(workload, own, path))}
    if workload.file is not None and workload.kind == "script":
        if asked.crash:
            cuts = _cuts(candidates, workload, workload.file, path, progress)
        if asked.crash or any(one.word == POWER_CUTS for one in questions(asked.question)):
            beside |= _losses(workload, workload.file, path, progress)
    request = RunRequest(
        study=str(path),
        path=str(path),
        out=asked.out or Path(),
        jobs=asked.jobs,
        as_given=asked.command,
        # They are kept beside the study, which names them.
        keeps_inputs=False,
        beside=beside,
    )
    counted = by_operations(workload, progress)
    if asked.out is None:
        found = frame_of(request, counted)
        folder = _kept(found, request.command) if found.interrupted else None
        return FinishedComparison(found, present(found), folder, cuts)
    finished = run_study(request, counted)
    _keep_study(finished.folder, path)
    return FinishedComparison(finished.run, finished.shown, finished.folder, cuts)


def _kinds(workload: WorkloadFile, own: Sequence[Named], path: Path) -> dict[str, str]:
    """What each file beside the study is: files of the user's own, and what was made of them."""
    kinds = dict.fromkeys(_names_in(path.parent), "card")
    kinds |= {WORKLOAD_COPY: "workload", path.name: "study"}
    if workload.file is not None:
        kinds[workload.file.name] = workload.kind
    for named in own:
        if named.name in kinds:
            # Parts and boards have a name of their own; a policy keeps that of its file.
            is_policy = named.name.endswith(".py")
            kinds[named.name] = "policy" if is_policy else named.name.partition("-")[0]
    return dict(sorted(kinds.items()))


def _losses(
    workload: WorkloadFile,
    script: Path,
    path: Path,
    progress: Progress | None,
) -> dict[str, Any]:
    """Seconds that sampled cuts took, by file system and kernel, with default mount options."""
    study = describe_study(path, [], None, quick=False)
    part, board = (_beside(path, str(one)) for one in (study["part"], study["host"]["board"]))
    found: dict[str, dict[str, float]] = {}
    counted: dict[str, dict[str, int]] = {}
    notes: list[str] = []
    for stack in study["stacks"]:
        name, kernel = str(stack["file_system"]), str(stack["kernel"])
        if name not in MEASURED or kernel in found.get(name, {}):
            continue
        profile, seed = stack["profile"], workload.seed
        asked = {"fs": name, "profile": profile, "part": part, "board": board, "seed": seed}
        try:
            losses = found_losses(script, asked, progress)
        except NandlabError as error:
            notes.append(f"{name} of kernel {kernel}: cuts were not measured: {error}")
            continue
        if losses.note:
            # What cannot be read is no loss that could be told in seconds.
            notes.append(f"{name} of kernel {kernel}: cuts were not measured: {losses.note}")
            continue
        found.setdefault(name, {})[kernel] = losses.loss_s
        counted.setdefault(name, {})[kernel] = losses.cuts
    return {FOUND: found, COUNTED: counted, NOTES: notes}


def _beside(path: Path, name: str) -> str:
    """A file beside the study, or a name of a catalogue."""
    file = path.parent / name
    return str(file) if file.is_file() else name


def _cuts(
    candidates: Candidates,
    workload: WorkloadFile,
    script: Path,
    path: Path,
    progress: Progress | None,
) -> tuple[Cuts, ...]:
    """Cuts the power under the same kernels and on the first part of the comparison."""
    study = describe_study(path, [], None, quick=False)
    profiles = dict.fromkeys(
        (str(stack["file_system"]), str(stack["profile"])) for stack in study["stacks"]
    )
    return cut_sample(
        tuple(profiles), script, _beside(path, str(study["part"])), workload.seed, progress
    )


def _kept(found: RunFrame, command: str) -> Path | None:
    """A temporary folder with what finished before somebody asked to stop, if anything did."""
    if found.frame.is_empty():
        return None
    out = Path(tempfile.mkdtemp(prefix="nandlab-results-")) / "compare"
    keep(out, partial(write_run, found, command))
    return out


def _keep_study(folder: Path, path: Path) -> None:
    """Study, cards and workload go into the folder, so that `nandlab run` can repeat it there."""
    for name in _names_in(path.parent):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write_whole(folder / name, (path.parent / name).read_bytes())


def _names_in(folder: Path) -> list[str]:
    """All files of a folder, those in folders of it included."""
    return [file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file()]


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
