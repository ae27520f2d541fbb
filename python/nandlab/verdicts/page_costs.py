"""What the published cells of YAFFS2 under NOOP imply for the costs of the board's NAND driver.

What is left of a read on the board `s5pv210-datasheet`, by page read, is the cost of a page
read; what is left of a write beyond its own page reads, by page programmed, is the cost of a page
program. Both are means over the file sizes.
"""

from dataclasses import dataclass, replace

from nandlab.verdicts.scheduler_filesystem_view import BASE, DATASHEET, MAIN, View

FILE_SYSTEM = "yaffs2"
PASSES = (1, 2, 3)
"""Numbers of passes of IOzone whose times the publication may have summed."""

_STEP_NS = 1000
"""Costs are told to the microsecond."""


@dataclass(frozen=True)
class PageCosts:
    """Costs of the driver that the published cells imply."""

    passes: int
    read_page_ns: int
    program_page_ns: int
    written_page_ns: float
    """Published time of a page written, in each pass."""
    read_page_whole_ns: float
    """Published time of a page read, in each pass."""
    cells: int


def page_costs(view: View, passes: int) -> PageCosts | None:
    """The costs, from all sizes of the file that were run; None without any."""
    setting = replace(MAIN, board=DATASHEET)
    reads: list[float] = []
    whole_reads: list[float] = []
    sizes = []
    for size in view.sizes(FILE_SYSTEM, setting):
        published = view.published_seconds(FILE_SYSTEM, "read", size, BASE)
        seconds = view.seconds(FILE_SYSTEM, "read", size, setting)
        pages = view.metric("page_reads", FILE_SYSTEM, "read", size, setting)
        if published is None or seconds is None or not pages:
            continue
        sizes.append(size)
        reads.append((published / passes - seconds) * 1e9 / pages)
        whole_reads.append(published / passes * 1e9 / pages)
    if not sizes:
        return None
    read_ns = sum(reads) / len(reads)
    programs: list[float] = []
    whole_programs: list[float] = []
    for size in sizes:
        published = view.published_seconds(FILE_SYSTEM, "write", size, BASE)
        seconds = view.seconds(FILE_SYSTEM, "write", size, setting)
        pages = view.metric("page_programs", FILE_SYSTEM, "write", size, setting)
        own_reads = view.metric("page_reads", FILE_SYSTEM, "write", size, setting)
        if published is None or seconds is None or own_reads is None or not pages:
            continue
        left_ns = (published / passes - seconds) * 1e9 - own_reads * read_ns
        programs.append(left_ns / pages)
        whole_programs.append(published / passes * 1e9 / pages)
    if not programs:
        return None
    return PageCosts(
        passes=passes,
        read_page_ns=_rounded(read_ns),
        program_page_ns=_rounded(sum(programs) / len(programs)),
        written_page_ns=sum(whole_programs) / len(whole_programs),
        read_page_whole_ns=sum(whole_reads) / len(whole_reads),
        cells=len(sizes) + len(programs),
    )


def _rounded(nanoseconds: float) -> int:
    return round(nanoseconds / _STEP_NS) * _STEP_NS
