"""The claims of the publication on YAFFS2 and UBIFS, held against the rows."""

import itertools
from collections.abc import Callable, Sequence
from functools import partial

from nandlab.verdicts.android_view import (
    BOARDS,
    CLEAN,
    CUT,
    MOUNTS,
    PATTERN,
    RANDOM,
    READS,
    WHOLE,
    WRITES,
    View,
)
from nandlab.verdicts.model import Claim, Evaluation, Value
from nandlab.verdicts.wording import number, percent, signed_percent

CHIP_BLOCKS, PAGES_PER_BLOCK = 2048, 64
NEAR = 0.25
"""A number is met if it is no further off than this share."""
LITTLE = 0.25
"""Rates differ little up to this share."""
FLAT = 1.1
"""Times are the same over the fill if the most is no more than this many times the least."""
GROWS = 1.5
FAR = 2.0
"""Far faster is at least so many times as fast."""


def claims(view: View) -> list[Claim]:
    """All claims that the rows can tell of, and the explanations beside them."""
    faster = view.published.get("mount_time_ubifs_below_yaffs2") or 0.49
    apart = view.published.get("ubifs_unclean_minus_clean_mount") or 2.55
    more = view.published.get("memory_ubifs_above_yaffs2") or 0.26
    return [
        *(
            _claim(
                f"mounts-faster-{test}",
                f"UBIFS mounts at least {percent(faster)} faster {words}",
                f"at least {percent(faster)}, clean and unclean",
                _by_board(partial(_mounts_faster, view, test, faster)),
                _mount_mechanism(test),
            )
            for test, words in MOUNTS.items()
        ),
        _claim(
            "unclean-minus-clean",
            f"A power cut makes UBIFS's mount {apart} s longer in the mean",
            f"{apart} s",
            _by_board(lambda board: _unclean_minus_clean(view, board, apart)),
            "What is replayed is what the journal holds since the last commit, and no more.",
        ),
        _claim(
            "yaffs2-grows",
            "YAFFS2's mount after a power cut grows with the fill",
            "grows",
            _by_board(lambda board: _over_fill(view, board, "yaffs2", (CUT,), grows=True)),
            "The tags of every page that was ever programmed are read.",
        ),
        _claim(
            "ubifs-flat",
            "UBIFS's mount does not grow with the fill",
            "flat",
            _by_board(lambda board: _over_fill(view, board, "ubifs", (CLEAN, CUT), grows=False)),
            "UBI reads the headers of every block whatever it holds; UBIFS its journal.",
        ),
        *_throughput(view),
        _claim(
            "memory-used",
            f"UBIFS uses at least {percent(more)} more memory",
            f"at least {percent(more)} more",
            _once(lambda: _memory(view, "drop_bytes", more)),
            "What is taken from MemFree + Buffers + Cached by the mount and its files.",
        ),
        _claim(
            "memory-sum",
            f"MemFree + Buffers + Cached is at least {percent(more)} more with UBIFS",
            "the published sum, as it is printed",
            _once(lambda: _memory(view, "available_bytes", more)),
            "The printed sum is memory that is available, so more of it is less used.",
        ),
        _claim(
            "ubifs-integrity",
            "UBIFS keeps its integrity over a power cut",
            "holds",
            _once(lambda: _integrity(view, "ubifs")),
            "It mounts, its check is clean, what was synced is there, and no byte is wrong; bytes "
            "that were not synced may be missing, or zeros.",
        ),
        _claim(
            "yaffs2-no-integrity",
            "YAFFS2 cannot keep its integrity under bursts of writes",
            "holds",
            _once(lambda: _negated(_integrity(view, "yaffs2"))),
            "",
        ),
        *_explanations(view),
    ]


def _throughput(view: View) -> list[Claim]:
    """Claims on IOzone, with its own bytes and with bytes that do not compress."""
    found = []
    for identifier, text, published, judge, mechanism in THROUGHPUT:
        for data, suffix in ((PATTERN, ""), (RANDOM, ", random bytes")):
            found.append(
                _claim(
                    f"{identifier}-{data}" if suffix else identifier,
                    f"{text}{suffix}",
                    published,
                    _by_board(partial(judge, view, room=WHOLE, data=data)),
                    mechanism,
                )
            )
    return found


