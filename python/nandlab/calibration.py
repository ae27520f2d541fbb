"""What the two calibrated costs of the board `s5pv210-calibrated` follow from.

The cells are those of YAFFS2 under NOOP: published seconds, and the seconds and page operations
that the same cells take on the board `s5pv210-datasheet`. What is left of a read, by page read, is
the cost of a page read; what is left of a write beyond its own page reads, by page programmed, is
the cost of a page program. Both are means over the file sizes.

`python -m nandlab.calibration` runs the cells and prints both, for one, two and three passes.
"""

import sys
from dataclasses import dataclass, replace

from nandlab import engine
from nandlab.errors import NandlabError
from nandlab.results import StudyResult
from nandlab.results.reference import find_reference
from nandlab.studies import shipped_studies
from nandlab.verdicts.scheduler_filesystem_view import BASE, DATASHEET, MAIN, View

STUDY = "scheduler-filesystem"
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


def run_cells() -> View:
    """Runs the cells on the board that is not calibrated, once each."""
    path = shipped_studies()[STUDY]
    sizes = engine.describe_study(path, [], None, quick=False)["axes"]["file_mib"]
    sets = [
        f"axes.board={DATASHEET}",
        f"axes.file_system={FILE_SYSTEM}",
        f"axes.scheduler={BASE}",
        # The short form with every size, and nothing spent on flash that the cells do not use.
        f"quick_form.axes.file_mib={','.join(map(str, sizes))}",
        "quick_form.repeats=1",
        "flash_states.aged.fill_percent=0",
        "flash_states.aged.rewritten_percent=0",
    ]
    answer = engine.run_study(path, sets, None, quick=True, jobs=2)
    return View(StudyResult.from_engine(answer, find_reference(answer["study"], path)))


def main() -> int:
    """Prints the costs for every number of passes."""
    try:
        view = run_cells()
    except NandlabError as error:
        print(f"nandlab: error: {error}", file=sys.stderr)
        return 2
    for passes in PASSES:
        found = page_costs(view, passes)
        if found is not None:
            print(
                f"passes {passes}: read_page_ns = {found.read_page_ns}, "
                f"program_page_ns = {found.program_page_ns}"
            )
    return 0


def _rounded(nanoseconds: float) -> int:
    return round(nanoseconds / _STEP_NS) * _STEP_NS


if __name__ == "__main__":
    sys.exit(main())
