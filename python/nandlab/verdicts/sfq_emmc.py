"""The verdict of the study sfq-emmc: SFQ against CFQ on an eMMC card that is full."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from nandlab.results import StudyResult
from nandlab.verdicts.model import Claim, Evaluation, Value, Verdict
from nandlab.verdicts.paired import interval, longer_or_shorter
from nandlab.verdicts.sfq_emmc_view import (
    CFQ,
    FILLS,
    METRICS,
    ROW,
    SFQ,
    WAITS,
    Load,
    Pair,
    View,
)
from nandlab.verdicts.wording import duration, joined, number, signed_percent

NEAR = 0.10
"""A change this near to the published one, in parts of 1, counts as the same."""

CAVEATS = (
    "The publication does not say how its writers wrote (direct, O_SYNC or through the page "
    "cache), how often its processes asked, or at which request sizes its four figures were "
    "taken. All are varied here; a change is the geometric mean over the request sizes unless it "
    "says otherwise, with the 95 % interval over the repeats.",
    "The card is a model made from published figures of such cards. Its cleaning can hold it up "
    "for more than a second under every scheduler, so the longest request of a run depends on "
    "when such a pause comes.",
    "SFQ is the visit model, which serves a queue until its visit is over. The pseudo-code taken "
    "by its letters (sfq-literal) stops when only writes are left, until its starvation check "
    "frees it.",
)

MECHANISMS = {
    "no-cleaning": "cleaning",
    "no-idling": "idling",
    "no-cache": "the card's write cache",
    "no-command-queue": "the command that the driver holds ready",
}
"""What each value of the mechanism axis switches off."""


def judge(result: StudyResult) -> Verdict:
    """The published figures beside ours, what makes the difference, and which claims hold."""
    view = View(result)
    loads = view.loads()
    if not loads:
        return Verdict(
            result.name,
            "No verdict: SFQ and CFQ were not both run.",
            (f"The rows hold no request size at which both {SFQ} and {CFQ} ran.",),
            CAVEATS,
        )
    nearest = _nearest(view, loads)
    claims = _claims(view, loads)
    sentences = [
        *(_figures(view, load) for load in dict.fromkeys((loads[0], nearest))),
        _sizes(view, loads[0]),
        _fairness(view, loads[0]),
        _waits(view, loads[0]),
        *(_switched_off(view, load) for load in loads),
        _fills(view, loads),
        _row(view, loads[0]),
        _claim_counts(claims, loads),
    ]
    return Verdict(
        study=result.name,
        headline=_headline(view, loads),
        sentences=tuple(sentence for sentence in sentences if sentence),
        caveats=(*_quick_caveat(result), *CAVEATS),
        claims=tuple(claims),
        variants=tuple(load.label for load in loads),
        unexplained=tuple(_unexplained(view, claims, nearest)),
    )


def _quick_caveat(result: StudyResult) -> list[str]:
    if not result.study.get("quick"):
        return []
    return [
        "This is the quick form: few requests, few repeats, half of the sizes. The longest of so "
        "few requests says little, and the whole study may say otherwise."
    ]


def _nearest(view: View, loads: Sequence[Load]) -> Load:
    """The load under which the four figures come nearest to the published ones."""

    def distance(load: Load) -> float:
        changes = {name: view.change(name, Pair(load=load)) for name in METRICS}
        return math.fsum(
            abs(found.value - view.published[name])
            for name, found in changes.items()
            if found is not None and name in view.published
        )

    return min(loads, key=distance)


def _headline(view: View, loads: Sequence[Load]) -> str:
    first = loads[0]
    longest, mean = (
        view.change(f"read_latency_{one}", Pair(load=first)) for one in ("max", "mean")
    )
    if longest is None or mean is None:
        return "No verdict: no latency of reads was measured."
    text = f"SFQ makes the longest read {longer_or_shorter(longest)} than CFQ does"
    if view.published:
        text += f" (published {signed_percent(view.published['read_latency_max'])})"
    others = [load for load in loads if load.writers == first.writers and load != first]
    changes = [view.change("read_latency_mean", Pair(load=load)) for load in others]
    calm = min((one for one in changes if one), key=lambda one: abs(one.value), default=None)
    if calm is None or abs(calm.value) > abs(mean.value):
        return f"{text}, and the mean read {longer_or_shorter(mean)}."
    return (
        f"{text}; the mean read stays the same ({signed_percent(calm.value)}) only while the card "
        f"is not saturated; otherwise it becomes {longer_or_shorter(mean)}."
    )


def _figures(view: View, load: Load) -> str:
    parts = [
        f"{name} {interval(found)}"
        for metric, name in METRICS.items()
        if (found := view.change(metric, Pair(load=load))) is not None
    ]
    return f"SFQ against CFQ with {load.label}: {joined(parts)}." if parts else ""


def _sizes(view: View, load: Load) -> str:
    """How much the changes depend on the request size."""
    pair = Pair(load=load)
    parts = []
    for metric in ("read_latency_mean", "read_latency_max"):
        found = {
            size: one.value
            for size in view.sizes(pair)
            if (one := view.change_at(metric, pair, size)) is not None
        }
        if len(found) > 1:
            low, high = (choose(found, key=lambda size: found[size]) for choose in (min, max))
            parts.append(
                f"the change of the {METRICS[metric]} runs from {signed_percent(found[low])} at "
                f"{low} KiB to {signed_percent(found[high])} at {high} KiB"
            )
    return f"By request size, with {load.label}, {joined(parts)}." if parts else ""


def _fairness(view: View, load: Load) -> str:
    """What CFQ's lower mean is bought with."""
    found = {}
    for size in view.sizes(Pair(load=load)):
        both = [view.runs.mean("jain_index", view.place(name, size, load)) for name in (CFQ, SFQ)]
        if both[0] is not None and both[1] is not None:
            found[size] = (both[0], both[1])
    if not found:
        return ""
    worst = min(found, key=lambda size: found[size][0])
    ours, theirs = found[worst][1], found[worst][0]
    if theirs > ours - 0.02:
        return ""
    return (
        f"A lower mean is bought with unfairness: at {worst} KiB Jain's index over the processes "
        f"is {theirs:.2f} under CFQ and {ours:.2f} under SFQ. The processes that CFQ favours are "
        "done early and leave the card to fewer, while the others wait; the mean over requests "
        "counts the many short latencies of the favoured."
    )


