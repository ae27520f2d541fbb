"""From the jobs of a file to a study of kind `jobs`."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nandlab.errors import NandlabError
from nandlab.fio_jobs.layout import PAGE_BYTES, Layout, Part, layout_of
from nandlab.fio_jobs.settings import Settings
from nandlab.fio_jobs.sizes import priorities_by_size
from nandlab.fio_jobs.values import bytes_of, count_of

FIRST_PID = 1000
"""Number of the first process of a run: FIRST_PID of crates/lab/study/src/jobs/run.rs."""

_SECTOR_BYTES = 512
_SECONDS_MAX = 4_000_000_000
"""Simulated seconds whose requests are kept: all, for a run lasts at most a day."""


@dataclass(frozen=True)
class Conditions:
    """What the results depend on beside the job file."""

    device: str
    device_place: str
    """The device, or where its file lies."""
    device_bytes: int
    scheduler: str
    board: str
    precondition: str
    """What the device holds before the jobs, in the words of `host.precondition`."""
    seed: int
    most_requests: int
    """Requests that a group may make."""


@dataclass(frozen=True)
class Planned:
    """A job, the group of its report, and how much each of its processes does."""

    settings: Settings
    group: int
    is_stage: bool
    """It begins when all before it are done."""
    part: Part
    requests: int | None
    """Requests of a process, of a pass if it verifies; about as many if they have several sizes.

    None if only the time ends it."""
    moved_bytes: int | None
    """Bytes of a process, where requests have several sizes."""
    passes: int
    """Passes that are read again one by one."""
    cap: int
    """Requests after which the engine ends each process all the same."""
    first_pid: int
    first_thread: int
    """Number of its first process among all of the file, from 1."""


@dataclass(frozen=True)
class Plan:
    """The jobs of a file, and the text of their study."""

    jobs: tuple[Planned, ...]
    study: str


def capacity_bytes(device: Mapping[str, Any]) -> int:
    """Bytes of a device, from its row of `nandlab list devices`."""
    if "flash" in device:
        return int(device["flash"]["capacity_bytes"])
    disk = device["disk"]
    sectors = disk["cylinders"] * disk["heads"] * disk["sectors_per_track"]
    return int(sectors) * _SECTOR_BYTES


def plan(jobs: Sequence[Settings], conditions: Conditions) -> Plan:
    """What the engine shall do for a job file.

    Raises `NandlabError` with file, line and key for what the engine cannot carry out.
    """
    stages = _stages(jobs)
    layout = layout_of(stages, conditions.device, conditions.device_bytes)
    parts = iter(layout.parts)
    planned: list[Planned] = []
    thread = 1
    group = -1
    for found in stages:
        cap = max(conditions.most_requests // sum(one.processes for one in found), 1)
        for index, job in enumerate(found):
            # As `add_job` of fio counts: wait_for alone begins no group.
            begins = job.flag("new_group") or (index == 0 and job.flag("stonewall"))
            group += begins or group < 0
            part = next(parts)
            requests, moved_bytes, passes = _amount(job, part)
            planned.append(
                Planned(
                    settings=job,
                    group=group,
                    is_stage=index == 0 and bool(planned),
                    part=part,
                    requests=requests,
                    moved_bytes=moved_bytes,
                    passes=passes,
                    cap=max(cap // passes, 1),
                    first_pid=FIRST_PID + thread - 1,
                    first_thread=thread,
                )
            )
            thread += job.processes
    return Plan(tuple(planned), _study(planned, layout, conditions))


def _stages(jobs: Sequence[Settings]) -> list[list[Settings]]:
    """Jobs that run at the same time: a new stage begins at `stonewall` and at `wait_for`."""
    stages: list[list[Settings]] = []
    for job in jobs:
        waits_for = job.options.get("wait_for")
        if not stages or job.flag("stonewall"):
            stages.append([job])
        elif waits_for is not None:
            if {one.name for one in stages[-1]} != {waits_for.value}:
                reason = "it can be simulated only if this job, alone, runs just before"
                raise waits_for.fault(reason, "write stonewall instead")
            stages.append([job])
        elif "wait_for" in stages[-1][0].options:
            first = stages[-1][0]
            reason = f"job {job.name} would begin before this one, which cannot be simulated"
            raise first.options["wait_for"].fault(reason, "write stonewall instead")
        else:
            stages[-1].append(job)
    return stages


def _amount(job: Settings, part: Part) -> tuple[int | None, int | None, int]:
    """Requests and bytes of each process, and passes that are verified one by one."""
    given = job.options.get("io_size")
    moved = None
    if given is not None:
        text = given.value or ""
        is_share = text.endswith("%")
        moved = (
            part.file_bytes * count_of(given, text[:-1], least=1) // 100
            if is_share
            else bytes_of(given, text, job.kb_base)
        )
    loops = max(job.count("loops", 1), 1)
    # Passes of which each is read again cannot be one long pass.
    passes = loops if job.verify is not None else 1
    loops //= passes
    limit = job.count("number_ios", 0)
    if job.is_time_based:
        return limit or None, None, passes
    if job.sizes.is_one:
        requests = requests_of(job.sizes.least, part.file_bytes, moved, loops)
        return min(limit, requests) if limit else requests, None, passes
    moved = (moved or part.file_bytes) * loops
    requests = max(moved // job.sizes.mean, 1)
    return min(limit, requests) if limit else requests, moved, passes


def requests_of(block: int, file_bytes: int, moved: int | None, loops: int) -> int:
    """Requests of `block` bytes that fio makes for `size`, `io_size` (or none) and `loops`.

    Measured of fio 3.33: a pass ends before the end of the file. `io_size` ends with the request
    that reaches it, unless a pass ends less than a request before it (`keep_running`, backend.c).
    """
    of_pass = max(file_bytes // block, 1)
    if moved is None:
        return of_pass * loops
    requests = max(-(-moved * loops // block), 1)
    short = moved * loops % block
    is_new_pass = requests > 1 and (requests - 1) % of_pass == 0
    return requests - (short > 0 and is_new_pass)


def _study(jobs: Sequence[Planned], layout: Layout, conditions: Conditions) -> str:
    """The study of a job file."""
    lines = [
        'name = "fio"',
        'title = "A job file of fio"',
        'question = "How long do the requests of a job file take?"',
        f"seed = {conditions.seed}",
        "repeats = 1",
        'axis_order = ["device", "scheduler"]',
        "[workload]",
        'kind = "jobs"',
        "[host]",
        f"board = {_quoted(conditions.board)}",
        # The region `all` needs free bytes as well: one page, which is part of it.
        f"free_bytes = {PAGE_BYTES if layout.is_device else layout.bytes}",
        f"precondition = {_quoted(conditions.precondition)}",
        "[axes]",
        f"device = [{_quoted(conditions.device_place)}]",
        f"scheduler = [{_quoted(conditions.scheduler)}]",
        "[timeline]",
        f"seconds = {_SECONDS_MAX}",
        "places = true",
        "axes = {}",
    ]
    # A flag of one job is one of the whole file (`exitall_on_terminate` of fio's init.c).
    has_ends = any(job.settings.flag("exitall") for job in jobs)
    for job in jobs:
        step = job.part.step_bytes
        apart = job.settings.processes if step else 1
        for index in range(apart):
            # Processes at offsets of their own are jobs of their own to the engine.
            processes = 1 if step else job.settings.processes
            offset_bytes = job.part.offset_bytes + index * step
            is_stage = job.is_stage and index == 0
            lines += ["[[job]]", *_place_lines(job, layout, offset_bytes, processes, index)]
            lines += _job_lines(job, is_stage=is_stage, has_ends=has_ends)
    return "\n".join(lines) + "\n"


def _place_lines(
    planned: Planned, layout: Layout, offset_bytes: int, processes: int, index: int
) -> list[str]:
    """Name, processes and place of a job."""
    return [
        # Names of fio may hold what the engine would read as the name of an axis.
        f'name = "job-{planned.first_thread + index}"',
        f"processes = {processes}",
        f'region = "{layout.region}"',
        f"offset_bytes = {offset_bytes}",
        f"size_bytes = {planned.part.bytes}",
        f"private = {str(not planned.part.is_shared).lower()}",
    ]


def _job_lines(planned: Planned, *, is_stage: bool, has_ends: bool) -> list[str]:
    """What a job does."""
    job = planned.settings
    requests = planned.cap
    if planned.requests is not None and planned.moved_bytes is None:
        requests = min(planned.requests, planned.cap)
    limit = job.count("number_ios", 0)
    if limit and planned.moved_bytes is not None:
        requests = min(limit, planned.cap)
    lines = [
        f'rw = "{job.rw}"',
        f"rwmixread = {job.read_percent}",
        job.sizes.line,
        f"iodepth = {job.iodepth}",
        f"requests = {requests}",
        f'mode = "{job.mode}"',
        f'random_distribution = "{job.distribution}"',
        f"random_map = {str(job.has_map).lower()}",
        f"group = {planned.group}",
    ]
    words: list[tuple[str, object]] = [
        ("stonewall", "true" if is_stage else ""),
        ("io_size", f'"{planned.moved_bytes}"' if planned.moved_bytes else ""),
        ("loops", planned.passes if planned.passes > 1 else ""),
        ("blockalign", f'"{job.blockalign}"' if job.blockalign else ""),
        ("percentage_random", job.random_percent if job.random_percent < 100 else ""),
        ("exit_what", f'"{job.exit_what}"' if has_ends else ""),
        ("flow", job.flow or ""),
        ("flow_id", job.count("flow_id", 0) if job.flow else ""),
        ("flow_sleep_us", job.count("flow_sleep", 0) if job.flow else ""),
        ("runtime", _us(job.runtime_ns)),
        ("ramp_time", _us(job.ramp_ns)),
        ("startdelay", _us(job.startdelay_ns)),
        ("thinktime_us", job.thinktime_us or ""),
        ("rate_iops", "" if job.rate_iops is None else job.rate_iops),
        ("rate_interval", f'"{job.rate_interval}"' if job.rate_interval else ""),
        ("rate_process", '"poisson"' if job.is_poisson else ""),
        ("gap_bytes", job.gap_bytes or ""),
        *job.priority.items(),
        *((name, f'"{size}"') for name, size in job.strides.items()),
    ]
    if job.latency is not None:
        words += [
            ("latency_target", f'"{job.latency.target_us}us"'),
            ("latency_window", f'"{job.latency.window_us}us"'),
            ("latency_percentile", job.latency.percentile),
            ("latency_run", str(job.latency.goes_on).lower()),
        ]
    if job.steady is not None:
        words += job.steady.lines(is_of_group=job.flag("group_reporting"))
    if job.verify is not None:
        words += [("verify", "true"), *job.verify.items()]
    if job.urgent is not None:
        reads, writes, own_class, level = job.urgent
        words += [("cmdprio_percentage", f"[{reads}, {writes}]"), ("cmdprio_class", own_class)]
        words.append(("cmdprio", level))
    elif "cmdprio_bssplit" in job.options:
        split = priorities_by_size(job.options["cmdprio_bssplit"], job.kb_base)
        # IOPRIO_CLASS_RT where none is named (fio's HOWTO, cmdprio_class).
        words += [("cmdprio_bssplit", f'"{split}"'), ("cmdprio", job.count("cmdprio", 0))]
        words.append(("cmdprio_class", job.count("cmdprio_class", 1)))
    if job.is_each_write_synced:
        words += [("fdatasync", 1), ("latency_includes_sync", "true")]
    elif job.fsync or job.fdatasync:
        words.append(("fsync" if job.fsync else "fdatasync", job.fsync or job.fdatasync))
    return lines + [f"{name} = {word}" for name, word in words if word != ""]


def _us(time_ns: int) -> str:
    """A time in the engine's words; nothing for none."""
    return f'"{max(time_ns // 1000, 1)}us"' if time_ns else ""


def _quoted(text: str) -> str:
    if not text.isprintable():
        raise NandlabError(f"{text!r} is no name")
    return json.dumps(text, ensure_ascii=False)
