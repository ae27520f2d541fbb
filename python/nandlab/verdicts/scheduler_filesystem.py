"""The verdict of the study scheduler-filesystem: schedulers under JFFS2, YAFFS2 and NILFS2."""

from collections.abc import Sequence
from dataclasses import replace

from nandlab.results import StudyResult
from nandlab.verdicts import scheduler_filesystem_block2mtd as block2mtd
from nandlab.verdicts import scheduler_filesystem_cleaning as cleaning
from nandlab.verdicts import scheduler_filesystem_effect as effect
from nandlab.verdicts import scheduler_filesystem_nilfs2 as nilfs2
from nandlab.verdicts.model import Claim, Evaluation, Value, Verdict
from nandlab.verdicts.page_costs import page_costs
from nandlab.verdicts.scheduler_filesystem_agreement import agreements
from nandlab.verdicts.scheduler_filesystem_causes import (
    Span,
    slow_stretches,
    spans,
    stretch_words,
)
from nandlab.verdicts.scheduler_filesystem_explanations import explanations
from nandlab.verdicts.scheduler_filesystem_view import (
    DATASHEET,
    FILE_SYSTEMS,
    MAIN,
    PARTS,
    SCHEDULERS,
    TESTS,
    Setting,
    View,
)
from nandlab.verdicts.wording import joined, number, percent, signed_percent, times

TIE = "tied by construction: no request of this file system goes through a scheduler"

CAVEATS = (
    "The board's two costs a page are calibrated on the YAFFS2 + NOOP cells, so YAFFS2's agreement "
    "with them is no result. The rows of JFFS2 are predictions: nothing of them was fitted, and no "
    "bar was set for them.",
    "The publication does not say which bytes IOzone wrote, whether the file system was mounted "
    "anew before each test, what the flash had been through, or how many passes its times sum. "
    "The first setting takes random bytes, a cold cache, fresh flash and one pass.",
    "Ten runs of a cell differ here only in the phase of the timer and in the page at which the "
    "file system stands.",
)

DRIVER_COMMENT_MS = 0.85
"""A page of 2 KiB written, as a comment of the board's NAND driver has it."""


def judge(result: StudyResult) -> Verdict:
    """The published cells beside ours, what the time is made of, and what can explain the rest."""
    view = View(result)
    names = view.file_systems()
    if not names:
        return Verdict(
            result.name,
            "No verdict: no file system ran in the first setting.",
            (f"The rows hold no cell with {MAIN.label}.",),
            CAVEATS,
        )
    raw = view.raw_file_systems()
    found_spans = spans(view)
    claims = [*_claims(view), *nilfs2.claims(view), *cleaning.claims(view)]
    sentences = [
        _tie(view, raw),
        effect.sentence(view),
        *(_distance(view, name) for name in names),
        *(_where(view, name) for name in names),
        _passes(view),
        _stretches(view),
        *(_explained(found_spans, name) for name in raw),
        *nilfs2.sentences(view),
        *cleaning.sentences(view),
        *block2mtd.sentences(view),
    ]
    quick = (
        ("This is the quick form: two sizes, two repeats, no used flash of JFFS2 or NILFS2.",)
        if result.study.get("quick")
        else ()
    )
    return Verdict(
        study=result.name,
        headline=_headline(view, raw),
        sentences=tuple(sentence for sentence in sentences if sentence),
        caveats=(
            *quick,
            *CAVEATS,
            *((nilfs2.DEVICE,) if nilfs2.NAME in names else ()),
            *((block2mtd.DEVICE,) if view.sizes(block2mtd.NAME) else ()),
        ),
        claims=tuple(claims),
        variants=tuple(setting.label for setting in _variants(view)),
        agreement=tuple(agreements(view)),
        unexplained=tuple(_unexplained(view, found_spans)),
    )


def _headline(view: View, names: Sequence[str]) -> str:
    if not names:
        return nilfs2.headline(view)
    tied = [FILE_SYSTEMS.get(name, name) for name in names if view.are_tied(name)]
    if len(tied) < len(names):
        return "Schedulers change the times of a file system on raw NAND: that is a defect."
    raw = f"The scheduler does not matter to {joined(tied)}, whose requests never meet it."
    return f"{raw} {nilfs2.headline(view)}".rstrip()


