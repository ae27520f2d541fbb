"""Changes between two places of a study, paired by repeat and gathered over request sizes."""

import math
from collections.abc import Mapping, Sequence

from nandlab.verdicts.confidence import Change, change, geometric_mean
from nandlab.verdicts.job_runs import JobRuns
from nandlab.verdicts.wording import signed_percent


def repeat_ratios(
    runs: JobRuns, metric: str, ours: Mapping[str, str], theirs: Mapping[str, str]
) -> dict[int, float]:
    """The metric at one place as a multiple of that at another, for each repeat that has both."""
    mine, others = runs.repeats(metric, ours), runs.repeats(metric, theirs)
    return {
        repeat: value / others[repeat]
        for repeat, value in mine.items()
        if value > 0 and others.get(repeat, 0) > 0
    }


def common_repeats(found: Sequence[Mapping[int, float]]) -> list[int]:
    """Repeats that all of `found` have."""
    return [repeat for repeat in (found[0] if found else {}) if all(repeat in one for one in found)]


def typical_change(by_size: Sequence[Mapping[int, float]]) -> Change | None:
    """The change at the typical size: the geometric mean of ratios over sizes, for each repeat."""
    repeats = common_repeats(by_size)
    if not repeats:
        return None
    return change([geometric_mean([one[repeat] for one in by_size]) for repeat in repeats])


def interval(found: Change) -> str:
    """A change with its interval, for a sentence."""
    if found.repeats < 2:
        return f"{signed_percent(found.value)} (one run: no interval)"
    return interval_cell(found)


def interval_cell(found: Change | None) -> str:
    """A change with its interval, for a cell of a table."""
    if found is None:
        return "-"
    if found.repeats < 2 or not math.isfinite(found.high):
        return signed_percent(found.value)
    return (
        f"{signed_percent(found.value)} ({signed_percent(found.low)} to "
        f"{signed_percent(found.high)})"
    )


def longer_or_shorter(found: Change) -> str:
    """A change of a latency in words."""
    word = "shorter" if found.value < 0 else "longer"
    return f"{abs(found.value) * 100:.0f} % {word}"
