"""Sizes of requests: `bs`, `bsrange`, `bssplit`, and priorities by size."""

from collections.abc import Mapping
from dataclasses import dataclass

from nandlab.fio_jobs.job_file import Given
from nandlab.fio_jobs.values import by_direction, bytes_of, count_of

_BLOCK_MAX = 1 << 30
"""Largest request, 1 GiB: the page cache of the board is not larger."""

_USUAL = 4096
"""Size of a request where nothing is said."""


@dataclass(frozen=True)
class _Way:
    """Sizes of the requests of one direction."""

    text: str
    """In the engine's words."""
    least: int
    most: int
    mean: int


@dataclass(frozen=True)
class Sizes:
    """Sizes of reads and of writes, in bytes."""

    key: str
    """Key of the engine that has the text: `bs`, `bsrange` or `bssplit`."""
    reads: _Way
    writes: _Way
    is_read: bool
    is_written: bool

    @property
    def line(self) -> str:
        """The line of the engine's job, with the sizes of the directions that it has."""
        used = [way.text for way in self._used()]
        return f'{self.key} = "{",".join(dict.fromkeys(used))}"'

    def _used(self) -> list[_Way]:
        return [self.reads] * self.is_read + [self.writes] * self.is_written

    @property
    def least(self) -> int:
        """The smallest request."""
        return min(way.least for way in self._used())

    @property
    def grid(self) -> int:
        """The larger of the smallest sizes of the directions: what each needs room for."""
        return max(way.least for way in self._used())

    @property
    def most(self) -> int:
        """The largest request."""
        return max(way.most for way in self._used())

    @property
    def mean(self) -> int:
        """Mean size, rounded down."""
        used = self._used()
        return sum(way.mean for way in used) // len(used)

    @property
    def is_one(self) -> bool:
        """True if all requests have one size."""
        return self.least == self.most

    @property
    def has_one_unit(self) -> bool:
        """True if the smallest reads and writes are equal."""
        return self.least == self.grid


def sizes_of(options: Mapping[str, Given], rw: str, kb_base: int) -> Sizes:
    """The sizes of a job: of `bssplit`, or else of `bsrange`, or else of `bs`."""
    key = next((key for key in ("bssplit", "bsrange", "bs") if key in options), "bs")
    given = options.get(key)
    if given is not None and key == "bssplit" and given.value in ("0", None):
        key, given = "bs", options.get("bs")
    is_written = rw not in ("read", "randread")
    is_read = rw not in ("write", "randwrite")
    if given is None:
        way = _Way(str(_USUAL), _USUAL, _USUAL, _USUAL)
        return Sizes("bs", way, way, is_read, is_written)
    parse = {"bs": _one, "bsrange": _range, "bssplit": _split}[key]
    read, write, _ = by_direction(given.value or "")
    reads = parse(given, read, kb_base) if is_read else None
    writes = parse(given, write, kb_base) if is_written else None
    first = reads or writes
    assert first is not None
    return Sizes(key, reads or first, writes or first, is_read, is_written)


def _size(given: Given, text: str, kb_base: int) -> int:
    size = bytes_of(given, text, kb_base)
    if size == 0 or size % 512 or size > _BLOCK_MAX:
        raise given.fault("it must be 512 to 1g, in sectors of 512", "write bs=4k, for example")
    return size


def _one(given: Given, text: str, kb_base: int) -> _Way:
    size = _size(given, text, kb_base)
    return _Way(str(size), size, size, size)


def _range(given: Given, text: str, kb_base: int) -> _Way:
    low, dash, high = text.partition("-")
    least = _size(given, low, kb_base)
    most = _size(given, high, kb_base) if dash else least
    if most < least:
        raise given.fault("it goes from the larger size to the smaller", "write bsrange=4k-64k")
    return _Way(f"{least}-{most}", least, most, (least + most) // 2)


def _split(given: Given, text: str, kb_base: int) -> _Way:
    shares: list[tuple[int, int | None]] = []
    for part in text.split(":"):
        size, _, percent = part.partition("/")
        own = count_of(given, percent, most=100) if percent else None
        shares.append((_size(given, size, kb_base), own))
    missing = sum(own is None for _, own in shares)
    rest = 100 - sum(own for _, own in shares if own is not None)
    if rest < 0 or (rest and not missing):
        suggestion = "write bssplit=4k/60:64k/40, for example"
        raise given.fault("its percentages must be 100 together", suggestion)
    used: list[tuple[int, int]] = []
    for bytes_, own in shares:
        # As `split_parse_ddir` of fio's options.c; what the division leaves goes to the last.
        share = rest // missing if own is None else own
        if own is None:
            missing -= 1
            rest -= share
        if share:
            used.append((bytes_, share))
    sizes = [bytes_ for bytes_, _ in used]
    mean = sum(bytes_ * share for bytes_, share in used) // 100
    told = ":".join(f"{bytes_}/{share}" for bytes_, share in used)
    return _Way(told, min(sizes), max(sizes), mean)


def priorities_by_size(given: Given, kb_base: int) -> str:
    """`cmdprio_bssplit` in the engine's words: sizes in bytes."""
    ways = []
    for way in by_direction(given.value or "")[:2]:
        parts = []
        for part in way.split(":"):
            size, *rest = part.split("/")
            if len(rest) not in (1, 3):
                suggestion = "write cmdprio_bssplit=64k/50:1m/10/1/0, for example"
                raise given.fault("it needs SIZE/PERCENT or SIZE/PERCENT/CLASS/LEVEL", suggestion)
            limits = zip(rest, (100, 3, 7), strict=False)
            numbers = [str(count_of(given, text, most=most)) for text, most in limits]
            parts.append("/".join([str(bytes_of(given, size, kb_base)), *numbers]))
        ways.append(":".join(parts))
    return ",".join(ways)
