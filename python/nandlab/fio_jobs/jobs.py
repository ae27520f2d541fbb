"""From the jobs of a file to studies of kind `jobs`, one for each group that runs at a time."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nandlab.errors import NandlabError
from nandlab.fio_jobs.settings import Settings
from nandlab.fio_jobs.values import bytes_of, count_of

FIRST_PID = 1000
"""Number of the first process of a run: FIRST_PID of crates/lab/study/src/jobs/run.rs."""

_PAGE_BYTES = 4096
"""Parts of a region are whole pages of the host (`private_regions` of the engine)."""

_SECTOR_BYTES = 512
_SECONDS_MAX = 4_000_000_000
"""Simulated seconds whose requests are kept: all, for a run lasts at most a day."""


@dataclass(frozen=True)
class Conditions:
    """What the results depend on beside the job file."""

    device: str
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
    """A job, the group of its report, and how many requests each of its processes makes."""

    settings: Settings
    group: int
    requests: int | None
    """None if only the time ends it."""
    cap: int
    """Requests after which the engine ends each process all the same."""
    first_pid: int
    first_thread: int
    """Number of its first process among all of the file, from 1."""


@dataclass(frozen=True)
class Stage:
    """Jobs that run at the same time, and the text of their study."""

    jobs: tuple[Planned, ...]
    study: str


def capacity_bytes(device: Mapping[str, Any]) -> int:
    """Bytes of a device, from its row of `nandlab list devices`."""
    if "flash" in device:
        return int(device["flash"]["capacity_bytes"])
    disk = device["disk"]
    sectors = disk["cylinders"] * disk["heads"] * disk["sectors_per_track"]
    return int(sectors) * _SECTOR_BYTES


def plan(jobs: Sequence[Settings], conditions: Conditions) -> tuple[Stage, ...]:
    """The stages of a job file, in the order in which they run.

    Raises `NandlabError` with file, line and key for what the engine cannot carry out.
    """
    stages = []
    thread = 1
    group = -1
    for found in _stages(jobs):
        planned = []
        pid = FIRST_PID
        region = _region(found, conditions)
        for index, job in enumerate(found):
            # As `add_job` of fio counts: wait_for alone begins no group.
            begins = job.flag("new_group") or (index == 0 and job.flag("stonewall"))
            group += begins or group < 0
            requests = _requests(job, region)
            cap = max(conditions.most_requests // sum(one.processes for one in found), 1)
            planned.append(Planned(job, group, requests, cap, pid, thread))
            pid += job.processes
            thread += job.processes
        stages.append(Stage(tuple(planned), _study(planned, region, conditions)))
    return tuple(stages)


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


@dataclass(frozen=True)
class _Region:
    """Where the jobs of a stage work."""

    file_bytes: int
    """Bytes of each file."""
    part_bytes: int
    """The same in whole blocks and pages."""
    is_shared: bool
    is_device: bool

    def name(self) -> str:
        """The engine's word for it."""
        return "all" if self.is_device else "free"


