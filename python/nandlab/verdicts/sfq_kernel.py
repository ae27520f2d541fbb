"""The verdict of the study sfq-kernel: SFQ as a module of a real kernel."""

from collections.abc import Sequence

from nandlab.results import StudyResult
from nandlab.verdicts.confidence import Change
from nandlab.verdicts.model import Claim, Evaluation, Value, Verdict
from nandlab.verdicts.paired import interval, longer_or_shorter
from nandlab.verdicts.sfq_kernel_view import BFQ, METRICS, NONE, PROCESSOR, SFQ, Place, View
from nandlab.verdicts.wording import duration, joined, number, signed_percent

NEAR = 0.10
"""A change this near to the published one, in parts of 1, counts as the same."""

SMALLEST_KIB = "4"
"""The size at which a request's own cost weighs most."""

DEVICES = {
    "null-blk": "null_blk takes two requests at a time, 200 µs each, whatever size and place. "
    "It shows the order of service and what a scheduler costs the processor; it has nothing that "
    "a scheduler could do better or worse for the medium, and at the largest requests the "
    "processor is the bottleneck, not the disk.",
    "flash-card": "flash-card is a block driver with the delays of the simulated emmc-4.5-64gb: "
    "commands one by one with a second one ready, four dies behind one channel, a write cache of "
    "512 KiB, and dies that clean for 1.2 s after each 4 MiB programmed on them, which is about "
    "what the simulated card spends on cleaning under this load. It shows how schedulers share a "
    "device whose writes stall. It has no mapping, cleans nothing in idle time, and a cleaning is "
    "always as long: what a scheduler does to the amount of cleaning, and the rare cleanings that "
    "take longer, only the simulated card shows.",
}
"""What each disk can show, and what not."""

CAVEATS = (
    "No CFQ exists in these kernels; BFQ, which comes from it, stands in for it. The published "
    "figures are of Linux 3.4 on a real card.",
    "The machine is emulated and its clock counts instructions, 2 ns each: caches, branch "
    "prediction and more than one processor cost nothing here, so processor times are "
    "proportional to instructions. They hold for a comparison, not as times of a real processor.",
    "An export of the simulated card itself was not used: the machine's clock jumps over idle "
    "time, so an answer that comes from outside at wall time has no place on it.",
    "Repeats differ in addresses, in the start of the machine and in how near the card is to its "
    "next cleaning; beyond that nothing is random, and intervals can be very narrow.",
)


def judge(result: StudyResult) -> Verdict:
    """What SFQ changes, what it costs, and how that compares with the published figures."""
    view = View(result)
    places = view.places()
    if not places:
        return Verdict(
            result.name,
            "No verdict: SFQ and another scheduler were not both run.",
            (f"The rows hold no request size at which both {SFQ} and another scheduler ran.",),
            CAVEATS,
        )
    claims = _claims(view, places)
    # One place stands for its disk: the tables have them all.
    by_disk = list({place.device: place for place in reversed(places)}.values())[::-1]
    sentences = [
        *(_figures(view, place, other) for place in places for other in view.others(place)[:1]),
        _published(view, places[0]),
        *(_among_all(view, place) for place in by_disk),
        _fairness(view, places[0]),
        *(_processor(view, place) for place in by_disk),
    ]
    shown = dict.fromkeys(place.device for place in places)
    return Verdict(
        study=result.name,
        headline=_headline(view, places[0]),
        sentences=tuple(sentence for sentence in sentences if sentence),
        caveats=(
            *_quick_caveat(result),
            *CAVEATS,
            *(DEVICES[name] for name in shown if name in DEVICES),
        ),
        claims=tuple(claims),
        variants=tuple(place.label for place in places),
    )


def _quick_caveat(result: StudyResult) -> list[str]:
    if not result.study.get("quick"):
        return []
    return [
        "This is the quick form: few requests, few repeats, half of the sizes. The longest of so "
        "few requests says little, and the whole study may say otherwise."
    ]


def _headline(view: View, place: Place) -> str:
    other = view.others(place)[0]
    longest, mean, processor = (
        view.change(metric, place, other)
        for metric in ("read_latency_max_ns", "read_latency_mean_ns", PROCESSOR)
    )
    if longest is None or mean is None:
        return "No verdict: no latency of reads was measured."
    text = (
        f"In Linux {place.kernel} on {place.device}, SFQ makes the longest read "
        f"{longer_or_shorter(longest)} and the mean read {longer_or_shorter(mean)} than {other}"
    )
    if processor is None:
        return f"{text}."
    word = "less" if processor.value < 0 else "more"
    return f"{text}; a request costs {abs(processor.value) * 100:.0f} % {word} processor time."


def _figures(view: View, place: Place, other: str) -> str:
    parts = [
        f"{name} {interval(found)}"
        for metric, name in METRICS.items()
        if (found := view.change(metric, place, other)) is not None
    ]
    return f"SFQ against {other} ({place.label}): {joined(parts)}." if parts else ""


def _published(view: View, place: Place) -> str:
    """The published changes beside those of the kernel, and of the simulated study."""
    other = view.others(place)[0]
    found = {metric: view.change(metric, place, other) for metric in METRICS}
    known = {
        metric: one for metric, one in found.items() if one is not None and metric in view.published
    }
    if not known:
        return ""
    published = joined(
        [f"{METRICS[metric]} {signed_percent(view.published[metric])}" for metric in known]
    )
    same = [
        METRICS[metric]
        for metric, one in known.items()
        if (one.value < 0) == (view.published[metric] < 0)
    ]
    near = [
        METRICS[metric]
        for metric, one in known.items()
        if abs(one.value - view.published[metric]) <= NEAR
    ]
    return (
        f"Published for SFQ against CFQ on an eMMC card, and held against the simulated schedulers "
        f"in the study sfq-emmc: {published}. The kernel on {place.device} changes in the same "
        f"direction in {_listed(same, len(known))}, and comes within {NEAR * 100:.0f} points in "
        f"{_listed(near, len(known))}."
    )


