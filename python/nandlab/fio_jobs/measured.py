"""Results of a job file, process by process, and what fio's report says of them.

fio's definitions stand here: bins and percentiles (stat.c, `plat_val_to_idx`), windows of bandwidth
(500 ms), classes of latency and of depth. All times are simulated.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from nandlab.fio_jobs.jobs import Planned
from nandlab.fio_jobs.steady import Steady, steady_of

if TYPE_CHECKING:
    import polars

PERCENTILES = (
    *(1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0),
    *(99.0, 99.5, 99.9, 99.95, 99.99),
)
"""The percentiles that fio reports unless `percentile_list` names others."""

_BIN_BITS = 6
"""64 bins an octave (FIO_IO_U_PLAT_BITS)."""

WINDOW_MS = 500
"""A sample of bandwidth and IOPS is the mean of so long a time (`bwavgtime`)."""

NS_CLASSES = (2, 4, 10, 20, 50, 100, 250, 500, 750, 1000)
"""Upper ends of the classes of latency, in ns and in us; each is below its end."""

MS_CLASSES = (*NS_CLASSES, 2000)
DEPTH_CLASSES = (1, 2, 4, 8, 16, 32, 64)
"""Lower ends of the classes of depth."""


@dataclass(frozen=True)
class Latency:
    """Latencies: exact extremes, mean and deviation, and fio's histogram."""

    count: int = 0
    min_ns: int = 0
    max_ns: int = 0
    mean_ns: float = 0.0
    stddev_ns: float = 0.0
    bins: dict[int, int] = field(default_factory=dict)
    """Middle of a bin in ns to its count, in order; only bins that hold something."""

    def percentiles(self, wanted: Sequence[float]) -> list[int]:
        """The bin in which each percentile lies, by its middle in ns."""
        found = []
        reached = 0
        bins = iter(self.bins.items())
        middle = 0
        for percent in wanted:
            while reached < percent / 100 * self.count:
                middle, count = next(bins)
                reached += count
            found.append(middle)
        return found


@dataclass(frozen=True)
class Windows:
    """Samples of a rate, one a window."""

    low: float = 0.0
    high: float = 0.0
    mean: float = 0.0
    deviation: float = 0.0
    samples: int = 0


@dataclass(frozen=True)
class Direction:
    """What fio reports of the reads, writes or trims of a process or group."""

    ios: int = 0
    bytes: int = 0
    runtime_ms: int = 0
    latency: Latency = field(default_factory=Latency)
    bandwidth: Windows = field(default_factory=Windows)
    """KiB/s."""
    iops: Windows = field(default_factory=Windows)

    @property
    def bytes_per_s(self) -> int:
        """Bandwidth over the whole time."""
        return self.bytes * 1000 // self.runtime_ms if self.runtime_ms else 0

    @property
    def ios_per_s(self) -> float:
        """Requests a second over the whole time."""
        return self.ios * 1000 / self.runtime_ms if self.runtime_ms else 0.0


@dataclass(frozen=True)
class Report:
    """One entry of fio's report: a process, or a group of them."""

    planned: Planned
    entry: "tuple[tuple[Planned, int], ...]"
    """Job of each process, and its number in the job, from 0."""
    number: int
    """Number of its first process among all of the file, from 1."""
    depth: int | None
    """What the search for a depth found, if there was one."""
    directions: dict[str, Direction]
    sync: Latency
    runtime_ms: int
    """Sum over the processes."""
    elapsed_ms: int
    """Of the whole job file."""
    depth_shares: tuple[float, ...]
    """Percent of requests by `DEPTH_CLASSES`; above 100 with syncs, as in fio."""
    ns_shares: tuple[float, ...]
    us_shares: tuple[float, ...]
    ms_shares: tuple[float, ...]
    steady: Steady | None
    frames: "tuple[polars.DataFrame, ...]"
    """The requests of each process: `start_ns` and `end_ns` from when it began to count,
    `latency_ns`, `direction`, `offset_bytes` in its file, `bytes`."""

    @property
    def processes(self) -> int:
        """Number of processes that it reports."""
        return len(self.entry)

    def processes_of(self) -> "Iterator[tuple[Planned, int, polars.DataFrame]]":
        """Job, number in it, and requests of each process."""
        for (planned, index), frame in zip(self.entry, self.frames, strict=True):
            yield planned, index, frame


