"""Distributions of latency beside the normal distribution with the same mean and deviation."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import NormalDist
from typing import Any

from nandlab.report import charts
from nandlab.report.parts import DataTable, Figure, numeric
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


@dataclass
class ReadDistributions:
    """Distributions of reads at the sizes of one load, for several schedulers."""

    lines: list[list[str]] = field(default_factory=list)

    def at_size(
        self, size: str, rows: Mapping[str, Iterable[Mapping[str, str]]]
    ) -> list[dict[str, Any]]:
        """Takes a size: rows of the table `latencies` by the scheduler's name; points to draw."""
        curves: list[dict[str, Any]] = []
        for name, found in rows.items():
            buckets = [(int(row["from_ns"]), int(row["to_ns"]), int(row["count"])) for row in found]
            if not buckets:
                continue
            measured, normal, line = against_normal(buckets)
            self.lines.append([size, name, *line])
            curves += [{**point, "what": name} for point in measured]
            curves += [{**point, "what": f"normal fitted to {name}"} for point in normal]
        return curves

    def table(self, label: str) -> list[DataTable]:
        """What tells the distributions from their normals; nothing if there are none."""
        columns = ("KiB", "scheduler", *NORMAL_COLUMNS)
        title = f"Reads against the normal with the same mean and deviation, {label}"
        places = numeric(2, len(NORMAL_COLUMNS))
        return [DataTable(title, columns, self.lines, places)] if self.lines else []


def distribution_figure(
    identifier: str,
    size: str,
    curves: Sequence[Mapping[str, Any]],
    *,
    place: str = "",
    is_main: bool = False,
) -> Figure:
    """The distributions at a size, with their normals; `place` says where, if that is not plain."""
    return Figure(
        identifier,
        f"Latency of reads at {size} KiB" + (f", {place}" if place else ""),
        "Share of the reads in each eighth of a power of two; the normal has the same mean and "
        "standard deviation.",
        charts.lines(
            curves,
            x="ms",
            y="share",
            series="what",
            x_title="latency (ms)",
            y_title="share of reads (%)",
            about=f"Distribution of read latency at {size} KiB with fitted normals",
            logarithmic_x=True,
        ),
        is_main=is_main,
    )


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