def _fills(view: View, loads: Sequence[Load]) -> str:
    """Whether the ratios depend on how a visit is filled up."""
    widest: tuple[float, str, str] = (0.0, "", "")
    for load in loads:
        for metric, name in METRICS.items():
            found = [
                one.value
                for scheduler in FILLS.values()
                if (one := view.change(metric, Pair(scheduler, load=load))) is not None
            ]
            if len(found) == len(FILLS):
                widest = max(widest, (max(found) - min(found), name, load.label))
    spread, name, label = widest
    if not name:
        return ""
    depends = "hardly depend" if spread < NEAR / 2 else "depend"
    return (
        f"The figures {depends} on how SFQ fills its visits up (both, writes, none): they differ "
        f"by at most {spread * 100:.0f} points, in the {name} with {label}."
    )


@dataclass(frozen=True)
class Waits:
    """What the mean and the longest request of a cell waited for, nanoseconds."""

    mean: dict[str, float]
    longest: dict[str, float]
    longest_ns: float
    overtaken: float


def waits(
    view: View, scheduler: str, size: str, load: Load, direction: str = "read"
) -> Waits | None:
    """The waits of a cell; the longest request is the longest of all repeats."""
    place = view.place(scheduler, size, load)
    durations = view.runs.repeats(f"{direction}_longest_bio_ns", place)
    if not durations:
        return None
    repeat = max(durations, key=lambda one: durations[one])

    def longest(what: str) -> float:
        found = view.runs.repeats(f"{direction}_longest_bio_{what}", place)
        return found.get(repeat, 0.0)

    return Waits(
        mean={
            name: view.runs.mean(f"{direction}_behind_{name}_mean_ns", place) or 0.0
            for name in WAITS
        },
        longest={name: longest(f"behind_{name}_ns") for name in WAITS},
        longest_ns=durations[repeat],
        overtaken=longest("overtaken"),
    )


