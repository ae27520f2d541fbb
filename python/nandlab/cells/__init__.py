"""Cells: pieces of work of a study, carried out here or on a cluster, kept until it is whole.

A cell is a group of runs that cannot differ. Its key is a hash of all that its result depends on.
"""

from nandlab.cells.choice import CellChoice, CellCounts, CellStudy, OpenCluster
from nandlab.cells.running import answer_of_cells, cells_of, opened

__all__ = [
    "CellChoice",
    "CellCounts",
    "CellStudy",
    "OpenCluster",
    "answer_of_cells",
    "cells_of",
    "opened",
]
