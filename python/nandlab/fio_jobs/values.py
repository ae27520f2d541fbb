"""Values of fio's options: sizes, times, numbers, and lists by direction."""

import re

from nandlab.fio_jobs.job_file import Given

_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}
_SIZE = re.compile(r"(0x[0-9a-f]+|\d+)([kmgtp]?)(ib|i|b|)", re.IGNORECASE)
_TIME = re.compile(r"(\d+)([a-z]*)", re.IGNORECASE)
_BITS_MAX = 63
"""fio keeps sizes in 64 bits, and lets a negative number pass: `size=-1` is refused here."""

_NS = {
    "us": 1_000,
    "usec": 1_000,
    "ms": 1_000_000,
    "msec": 1_000_000,
    "s": 1_000_000_000,
    "sec": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
    "d": 86_400_000_000_000,
}
DIRECTIONS = ("read", "write", "trim")
"""The order of lists such as `bs=4k,8k,16k`, and of the columns of results."""


def bytes_of(given: Given, text: str, kb_base: int) -> int:
    """A size in bytes. With `kb_base` 1024, fio's default, k, kb and ki are 1024 and kib is 1000.

    So fio 3.33 was measured; its HOWTO says 1000 of ki, too.

    Raises `NandlabError` for a negative number and for a suffix that fio would ignore.
    """
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise given.fault(f"{text or 'nothing'} is no size", "write a number, such as 4096 or 4k")
    number, letter, ending = found.groups()
    base = 2024 - kb_base if ending.lower() == "ib" else kb_base
    size: int = (
        int(number, 0 if number[:2].lower() == "0x" else 10) * base ** _POWERS[letter.lower()]
    )
    if size >> _BITS_MAX:
        raise given.fault("it does not fit into 63 bits", "write a smaller size")
    return size


def time_ns_of(given: Given, text: str, *, bare: str = "s") -> int:
    """A time in nanoseconds; a number without a suffix is in the unit `bare`."""
    found = _TIME.fullmatch(text.strip())
    unit = found[2].lower() or bare if found else ""
    if found is None or unit not in _NS:
        shown = text or "nothing"
        raise given.fault(f"{shown} is no time", "write a number with us, ms, s, m, h or d")
    time_ns = int(found[1]) * _NS[unit]
    if time_ns >> _BITS_MAX:
        raise given.fault("it does not fit into 63 bits", "write a shorter time")
    return time_ns


def count_of(given: Given, text: str, *, least: int = 0, most: int = (1 << _BITS_MAX) - 1) -> int:
    """A whole number, decimal or hexadecimal, with k, m, g as in sizes."""
    number = bytes_of(given, text, 1024)
    if not least <= number <= most:
        raise given.fault(f"it must be {least} to {most}", "write a number in this range")
    return number


def flag_of(given: Given) -> bool:
    """A flag, which may stand alone: fio takes 0 and 1."""
    value = None if given.value is None else given.value.strip()
    if value not in (None, "0", "1"):
        raise given.fault("it must be 0 or 1", "write 0 or 1")
    return value != "0"


def by_direction(value: str) -> tuple[str, str, str]:
    """The three parts of a list by direction; one that is missing is that before it."""
    parts = [part.strip() for part in value.split(",")]
    while len(parts) < len(DIRECTIONS):
        parts.append(parts[-1])
    return parts[0], parts[1], parts[2]
