"""Numbers and names as people read them."""

import math
from collections.abc import Sequence

_FTL_NAMES = {
    "bast": "BAST",
    "dftl": "DFTL",
    "fast": "FAST",
    "lexar": "Lexar",
    "m-systems": "M-Systems",
    "m-systems-anand": "M-Systems ANAND",
    "mitsubishi": "Mitsubishi",
    "page": "page mapping",
}


def ftl_name(name: str) -> str:
    """A translation layer as its publication writes it."""
    return _FTL_NAMES.get(name, name)


def number(value: float | None) -> str:
    """About three significant digits, thousands separated."""
    if value is None or not math.isfinite(value):
        return "-"
    size = abs(value)
    if size >= 1000 or value == int(value):
        return f"{value:,.0f}"
    if size >= 100:
        return f"{value:.0f}"
    if size >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if size >= 0.1 else f"{value:.3g}"


def percent(part: float) -> str:
    """A part of 1 in percent."""
    size = abs(part * 100)
    return f"{part * 100:.0f} %" if size >= 10 or size == 0 else f"{part * 100:.1f} %"


def times(factor: float) -> str:
    """A factor, as in `1.6 times`."""
    return f"{factor:.1f} times" if factor >= 1.95 else f"{factor:.2f} times"


def joined(words: Sequence[str]) -> str:
    """Words with commas and a last `and`."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def signed_percent(part: float) -> str:
    """A change in whole percent, with its sign."""
    if not math.isfinite(part):
        return "+∞ %"
    rounded = round(part * 100)
    return f"{rounded:+d} %".replace("-", "−") if rounded else "0 %"


def duration(nanoseconds: float) -> str:
    """A time with the unit that suits it."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if nanoseconds >= size:
            return f"{number(nanoseconds / size)} {unit}"
    return f"{number(nanoseconds)} ns"


def large_size(value: float) -> str:
    """Bytes in decimal and in binary units, as `19.7 TB (17.9 TiB)`: they differ by a tenth."""
    for power, letter in ((5, "P"), (4, "T"), (3, "G"), (2, "M"), (1, "k")):
        if value >= 1000**power:
            decimal, binary = value / 1000**power, value / 1024**power
            return f"{number(decimal)} {letter}B ({number(binary)} {letter.upper()}iB)"
    return f"{number(value)} B"
