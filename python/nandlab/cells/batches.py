"""How many cells a task has: a task costs some milliseconds, and so do small cells.

A batch is to last about a second. So a task costs about a hundredth of it, and a worker that is
lost loses no more than that. How long cells take is known from those that were carried out.
"""

_BATCH_S = 1.0
_GROWTH_MAX = 8
"""The first cells may be smaller than those after them, so sizes grow step by step."""
_CELLS_MAX = 2000
"""Results of a batch are in one message."""


class BatchSizes:
    """The sizes of batches, from single cells on."""

    def __init__(self) -> None:
        self._size = 1

    def learn(self, cells: int, seconds: float) -> None:
        """Some cells took so long."""
        if cells:
            wanted = int(cells * _BATCH_S / max(seconds, 1e-6))
            # Of the batch, not of the last size: batches of older sizes come back late.
            self._size = max(1, min(wanted, cells * _GROWTH_MAX, _CELLS_MAX))

    def cells(self, left: int, places: int) -> int:
        """Cells of the next batch; the last ones are smaller, so that all places end together."""
        return max(1, min(self._size, left // (2 * max(places, 1))))
