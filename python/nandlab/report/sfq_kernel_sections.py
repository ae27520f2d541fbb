"""The sections of the report on sfq-kernel."""

from collections.abc import Mapping, Sequence
from typing import Any

from nandlab.report import charts
from nandlab.report.distributions import ReadDistributions, distribution_figure
from nandlab.report.parts import DataTable, Figure, Section, numeric
from nandlab.results import StudyResult
from nandlab.verdicts.model import Verdict
from nandlab.verdicts.paired import interval_cell
from nandlab.verdicts.sfq_kernel import DEVICES
from nandlab.verdicts.sfq_kernel_view import BFQ, METRICS, NONE, PROCESSOR, SFQ, Place, View
from nandlab.verdicts.wording import duration, number, signed_percent

_SIZE = "request size (KiB)"
_DISTRIBUTION_SIZES = ("4", "64", "1024")
_MAIN_SIZE = "64"
_TABLE_METRICS = {
    "read_latency_mean_ns": "mean read",
    "read_latency_p50_ns": "median read",
    "read_latency_p99_ns": "p99 read",
    "read_latency_max_ns": "longest read",
    "write_latency_mean_ns": "mean write",
    "write_latency_p99_ns": "p99 write",
    "write_latency_max_ns": "longest write",
}
_RATE = "throughput_bytes_per_s"


def sections(
    result: StudyResult, verdict: Verdict, _: Sequence[Mapping[str, Any]]
) -> list[Section]:
    """All sections that these results can fill."""
    view = View(result)
    places = view.places()
    if not places:
        return []
    found = [
        _changes(view, places),
        _claims(),
        _schedulers(view, places),
        _processor(view, places),
        _distributions(view, places),
        _devices(places),
    ]
    return [one for one in found if one.figures or one.tables or one.items or one.template]


def _changes(view: View, places: Sequence[Place]) -> Section:
    lines = []
    if view.published:
        shown = [signed_percent(view.published[metric]) for metric in METRICS]
        lines.append(["published, eMMC", "CFQ of Linux 3.4", *shown])
    lines += [
        [place.label, other]
        + [interval_cell(view.change(metric, place, other)) for metric in METRICS]
        for place in places
        for other in view.others(place)
    ]
    sizes = view.sizes(places[0], view.others(places[0])[0])
    by_size = [
        [place.label, METRICS[metric]]
        + [interval_cell(view.change_at(metric, place, BFQ, size)) for size in sizes]
        for place in places
        if BFQ in view.others(place)
        for metric in METRICS
    ]
    return Section(
        "changes",
        "Published, and in the kernel",
        paragraphs=(
            "Change of SFQ against each scheduler of the kernel, with the 95 % interval over the "
            "repeats; the geometric mean over the request sizes. The published figures, which the "
            "study sfq-emmc holds against the simulated schedulers, are against CFQ; here BFQ "
            "stands in for it.",
        ),
        tables=(
            DataTable(
                "SFQ against the kernel's schedulers",
                ("place", "against", *METRICS.values()),
                lines,
                numeric(2, 4),
            ),
            DataTable(
                "SFQ against BFQ by request size",
                ("place", "latency", *(f"{size} KiB" for size in sizes)),
                by_size,
                numeric(2, len(sizes)),
            ),
        ),
        figures=tuple(_change_figure(view, place) for place in places if BFQ in view.others(place)),
    )


def _change_figure(view: View, place: Place) -> Figure:
    sizes = view.sizes(place, BFQ)
    points = [
        {"size": size, "latency": name, "change": 100 * found.value}
        for metric, name in METRICS.items()
        for size in sizes
        if (found := view.change_at(metric, place, BFQ, size)) is not None
    ]
    return Figure(
        _identifier("change-by-size", place),
        f"Change of SFQ against BFQ by request size, {place.device}",
        f"{place.label}. Below zero, SFQ is faster.",
        charts.grouped_bars(
            points,
            x="size",
            y="change",
            series="latency",
            order=sizes,
            x_title=_SIZE,
            y_title="change (%)",
            about=f"Bars of the change of four latencies by request size on {place.device}",
        ),
        is_main=True,
    )


def _claims() -> Section:
    return Section(
        "claims",
        "Claims of the publication",
        paragraphs=(
            "Each claim at each place, with BFQ in the place of CFQ. Something counts as less if "
            "the whole interval is below zero. The small numbers say at how many of the single "
            "request sizes it holds.",
        ),
        template="claims.html.j2",
    )


