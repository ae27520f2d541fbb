"""Prints the table of candidates side by side: a column each, a row for each criterion."""

from collections.abc import Sequence

from nandlab.comparison.cuts import BLOCKS, Cuts
from nandlab.comparison.table import BEST, table_cells
from nandlab.comparison.view import View
from nandlab.terminal.output import console, print_table, print_text
from nandlab.verdicts.model import Verdict


def print_comparison(view: View, verdict: Verdict) -> None:
    """The table, a sentence on each candidate, the notes, and the verdict last."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    head = Text(f"Side by side: {view.conditions}", style="bold")
    table = Table(title=head, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("", no_wrap=True)
    for candidate in view.candidates:
        table.add_column(Text(candidate.label, style="bold"), justify="right", overflow="fold")
    for title, *cells in table_cells(view):
        shown = (Text(cell, style="bold green" if cell.endswith(BEST) else "") for cell in cells)
        table.add_row(Text(title), *shown)
    console().print(table)
    print_text(f"{BEST} best of its row, or within 2 % of it\n")
    for sentence in verdict.sentences:
        print_text(sentence)
    for note in verdict.caveats:
        print_text(f"Note: {note}")
    print_text("")
    print_text(verdict.headline)


def print_cuts(cuts: Sequence[Cuts]) -> None:
    """What became of the sample of power cuts."""
    rows = [
        (one.file_system, f"{one.cuts:,}", f"{one.hazards:,}", f"{one.violations:,}", one.note)
        for one in cuts
    ]
    columns = ("file system", "power cuts", "known hazards", "violations", "")
    title = f"A sample of power cuts in the script, on {BLOCKS} blocks of the part"
    print_table(title, columns, rows, frozenset({1, 2, 3}))
