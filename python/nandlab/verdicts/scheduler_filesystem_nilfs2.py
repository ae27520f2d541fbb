"""What schedulers do to NILFS2: orders, published and simulated, and what makes them."""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass

from nandlab.verdicts.model import Claim, Evaluation, Value
from nandlab.verdicts.scheduler_filesystem_view import MAIN, TESTS, View
from nandlab.verdicts.wording import joined, number, percent, signed_percent

NAME = "nilfs2"
ALIKE = 1e-9
"""Means this near, as a part of them, are the same."""

SWITCHED_OFF = {
    "anticipatory-no-wait": ("anticipatory", "anticipation"),
    "cfq-no-idle": ("cfq", "idling"),
    "deadline-no-batch": ("deadline", "batches"),
}
"""Variants of published schedulers: their scheduler, and the part that is switched off."""

DEVICE = (
    "The publication does not name the block device under NILFS2. mtdblock over the same chip was "
    "assumed: it needs no other hardware, and holds one erase block in memory."
)


@dataclass(frozen=True)
class Order:
    """The schedulers by their mean time over the sizes of the file, in seconds."""

    test: str
    ours: Mapping[str, float]
    published: Mapping[str, float]

    @property
    def best(self) -> tuple[str, ...]:
        """Ours with the least time: more than one if they are alike."""
        return _best(self.ours)

    @property
    def published_best(self) -> str:
        """The published one with the least time."""
        return _best(self.published)[0]

    @property
    def spread(self) -> float:
        """How much longer our slowest takes than our fastest, as a part of it."""
        return max(self.ours.values()) / min(self.ours.values()) - 1

    @property
    def error(self) -> float:
        """Mean absolute error of our times, as a part of the published ones."""
        parts = [abs(self.ours[one] / self.published[one] - 1) for one in self.ours]
        return sum(parts) / len(parts)

    @property
    def tau(self) -> float | None:
        """Kendall's tau-b of the two orders; None if all of ours are alike."""
        return kendall_tau(list(self.ours.values()), [self.published[one] for one in self.ours])

    @property
    def p_value(self) -> float:
        """Share of all orders that agree or disagree with the published one as much as ours."""
        return exact_p_value(list(self.ours.values()), [self.published[one] for one in self.ours])


def orders(view: View, file_system: str = NAME) -> list[Order]:
    """Both orders of each test, over the sizes that ran and are published."""
    found = []
    for test in TESTS:
        ours: dict[str, list[float]] = {}
        published: dict[str, list[float]] = {}
        for size in view.sizes(file_system):
            cells = view.published_cells(file_system, test, size)
            times = {one: view.seconds(file_system, test, size, MAIN, one) for one in cells}
            for scheduler, seconds in times.items():
                if seconds is not None:
                    ours.setdefault(scheduler, []).append(seconds)
                    published.setdefault(scheduler, []).append(cells[scheduler])
        if len(ours) > 1:
            found.append(Order(test, _means(ours), _means(published)))
    return found


def kendall_tau(first: list[float], second: list[float]) -> float | None:
    """Kendall's tau-b: 1 for the same order, -1 for the reverse one."""
    pairs = list(itertools.combinations(range(len(first)), 2))
    score = _score(first, second)
    untied = [sum(_sign(one[a], one[b]) != 0 for a, b in pairs) for one in (first, second)]
    return None if 0 in untied else score / math.sqrt(untied[0] * untied[1])


def exact_p_value(first: list[float], second: list[float]) -> float:
    """Two-sided p-value of the tau of two short lists, over all permutations of the second."""
    least = abs(_score(first, second))
    scores = [abs(_score(first, list(one))) for one in itertools.permutations(second)]
    return sum(one >= least for one in scores) / len(scores)


def sentences(view: View) -> list[str]:
    """What the verdict says of NILFS2."""
    found = orders(view)
    return [*(_order(one) for one in found), *_mechanism(view, found), *_unpublished(view, found)]


def headline(view: View) -> str:
    """The answer in one sentence; nothing if NILFS2 did not run."""
    found = {one.test: one for one in orders(view)}
    if "write" not in found:
        return ""
    write = found["write"]
    reads = found.get("read")
    tied = ", and to its reads not at all" if reads is not None and reads.spread < ALIKE else ""
    slowest = max(write.ours, key=lambda one: write.ours[one])
    return (
        f"To NILFS2's writes it matters by {percent(write.spread)} ({joined(write.best)} fastest, "
        f"{slowest} slowest){tied}."
    )


def claims(view: View) -> list[Claim]:
    """Which scheduler is published as the best, and whether it is here."""
    found = []
    for order in orders(view):
        shown = ", ".join(f"{one} {seconds:.2f} s" for one, seconds in order.published.items())
        best, wanted = order.best, order.published_best
        ours = ", ".join(f"{one} {seconds:.2f} s" for one, seconds in order.ours.items())
        alike = f"{joined(best)} take the same time: " if len(best) > 1 else ""
        found.append(
            Claim(
                f"nilfs2-{order.test}-best",
                f"NILFS2 {order.test}s fastest under {wanted}",
                shown,
                (
                    Evaluation(
                        MAIN.label,
                        best == (wanted,),
                        f"{alike}{ours}",
                        tuple(Value(one, seconds, "s") for one, seconds in order.ours.items()),
                    ),
                ),
            )
        )
    return found


