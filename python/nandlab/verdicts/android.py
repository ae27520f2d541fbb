"""The verdict of the study android: YAFFS2 or UBIFS on raw NAND, and for whom."""

from collections.abc import Sequence

from nandlab.results import StudyResult
from nandlab.verdicts.android_claims import THROUGHPUT, claims, seconds
from nandlab.verdicts.android_view import (
    BOARDS,
    CLEAN,
    CUT,
    DATASHEET,
    FILE_SYSTEMS,
    JOURNAL_FLASH,
    ROOMS,
    WHOLE,
    View,
)
from nandlab.verdicts.model import Claim, Verdict
from nandlab.verdicts.wording import joined, number, percent, times

CAVEATS = (
    "The publication's figures carry no numbers; its claims are in words, and are judged as words.",
    "It does not say what its chips had been through, which bytes were on them, with which records "
    "IOzone ran, or when in the writing of 1 MB the power was cut. Here chips were written, "
    "overwritten and deleted with bytes that do not compress, records are IOzone's own 4 KiB, and "
    "the cut is in a program or erase of the write and its fsync that the seed draws.",
    "Memory counts structures by their sizes in Linux 2.6.32 on 32-bit ARM. What slabs leave "
    "unused at the end of a page is not counted.",
)


def judge(result: StudyResult) -> Verdict:
    """The claims, and an answer to who should take which."""
    view = View(result)
    found = claims(view)
    if not any(one.holds is not None for claim in found for one in claim.evaluations):
        return Verdict(result.name, "No verdict: nothing that is claimed was run.", (), CAVEATS)
    sentences = (
        _mounts(view, CLEAN),
        _mounts(view, CUT),
        _replay(view),
        _rates(view),
        _rooms(view),
        _memory(view),
        _losses(view),
        _limits(view),
        _boards(found),
    )
    quick = (
        ("This is the quick form: fewer fills, sizes and files, one repeat.",)
        if result.study.get("quick")
        else ()
    )
    return Verdict(
        study=result.name,
        headline=_headline(view),
        sentences=tuple(sentence for sentence in sentences if sentence),
        caveats=(*quick, *CAVEATS),
        claims=tuple(found),
        variants=tuple(BOARDS.values()),
        unexplained=(),
    )


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _headline(view: View) -> str:
    """Which for whom, by what was measured."""
    reasons: dict[str, list[str]] = {"ubifs": [], "yaffs2": []}
    other = {"ubifs": "yaffs2", "yaffs2": "ubifs"}

    def favour(values: dict[str, float | None], words: str) -> None:
        least = [name for name in values if values[name] is not None]
        if len(least) == 2 and values["ubifs"] != values["yaffs2"]:
            best = min(values, key=lambda name: values[name] or 0.0)
            reasons[best].append(words)

    for test, words in (
        (CLEAN, "quick starts after an orderly shutdown"),
        (CUT, "quick starts after a power cut"),
    ):
        means = {
            name: _mean(list(seconds(view, test, name, DATASHEET).values())) for name in reasons
        }
        favour(means, words)
    sizes = view.sizes()
    if sizes:
        favour(
            {name: view.iozone("elapsed_ns", "write", name, sizes[0]) for name in reasons},
            "writes that return at once",
        )
    sooner = {name: list(words) for name, words in reasons.items()}
    counts = view.counts()
    least: dict[str, float | None] = {}
    if counts:
        least = {name: view.memory("drop_bytes", "touched", name, counts[-1]) for name in reasons}
    lost = {name: _mean(_all_lost(view, name)) for name in reasons}
    parts = []
    for name in ("ubifs", "yaffs2"):
        strengths = list(sooner[name])
        rival = other[name]
        for values, text in ((least, "less memory"), (lost, "less lost to a power cut")):
            own, theirs = values.get(name), values.get(rival)
            if own is not None and theirs is not None and own < theirs:
                strengths.append(text)
        if strengths:
            parts.append(f"{FILE_SYSTEMS[name]} for {joined(strengths)}")
    return f"{'; '.join(parts)}." if parts else "YAFFS2 and UBIFS do not differ in what was run."


def _mounts(view: View, test: str) -> str:
    parts = []
    for name in view.file_systems(test):
        found = seconds(view, test, name, DATASHEET)
        if found:
            first, last = (
                number(one) for one in (next(iter(found.values())), list(found.values())[-1])
            )
            span = first if first == last else f"{first} to {last}"
            parts.append(f"{FILE_SYSTEMS[name]} {span} s")
    if not parts:
        return ""
    fills = view.fills(test)
    first, last = (one.removeprefix("used-") for one in (fills[0], fills[-1]))
    begin = (
        "After an orderly shutdown mounts take"
        if test == CLEAN
        else "After a cut while 1 MiB was being written they take"
    )
    return f"{begin}, from {first} to {last} % fill: {joined(parts)}.{_why(view, test, fills[-1])}"


def _why(view: View, test: str, flash: str) -> str:
    headers = view.mount("attach_page_reads", test, "ubifs", flash)
    attach = view.mount("attach_ns", test, "ubifs", flash)
    tags = view.mount("spare_reads", test, "yaffs2", flash)
    if headers is None or attach is None or tags is None:
        return ""
    pages = view.mount("page_reads", test, "yaffs2", flash) or 0.0
    if test == CLEAN:
        return (
            f" UBI's attach is {number(attach / 1e9)} s of UBIFS's: it reads {number(headers)} "
            f"pages with headers, whatever the fill; YAFFS2 reads a checkpoint of {number(pages)} "
            f"pages."
        )
    nodes = view.mount("replayed_nodes", test, "ubifs", flash) or 0.0
    return (
        f" YAFFS2 scans {number(tags)} spare areas then, at {flash.removeprefix('used-')} % fill; "
        f"UBIFS replays {number(nodes)} nodes of its journal."
    )


