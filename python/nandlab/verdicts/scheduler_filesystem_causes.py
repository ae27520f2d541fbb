"""What can make the same cell of IOzone take another time: spans, published and simulated."""

from dataclasses import dataclass

from nandlab.verdicts.scheduler_filesystem_view import (
    DATA_WORDS,
    DATASHEET,
    MAIN,
    SCHEDULERS,
    TESTS,
    Setting,
    View,
)
from nandlab.verdicts.wording import joined

SLOW = 1.4
"""A cell this many times the least of its size is called slow."""

RUNS = 10
"""Runs behind a published cell."""


@dataclass(frozen=True)
class Span:
    """How far the times of one cell lie apart, as most divided by least."""

    file_system: str
    test: str
    size: str
    published: float
    """Over the schedulers."""
    ours: float
    """Over the state of the flash, the bytes and the repeats, with the cache cold."""
    repeats: float
    """Over the repeats of the main setting alone."""
    least: str
    most: str

    @property
    def is_explained(self) -> bool:
        """Whether what has nothing to do with schedulers moves the cell as far."""
        return self.ours >= self.published


def spans(view: View) -> list[Span]:
    """The spans of all cells that are published and were run in more than one setting."""
    found = []
    for file_system in view.raw_file_systems():
        for test in TESTS:
            for size in view.sizes(file_system):
                published = list(view.published_cells(file_system, test, size).values())
                ours = _by_setting(view, file_system, test, size)
                main = view.repeats(file_system, test, size, MAIN)
                if len(published) < 2 or len(ours) < 2 or not main:
                    continue
                least, most = (
                    min(ours, key=lambda one: ours[one][0]),
                    max(ours, key=lambda one: ours[one][1]),
                )
                found.append(
                    Span(
                        file_system,
                        test,
                        size,
                        max(published) / min(published),
                        ours[most][1] / ours[least][0],
                        max(main) / min(main),
                        _words(least),
                        _words(most),
                    )
                )
    return found


def _by_setting(
    view: View, file_system: str, test: str, size: str
) -> dict[Setting, tuple[float, float]]:
    """Least and most time in every setting that differs by what the publication does not tell."""
    found = {}
    for setting in view.settings():
        if setting.board == DATASHEET or setting.cache != "cold" or setting.passes != "1":
            continue
        times = view.repeats(file_system, test, size, setting)
        if times:
            found[setting] = (min(times), max(times))
    return found


def _words(setting: Setting) -> str:
    return f"{setting.flash} flash, {DATA_WORDS.get(setting.data, setting.data)}"


@dataclass(frozen=True)
class SlowStretch:
    """The slow cells of a scheduler in a series from the smallest file to the largest."""

    scheduler: str
    sizes: tuple[str, ...]
    mebibytes: float
    """Written while the cells were slow, over all runs."""
    is_at_start: bool
    """No slow cell comes after one that is not slow."""


def slow_stretches(view: View, file_system: str, test: str) -> list[SlowStretch]:
    """For each scheduler the published cells that are slow against the least of their size."""
    known = {key[3] for key in view.published if key[3] != "mean"}
    sizes = sorted(known, key=float)
    ratios: dict[str, dict[str, float]] = {}
    for size in sizes:
        cells = view.published_cells(file_system, test, size)
        for scheduler, seconds in cells.items():
            ratios.setdefault(scheduler, {})[size] = seconds / min(cells.values())
    found = []
    for scheduler in SCHEDULERS:
        of_sizes = ratios.get(scheduler, {})
        slow = tuple(size for size in sizes if of_sizes.get(size, 1.0) >= SLOW)
        written = sum(float(size) * RUNS for size in slow)
        found.append(SlowStretch(scheduler, slow, written, slow == tuple(sizes[: len(slow)])))
    return found


def stretch_words(stretches: list[SlowStretch]) -> str:
    """The stretches in words."""
    parts = [
        f"{one.scheduler} at {joined(one.sizes)} MiB" if one.sizes else f"{one.scheduler} never"
        for one in stretches
    ]
    return joined(parts)
