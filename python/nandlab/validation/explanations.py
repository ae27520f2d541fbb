"""What is known of figures that are further away than asked, and of orders that differ."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Explained:
    """Why a figure is further away than asked, and how many operations it may be off for that."""

    most: float
    reason: str


_CHECKED_ONCE_MORE = (
    "at a mount nodes are checked inode by inode, in the order of a hash table; the kernel reads a "
    "page again for a node that was not at hand any more, and its own runs of one mount differ by "
    "up to 2 %"
)
_VERY_DIRTY_ONLY = (
    "the recorded runs collected very dirty blocks only (12 erases each); the clock chooses a "
    "dirty one for about one victim in eight, as the kernel does in the phases after it, and each "
    "costs one more erase: the sum of the four phases agrees"
)

EXPLAINED: dict[tuple[str, str, str], Explained] = {
    ("jffs2/base-t", "seq-s32k", "programs"): Explained(
        0,
        "an fsync moves small nodes until the page is full; the recorded run found room for one "
        "only, which a difference of some bytes in all that was compressed before explains",
    ),
    ("jffs2/fill-x", "fill1-mount", "reads"): Explained(28, _CHECKED_ONCE_MORE),
    ("jffs2/fill-x", "fill2-mount", "reads"): Explained(40, _CHECKED_ONCE_MORE),
    ("jffs2/gc-x", "ow1", "reads"): Explained(190, _VERY_DIRTY_ONLY),
    ("jffs2/gc-x", "ow1", "erases"): Explained(2, _VERY_DIRTY_ONLY),
    ("jffs2/gc-x", "re-mount", "programs"): Explained(
        10,
        "with some seeds the very dirty blocks that the mount finds are just enough to wake the "
        "collector; in the three recorded runs they were not",
    ),
}
"""By workload, phase and kind of operation. A test holds every entry to be needed."""

DEPARTURES: dict[str, tuple[str, str]] = {}
"""By workload: the phase in which the order first departs from the recorded one, and why."""
