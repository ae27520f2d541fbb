"""The practical advice of the publications, and what the verdicts leave of it.

No outcome is written here: each piece of advice names the claims it rests on, and what becomes of
it follows from theirs.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from nandlab.verdicts.model import Claim, Verdict
from nandlab.verdicts.standing import Standing, hangs_on, standing
from nandlab.verdicts.wording import joined


@dataclass(frozen=True)
class Advice:
    """What a publication tells its readers to do."""

    study: str
    text: str
    claims: tuple[str, ...]
    """Identifiers of the claims of the study's verdict that are the reasons for it."""


ADVICE = (
    Advice("ftl-windows", "Use FAT, not NTFS", ("use-fat",)),
    Advice("sfq-emmc", "Use SFQ in place of CFQ", (
        "read-latency-max-falls",
        "write-latency-max-falls",
        "read-latency-mean-amount",
        "write-latency-mean-amount",
    )),
    Advice(
        "scheduler-filesystem",
        "Use the Anticipatory scheduler for JFFS2",
        ("jffs2-write-best", "jffs2-read-best"),
    ),
    Advice("android", "Use UBIFS in place of YAFFS2", (
        "mounts-faster-mount",
        "mounts-faster-mount-after-cut",
        "writes-faster",
        "small-reads",
        "ubifs-integrity",
        "yaffs2-no-integrity",
    )),
)  # fmt: skip
"""The advice of the four publications, one piece each."""

STANDS, FALLS, DEPENDS, UNKNOWN = "stands", "falls", "depends", "cannot be told"


@dataclass(frozen=True)
class Reason:
    """A claim that advice rests on: where it stands, and in words why."""

    text: str
    standing: Standing
    why: str


@dataclass(frozen=True)
class Outcome:
    """What is left of a piece of advice: one of the four words above, on what, and why."""

    word: str
    summary: str
    reasons: tuple[Reason, ...] = ()


def outcome(advice: Advice, verdict: Verdict | None) -> Outcome:
    """What the verdict of the study leaves of the advice; `verdict` is None if it was not run."""
    if verdict is None:
        return Outcome(UNKNOWN, f"the study {advice.study} was not run")
    claims = {claim.identifier: claim for claim in verdict.claims}
    reasons = [_reason(claims[name]) for name in advice.claims if name in claims]
    told = [one for one in reasons if one.standing is not Standing.UNTESTED]
    if not told:
        return Outcome(UNKNOWN, "nothing that it rests on was run", tuple(reasons))
    standings = {one.standing for one in told}
    if standings == {Standing.EVERYWHERE}:
        return Outcome(STANDS, _all(told, "holds", "hold", "in every setting"), tuple(reasons))
    if standings == {Standing.NOWHERE}:
        return Outcome(FALLS, _all(told, "holds", "hold", "in no setting"), tuple(reasons))
    return Outcome(DEPENDS, _mixed(told), tuple(reasons))


def summary(outcomes: Sequence[Outcome]) -> str:
    """How many pieces of advice stand, fall, depend or cannot be told."""
    words = {
        STANDS: ("stands as it was given", "stand as they were given"),
        FALLS: ("falls", "fall"),
        DEPENDS: ("depends", "depend"),
        UNKNOWN: ("cannot be told", "cannot be told"),
    }
    parts = []
    for word, (one, several) in words.items():
        count = sum(found.word == word for found in outcomes)
        if count or word == STANDS:
            parts.append(f"{count or 'none'} {several if count > 1 else one}")
    return joined(parts)


def _reason(claim: Claim) -> Reason:
    where = standing(claim)
    if where is Standing.SOMEWHERE:
        return Reason(claim.text, where, hangs_on(claim))
    known = [one for one in claim.evaluations if one.holds is not None]
    return Reason(claim.text, where, known[0].detail if known else where.value)


def _all(told: Sequence[Reason], one: str, several: str, where: str) -> str:
    if len(told) == 1:
        return f"what it rests on {one} {where}"
    every = "both" if len(told) == 2 else f"all {len(told)}"
    return f"{every} claims it rests on {several} {where}"


def _mixed(told: Sequence[Reason]) -> str:
    if len(told) == 1:
        return told[0].why
    counts = {
        "in every setting": Standing.EVERYWHERE,
        "in some": Standing.SOMEWHERE,
        "in none": Standing.NOWHERE,
    }
    parts = [
        f"{count} {where}"
        for where, wanted in counts.items()
        if (count := sum(one.standing is wanted for one in told))
    ]
    return f"of {len(told)} claims it rests on hold {joined(parts)}"
