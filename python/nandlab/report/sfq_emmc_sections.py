"""The sections of the report on sfq-emmc."""

from collections.abc import Mapping, Sequence
from typing import Any

from nandlab.report import charts
from nandlab.report.distributions import ReadDistributions, distribution_figure
from nandlab.report.parts import DataTable, Figure, Section, numeric
from nandlab.results import StudyResult
from nandlab.verdicts.confidence import geometric_mean
from nandlab.verdicts.model import Verdict
from nandlab.verdicts.paired import interval_cell
from nandlab.verdicts.sfq_emmc import MECHANISMS, waits
from nandlab.verdicts.sfq_emmc_view import (
    ALL,
    CFQ,
    DISK,
    EMMC,
    FILLS,
    METRICS,
    SFQ,
    WAITS,
    Load,
    Pair,
    View,
)
from nandlab.verdicts.wording import duration, number, signed_percent

_PAIR_NAMES = {CFQ: "CFQ", SFQ: "SFQ"}
_SIZE = "request size (KiB)"
_FIRST_SECONDS = 5
_DISTRIBUTION_SIZES = ("4", "64", "1024")


def sections(
    result: StudyResult, verdict: Verdict, _: Sequence[Mapping[str, Any]]
) -> list[Section]:
    """All sections that these results can fill."""
    view = View(result)
    loads = view.loads()
    if not loads:
        return []
    first = loads[0]
    found = [
        _published(view, loads),
        _claims(),
        _mechanisms(view, loads),
        _waits(view, first),
        _timeline(view, result),
        _schedulers(view),
        _disk(view),
        _distributions(view, first),
        _fills(view, loads),
        Section("unexplained", "What could not be explained", items=verdict.unexplained),
    ]
    return [one for one in found if one.figures or one.tables or one.items or one.template]


def _published(view: View, loads: Sequence[Load]) -> Section:
    lines = []
    if view.published:
        shown = [signed_percent(view.published[metric]) for metric in METRICS]
        lines.append(["published", *shown])
    for load in loads:
        typical = [interval_cell(view.change(metric, Pair(load=load))) for metric in METRICS]
        pooled = [interval_cell(view.pooled_change(metric, Pair(load=load))) for metric in METRICS]
        lines += [[load.label, *typical], [f"{load.label}, sizes together", *pooled]]
    first = loads[0]
    points = [
        {"size": size, "latency": name, "change": 100 * found.value}
        for metric, name in METRICS.items()
        for size in view.sizes(Pair(load=first))
        if (found := view.change_at(metric, Pair(load=first), size)) is not None
    ]
    by_size = [
        [load.label, METRICS[metric]]
        + [
            interval_cell(view.change_at(metric, Pair(load=load), size))
            for size in view.sizes(Pair())
        ]
        for load in loads
        for metric in METRICS
    ]
    return Section(
        "published",
        "Published and simulated",
        paragraphs=(
            "Change of SFQ against CFQ of Linux 3.4, with the 95 % interval over the repeats. The "
            "first line of each load is the geometric mean over the request sizes; the second "
            "throws the requests of all sizes together, so that the largest decide.",
        ),
        tables=(
            DataTable("SFQ against CFQ", ("load", *METRICS.values()), lines, numeric(1, 4)),
            DataTable(
                "By request size",
                ("load", "latency", *(f"{size} KiB" for size in view.sizes(Pair()))),
                by_size,
                numeric(2, 6),
            ),
        ),
        figures=(
            Figure(
                "change-by-size",
                "Change of SFQ against CFQ by request size",
                f"{first.label.capitalize()}. Below zero, SFQ is faster.",
                charts.grouped_bars(
                    points,
                    x="size",
                    y="change",
                    series="latency",
                    order=view.sizes(Pair(load=first)),
                    x_title=_SIZE,
                    y_title="change (%)",
                    about="Bars of the change of four latencies by request size",
                ),
                is_main=True,
            ),
        ),
    )


def _claims() -> Section:
    return Section(
        "claims",
        "Claims of the publication",
        paragraphs=(
            "Each claim under each load. A latency counts as shorter if the whole interval is "
            "below zero. The small numbers say at how many of the single request sizes it holds.",
        ),
        template="claims.html.j2",
    )