def _replay(view: View) -> str:
    journal = view.journal()
    if len(journal) < 2:
        return ""
    parts = [f"{number(found)} s with {size} MiB" for size, found in journal]
    published = view.published.get("ubifs_unclean_minus_clean_mount")
    told = "" if published is None else f"; the published {published} s more are not reached"
    clean = seconds(view, CLEAN, "ubifs", DATASHEET).get(JOURNAL_FLASH)
    if published is not None and clean is not None:
        enough = [size for size, found in journal if found - clean >= published]
        if enough:
            told = f": the published {published} s more take a journal of {enough[0]} MiB"
    return (
        "What UBIFS replays is what was written since its last commit. A mount after a cut, by "
        f"what was being written: {joined(parts)}{told}."
    )


def _rates(view: View) -> str:
    sizes = view.sizes()
    parts = []
    for phase, words in (("write", "writes"), ("random-write", "random writes"), ("read", "reads")):
        ratios = [
            ours / other
            for size in sizes
            if (ours := view.rate(phase, "ubifs", size))
            and (other := view.rate(phase, "yaffs2", size))
        ]
        if ratios:
            low, high = times(min(ratios)), times(max(ratios))
            span = low if low == high else f"{low} to {high}"
            parts.append(f"{words} {span}")
    if not parts:
        return ""
    return (
        f"UBIFS's rate as a multiple of YAFFS2's, files of {sizes[0]} to {sizes[-1]} MiB: "
        f"{joined(parts)}."
    )


def _rooms(view: View) -> str:
    rooms = view.rooms()
    if len(rooms) < 2:
        return ""
    scores = {room: room_score(view, room) for room in rooms}
    parts = [f"{held} of {known} with {ROOMS[room]}" for room, (held, known) in scores.items()]
    return f"What is claimed of throughput holds in {joined(parts)}."


def room_score(view: View, room: str) -> tuple[int, int]:
    """Claims on throughput that hold in a room, and those that can be told."""
    held = [judged(view, DATASHEET, room)[0] for *_, judged, _ in THROUGHPUT]
    return sum(one is True for one in held), sum(one is not None for one in held)


def _memory(view: View) -> str:
    counts = view.counts()
    if not counts:
        return ""
    parts = []
    for name in view.file_systems("files"):
        used = view.memory("drop_bytes", "touched", name, counts[-1])
        if used is not None:
            parts.append(f"{FILE_SYSTEMS[name]} {number(used / 2**20)} MiB")
    return f"With {number(float(counts[-1]))} files of 1 KiB read, {joined(parts)} are in use."


def _all_lost(view: View, name: str) -> list[float]:
    return [one for rate in view.rates() for one in view.burst("lost_unsynced_bytes", name, rate)]


def _losses(view: View) -> str:
    rates = view.rates()
    if not rates:
        return ""
    parts, broken = [], []
    for name in view.file_systems("burst"):
        lost = _mean(view.burst("lost_unsynced_bytes", name, rates[-1]))
        if lost is not None:
            parts.append(f"{FILE_SYSTEMS[name]} {number(lost / 1024)} KiB")
        synced = [one for rate in rates for one in view.burst("lost_synced_bytes", name, rate)]
        hit = sum(one > 0 for one in synced)
        if hit:
            broken.append(f"{FILE_SYSTEMS[name]} in {hit} of {len(synced)} cuts")
    told = f" Synced bytes were lost by {joined(broken)}." if broken else " No synced byte is lost."
    return (
        f"A power cut at {rates[-1]} KiB/s takes back what was written and not synced: "
        f"{joined(parts)} in the mean.{told}"
    )


def _limits(view: View) -> str:
    limits = view.limits()
    if not limits:
        return ""
    lines = limit_lines(view)
    if len(lines) < 2:
        return ""
    first, last = lines[0], lines[-1]
    return (
        f"Less dirty memory makes UBIFS slower, not smaller: from {number(first[1])} MiB/s at "
        f"{number(first[3])} MiB dirty ({first[0]}) to {number(last[1])} MiB/s at "
        f"{number(last[3])} MiB ({last[0]}), its own structures take {number(first[2])} and "
        f"{number(last[2])} MiB."
    )


def limit_lines(view: View) -> list[tuple[str, float, float, float]]:
    """Room, write rate in MiB/s, most memory of structures and of dirty pages in MiB."""
    lines = []
    for room in view.limits():
        for size in view.sizes(room=room, data="random")[-1:]:
            rate = view.rate("write", "ubifs", size, room=room, data="random")
            memory = view.iozone("memory_bytes_max", "all", "ubifs", size, room=room, data="random")
            dirty = view.iozone("dirty_bytes_max", "all", "ubifs", size, room=room, data="random")
            if rate is not None and memory is not None and dirty is not None:
                name = "20 % dirty, as it is" if room == WHOLE else room
                lines.append((name, rate, memory / 2**20, dirty / 2**20))
    return lines


def _boards(found: Sequence[Claim]) -> str:
    apart = []
    for claim in found:
        known = {one.holds for one in claim.evaluations if one.holds is not None}
        if len(known) > 1:
            apart.append(f"“{claim.text}”")
    told = [claim for claim in found if all(one.holds is not None for one in claim.evaluations)]
    if not told:
        return ""
    if not apart:
        return f"None of the {len(told)} claims run on both boards depends on the calibration."
    share = percent(len(apart) / len(told))
    return f"{joined(apart)} depend on the calibration of the driver ({share} of what both ran)."
