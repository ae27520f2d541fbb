"""What is known of figures that are further away than asked, and of orders that differ."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Explained:
    """Why a figure is further away than asked, and how many operations it may be off for that."""

    most: float
    reason: str


_CHECKED_ONCE_MORE = (
    "a mount checks nodes inode by inode, in the order of a hash table. The kernel reads a page "
    "again for a node that is no longer in memory. Its own runs of one mount differ by up to 2 %"
)
_VERY_DIRTY_ONLY = (
    "the recorded runs collected only very dirty blocks (12 erases each). The clock chooses a "
    "dirty one for about one victim in eight, as in the kernel's later phases. Each costs one more "
    "erase, and the sum of the four phases agrees"
)

EXPLAINED: dict[tuple[str, str, str], Explained] = {
    ("jffs2/base-t", "seq-s32k", "reads"): Explained(
        4,
        "an fsync moves small nodes until the page is full. The recorded run had room for one "
        "only. A difference of some bytes in all data compressed before explains that",
    ),
    ("jffs2/fill-x", "fill1-mount", "reads"): Explained(28, _CHECKED_ONCE_MORE),
    ("jffs2/fill-x", "fill2-mount", "reads"): Explained(40, _CHECKED_ONCE_MORE),
    ("jffs2/gc-x", "ow1", "reads"): Explained(190, _VERY_DIRTY_ONLY),
    ("jffs2/gc-x", "re-mount", "programs"): Explained(
        10,
        "with some seeds the very dirty blocks that the mount finds are just enough to wake the "
        "collector. In the three recorded runs they were not",
    ),
    ("ubifs/gc-x", "re-mount", "reads"): Explained(
        5,
        "the length of the journal at the unmount depends on inodes that were written again "
        "because a second had ended. One seed in eleven ends an eraseblock later and reads 50 more",
    ),
}
"""By workload, phase and kind of operation. A test holds every entry to be needed."""

_TURNED_LIST = (
    "the kernel rotates its list of blocks to be erased when it mounts (`jffs2_rotate_lists`), so "
    "the last block becomes the last to be used, not the first. nandlab does not model that, and "
    "every block is another one from then on"
)
_TWO_THREADS = (
    "UBI's thread erases a block while `ubimkvol` goes on, and the kernel's process scheduler "
    "decides which comes first. The same holds later for erases and commits of the background "
    "among other writes. Phases that are neither the same nor reordered use blocks that were freed "
    "in that order, or begin at another place in a second"
)
_ONCE_A_SECOND = (
    "the background task looks at changed directories and headers once a second, and where in a "
    "second the recorded run began is not known"
)

DEPARTURES: dict[str, tuple[str, str]] = {
    "jffs2/base-t": ("first-mount", _TURNED_LIST),
    "jffs2/base-x": ("first-mount", _TURNED_LIST),
    "jffs2/cut-x": ("first-mount", _TURNED_LIST),
    "jffs2/gc-x": ("first-mount", _TURNED_LIST),
    "ubifs/base-t": ("mkvol", _TWO_THREADS),
    "ubifs/base-x": ("mkvol", _TWO_THREADS),
    "ubifs/cut-x": ("mkvol", _TWO_THREADS),
    "ubifs/fill-x": ("mkvol", _TWO_THREADS),
    "ubifs/gc-x": ("mkvol", _TWO_THREADS),
    "ubifs2048/base-x": ("mkvol", _TWO_THREADS),
    "ubifs2048/fill-x": ("mkvol", _TWO_THREADS),
    "yaffs2/base-t": ("seq-s4k", _ONCE_A_SECOND),
    "yaffs2/base-x": ("seq-s4k", _ONCE_A_SECOND),
    "yaffs2/cut-x": ("fill", _ONCE_A_SECOND),
}
"""By workload: the phase in which the order first departs from the recorded one, and why."""
