"""The sections of the report on android."""

from collections.abc import Mapping, Sequence
from typing import Any

from nandlab.report import charts
from nandlab.report.parts import DataTable, Figure, Section, numeric
from nandlab.results import StudyResult
from nandlab.verdicts.android import limit_lines, room_score
from nandlab.verdicts.android_claims import THROUGHPUT
from nandlab.verdicts.android_view import (
    BOARDS,
    DATASHEET,
    FILE_SYSTEMS,
    MOUNTS,
    PARTS,
    PATTERN,
    PHASES,
    RANDOM,
    READS,
    ROOMS,
    WRITES,
    View,
    fill_percent,
)
from nandlab.verdicts.model import Verdict
from nandlab.verdicts.wording import number

STRUCTURES_SHOWN = 7
"""Kinds of structures that a chart names; the rest are summed."""


def sections(
    result: StudyResult, verdict: Verdict, _: Sequence[Mapping[str, Any]]
) -> list[Section]:
    """All sections that these results can fill."""
    view = View(result)
    found = [
        _claims(),
        _mounts(view),
        _mechanism(view),
        _throughput(view),
        _rooms(view),
        _memory(view),
        _integrity(view),
        _limits(view),
    ]
    return [one for one in found if one.figures or one.tables or one.items or one.template]


def _claims() -> Section:
    return Section(
        "claims",
        "What was claimed",
        paragraphs=(
            "Each statement of the publication, and each of its explanations, on the board as its "
            "data sheets have it and on the one calibrated on published cells of another study. "
            "The small numbers say in how many cells it holds.",
        ),
        template="claims.html.j2",
    )


def _mounts(view: View) -> Section:
    tables, figures = [], []
    for test, words in MOUNTS.items():
        points, order = [], view.fills(test)
        for board, board_words in BOARDS.items():
            fills = view.fills(test, board)
            lines = []
            for name in view.file_systems(test):
                cells = [view.mount("mount_ns", test, name, one, board) for one in fills]
                lines.append([FILE_SYSTEMS[name], *map(_seconds, cells)])
                if name == "ubifs":
                    for metric, label in (("attach_ns", "attach"), ("mount_only_ns", "mount")):
                        cells = [view.mount(metric, test, name, one, board) for one in fills]
                        lines.append([f"of it {label}", *map(_seconds, cells)])
            if lines and fills:
                tables.append(
                    DataTable(
                        f"Seconds of a mount {words}, {board_words}",
                        ("file system", *(_fill(one) for one in fills)),
                        lines,
                        numeric(1, len(fills)),
                    )
                )
        for name in view.file_systems(test):
            for flash in order:
                value = view.mount("mount_ns", test, name, flash)
                if value is not None:
                    points.append(
                        {
                            "fill": fill_percent(flash),
                            "file system": FILE_SYSTEMS[name],
                            "seconds": value / 1e9,
                        }
                    )
        if points:
            figures.append(
                Figure(
                    test,
                    f"Mount {words}",
                    "Seconds over the fill of the chip, on the board as its data sheets have it.",
                    charts.lines(
                        points,
                        x="fill",
                        y="seconds",
                        series="file system",
                        x_title="fill (%)",
                        y_title="seconds",
                        about=f"Lines of seconds of a mount {words} over the fill",
                    ),
                    is_main=True,
                )
            )
    return Section(
        "mounts",
        "How long a mount takes",
        paragraphs=(
            "Chips were filled by writing, overwriting and deleting, and unmounted in order. For "
            "UBIFS the time holds UBI's attach. JFFS2 goes on checking its nodes in the background "
            "when its mount is over.",
        ),
        figures=figures,
        tables=tables,
    )