def extra_erases(view: View, order: Order) -> dict[str, tuple[float, float]]:
    """By scheduler: erases and seconds beyond the fastest, means over the sizes of the file."""
    erases = {one: _mean_erases(view, order.test, one) for one in order.ours}
    base = order.best[0]
    return {
        one: (erases[one] - erases[base], order.ours[one] - order.ours[base]) for one in order.ours
    }


def switched_off(view: View, order: Order) -> dict[str, float]:
    """By variant: how much longer it takes than its scheduler, as a part of that."""
    found = {
        variant: change_of(view, order.test, variant, scheduler)
        for variant, (scheduler, _) in SWITCHED_OFF.items()
    }
    return {variant: change for variant, change in found.items() if change is not None}


def change_of(view: View, test: str, scheduler: str, base: str) -> float | None:
    """How much longer one scheduler takes than another, over the repeats that both ran."""
    times = [0.0, 0.0]
    for size in view.sizes(NAME):
        one, other = (
            view.runs.repeats("elapsed_ns", view.place(NAME, test, size, MAIN, name))
            for name in (scheduler, base)
        )
        for repeat in sorted(one.keys() & other.keys()):
            times[0] += one[repeat]
            times[1] += other[repeat]
    return times[0] / times[1] - 1 if times[1] else None


def _order(order: Order) -> str:
    ranked = sorted(order.ours, key=lambda one: order.ours[one])
    shown = ", ".join(f"{one} {number(order.ours[one])} s" for one in ranked)
    tau = order.tau
    if tau is None:
        agreement = "all four take the same time, so no order can agree with the published one"
    else:
        agreement = (
            f"Kendall's tau against the published order is {tau:.2f}, p = {order.p_value:.2f}; "
            "with four schedulers no p-value can fall below 0.08"
        )
    return (
        f"NILFS2 (a prediction) {order.test}s: {shown} in the mean, off the published means by "
        f"{percent(order.error)} in the mean; {agreement}."
    )


def _mechanism(view: View, found: list[Order]) -> list[str]:
    lines = []
    for order in found:
        if order.spread < ALIKE:
            lines.append(
                f"NILFS2's {order.test}s are tied: one process that waits for what it reads never "
                "has requests of two kinds in the queue, so there is nothing to choose from."
            )
            continue
        extra = {one: both for one, both in extra_erases(view, order).items() if both[0] > 0}
        if extra:
            costs = joined(
                [
                    f"{one} {number(erases)} more ({number(seconds / erases)} s each)"
                    for one, (erases, seconds) in extra.items()
                ]
            )
            lines.append(
                f"The difference in {order.test}s is erase blocks that mtdblock writes back once "
                f"more: {costs}. The last bio of a log is synchronous, those before it are not; "
                "schedulers that serve synchronous requests first write it before its "
                "neighbours, and mtdblock holds one erase block in memory."
            )
        changes = switched_off(view, order)
        if changes:
            parts = [
                f"{SWITCHED_OFF[variant][0]} without {SWITCHED_OFF[variant][1]} "
                f"{signed_percent(change)}"
                for variant, change in changes.items()
            ]
            lines.append(
                f"Switched off one at a time: {joined(parts)} of the time of {order.test}s."
            )
    return lines


def _unpublished(view: View, found: list[Order]) -> list[str]:
    others = [one for one in view.other_schedulers() if one not in SWITCHED_OFF]
    lines = []
    for order in found:
        if order.spread < ALIKE:
            continue
        changes = {one: change_of(view, order.test, one, order.best[0]) for one in others}
        parts = [
            f"{one} {signed_percent(change)}"
            for one, change in changes.items()
            if change is not None
        ]
        if parts:
            lines.append(
                f"Schedulers that are not published, against the fastest that is, {order.test}s: "
                f"{joined(parts)}."
            )
    return lines


def _mean_erases(view: View, test: str, scheduler: str) -> float:
    sizes = view.sizes(NAME)
    found = [view.metric("erases", NAME, test, size, MAIN, scheduler) or 0.0 for size in sizes]
    return sum(found) / len(found)


def _means(lists: Mapping[str, list[float]]) -> dict[str, float]:
    return {name: sum(values) / len(values) for name, values in lists.items()}


def _best(times: Mapping[str, float]) -> tuple[str, ...]:
    least = min(times.values())
    return tuple(one for one, seconds in times.items() if seconds <= least * (1 + ALIKE))


def _sign(one: float, other: float) -> int:
    if abs(one - other) <= ALIKE * max(abs(one), abs(other)):
        return 0
    return 1 if one > other else -1


def _score(first: list[float], second: list[float]) -> int:
    pairs = itertools.combinations(range(len(first)), 2)
    return sum(_sign(first[a], first[b]) * _sign(second[a], second[b]) for a, b in pairs)