def middle_of_bin(latency_ns: int) -> int:
    """The latency that stands for the bin of this one."""
    if latency_ns < 2 << _BIN_BITS:
        return latency_ns
    # The bits below the seven highest are dropped; half of what they span is the middle.
    dropped = latency_ns.bit_length() - 1 - _BIN_BITS
    return (latency_ns >> dropped << dropped) + (1 << dropped >> 1)


def latency_of(values: "polars.Series") -> Latency:
    """Statistics of latencies in ns."""
    count = len(values)
    if count == 0:
        return Latency()
    counted = values.value_counts()
    bins: dict[int, int] = {}
    total = 0
    for value, times in zip(counted[counted.columns[0]], counted["count"], strict=True):
        middle = middle_of_bin(value)
        bins[middle] = bins.get(middle, 0) + times
        total += value * times
    # Sums of whole numbers: the same whatever the order of the values is.
    squares = sum(
        value * value * times
        for value, times in zip(counted[counted.columns[0]], counted["count"], strict=True)
    )
    spread = (squares * count - total * total) / (count * (count - 1)) if count > 1 else 0.0
    low, high = values.min(), values.max()
    assert isinstance(low, int)
    assert isinstance(high, int)
    return Latency(count, low, high, total / count, math.sqrt(spread), dict(sorted(bins.items())))


def windows_of(samples: Iterable[int]) -> Windows:
    """Statistics of the samples of one process."""
    found = list(samples)
    if not found:
        return Windows()
    count, total = len(found), sum(found)
    squares = sum(one * one for one in found)
    spread = (squares * count - total * total) / (count * (count - 1)) if count > 1 else 0.0
    return Windows(min(found), max(found), total / count, math.sqrt(spread), count)


def joined(windows: Sequence[Windows]) -> Windows:
    """Samples of processes that are reported together: rates add up, and samples are counted.

    The deviation is that of the sum of processes that vary independently. fio pools the same sums
    of squares over the number of all samples.
    """
    used = [one for one in windows if one.samples]
    if not used:
        return Windows()
    samples = sum(one.samples for one in used)
    squares = sum(one.deviation**2 * (one.samples - 1) for one in used)
    return Windows(
        sum(one.low for one in used),
        sum(one.high for one in used),
        sum(one.mean for one in used),
        math.sqrt(squares / (samples - 1)) if samples > 1 else 0.0,
        samples,
    )


def group_bandwidths(reports: Sequence[Report]) -> dict[tuple[int, str], int]:
    """KiB/s of each group and direction: all bytes over the longest time."""
    found: dict[tuple[int, str], list[Direction]] = {}
    for report in reports:
        for name, direction in report.directions.items():
            if direction.ios:
                found.setdefault((report.planned.group, name), []).append(direction)
    return {
        key: sum(one.bytes for one in parts) * 1000 // max(one.runtime_ms for one in parts) >> 10
        for key, parts in found.items()
    }


def share_of_group(direction: Direction, group_kib_per_s: int) -> float:
    """Percent of the bandwidth of the group, at most 100 as in fio."""
    mean = direction.bandwidth.mean
    return min(100.0 * mean / group_kib_per_s, 100.0) if group_kib_per_s else 0.0


def reports_of(
    jobs: Sequence[Planned], requests: "polars.DataFrame", processes: "polars.DataFrame"
) -> list[Report]:
    """The entries of a report: one for each process, or for each group with `group_reporting`.

    `requests` has columns `start_ns`, `pid`, `direction`, `latency_ns`, `offset_bytes`, `bytes`;
    `processes` has `pid`, `start_ns` (when counting began) and `exit_ns`.
    """
    by_group: dict[int, list[tuple[Planned, int]]] = {}
    entries: list[list[tuple[Planned, int]]] = []
    for job in jobs:
        for index in range(job.settings.processes):
            if not job.settings.flag("group_reporting"):
                entries.append([(job, index)])
            elif job.group in by_group:
                by_group[job.group].append((job, index))
            else:
                by_group[job.group] = [(job, index)]
                entries.append(by_group[job.group])
    # Twice a filter by number would be slow with thousands of processes.
    parts = requests.partition_by("pid", as_dict=True) if requests.height else {}
    columns = ("pid", "start_ns", "exit_ns", "steady_ns", "iodepth")
    lives = {pid: life for pid, *life in processes.select(columns).iter_rows()}
    # As fio tells it of each job: the time of the whole file so far (`get_jobs_eta`).
    elapsed_ms = max((exit_ns for _, exit_ns, *_ in lives.values()), default=0) // 1_000_000
    return [_report(entry, parts, requests, lives, elapsed_ms) for entry in entries]