def _mechanism(view: View) -> Section:
    tables, points, order = [], [], []
    counted = {
        "page_reads": "pages read",
        "spare_reads": "spare areas read",
        "page_programs": "pages programmed",
        "erases": "erases",
        "attach_page_reads": "pages of them in UBI's attach",
        "replayed_nodes": "journal nodes replayed",
        "is_from_checkpoint": "checkpoint used",
        "findings": "findings",
    }
    for test, words in MOUNTS.items():
        fills = view.fills(test)
        for flash in fills[:1] + fills[-1:]:
            lines = []
            for name in view.file_systems(test):
                cells = [view.mount(metric, test, name, flash) for metric in counted]
                lines.append([FILE_SYSTEMS[name], *map(number, cells)])
                parts = [view.mount(part, test, name, flash) or 0.0 for part in PARTS]
                if flash == fills[-1]:
                    label = f"{FILE_SYSTEMS[name]} {'clean' if test == 'mount' else 'cut'}"
                    order.append(label)
                    points += [
                        {"mount": label, "part": part, "seconds": value / 1e9}
                        for part, value in zip(PARTS.values(), parts, strict=True)
                        if value > 0
                    ]
            tables.append(
                DataTable(
                    f"What a mount {words} does at {_fill(flash)}",
                    ("file system", *counted.values()),
                    lines,
                    numeric(1, len(counted)),
                )
            )
    figures = []
    if points:
        figures.append(
            Figure(
                "mount-parts",
                "Where the time of a mount goes",
                "The fullest chips, on the board as its data sheets have it.",
                charts.stacked_bars(
                    points,
                    x="mount",
                    y="seconds",
                    series="part",
                    order=order,
                    y_title="seconds",
                    about="Stacked bars of seconds of a mount by what they are spent on",
                ),
                is_main=True,
            )
        )
    journal = [[size, number(found)] for size, found in view.journal()]
    if len(journal) > 1:
        tables.append(
            DataTable(
                "UBIFS's mount after a cut, by what was being written, half-full chip",
                ("written (MiB)", "seconds"),
                journal,
                numeric(0, 2),
            )
        )
    return Section(
        "mechanism",
        "What a mount does",
        paragraphs=(
            "YAFFS2's checkpoint holds its tables; without one it reads the tags of each page, the "
            "newest block first. UBI reads the counter and the volume header of every block. UBIFS "
            "reads its master area, its log and the journal blocks that the log names.",
        ),
        figures=figures,
        tables=tables,
    )


def _throughput(view: View) -> Section:
    tables, figures = [], []
    for board, board_words in BOARDS.items():
        for data in (PATTERN, RANDOM):
            sizes = view.sizes(board, data=data)
            lines = []
            for phase in (*WRITES, *READS):
                for name in view.file_systems("iozone"):
                    cells = [view.rate(phase, name, one, board, data=data) for one in sizes]
                    if any(one is not None for one in cells):
                        lines.append([phase, FILE_SYSTEMS[name], *map(number, cells)])
            if lines:
                kind = "IOzone's pattern" if data == PATTERN else "random bytes"
                tables.append(
                    DataTable(
                        f"MiB/s, {kind}, {board_words}",
                        ("test", "file system", *(f"{one} MiB" for one in sizes)),
                        lines,
                        numeric(2, len(sizes)),
                    )
                )
    for phase in ("write", "random-write", "read", "reread"):
        points = [
            {"size": float(size), "file system": FILE_SYSTEMS[name], "rate": rate}
            for name in view.file_systems("iozone")
            for size in view.sizes()
            if (rate := view.rate(phase, name, size)) is not None
        ]
        if points:
            figures.append(
                Figure(
                    f"rate-{phase}",
                    f"IOzone: {phase}",
                    "MiB/s over the size of the file; the whole chip and all of the RAM.",
                    charts.lines(
                        points,
                        x="size",
                        y="rate",
                        series="file system",
                        x_title="file (MiB)",
                        y_title="MiB/s",
                        about=f"Lines of throughput of IOzone's {phase} over the size of the file",
                    ),
                    is_main=phase in ("write", "read"),
                )
            )
    return Section(
        "throughput",
        "Throughput",
        paragraphs=(
            "The time of a write ends with the last record: what is still in memory then is not in "
            "it. The first read is cold, the second warm. “random-rewrite” is no test of IOzone: "
            "it is the random-write test run a second time over the same file.",
        ),
        figures=figures,
        tables=tables,
    )


