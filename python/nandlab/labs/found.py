"""Where the power of a disk fails, and what the cut left."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Counted = Literal["acknowledgements", "programs"]
"""What a cut point counts: items that were acknowledged, or page programs from mkfs on."""

_LINE = re.compile(
    r"^(kept|damaged|refused|repaired|checked) (\d+)(?: (\d+|[a-z]+))?(?: (\d+))?$", re.MULTILINE
)

STOPPED = "machine stopped"
"""Why a disk is refused if its check came to no end."""


@dataclass(frozen=True)
class Cut:
    """A power cut: once item `at` is acknowledged, or in the page program of that number."""

    counted: Counted
    at: int


@dataclass(frozen=True)
class Written:
    """What happened to a disk until its power failed."""

    cut: Cut
    is_ready: bool
    """True if its file system was mounted before the cut."""

    acknowledged: int
    """Items whose acknowledgement left the machine while the power was on; they are 1, 2, 3 ..."""

    torn_operations: int
    """Dies that were in the middle of an operation."""

    lost_cached_sectors: int
    """Sectors that were in the device's cache, and are lost."""

    recovery: Mapping[str, Any]
    """What the device's own recovery took: reads, changes, simulated nanoseconds."""


@dataclass(frozen=True)
class CutFound:
    """What a power cut left, after all recoveries."""

    written: Written
    recovered: int
    """Items that are there with the right bytes, those on their way included."""

    lost: tuple[int, ...]
    """Acknowledged items that are not there."""

    damaged: tuple[int, ...]
    """Acknowledged items that are there with other bytes."""

    is_repaired: bool
    """True if the checker of the file system had something to repair, and did."""

    refusals: tuple[str, ...]
    """What did not open, or is inconsistent: `mount`, `checker`, `integrity`, `unreadable`."""

    @property
    def lost_before_kept(self) -> int:
        """Lost items before one that is kept: a loss that is not of the newest alone."""
        kept = set(range(1, self.written.acknowledged + 1)) - {*self.lost, *self.damaged}
        return sum(number < max(kept, default=0) for number in self.lost)

    @property
    def is_sound(self) -> bool:
        """Nothing that was acknowledged is lost or damaged, and everything opens."""
        return not self.lost and not self.damaged and not self.refusals


def read_console(written: Mapping[int, Written], console: str) -> dict[int, CutFound]:
    """What the guest told of the disks that it checked to the end, by their numbers."""
    told: dict[int, list[tuple[str, str, str]]] = {number: [] for number in written}
    for word, number, first, last in _LINE.findall(console):
        told.get(int(number), []).append((word, first, last))
    return {
        number: _found(written[number], lines)
        for number, lines in told.items()
        if any(word == "checked" for word, *_ in lines)
    }


def stopped(written: Written) -> CutFound:
    """What is known of a disk whose check came to no end: nothing is proven to be there."""
    return _found(written, [("refused", STOPPED, "")])


def unmade(written: Written) -> CutFound:
    """What is known of a disk whose power failed before its file system was mounted."""
    return _found(written, [])


def _found(written: Written, lines: Iterable[tuple[str, str, str]]) -> CutFound:
    kept: set[int] = set()
    damaged, refusals, is_repaired = [], [], False
    for word, first, last in lines:
        if word == "kept":
            kept |= set(range(int(first), int(last) + 1))
        elif word == "damaged":
            damaged.append(int(first))
        elif word == "refused":
            refusals.append(first)
        is_repaired |= word == "repaired"
    acknowledged = range(1, written.acknowledged + 1)
    return CutFound(
        written=written,
        recovered=len(kept),
        lost=tuple(one for one in acknowledged if one not in kept and one not in damaged),
        # One that was on its way may be there in part: nothing was promised of it.
        damaged=tuple(one for one in damaged if one in acknowledged),
        is_repaired=is_repaired,
        refusals=tuple(refusals),
    )
