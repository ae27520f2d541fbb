"""The verdict on a life: does it last as many years as were asked for, and with what margin."""

import math
from dataclasses import dataclass

from nandlab.byte_sizes import DAYS_OF_A_YEAR
from nandlab.present.units import large_size, number


@dataclass(frozen=True)
class Span:
    """A life between two ends, in bytes of the host and in years at the workload's rate."""

    low_bytes: int
    high_bytes: int
    is_more: bool
    """The high end is a bound: the life may be longer."""
    low_years: float | None = None
    high_years: float | None = None


def span(ends: list[tuple[int, bool]], bytes_per_day: float | None) -> Span:
    """The span of ends, each in bytes and whether it is a bound only."""
    low = min(end for end, _ in ends)
    high = max(end for end, _ in ends)
    is_more = any(more for end, more in ends if end == high)
    if bytes_per_day is None:
        return Span(low, high, is_more)
    bytes_a_year = bytes_per_day * DAYS_OF_A_YEAR
    return Span(low, high, is_more, low / bytes_a_year, high / bytes_a_year)


def years_text(one: Span) -> str:
    """The span in years: `31 to 45 years`, or `more than 31 years`."""
    if one.low_years is None or one.high_years is None:
        return "no rate"
    return f"{_between(one.low_years, one.high_years, is_more=one.is_more)} years"


def bytes_text(one: Span) -> str:
    """The span in bytes."""
    low, high = large_size(one.low_bytes), large_size(one.high_bytes)
    if one.is_more:
        return f"more than {low}"
    return low if low == high else f"{low} to {high}"


def _between(low: float, high: float, *, is_more: bool) -> str:
    first, second = number(low), number(high)
    if is_more:
        return f"more than {first}"
    return first if first == second else f"{first} to {second}"


def verdict(one: Span, years: float, *, writes: bool = True) -> str:
    """`yes`, `no` or `not certain`, with the margin over the years that were asked for."""
    if not writes:
        return "yes: the workload writes nothing"
    if one.low_years is None or one.high_years is None:
        return "unknown: the workload has no times; give its rate with --rate"
    low, high = one.low_years / years, one.high_years / years
    margin = _between(_floor(low), _floor(high), is_more=one.is_more)
    if low >= 1:
        return f"yes, with a margin of {margin}"
    if high < 1 and not one.is_more:
        return f"no: it lasts {years_text(one)}"
    return f"not certain: it lasts {years_text(one)}"


def _floor(value: float) -> float:
    """Cut to three digits, so that no margin is rounded up."""
    if value <= 0 or not math.isfinite(value):
        return 0.0
    unit = 10.0 ** (math.floor(math.log10(value)) - 2)
    return math.floor(value / unit + 1e-9) * unit
