"""Relative changes between paired runs, with their confidence intervals."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

# Two-sided 95 % points of Student's t for 1, 2, 3 … degrees of freedom (any statistical table).
_T_95 = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
_NORMAL_95 = 1.960


@dataclass(frozen=True)
class Change:
    """A relative change, -0.5 for half as much, and its 95 % interval over `repeats` pairs.

    With one pair the interval is the whole axis, from -1 to infinity: nothing is known of it.
    """

    value: float
    low: float
    high: float
    repeats: int


def change(ratios: Sequence[float]) -> Change:
    """The geometric mean of `ratios`, one for each pair of runs, as a change.

    The interval is Student's on the logarithms: ratios of 2 and 1/2 cancel.
    """
    logs = [math.log(ratio) for ratio in ratios]
    middle = math.fsum(logs) / len(logs)
    if len(logs) == 1:
        return Change(math.expm1(middle), -1.0, math.inf, 1)
    variance = math.fsum((one - middle) ** 2 for one in logs) / (len(logs) - 1)
    freedom = len(logs) - 1
    t = _T_95[freedom - 1] if freedom <= len(_T_95) else _NORMAL_95
    half = t * math.sqrt(variance / len(logs))
    return Change(
        math.expm1(middle), math.expm1(middle - half), math.expm1(middle + half), len(logs)
    )


def geometric_mean(values: Sequence[float]) -> float:
    """Geometric mean of positive numbers."""
    return math.exp(math.fsum(math.log(value) for value in values) / len(values))
