"""fio's report for people: the lines, columns and units that fio 3.33 prints."""

from collections.abc import Iterator, Sequence

from nandlab.fio_jobs.jobs import FIRST_PID, Planned
from nandlab.fio_jobs.measured import (
    DEPTH_CLASSES,
    MS_CLASSES,
    NS_CLASSES,
    PERCENTILES,
    Direction,
    Latency,
    Report,
    group_bandwidths,
    share_of_group,
)
from nandlab.fio_jobs.settings import Settings, percentile_list
from nandlab.fio_jobs.steady import Steady

_NAMES = ("read", "write")
_CLASSES_A_LINE = 5
_LINE_COLUMNS = 73
"""Columns that a line of percentiles has after its head."""

_MIB_FROM_KIB = 1 << 20
"""From so many KiB/s on, samples of bandwidth are told in MiB/s."""

_BEGINNING = "Thu Jan  1 00:00:00 1970"
"""When simulated time begins."""

_NO_BATCH = "0=0.0%, 4=100.0%, 8=0.0%, 16=0.0%, 32=0.0%, 64=0.0%, >=64=0.0%"


def scaled(number: int, most_digits: int, *, base: int = 1000, unit: str = "") -> str:
    """A number in as many digits, with the smallest prefix that makes room for it."""
    prefixes = ("", "k", "M", "G", "T", "P") if base == 1000 else ("", "Ki", "Mi", "Gi", "Ti", "Pi")
    rest = None
    power = 0
    while len(str(number)) > most_digits and power < len(prefixes) - 1:
        number, rest = divmod(number, base)
        power += 1
    digits = len(str(number))
    if rest is None:
        text = str(number)
    elif digits >= most_digits - 1:
        # Half of a unit is rounded up, and there is no room for a fraction.
        text = str(number + (2 * rest >= base))
    else:
        # The fraction is rounded by itself, as fio does it: .85 is below its half as a float, and
        # 6300.85 is not.
        fraction = f"{rest / base:.{most_digits - digits - 1}f}"
        text = f"{number + int(fraction[0])}{fraction[1:]}"
    return f"{text}{prefixes[power]}{unit}"


def normal_text(jobs: Sequence[Planned], reports: Sequence[Report], version: str) -> str:
    """The whole report."""
    lines = [*_head(jobs), version]
    processes = sum(report.processes for report in reports)
    lines += [f"Starting {processes} process{'' if processes == 1 else 'es'}", ""]
    totals = group_bandwidths(reports)
    for report in reports:
        shares = {
            name: share_of_group(one, totals.get((report.planned.group, name), 0))
            for name, one in report.directions.items()
        }
        lines += _job(report, shares)
    for group in dict.fromkeys(report.planned.group for report in reports):
        lines += ["", f"Run status group {group} (all jobs):"]
        lines += _group([report for report in reports if report.planned.group == group])
    return "\n".join(lines) + "\n"


def _head(jobs: Sequence[Planned]) -> Iterator[str]:
    for planned in jobs:
        job = planned.settings
        ways = (job.sizes.reads, job.sizes.writes, job.sizes.writes)
        sizes = ", ".join(
            f"({letter}) {_bytes(way.least)}-{_bytes(way.most)}"
            for letter, way in zip("RWT", ways, strict=True)
        )
        depth = job.count("iodepth", 1)
        yield (
            f"{job.name}: (g={planned.group}): rw={job.rw}, bs={sizes}, "
            f"ioengine={job.engine}, iodepth={depth}"
        )
        if job.processes > 1:
            yield "..."


def _bytes(size: int) -> str:
    return scaled(size, 4, base=1024, unit="B")