def _mechanisms(view: View, loads: Sequence[Load]) -> Section:
    lines = []
    for load in loads:
        for mechanism in (ALL, *view.mechanisms()):
            pair = Pair(load=load, mechanism=mechanism)
            if not view.sizes(pair):
                continue
            line = [load.label, f"without {MECHANISMS.get(mechanism, mechanism)}"]
            if mechanism == ALL:
                line[1] = "everything on"
            line += [interval_cell(view.change(metric, pair)) for metric in METRICS]
            for name in (CFQ, SFQ):
                line.append(_typical(view, name, "read_latency_max_ns", load, mechanism))
            lines.append(line)
    measured = {line[0] for line in lines if line[1] != "everything on"}
    lines = [line for line in lines if line[0] in measured]
    return Section(
        "mechanisms",
        "What makes the difference",
        paragraphs=(
            "The same runs with one mechanism switched off at a time: the time that cleaning "
            "takes (the same blocks are cleaned, at once), the idling of the scheduler, the write "
            "cache of the card, and the second command that the driver holds ready. A mechanism "
            "makes the difference if the change goes towards zero without it.",
        ),
        tables=(
            DataTable(
                "SFQ against CFQ with one mechanism off",
                (
                    "load",
                    "mechanism",
                    *METRICS.values(),
                    "CFQ longest read",
                    "SFQ longest read",
                ),
                lines,
                numeric(2, 6),
            ),
        )
        if lines
        else (),
    )


def _typical(view: View, scheduler: str, metric: str, load: Load, mechanism: str = ALL) -> str:
    """Geometric mean over sizes of the mean over repeats, as a time."""
    found = _over_sizes(view, scheduler, metric, load, mechanism)
    return duration(found) if found is not None else "-"


def _over_sizes(
    view: View,
    scheduler: str,
    metric: str,
    load: Load,
    mechanism: str = ALL,
    device: str = EMMC,
) -> float | None:
    sizes = view.runs.axis_values(
        "request_kib",
        device=device,
        mechanism=mechanism,
        thinktime_ms=load.thinktime_ms,
        writers=load.writers,
        scheduler=scheduler,
    )
    found = [
        view.runs.mean(metric, view.place(scheduler, size, load, mechanism, device))
        for size in sizes
    ]
    known = [one for one in found if one is not None and one > 0]
    return geometric_mean(known) if known else None


def _waits(view: View, load: Load) -> Section:
    sizes = view.sizes(Pair(load=load))
    points, lines = [], []
    for scheduler, name in _PAIR_NAMES.items():
        for size in sizes:
            found = waits(view, scheduler, size, load)
            if found is None:
                continue
            total = sum(found.mean.values()) or 1.0
            points += [
                {
                    "cell": f"{size} {name}",
                    "behind": f"behind {WAITS[what]}",
                    "share": 100 * ns / total,
                }
                for what, ns in found.mean.items()
            ]
            lines.append(
                [
                    name,
                    size,
                    *(duration(found.mean[what]) for what in WAITS),
                    duration(found.longest_ns),
                    number(found.overtaken),
                    *(duration(found.longest[what]) for what in WAITS),
                ]
            )
    order = [f"{size} {name}" for size in sizes for name in _PAIR_NAMES.values()]
    return Section(
        "waits",
        "What a read waits behind",
        paragraphs=(
            f"{load.label.capitalize()}. From its arrival at the scheduler to its execution, a "
            "read waits while the card reads or writes for others, while it cleans, or while "
            "the scheduler idles although requests are queued. A request is overtaken by those "
            "that come later and go to the card earlier.",
        ),
        tables=(
            DataTable(
                "The mean read, and the longest read of all repeats",
                (
                    "scheduler",
                    "KiB",
                    *(f"mean: behind {what}" for what in WAITS),
                    "longest",
                    "overtaken by",
                    *(f"longest: behind {what}" for what in WAITS),
                ),
                lines,
                numeric(1, 11),
            ),
        ),
        figures=(
            Figure(
                "waits",
                "Where the waiting time of reads goes",
                "Shares of the mean wait by request size (KiB) and scheduler.",
                charts.stacked_bars(
                    points,
                    x="cell",
                    y="share",
                    series="behind",
                    order=order,
                    y_title="share of the mean wait (%)",
                    about="Stacked shares of what reads wait behind",
                ),
                is_main=True,
            ),
        )
        if points
        else (),
    )


