"""How large the effect of the scheduler is on a file system: eta squared, ours and published."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nandlab.verdicts.scheduler_filesystem_view import FILE_SYSTEMS, MAIN, SCHEDULERS, TESTS, View
from nandlab.verdicts.wording import joined, percent


@dataclass(frozen=True)
class Effect:
    """What part of the variance of times the scheduler accounts for.

    Times are taken relative to the mean of their size of the file, so that every size weighs the
    same: what is left is schedulers, their interplay with the size, and repeats.
    """

    eta_squared: float
    """Sum of squares between schedulers over the whole sum of squares; 0 if nothing varies."""
    by_chance: float
    """What it is in the mean if schedulers do nothing and every time is drawn alike."""
    spread: float
    """How much longer the slowest scheduler takes than the fastest, as a part of it."""


@dataclass(frozen=True)
class Effects:
    """The effect on a test of a file system; None where nothing was run, or is published."""

    file_system: str
    test: str
    ours: Effect | None
    published: Effect | None


def effects(view: View) -> list[Effects]:
    """The effect on every file system that ran, test by test."""
    return [
        Effects(name, test, _ours(view, name, test), _published(view, name, test))
        for name in view.file_systems()
        for test in TESTS
    ]


def effect(times: Sequence[Mapping[str, Sequence[float]]]) -> Effect | None:
    """The effect in the times of each scheduler, one mapping a size; None with one scheduler.

    Every scheduler has as many times as the others.
    """
    groups: dict[str, list[float]] = {}
    for of_size in times:
        middle = _mean([_mean(found) for found in of_size.values()])
        for scheduler, found in of_size.items():
            groups.setdefault(scheduler, []).extend(one / middle for one in found)
    if len(groups) < 2 or len({len(found) for found in groups.values()}) != 1:
        return None
    means = [_mean(found) for found in groups.values()]
    # The mean of the groups' means, not of all times: of equal groups it is exactly their mean, so
    # that a tie is exactly 0.
    grand = _mean(means)
    count = sum(map(len, groups.values()))
    between = math.fsum((one - grand) ** 2 for one in means) * count / len(groups)
    whole = math.fsum((one - grand) ** 2 for found in groups.values() for one in found)
    return Effect(
        between / whole if whole else 0.0,
        (len(groups) - 1) / (count - 1) if count > 1 else 0.0,
        max(means) / min(means) - 1,
    )


def sentence(view: View) -> str:
    """The effects in words."""
    parts = [
        f"{FILE_SYSTEMS.get(one.file_system, one.file_system)} {one.test} "
        f"{one.ours.eta_squared:.2g}"
        + ("" if one.published is None else f" ({one.published.eta_squared:.2g})")
        for one in effects(view)
        if one.ours is not None
    ]
    if not parts:
        return ""
    chance = next((one.published for one in effects(view) if one.published is not None), None)
    note = (
        ""
        if chance is None
        else f"; by chance the published cells would have {percent(chance.by_chance)} in the mean"
    )
    return (
        "Effect size of the scheduler, the part of the variance of times (relative to the mean of "
        f"their size) that it accounts for, in brackets published: {joined(parts)}{note}."
    )


def _ours(view: View, name: str, test: str) -> Effect | None:
    times = []
    for size in view.sizes(name):
        repeats = {
            scheduler: view.runs.repeats(
                "elapsed_ns", view.place(name, test, size, MAIN, scheduler)
            )
            for scheduler in SCHEDULERS
        }
        ran = {scheduler: found for scheduler, found in repeats.items() if found}
        if len(ran) > 1:
            shared = sorted(set.intersection(*(set(found) for found in ran.values())))
            times.append({one: [found[key] for key in shared] for one, found in ran.items()})
    return effect(times)


def _published(view: View, name: str, test: str) -> Effect | None:
    sizes = {size for system, one, _, size in view.published if (system, one) == (name, test)}
    cells = [view.published_cells(name, test, size) for size in sorted(sizes - {"mean"}, key=float)]
    return effect([{one: [seconds] for one, seconds in found.items()} for found in cells])


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
