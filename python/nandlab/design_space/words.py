"""What a search answers in words: the headline, and what the recommendation costs."""

from collections.abc import Sequence

from nandlab.design_space.answered import Answered
from nandlab.design_space.front import RULE, change
from nandlab.design_space.metrics import Measured
from nandlab.design_space.points import POINTS
from nandlab.design_space.search import Found
from nandlab.present.headline import joined
from nandlab.present.tables import CHANGE
from nandlab.present.units import estimate_text
from nandlab.study_files import STUDY_FILE

_ENDLESS = "no end: nothing wears"


def headline(found: Answered) -> str:
    """The answer in a sentence."""
    taken = found.front.recommendation
    if taken is None:
        if not found.outcome.found:
            return "No point of the space could be run."
        return f"No point of {len(found.outcome.found):,} keeps every constraint."
    others = (*taken.ties, *taken.overlapping)
    if others:
        # Not all of many have to be named: the table has them.
        named = [f"#{one.number}" for one in (taken.taken, *others)]
        shown = named if len(named) <= 4 else [*named[:3], f"{len(named) - 3} more"]
        mean = f"by the means take #{taken.taken.number}: {found.label(taken.taken)}"
        return f"Undecided between {joined(shown)}; {mean}."
    if taken.uncertain:
        return f"Undecided whether #{taken.taken.number} keeps {joined(taken.uncertain)}."
    if not taken.has_intervals:
        return f"By single runs, not tested: take {found.label(taken.taken)}."
    return f"Take {found.label(taken.taken)}."


def remarks(found: Answered) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """What the recommendation costs, how it was made, and how far to trust it."""
    front, taken = found.front, found.front.recommendation
    if taken is None:
        return (("Why nothing is recommended", tuple(_nearest(found))),)
    told = [_cost(found, metric_at) for metric_at in range(len(found.question.objectives))]
    trust = []
    if taken.ties:
        trust.append(f"As near as the recommended point: {_names(found, taken.ties)}.")
    if taken.overlapping:
        trust.append(
            "In every objective the 95 % intervals do not tell it apart from "
            f"{_names(found, taken.overlapping)}. More repeats may."
        )
    for one in taken.uncertain:
        trust.append(f"The interval of the recommended point lies on both sides of {one}.")
    if not taken.has_intervals:
        trust.append(
            "The study has fewer than three repeats, so there are no intervals. Differences are "
            "not tested."
        )
    if not trust:
        trust.append("No other point is the same within the 95 % intervals.")
    place = f"{POINTS}/{taken.taken.point.key}/{STUDY_FILE}"
    trust.append(
        f"{front.keeping:,} of {len(found.outcome.found):,} points keep the constraints, and "
        f"{len(front.points):,} of them no other beats. To run the recommended one again, say "
        f"nandlab run {place} in this folder."
    )
    return (
        ("What the recommendation costs", tuple(told)),
        ("How far to trust it", tuple(trust)),
        ("How it was chosen", (RULE,)),
    )


def _names(found: Answered, points: Sequence[Found]) -> str:
    shown = [found.named(one) for one in points[:5]]
    more = [f"{len(points) - 5} more"] if len(points) > 5 else []
    return joined([*shown, *more])


def _cost(found: Answered, place: int) -> str:
    """What the recommended point gives up in one objective, and for what."""
    recommendation = found.front.recommendation
    assert recommendation is not None
    metric, taken = found.question.objectives[place], recommendation.taken
    best = min(found.front.points, key=lambda one: one.numbers(found.question.objectives)[place])
    own, least = taken.values[metric.name], best.values[metric.name]
    if own.value == least.value:
        return f"{_capital(metric.title)}: {text_of(own)}, the best on the front."
    by = change(own, least)
    more = "" if by is None else f", {estimate_text(by, CHANGE)}"
    gains = []
    for other in found.question.objectives:
        gain = change(taken.values[other.name], best.values[other.name])
        if other is not metric and gain is not None:
            gains.append(f"{other.title} {estimate_text(gain, CHANGE)}")
    against = f" For that it has {joined(gains)}." if gains else ""
    return (
        f"{_capital(metric.title)}: {text_of(own)}{more} against {text_of(least)} of "
        f"{found.named(best)}.{against}"
    )


def _nearest(found: Answered) -> list[str]:
    """The points that break the constraints least."""

    def broken(one: Found) -> float:
        return max((rule.excess(one.values[rule.metric.name].value)
                    for rule in found.question.constraints), default=0.0)  # fmt: skip

    told = []
    for one in sorted(found.outcome.found, key=broken)[:3]:
        values = ", ".join(f"{rule.metric.title} {text_of(one.values[rule.metric.name])}"
                           for rule in found.question.constraints)  # fmt: skip
        told.append(f"Nearest to the constraints: {found.named(one)} with {values}.")
    return told


def text_of(value: Measured) -> str:
    """A value with its unit."""
    if value.is_endless:
        return _ENDLESS
    return estimate_text(value.value, value.unit)


def _capital(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"