def _timeline(view: View, result: StudyResult) -> Section:
    figures = []
    for scheduler, name in _PAIR_NAMES.items():
        requests = [
            row
            for row in view.runs.table("requests", scheduler=scheduler)
            if row["direction"] == "read" and int(row["start_ns"]) < _FIRST_SECONDS * 1e9
        ]
        if not requests:
            continue
        points = [
            {
                "at": int(row["start_ns"]) / 1e9,
                "latency": max(int(row["latency_ns"]), 1000) / 1e6,
            }
            for row in requests
        ]
        cleaning = [
            {
                "from": int(row["start_ns"]) / 1e9,
                "to": min(int(row["end_ns"]) / 1e9, _FIRST_SECONDS),
                "die": f"die {row['die']}",
                "kind": row["kind"],
            }
            for row in view.runs.table("activity", scheduler=scheduler)
            if row["kind"].endswith("cleaning")
        ]
        figures.append(
            Figure(
                f"timeline-{scheduler}",
                f"Latency of reads above cleaning, {name}",
                "Each point is a read, at the time it was asked for; each bar below is a die that "
                "cleans.",
                charts.points_above_intervals(
                    points,
                    cleaning,
                    x="at",
                    y="latency",
                    x_title="simulated time (s)",
                    y_title="latency (ms)",
                    about=f"Read latency over time and cleaning intervals under {name}",
                ),
                is_main=True,
            )
        )
    size = next((row["request_kib"] for row in view.runs.table("requests")), "-")
    return Section(
        "timeline",
        "Cleaning and the latency of reads over time",
        paragraphs=(
            f"The first {_FIRST_SECONDS} seconds of the first repeat at {size} KiB, direct "
            "writers without a pause. When a die cleans, the reads that need it wait; what a "
            "scheduler does with the others in the meantime makes the difference.",
        ),
        figures=figures,
    )


def _schedulers(view: View) -> Section:
    figures: list[Figure] = []
    tables: list[DataTable] = []
    for writers in view.runs.axis_values("writers", device=EMMC, mechanism=ALL):
        load = Load(writers)
        names = [one for one in view.schedulers() if _over_sizes(view, one, _MEAN, load)]
        if len(names) < 2:
            continue
        lines = [
            [
                name,
                *(_typical(view, name, metric, load) for metric in _TABLE_METRICS),
                number(_over_sizes(view, name, "jain_index", load)),
                f"{number((_over_sizes(view, name, _RATE, load) or 0) / 1e6)} MB/s",
            ]
            for name in names
        ]
        tables.append(
            DataTable(
                f"All schedulers, {load.label}",
                ("scheduler", *_TABLE_METRICS.values(), "Jain's index", "throughput"),
                lines,
                numeric(1, 10),
            )
        )
        if not figures:
            points = [
                {
                    "scheduler": name,
                    "latency": title,
                    "ms": (_over_sizes(view, name, metric, load) or 0) / 1e6,
                }
                for name in names
                for metric, title in _TABLE_METRICS.items()
                if metric.endswith(("mean_ns", "max_ns"))
            ]
            figures.append(
                Figure(
                    "schedulers",
                    "Mean and longest latency of every scheduler",
                    f"{load.label.capitalize()}, geometric mean over the request sizes. "
                    "Logarithmic.",
                    charts.dots(
                        points,
                        x="ms",
                        y="scheduler",
                        series="latency",
                        order=names,
                        x_title="latency (ms)",
                        about="Dots of mean and longest latency by scheduler",
                    ),
                    is_main=True,
                )
            )
    return Section("schedulers", "Every scheduler", figures=figures, tables=tables)


_MEAN = "read_latency_mean_ns"
_LONGEST = "read_latency_max_ns"
_RATE = "throughput_bytes_per_s"
_TABLE_METRICS = {
    _MEAN: "mean read",
    "read_latency_p99_ns": "p99 read",
    _LONGEST: "longest read",
    "write_latency_mean_ns": "mean write",
    "write_latency_p99_ns": "p99 write",
    "write_latency_max_ns": "longest write",
}