def _report(
    entry: Sequence[tuple[Planned, int]],
    parts: "dict[tuple[object, ...], polars.DataFrame]",
    empty: "polars.DataFrame",
    lives: Mapping[int, Sequence[int]],
    elapsed_ms: int,
) -> Report:
    import polars as pl

    frames = []
    measured = []
    windows = []
    for planned, index in entry:
        pid = planned.first_pid + index
        start_ns, exit_ns, steady_ns, _ = lives[pid]
        # Times count from when the process began to count, after its delay and its ramp.
        frame = parts.get((pid,), empty.clear())
        part = planned.part
        offset = pl.col("offset_bytes") - part.file_begin_bytes
        # Files of processes lie side by side, and which is whose is drawn.
        offset = offset % part.own_bytes if part.own_bytes else offset
        frame = frame.with_columns(start_ns=pl.col("start_ns") - start_ns, offset_bytes=offset)
        frame = frame.with_columns(end_ns=pl.col("start_ns") + pl.col("latency_ns"))
        frames.append(frame)
        windows.append((max(steady_ns - start_ns, 0), exit_ns - start_ns))
        # A process that another one ended before it began has no time.
        measured.append(_process(planned, frame, max(exit_ns - start_ns, 0)))
    directions = {
        name: _together([one[name] for one, *_ in measured], frames, name)
        for name in ("read", "write", "trim")
    }
    syncs = latency_of(pl.concat([sync for _, sync, *_ in measured]))
    latencies = pl.concat([frame["latency_ns"] for frame in frames])
    first, index = entry[0]
    wanted = first.settings.steady
    return Report(
        planned=first,
        entry=tuple(entry),
        number=first.first_thread + index,
        # Where a job searches for its depth, this is what its first process found.
        depth=lives[first.first_pid + index][-1] if first.settings.latency else None,
        directions=directions,
        sync=syncs,
        runtime_ms=sum(runtime_ms for *_, runtime_ms in measured),
        elapsed_ms=elapsed_ms,
        depth_shares=_depths(frames, syncs.count),
        ns_shares=_shares(latencies, 1, 0, NS_CLASSES),
        us_shares=_shares(latencies, 1_000, 1_000, NS_CLASSES),
        ms_shares=_shares(latencies, 1_000_000, 1_000_000, MS_CLASSES, is_open=True),
        steady=None if wanted is None else steady_of(wanted, frames, *max(windows)),
        frames=tuple(frames),
    )