def _schedulers(view: View, places: Sequence[Place]) -> Section:
    tables, figures = [], []
    for place in places:
        names = view.schedulers(place)
        lines = [
            [
                name,
                *(_time(view.typical(metric, place, name)) for metric in _TABLE_METRICS),
                number(view.typical("jain_index", place, name)),
                f"{number((view.typical(_RATE, place, name) or 0) / 1e6)} MB/s",
                _time(view.typical(PROCESSOR, place, name)),
            ]
            for name in names
        ]
        tables.append(
            DataTable(
                f"All schedulers, {place.label}",
                (
                    "scheduler",
                    *_TABLE_METRICS.values(),
                    "Jain's index",
                    "throughput",
                    "processor per request",
                ),
                lines,
                numeric(1, len(_TABLE_METRICS) + 3),
            )
        )
        points = [
            {"scheduler": name, "latency": title, "ms": value / 1e6}
            for name in names
            for metric, title in METRICS.items()
            if (value := view.typical(metric, place, name)) is not None
        ]
        figures.append(
            Figure(
                _identifier("schedulers", place),
                f"Mean and longest latency of every scheduler, {place.device}",
                f"{place.label}, geometric mean over the request sizes. Logarithmic.",
                charts.dots(
                    points,
                    x="ms",
                    y="scheduler",
                    series="latency",
                    order=names,
                    x_title="latency (ms)",
                    about=f"Dots of mean and longest latency by scheduler on {place.device}",
                ),
                is_main=True,
            )
        )
    return Section("schedulers", "Every scheduler", figures=figures, tables=tables)


def _processor(view: View, places: Sequence[Place]) -> Section:
    tables, figures = [], []
    for place in places:
        names = view.schedulers(place)
        sizes = view.sizes(place, view.others(place)[0])
        lines = [
            [name]
            + [_time(view.runs.mean(PROCESSOR, view.cell(place, name, size))) for size in sizes]
            for name in names
        ]
        tables.append(
            DataTable(
                f"Processor time of a request, {place.label}",
                ("scheduler", *(f"{size} KiB" for size in sizes)),
                lines,
                numeric(1, len(sizes)),
            )
        )
        if NONE not in names:
            continue
        points = [
            {"size": size, "scheduler": name, "more": 100 * found.value}
            for name in names
            if name != NONE
            for size in sizes
            if (found := view.change_at(PROCESSOR, place, NONE, size, name)) is not None
        ]
        figures.append(
            Figure(
                _identifier("processor", place),
                f"Processor time of a request against none, {place.device}",
                f"{place.label}.",
                charts.grouped_bars(
                    points,
                    x="size",
                    y="more",
                    series="scheduler",
                    order=sizes,
                    x_title=_SIZE,
                    y_title="processor time against none (%)",
                    about=f"Bars of processor time by request size and scheduler on {place.device}",
                ),
                is_main=True,
            )
        )
    return Section(
        "processor",
        "What a scheduler costs the processor",
        paragraphs=(
            "The time during which the machine's one processor was not idle, from the start of the "
            "processes to the last completion, divided by the requests: the system call, the "
            "block layer, the scheduler, the driver, its interrupt and the change of processes. "
            "Only the differences are the scheduler's. The clock counts instructions.",
        ),
        figures=figures,
        tables=tables,
    )


def _distributions(view: View, places: Sequence[Place]) -> Section:
    figures: list[Figure] = []
    tables: list[DataTable] = []
    for place in places:
        if BFQ not in view.others(place):
            continue
        found = ReadDistributions()
        for size in view.sizes(place, BFQ):
            rows = {
                name: view.runs.table(
                    "latencies", direction="read", **view.cell(place, scheduler, size)
                )
                for scheduler, name in ((BFQ, "BFQ"), (SFQ, "SFQ"))
            }
            curves = found.at_size(size, rows)
            if size in _DISTRIBUTION_SIZES and curves:
                figures.append(
                    distribution_figure(
                        _identifier(f"distribution-{size}", place),
                        size,
                        curves,
                        place=place.label,
                        is_main=size == _MAIN_SIZE,
                    )
                )
        tables += found.table(place.label)
    return Section(
        "distributions",
        "How latencies are distributed",
        paragraphs=(
            "As in the simulated study: the publication draws its latencies as normal "
            "distributions, and they are not normal.",
        ),
        figures=figures,
        tables=tables,
    )


def _devices(places: Sequence[Place]) -> Section:
    names = dict.fromkeys(place.device for place in places)
    return Section(
        "devices",
        "What the disks can and cannot show",
        items=[DEVICES[name] for name in names if name in DEVICES],
    )


def _identifier(what: str, place: Place) -> str:
    return f"{what}-{place.kernel.replace('.', '-')}-{place.device}-{place.writers}"


def _time(nanoseconds: float | None) -> str:
    return "-" if nanoseconds is None else duration(nanoseconds)
