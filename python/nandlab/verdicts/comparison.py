"""The verdict of candidates side by side: a sentence on each, and which to take."""

from nandlab.results import StudyResult
from nandlab.verdicts import generic
from nandlab.verdicts.model import Verdict


def judge(result: StudyResult) -> Verdict:
    """Puts the table into words; a study that only has the name gets the general verdict."""
    # Both take their words from this package: imported above, neither could be imported first.
    from nandlab.comparison.view import View
    from nandlab.comparison.words import notes, sentence, verdict_line

    if not is_comparison(result):
        return generic.judge(result)
    view = View(result)
    sentences = tuple(sentence(candidate) for candidate in view.candidates)
    return Verdict(result.name, verdict_line(view), sentences, caveats=tuple(notes(view)))


def is_comparison(result: StudyResult) -> bool:
    """Whether the rows are those of `nandlab compare`."""
    metrics = {row["metric"] for row in result.rows.dicts()}
    return bool(metrics & {"call_calls", "is_full", "rebuild_ns"})