def _explanations(view: View) -> list[Claim]:
    return [
        _claim(
            "full-scan",
            "Why: after a power cut YAFFS2 scans the whole chip",
            "full scan",
            _by_board(lambda board: _full_scan(view, board)),
            "A scan reads the first tags of every block, and all tags of blocks that hold data.",
        ),
        _claim(
            "checkpoint",
            "Why: after an orderly shutdown YAFFS2 takes its checkpoint, after a cut it cannot",
            "checkpoint",
            _by_board(lambda board: _checkpoint(view, board)),
            "",
        ),
        _claim(
            "attach",
            "Why: UBI's attach reads the headers of every block, whatever the fill",
            "scanning of UBI",
            _by_board(lambda board: _attach(view, board)),
            "Both headers lie in the first page, where a part of it can be programmed: the driver "
            "reads it once. Of each block the bad-block mark is read besides.",
        ),
        _claim(
            "journal",
            "Why: after a power cut UBIFS replays its journal only",
            "journal",
            _by_board(lambda board: _journal(view, board)),
            "",
        ),
        _claim(
            "write-back",
            "Why: UBIFS's writes do not wait for the chip",
            "write-back",
            _by_board(lambda board: _write_back(view, board)),
            "",
        ),
    ]


def _claim(
    identifier: str,
    text: str,
    published: str,
    evaluations: tuple[Evaluation, ...],
    mechanism: str,
) -> Claim:
    return Claim(identifier, text, published, evaluations, mechanism)


Judged = tuple[bool | None, str, tuple[Value, ...], int, int]
"""Whether it holds, in words, values, and in how many cells of how many."""

NOT_RUN: Judged = (None, "was not run", (), 0, 0)


def _by_board(judge: Callable[[str], Judged]) -> tuple[Evaluation, ...]:
    return tuple(_evaluation(words, judge(board)) for board, words in BOARDS.items())


def _once(judge: Callable[[], Judged]) -> tuple[Evaluation, ...]:
    """For what was run on the first board alone."""
    first, *others = BOARDS.values()
    unknown = tuple(_evaluation(words, NOT_RUN) for words in others)
    return (_evaluation(first, judge()), *unknown)


def _evaluation(variant: str, judged: Judged) -> Evaluation:
    holds, detail, values, held, cells = judged
    return Evaluation(variant, holds, detail, values, workloads_hold=held, workloads=cells)


def _cells(found: Sequence[tuple[str, float]], holds: Callable[[float], bool]) -> Judged:
    """A claim that holds where it holds in all cells; the words give the range."""
    if not found:
        return NOT_RUN
    held = sum(holds(value) for _, value in found)
    values = tuple(Value(label, value, "ratio") for label, value in found)
    return held == len(found), "", values, held, len(found)


def _worded(judged: Judged, detail: str) -> Judged:
    holds, words, values, held, cells = judged
    return judged if holds is None else (holds, detail or words, values, held, cells)


def _span(values: Sequence[float], show: Callable[[float], str] = number) -> str:
    low, high = show(min(values)), show(max(values))
    return low if low == high else f"{low} to {high}"


def seconds(view: View, test: str, file_system: str, board: str) -> dict[str, float]:
    """Seconds of a mount by state of the flash."""
    found = {}
    for flash in view.fills(test, board):
        value = view.mount("mount_ns", test, file_system, flash, board)
        if value is not None:
            found[flash] = value / 1e9
    return found


def _mounts_faster(view: View, test: str, least: float, board: str) -> Judged:
    ubifs, yaffs2 = (seconds(view, test, one, board) for one in ("ubifs", "yaffs2"))
    saved = [(flash, 1 - ubifs[flash] / yaffs2[flash]) for flash in ubifs if flash in yaffs2]
    judged = _cells(saved, lambda one: one >= least)
    if not saved:
        return judged
    return _worded(
        judged,
        f"UBIFS {_span(list(ubifs.values()))} s, YAFFS2 {_span(list(yaffs2.values()))} s: "
        f"UBIFS takes {_span([1 - one for _, one in saved])} times as long, by fill",
    )


def _mount_mechanism(test: str) -> str:
    if test == CLEAN:
        return (
            "A checkpoint gives YAFFS2 its tables back in a few pages; UBI has none and reads the "
            "headers of every block at every start."
        )
    return "YAFFS2 reads tags as far as the chip is filled; UBI and UBIFS read what they always do."


def _unclean_minus_clean(view: View, board: str, wanted: float) -> Judged:
    clean, cut = (seconds(view, test, "ubifs", board) for test in (CLEAN, CUT))
    found = [(flash, cut[flash] - clean[flash]) for flash in cut if flash in clean]
    if not found:
        return NOT_RUN
    mean = sum(one for _, one in found) / len(found)
    values = tuple(Value(flash, one, "s") for flash, one in found)
    detail = f"{number(mean)} s in the mean, {_span([one for _, one in found])} s by fill"
    return abs(mean / wanted - 1) <= NEAR, detail, values, 0, 0


