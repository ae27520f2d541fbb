"""The table of candidates side by side, as cells of text."""

from nandlab.comparison.view import Candidate, View

BEST = "*"
"""Stands behind the best value of a row."""


def table_cells(view: View) -> list[list[str]]:
    """The rows of the table: a title, then a cell for each candidate."""
    rows = []
    for criterion in view.criteria():
        winners = view.winners(criterion)
        cells = [criterion.title]
        for candidate in view.candidates:
            value = candidate.values.get(criterion.identifier)
            shown = "-" if value is None else criterion.show(value)
            cells.append(f"{shown} {BEST}" if candidate in winners else shown)
        rows.append(cells)
    rows.append(["safe from a power cut", *(_guarantee(one) for one in view.candidates)])
    return rows


def _guarantee(candidate: Candidate) -> str:
    return "no space was left" if candidate.is_full else candidate.guarantee
