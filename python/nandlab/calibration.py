"""Derives the two calibrated costs of the board `s5pv210-calibrated`.

`python -m nandlab.calibration` runs the cells of YAFFS2 under NOOP on the board
`s5pv210-datasheet` and prints both costs, for one, two and three passes. What is left of a
published read on that board, by read, is the cost of a read; what is left of a write beyond its own
reads, by program, is the cost of a program. Reads and programs of a spare area alone count like
those of a page, for the driver charges them alike. Both are means over the file sizes.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from nandlab import engine
from nandlab.claims.evaluate import published_cell
from nandlab.errors import NandlabError
from nandlab.frame import RunFrame
from nandlab.study_files import shipped_studies

STUDY = "scheduler-filesystem"
DATASHEET = "s5pv210-datasheet"
FILE_SYSTEM = "yaffs2"
SCHEDULER = "noop"
PASSES = (1, 2, 3)
"""Numbers of passes of IOzone whose times the publication may have summed."""

_STEP_NS = 1000
"""Costs are given to the microsecond."""


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


def run_cells() -> RunFrame:
    """Runs the cells on the board that is not calibrated, once each."""
    path = shipped_studies()[STUDY]
    sizes = engine.describe_study(path, [], None, quick=False)["axes"]["file_mib"]
    sets = [
        f"axes.board={DATASHEET}",
        f"axes.file_system={FILE_SYSTEM}",
        f"axes.scheduler={SCHEDULER}",
        # The short form with every size, and nothing spent on flash that the cells do not use.
        f"quick_form.axes.file_mib={','.join(map(str, sizes))}",
        "quick_form.repeats=1",
        "flash_states.aged.fill_percent=0",
        "flash_states.aged.rewritten_percent=0",
    ]
    return RunFrame.from_answer(engine.run_study(path, sets, None, quick=True, jobs=2), Path(path))


def page_costs(run: RunFrame, passes: int) -> PageCosts | None:
    """The costs, from all sizes of the file that were run; None without any."""
    reads: list[float] = []
    whole_reads: list[float] = []
    sizes = [int(size) for size in run.values_of("file_mib")]
    for size in sizes:
        cell = _cell(run, "read", size)
        published_ns = _published_ns(run, "read", size) / passes
        reads.append((published_ns - cell["elapsed_ns"]) / _reads(cell))
        whole_reads.append(published_ns / cell["page_reads"])
    if not sizes:
        return None
    read_ns = sum(reads) / len(reads)
    programs: list[float] = []
    whole_programs: list[float] = []
    for size in sizes:
        cell = _cell(run, "write", size)
        published_ns = _published_ns(run, "write", size) / passes
        left_ns = published_ns - cell["elapsed_ns"] - _reads(cell) * read_ns
        programs.append(left_ns / (cell["page_programs"] + cell["spare_programs"]))
        whole_programs.append(published_ns / cell["page_programs"])
    return PageCosts(
        passes=passes,
        read_page_ns=_rounded(read_ns),
        program_page_ns=_rounded(sum(programs) / len(programs)),
        written_page_ns=sum(whole_programs) / len(whole_programs),
        read_page_whole_ns=sum(whole_reads) / len(whole_reads),
        cells=len(reads) + len(programs),
    )


def _cell(run: RunFrame, test: str, size: int) -> Mapping[str, float]:
    """Means over the repeats of what one test of one size took on the board, cold and fresh."""
    import polars

    place = {"board": DATASHEET, "file_system": FILE_SYSTEM, "scheduler": SCHEDULER}
    place |= {"flash": "fresh", "data": "random", "cache": "cold", "cleaner": "on", "test": test}
    metrics = ("elapsed_ns", "page_reads", "spare_reads", "page_programs", "spare_programs")
    rows = run.wide(*metrics).filter(
        *(polars.col(axis) == value for axis, value in place.items()),
        polars.col("passes") == 1,
        polars.col("file_mib") == size,
    )
    if not rows.height:
        raise NandlabError(f"{run.name}: no {test} of {size} MiB ran on {DATASHEET}")
    means: dict[str, float] = rows.select(polars.col(metrics).mean()).row(0, named=True)
    return means


def _reads(cell: Mapping[str, float]) -> float:
    return cell["page_reads"] + cell["spare_reads"]


def _published_ns(run: RunFrame, test: str, size: int) -> float:
    row = {"file_system": FILE_SYSTEM, "scheduler": SCHEDULER, "test": test, "file_mib": size}
    seconds = published_cell(run, {"column": "seconds", **row}, {})
    if seconds is None:
        raise NandlabError(f"{run.name}: the study has no reference")
    return seconds * 1e9


def main() -> int:
    """Prints the costs for every number of passes."""
    try:
        run = run_cells()
        for passes in PASSES:
            found = page_costs(run, passes)
            if found is not None:
                print(
                    f"passes {passes}: read_page_ns = {found.read_page_ns}, "
                    f"program_page_ns = {found.program_page_ns}"
                )
    except NandlabError as error:
        print(f"nandlab: error: {error}", file=sys.stderr)
        return 2
    return 0


def _rounded(nanoseconds: float) -> int:
    return round(nanoseconds / _STEP_NS) * _STEP_NS


if __name__ == "__main__":
    sys.exit(main())
