"""Progress of a comparison by operations of its workload, with an estimate of what is left."""

import time
from collections.abc import Callable

from nandlab.comparison.request import WorkloadFile
from nandlab.comparison.script_lines import calls
from nandlab.engine import Progress


def operations_of(workload: WorkloadFile) -> tuple[int, str]:
    """Operations of one run of a workload, and what they are; one run where nobody can count."""
    if workload.kind != "script" or workload.file is None:
        return 1, "runs"
    try:
        return max(calls(workload.file.read_text(encoding="utf-8")), 1), "calls"
    except (OSError, ValueError, IndexError):
        # The engine says which line is wrong.
        return 1, "runs"


def by_operations(
    workload: WorkloadFile,
    progress: Progress | None,
    clock: Callable[[], float] = time.monotonic,
) -> Progress | None:
    """A progress function that counts operations, and says how many seconds are left.

    The estimate holds if the candidates that are left are as fast as those that have finished.
    """
    if progress is None:
        return None
    each, what = operations_of(workload)
    pace = _Pace(clock())

    def told(done: int, total: int, label: str) -> None:
        left_s = pace.left_s(done, total, clock())
        estimate = "" if left_s is None else f", about {left_s:.0f} s left"
        if not done and workload.flash:
            estimate = ", the flash is being filled"
        progress(done * each, total * each, f"{what}{estimate} {label}".rstrip())

    return told


class _Pace:
    """How fast runs end."""

    def __init__(self, now_s: float) -> None:
        """Begins now: each candidate fills its own flash, so that belongs to its pace."""
        self._first = (0, now_s)
        self._last = (0, now_s)

    def left_s(self, done: int, total: int, now_s: float) -> float | None:
        """Seconds that are left; None while no pace is known."""
        if done > self._last[0]:
            self._last = (done, now_s)
        if self._last[0] == self._first[0]:
            return None
        pace_s = (self._last[1] - self._first[1]) / (self._last[0] - self._first[0])
        # An estimate is as old as the count: it shrinks while a candidate runs.
        return max(pace_s * (total - self._last[0]) - (now_s - self._last[1]), 0.0)