def _waits(view: View, load: Load) -> str:
    """Why the longest read is long: order of service, cleaning, idling."""
    parts = []
    for scheduler, name in ((CFQ, "CFQ"), (SFQ, "SFQ")):
        found = {
            size: one
            for size in view.sizes(Pair(load=load))
            if (one := waits(view, scheduler, size, load)) is not None
        }
        if not found:
            return ""
        worst = max(found, key=lambda size: found[size].longest_ns)
        at = found[worst]
        spent = joined(
            [f"{duration(ns)} behind {what}" for what, ns in at.longest.items() if ns >= 1e6]
        )
        overtakers = number(at.overtaken)
        parts.append(
            f"under {name} the longest read of all ({duration(at.longest_ns)}, at {worst} KiB) "
            f"was overtaken by at least {overtakers} requests that came later and spent {spent}"
        )
    return f"Where the time goes, with {load.label}: {'; '.join(parts)}."


def share_of_effect(view: View, metric: str, mechanism: str, load: Load) -> float | None:
    """The part of a change that goes when a mechanism is switched off; 1 if all of it does."""
    with_it = view.change(metric, Pair(load=load))
    without = view.change(metric, Pair(load=load, mechanism=mechanism))
    if with_it is None or without is None or abs(with_it.value) < NEAR / 2:
        return None
    return 1 - math.log1p(without.value) / math.log1p(with_it.value)


def _switched_off(view: View, load: Load) -> str:
    """Which mechanism the difference of the longest read hangs on."""
    metric = "read_latency_max"
    found = {
        mechanism: share
        for mechanism in view.mechanisms()
        if (share := share_of_effect(view, metric, mechanism, load)) is not None
    }
    with_all = view.change(metric, Pair(load=load))
    if not found or with_all is None:
        return ""
    parts = [
        f"{signed_percent(without.value)} without {MECHANISMS.get(mechanism, mechanism)}"
        for mechanism in found
        if (without := view.change(metric, Pair(load=load, mechanism=mechanism))) is not None
    ]
    first = max(found, key=lambda mechanism: found[mechanism])
    if found[first] >= 0.5:
        reason = f"{MECHANISMS.get(first, first)} makes most of the difference"
    else:
        reason = (
            "none of them makes the difference. What is left is the order of service: CFQ puts a "
            "queue whose request has just come in front of those that wait, SFQ goes round"
        )
    return (
        f"With one mechanism at a time switched off ({load.label}), the change of the longest "
        f"read is {signed_percent(with_all.value)} with all of them, {joined(parts)}: {reason}."
    )


def _row(view: View, load: Load) -> str:
    """ROW's claim: the mean falls, the maximum does not."""
    pair = Pair(ROW, load=load)
    mean, longest = (view.change(f"read_latency_{one}", pair) for one in ("mean", "max"))
    write = view.change("write_latency_max", pair)
    if mean is None or longest is None or write is None:
        return ""
    return (
        f"ROW, which serves reads first, changes CFQ's mean read by {signed_percent(mean.value)}, "
        f"its longest read by {signed_percent(longest.value)} and its longest write by "
        f"{signed_percent(write.value)} with {load.label}."
    )


