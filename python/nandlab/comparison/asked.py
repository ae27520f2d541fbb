"""The answer to what a comparison was asked, question by question."""

from collections.abc import Sequence

from nandlab.comparison.candidates import Candidate
from nandlab.comparison.criteria import CRITERIA, Criterion, best_told, winners
from nandlab.comparison.power_cuts import by_guarantee
from nandlab.comparison.questions import POWER_CUTS, Question


def answers(questions: Sequence[Question], usable: Sequence[Candidate]) -> str:
    """One candidate to take if it answers all questions, else the answer of each."""
    found = [_answer(one, usable) for one in questions]
    first = [best[0].label if len(best) == 1 else "" for best, _ in found]
    told = " ".join(text for _, text in found)
    return f"Take {first[0]}. {told}" if first[0] and len(set(first)) == 1 else told


def _answer(question: Question, usable: Sequence[Candidate]) -> tuple[list[Candidate], str]:
    """The best by one question, and the answer to it in words."""
    if question.word == POWER_CUTS:
        best, told = by_guarantee(usable)
        return best, f"{question.title}: {told}"
    criterion, best = _decided(question, usable)
    return best, _told(question, criterion, best, usable)


def _decided(
    question: Question, usable: Sequence[Candidate]
) -> tuple[Criterion | None, list[Candidate]]:
    """The first measurement that tells candidates apart, and the best by it."""
    known = [
        criterion
        for metric in question.metrics
        for criterion in CRITERIA
        if criterion.metric == metric and any(metric in one.values for one in usable)
    ]
    for criterion in known:
        if best := winners(criterion, usable):
            return criterion, best
    return (known[0] if known else None), []


def _told(
    question: Question,
    criterion: Criterion | None,
    best: Sequence[Candidate],
    usable: Sequence[Candidate],
) -> str:
    if criterion is None:
        return f"{question.title}: nothing was measured that answers it."
    values = [one.values[criterion.metric] for one in usable if criterion.metric in one.values]
    if not best:
        return (
            f"{question.title}: all are alike, {criterion.told.format(criterion.show(values[0]))}."
        )
    return f"{question.title}: {best_told(criterion, best, usable)}."
