"""The reasons that the publication gives for its tables, as claims."""

from collections.abc import Sequence

from nandlab.verdicts.model import Claim, Evaluation, Value
from nandlab.verdicts.scheduler_filesystem_nilfs2 import change_of
from nandlab.verdicts.scheduler_filesystem_view import (
    FILE_SYSTEMS,
    MAIN,
    TESTS,
    Setting,
    View,
)
from nandlab.verdicts.wording import joined, number, percent, signed_percent

ANTICIPATORY, NO_WAIT = "anticipatory", "anticipatory-no-wait"
LEAST_MARGIN = 0.015
"""By how much its text says that Anticipatory leads in JFFS2's reads."""
PAGES_PER_MIB = 512
"""Of the part's 2 KiB."""
BEYOND = 0.05
"""A read must go beyond the file's own pages by this, for a checkpoint to have spared it any."""


def explanations(view: View, variants: Sequence[Setting]) -> list[Claim]:
    """Every reason that the rows can tell of."""
    names = view.raw_file_systems()
    found = []
    if "yaffs2" in names:
        found.append(_indifferent(view))
    if "jffs2" in names and ANTICIPATORY in view.schedulers():
        found += [_anticipation(view), _margin(view)]
    if "yaffs2" in names:
        found.append(_checkpoint(view, variants))
    return found


def _indifferent(view: View) -> Claim:
    parts = []
    for test in TESTS:
        cells = view.published_cells("yaffs2", test, "mean").values()
        if len(cells) > 1:
            parts.append(f"{test} {percent(max(cells) / min(cells) - 1)}")
    tied = view.are_tied("yaffs2")
    return Claim(
        "yaffs2-indifferent",
        "YAFFS2 does not care about the scheduler",
        f"means apart by {joined(parts)}",
        (Evaluation(MAIN.label, tied, f"every time is {'' if tied else 'not '}the same"),),
        "YAFFS2 reads, programs and erases through the NAND driver; it uses its block device only "
        "to find the chip. What is published for it holds for every file system on raw NAND.",
    )


def _anticipation(view: View) -> Claim:
    cells = {test: view.published_cells("jffs2", test, "mean") for test in TESTS}
    shown = [
        f"{test} {cells[test][ANTICIPATORY]:.2f} s against {cells[test]['noop']:.2f} s under noop"
        for test in TESTS
        if {ANTICIPATORY, "noop"} <= cells[test].keys()
    ]
    ours = {test: _change(view, "jffs2", test) for test in TESTS}
    known = {test: one for test, one in ours.items() if one is not None}
    details = [f"JFFS2 {test}s {signed_percent(one)} against noop" for test, one in known.items()]
    for test in TESTS:
        without = change_of(view, test, NO_WAIT, ANTICIPATORY)
        if without is not None:
            details.append(f"NILFS2 {test}s without the wait {signed_percent(without)}")
    return Claim(
        "why-anticipation",
        "Why: waiting 6 ms for the next request helps JFFS2",
        joined(shown),
        (
            Evaluation(
                MAIN.label,
                all(one < 0 for one in known.values()) if known else None,
                "; ".join(details),
                tuple(Value(f"JFFS2 {test}", one, "part of 1") for test, one in known.items()),
            ),
        ),
        "The wait is the scheduler's, and no request of JFFS2 comes to it. Where requests do, as "
        "NILFS2's, it can be switched off alone. It lasts HZ/150 ticks, cut to whole ones: 6 ms at "
        "1,000 ticks a second, 5 ms at this board's 200.",
    )


def _margin(view: View) -> Claim:
    cells = view.published_cells("jffs2", "read", "mean")
    others = {one: seconds for one, seconds in cells.items() if one != ANTICIPATORY}
    published = "-"
    if others and ANTICIPATORY in cells:
        leads = {one: 1 - cells[ANTICIPATORY] / seconds for one, seconds in others.items()}
        published = f"{percent(LEAST_MARGIN)} or more in the text; by the table " + joined(
            [f"{percent(lead)} against {one}" for one, lead in leads.items()]
        )
    ours = [
        1 - lead
        for one in view.schedulers()
        if one != ANTICIPATORY and (lead := _ratio(view, "jffs2", "read", one)) is not None
    ]
    return Claim(
        "jffs2-read-margin",
        f"JFFS2 reads at least {percent(LEAST_MARGIN)} faster under anticipatory",
        published,
        (
            Evaluation(
                MAIN.label,
                min(ours) >= LEAST_MARGIN if ours else None,
                f"leads of {joined([percent(one) for one in ours])} against the others",
            ),
        ),
        "By the published table itself it leads by less than that against one scheduler.",
    )


def _checkpoint(view: View, variants: Sequence[Setting]) -> Claim:
    return Claim(
        "why-checkpoint",
        "Why: the checkpoint makes YAFFS2's reads fast",
        "the reason given for YAFFS2's read times",
        tuple(_beyond_own_pages(view, setting) for setting in variants),
        "A checkpoint is read by the mount, before IOzone opens the file. It could make a read "
        "faster only by sparing it pages that are not the file's own, and there are none.",
    )


def _beyond_own_pages(view: View, setting: Setting) -> Evaluation:
    sizes = view.sizes("yaffs2", setting)
    found = {}
    for size in sizes:
        pages = view.metric("page_reads", "yaffs2", "read", size, setting)
        spares = view.metric("spare_reads", "yaffs2", "read", size, setting) or 0.0
        if pages is not None:
            found[size] = (pages, spares)
    if not found:
        return Evaluation(setting.label, None, "was not run")
    shares = {
        size: (pages + spares) / (float(size) * PAGES_PER_MIB) - 1
        for size, (pages, spares) in found.items()
    }
    size, (pages, spares) = list(found.items())[-1]
    detail = (
        f"a read of {size} MiB reads {number(pages)} pages of the file's "
        f"{number(float(size) * PAGES_PER_MIB)}, and {number(spares)} spare areas"
    )
    other = view.metric("page_reads", "jffs2", "read", size, setting)
    if other is not None:
        detail += f"; {FILE_SYSTEMS['jffs2']} reads {number(other)} pages"
    return Evaluation(
        setting.label,
        all(share >= BEYOND for share in shares.values()),
        detail,
        tuple(Value(f"{size} MiB", share, "part of 1") for size, share in shares.items()),
        workloads_hold=sum(share >= BEYOND for share in shares.values()),
        workloads=len(shares),
    )


def _change(view: View, file_system: str, test: str) -> float | None:
    """How much longer Anticipatory takes than NOOP, as a part of it, in the mean over the sizes."""
    found = _ratio(view, file_system, test, "noop")
    return None if found is None else found - 1


def _ratio(view: View, file_system: str, test: str, other: str) -> float | None:
    """Anticipatory's mean time as a multiple of that of another scheduler."""
    pairs = []
    for size in view.sizes(file_system):
        one, two = (
            view.seconds(file_system, test, size, MAIN, name) for name in (ANTICIPATORY, other)
        )
        if one and two:
            pairs.append((one, two))
    return sum(one for one, _ in pairs) / sum(two for _, two in pairs) if pairs else None