def _job(report: Report, shares: dict[str, float]) -> Iterator[str]:
    planned = report.planned
    job = planned.settings
    yield (
        f"{job.name}: (groupid={planned.group}, jobs={report.processes}): err= 0: "
        f"pid={FIRST_PID + report.number - 1}: {_BEGINNING}"
    )
    if "description" in job.options:
        yield f"  Description  : [{job.options['description'].value}]"
    for name, one in report.directions.items():
        if one.ios:
            yield from direction_lines(name, one, job, shares[name])
    for unit, ends, values in (
        ("nsec", [str(one) for one in NS_CLASSES], report.ns_shares),
        ("usec", [str(one) for one in NS_CLASSES], report.us_shares),
        ("msec", [*map(str, MS_CLASSES), f">={MS_CLASSES[-1]}"], report.ms_shares),
    ):
        yield from _classes(unit, ends, values)
    if report.sync.count:
        yield "  fsync/fdatasync/sync_file_range:"
        yield _latency("  sync", report.sync)
        yield from _percentiles("sync", report.sync, job)
    depths = [*(str(one) for one in DEPTH_CLASSES[:-1]), f">={DEPTH_CLASSES[-1]}"]
    told = (f"{name}={one:.1f}%" for name, one in zip(depths, report.depth_shares, strict=True))
    counts = [one.ios for one in report.directions.values()]
    issued = ",".join(str(one) for one in (*counts, report.sync.count))
    batch = _NO_BATCH if any(counts) else _NO_BATCH.replace("100.0", "0.0")
    yield "  cpu          : usr=0.00%, sys=0.00%, ctx=0, majf=0, minf=0"
    yield f"  IO depths    : {', '.join(told)}"
    yield f"     submit    : {batch}"
    yield f"     complete  : {batch}"
    yield f"     issued rwts: total={issued} short=0,0,0,0 dropped=0,0,0,0"
    depth = report.depth or job.count("iodepth", 1)
    kept = job.latency
    target, window, percent = (
        (kept.target_us * 1000, kept.window_us, kept.percentile) if kept else (0, 0, 100.0)
    )
    yield (
        f"     latency   : target={target}, window={window}, percentile={percent:.2f}%, "
        f"depth={depth}"
    )
    if report.steady is not None:
        yield _steady(report.steady)


def direction_lines(name: str, one: Direction, job: Settings, share: float) -> Iterator[str]:
    """The lines of one direction; `share` is its percentage of the group's bandwidth."""
    rate, bytes_per_s = scaled(int(one.ios_per_s), 4), one.bytes_per_s
    moved = scaled(one.bytes, 4, base=1024, unit="B")
    yield (
        f"  {name}: IOPS={rate}, "
        f"BW={scaled(bytes_per_s, 4, base=1024, unit='B/s')} "
        f"({scaled(bytes_per_s, 4, unit='B/s')})({moved}/{one.runtime_ms}msec)"
        f"{'; 0 zone resets' if name == 'write' else ''}"
    )
    if job.is_asynchronous:
        yield _latency("  slat", Latency(count=one.ios))
    yield _latency("  clat", one.latency)
    yield _latency("   lat", one.latency)
    if job.flag("clat_percentiles", otherwise=True):
        yield from _percentiles("clat", one.latency, job)
    if job.flag("lat_percentiles"):
        yield from _percentiles("lat", one.latency, job)
    bandwidth, iops = one.bandwidth, one.iops
    if bandwidth.samples:
        is_large = bandwidth.mean > _MIB_FROM_KIB
        unit, size = ("MiB", 1024) if is_large else ("KiB", 1)
        yield (
            f"   bw ({unit:>5}/s): min={int(bandwidth.low) // size:5}, "
            f"max={int(bandwidth.high) // size:5}, per={share:.2f}%, "
            f"avg={bandwidth.mean / size:5.2f}, stdev={bandwidth.deviation / size:5.2f}, "
            f"samples={bandwidth.samples}"
        )
        yield (
            f"   iops        : min={int(iops.low):5}, max={int(iops.high):5}, "
            f"avg={iops.mean:5.2f}, stdev={iops.deviation:5.2f}, samples={iops.samples}"
        )


