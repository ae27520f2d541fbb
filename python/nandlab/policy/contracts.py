"""The contracts of policies in Python: a base class for each kind.

Every object has `random`, a `RandomStream`, already when `__init__` is called. A policy that draws
numbers from elsewhere does not repeat itself. The engine copies objects with `copy.deepcopy` where
it copies a device, so keep what you know in attributes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nandlab.policy.natives import FlashBlocks, IoRequest, RandomStream
    from nandlab.policy.views import CleaningView, WearView, WriteView


class Policy(ABC):
    """What policies of all kinds have."""

    kind: ClassVar[str]
    random: RandomStream
    """Random numbers, the same for the same seed; there before `__init__` is called."""


class CleaningPolicy(Policy):
    """Chooses the block that a page-mapped layer empties next.

    The setting `cleaning` of the layer `page` takes such a class.
    """

    kind: ClassVar[str] = "cleaning"
    looks_at: ClassVar[tuple[str, ...]] = ("valid_pages",)
    """Columns of the view that `choose` reads: valid_pages, ages, erase_counts."""

    @abstractmethod
    def choose(self, view: CleaningView) -> int:
        """Returns one of `view.blocks`. It is called only if there is one."""


class Layer(Policy):
    """A translation layer: logical pages over the blocks of a chip.

    The flash is lent for the length of each call. A page that `write` has returned for must survive
    a power cut: program it before returning. Let `PowerLost` pass.
    """

    kind: ClassVar[str] = "layer"

    @staticmethod
    def blocks_required(pages_per_block: int, logical_pages: int) -> int:
        """Good blocks that the layer needs; fewer are refused with a message."""
        return -(-logical_pages // pages_per_block) + 2

    def __init__(self, flash: FlashBlocks, logical_pages: int) -> None:
        """Makes the layer over erased blocks; `rebuild` follows if there is data."""

    @abstractmethod
    def read(self, flash: FlashBlocks, lpn: int) -> bytes | None:
        """Returns the bytes of a page; None if it holds nothing, or if the chip stores no bytes."""

    @abstractmethod
    def write(self, flash: FlashBlocks, lpn: int, data: bytes | None) -> None:
        """Writes a page; `data` is None on a chip that stores no bytes."""

    @abstractmethod
    def trim(self, flash: FlashBlocks, lpn: int) -> None:
        """Forgets a page: it reads zeros, or after a power cut zeros or its old data."""

    def flush(self, flash: FlashBlocks) -> None:
        """Makes durable what is not: nothing, in a layer that programs before `write` returns."""

    @abstractmethod
    def rebuild(self, flash: FlashBlocks) -> None:
        """Builds all tables anew from `flash.scan()`, as after a power cut."""

    @abstractmethod
    def locate(self, lpn: int) -> tuple[int, int] | None:
        """Returns block and page of the newest copy; None if the page reads zeros."""

    def ram_bytes(self) -> int:
        """Bytes of RAM that the tables take in a device; not what Python takes for them."""
        return 0


class WearLeveling(Policy):
    """Says which free block is taken next, and which data moves to another block.

    The setting `wear_leveling` of every layer takes such a class.
    """

    kind: ClassVar[str] = "wear-leveling"
    interval_erases: ClassVar[int] = 16
    """Erases between two calls of `level`."""

    @abstractmethod
    def allocate(self, view: WearView) -> int:
        """Returns one of `view.free`, which the layer takes. It is called only if there is one."""

    def level(self, view: WearView) -> tuple[int, int] | None:
        """Returns one of `view.used` and one of `view.free`: the data of the first moves there.

        None moves nothing. It is called only where a class has it, and there are blocks of both.
        """
        return None


class CacheAdmission(Policy):
    """Says which writes go through the write cache of a flash device.

    The key `cache.admission` of a device takes such a class. It is asked about every write but
    those with force unit access, which never wait in a cache.
    """

    kind: ClassVar[str] = "cache-admission"

    @abstractmethod
    def admits(self, view: WriteView) -> bool:
        """Returns True for a write that waits in the cache, False for one that goes past it."""


class Scheduler(Policy):
    """Orders the requests of a block device. Times are whole nanoseconds and never go back.

    `insert`, `dispatch` and `absorb` are needed; the rest is called only where a class has it.
    """

    kind: ClassVar[str] = "scheduler"
    sorts_dispatch: ClassVar[bool] = False
    """True: a request joins the dispatch list in the order of sectors (`elv_dispatch_sort`)."""

    timer_ns: int | None = None
    """When `timer` is to be called next; None for never."""

    @abstractmethod
    def insert(self, now_ns: int, request: IoRequest) -> None:
        """Takes a request over."""

    @abstractmethod
    def dispatch(self, now_ns: int, force: bool) -> IoRequest | None:
        """Gives the next request, or None to wait; with `force` it gives one while it has any."""

    @abstractmethod
    def absorb(self, now_ns: int, survivor: IoRequest, absorbed: IoRequest) -> None:
        """Forgets `absorbed`, which has become a part of `survivor`."""

    def allows_merge(self, bio: IoRequest, request: IoRequest) -> bool:
        """Says whether the bio may become part of the request it touches."""
        return True

    def find_merge(self, bio: IoRequest) -> IoRequest | None:
        """Returns a request that the bio touches, where the merge caches found none."""
        return None

    def merged(self, now_ns: int, request: IoRequest) -> None:
        """Notes that the request has grown."""

    def former(self, request: IoRequest) -> IoRequest | None:
        """Returns the request before this one, which is joined with it if they touch."""
        return None

    def latter(self, request: IoRequest) -> IoRequest | None:
        """Returns the request after this one."""
        return None

    def complete(self, now_ns: int, request: IoRequest) -> None:
        """Notes that the device has carried the request out."""

    def exit(self, now_ns: int, pid: int) -> None:
        """Notes that a process is gone; what it has queued is still to be given."""

    def timer(self, now_ns: int) -> None:
        """The time `timer_ns` has come; set the next one, or None."""