def _tie(view: View, names: Sequence[str]) -> str:
    schedulers = view.schedulers()
    if len(schedulers) < 2 or not all(view.are_tied(name) for name in names):
        return ""
    apart = []
    for name in names:
        for test in TESTS:
            cells = [view.published_cells(name, test, "mean").get(one) for one in schedulers]
            known = [one for one in cells if one]
            if len(known) > 1:
                share = percent(max(known) / min(known) - 1)
                apart.append(f"{share} for {FILE_SYSTEMS.get(name, name)} {test}")
    published = f" Published means lie apart by {joined(apart)}." if apart else ""
    return (
        f"{joined(schedulers)} are tied by construction: these file systems call the NAND driver "
        f"themselves, and only a block device has a scheduler.{published}"
    )


def _distance(view: View, name: str) -> str:
    parts = []
    for test in TESTS:
        ratios = []
        for size in view.sizes(name):
            ours, cells = view.seconds(name, test, size), view.published_cells(name, test, size)
            if ours and cells:
                ratios.append((ours / max(cells.values()), ours / min(cells.values())))
        if ratios:
            low, high = min(one[0] for one in ratios), max(one[1] for one in ratios)
            parts.append(f"{test} {number(low)} to {number(high)} of the published time")
    if not parts:
        return ""
    kind = "calibrated" if name == "yaffs2" else "a prediction"
    return f"{FILE_SYSTEMS.get(name, name)} ({kind}): {joined(parts)}, over sizes and schedulers."


def _where(view: View, name: str) -> str:
    """What the time of the largest file is made of, without calibration."""
    setting = replace(MAIN, board=DATASHEET)
    sizes = view.sizes(name, setting)
    if not sizes:
        return ""
    size = sizes[-1]
    lines = []
    for test in TESTS:
        whole = view.metric("elapsed_ns", name, test, size, setting)
        if not whole:
            continue
        shares = {
            words: (view.metric(part, name, test, size, setting) or 0) / whole
            for part, words in PARTS.items()
        }
        top = sorted(shares, key=lambda words: shares[words], reverse=True)[:3]
        listed = joined([f"{percent(shares[words])} {words}" for words in top if shares[words] > 0])
        lines.append(f"{test} {listed}")
    return (
        f"Where {FILE_SYSTEMS.get(name, name)}'s time goes at {size} MiB on the board as its data "
        f"sheets have it: {'; '.join(lines)}."
    )


def _passes(view: View) -> str:
    found = [costs for passes in (1, 2, 3) if (costs := page_costs(view, passes)) is not None]
    if not found:
        return ""
    parts = [
        f"{one.passes} {'pass means' if one.passes == 1 else 'passes mean'} "
        f"{_ms(one.written_page_ns)} a page written and {_ms(one.read_page_whole_ns)} a page read"
        for one in found
    ]
    nearest = min(found, key=lambda one: abs(one.written_page_ns / 1e6 - DRIVER_COMMENT_MS))
    return (
        f"If the published times sum several passes of IOzone, {'; '.join(parts)}. The driver's "
        f"own comment says {DRIVER_COMMENT_MS} ms a page written, which {nearest.passes} passes "
        f"come nearest to."
    )


def _stretches(view: View) -> str:
    stretches = slow_stretches(view, "jffs2", "write")
    slow = [one for one in stretches if one.sizes]
    if not slow or not all(one.is_at_start for one in stretches):
        return ""
    return (
        f"JFFS2's published writes are slow in one stretch each, always from the smallest file on: "
        f"{stretch_words(stretches)}. Nothing slow comes after. A mount of used flash does that "
        "here: JFFS2's collector checks all nodes in the background, an inode for every call that "
        "wakes it, and slows the writer until it is through."
    )


def _explained(found: Sequence[Span], name: str) -> str:
    own = [one for one in found if one.file_system == name]
    if not own:
        return ""
    held = [one for one in own if one.is_explained]
    widest = max(own, key=lambda one: one.published)
    return (
        f"{FILE_SYSTEMS.get(name, name)}: in {len(held)} of {len(own)} cells the state of the "
        f"flash, the bytes and the repeats move our time at least as far as the schedulers move "
        f"the published one; in the widest ({widest.test}, {widest.size} MiB) {times(widest.ours)} "
        f"against {times(widest.published)}."
    )


