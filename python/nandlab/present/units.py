"""Numbers in the units that people read."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

_STEPS: dict[str, tuple[tuple[float, str], ...]] = {
    "bytes": ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B")),
    "bytes/s": ((2**30, "GiB/s"), (2**20, "MiB/s"), (2**10, "KiB/s"), (1, "B/s")),
    "ns": ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1, "ns")),
    "s": ((1, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")),
}
"""Larger units of a unit, largest first."""

_SAME = {"B": "bytes", "bytes_per_second": "bytes/s", "B/s": "bytes/s", "seconds": "s"}


_MANY = 10
"""From this ratio on a change is shown as one."""


@dataclass(frozen=True)
class Scale:
    """A unit to show values in: the size of one, and its name."""

    size: float
    unit: str

    def titled(self, title: str) -> str:
        """A heading with the unit."""
        return f"{title} ({self.unit})" if self.unit else title


def scale_of(values: Iterable[float | None], unit: str) -> Scale:
    """The unit in which the largest of `values` is at least 1."""
    most = max((abs(value) for value in values if value is not None), default=0.0)
    base = _SAME.get(unit, unit)
    for size, name in _STEPS.get(base, ()):
        if most >= size:
            return Scale(size, name)
    if base in ("change", "share"):
        return Scale(0.01, "%")
    steps = _STEPS.get(base)
    if steps:
        return Scale(*steps[-1])
    plain = {"ratio": "", "part of 1": "", "×": "×", "count": ""}
    return Scale(1.0, plain.get(unit, unit))


def number(value: float | None, digits: int = 3) -> str:
    """About `digits` significant digits, thousands separated; `-` of nothing."""
    if value is None or not math.isfinite(value):
        return "-"
    if value == 0:
        return "0"
    decimals = digits - 1 - math.floor(math.log10(abs(value)))
    if decimals <= 0:
        return f"{value:,.0f}"
    if decimals > 6:
        return f"{value:.{digits - 1}e}"
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if value == int(value) else text


def percent(part: float) -> str:
    """A part of 1 in percent."""
    size = abs(part * 100)
    return f"{part * 100:.0f} %" if size >= 10 or size == 0 else f"{part * 100:.1f} %"


def large_size(value: float) -> str:
    """Bytes in decimal and in binary units, as `19.7 TB (17.9 TiB)`: they differ by a tenth."""
    for power, letter in ((5, "P"), (4, "T"), (3, "G"), (2, "M"), (1, "k")):
        if value >= 1000**power:
            decimal, binary = value / 1000**power, value / 1024**power
            return f"{number(decimal)} {letter}B ({number(binary)} {letter.upper()}iB)"
    return f"{number(value)} B"


def estimate_text(value: float | None, unit: str) -> str:
    """An estimate of a claim: a change in percent, a ratio with its sign, others with a unit.

    A growth to ten times and more is shown as a ratio: percents of that size are hard to read.
    """
    if value is None:
        return "-"
    if unit == "change" and value >= _MANY - 1:
        return f"×{number(value + 1)}"
    if unit == "change":
        if abs(value) < 0.0005:
            return "0 %"
        return f"{value * 100:+.0f} %" if abs(value) >= 0.1 else f"{value * 100:+.1f} %"
    if unit == "share":
        return f"{value * 100:.3g} %"
    scale = scale_of([value], unit)
    text = number(value / scale.size)
    if scale.unit == "×":
        return f"×{text}"
    return f"{text} {scale.unit}".strip()


def interval_text(low: float | None, high: float | None, unit: str) -> str:
    """An interval, as `1.02 to 1.08`; `-` where there is none."""
    if low is None or high is None:
        return "-"
    if unit in ("change", "share"):
        return f"{estimate_text(low, unit)} to {estimate_text(high, unit)}"
    scale = scale_of([low, high], unit)
    shown_unit = "" if scale.unit == "×" else scale.unit
    ends = " to ".join(_ends(low / scale.size, high / scale.size))
    return f"{ends} {shown_unit}".strip()


def _ends(low: float, high: float) -> tuple[str, str]:
    """Both ends of an interval with as many decimals as the larger, and more until they differ."""
    most, least = max(abs(low), abs(high)), min(abs(low), abs(high))
    if low == high or not math.isfinite(most) or most >= _MANY * least:
        return number(low), number(high)
    fewest = max(0, 2 - math.floor(math.log10(most)))
    for decimals in range(fewest, fewest + 4):
        shown = f"{low:,.{decimals}f}", f"{high:,.{decimals}f}"
        if shown[0] != shown[1]:
            break
    return shown
