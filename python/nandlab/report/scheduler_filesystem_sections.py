"""The sections of the report on scheduler-filesystem."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from nandlab.report import charts
from nandlab.report.parts import DataTable, Figure, Section, numeric
from nandlab.results import StudyResult
from nandlab.verdicts import scheduler_filesystem_block2mtd as block2mtd
from nandlab.verdicts import scheduler_filesystem_cleaning as cleaning
from nandlab.verdicts import scheduler_filesystem_nilfs2 as nilfs2
from nandlab.verdicts.model import Verdict
from nandlab.verdicts.page_costs import PASSES, page_costs
from nandlab.verdicts.scheduler_filesystem import DRIVER_COMMENT_MS, TIE
from nandlab.verdicts.scheduler_filesystem_causes import slow_stretches, spans
from nandlab.verdicts.scheduler_filesystem_effect import Effect, effects
from nandlab.verdicts.scheduler_filesystem_view import (
    CALIBRATED,
    DATASHEET,
    FILE_SYSTEMS,
    MAIN,
    PARTS,
    SCHEDULERS,
    TESTS,
    View,
)
from nandlab.verdicts.wording import joined, number, percent, signed_percent

_SIZE = "file (MiB)"


def sections(
    result: StudyResult, verdict: Verdict, _: Sequence[Mapping[str, Any]]
) -> list[Section]:
    """All sections that these results can fill."""
    view = View(result)
    found = [
        _side_by_side(view, verdict),
        *([_nilfs2(view)] if view.sizes(nilfs2.NAME) else []),
        *([_block2mtd(view)] if block2mtd.meetings(view) else []),
        _effect(view),
        _claims(),
        _where(view),
        _passes(view),
        _causes(view),
        _settings(view),
    ]
    return [one for one in found if one.figures or one.tables or one.items or one.template]


def _side_by_side(view: View, verdict: Verdict) -> Section:
    tables, figures = [], []
    for name in view.raw_file_systems():
        sizes = view.sizes(name)
        lines = []
        for test in TESTS:
            for scheduler in SCHEDULERS:
                cells = [view.published_seconds(name, test, size, scheduler) for size in sizes]
                lines.append([test, f"published, {scheduler}", *map(_seconds, cells)])
            ours = [view.seconds(name, test, size) for size in sizes]
            lines.append([test, "simulated, all four", *map(_seconds, ours)])
        kind = "calibrated on NOOP" if name == "yaffs2" else "a prediction"
        title = f"{FILE_SYSTEMS.get(name, name)}, seconds ({kind})"
        columns = ("test", "scheduler", *(f"{size} MiB" for size in sizes))
        tables.append(DataTable(title, columns, lines, numeric(2, len(sizes))))
        figures += [_cells_figure(view, name, test) for test in TESTS]
    tables.append(_agreement_table(verdict))
    return Section(
        "cells",
        "Published, and simulated",
        paragraphs=(
            f"The four schedulers are {TIE}. They are listed apart on the published side only. "
            f"Simulated with {MAIN.label}.",
        ),
        figures=figures,
        tables=tables,
    )


def _agreement_table(verdict: Verdict) -> DataTable:
    lines = [
        [
            FILE_SYSTEMS.get(one.file_system, one.file_system),
            one.test,
            percent(one.error_of_means),
            percent(one.error_of_cells),
            "tied" if one.tau is None else f"{one.tau:.2f}",
            f"{one.p_value:.2f}",
        ]
        for one in verdict.agreement
    ]
    return DataTable(
        "How near: mean absolute error, and Kendall's tau of the order of the schedulers",
        ("file system", "test", "error of means", "error of cells", "tau", "p (exact, two-sided)"),
        lines,
        numeric(2, 4),
    )


def _nilfs2(view: View) -> Section:
    """NILFS2, whose requests meet the scheduler."""
    sizes = view.sizes(nilfs2.NAME)
    tables, figures = [], []
    schedulers = [*view.schedulers(), *view.other_schedulers()]
    columns = ("test", "scheduler", *(f"{size} MiB" for size in sizes))
    lines = []
    for test in TESTS:
        for scheduler in schedulers:
            published = [view.published_seconds(nilfs2.NAME, test, one, scheduler) for one in sizes]
            ours = [view.seconds(nilfs2.NAME, test, one, MAIN, scheduler) for one in sizes]
            if any(one is not None for one in published):
                lines.append([test, f"published, {scheduler}", *map(_seconds, published)])
            lines.append([test, f"simulated, {scheduler}", *map(_seconds, ours)])
    tables.append(
        DataTable("NILFS2, seconds (a prediction)", columns, lines, numeric(2, len(sizes)))
    )
    found = nilfs2.orders(view)
    tables += [_order_table(view, order) for order in found]
    figures += [_order_figure(order) for order in found]
    tables += _cleaning_tables(view)
    return Section(
        "nilfs2",
        "NILFS2, which meets the scheduler",
        paragraphs=(
            f"{nilfs2.DEVICE} A write goes through bios, the queue, the scheduler and mtdblock to "
            "the chip. Costs are those of the board, the chip and the calibration on YAFFS2; "
            "nothing was fitted to NILFS2 or to a scheduler.",
        ),
        figures=figures,
        tables=tables,
    )


def _block2mtd(view: View) -> Section:
    """JFFS2 where it meets a scheduler after all."""
    found = block2mtd.meetings(view)
    lines = [
        [
            one.test,
            scheduler,
            _seconds(seconds),
            signed_percent(seconds / min(one.seconds.values()) - 1),
            f"{one.requests[scheduler]:,.0f}",
        ]
        for one in found
        for scheduler, seconds in one.seconds.items()
    ]
    return Section(
        "block2mtd",
        "JFFS2 over block2mtd, which meets the scheduler",
        paragraphs=(block2mtd.DEVICE, *block2mtd.sentences(view)),
        tables=[
            DataTable(
                "JFFS2 over block2mtd (not published): means over the sizes of the file",
                ("test", "scheduler", "seconds", "beyond the fastest", "requests of all sizes"),
                lines,
                numeric(2, 3),
            )
        ],
    )


def _order_table(view: View, order: nilfs2.Order) -> DataTable:
    extra = nilfs2.extra_erases(view, order)
    lines = []
    for scheduler in sorted(order.ours, key=lambda one: order.ours[one]):
        ours, published = order.ours[scheduler], order.published[scheduler]
        lines.append(
            [
                scheduler,
                _seconds(ours),
                _seconds(published),
                number(ours / published),
                number(extra[scheduler][0]),
            ]
        )
    tau = "-" if order.tau is None else f"{order.tau:.2f}, p = {order.p_value:.2f}"
    return DataTable(
        f"NILFS2 {order.test}s, mean over the sizes of the file (Kendall's tau {tau})",
        ("scheduler", "simulated (s)", "published (s)", "ratio", "erases beyond the fastest's"),
        lines,
        numeric(1, 4),
    )


def _cleaning_tables(view: View) -> list[DataTable]:
    """NILFS2 on used flash, with its cleaner kept away and at work."""
    lines = [
        [
            one.test,
            f"{one.size} MiB",
            _seconds(one.idle_s),
            _seconds(one.active_s),
            signed_percent(one.slower),
            number(one.active_erases - one.idle_erases),
        ]
        for one in cleaning.cleanings(view)
    ]
    if not lines:
        return []
    return [
        DataTable(
            f"NILFS2 when cleaning is due ({cleaning.DUE.label})",
            (
                "test",
                "file",
                "cleaner off (s)",
                "cleaner at work (s)",
                "change",
                "erases it adds",
            ),
            lines,
            numeric(2, 4),
        )
    ]


def _order_figure(order: nilfs2.Order) -> Figure:
    points = [
        {"scheduler": scheduler, "cell": cell, "seconds": times[scheduler]}
        for scheduler in order.ours
        for cell, times in (("published", order.published), ("simulated", order.ours))
    ]
    return Figure(
        f"nilfs2-{order.test}",
        f"NILFS2, {order.test}: seconds by scheduler",
        "Means over the sizes of the file.",
        charts.grouped_bars(
            points,
            x="scheduler",
            y="seconds",
            series="cell",
            order=list(order.ours),
            y_title="seconds",
            about=f"Bars of seconds by scheduler, published and simulated, NILFS2 {order.test}",
        ),
        is_main=order.test == "write",
    )


def _cells_figure(view: View, name: str, test: str) -> Figure:
    sizes = view.sizes(name)
    title = FILE_SYSTEMS.get(name, name)
    points = []
    for size in sizes:
        for scheduler, seconds in view.published_cells(name, test, size).items():
            points.append(
                {"size": size, "cell": f"published {scheduler}", "rate": seconds / float(size)}
            )
        ours = view.seconds(name, test, size)
        if ours is not None:
            points.append({"size": size, "cell": "simulated", "rate": ours / float(size)})
    return Figure(
        f"cells-{name}-{test}",
        f"{title}, {test}: seconds for a mebibyte",
        "Bars of one height mean that the time goes with the size of the file.",
        charts.grouped_bars(
            points,
            x="size",
            y="rate",
            series="cell",
            order=sizes,
            x_title=_SIZE,
            y_title="seconds per MiB",
            about=f"Bars of seconds per mebibyte by file size, {title} {test}",
        ),
        is_main=test == "write",
    )


def _effect(view: View) -> Section:
    lines = [
        [FILE_SYSTEMS.get(one.file_system, one.file_system), one.test]
        + [cell for found in (one.ours, one.published) for cell in _effect_cells(found)]
        for one in effects(view)
    ]
    columns = ("eta squared", "by chance", "slowest above fastest")
    return Section(
        "effect",
        "How much the scheduler matters",
        paragraphs=(
            "Eta squared is the part of the variance of times that the scheduler accounts for: 0 "
            "if all schedulers are alike, 1 if nothing else makes times differ. Times are taken "
            "relative to the mean of their size of the file. Ours are of all repeats; of the "
            "published cells there is one a size and scheduler. By chance it is not 0: beside it "
            "stands what it is in the mean where schedulers do nothing. A file system that no "
            "scheduler meets has exactly 0.",
        ),
        tables=[
            DataTable(
                "Effect size of the scheduler",
                (
                    "file system",
                    "test",
                    *(f"simulated: {one}" for one in columns),
                    *(f"published: {one}" for one in columns),
                ),
                lines,
                numeric(2, 6),
            )
        ]
        if lines
        else [],
    )


def _effect_cells(found: Effect | None) -> list[str]:
    if found is None:
        return ["-"] * 3
    return [number(found.eta_squared), number(found.by_chance), percent(found.spread)]


def _claims() -> Section:
    return Section(
        "claims",
        "What the publication says",
        paragraphs=(
            "Each statement of the published tables, and the reasons given for them, in each "
            "setting. The small numbers say at how many sizes of the file it holds.",
        ),
        template="claims.html.j2",
    )


def _where(view: View) -> Section:
    tables, points, order = [], [], []
    for board in (DATASHEET, CALIBRATED):
        setting = replace(MAIN, board=board)
        lines = []
        for name in view.file_systems():
            sizes = view.sizes(name, setting)
            for test in TESTS if sizes else ():
                size = sizes[-1]
                parts = [view.metric(part, name, test, size, setting) or 0.0 for part in PARTS]
                whole = view.metric("elapsed_ns", name, test, size, setting) or 0.0
                label = f"{FILE_SYSTEMS.get(name, name)} {test}"
                lines.append(
                    [label, f"{size} MiB", *(_seconds(one / 1e9) for one in (*parts, whole))]
                )
                if board == DATASHEET:
                    order.append(label)
                    points += [
                        {"cell": label, "part": words, "seconds": one / 1e9 / float(size)}
                        for words, one in zip(PARTS.values(), parts, strict=True)
                        if one > 0
                    ]
        if lines:
            tables.append(
                DataTable(
                    f"Seconds by what they are spent on, {board}",
                    ("test", "file", *PARTS.values(), "whole"),
                    lines,
                    numeric(2, len(PARTS) + 1),
                )
            )
    figures = []
    if points:
        figures.append(
            Figure(
                "where",
                "Where the time of a mebibyte goes",
                f"The largest file on {DATASHEET}, nothing calibrated.",
                charts.stacked_bars(
                    points,
                    x="cell",
                    y="seconds",
                    series="part",
                    order=order,
                    y_title="seconds per MiB",
                    about="Stacked bars of seconds per mebibyte by file system and test",
                ),
                is_main=True,
            )
        )
    return Section(
        "where",
        "Where the time goes",
        paragraphs=(
            "The driver moves every byte by the processor and waits for the chip in a loop, so the "
            "parts follow each other and add up. The rest is processor time of file system, page "
            "cache, compression and checksums, and what its threads hold the writer up.",
        ),
        figures=figures,
        tables=tables,
    )


def _passes(view: View) -> Section:
    lines = []
    for passes in PASSES:
        found = page_costs(view, passes)
        if found is not None:
            lines.append(
                [
                    str(passes),
                    _ms(found.written_page_ns),
                    _ms(found.program_page_ns),
                    _ms(found.read_page_whole_ns),
                    _ms(found.read_page_ns),
                ]
            )
    tables = []
    if lines:
        tables.append(
            DataTable(
                "What the YAFFS2 + NOOP cells imply for a page of 2 KiB, in milliseconds",
                (
                    "passes summed",
                    "a page written",
                    "of it beyond data sheet and transfer",
                    "a page read",
                    "of it beyond data sheet and transfer",
                ),
                lines,
                numeric(1, 4),
            )
        )
    return Section(
        "passes",
        "How many passes",
        paragraphs=(
            f"The published times are three times what the driver's own comment gives for a page "
            f"({DRIVER_COMMENT_MS} ms written). If they sum three passes of IOzone, both the time "
            f"of a page written and that of a page read come near to what chip and processor need. "
            f"The board {CALIBRATED} takes one pass, which is what is printed; its two costs are "
            "the first line of this table and follow from the cells by a command "
            "(python -m nandlab.calibration).",
        ),
        tables=tables,
    )


def _causes(view: View) -> Section:
    lines = [
        [
            FILE_SYSTEMS.get(one.file_system, one.file_system),
            one.test,
            one.size,
            number(one.published),
            number(one.ours),
            number(one.repeats),
            "yes" if one.is_explained else "no",
            f"{one.least}; {one.most}",
        ]
        for one in spans(view)
    ]
    stretches = [
        [
            one.scheduler,
            joined([f"{size}" for size in one.sizes]) or "none",
            number(one.mebibytes) if one.sizes else "0",
        ]
        for one in slow_stretches(view, "jffs2", "write")
    ]
    tables = []
    if lines:
        tables.append(
            DataTable(
                "Most time divided by least",
                (
                    "file system",
                    "test",
                    "file (MiB)",
                    "published, over schedulers",
                    "ours, over flash and bytes",
                    "ours, over repeats",
                    "wide enough",
                    "least; most",
                ),
                lines,
                numeric(2, 4),
            )
        )
    tables.append(
        DataTable(
            "Slow cells of JFFS2's published writes",
            ("scheduler", "file sizes (MiB)", "written meanwhile (MiB, ten runs each)"),
            stretches,
            numeric(2, 1),
        )
    )
    return Section(
        "causes",
        "What can make published cells differ",
        paragraphs=(
            "A scheduler cannot. What the publication does not tell can: what the flash had been "
            "through, which bytes IOzone wrote, when in a tick it began. The span of our times "
            "over these is held against the span of the published times over the schedulers. A "
            "span that is wide enough shows that the cause can do it, not that it did.",
        ),
        tables=tables,
    )


def _settings(view: View) -> Section:
    tables = []
    for name in view.file_systems():
        sizes = view.sizes(name)
        lines = []
        for setting in view.settings():
            for test in TESTS:
                cells = [view.seconds(name, test, size, setting) for size in sizes]
                if any(one is not None for one in cells):
                    lines.append([setting.label, test, *map(_seconds, cells)])
        tables.append(
            DataTable(
                f"{FILE_SYSTEMS.get(name, name)}, seconds in every setting",
                ("setting", "test", *(f"{size} MiB" for size in sizes)),
                lines,
                numeric(2, len(sizes)),
            )
        )
    return Section("settings", "Every setting", tables=tables)


def _seconds(value: float | None) -> str:
    return number(value)


def _ms(nanoseconds: float) -> str:
    return number(nanoseconds / 1e6)
