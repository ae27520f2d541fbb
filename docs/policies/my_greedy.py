"""Greedy cleaning: the block with the fewest valid pages."""

from nandlab.policy import CleaningPolicy, CleaningView


class MyGreedy(CleaningPolicy):
    """Cleans the block with the fewest valid pages, the first of equals."""

    looks_at = ("valid_pages",)

    def choose(self, view: CleaningView) -> int:
        """Blocks are in ascending order, and argmin gives the first of equals."""
        return int(view.blocks[view.valid_pages.argmin()])
