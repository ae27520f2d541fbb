"""fio's logs of latency, bandwidth and IOPS: `time, value, direction, bs, offset`."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nandlab.fio_jobs.measured import WINDOW_MS, Report
from nandlab.fio_jobs.settings import Settings

if TYPE_CHECKING:
    import polars

_DIRECTIONS = ("read", "write")
_MS = 1_000_000


def logs_of(reports: Sequence[Report]) -> Iterator[tuple[str, str]]:
    """Name and text of each log that the jobs ask for, one a process as with `per_job_logs=1`.

    Logs of requests with one name are one file, one process after the other, as fio appends them.
    """
    requests: dict[str, str] = {}
    for report in reports:
        for index, (planned, own, frame) in enumerate(report.processes_of()):
            job = planned.settings
            number = report.number + index
            if (name := _name(job, "write_lat_log")) is not None:
                lines = list(_latencies(job, frame))
                # Submission takes no simulated time, and psync has none that could be logged.
                zeros = (
                    [(time, 0, *rest) for time, _, *rest in lines] if job.is_asynchronous else []
                )
                for kind in ("lat", "clat", "slat"):
                    rows = zeros if kind == "slat" else lines
                    yield f"{name}_{kind}.{number}.log", _text(rows)
            if (name := _name(job, "write_bw_log")) is not None:
                yield f"{name}_bw.{number}.log", _text(_rates(job, frame, is_bytes=True))
            if (name := _name(job, "write_iops_log")) is not None:
                yield f"{name}_iops.{number}.log", _text(_rates(job, frame, is_bytes=False))
            if (name := _name(job, "write_iolog")) is not None:
                requests[name] = requests.get(name, "") + _requests(job, frame, own)
    yield from requests.items()


def write_logs(reports: Sequence[Report], folder: Path) -> None:
    """Writes the logs into a folder.

    Raises `OSError` if one cannot be written.
    """
    from nandlab.outputs import write_whole

    folder.mkdir(parents=True, exist_ok=True)
    for name, text in logs_of(reports):
        write_whole(folder / name, text.encode())


def _name(job: Settings, key: str) -> str | None:
    """The beginning of a log's name: the value of its key, or the name of the job.

    Of a path only the last part is taken: no job file writes outside the folder.
    """
    given = job.options.get(key)
    if given is None:
        return None
    return Path(given.value or job.name).name or job.name


def _text(rows: Iterable[Sequence[int]]) -> str:
    return "".join(f"{', '.join(str(one) for one in row)}\n" for row in rows)


@dataclass(frozen=True)
class _Line:
    """A request that is logged when it is done."""

    end_ns: int
    latency_ns: int
    direction: int
    bytes: int
    offset_bytes: int


def _ordered(frame: "polars.DataFrame") -> list[_Line]:
    """Requests by their ends."""
    ordered = frame.sort("end_ns", "start_ns", "direction", "offset_bytes")
    columns = ("end_ns", "latency_ns", "direction", "bytes", "offset_bytes")
    return [
        _Line(end_ns, latency_ns, _DIRECTIONS.index(direction), size, offset)
        for end_ns, latency_ns, direction, size, offset in ordered.select(columns).iter_rows()
    ]


def _latencies(
    job: Settings, frame: "polars.DataFrame"
) -> Iterator[tuple[int, int, int, int, int]]:
    """A line a request, or one a window and direction with `log_avg_msec`."""
    window_ms = job.count("log_avg_msec", 0)
    requests = _ordered(frame)
    if not window_ms:
        has_offset = job.flag("log_offset")
        for one in requests:
            offset = one.offset_bytes if has_offset else 0
            yield one.end_ns // _MS, one.latency_ns, one.direction, one.bytes, offset
        return
    windows: dict[tuple[int, int], list[int]] = {}
    for one in requests:
        key = (one.end_ns // (window_ms * _MS), one.direction)
        windows.setdefault(key, []).append(one.latency_ns)
    last = requests[-1].end_ns // (window_ms * _MS) if requests else 0
    for (window, direction), values in sorted(windows.items()):
        # fio writes a window when it is over, so that the last is missing.
        if window < last:
            value = max(values) if job.flag("log_max_value") else sum(values) // len(values)
            yield (window + 1) * window_ms, value, direction, 0, 0


def _rates(
    job: Settings, frame: "polars.DataFrame", *, is_bytes: bool
) -> list[tuple[int, int, int, int, int]]:
    """A line a window and direction: KiB a second, or requests a second."""
    window_ms = job.count("log_avg_msec", 0) or WINDOW_MS
    sums: dict[tuple[int, int], int] = {}
    requests = _ordered(frame)
    for one in requests:
        key = (one.end_ns // (window_ms * _MS), one.direction)
        sums[key] = sums.get(key, 0) + (one.bytes if is_bytes else 1)
    last = requests[-1].end_ns // (window_ms * _MS) if requests else 0
    unit = 1024 if is_bytes else 1
    return [
        ((window + 1) * window_ms, amount * 1000 // (window_ms * unit), direction, 0, 0)
        for (window, direction), amount in sorted(sums.items())
        if window < last
    ]


def _requests(job: Settings, frame: "polars.DataFrame", index: int) -> str:
    """The requests in the order in which they began: fio's log of version 3, with times in ms."""
    file = job.files or f"{job.name}.{index}.0"
    lines = ["fio version 3 iolog", f"0 {file} add", f"0 {file} open"]
    columns = ("start_ns", "direction", "offset_bytes", "bytes")
    last_ms = 0
    for start_ns, direction, offset, size in (
        frame.sort("start_ns", "end_ns", maintain_order=True).select(columns).iter_rows()
    ):
        last_ms = max(start_ns // _MS, 0)
        lines.append(f"{last_ms} {file} {direction} {offset} {size}")
    return "\n".join([*lines, f"{last_ms} {file} close", ""])
