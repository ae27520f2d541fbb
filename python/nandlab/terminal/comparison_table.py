"""Prints the table of candidates side by side: a column each, a row for each criterion."""

from collections.abc import Sequence

from nandlab.comparison.cuts import BLOCKS, Cuts
from nandlab.comparison.table import BEST, table_cells
from nandlab.comparison.view import View
from nandlab.terminal.output import print_table, print_text
from nandlab.verdicts.model import Verdict


def print_comparison(view: View, verdict: Verdict) -> None:
    """The table, a sentence on each candidate, the notes, and the verdict last."""
    columns = ("", *(candidate.label for candidate in view.candidates))
    right = frozenset(range(1, len(columns)))
    print_table(f"Side by side: {view.conditions}", columns, table_cells(view), right)
    print_text(f"{BEST} best value of the row, or within 2 % of it\n")
    for sentence in verdict.sentences:
        print_text(sentence)
    for note in verdict.caveats:
        print_text(f"Note: {note}")
    print_text("")
    print_text(verdict.headline)


def print_cuts(cuts: Sequence[Cuts]) -> None:
    """The table of the sample of power cuts."""
    rows = [
        (one.file_system, f"{one.cuts:,}", f"{one.hazards:,}", f"{one.violations:,}", one.note)
        for one in cuts
    ]
    columns = ("file system", "power cuts", "known hazards", "violations", "")
    title = f"A sample of power cuts in the script, on {BLOCKS} blocks of the part"
    print_table(title, columns, rows, frozenset({1, 2, 3}))
