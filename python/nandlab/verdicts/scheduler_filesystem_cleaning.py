"""Whether NILFS2 slows when cleaning is due, as the publication says."""

from dataclasses import dataclass, replace

from nandlab.verdicts.model import Claim, Evaluation, Value
from nandlab.verdicts.scheduler_filesystem_view import MAIN, TESTS, View
from nandlab.verdicts.wording import joined, number, signed_percent

NAME = "nilfs2"
DUE = replace(MAIN, flash="used")
"""Flash with files a month old: its segments wait for the cleaner."""
IDLE = replace(DUE, cleaner="off")

NOTICED = 0.01
"""A change smaller than this, as a part, is called none."""


@dataclass(frozen=True)
class Cleaning:
    """One test on the same used flash, with the cleaner kept away and with the cleaner at work."""

    test: str
    size: str
    """MiB of the file."""
    idle_s: float
    active_s: float
    idle_erases: float
    active_erases: float

    @property
    def slower(self) -> float:
        """How much longer the test takes with the cleaner at work, as a part."""
        return self.active_s / self.idle_s - 1


def cleanings(view: View) -> list[Cleaning]:
    """All cells that ran with the cleaner idle and active."""
    found = []
    for test in TESTS:
        for size in view.sizes(NAME, DUE):
            times = [view.seconds(NAME, test, size, setting) for setting in (IDLE, DUE)]
            erases = [
                view.metric("erases", NAME, test, size, setting) or 0.0 for setting in (IDLE, DUE)
            ]
            if times[0] and times[1]:
                found.append(Cleaning(test, size, times[0], times[1], erases[0], erases[1]))
    return found


def change(found: list[Cleaning], test: str) -> float | None:
    """How much longer the sizes of a test take together, as a part; None if none ran."""
    own = [one for one in found if one.test == test]
    if not own:
        return None
    return sum(one.active_s for one in own) / sum(one.idle_s for one in own) - 1


def sentences(view: View) -> list[str]:
    """Whether the statement holds, and by how much."""
    found = cleanings(view)
    changes = {test: part for test in TESTS if (part := change(found, test)) is not None}
    if not changes:
        return []
    shown = joined([f"{test}s {signed_percent(part)}" for test, part in changes.items()])
    holds = "holds" if any(part > NOTICED for part in changes.values()) else "falls"
    return [
        f"NILFS2 slows when cleaning is due: {holds}. On used flash, with nilfs_cleanerd at work "
        f"against the option nogc: {shown}. The cleaner's reads and logs go through the same "
        "queue, and no call that changes anything goes on while it writes a log."
    ]


def claims(view: View) -> list[Claim]:
    """The published statement, by size of the file."""
    found = [one for one in cleanings(view) if one.test == "write"]
    if not found:
        return []
    held = sum(one.slower > NOTICED for one in found)
    shown = joined([f"{one.size} MiB {signed_percent(one.slower)}" for one in found])
    return [
        Claim(
            "nilfs2-slows-when-cleaning",
            "NILFS2 slows when cleaning is due",
            "said of its writes, without a number",
            (
                Evaluation(
                    DUE.label,
                    held == len(found),
                    f"writes take {number(found[-1].idle_s)} s with the cleaner away, "
                    f"{number(found[-1].active_s)} s with it, at {found[-1].size} MiB: {shown}",
                    tuple(Value(f"{one.size} MiB", one.slower, "ratio") for one in found),
                    workloads_hold=held,
                    workloads=len(found),
                ),
            ),
        )
    ]