def _rooms(view: View) -> Section:
    rooms = view.rooms()
    lines = []
    for room in rooms if len(rooms) > 1 else ():
        cells = []
        for *_, judge_room, _ in THROUGHPUT:
            holds, detail, *_ = judge_room(view, DATASHEET, room)
            mark = "–" if holds is None else "holds" if holds else "does not hold"
            cells.append(f"{mark}: {detail}")
        held, known = room_score(view, room)
        lines.append([ROOMS[room], f"{held} of {known}", *cells])
    tables = []
    if lines:
        heads = (words for _, words, *_ in THROUGHPUT)
        tables.append(DataTable("Claims on throughput by room", ("room", "hold", *heads), lines))
        for phase in ("write", "reread"):
            sizes = view.sizes()
            by_room = []
            for room in rooms:
                for name in view.file_systems("iozone"):
                    rates = [view.rate(phase, name, one, room=room) for one in sizes]
                    if any(one is not None for one in rates):
                        by_room.append([ROOMS[room], FILE_SYSTEMS[name], *map(number, rates)])
            tables.append(
                DataTable(
                    f"MiB/s by room: {phase}",
                    ("room", "file system", *(f"{one} MiB" for one in sizes)),
                    by_room,
                    numeric(2, len(sizes)),
                )
            )
    return Section(
        "rooms",
        "What “40 MB of available memory” can mean",
        paragraphs=(
            "The publication measured throughput with 40 MB of available memory on a chip of "
            "256 MB. That can be a partition, what is left on a chip, or RAM.",
        ),
        tables=tables,
        template="section.html.j2" if tables else "",
    )


def _memory(view: View) -> Section:
    tables, figures = [], []
    counts = view.counts()
    names = view.file_systems("files")
    for phase, words in PHASES.items():
        lines = []
        for metric, label in (("available_bytes", "available"), ("drop_bytes", "drop")):
            for name in names:
                cells = [view.memory(metric, phase, name, one) for one in counts]
                lines.append([label, FILE_SYSTEMS[name], *map(_mebibytes, cells)])
        if counts:
            tables.append(
                DataTable(
                    f"MemFree + Buffers + Cached and its drop, MiB, {words}",
                    ("what", "file system", *(f"{number(float(one))} files" for one in counts)),
                    lines,
                    numeric(2, len(counts)),
                )
            )
    points, order = [], []
    for phase, words in PHASES.items():
        for name in names if counts else ():
            label = f"{FILE_SYSTEMS[name]}, {words}"
            order.append(label)
            points += [
                {"cell": label, "structure": structure, "mebibytes": value / 2**20}
                for structure, value in _largest(view, phase, name, counts[-1]).items()
            ]
    if points:
        figures.append(
            Figure(
                "memory-parts",
                "What memory is taken by",
                f"{number(float(counts[-1]))} files of 1 KiB; pages of files are not in it.",
                charts.stacked_bars(
                    points,
                    x="cell",
                    y="mebibytes",
                    series="structure",
                    order=order,
                    y_title="MiB",
                    about="Stacked bars of kernel memory by structure, file system and phase",
                ),
                is_main=True,
            )
        )
        lines = [
            [FILE_SYSTEMS[name], words, structure, _mebibytes(value)]
            for name in names
            for phase, words in PHASES.items()
            for structure, value in sorted(
                view.structures(phase, name, counts[-1]).items(), key=lambda one: -one[1]
            )
            if value >= 2**10
        ]
        tables.append(
            DataTable(
                f"Structures of {number(float(counts[-1]))} files, MiB",
                ("file system", "when", "structure", "MiB"),
                lines,
                numeric(3, 1),
            )
        )
    return Section(
        "memory",
        "Memory",
        paragraphs=(
            "MemFree + Buffers + Cached is what is available, so a file system that uses more "
            "leaves a smaller sum. Pages of files count as available. What is not: structures of "
            "the file system, of UBI, of inodes and of names.",
        ),
        figures=figures,
        tables=tables,
    )


