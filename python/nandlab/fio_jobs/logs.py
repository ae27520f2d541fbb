"""fio's logs of latency, bandwidth and IOPS: `time, value, direction, bs, offset`."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nandlab.fio_jobs.measured import WINDOW_MS, Report
from nandlab.fio_jobs.settings import Settings

if TYPE_CHECKING:
    import polars

_DIRECTIONS = ("read", "write")
_MS = 1_000_000


def logs_of(reports: Sequence[Report]) -> Iterator[tuple[str, str]]:
    """Name and text of each log that the jobs ask for, one a process as with `per_job_logs=1`."""
    for report in reports:
        job = report.planned.settings
        for index, frame in enumerate(report.frames):
            number = report.number + index
            if (name := _name(job, "write_lat_log")) is not None:
                kinds = ("lat", "clat", "slat")
                lines = list(_latencies(job, frame))
                # Submission takes no simulated time, and psync has none that could be logged.
                zeros = (
                    [(time, 0, *rest) for time, _, *rest in lines] if job.is_asynchronous else []
                )
                for kind in kinds:
                    rows = zeros if kind == "slat" else lines
                    yield f"{name}_{kind}.{number}.log", _text(rows)
            if (name := _name(job, "write_bw_log")) is not None:
                yield f"{name}_bw.{number}.log", _text(_rates(job, frame, job.block_bytes / 1024))
            if (name := _name(job, "write_iops_log")) is not None:
                yield f"{name}_iops.{number}.log", _text(_rates(job, frame, 1))


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


def _ordered(job: Settings, frame: "polars.DataFrame") -> "list[tuple[int, int, int]]":
    """Requests by their ends: ns since counting began, latency in ns, number of the direction."""
    ordered = frame.sort("end_ns", "start_ns", "direction")
    return [
        (end_ns - job.ramp_ns - job.startdelay_ns, latency_ns, _DIRECTIONS.index(direction))
        for end_ns, latency_ns, direction in zip(
            ordered["end_ns"], ordered["latency_ns"], ordered["direction"], strict=True
        )
    ]


def _latencies(
    job: Settings, frame: "polars.DataFrame"
) -> Iterator[tuple[int, int, int, int, int]]:
    """A line a request, or one a window and direction with `log_avg_msec`."""
    window_ms = job.count("log_avg_msec", 0)
    requests = _ordered(job, frame)
    if not window_ms:
        for end_ns, latency_ns, direction in requests:
            yield end_ns // _MS, latency_ns, direction, job.block_bytes, 0
        return
    windows: dict[tuple[int, int], list[int]] = {}
    for end_ns, latency_ns, direction in requests:
        windows.setdefault((end_ns // (window_ms * _MS), direction), []).append(latency_ns)
    last = requests[-1][0] // (window_ms * _MS) if requests else 0
    for (window, direction), values in sorted(windows.items()):
        # fio writes a window when it is over, so that the last is missing.
        if window < last:
            value = max(values) if job.flag("log_max_value") else sum(values) // len(values)
            yield (window + 1) * window_ms, value, direction, 0, 0


def _rates(
    job: Settings, frame: "polars.DataFrame", of_request: float
) -> list[tuple[int, int, int, int, int]]:
    """A line a window and direction: `of_request` for each request, a second."""
    window_ms = job.count("log_avg_msec", 0) or WINDOW_MS
    counts: dict[tuple[int, int], int] = {}
    requests = _ordered(job, frame)
    for end_ns, _, direction in requests:
        key = (end_ns // (window_ms * _MS), direction)
        counts[key] = counts.get(key, 0) + 1
    last = requests[-1][0] // (window_ms * _MS) if requests else 0
    return [
        ((window + 1) * window_ms, int(count * of_request * 1000 / window_ms), direction, 0, 0)
        for (window, direction), count in sorted(counts.items())
        if window < last
    ]
