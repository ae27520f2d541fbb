"""Distributions of latency beside the normal distribution with the same mean and deviation."""

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import NormalDist

from nandlab.verdicts.wording import duration

NORMAL_COLUMNS = (
    "mean",
    "standard deviation",
    "median",
    "the normal's part below 0",
    "reads beyond mean + 4 deviations",
    "the normal's",
)
"""What tells a distribution from its normal."""


def against_normal(
    buckets: Sequence[tuple[int, int, int]],
) -> tuple[list[dict[str, float]], list[dict[str, float]], list[str]]:
    """Points of the histogram and of its fitted normal, and `NORMAL_COLUMNS` of the two.

    `buckets` are lowest latency, highest latency and count.
    """
    count = sum(one for _, _, one in buckets)
    middles = [((low + high) / 2, one) for low, high, one in buckets]
    mean = math.fsum(at * one for at, one in middles) / count
    deviation = math.sqrt(math.fsum((at - mean) ** 2 * one for at, one in middles) / count) or 1.0
    normal = NormalDist(mean, deviation)
    measured = [{"ms": at / 1e6, "share": 100 * one / count} for at, one in middles]
    edges = _edges(buckets[0][0], buckets[-1][1])
    fitted = [
        {
            "ms": (low + high) / 2e6,
            "share": 100 * (normal.cdf(high) - normal.cdf(low)),
        }
        for low, high in pairwise(edges)
    ]
    far = math.fsum(one for at, one in middles if at > mean + 4 * deviation) / count
    passed, median = 0, 0.0
    for at, one in middles:
        passed += one
        if passed * 2 >= count:
            median = at
            break
    line = [
        duration(mean),
        duration(deviation),
        duration(median),
        f"{100 * normal.cdf(0):.0f} %",
        f"{100 * far:.2g} %",
        f"{100 * (1 - NormalDist().cdf(4)):.2g} %",
    ]
    return measured, fitted, line


def _edges(low: int, high: int) -> list[int]:
    """Bucket edges an eighth of a power of two apart."""
    edges = [max(low, 8)]
    while edges[-1] <= high:
        edges.append(edges[-1] + (1 << (edges[-1].bit_length() - 1) >> 3))
    return edges