def _largest(view: View, phase: str, name: str, files: str) -> dict[str, float]:
    """The kinds of structures that are largest anywhere; the others as one."""
    known: dict[str, float] = {}
    for one in view.file_systems("files"):
        for when in PHASES:
            for structure, value in view.structures(when, one, files).items():
                known[structure] = max(known.get(structure, 0.0), value)
    shown = sorted(known, key=lambda structure: -known[structure])[:STRUCTURES_SHOWN]
    own = view.structures(phase, name, files)
    found = {structure: own[structure] for structure in shown if structure in own}
    rest = sum(value for structure, value in own.items() if structure not in shown)
    return found | ({"other": rest} if rest else {})


def _integrity(view: View) -> Section:
    rates = view.rates()
    heads = {
        "written_kib_per_s": "written (KiB/s)",
        "lost_unsynced_bytes": "lost, not synced (KiB)",
        "lost_synced_bytes": "lost, synced (KiB)",
        "zero_bytes": "reads as zeros (KiB)",
        "wrong_bytes": "wrong (KiB)",
        "missing_files": "files missing",
        "empty_files": "files empty",
        "complaints": "complaints of the check",
    }
    lines, points = [], []
    for rate in rates:
        for name in view.file_systems("burst"):
            mounted = view.burst("is_mounted", name, rate)
            cells = []
            for metric in heads:
                values = view.burst(metric, name, rate)
                scale = 1024 if metric.endswith("_bytes") else 1
                mean = sum(values) / len(values) / scale if values else None
                cells.append(number(mean))
            lines.append(
                [rate, FILE_SYSTEMS[name], f"{sum(mounted):.0f} of {len(mounted)}", *cells]
            )
            lost = view.burst("lost_unsynced_bytes", name, rate)
            if lost:
                points.append(
                    {
                        "rate": rate,
                        "file system": FILE_SYSTEMS[name],
                        "kibibytes": sum(lost) / len(lost) / 1024,
                    }
                )
    tables, figures = [], []
    if lines:
        tables.append(
            DataTable(
                "After a power cut: means over the cuts",
                ("asked for (KiB/s)", "file system", "mounts", *heads.values()),
                lines,
                frozenset({0}) | numeric(2, len(heads) + 1),
            )
        )
        figures.append(
            Figure(
                "losses",
                "What was written, not synced, and lost",
                "An application writes a log and small files at a rate; means over the cuts.",
                charts.grouped_bars(
                    points,
                    x="rate",
                    y="kibibytes",
                    series="file system",
                    order=rates,
                    x_title="asked for (KiB/s)",
                    y_title="KiB lost",
                    about="Bars of KiB lost to a power cut by rate of writing and file system",
                ),
                is_main=True,
            )
        )
    return Section(
        "integrity",
        "What a power cut takes",
        paragraphs=(
            "An application appends records of 4 KiB to a log and writes small files of 4 KiB in "
            "turns; it syncs the log every 64 records and every eighth file. The power is cut 40 "
            "to 60 s later, in an operation of the chip where one is under way. Then every byte "
            "that a call had answered for is looked for.",
        ),
        figures=figures,
        tables=tables,
    )


def _limits(view: View) -> Section:
    lines = [[name, *map(number, values)] for name, *values in limit_lines(view)]
    tables = []
    if lines:
        tables.append(
            DataTable(
                "UBIFS, the largest file of random bytes",
                ("limits", "write (MiB/s)", "structures, most (MiB)", "dirty pages, most (MiB)"),
                lines,
                numeric(1, 3),
            )
        )
    return Section(
        "limits",
        "Memory against throughput",
        paragraphs=(
            "The publication leaves open whether UBIFS can do with less memory. Its write-buffers "
            "are one page each for three heads of the journal, six KiB in all: there is nothing to "
            "shrink. What can shrink is the share of RAM that may be dirty.",
        ),
        tables=tables,
        template="section.html.j2" if tables else "",
    )


def _fill(flash: str) -> str:
    return f"{number(fill_percent(flash))} % full"


def _seconds(nanoseconds: float | None) -> str:
    return number(None if nanoseconds is None else nanoseconds / 1e9)


def _mebibytes(value: float | None) -> str:
    return number(None if value is None else value / 2**20)
