"""Verdicts: the answer of a study in words, computed from its rows.

To give a study a verdict of its own, write its file and add a row to `VERDICTS`.
"""

from collections.abc import Callable

from nandlab.results import StudyResult
from nandlab.verdicts import (
    android,
    comparison,
    ftl_windows,
    generic,
    scheduler_filesystem,
    sfq_emmc,
    sfq_kernel,
)
from nandlab.verdicts.model import Verdict

VERDICTS: tuple[tuple[str, Callable[[StudyResult], Verdict]], ...] = (
    ("android", android.judge),
    ("comparison", comparison.judge),
    ("ftl-windows", ftl_windows.judge),
    ("scheduler-filesystem", scheduler_filesystem.judge),
    ("sfq-emmc", sfq_emmc.judge),
    ("sfq-kernel", sfq_kernel.judge),
)
"""Studies with a verdict of their own, sorted by name."""


def judge(result: StudyResult) -> Verdict:
    """The verdict of a study; studies without one of their own get the general one."""
    return dict(VERDICTS).get(result.name, generic.judge)(result)
