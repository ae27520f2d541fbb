"""What policies see: columns of numbers, one for each block, or a write and the cache."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy import frombuffer, uint32, uint64


def narrow(numbers: bytes) -> Any:
    """Numbers of 32 bits as an array, without a copy."""
    return frombuffer(numbers, uint32)


def wide(numbers: bytes) -> Any:
    """Numbers of 64 bits as an array, without a copy."""
    return frombuffer(numbers, uint64)


class CleaningView:
    """The blocks that may be cleaned, in ascending order, and what is known of each.

    All columns have the length of `blocks`. Those beside it are there if the policy's `looks_at`
    names them: a column that no policy reads costs no time.
    """

    __slots__ = ("_ages", "_erase_counts", "_valid_pages", "blocks", "pages_per_block")

    def __init__(
        self,
        blocks: Any,
        pages_per_block: int,
        valid_pages: Any = None,
        ages: Any = None,
        erase_counts: Any = None,
    ) -> None:
        """Takes the columns as they are."""
        self.blocks = blocks
        self.pages_per_block = pages_per_block
        self._valid_pages = valid_pages
        self._ages = ages
        self._erase_counts = erase_counts

    @property
    def valid_pages(self) -> Any:
        """Pages of each block that are the newest copy of their logical page."""
        return _asked("valid_pages", self._valid_pages)

    @property
    def ages(self) -> Any:
        """Page programs of the whole device since each block was closed."""
        return _asked("ages", self._ages)

    @property
    def erase_counts(self) -> Any:
        """Erases of each block in its whole life."""
        return _asked("erase_counts", self._erase_counts)


def _asked(name: str, column: Any) -> Any:
    if column is None:
        raise AttributeError(f'the view has no {name}: add "{name}" to looks_at of the class')
    return column


class WearView:
    """The free blocks and those with data, and the erases of each in its whole life."""

    __slots__ = ("free", "free_erase_counts", "threshold", "used", "used_erase_counts")

    def __init__(
        self,
        free: Any,
        free_erase_counts: Any,
        used: Any,
        used_erase_counts: Any,
        threshold: int,
    ) -> None:
        """Takes the columns as they are."""
        self.free = free
        """Numbers of the free blocks, the one released first in front."""
        self.free_erase_counts = free_erase_counts
        self.used = used
        """Numbers of the blocks that hold data, in ascending order; none within `allocate`."""
        self.used_erase_counts = used_erase_counts
        self.threshold = threshold
        """The setting `wear_threshold`: a difference of erase counts."""


@dataclass(frozen=True, slots=True)
class WriteView:
    """A write that comes to a device, and its cache as it is then. A sector has 512 bytes."""

    now_ns: int
    """When the command is taken up."""
    sector: int
    """First sector of the write."""
    sectors: int
    waiting_sectors: int
    """Those of the write that wait in the cache already: they take no more room."""
    used_sectors: int
    """Sectors that take room in the cache."""
    capacity_sectors: int
    """Sectors that have room in it."""
