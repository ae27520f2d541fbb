"""Job files of fio on a simulated device."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from nandlab.api.answer import Answer
from nandlab.byte_sizes import natural_number
from nandlab.errors import NandlabError
from nandlab.suggest import unknown

if TYPE_CHECKING:
    from nandlab.fio_jobs.job_file import Section
    from nandlab.fio_jobs.jobs import Conditions, Plan
    from nandlab.fio_jobs.measured import Report

_MOST_REQUESTS = 2_000_000
"""Without --most-requests a group that makes more is refused: so many take 1 GB (measured)."""


_PERCENT_MAX = 1_000
"""Ten device writes, as the engine has it."""

_LOG_KEYS = ("write_lat_log", "write_bw_log", "write_iops_log", "write_iolog")


class FioReport(Answer):
    """What a job file measured: `answer` has the conditions and, under `fio`, fio's own JSON.

    The rows have the requests, rates and latencies of each job and direction.
    """

    @property
    def fio(self) -> dict[str, Any]:
        """The report as fio's JSON has it, with bins."""
        return dict(self.answer["fio"])

    @property
    def notes(self) -> tuple[str, ...]:
        """Options that were ignored, and limits that were met."""
        return tuple(self.answer["notes"])


def fio(
    job_file: str | Path,
    *,
    device: str | None = None,
    scheduler: str = "noop",
    board: str | None = None,
    precondition: str = "fill",
    seed: int = 1,
    most_requests: int | None = None,
    form: Literal["normal", "json", "json+"] = "normal",
    logs: str | Path | None = None,
    timeline: str | Path | None = None,
    parse_only: bool = False,
    showcmd: bool = False,
) -> FioReport:
    """Run a job file of fio on a simulated device; the text of the answer is fio's report.

    Raises `NandlabError` with file, line, key, reason and a suggestion for a key that does not
    exist or cannot be simulated, and `Interrupted` after Ctrl-C.

    Args:
        job_file: Job file of fio.
        device: Use this device (see `nandlab list devices`), or the device of this .toml file.
        scheduler: Use this scheduler (see `nandlab list schedulers`).
        board: Use this host (see `nandlab list boards`). Without it: emulated-pc, whose calls take
            no time, or odroid-xu if a job uses the page cache.
        precondition: Write this before the jobs: none, fill, random:PERCENT or steady (see
            docs/commands.md).
        seed: Set the seed of the preconditioning and of the jobs.
        most_requests: Stop each group of jobs after this many requests. Without it: refuse a group
            that makes more than 2,000,000.
        form: Write the report in this form of fio.
        logs: Write the logs that the job file asks for into this folder. Without it: write none.
        timeline: Write what requests, dies and processes did when into this file, which Perfetto
            opens.
        parse_only: Check the job file only.
        showcmd: Show the job file as a command line of fio.

    """
    from nandlab.fio_jobs import job_file as files
    from nandlab.fio_jobs.settings import settings_of

    natural_number("--seed", seed, least=0, bits=64)
    if most_requests is not None:
        natural_number("--most-requests", most_requests)
    # A file may name variables, as fio reads them: its own values are none of the run's.
    sections = files.read_job_file(job_file, os.environ)
    if showcmd:
        text = f"{files.showcmd(sections)}\n"
        return FioReport({"showcmd": text.strip(), "fio": {}, "notes": []}, (), text)
    jobs = [settings_of(section) for section in sections]
    notes = list(dict.fromkeys(note for job in jobs for note in job.notes))
    if parse_only:
        return FioReport({"jobs": [job.name for job in jobs], "fio": {}, "notes": notes})
    if device is None:
        raise NandlabError("--device is missing: name one of `nandlab list devices`")
    from nandlab.fio_jobs.jobs import plan

    # Without costs of the host a job that hits the page cache would take no time at all.
    usual = "emulated-pc" if all(job.mode == "direct" for job in jobs) else "odroid-xu"
    host = board or usual
    conditions = _conditions(device, scheduler, host, precondition, seed, most_requests)
    planned = plan(jobs, conditions)
    log_folder = None if logs is None else Path(logs)
    if log_folder is not None:
        from nandlab.outputs import check_folder, check_name

        check_name(log_folder)
        check_folder(log_folder)
    if most_requests is None:
        _refuse_large(planned)
    timeline_file = None if timeline is None else Path(timeline)
    if timeline_file is not None:
        from nandlab.outputs import check_file

        check_file(timeline_file)
    reports = _run(planned, str(job_file), timeline_file)
    try:
        notes += _cut_short(reports, is_asked=most_requests is not None)
    except NandlabError:
        # Without a report there is no timeline either: it would be taken for that of the whole job.
        if timeline_file is not None:
            timeline_file.unlink(missing_ok=True)
        raise
    text = _text(sections, planned, reports, form)
    found = _answer(sections, reports, conditions, notes, text)
    if log_folder is not None:
        from nandlab.fio_jobs.logs import write_logs

        _kept(found, log_folder, lambda folder: write_logs(reports, folder))
    elif any(key in job.options for job in jobs for key in _LOG_KEYS):
        found.answer["notes"].append("no log is written without --logs FOLDER")
    return found