def _latency(name: str, one: Latency) -> str:
    """Extremes, mean and deviation, in the unit that fio chooses (`nsec_to_usec`)."""
    unit, size = "nsec", 1
    if one.min_ns > 2_000_000 and one.max_ns > 99_999_000 and one.stddev_ns > 1_000_000:
        unit, size = "msec", 1_000_000
    elif one.min_ns > 2_000 and one.max_ns > 99_999 and one.stddev_ns > 1_000:
        unit, size = "usec", 1_000
    low, high = scaled(one.min_ns // size, 6), scaled(one.max_ns // size, 6)
    mean, deviation = one.mean_ns / size, one.stddev_ns / size
    return f"  {name} ({unit}): min={low}, max={high}, avg={mean:5.2f}, stdev={deviation:5.2f}"


def _percentiles(name: str, one: Latency, job: Settings) -> Iterator[str]:
    """Percentiles in lines; larger units round up."""
    wanted = percentile_list(job) or PERCENTILES
    values = one.percentiles(wanted)
    unit, size = "nsec", 1
    if values[0] > 2_000_000 and values[-1] > 99_999_999:
        unit, size = "msec", 1_000_000
    elif values[0] > 2_000 and values[-1] > 99_999:
        unit, size = "usec", 1_000
    values = [-(-value // size) for value in values]
    yield f"    {name} percentiles ({unit}):"
    width = max(5, len(str(values[-1])))
    # A blank, 99.99th=[, the value, ] and a comma.
    per_line = max(_LINE_COLUMNS // (width + 12), 1)
    told = [
        f" {percent:5.2f}th=[{value:{width}}]"
        for percent, value in zip(wanted, values, strict=True)
    ]
    for first in range(0, len(told), per_line):
        is_last = first + per_line >= len(told)
        yield f"     |{','.join(told[first : first + per_line])}{'' if is_last else ','}"


def _steady(steady: Steady) -> str:
    """The last window of a job that ends when its rate is steady."""
    count = steady.wanted.window_s
    kib_per_s = sum(steady.bytes_per_s) // count >> 10
    binary = scaled(kib_per_s << 10, 4, base=1024, unit="B/s")
    decimal = scaled(kib_per_s << 10, 4, unit="B/s")
    kind, _, slope = steady.wanted.kind.partition("_")
    return (
        f"  steadystate  : attained={'yes' if steady.is_attained else 'no'}, bw={binary} "
        f"({decimal}), iops={scaled(sum(steady.iops) // count, 4)}, "
        f"{kind} {slope or 'mean dev'}={steady.criterion:.3f}{steady.wanted.sign}"
    )


def _classes(unit: str, ends: Sequence[str], shares: Sequence[float]) -> Iterator[str]:
    told = [f"{end}={share:.2f}%" for end, share in zip(ends, shares, strict=True) if share]
    for first in range(0, len(told), _CLASSES_A_LINE):
        yield f"  lat ({unit})   : {', '.join(told[first : first + _CLASSES_A_LINE])}"


def _group(reports: Sequence[Report]) -> Iterator[str]:
    for name in _NAMES:
        parts = [one for report in reports if (one := report.directions[name]).ios]
        if not parts:
            continue
        moved = sum(one.bytes for one in parts)
        times = [one.runtime_ms for one in parts]
        rates = [one.bytes_per_s for one in parts]
        total = moved * 1000 // max(times)

        def both(number: int, end: str = "B/s") -> tuple[str, str]:
            return scaled(number, 4, base=1024, unit=end), scaled(number, 4, unit=end)

        (low, low_si), (high, high_si) = both(min(rates)), both(max(rates))
        (rate, rate_si), (size, size_si) = both(total), both(moved, "B")
        yield (
            f"{name.upper():>7}: bw={rate} ({rate_si}), {low}-{high} ({low_si}-{high_si}), "
            f"io={size} ({size_si}), run={min(times)}-{max(times)}msec"
        )