def _disk(view: View) -> Section:
    load = Load()
    sizes = view.runs.axis_values("request_kib", device=DISK)
    names = view.schedulers(DISK)
    points = []
    lines: list[list[str]] = [[name] for name in names]
    for title, device in _MEDIA:
        for line, name in zip(lines, names, strict=True):
            found = [
                view.runs.mean(_RATE, view.place(one, size, load, ALL, device))
                for size in sizes
                for one in (name, "noop")
            ]
            known = [one for one in found if one]
            if not known or len(known) < len(found):
                line += ["-", "-", "-"]
                continue
            ratios = [one / other for one, other in zip(known[::2], known[1::2], strict=True)]
            gain = geometric_mean(ratios) - 1
            # The literal pseudo-code all but stops: beside it nothing else could be seen.
            if name != "sfq-literal":
                points.append({"scheduler": name, "medium": title, "gain": 100 * gain})
            cells = [view.place(name, size, load, ALL, device) for size in sizes]
            line += [signed_percent(gain)]
            line += [_mean_duration(view, metric, cells) for metric in (_MEAN, _LONGEST)]
    if not points:
        return Section("disk", "The same schedulers on a rotating disk")
    shown = " and ".join(sizes)
    return Section(
        "disk",
        "The same schedulers on a rotating disk",
        paragraphs=(
            "Most of these schedulers sort requests by place or wait for the next one nearby, "
            "which pays where a head must move. The disk takes one command at a time and the "
            "files lie all over it; on the card there is no head, so what sorting and waiting "
            "gain on the disk is not to be had.",
        ),
        figures=(
            Figure(
                "disk",
                "Throughput against NOOP, disk and eMMC",
                f"Requests of {shown} KiB, direct writers without a pause, geometric mean; "
                "sfq-literal is left out.",
                charts.grouped_bars(
                    points,
                    x="scheduler",
                    y="gain",
                    series="medium",
                    order=[name for name in names if name != "sfq-literal"],
                    y_title="throughput against NOOP (%)",
                    about="Bars of throughput against NOOP on disk and eMMC by scheduler",
                ),
                is_main=True,
            ),
        ),
        tables=(
            DataTable(
                f"Disk and eMMC, requests of {shown} KiB",
                (
                    "scheduler",
                    *(
                        f"{title}: {what}"
                        for title, _ in _MEDIA
                        for what in ("throughput against NOOP", "mean read", "longest read")
                    ),
                ),
                lines,
                numeric(1, 3 * len(_MEDIA)),
            ),
        ),
    )


_MEDIA = (("disk", DISK), ("eMMC", EMMC))


def _mean_duration(view: View, metric: str, cells: Sequence[Mapping[str, str]]) -> str:
    found = [view.runs.mean(metric, cell) for cell in cells]
    known = [one for one in found if one]
    return duration(geometric_mean(known)) if known else "-"


def _distributions(view: View, load: Load) -> Section:
    figures = []
    found = ReadDistributions()
    for size in view.sizes(Pair(load=load)):
        rows = {
            name: view.runs.table(
                "latencies", direction="read", **view.place(scheduler, size, load)
            )
            for scheduler, name in _PAIR_NAMES.items()
        }
        curves = found.at_size(size, rows)
        if size in _DISTRIBUTION_SIZES and curves:
            figures.append(distribution_figure(f"distribution-{size}", size, curves))
    return Section(
        "distributions",
        "How latencies are distributed",
        paragraphs=(
            "The publication draws its latencies as normal distributions. They are not normal: "
            "most requests are fast and a few wait through cleaning or many turns, so the "
            "fitted normal has a large part below zero and misses both the peak and the tail.",
        ),
        figures=figures,
        tables=found.table(load.label),
    )


def _fills(view: View, loads: Sequence[Load]) -> Section:
    lines = [
        [
            load.label,
            fill,
            *(interval_cell(view.change(metric, Pair(name, load=load))) for metric in METRICS),
        ]
        for load in loads
        if all(view.sizes(Pair(name, load=load)) for name in FILLS.values())
        for fill, name in FILLS.items()
    ]
    return Section(
        "fills",
        "How SFQ fills its visits up",
        paragraphs=(
            "A visit is two reads and a write, three requests in all. If there are fewer of one "
            "kind, the rest of the visit goes to both kinds, to writes alone (the publication's "
            "words), or to none.",
        ),
        tables=(
            DataTable(
                "SFQ against CFQ by fill mode",
                ("load", "fill", *METRICS.values()),
                lines,
                numeric(2, 4),
            ),
        )
        if lines
        else (),
    )