def _region(jobs: Sequence[Settings], conditions: Conditions) -> _Region:
    """The files of a stage, which must be of one size, and of all processes or one each."""
    first = jobs[0]
    is_shared = _is_shared(jobs)
    sizes = [_file_bytes(job, conditions) for job in jobs]
    part = 0
    for job, size in zip(jobs, sizes, strict=True):
        if size != sizes[0]:
            reason = "jobs that run at a time need files of one size"
            raise job.fault_at("size", reason, "write one size, or stonewall")
        if size < job.block_bytes:
            raise job.fault_at("size", f"no block of {job.block_bytes} bytes fits", "write more")
        part = max(part, _blocks(job, size) * job.block_bytes)
    part = -(-part // _PAGE_BYTES) * _PAGE_BYTES
    is_device = is_shared and sizes[0] == conditions.device_bytes
    files = 1 if is_shared else sum(job.processes for job in jobs)
    if not is_device and part * files > conditions.device_bytes:
        reason = f"{files} x {sizes[0]} bytes do not fit on {conditions.device}"
        suggestion = f"its {conditions.device_bytes} bytes are the most; write less"
        raise first.fault_at("size", reason, suggestion)
    return _Region(sizes[0], part, is_shared, is_device)


def _is_shared(jobs: Sequence[Settings]) -> bool:
    """True if all processes work on one file, false if each has its own."""
    named = [job for job in jobs if job.files]
    for job in named:
        if ":" in job.files.replace("\\:", ""):
            raise job.fault_at("filename", "the engine has one file for a job", "name one file")
    names = {job.files for job in named}
    if len(names) == 1 and len(named) == len(jobs):
        return True
    if len(names) == len(named) and all(job.processes == 1 for job in named):
        return False
    reason = "jobs that run at a time share one file, or have one for each process"
    raise named[0].fault_at("filename", reason, "name one file, or take filename out")


def _blocks(job: Settings, size: int) -> int:
    """Requests that a pass over `size` bytes takes.

    Measured of fio 3.33: a sequential pass ends past the size, a random one before it.
    """
    whole, rest = divmod(size, job.block_bytes)
    return whole + (rest > 0 and not job.rw.startswith("rand"))


def _file_bytes(job: Settings, conditions: Conditions) -> int:
    """Bytes of a job's file: `size`, or the whole device."""
    is_device = job.files.startswith("/dev/")
    given = job.options.get("size") or job.options.get("filesize")
    if given is None:
        if is_device or job.flag("fill_device"):
            return conditions.device_bytes
        raise job.fault_at("size", "it is missing", "add size=1g, or name a filename in /dev")
    text = given.value or ""
    if text.endswith("%"):
        percent = count_of(given, text[:-1], least=1, most=100)
        if not is_device:
            raise given.fault("a share needs a file that is there", "write it in bytes")
        return conditions.device_bytes * percent // 100
    return bytes_of(given, text, job.kb_base)


def _requests(job: Settings, region: _Region) -> int | None:
    """Requests of each process: those of a pass, of `io_size` or of `number_ios`."""
    moved = region.file_bytes
    given = job.options.get("io_size")
    if given is not None:
        text = given.value or ""
        is_share = text.endswith("%")
        moved = (
            region.file_bytes * count_of(given, text[:-1], least=1) // 100
            if is_share
            else bytes_of(given, text, job.kb_base)
        )
    blocks = _blocks(job, moved)
    requests: int | None = max(blocks, 1) * max(job.count("loops", 1), 1)
    if job.is_time_based:
        requests = None
    limit = job.count("number_ios", 0)
    if limit:
        requests = limit if requests is None else min(limit, requests)
    return requests


def _study(jobs: Sequence[Planned], region: _Region, conditions: Conditions) -> str:
    """The study of a stage."""
    processes = sum(job.settings.processes for job in jobs)
    # The region `all` needs free bytes as well: one page, which is part of it.
    free = _PAGE_BYTES if region.is_device else region.part_bytes
    free *= 1 if region.is_shared else processes
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
        f"free_bytes = {free}",
        f"precondition = {_quoted(conditions.precondition)}",
        "[axes]",
        f"device = [{_quoted(conditions.device)}]",
        f"scheduler = [{_quoted(conditions.scheduler)}]",
        "[timeline]",
        f"seconds = {_SECONDS_MAX}",
        "axes = {}",
    ]
    for job in jobs:
        lines += _job_lines(job, region)
    return "\n".join(lines) + "\n"


def _job_lines(planned: Planned, region: _Region) -> list[str]:
    """The table [[job]] of a job."""
    job = planned.settings
    requests = planned.cap if planned.requests is None else min(planned.requests, planned.cap)
    lines = [
        "[[job]]",
        # Names of fio may hold what the engine would read as the name of an axis.
        f'name = "job-{planned.first_thread}"',
        f"processes = {job.processes}",
        f'rw = "{job.rw}"',
        f"rwmixread = {job.read_percent}",
        f'bs = "{job.block_bytes}"',
        f"iodepth = {job.iodepth}",
        f"requests = {requests}",
        f'mode = "{job.mode}"',
        f'region = "{region.name()}"',
        f"private = {str(not region.is_shared).lower()}",
        f'random_distribution = "{job.distribution}"',
    ]
    if job.runtime_ns:
        lines.append(f'runtime = "{max(job.runtime_ns // 1000, 1)}us"')
    if job.ramp_ns:
        lines.append(f'ramp_time = "{max(job.ramp_ns // 1000, 1)}us"')
    if job.thinktime_us:
        lines.append(f"thinktime_us = {job.thinktime_us}")
    if job.rate_iops is not None:
        lines.append(f"rate_iops = {job.rate_iops}")
    if job.rate_interval_us is not None:
        lines.append(f'rate_interval = "{job.rate_interval_us}us"')
    if job.is_poisson:
        lines.append('rate_process = "poisson"')
    if job.startdelay_ns:
        lines.append(f'startdelay = "{max(job.startdelay_ns // 1000, 1)}us"')
    if job.gap_bytes:
        lines.append(f"gap_bytes = {job.gap_bytes}")
    lines += [f"{name} = {number}" for name, number in job.priority.items()]
    if job.urgent is not None:
        reads, writes, own_class, level = job.urgent
        lines += [f"cmdprio_percentage = [{reads}, {writes}]", f"cmdprio_class = {own_class}"]
        lines.append(f"cmdprio = {level}")
    if job.is_each_write_synced:
        lines += ["fdatasync = 1", "latency_includes_sync = true"]
    elif job.fsync or job.fdatasync:
        key = "fsync" if job.fsync else "fdatasync"
        lines.append(f"{key} = {job.fsync or job.fdatasync}")
    return lines


def _quoted(text: str) -> str:
    if not text.isprintable():
        raise NandlabError(f"{text!r} is no name")
    return json.dumps(text, ensure_ascii=False)