def _listed(names: Sequence[str], total: int) -> str:
    return f"{len(names)} of {total} ({joined(names)})" if names else f"none of {total}"


def _among_all(view: View, place: Place) -> str:
    """Where SFQ stands among all schedulers."""
    parts = []
    for metric, name in METRICS.items():
        found = {
            scheduler: value
            for scheduler in view.schedulers(place)
            if (value := view.typical(metric, place, scheduler)) is not None
        }
        if SFQ not in found or len(found) < 2:
            continue
        order = sorted(found, key=lambda scheduler: found[scheduler])
        first, last = order[0], order[-1]
        parts.append(
            f"{name} {duration(found[SFQ])} under sfq (from {duration(found[first])} under {first} "
            f"to {duration(found[last])} under {last})"
        )
    return f"Among all schedulers ({place.label}): {'; '.join(parts)}." if parts else ""


def _fairness(view: View, place: Place) -> str:
    """What lower means are bought with."""
    found = {
        scheduler: value
        for scheduler in view.schedulers(place)
        if (value := view.typical("jain_index", place, scheduler)) is not None
    }
    if SFQ not in found or len(found) < 2:
        return ""
    others = joined([f"{found[name]:.2f} under {name}" for name in found if name != SFQ])
    text = (
        f"Jain's index over the processes is {found[SFQ]:.2f} under sfq and {others} "
        f"({place.label})"
    )
    unfair = min(found, key=lambda name: found[name])
    if unfair == SFQ or found[unfair] > found[SFQ] - 0.02:
        return f"{text}."
    return (
        f"{text}. A scheduler that favours some processes lets them be done early, and the mean "
        "over requests counts their many short latencies."
    )


def _processor(view: View, place: Place) -> str:
    """The overhead, where it weighs most."""
    sizes = view.sizes(place, view.others(place)[0])
    size = SMALLEST_KIB if SMALLEST_KIB in sizes else sizes[0]
    found = {
        scheduler: value
        for scheduler in view.schedulers(place)
        if (value := view.runs.mean(PROCESSOR, view.cell(place, scheduler, size))) is not None
    }
    if SFQ not in found or len(found) < 2:
        return ""
    parts = [f"{number(value / 1e3)} µs under {name}" for name, value in found.items()]
    against = [
        f"{interval(change)} against {name}"
        for name in (BFQ, NONE)
        if (change := view.change(PROCESSOR, place, name)) is not None
    ]
    over = f"; over all sizes SFQ's is {joined(against)}" if against else ""
    return (
        f"Processor time of a request of {size} KiB, from the call to its return "
        f"({place.label}): {joined(parts)}{over}."
    )


def _claims(view: View, places: Sequence[Place]) -> list[Claim]:
    claims = []
    for metric, name in METRICS.items():
        published = view.published.get(metric)
        identifier = metric.removesuffix("_ns").replace("_", "-")
        if metric.endswith("_max_ns"):
            claims.append(
                Claim(
                    f"{identifier}-falls",
                    f"SFQ makes the {name} shorter than BFQ does",
                    "not said" if published is None else f"{signed_percent(published)} against CFQ",
                    tuple(_falls(view, metric, place, BFQ) for place in places),
                )
            )
        if published is not None:
            claims.append(
                Claim(
                    f"{identifier}-amount",
                    f"The {name} changes by {signed_percent(published)} against BFQ, within "
                    f"{NEAR * 100:.0f} points",
                    f"{signed_percent(published)} against CFQ",
                    tuple(_amount(view, metric, place, published) for place in places),
                )
            )
    claims += [
        Claim(
            f"processor-less-than-{other}",
            f"A request costs less processor time under SFQ than under {other}",
            "SFQ has low overhead",
            tuple(_falls(view, PROCESSOR, place, other) for place in places),
        )
        for other in dict.fromkeys(name for place in places for name in view.others(place))
        if other != NONE
    ]
    return claims


def _falls(view: View, metric: str, place: Place, other: str) -> Evaluation:
    found = view.change(metric, place, other)
    if found is None:
        return Evaluation(place.label, None, "was not measured")
    single = _single(view, metric, place, other)
    return Evaluation(
        place.label,
        found.high < 0 if found.repeats > 1 else found.value < 0,
        interval(found),
        (Value("change", found.value, "part of 1"),),
        workloads_hold=sum(one.value < 0 for one in single),
        workloads=len(single),
    )


def _amount(view: View, metric: str, place: Place, published: float) -> Evaluation:
    found = view.change(metric, place, BFQ)
    if found is None:
        return Evaluation(place.label, None, "was not measured")
    single = _single(view, metric, place, BFQ)
    return Evaluation(
        place.label,
        abs(found.value - published) <= NEAR,
        interval(found),
        (Value("change", found.value, "part of 1"),),
        workloads_hold=sum(abs(one.value - published) <= NEAR for one in single),
        workloads=len(single),
    )


def _single(view: View, metric: str, place: Place, other: str) -> list[Change]:
    """The changes at each request size."""
    found = (view.change_at(metric, place, other, size) for size in view.sizes(place, other))
    return [one for one in found if one is not None]
