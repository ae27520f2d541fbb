"""Intervals over independent repeats, and the rule that turns an interval into a status."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from statistics import NormalDist
from typing import Any

LEVEL = 0.95
"""Confidence level of every interval."""

LEAST_REPLICATES = 3
"""With fewer independent replicates a claim is undecided: an interval of two spans everything."""

_NORMAL_POINT = 1.959964
"""The 97.5 % point of the normal distribution."""

_T_POINTS = (
    12.706204736174694, 4.302652729749462, 3.1824463052837078, 2.7764451051977934,
    2.5705818356363146, 2.4469118511449786, 2.364624251592784, 2.306004135204166,
    2.262157162798205, 2.228138851986274, 2.200985160091639, 2.1788128296672284,
    2.1603686564627913, 2.144786687917804, 2.131449545559776, 2.1199052992212546,
    2.1098155778333156, 2.1009220402410382, 2.0930240544083087, 2.085963447265864,
    2.0796138447276795, 2.0738730679040254, 2.0686576104190486, 2.0638985616280245,
    2.0595385527532972, 2.0555294386428735, 2.0518305164802846, 2.0484071417952454,
    2.045229642132703, 2.0422724563012378, 2.039513446396408, 2.0369333434601016,
    2.0345152974493383, 2.0322445093177186, 2.030107928250343, 2.0280940009804502,
    2.0261924630291093, 2.0243941639119694, 2.022690920036761, 2.021075390306273,
)  # fmt: skip
"""The 97.5 % points of Student's distribution of 1, 2, 3 and more degrees of freedom.

They are scipy's, which takes longer to load than a report takes; a test compares them with it.
"""

DRAWS = 2_000
"""Bootstrap draws of windows."""

DIFFERENCE_LEAST = 1e-6
"""Smaller relative differences are ties: a recorded value has six digits, which hide them."""

CERTAINTY = {"printed": 1.0, "read off": 1.5, "reconstructed": 2.0}
"""Factor on a claim's tolerance, by how the published cell is known."""


class Status(StrEnum):
    """What a run says to a claim."""

    SUPPORTED = "supported"
    CONTRADICTED = "contradicted"
    UNDECIDED = "undecided"
    BY_CONSTRUCTION = "by construction"
    NOT_RUN = "not run"
    NOT_JUDGED = "not judged"


@dataclass(frozen=True)
class Interval:
    """An estimate with its 95 % interval over `n` independent replicates.

    `low` and `high` are None where `n` is below `LEAST_REPLICATES`.
    """

    estimate: float
    low: float | None
    high: float | None
    n: int

    def mapped(self, function: Any) -> "Interval":
        """The interval of an increasing function of the quantity."""
        ends = [None if end is None else float(function(end)) for end in (self.low, self.high)]
        return Interval(float(function(self.estimate)), ends[0], ends[1], self.n)


@dataclass(frozen=True)
class Region:
    """What a claim allows: values above `above` and below `below`, both excluded."""

    above: float = -math.inf
    below: float = math.inf


def status_of(found: Interval, region: Region) -> Status:
    """The status that the interval alone decides.

    Supported if the interval lies wholly inside the region, contradicted if wholly outside,
    undecided if it holds both answers or rests on too few replicates. A value on the bound, or
    within `DIFFERENCE_LEAST` of it, is outside: equal candidates never differ.
    """
    if found.n < LEAST_REPLICATES or found.low is None or found.high is None:
        return Status.UNDECIDED
    above, below = _inwards(region.above, 1), _inwards(region.below, -1)
    if above < found.low and found.high < below:
        return Status.SUPPORTED
    if found.high <= above or found.low >= below:
        return Status.CONTRADICTED
    return Status.UNDECIDED


def _inwards(bound: float, sign: int) -> float:
    """A bound of a region, moved into it by the least difference that counts."""
    return bound + sign * abs(bound) * DIFFERENCE_LEAST if math.isfinite(bound) else bound


def t_interval(values: Sequence[float]) -> Interval:
    """Student's interval of the mean of independent values."""
    n = len(values)
    mean = math.fsum(values) / n
    if n < LEAST_REPLICATES:
        return Interval(mean, None, None, n)
    variance = math.fsum((one - mean) ** 2 for one in values) / (n - 1)
    half = t_point(n - 1) * math.sqrt(variance / n)
    return Interval(mean, mean - half, mean + half, n)


def log_interval(values: Sequence[float]) -> Interval:
    """The interval of the geometric mean of positive values; 2 and 1/2 cancel."""
    return t_interval([math.log(one) for one in values]).mapped(math.exp)


def percentile_interval(estimate: float, draws: Any, blocks: int) -> Interval:
    """The interval that holds the middle 95 % of bootstrap draws over `blocks` blocks."""
    import numpy

    if blocks < LEAST_REPLICATES:
        return Interval(estimate, None, None, blocks)
    low, high = numpy.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    # Few blocks: as much wider as Student's interval is than the normal one.
    wider = t_point(blocks - 1) / _NORMAL_POINT * math.sqrt(blocks / (blocks - 1))
    ends = [estimate + wider * (float(end) - estimate) for end in (low, high)]
    return Interval(estimate, ends[0], ends[1], blocks)


def share_interval(successes: int, trials: int) -> Interval:
    """Wilson's interval of a share of independent trials."""
    if trials < LEAST_REPLICATES:
        return Interval(successes / trials, None, None, trials)
    share, point = successes / trials, NormalDist().inv_cdf((1 + LEVEL) / 2)
    spread = math.sqrt((share * (1 - share) + point**2 / (4 * trials)) / trials)
    middle, half = share + point**2 / (2 * trials), point * spread
    low, high = ((middle + end) / (1 + point**2 / trials) for end in (-half, half))
    # At the ends rounding would leave a share of 1e-18 that "more than 0" takes for evidence.
    low, high = 0.0 if successes == 0 else low, 1.0 if successes == trials else high
    return Interval(share, low, high, trials)


def block_length(windows: int) -> int:
    """Windows in a block: twice the cube root of their number.

    The theory of block resampling asks for a multiple of the cube root. Twice holds 95 % for
    windows that share half of their deviation with the next one (python/tests has the figures).
    """
    return max(1, math.ceil(2 * math.cbrt(windows)))


@cache
def block_indices(windows: int) -> Any:
    """Resampled windows: `DRAWS` rows of indices made of circular blocks.

    The same number of windows always gives the same indices, so that two layers under one trace
    are compared window by window.
    """
    import numpy

    length = block_length(windows)
    # The legacy generator's stream is frozen across versions of numpy.
    starts = numpy.random.RandomState(windows).randint(
        0, windows, size=(DRAWS, math.ceil(windows / length))
    )
    indices = (starts[:, :, None] + numpy.arange(length)) % windows
    return indices.reshape(DRAWS, -1)[:, :windows]


@cache
def t_point(freedom: int) -> float:
    """The 97.5 % point of Student's distribution."""
    if freedom <= len(_T_POINTS):
        return _T_POINTS[freedom - 1]
    # `scipy.stats` takes half a second to import; this is the function its `t.ppf` calls.
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1 + LEVEL) / 2))
