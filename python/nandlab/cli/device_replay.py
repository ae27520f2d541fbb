"""How a replay on a device looks on a terminal: conditions, latencies, and why they are long."""

from collections.abc import Mapping
from typing import Any

from nandlab.api.device_replay import DeviceReplay
from nandlab.present.units import estimate_text, number, percent, scale_of
from nandlab.terminal.output import counted, print_text
from nandlab.terminal.tables import Column, print_rows, text_column

_LEAST_SHARE = 0.005
"""Shares below half a percent are left out of the text; they stand in the JSON answer."""

_WORDS = {
    "request_limit": "the limit of requests",
    "plug": "the plug",
    "behind_reads": "reads in front",
    "behind_writes": "writes in front",
    "cleaning": "cleaning",
    "held_by_scheduler": "the scheduler",
    "device_queue": "the device's queue",
    "service": "its own service",
}


def print_device_replay(found: DeviceReplay) -> None:
    """Prints the whole answer."""
    answer = found.answer
    runs = answer["runs"]
    print_text(_conditions(answer))
    print_rows("", _LATENCIES, found.rows)
    print_rows("", _device_columns(runs), runs)
    bands = [
        {"ftl": run["ftl"] or "-", "scheduler": run["scheduler"], **band}
        for run in runs
        for band in run["bands"]
    ]
    if bands:
        print_rows("What requests waited for, by percentile of latency", _BANDS, bands)
    for run in runs:
        print_text(_balance(run, is_one=len(runs) == 1))
    if late := _late(runs):
        print_text(late)
    for note in dict.fromkeys(note for run in runs for note in run["notes"]):
        print_text(f"Note: {note}")


def _conditions(answer: Mapping[str, Any]) -> str:
    """Everything that the figures depend on, in a line."""
    device, conditions = answer["device"], answer["conditions"]
    pace = conditions["pace"]
    if "closed_loop" in pace:
        depth = pace["closed_loop"]["queue_depth"]
        how = f"closed loop, {counted(depth, 'request')} outstanding"
    else:
        speed = 1e6 / pace["open_loop"]["time_ppm"]
        how = "open loop at the times of the trace"
        how += "" if speed == 1 else f", {number(speed)} times as fast"
    told = [
        f"{answer['trace']['path']} on {device['name']}",
        how,
        _state(answer),
        f"nr_requests {conditions['nr_requests']}",
        f"seed {conditions['seed']}, n = 1",
    ]
    return "; ".join(told) + "."


def _state(answer: Mapping[str, Any]) -> str:
    """What the device held before the trace."""
    precondition = answer["conditions"]["precondition"]
    if precondition == "none":
        return "device erased before"
    if precondition == "fill":
        return "every page written once before"
    if precondition != "steady":
        share = precondition.removeprefix("random:")
        return f"every page written once and {share} % of them again at random before"
    found = {(run["ftl"] or "-"): run["steadiness"] for run in answer["runs"]}
    if not any(found.values()):
        return "steady: the device has no such state"
    told = [
        f"{f'{ftl} ' if len(found) > 1 else ''}"
        f"{'steady' if one['is_reached'] else 'steady state not reached'} after "
        f"{counted(one['device_writes'], 'random device write')}"
        for ftl, one in found.items()
        if one
    ]
    return "every page written once, then " + ", ".join(told)


def _time(heading: str, key: str) -> Column:
    """Times in units of their own: those of reads and of writes differ by orders of magnitude."""
    return Column(heading, key, lambda ns: estimate_text(ns, "ns"))


_LATENCIES = (
    text_column("layer", "ftl"),
    text_column("scheduler"),
    text_column("operation"),
    Column("requests", "requests"),
    Column("IOPS", "iops", number),
    _time("mean", "mean_ns"),
    _time("p50", "p50_ns"),
    _time("p90", "p90_ns"),
    _time("p99", "p99_ns"),
    _time("p99.9", "p999_ns"),
    _time("p99.99", "p9999_ns"),
    _time("max", "max_ns"),
)


def _device_columns(runs: Any) -> tuple[Column, ...]:
    rates = scale_of(
        [run[f"{kind}_bytes_per_s"] for run in runs for kind in ("read", "write")], "bytes/s"
    )

    def rate(kind: str) -> Column:
        form = lambda value: number(value / rates.size)  # noqa: E731
        return Column(f"{kind} ({rates.unit})", f"{kind}_bytes_per_s", form)

    return (
        text_column("layer", lambda run: run["ftl"] or "-"),
        text_column("scheduler"),
        _time("elapsed", "elapsed_ns"),
        rate("read"),
        rate("write"),
        Column("queue depth", "queue_depth_mean", number),
        Column("most", "queue_depth_max"),
        Column("WA", "write_amplification", number),
        Column("page programs", lambda run: run["chip_operations"][1]),
        Column("erases", lambda run: run["chip_operations"][2]),
        Column("erases of a block", _wear, str),
    )


def _wear(run: Mapping[str, Any]) -> str:
    """Fewest, mean and most erases of a block, those of the preconditioning included."""
    wear = run["wear"]
    if wear is None:
        return "-"
    return f"{wear['erases_min']} / {number(wear['erases_mean'])} / {wear['erases_max']}"


def _waited_for(band: Mapping[str, Any]) -> str:
    shares = sorted(band["shares"].items(), key=lambda item: -item[1])
    told = [f"{_WORDS[part]} {percent(share)}" for part, share in shares if share >= _LEAST_SHARE]
    return ", ".join(told)


_BANDS = (
    text_column("layer", "ftl"),
    text_column("scheduler"),
    text_column("operation"),
    text_column("percentiles", "band"),
    Column("requests", "requests"),
    _time("mean", "mean_ns"),
    text_column("waited for", _waited_for),
)


_LATE = 1.05
"""A replay that lasts a twentieth longer than its trace does not keep up with it."""


def _late(runs: Any) -> str:
    """A warning where latencies are those of a backlog that grows; empty where they are not."""
    late = [run for run in runs if run["elapsed_ns"] > _LATE * run["last_due_ns"] > 0]
    if not late:
        return ""
    due = estimate_text(late[0]["last_due_ns"], "ns")
    which = "" if len(runs) == 1 else f" ({counted(len(late), 'run')} of {len(runs)})"
    return (
        f"Note: the last request was due after {due}, and the device needed longer{which}. "
        "Latencies hold the backlog; --speed below 1 or --closed-loop takes it away."
    )


def _balance(run: Mapping[str, Any], *, is_one: bool) -> str:
    """How many requests went in, and how many came out."""
    where = "" if is_one else f"{run['ftl'] or '-'}, {run['scheduler']}: "
    sent, answered = run["requests_in"], run["requests_out"]
    told = [f"{where}{answered:,} of {counted(sent, 'request')} answered."]
    if "read_retries" in run:
        reads, retries = run["read_retries"]
        told.append(f"{counted(reads, 'read')} took {counted(retries, 'retry', 'retries')}.")
    slc = run.get("slc")
    if slc and slc["written_pages"]:
        told.append(
            f"The SLC cache took {counted(slc['written_pages'], 'page')}: {slc['folded_pages']:,} "
            f"folded, {slc['stale_pages']:,} written again or discarded before that, "
            f"{counted(slc['erases'], 'erase')}."
        )
    if "suspensions" in run:
        stopped = counted(run["suspensions"], "program or erase", "programs and erases")
        told.append(f"{stopped} stopped for a read.")
    if "bkops" in run:
        times = counted(run["bkops"], "time")
        told.append(f"The host started urgent background operations {times}.")
    return " ".join(told)
