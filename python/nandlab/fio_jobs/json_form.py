"""fio's JSON: its keys, their order, and its way to write numbers.

Source: what fio 3.33 prints with `--output-format=json` and `json+`.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from nandlab.fio_jobs.job_file import Given, Section
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
from nandlab.fio_jobs.options import BY_NAME
from nandlab.fio_jobs.settings import Settings, percentile_list
from nandlab.fio_jobs.steady import document_of

_BATCH_CLASSES = ("0", "4", "8", "16", "32", "64", ">=64")
"""Classes of requests submitted or taken at a time; a single one counts in `4`."""


def document(
    sections: Sequence[Section], reports: Sequence[Report], version: str, *, has_bins: bool
) -> dict[str, Any]:
    """The whole report. Times of day are those of the beginning of simulated time, 1970."""
    found: dict[str, Any] = {
        "fio version": version,
        "timestamp": 0,
        "timestamp_ms": 0,
        "time": "Thu Jan  1 00:00:00 1970",
    }
    inherited = sections[-1].inherited
    if inherited:
        found["global options"] = _options(inherited)
    totals = group_bandwidths(reports)
    found["jobs"] = [_job(report, totals, has_bins=has_bins) for report in reports]
    return found


def _options(given: Sequence[Given]) -> dict[str, str]:
    """Options as fio lists them: by their first name, without flags that have no value."""
    found: dict[str, str] = {}
    for one in given:
        if one.value is not None:
            name = BY_NAME[one.key].name
            found.pop(name, None)
            found[name] = one.value
    return found


def _job(
    report: Report, totals: Mapping[tuple[int, str], int], *, has_bins: bool
) -> dict[str, Any]:
    job = report.planned.settings
    found: dict[str, Any] = {
        "jobname": job.name,
        "groupid": report.planned.group,
        "error": 0,
        "eta": 0,
        "elapsed": -(-report.elapsed_ms // 1000),
    }
    # fio leaves the table out where a job has no option of its own.
    if job.section.own:
        found["job options"] = _options(job.section.own)
    for name, direction in report.directions.items():
        total = totals.get((report.planned.group, name), 0)
        found[name] = _direction(job, direction, total, has_bins=has_bins)
    sync = report.sync
    found["sync"] = {
        "total_ios": sync.count,
        "lat_ns": _latency(sync, _wanted(job) if sync.count else None, has_bins=has_bins),
    }
    ones = {"4": 100.0} if any(one.ios for one in report.directions.values()) else {}
    batches = {name: ones.get(name, 0.0) for name in _BATCH_CLASSES}
    depths = [*(str(one) for one in DEPTH_CLASSES[:-1]), f">={DEPTH_CLASSES[-1]}"]
    ms = [*(str(one) for one in MS_CLASSES), f">={MS_CLASSES[-1]}"]
    found |= {
        "job_runtime": report.runtime_ms,
        "usr_cpu": 0.0,
        "sys_cpu": 0.0,
        "ctx": 0,
        "majf": 0,
        "minf": 0,
        "iodepth_level": dict(zip(depths, report.depth_shares, strict=True)),
        "iodepth_submit": batches,
        "iodepth_complete": batches,
        "latency_ns": dict(zip(map(str, NS_CLASSES), report.ns_shares, strict=True)),
        "latency_us": dict(zip(map(str, NS_CLASSES), report.us_shares, strict=True)),
        "latency_ms": dict(zip(ms, report.ms_shares, strict=True)),
        "latency_depth": report.depth or job.count("iodepth", 1),
        # fio tells the target in ns and the window in us.
        "latency_target": job.latency.target_us * 1000 if job.latency else 0,
        "latency_percentile": job.latency.percentile if job.latency else 100.0,
        "latency_window": job.latency.window_us if job.latency else 0,
    }
    if report.steady is not None:
        found["steadystate"] = document_of(report.steady)
    return found


def _direction(
    job: Settings, direction: Direction, group_kib_per_s: int, *, has_bins: bool
) -> dict[str, Any]:
    latency, bandwidth, iops = direction.latency, direction.bandwidth, direction.iops
    wanted = _wanted(job) if latency.count else None
    # Submission takes no simulated time: slat is 0, and there is none where fio has none.
    slat = (
        Latency(count=latency.count, bins={0: latency.count}) if job.is_asynchronous else Latency()
    )
    has = {
        "slat": job.flag("slat_percentiles") and slat.count > 0,
        "clat": job.flag("clat_percentiles", otherwise=True),
        "lat": job.flag("lat_percentiles"),
    }
    return {
        "io_bytes": direction.bytes,
        "io_kbytes": direction.bytes >> 10,
        "bw_bytes": direction.bytes_per_s,
        "bw": direction.bytes_per_s >> 10,
        "iops": direction.ios_per_s,
        "runtime": direction.runtime_ms,
        "total_ios": direction.ios,
        "short_ios": 0,
        "drop_ios": 0,
        "slat_ns": _latency(slat, wanted if has["slat"] else None, has_bins=has_bins),
        "clat_ns": _latency(latency, wanted if has["clat"] else None, has_bins=has_bins),
        "lat_ns": _latency(latency, wanted if has["lat"] else None, has_bins=has_bins),
        "bw_min": int(bandwidth.low),
        "bw_max": int(bandwidth.high),
        "bw_agg": share_of_group(direction, group_kib_per_s),
        "bw_mean": float(bandwidth.mean),
        "bw_dev": bandwidth.deviation,
        "bw_samples": bandwidth.samples,
        "iops_min": int(iops.low),
        "iops_max": int(iops.high),
        "iops_mean": float(iops.mean),
        "iops_stddev": iops.deviation,
        "iops_samples": iops.samples,
    }


def _wanted(job: Settings) -> Sequence[float]:
    return percentile_list(job) or PERCENTILES


def _latency(latency: Latency, wanted: Sequence[float] | None, *, has_bins: bool) -> dict[str, Any]:
    found: dict[str, Any] = {
        "min": latency.min_ns,
        "max": latency.max_ns,
        "mean": float(latency.mean_ns),
        "stddev": latency.stddev_ns,
        "N": latency.count,
    }
    if wanted is not None:
        values = latency.percentiles(wanted)
        found["percentile"] = {
            f"{percent:.6f}": value for percent, value in zip(wanted, values, strict=True)
        }
        if has_bins:
            found["bins"] = {str(middle): count for middle, count in latency.bins.items()}
    return found


def text_of(value: Any, depth: int = 0) -> str:
    """JSON as fio writes it: two blanks a level, blanks around colons, six digits of a fraction."""
    indent, closing = "  " * (depth + 1), "  " * depth
    if isinstance(value, dict):
        if not value:
            return f"{{\n\n{closing}}}"
        parts = [
            f"{indent}{_string(key)} : {text_of(one, depth + 1)}" for key, one in value.items()
        ]
        return "{\n" + ",\n".join(parts) + f"\n{closing}}}"
    if isinstance(value, list):
        return (
            "[\n" + ",\n".join(indent + text_of(one, depth + 1) for one in value) + f"\n{closing}]"
        )
    if isinstance(value, float):
        return f"{value:.6f}"
    return _string(value) if isinstance(value, str) else str(value)


def _string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