def _conditions(
    device: str, scheduler: str, board: str, precondition: str, seed: int, most: int | None
) -> "Conditions":
    """Raises `NandlabError` for a device or a precondition that does not exist."""
    from nandlab import engine
    from nandlab.api.entries import entries
    from nandlab.fio_jobs.jobs import Conditions, capacity_bytes

    devices = [row["name"] for row in entries("devices")]
    # As `replay` takes it: a name that ends in .toml is a file.
    is_file = device.endswith(".toml")
    boards, schedulers = (
        [row["name"] for row in entries(kind)] for kind in ("boards", "schedulers")
    )
    for what, name, known in (
        ("device", device, [device] if is_file else devices),
        ("scheduler", scheduler, schedulers),
        ("board", board, boards),
    ):
        if name not in known:
            raise NandlabError(f"--{what}: {unknown(what, name, known)}")
    word, _, share = precondition.partition(":")
    is_share = word == "random" and share.isdecimal() and 1 <= int(share[:5]) <= _PERCENT_MAX
    if precondition not in ("none", "fill", "steady") and not is_share:
        raise NandlabError(
            f"--precondition: {precondition!r} must be none, fill, steady or random:PERCENT, such "
            "as random:100"
        )
    return Conditions(
        device=device,
        # The study lies in another folder.
        device_place=str(Path(device).resolve()) if is_file else device,
        device_bytes=capacity_bytes(engine.device_row(device)),
        scheduler=scheduler,
        board=board,
        precondition=precondition,
        seed=seed,
        most_requests=_MOST_REQUESTS if most is None else most,
    )


def _refuse_large(plan: "Plan") -> None:
    """Raises `NandlabError` for a job that only too many requests would end."""
    for planned in plan.jobs:
        job = planned.settings
        if planned.requests is None or planned.requests <= planned.cap or job.runtime_ns:
            continue
        wanted = planned.requests * job.processes
        raise job.fault_at(
            "loops" if "loops" in job.options else "size",
            f"job {job.name} makes {wanted:,} requests; a group makes {_MOST_REQUESTS:,} at most",
            "write less, or give --most-requests",
        )


def _run(plan: "Plan", shown: str, timeline: Path | None) -> "list[Report]":
    """The reports of all jobs."""
    import tempfile

    from nandlab import engine
    from nandlab.api.interrupted import Interrupted
    from nandlab.fio_jobs.measured import reports_of
    from nandlab.terminal.progress import progress_bar

    with tempfile.TemporaryDirectory(prefix="nandlab-fio-") as folder:
        place = Path(folder) / "study.toml"
        place.write_text(plan.study, encoding="utf-8")
        with progress_bar(shown) as progress:
            found = engine.run_study(
                place, [], None, quick=False, jobs=1, progress=progress, timeline=timeline
            )
    if found["interrupted"]:
        raise Interrupted(f"{shown}: interrupted")
    frames = found["frames"]
    return reports_of(plan.jobs, frames["requests"], frames["processes"])


def _cut_short(reports: "Sequence[Report]", *, is_asked: bool) -> list[str]:
    """Notes on jobs that were ended by the limit of requests.

    Raises `NandlabError` if the limit is not one that was asked for.
    """
    notes = []
    for report in reports:
        planned = report.planned
        wanted = planned.requests if planned.moved_bytes is None else None
        if wanted is not None and wanted <= planned.cap:
            continue
        if all(frame.height < planned.cap for frame in report.frames):
            continue
        job = planned.settings
        told = f"job {job.name}: ended after {planned.cap:,} requests of a process"
        if not is_asked:
            raise job.fault_at(
                "runtime" if planned.requests is None else "size",
                f"{told}: a group makes {_MOST_REQUESTS:,} at most",
                "write a shorter one, or give --most-requests",
            )
        notes.append(f"{told}, as --most-requests says")
    return list(dict.fromkeys(notes))


def _version() -> str:
    """What stands as fio's version: readers of fio's JSON look for `fio-3`."""
    from nandlab import __version__

    return f"fio-3.33-nandlab-{__version__}"


def _text(
    sections: "Sequence[Section]", plan: "Plan", reports: "Sequence[Report]", form: str
) -> str:
    """The report in one of fio's forms."""
    if form == "normal":
        from nandlab.fio_jobs.normal_form import normal_text

        return normal_text(plan.jobs, reports, _version())
    from nandlab.fio_jobs.json_form import document, text_of

    return f"{text_of(document(sections, reports, _version(), has_bins=form == 'json+'))}\n"


def _answer(
    sections: "Sequence[Section]",
    reports: "Sequence[Report]",
    conditions: "Conditions",
    notes: list[str],
    text: str,
) -> FioReport:
    from nandlab.fio_jobs.json_form import document

    told = {
        "device": conditions.device,
        "scheduler": conditions.scheduler,
        "board": conditions.board,
        "precondition": conditions.precondition,
        "seed": conditions.seed,
        "n": 1,
    }
    rows = [row for report in reports for row in _rows(report)]
    whole = document(sections, reports, _version(), has_bins=True)
    return FioReport({"conditions": told, "notes": notes, "fio": whole}, rows, text)


def _kept(found: FioReport, place: Path, write: Callable[[Path], None]) -> None:
    """Writes results, elsewhere if their place takes them no more; the report is never lost."""
    from nandlab.outputs import keep

    try:
        keep(place, write)
    except NandlabError as error:
        error.result = found
        raise


def _rows(report: "Report") -> list[Mapping[str, Any]]:
    return [
        {
            "job": report.planned.settings.name,
            "group": report.planned.group,
            "direction": name,
            "requests": one.ios,
            "iops": one.ios_per_s,
            "bytes_per_s": one.bytes_per_s,
            "mean_ns": one.latency.mean_ns,
            "max_ns": one.latency.max_ns,
        }
        for name, one in report.directions.items()
        if one.ios
    ]