def _over_fill(
    view: View, board: str, file_system: str, tests: Sequence[str], *, grows: bool
) -> Judged:
    details, held = [], []
    for test in tests:
        found = seconds(view, test, file_system, board)
        if len(found) < 2:
            return NOT_RUN
        series = list(found.values())
        rises = all(one < two for one, two in itertools.pairwise(series))
        spread = max(series) / min(series)
        held.append(rises and spread >= GROWS if grows else spread <= FLAT)
        shown = ", ".join(f"{number(one)} s" for one in series)
        details.append(f"{MOUNTS[test]} {shown}")
    return all(held), "; ".join(details), (), sum(held), len(held)


def _ratios(
    view: View,
    cells: tuple[str, str, str],
    phases: Sequence[str],
    sizes: Sequence[str] | None = None,
) -> list[tuple[str, float]]:
    """UBIFS's rate as a multiple of YAFFS2's; `cells` are board, room and data."""
    found = []
    for phase in phases:
        for size in sizes or view.sizes(*cells):
            ours, other = (view.rate(phase, one, size, *cells) for one in ("ubifs", "yaffs2"))
            if ours and other:
                found.append((f"{phase}, {size} MiB", ours / other))
    return found


def reads_alike(view: View, board: str, room: str, data: str = PATTERN) -> Judged:
    """Read rates differ little."""
    found = _ratios(view, (board, room, data), READS)
    judged = _cells(found, lambda one: abs(one - 1) <= LITTLE)
    if not found:
        return judged
    parts = []
    for phase in READS:
        own = [one for label, one in found if label.startswith(f"{phase},")]
        if own:
            parts.append(f"{phase} {_span(own)}")
    return _worded(judged, f"UBIFS is so many times as fast: {'; '.join(parts)}")


def small_reads(view: View, board: str, room: str, data: str = PATTERN) -> Judged:
    """UBIFS reads the smallest file faster."""
    sizes = view.sizes(board, room, data)
    found = _ratios(view, (board, room, data), READS, sizes[:1]) if sizes else []
    judged = _cells(found, lambda one: one > 1)
    shown = "; ".join(f"{label.split(',')[0]} {number(one)} times as fast" for label, one in found)
    return _worded(judged, f"at {sizes[0] if sizes else '-'} MiB UBIFS: {shown}")


def reread_rises(view: View, board: str, room: str, data: str = PATTERN) -> Judged:
    """YAFFS2's re-read rises towards 16 MiB."""
    sizes = [size for size in view.sizes(board, room, data) if float(size) <= 16]
    rates = [view.rate("reread", "yaffs2", size, board, room, data) for size in sizes]
    known = [one for one in rates if one is not None]
    if len(known) < 3:
        return NOT_RUN
    rises = all(one * 1.01 < two for one, two in itertools.pairwise(known))
    shown = ", ".join(f"{number(one)} at {size}" for size, one in zip(sizes, known, strict=False))
    return rises, f"MiB/s by MiB: {shown}", (), 0, 0


def writes_faster(view: View, board: str, room: str, data: str = PATTERN) -> Judged:
    """UBIFS writes far faster."""
    found = _ratios(view, (board, room, data), WRITES)
    judged = _cells(found, lambda one: one >= FAR)
    if not found:
        return judged
    return _worded(judged, f"UBIFS is {_span([one for _, one in found])} times as fast")


def _memory(view: View, metric: str, least: float) -> Judged:
    found = []
    for files in view.counts():
        ours, other = (view.memory(metric, "touched", one, files) for one in ("ubifs", "yaffs2"))
        if ours and other:
            found.append((f"{files} files", ours / other - 1))
    judged = _cells(found, lambda one: one >= least)
    shown = "; ".join(f"{label} {signed_percent(one)}" for label, one in found)
    return _worded(judged, f"with all files read, UBIFS against YAFFS2: {shown}")


def _integrity(view: View, file_system: str) -> Judged:
    """Every power cut at every rate."""
    cuts = broken = zeros = 0
    words: dict[str, int] = {}
    for rate in view.rates():
        mounted = view.burst("is_mounted", file_system, rate)
        cuts += len(mounted)
        metrics = ("complaints", "lost_synced_bytes", "wrong_bytes")
        measured = [view.burst(metric, file_system, rate) for metric in metrics]
        words["not mounted"] = words.get("not mounted", 0) + mounted.count(0.0)
        broken += mounted.count(0.0)
        for metric, values in zip(metrics, measured, strict=True):
            hit = sum(one > 0 for one in values)
            words[metric] = words.get(metric, 0) + hit
        broken += sum(any(one > 0 for one in cut) for cut in zip(*measured, strict=True))
        zeros += sum(one > 0 for one in view.burst("zero_bytes", file_system, rate))
    if not cuts:
        return NOT_RUN
    names = {
        "not mounted": "did not mount",
        "complaints": "check complains",
        "lost_synced_bytes": "synced bytes lost",
        "wrong_bytes": "wrong bytes",
    }
    hits = [f"{names[word]} {hit}" for word, hit in words.items() if hit]
    shown = f": {', '.join(hits)}" if hits else ""
    detail = f"{broken} of {cuts} power cuts break something{shown}"
    if zeros:
        detail += f"; after {zeros} a file has its size, and zeros for bytes that were not synced"
    return broken == 0, detail, (), cuts - broken, cuts


