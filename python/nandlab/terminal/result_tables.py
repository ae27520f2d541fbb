"""The headline table of a run."""

from collections.abc import Callable

from nandlab.results import Measurements, StudyResult
from nandlab.terminal.output import print_table, print_text
from nandlab.verdicts import android_view, scheduler_filesystem_view, sfq_emmc_view, sfq_kernel_view
from nandlab.verdicts.generic import HEADLINE_METRICS, headline_metric
from nandlab.verdicts.model import Verdict
from nandlab.verdicts.published_view import COLUMNS, PUBLISHED_FTLS, View, variants
from nandlab.verdicts.sfq_emmc_view import METRICS, Pair
from nandlab.verdicts.wording import ftl_name, number, signed_percent

_ROWS_MAX = 40


def print_result(result: StudyResult, verdict: Verdict) -> None:
    """Tables of the results, then the verdict in words."""
    own = dict(TABLES).get(result.name)
    # A verdict without claims found nothing to compare: only the general table can be filled.
    (own if own is not None and verdict.claims else _print_combinations)(result)
    print_text(verdict.headline)
    for sentence in verdict.sentences:
        print_text(sentence)


def _print_layers(result: StudyResult) -> None:
    rows = Measurements(result)
    present = rows.axis_values("ftl")
    ftls = [ftl for ftl in PUBLISHED_FTLS if ftl in present]
    ftls += [ftl for ftl in present if ftl not in ftls]
    published = {
        (row["ftl"], row["statistic"]): row
        for row in (result.reference.dicts() if result.reference else [])
    }
    for variant in variants(rows):
        view = View(rows, variant)
        lines = []
        for ftl in ftls:
            means = [view.window(column, "mean", ftl) for column in COLUMNS]
            spread = view.window("time_units", "stddev", ftl)
            at = published.get((ftl, "mean"))
            time = means[-1]
            ratio = f"{time / at['time_units']:.2f}" if at and time else "-"
            paper = number(at["time_units"]) if at else "-"
            lines.append([ftl_name(ftl), *map(number, means), number(spread), paper, ratio])
        print_table(
            f"Per 100 device requests: {variant.label}",
            ("layer", "reads", "writes", "erases", "time", "± time", "published time", "ratio"),
            lines,
            frozenset(range(1, 8)),
        )


def _print_changes(result: StudyResult) -> None:
    view = sfq_emmc_view.View(result)
    lines = []
    if view.published:
        lines.append(["published", *(signed_percent(view.published[one]) for one in METRICS)])
    for load in view.loads():
        found = [view.change(metric, Pair(load=load)) for metric in METRICS]
        lines.append(
            [load.label, *("-" if one is None else signed_percent(one.value) for one in found)]
        )
    print_table(
        "SFQ against CFQ, geometric mean over request sizes",
        ("load", *METRICS.values()),
        lines,
        frozenset(range(1, 5)),
    )


def _print_kernel_changes(result: StudyResult) -> None:
    view = sfq_kernel_view.View(result)
    metrics = {**sfq_kernel_view.METRICS, sfq_kernel_view.PROCESSOR: "processor time"}
    lines = []
    if view.published:
        shown = [signed_percent(view.published[one]) for one in sfq_kernel_view.METRICS]
        lines.append(["published, eMMC", "CFQ", *shown, "-"])
    for place in view.places():
        for other in view.others(place):
            found = [view.change(metric, place, other) for metric in metrics]
            changes = ("-" if one is None else signed_percent(one.value) for one in found)
            lines.append([place.short, other, *changes])
    print_table(
        "SFQ against the kernel's schedulers, geometric mean over request sizes",
        ("place", "against", *metrics.values()),
        lines,
        frozenset(range(2, 7)),
    )


def _print_file_systems(result: StudyResult) -> None:
    view = scheduler_filesystem_view.View(result)
    for name in view.file_systems():
        sizes = view.sizes(name)
        lines = []
        for test in scheduler_filesystem_view.TESTS:
            for scheduler in scheduler_filesystem_view.SCHEDULERS:
                cells = [view.published_seconds(name, test, size, scheduler) for size in sizes]
                if any(cell is not None for cell in cells):
                    lines.append([test, f"published, {scheduler}", *map(number, cells)])
            if name in scheduler_filesystem_view.ON_BLOCK_DEVICE:
                for scheduler in view.schedulers():
                    main = scheduler_filesystem_view.MAIN
                    ours = [view.seconds(name, test, size, main, scheduler) for size in sizes]
                    lines.append([test, f"simulated, {scheduler}", *map(number, ours)])
            else:
                ours = [view.seconds(name, test, size) for size in sizes]
                lines.append([test, "simulated, all schedulers", *map(number, ours)])
        print_table(
            f"{scheduler_filesystem_view.FILE_SYSTEMS.get(name, name)}, seconds",
            ("test", "scheduler", *(f"{size} MiB" for size in sizes)),
            lines,
            frozenset(range(2, 2 + len(sizes))),
        )


def _print_android(result: StudyResult) -> None:
    view = android_view.View(result)
    for test, words in android_view.MOUNTS.items():
        fills = view.fills(test)
        lines = []
        for name in view.file_systems(test):
            cells = [view.mount("mount_ns", test, name, one) for one in fills]
            shown = [number(None if one is None else one / 1e9) for one in cells]
            lines.append([android_view.FILE_SYSTEMS[name], *shown])
        if lines:
            print_table(
                f"Seconds of a mount {words}",
                ("file system", *(f"{android_view.fill_percent(one):g} % full" for one in fills)),
                lines,
                frozenset(range(1, 1 + len(fills))),
            )


TABLES: tuple[tuple[str, Callable[[StudyResult], None]], ...] = (
    ("android", _print_android),
    ("ftl-windows", _print_layers),
    ("scheduler-filesystem", _print_file_systems),
    ("sfq-emmc", _print_changes),
    ("sfq-kernel", _print_kernel_changes),
)
"""Studies with tables of their own, sorted by name."""


def _print_combinations(result: StudyResult) -> None:
    rows = Measurements(result)
    metrics = [metric for metric in HEADLINE_METRICS if rows.has(metric)]
    first = headline_metric(rows, str(result.study.get("question", "")))
    if first is not None and first not in metrics:
        metrics.insert(0, first)
    places = list(
        dict.fromkeys(tuple(row[axis] for axis in result.axes) for row in result.rows.dicts())
    )
    lines = [
        [
            *place,
            *(
                number(rows.mean(metric, **dict(zip(result.axes, place, strict=True))))
                for metric in metrics
            ),
        ]
        for place in places[:_ROWS_MAX]
    ]
    axes = len(result.axes)
    more = f" (first {_ROWS_MAX} of {len(places)})" if len(places) > _ROWS_MAX else ""
    print_table(
        f"{result.study.get('title', result.name)}{more}",
        (*result.axes, *metrics),
        lines,
        frozenset(range(axes, axes + len(metrics))),
    )