def _variants(view: View) -> list[Setting]:
    wanted = [
        MAIN,
        replace(MAIN, data="pattern"),
        replace(MAIN, flash="aged"),
        replace(MAIN, board=DATASHEET),
    ]
    return [one for one in wanted if all(view.sizes(name, one) for name in ("jffs2", "yaffs2"))]


def _claims(view: View) -> list[Claim]:
    variants = _variants(view)
    if not variants or not view.published:
        return []
    claims = []
    for test in TESTS:
        cells = view.published_cells("jffs2", test, "mean")
        if len(cells) < len(SCHEDULERS):
            continue
        best = min(cells, key=lambda one: cells[one])
        shown = ", ".join(f"{one} {cells[one]:.2f} s" for one in SCHEDULERS)
        claims.append(
            Claim(
                f"jffs2-{test}-best",
                f"JFFS2 {test}s fastest under {best}",
                shown,
                tuple(
                    Evaluation(setting.label, not view.are_tied("jffs2"), TIE)
                    for setting in variants[:1]
                ),
            )
        )
    claims += explanations(view, variants)
    for test in TESTS:
        claims.append(
            Claim(
                f"yaffs2-{test}s-faster",
                f"YAFFS2 {test}s faster than JFFS2",
                _published_ratio(view, test),
                tuple(_faster(view, test, setting) for setting in variants),
            )
        )
    claims.append(
        Claim(
            "jffs2-write-five-times",
            "JFFS2's writes take at least five times as long as YAFFS2's",
            _published_ratio(view, "write"),
            tuple(_ratio_at_least(view, 5.0, setting) for setting in variants),
        )
    )
    return claims


def _ratios(view: View, test: str, setting: Setting) -> dict[str, float]:
    found = {}
    for size in view.sizes("jffs2", setting):
        ours = [view.seconds(name, test, size, setting) for name in ("jffs2", "yaffs2")]
        if ours[0] and ours[1]:
            found[size] = ours[0] / ours[1]
    return found


def _published_ratio(view: View, test: str) -> str:
    cells = [view.published_cells(name, test, "mean") for name in ("jffs2", "yaffs2")]
    ratios = [cells[0][one] / cells[1][one] for one in SCHEDULERS if one in cells[0]]
    return f"JFFS2 takes {number(min(ratios))} to {number(max(ratios))} times as long"


def _faster(view: View, test: str, setting: Setting) -> Evaluation:
    return _ratio_at_least(view, 1.0, setting, test)


def _ratio_at_least(view: View, least: float, setting: Setting, test: str = "write") -> Evaluation:
    ratios = _ratios(view, test, setting)
    if not ratios:
        return Evaluation(setting.label, None, "was not run")
    held = sum(one > least for one in ratios.values())
    return Evaluation(
        setting.label,
        held == len(ratios),
        f"JFFS2 takes {number(min(ratios.values()))} to {number(max(ratios.values()))} times as "
        "long, by size",
        tuple(Value(f"{size} MiB", one, "ratio") for size, one in ratios.items()),
        workloads_hold=held,
        workloads=len(ratios),
    )


def _unexplained(view: View, found: Sequence[Span]) -> list[str]:
    lines = []
    ratios = []
    for size in view.sizes("jffs2"):
        ours, cells = (
            view.seconds("jffs2", "write", size),
            view.published_cells("jffs2", "write", size),
        )
        if ours and cells:
            ratios.append(min(cells.values()) / ours)
    if ratios and min(ratios) > 1.5:
        lines.append(
            f"JFFS2's published writes take {number(min(ratios))} to {number(max(ratios))} times "
            "what fresh flash takes here, even where they are fastest, whatever is written. Used "
            "flash can take that long, but then the time hangs on its history, which is not "
            "published: this level is not explained."
        )
    for one in found:
        if not one.is_explained:
            lines.append(
                f"{FILE_SYSTEMS.get(one.file_system, one.file_system)} {one.test}, {one.size} MiB: "
                f"published times lie apart by {signed_percent(one.published - 1)}, ours by "
                f"{signed_percent(one.ours - 1)}; nothing that was varied explains the rest. It "
                "may be noise of the measurement."
            )
    return lines


def _ms(nanoseconds: float) -> str:
    return f"{number(nanoseconds / 1e6)} ms"