def _negated(judged: Judged) -> Judged:
    holds, detail, values, _, _ = judged
    return (None if holds is None else not holds), detail, values, 0, 0


def _full_scan(view: View, board: str) -> Judged:
    pages = CHIP_BLOCKS * PAGES_PER_BLOCK
    found = [
        (flash, read / pages)
        for flash in view.fills(CUT, board)
        if (read := view.mount("spare_reads", CUT, "yaffs2", flash, board)) is not None
    ]
    judged = _cells(found, lambda one: one >= 0.9)
    shown = "; ".join(f"{flash} {percent(one)}" for flash, one in found)
    return _worded(judged, f"spare areas read, as a share of the chip's pages: {shown}")


def _checkpoint(view: View, board: str) -> Judged:
    found = []
    for test, wanted in ((CLEAN, 1.0), (CUT, 0.0)):
        for flash in view.fills(test, board):
            used = view.mount("is_from_checkpoint", test, "yaffs2", flash, board)
            if used is not None:
                found.append((f"{test} {flash}", float(used == wanted)))
    judged = _cells(found, lambda one: one == 1)
    return _worded(judged, f"in {judged[3]} of {judged[4]} cells")


def _attach(view: View, board: str) -> Judged:
    found = []
    for test in MOUNTS:
        for flash in view.fills(test, board):
            reads = view.mount("attach_page_reads", test, "ubifs", flash, board)
            if reads is not None:
                found.append((f"{test} {flash}", reads / CHIP_BLOCKS))
    judged = _cells(found, lambda one: one >= 1)
    span = _span([one for _, one in found]) if found else ""
    return _worded(judged, f"{span} pages read a block, and its mark")


def _journal(view: View, board: str) -> Judged:
    found = []
    for flash in view.fills(CUT, board):
        reads = view.mount("page_reads", CUT, "ubifs", flash, board)
        headers = view.mount("attach_page_reads", CUT, "ubifs", flash, board)
        if reads is not None and headers is not None:
            found.append((flash, reads - headers))
    if len(found) < 2:
        return NOT_RUN
    values = [one for _, one in found]
    nodes = [view.mount("replayed_nodes", CUT, "ubifs", flash, board) or 0 for flash, _ in found]
    detail = f"{_span(values)} pages read behind the headers, {_span(nodes)} nodes replayed"
    return max(values) <= GROWS * max(min(values), 1), detail, (), 0, 0


def _write_back(view: View, board: str) -> Judged:
    found = []
    for size in view.sizes(board):
        programs = view.iozone("page_programs", "write", "ubifs", size, board)
        other = view.iozone("page_programs", "write", "yaffs2", size, board)
        if programs is not None and other:
            found.append((f"{size} MiB", programs / other))
    judged = _cells(found, lambda one: one <= 0.1)
    shown = "; ".join(f"{label} {percent(one)}" for label, one in found)
    return _worded(judged, f"pages programmed meanwhile, as a share of YAFFS2's: {shown}")


THROUGHPUT: tuple[tuple[str, str, str, Callable[..., Judged], str], ...] = (
    (
        "reads-alike",
        "Read rates differ little",
        "little",
        reads_alike,
        "A cold read of what LZO made small reads fewer pages; a warm one reads none. Of bytes "
        "that do not compress both read every page, UBIFS without read-ahead.",
    ),
    (
        "small-reads",
        "UBIFS reads small files faster",
        "faster at small sizes",
        small_reads,
        "",
    ),
    (
        "reread-rises",
        "YAFFS2's re-read rises towards 16 MiB",
        "rises",
        reread_rises,
        "A second read is served from memory by the same code for every file system.",
    ),
    (
        "writes-faster",
        "UBIFS writes far faster",
        "far faster",
        writes_faster,
        "A write to UBIFS ends in the page cache; one to YAFFS2, on the chip.",
    ),
)
"""Claims on IOzone: name, words, as published, how judged, mechanism. They hang on what "40 MB of
available memory" means."""
