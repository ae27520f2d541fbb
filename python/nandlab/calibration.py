"""Derives the two calibrated costs of the board `s5pv210-calibrated`.

`python -m nandlab.calibration` runs the cells of YAFFS2 under NOOP on the board
`s5pv210-datasheet` and prints both costs, for one, two and three passes;
`nandlab.verdicts.page_costs` says how they follow.
"""

import sys

from nandlab import engine
from nandlab.errors import NandlabError
from nandlab.results import StudyResult
from nandlab.results.reference import find_reference
from nandlab.studies import shipped_studies
from nandlab.verdicts.page_costs import FILE_SYSTEM, PASSES, page_costs
from nandlab.verdicts.scheduler_filesystem_view import BASE, DATASHEET, View

STUDY = "scheduler-filesystem"


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


if __name__ == "__main__":
    sys.exit(main())
