"""Where the files of a job file lie on the device."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from nandlab.fio_jobs.job_file import Given
from nandlab.fio_jobs.settings import Settings
from nandlab.fio_jobs.values import bytes_of, count_of

PAGE_BYTES = 4096
"""Parts of a region are whole pages of the host (`private_regions` of the engine)."""


@dataclass(frozen=True)
class Part:
    """What the processes of a job work on."""

    offset_bytes: int
    """From the begin of the engine's region, for the first process."""
    bytes: int
    """Of all processes together, or of each if they share it or have places of their own."""
    file_bytes: int
    """What a pass of one process moves."""
    step_bytes: int
    """From the place of one process to that of the next; 0 if the engine deals them out."""
    file_begin_bytes: int
    """Where the file of the first process begins on the device."""
    own_bytes: int
    """Bytes of the file of each process; 0 if they share one."""

    @property
    def is_shared(self) -> bool:
        """True if all processes work on one file."""
        return self.own_bytes == 0


@dataclass(frozen=True)
class Layout:
    """The files of all jobs."""

    parts: tuple[Part, ...]
    """One for each job."""
    bytes: int
    """Of all files."""
    is_device: bool

    @property
    def region(self) -> str:
        """The engine's word for where they are."""
        return "all" if self.is_device else "free"


def layout_of(stages: Sequence[Sequence[Settings]], device: str, device_bytes: int) -> Layout:
    """Files one after the other, or the device itself, for the jobs of each stage.

    Raises `NandlabError` with file, line and key for files that cannot be there.
    """
    jobs = [job for stage in stages for job in stage]
    devices = [_name(job) for job in jobs if _name(job).startswith("/dev/")]
    for stage in stages:
        # Devices that are used one after the other can be one; those of a time cannot.
        own = next((_name(job) for job in stage if _name(job)), "")
        for job in stage:
            if devices and not _name(job).startswith("/dev/"):
                reason = f"other jobs work on the device itself, {devices[0]}"
                raise job.fault_at("filename", reason, "name it here as well, or take it out there")
            if devices and _name(job) != own:
                raise job.fault_at("filename", "the simulation has one device", f"write {own}")
    sizes = [_size(job, jobs, device_bytes) for job in jobs]
    begins: dict[str, int] = {}
    lengths: dict[str, int] = {}
    for job, size in zip(jobs, sizes, strict=True):
        if _name(job):
            # Filling the device is filling what it has room for.
            end = _offset(job, device_bytes, job.processes - 1)
            end += min(size, device_bytes)
            lengths[_name(job)] = max(lengths.get(_name(job), 0), end)
    parts = []
    used = 0
    for job, size in zip(jobs, sizes, strict=True):
        if size < job.sizes.grid:
            raise job.fault_at("size", f"no block of {job.sizes.grid} bytes fits", "write more")
        name = _name(job)
        offset = _offset(job, device_bytes, 0)
        step = _offset(job, device_bytes, 1) - offset
        # The last process reaches as far as any: all files have its length.
        own_bytes = 0 if name else _pages(offset + step * (job.processes - 1) + size)
        if devices:
            begin = 0
        elif name:
            begin = begins.setdefault(name, used)
            used = max(used, begin + _pages(lengths[name]))
        else:
            begin = used
            used += own_bytes * job.processes
        end = begin + (offset + step * (job.processes - 1) + size if name else 0)
        if (devices and end > device_bytes) or used > device_bytes:
            key = "offset_increment" if step else "offset" if offset else "size"
            needs = max(end, used)
            reason = f"files of {needs} bytes do not fit on {device}"
            suggestion = f"its {device_bytes} bytes are the most; write less"
            raise job.fault_at(key, reason, suggestion)
        if name:
            part = Part(begin + offset, size, size, step, begin, 0)
        elif offset or step:
            # Each file is used from a place on: the processes are jobs of their own.
            step += own_bytes
            part = Part(begin + offset, size, size, step, begin, own_bytes)
        else:
            part = Part(begin, own_bytes * job.processes, size, 0, begin, own_bytes)
        parts.append(part)
    # Files are at the end of the device.
    region = 0 if devices else device_bytes - used
    placed = [replace(one, file_begin_bytes=region + one.file_begin_bytes) for one in parts]
    return Layout(tuple(placed), used, bool(devices))


def _name(job: Settings) -> str:
    """Name of the job's file; empty if each process has its own."""
    if ":" in job.files.replace("\\:", ""):
        raise job.fault_at("filename", "the engine has one file for a job", "name one file")
    return job.files


def _pages(size: int) -> int:
    return -(-size // PAGE_BYTES) * PAGE_BYTES


def _size(job: Settings, jobs: Sequence[Settings], device_bytes: int) -> int:
    """Bytes that a pass moves: `size`, that of the same file in another job, or the device's."""
    is_device = _name(job).startswith("/dev/")
    offset = _offset(job, device_bytes, 0)
    found = _given(job)
    if found is None and _name(job) and not is_device:
        # The file is there when this job begins: made by a job that tells its size.
        same = [other for other in jobs if _name(other) == _name(job)]
        found = next((given for other in same if (given := _given(other))), None)
    if found is None:
        same = [other for other in jobs if _name(job) and _name(other) == _name(job)]
        if is_device or any(other.flag("fill_device") for other in [job, *same]):
            return device_bytes - offset
        raise job.fault_at("size", "it is missing", "add size=1g, or name a filename in /dev")
    size, owner = found
    text = size.value or ""
    if not text.endswith("%"):
        return bytes_of(size, text, owner.kb_base)
    percent = count_of(size, text[:-1], least=1, most=100)
    if not is_device:
        raise size.fault("a share needs a file that is there", "write it in bytes")
    return device_bytes * percent // 100 - offset


def _given(job: Settings) -> tuple[Given, Settings] | None:
    given = job.options.get("size") or job.options.get("filesize")
    return None if given is None else (given, job)


def _offset(job: Settings, device_bytes: int, index: int) -> int:
    """Where the process with this index begins (`get_start_offset` of fio's filesetup.c)."""
    total = 0
    for key, times in (("offset", 1), ("offset_increment", index)):
        given = job.options.get(key)
        if given is None or times == 0:
            continue
        text = given.value or ""
        if text.endswith("%"):
            share = device_bytes * count_of(given, text[:-1], most=100) // 100
            # Up to the next block: a share is aligned, bytes are as they are.
            size = -(-share // job.sizes.least) * job.sizes.least
        else:
            size = bytes_of(given, text, job.kb_base)
        if size % 512:
            raise given.fault("it must be whole sectors of 512", f"write {key}=1m, for example")
        total += size * times
    return total
