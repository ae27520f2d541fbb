"""Sizes such as 100MiB, as people write them."""

import re
from fractions import Fraction

from nandlab.errors import NandlabError

_UNITS = {
    "": 1,
    "B": 1,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
}


def parse_bytes(text: str, place: str) -> int:
    """Bytes in `text`, with a unit from B to GB or GiB. `place` names the option."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", text)
    if match is None or match[2] not in _UNITS:
        units = ", ".join(unit for unit in _UNITS if unit)
        raise NandlabError(f"{place}: {text!r} is not a size: write 100MiB; units are {units}")
    # Exact: a float would round what comes near to 2^64, and has no number of 400 digits.
    size_bytes = Fraction(match[1]) * _UNITS[match[2]]
    if size_bytes < 1 or size_bytes.denominator != 1:
        raise NandlabError(f"{place}: {text!r} is not a whole number of bytes above 0")
    return int(size_bytes)


DAYS_OF_A_YEAR = 365.25
"""A Julian year, as in the engine."""

_DAYS = {"s": 1 / 86_400, "hour": 1 / 24, "h": 1 / 24, "day": 1.0, "d": 1.0, "week": 7.0}
"""Days of the periods that a rate may have."""


def bytes_a_day(given: int | str, place: str) -> float:
    """Bytes a day of a rate such as `20GB/day` or `1MiB/s`; a size alone is that of a day.

    `place` names the option. Raises `NandlabError` for what is no rate.
    """
    if isinstance(given, int):
        return float(natural_number(place, given, bits=64))
    size, slash, period = given.partition("/")
    if slash and period.strip() not in _DAYS:
        raise NandlabError(
            f"{place}: {given!r} is not a rate: write 20GB/day; periods are {', '.join(_DAYS)}"
        )
    return parse_bytes(size, place) / _DAYS[period.strip() or "day"]


def natural_number(place: str, value: int, *, least: int = 1, bits: int = 32) -> int:
    """`value`, if it is at least `least` and fits in so many bits. `place` names the option."""
    if not least <= value < 2**bits:
        raise NandlabError(f"{place}: {value} must be at least {least} and below 2^{bits}")
    return value


def format_bytes(size_bytes: float) -> str:
    """`size_bytes` in the largest binary unit that leaves at least 1."""
    for unit in ("GiB", "MiB", "KiB"):
        if size_bytes >= _UNITS[unit]:
            return f"{size_bytes / _UNITS[unit]:,.1f} {unit}"
    return f"{size_bytes:,.0f} B"