def _process(
    planned: Planned, frame: "polars.DataFrame", alive_ns: int
) -> "tuple[dict[str, Direction], polars.Series, int]":
    """Directions, latencies of syncs and time in ms of one process."""
    import polars as pl

    # Rounded up, so that a run of less than a millisecond has a rate.
    runtime_ms = -(-alive_ns // 1_000_000)
    times_ms = {"read": runtime_ms, "write": runtime_ms}
    job = planned.settings
    if job.verify is not None and not job.verify["verify_backlog"] and not job.is_read:
        times_ms = _phases_ms(frame)
    directions = {}
    for name, time_ms in times_ms.items():
        part = frame.filter(pl.col("direction") == name)
        directions[name] = _direction(part, time_ms, runtime_ms)
    directions["trim"] = Direction()
    return directions, _syncs(planned, frame), runtime_ms


def _phases_ms(frame: "polars.DataFrame") -> dict[str, int]:
    """Time of the passes that write, and of those that read again what was written.

    fio counts them apart: `do_io` and `do_verify` of its backend.c.
    """
    times_ns = {"read": 0, "write": 0}
    phase_end_ns = last_ns = 0
    direction = "write"
    ordered = frame.sort("start_ns", "end_ns")
    for one, end_ns in zip(ordered["direction"], ordered["end_ns"], strict=True):
        if one != direction:
            times_ns[direction] += last_ns - phase_end_ns
            phase_end_ns, direction = last_ns, one
        last_ns = max(last_ns, end_ns)
    times_ns[direction] += last_ns - phase_end_ns
    return {name: -(-time_ns // 1_000_000) for name, time_ns in times_ns.items()}


def _direction(part: "polars.DataFrame", time_ms: int, runtime_ms: int) -> Direction:
    import polars as pl

    if part.height == 0:
        return Direction()
    counts = [0] * (runtime_ms // WINDOW_MS)
    moved = [0] * len(counts)
    window = pl.col("end_ns") // (WINDOW_MS * 1_000_000)
    sums = part.group_by(window.alias("window")).agg(pl.len(), pl.col("bytes").sum())
    for number, count, size in sums.iter_rows():
        # A window that the process does not fill is no sample.
        if number < len(counts):
            counts[number], moved[number] = count, size
    per_s = 1000 // WINDOW_MS
    return Direction(
        ios=part.height,
        bytes=int(part["bytes"].sum()),
        runtime_ms=time_ms,
        bandwidth=windows_of(size * per_s // 1024 for size in moved),
        iops=windows_of(count * per_s for count in counts),
    )


def _together(
    parts: Sequence[Direction], frames: "Sequence[polars.DataFrame]", name: str
) -> Direction:
    import polars as pl

    latencies = [frame.filter(pl.col("direction") == name)["latency_ns"] for frame in frames]
    return Direction(
        ios=sum(one.ios for one in parts),
        bytes=sum(one.bytes for one in parts),
        runtime_ms=max(one.runtime_ms for one in parts),
        latency=latency_of(pl.concat(latencies)),
        bandwidth=joined([one.bandwidth for one in parts]),
        iops=joined([one.iops for one in parts]),
    )


def _syncs(planned: Planned, frame: "polars.DataFrame") -> "polars.Series":
    """How long each sync took: the time from the write before it to the request after it.

    A sync after the last request is left out, as fio makes none there.
    """
    import polars as pl

    job = planned.settings
    every = job.fsync or job.fdatasync
    # fio counts no fdatasync among its syncs, and one within a write is part of the write.
    if not job.fsync or job.is_each_write_synced or frame.height == 0:
        return pl.Series("latency_ns", [], pl.Int64)
    ordered = frame.sort("start_ns", "end_ns")
    is_write = pl.col("direction") == "write"
    gap = pl.col("start_ns").shift(-1) - pl.col("end_ns") - job.thinktime_us * 1000
    found = ordered.with_columns(written=is_write.cum_sum(), gap=gap).filter(
        is_write & (pl.col("written") % every == 0) & pl.col("gap").is_not_null()
    )
    return found["gap"].alias("latency_ns")


def _depths(frames: "Sequence[polars.DataFrame]", syncs: int) -> tuple[float, ...]:
    """Percent of requests by how many of their process were under way when they began."""
    import polars as pl

    counts = [0] * len(DEPTH_CLASSES)
    total = 0
    for frame in frames:
        if frame.height == 0:
            continue
        starts = frame["start_ns"].sort()
        ended = frame["end_ns"].sort().search_sorted(starts, side="right")
        depth = pl.int_range(1, frame.height + 1, eager=True).cast(pl.Int64) - ended.cast(pl.Int64)
        found = depth.value_counts()
        for value, count in zip(found[found.columns[0]], found["count"], strict=True):
            place = min(max(value, 1).bit_length() - 1, len(counts) - 1)
            counts[place] += count
        total += frame.height
    # fio counts a sync among the requests of depth 1, and divides by reads and writes.
    counts[0] += syncs
    # A share that is not 0 is shown as at least a tenth (`stat_calc_dist`).
    return tuple(max(count * 100 / total, 0.1) if count else 0.0 for count in counts)


def _shares(
    latencies: "polars.Series",
    unit_ns: int,
    least_ns: int,
    ends: Sequence[int],
    *,
    is_open: bool = False,
) -> tuple[float, ...]:
    """Percent of latencies by classes that end below `ends` units, from `least_ns` on."""
    ordered = latencies.sort()
    places = [least_ns, *(end * unit_ns for end in ends)]
    below = [int(ordered.search_sorted(place, side="left")) for place in places]
    counts = [after - before for before, after in pairwise(below)]
    if is_open:
        counts.append(len(ordered) - below[-1])
    total = max(len(ordered), 1)
    # A share that is not 0 is shown as at least a hundredth (`stat_calc_lat`).
    return tuple(max(count * 100 / total, 0.01) if count else 0.0 for count in counts)
