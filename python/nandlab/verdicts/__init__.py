"""Answers in words of comparisons, and of studies without claims.

A study that a publication stands behind has claims as data: see docs/studies.md.
"""

from collections.abc import Callable

from nandlab.results import StudyResult
from nandlab.verdicts import (
    comparison,
    generic,
)
from nandlab.verdicts.model import Verdict

VERDICTS: tuple[tuple[str, Callable[[StudyResult], Verdict]], ...] = (
    ("comparison", comparison.judge),
)
"""Studies with a verdict of their own, sorted by name."""


def judge(result: StudyResult) -> Verdict:
    """The verdict of a study; studies without one of their own get the general one."""
    return dict(VERDICTS).get(result.name, generic.judge)(result)