def _claims(view: View, loads: Sequence[Load]) -> list[Claim]:
    claims = []
    for metric, name in METRICS.items():
        published = view.published.get(metric)
        if published is None:
            continue
        if metric.endswith("_max"):
            claims.append(
                Claim(
                    f"{metric.replace('_', '-')}-falls",
                    f"SFQ makes the {name} shorter than CFQ does",
                    signed_percent(published),
                    tuple(_falls(view, metric, Pair(load=load)) for load in loads),
                )
            )
        claims.append(
            Claim(
                f"{metric.replace('_', '-')}-amount",
                f"The {name} changes by {signed_percent(published)}, within "
                f"{NEAR * 100:.0f} points",
                signed_percent(published),
                tuple(_amount(view, metric, load, published) for load in loads),
            )
        )
    row = [Pair(ROW, load=load) for load in loads]
    if any(view.change("read_latency_mean", pair) for pair in row):
        claims += [
            Claim(
                "row-mean-falls",
                "ROW makes the mean read shorter than CFQ does",
                "ROW favours reads",
                tuple(_falls(view, "read_latency_mean", pair) for pair in row),
            ),
            Claim(
                "row-max-stays",
                "ROW does not make the longest read shorter than CFQ does",
                "ROW does not bound latency",
                tuple(_denied(_falls(view, "read_latency_max", pair)) for pair in row),
            ),
        ]
    return claims


def _falls(view: View, metric: str, pair: Pair) -> Evaluation:
    found = view.change(metric, pair)
    sizes = view.sizes(pair)
    single = [one for size in sizes if (one := view.change_at(metric, pair, size)) is not None]
    if found is None:
        return Evaluation(pair.load.label, None, "was not measured")
    return Evaluation(
        pair.load.label,
        found.high < 0 if found.repeats > 1 else found.value < 0,
        interval(found),
        (Value("change", found.value, "part of 1"),),
        workloads_hold=sum(one.value < 0 for one in single),
        workloads=len(single),
    )


def _denied(found: Evaluation) -> Evaluation:
    return Evaluation(
        found.variant,
        None if found.holds is None else not found.holds,
        found.detail,
        found.values,
        found.workloads - found.workloads_hold,
        found.workloads,
    )


def _amount(view: View, metric: str, load: Load, published: float) -> Evaluation:
    pair = Pair(load=load)
    found, pooled = view.change(metric, pair), view.pooled_change(metric, pair)
    if found is None or pooled is None:
        return Evaluation(load.label, None, "was not measured")
    single = [
        one.value
        for size in view.sizes(pair)
        if (one := view.change_at(metric, pair, size)) is not None
    ]
    return Evaluation(
        load.label,
        abs(found.value - published) <= NEAR,
        f"{interval(found)}; requests of all sizes together {interval(pooled)}",
        (
            Value("change", found.value, "part of 1"),
            Value("pooled change", pooled.value, "part of 1"),
        ),
        workloads_hold=sum(abs(one - published) <= NEAR for one in single),
        workloads=len(single),
    )


def _claim_counts(claims: Sequence[Claim], loads: Sequence[Load]) -> str:
    verdict = Verdict("", "", (), claims=tuple(claims))
    counted = [(load.label, *verdict.claims_holding(load.label)) for load in loads]
    parts = [f"{held} of {tested} with {label}" for label, held, tested in counted if tested]
    return f"Claims of the publication that hold: {'; '.join(parts)}." if parts else ""


def _unexplained(view: View, claims: Sequence[Claim], nearest: Load) -> list[str]:
    lines = []
    for claim in claims:
        outcomes = [one.holds for one in claim.evaluations]
        if outcomes and all(outcome is False for outcome in outcomes):
            details = "; ".join(f"{one.variant}: {one.detail}" for one in claim.evaluations)
            lines.append(f"Holds under no load: {claim.text}. {details}.")
    pair = Pair(load=nearest)
    single = [
        f"{METRICS[metric]} at {size} KiB"
        for metric in METRICS
        for size in view.sizes(pair)
        if metric in view.published
        and (one := view.change_at(metric, pair, size)) is not None
        and abs(one.value - view.published[metric]) <= NEAR
    ]
    if single:
        lines.append(
            f"At single sizes these published figures are met with {nearest.label}: "
            f"{joined(single)}. The publication does not say at which sizes it measured them."
        )
    lines.append(
        "How the published card cleans, and how large its write cache is, is not known; the table "
        "of mechanisms shows how far the figures hang on it."
    )
    return lines
