"""How far the simulated table lies from the published one."""

import math
from collections.abc import Iterable

from nandlab.results import Measurements, Table
from nandlab.results.measurements import mean, mean_absolute_log_ratio
from nandlab.verdicts.model import Distance, Nearness
from nandlab.verdicts.published_view import COLUMNS, READINGS, View, variants

ALL_WORKLOADS = "all"


def distances(measurements: Measurements, reference: Table) -> list[Distance]:
    """Every cell of the published table under every variant and reading, over all workloads."""
    return [
        distance
        for variant in variants(measurements)
        for reading in READINGS
        for distance in _cells(View(measurements, variant, reading), reference, {})
    ]


def nearness(measurements: Measurements, reference: Table) -> list[Nearness]:
    """Nearness of every variant and reading.

    Over all workloads, over those of each file set, and to the nearest single workload.
    """
    found = []
    for variant in variants(measurements):
        for reading in READINGS:
            view = View(measurements, variant, reading)
            pooled = _nearness(_cells(view, reference, {}), ALL_WORKLOADS)
            single = [
                _nearness(_cells(view, reference, place), "/".join(place.values()))
                for place in view.workloads()
            ]
            near = [one for one in single if one is not None]
            if pooled is not None:
                found.append(pooled)
            sets = [
                _nearness(_cells(view, reference, {"file_set": name}), f"all {name}")
                for name in measurements.axis_values("file_set")
            ]
            found += [one for one in sets if one is not None]
            if near:
                found.append(min(near, key=lambda one: one.means_factor))
    return found


def nearest(candidates: Iterable[Nearness]) -> Nearness | None:
    """The nearest over all workloads."""
    pooled = [one for one in candidates if one.workload == ALL_WORKLOADS]
    return min(pooled, key=lambda one: one.means_factor, default=None)


def _cells(view: View, reference: Table, place: dict[str, str]) -> list[Distance]:
    found = []
    for row in reference.dicts():
        for column in COLUMNS:
            simulated = view.window(column, row["statistic"], row["ftl"], **place)
            if simulated:
                found.append(
                    Distance(
                        view.variant.label,
                        view.reading,
                        row["ftl"],
                        column,
                        row["statistic"],
                        row[column],
                        simulated,
                    )
                )
    return found


def _nearness(cells: list[Distance], workload: str) -> Nearness | None:
    ratios = {
        statistic: [cell.ratio for cell in cells if cell.statistic == statistic]
        for statistic in ("mean", "stddev")
    }
    means = mean_absolute_log_ratio(ratios["mean"])
    centre = mean(math.log(ratio) for ratio in ratios["mean"])
    if means is None or centre is None:
        return None
    spreads = mean_absolute_log_ratio(ratios["stddev"])
    shape = mean_absolute_log_ratio(ratio / math.exp(centre) for ratio in ratios["mean"])
    return Nearness(
        variant=cells[0].variant,
        reading=cells[0].reading,
        workload=workload,
        means_factor=math.exp(means),
        spreads_factor=math.exp(spreads) if spreads is not None else None,
        scale=math.exp(-centre),
        shape_factor=math.exp(shape or 0.0),
    )
