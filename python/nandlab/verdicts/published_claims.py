"""The claims of the publication on FTLs under Windows file systems, each tested on the rows."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from nandlab.results.measurements import mean
from nandlab.verdicts import mechanics
from nandlab.verdicts.model import Claim, Evaluation, Value
from nandlab.verdicts.published_view import PUBLISHED_FTLS, View
from nandlab.verdicts.wording import ftl_name, joined, number, percent, times

MUCH_LESS = 1.5
"""What `<<` and `far less` are taken to mean: at least this factor."""

FLAT = 1.1
"""A layer whose cost changes by less than this factor with file size counts as flat."""

STRONG = 1.5
"""From this factor on, the sensitivity to file size is rated 3."""

Test = Callable[[View], Evaluation]


@dataclass(frozen=True)
class ClaimTest:
    """A claim, where it is said, how it is tested and how its mechanism is told."""

    identifier: str
    text: str
    published: str
    test: Test
    mechanism: Callable[[View], str]
    qualified: bool = False


def claims(views: Sequence[View], main: View) -> list[Claim]:
    """Every claim under every view; mechanisms are told from `main`."""
    return [
        Claim(
            identifier=one.identifier,
            text=one.text,
            published=one.published,
            evaluations=tuple(one.test(view) for view in views),
            mechanism=one.mechanism(main),
            qualified=one.qualified,
        )
        for one in CLAIMS
    ]


def _order(column: str, statistic: str, chain: Sequence[str], much: Sequence[int] = ()) -> Test:
    """Tests that layers come in the order of `chain`; steps in `much` are `<<`."""

    def values(view: View, place: Mapping[str, str]) -> dict[str, float] | None:
        found = {ftl: view.window(column, statistic, ftl, **place) for ftl in chain}
        known = {ftl: value for ftl, value in found.items() if value is not None}
        return known if len(known) == len(chain) else None

    def failing(at: Mapping[str, float]) -> list[str]:
        return [
            f"{ftl_name(low)} {'<<' if step in much else '<'} {ftl_name(high)}"
            for step, (low, high) in enumerate(pairwise(chain))
            if not at[low] * (MUCH_LESS if step in much else 1) < at[high]
        ]

    def test(view: View) -> Evaluation:
        at = values(view, {})
        if at is None:
            return _untestable(view, "a layer of the published table was not simulated")
        wrong = failing(at)
        ordered = sorted(at, key=lambda ftl: at[ftl])
        detail = " < ".join(f"{ftl_name(ftl)} {number(at[ftl])}" for ftl in ordered)
        if wrong:
            detail += f"; fails: {joined(wrong)}"
        single = [values(view, place) for place in view.workloads()]
        tested = [one for one in single if one is not None]
        return Evaluation(
            view.variant.label,
            not wrong,
            detail,
            tuple(Value(ftl_name(ftl), value, column) for ftl, value in at.items()),
            workloads_hold=sum(not failing(one) for one in tested),
            workloads=len(tested),
        )

    return test


def _lexar_against_mitsubishi(view: View) -> Evaluation:
    found = {
        (ftl, column): view.window(column, "mean", ftl)
        for ftl in ("lexar", "mitsubishi")
        for column in ("writes", "erases", "time_units")
    }
    known = {key: value for key, value in found.items() if value is not None}
    if len(known) < len(found):
        return _untestable(view, "Lexar or Mitsubishi was not simulated")
    parts = [
        (column, known["lexar", column], known["mitsubishi", column], sign)
        for column, sign in (("writes", ">"), ("erases", ">"), ("time_units", "<"))
    ]
    right = [left > other if sign == ">" else left < other for _, left, other, sign in parts]
    detail = "; ".join(
        f"{column.replace('_units', '')} {number(left)} {'>' if left > other else '<'} "
        f"{number(other)}{'' if good else ' (fails)'}"
        for (column, left, other, _), good in zip(parts, right, strict=True)
    )
    return Evaluation(
        view.variant.label,
        all(right),
        f"Lexar against Mitsubishi: {detail}",
        tuple(Value(f"Lexar/Mitsubishi {part[0]}", part[1] / part[2], "ratio") for part in parts),
    )


def _ntfs_volume(view: View) -> Evaluation:
    pages, requests = (
        {name: view.mean(metric, file_system=name) for name in ("fat", "ntfs")}
        for metric in ("host_write_bytes", "host_requests")
    )
    fat, ntfs = pages["fat"], pages["ntfs"]
    if not fat or not ntfs:
        return _untestable(view, "FAT or NTFS was not simulated")
    detail = f"NTFS writes {times(ntfs / fat)} the bytes of FAT"
    if requests["fat"] and requests["ntfs"]:
        detail += f" in {times(requests['ntfs'] / requests['fat'])} the requests"
    values = (Value("NTFS/FAT bytes", ntfs / fat, "ratio"),)
    return Evaluation(view.variant.label, ntfs > fat, detail, values)


def _cheaper(
    quantity: str, axis: str, cheap: str, dear: str, ftls: Sequence[str] = PUBLISHED_FTLS
) -> Test:
    """Tests that one value of an axis costs less per page written than another.

    It must be so on each layer when some are named, and in the geometric mean over all otherwise.
    """
    each = ftls is not PUBLISHED_FTLS

    def test(view: View) -> Evaluation:
        ratios = {}
        for ftl in ftls:
            low, high = view.work(ftl, **{axis: cheap}), view.work(ftl, **{axis: dear})
            if low is not None and high is not None:
                bottom, top = getattr(low, quantity), getattr(high, quantity)
                if bottom:
                    ratios[ftl] = (top / high.host_pages) / (bottom / low.host_pages)
        if len(ratios) < len(ftls):
            return _untestable(view, f"{cheap.upper()} or {dear.upper()} was not simulated")
        failing = [ftl_name(ftl) for ftl, ratio in ratios.items() if ratio <= 1]
        what = "time" if quantity == "time" else "erases"
        detail = f"{what} per page written, {dear.upper()} over {cheap.upper()}: " + ", ".join(
            f"{ftl_name(ftl)} {ratio:.2f}" for ftl, ratio in ratios.items()
        )
        if failing:
            detail += f"; not so for {joined(failing)}"
        values = tuple(Value(ftl_name(ftl), ratio, "ratio") for ftl, ratio in ratios.items())
        holds = not failing if each else math.prod(ratios.values()) > 1
        return Evaluation(view.variant.label, holds, detail, values)

    return test


def size_sensitivity(view: View, ftl: str, quantity: str = "time") -> float | None:
    """Cost per page written with small files as a multiple of that with large files."""
    small, large = view.work(ftl, file_set="jpg"), view.work(ftl, file_set="mp3")
    if small is None or large is None or not getattr(large, quantity):
        return None
    ratio: float = (getattr(small, quantity) / small.host_pages) / (
        getattr(large, quantity) / large.host_pages
    )
    return ratio


def size_rating(sensitivity: float) -> int:
    """Sensitivity to file size in the publication's steps: 1 flat, 2 some, 3 strong."""
    return 1 if sensitivity < FLAT else 2 if sensitivity < STRONG else 3


def _sizes(view: View) -> dict[str, float] | None:
    found = {ftl: size_sensitivity(view, ftl) for ftl in PUBLISHED_FTLS}
    known = {ftl: value for ftl, value in found.items() if value is not None}
    return known if len(known) == len(found) else None


def _size_claim(judge: Callable[[dict[str, float]], tuple[bool, str]]) -> Test:
    def test(view: View) -> Evaluation:
        sizes = _sizes(view)
        if sizes is None:
            return _untestable(view, "a layer or a file set was not simulated")
        holds, detail = judge(sizes)
        values = tuple(Value(ftl_name(ftl), value, "ratio") for ftl, value in sizes.items())
        return Evaluation(view.variant.label, holds, detail, values)

    return test


def _mitsubishi_flat(sizes: dict[str, float]) -> tuple[bool, str]:
    ratio = sizes["mitsubishi"]
    least = min(sizes, key=lambda ftl: abs(sizes[ftl] - 1))
    detail = f"JPG costs Mitsubishi {times(ratio)} the time per page of MP3"
    if least != "mitsubishi":
        detail += f"; flattest is {ftl_name(least)} with {sizes[least]:.2f}"
    return 1 / FLAT < ratio < FLAT, detail


def _logs_gain(sizes: dict[str, float]) -> tuple[bool, str]:
    gains = {ftl: sizes[ftl] for ftl in ("lexar", "bast", "fast")}
    holds = all(ratio > 1 and ratio > sizes["mitsubishi"] for ratio in gains.values())
    parts = [f"{ftl_name(ftl)} {times(ratio)}" for ftl, ratio in gains.items()]
    return holds, (
        f"small files cost {joined(parts)} the time per page of large ones, "
        f"Mitsubishi {times(sizes['mitsubishi'])}"
    )


def _bast_loses_most(sizes: dict[str, float]) -> tuple[bool, str]:
    order = sorted(sizes, key=lambda ftl: -sizes[ftl])
    detail = ", ".join(f"{ftl_name(ftl)} {sizes[ftl]:.2f}" for ftl in order)
    return order[0] == "bast", f"cost of small files over large ones: {detail}"


def _ratings(sizes: dict[str, float]) -> tuple[bool, str]:
    ratings = {ftl: size_rating(ratio) for ftl, ratio in sizes.items()}
    detail = ", ".join(f"{ftl_name(ftl)} {ratings[ftl]}" for ftl in PUBLISHED_FTLS)
    holds = ratings["mitsubishi"] == 1 and ratings["bast"] == max(ratings.values()) > 1
    return holds, f"rated from the simulated cost of small files: {detail}"


def _log_schemes_erase_less(view: View) -> Evaluation:
    found = {ftl: view.window("erases", "mean", ftl) for ftl in PUBLISHED_FTLS}
    known = {ftl: value for ftl, value in found.items() if value is not None}
    if len(known) < len(found):
        return _untestable(view, "a layer of the published table was not simulated")
    most = max(known["bast"], known["fast"])
    least = min(value for ftl, value in known.items() if ftl not in ("bast", "fast"))
    detail = (
        f"BAST {number(known['bast'])} and FAST {number(known['fast'])}, the others at least "
        f"{number(least)}: a factor of {number(least / most if most else None)}"
    )
    values = tuple(Value(ftl_name(ftl), value, "erases") for ftl, value in known.items())
    return Evaluation(view.variant.label, most * MUCH_LESS <= least, detail, values)


def _bast_above_fast(view: View) -> Evaluation:
    found = {
        (ftl, column): view.window(column, "mean", ftl)
        for ftl in ("bast", "fast")
        for column in ("writes", "erases")
    }
    known = {key: value for key, value in found.items() if value is not None}
    if len(known) < len(found):
        return _untestable(view, "BAST or FAST was not simulated")
    ratios = {
        column: known["bast", column] / known["fast", column]
        for column in ("writes", "erases")
        if known["fast", column]
    }
    detail = "BAST over FAST: " + ", ".join(
        f"{column} {ratio:.3f}" for column, ratio in ratios.items()
    )
    values = tuple(Value(column, ratio, "ratio") for column, ratio in ratios.items())
    holds = len(ratios) == 2 and all(ratio > 1 for ratio in ratios.values())
    return Evaluation(view.variant.label, holds, detail, values)


def _fast_spreads_more(view: View) -> Evaluation:
    bast, fast = (view.window("time_units", "stddev", ftl) for ftl in ("bast", "fast"))
    inner = [mechanics.mechanics(view, ftl) for ftl in ("bast", "fast")]
    if bast is None or fast is None or not bast or None in inner:
        return _untestable(view, "BAST or FAST was not simulated")
    per_block = [one.merges_per_log_block if one else None for one in inner]
    detail = f"spread of time: FAST {number(fast)}, BAST {number(bast)}"
    values = (Value("FAST/BAST spread", fast / bast, "ratio"),)
    if per_block[0] is None or per_block[1] is None:
        return _untestable(view, f"{detail}; no log block was reclaimed by full merges")
    detail += (
        f"; full merges for each reclaimed log block: FAST {per_block[1]:.2f}, "
        f"BAST {per_block[0]:.2f}"
    )
    return Evaluation(
        view.variant.label, fast > bast and per_block[1] > per_block[0], detail, values
    )


def _metadata(axis: str, low: str, high: str) -> Test:
    def test(view: View) -> Evaluation:
        small = view.mean("metadata_share", **{axis: low})
        large = view.mean("metadata_share", **{axis: high})
        if small is None or large is None:
            return _untestable(view, "the metadata share is measured on whole traces only")
        detail = (
            f"metadata is {percent(small)} of the bytes written with {low.upper()}, "
            f"{percent(large)} with {high.upper()}"
        )
        values = (Value(low, small, "part of 1"), Value(high, large, "part of 1"))
        return Evaluation(view.variant.label, small < large, detail, values)

    return test


def _use_fat(view: View) -> Evaluation:
    metric = "operation_window_"
    if view.variant.charging == "published":
        metric += "published_charging_"
    metric += "weighted_time_mean"
    ratios = {}
    for ftl in view.ftls():
        fat, ntfs = (view.mean(metric, ftl, file_system=name) for name in ("fat", "ntfs"))
        if fat and ntfs:
            ratios[ftl] = ntfs / fat
    if not ratios:
        return _untestable(view, "FAT or NTFS was not simulated")
    failing = [ftl_name(ftl) for ftl, ratio in ratios.items() if ratio <= 1]
    detail = "time per file operation, NTFS over FAT: " + ", ".join(
        f"{ftl_name(ftl)} {ratio:.2f}" for ftl, ratio in ratios.items()
    )
    if failing:
        detail += f"; fails for {joined(failing)}"
    values = tuple(Value(ftl_name(ftl), ratio, "ratio") for ftl, ratio in ratios.items())
    return Evaluation(view.variant.label, not failing, detail, values)


def _untestable(view: View, reason: str) -> Evaluation:
    return Evaluation(view.variant.label, None, f"not testable: {reason}")


def _tell_time(view: View) -> str:
    parts = []
    for ftl in view.ftls():
        work = view.work(ftl)
        if work is not None and work.time:
            parts.append(
                f"{ftl_name(ftl)} {percent(work.reads / work.time)} reads, "
                f"{percent(7 * work.writes / work.time)} writes, "
                f"{percent(63 * work.erases / work.time)} erases"
            )
    return f"What the time consists of: {'; '.join(parts)}." if parts else ""


def _tell_spread(view: View) -> str:
    parts = []
    for ftl in view.ftls():
        average = mean(view.rows.values("weighted_time_mean", ftl=ftl, **_at(view)))
        spread = mean(view.rows.values("weighted_time_stddev", ftl=ftl, **_at(view)))
        if average and spread:
            parts.append(f"{ftl_name(ftl)} {percent(spread / average)}")
    return f"Standard deviation over mean, window to window: {', '.join(parts)}." if parts else ""


def _tell_by_file_set(view: View) -> str:
    parts = []
    for ftl in view.ftls():
        copies = [
            inner.copies_per_host_page
            for file_set in ("mp3", "jpg")
            if (inner := mechanics.mechanics(view, ftl, file_set=file_set)) is not None
        ]
        if len(copies) == 2:
            parts.append(f"{ftl_name(ftl)} {number(copies[0])} and {number(copies[1])}")
    return f"Pages copied for each page written, MP3 and JPG: {'; '.join(parts)}." if parts else ""


def _tell_metadata(view: View) -> str:
    parts = [
        f"{file_system.upper()} with {file_set.upper()} {percent(share)}"
        for file_system in view.rows.axis_values("file_system")
        for file_set in view.rows.axis_values("file_set")
        if (share := view.mean("metadata_share", file_system=file_system, file_set=file_set))
        is not None
    ]
    return f"Metadata among the bytes written: {', '.join(parts)}." if parts else ""


def _at(view: View) -> dict[str, str | None]:
    return {"settings": view.variant.settings}


CLAIMS: tuple[ClaimTest, ...] = (
    ClaimTest(
        "time-order",
        "Mean time: FAST < BAST < M-Systems < Lexar < Mitsubishi",
        "table of means: 203,358 < 208,719 < 257,466 < 316,291 < 330,688",
        _order("time_units", "mean", PUBLISHED_FTLS),
        _tell_time,
    ),
    ClaimTest(
        "time-spread-order",
        "Spread of time: BAST < FAST < M-Systems < Lexar < Mitsubishi",
        "table of standard deviations: 27,306 < 28,403 < 44,215 < 51,723 < 60,288",
        _order("time_units", "stddev", ("bast", "fast", *PUBLISHED_FTLS[2:])),
        _tell_spread,
    ),
    ClaimTest(
        "read-order",
        "Reads: BAST < FAST << Lexar << M-Systems << Mitsubishi",
        "table of means: 22,887 < 23,144 << 35,083 << 64,077 << 147,214",
        _order(
            "reads", "mean", ("bast", "fast", "lexar", "m-systems", "mitsubishi"), much=(1, 2, 3)
        ),
        lambda view: mechanics.probing(view, view.ftls()),
    ),
    ClaimTest(
        "lexar-mitsubishi",
        "Lexar writes and erases more than Mitsubishi, yet takes less time",
        "33,520 > 20,549 writes, 739 > 629 erases, 316,291 < 330,688 time",
        _lexar_against_mitsubishi,
        lambda view: " ".join(
            (
                mechanics.copying(view, ("lexar", "mitsubishi")),
                mechanics.probing(view, ("lexar", "mitsubishi")),
            )
        ),
    ),
    ClaimTest(
        "log-schemes-erase-less",
        "BAST and FAST erase far less than the others",
        "384 and 376 erases against 629, 647 and 739",
        _log_schemes_erase_less,
        lambda view: mechanics.merging(view, view.ftls()),
    ),
    ClaimTest(
        "bast-above-fast",
        "BAST writes and erases more than FAST",
        "23,089 > 22,365 writes, 384 > 376 erases",
        _bast_above_fast,
        lambda view: mechanics.copying(view, ("bast", "fast")),
    ),
    ClaimTest(
        "fast-spread",
        "FAST spreads more than BAST: it merges several blocks for one log block, BAST one",
        "28,403 > 27,306, and the discussion of it",
        _fast_spreads_more,
        lambda view: mechanics.log_blocks(view, ("bast", "fast")),
    ),
    ClaimTest(
        "ntfs-volume",
        "NTFS causes more I/O than FAT",
        "discussion of the file systems",
        _ntfs_volume,
        _tell_metadata,
        qualified=True,
    ),
    ClaimTest(
        "metadata-fat",
        "Metadata is a smaller part of the writes with FAT than with NTFS",
        "discussion of the file systems",
        _metadata("file_system", "fat", "ntfs"),
        _tell_metadata,
        qualified=True,
    ),
    ClaimTest(
        "metadata-jpg",
        "Metadata is a larger part of the writes with small files (JPG)",
        "discussion of the file sets",
        _metadata("file_set", "mp3", "jpg"),
        _tell_metadata,
    ),
    ClaimTest(
        "fat-erases",
        "Lexar and BAST erase less under FAT",
        "discussion of the file systems",
        _cheaper("erases", "file_system", "fat", "ntfs", ("lexar", "bast")),
        lambda view: mechanics.merging(view, ("lexar", "bast")),
        qualified=True,
    ),
    ClaimTest(
        "mp3-time",
        "MP3 files take less time than JPG files for the same bytes",
        "discussion of the file sets",
        _cheaper("time", "file_set", "mp3", "jpg"),
        _tell_by_file_set,
    ),
    ClaimTest(
        "mp3-erases",
        "MP3 files cause fewer erases than JPG files for the same bytes",
        "discussion of the file sets",
        _cheaper("erases", "file_set", "mp3", "jpg"),
        _tell_by_file_set,
    ),
    ClaimTest(
        "size-mitsubishi",
        "Mitsubishi does not care about file size",
        "discussion of the file sets",
        _size_claim(_mitsubishi_flat),
        _tell_by_file_set,
    ),
    ClaimTest(
        "size-logs",
        "Lexar, BAST and FAST gain with large files",
        "discussion of the file sets",
        _size_claim(_logs_gain),
        _tell_by_file_set,
    ),
    ClaimTest(
        "size-bast",
        "BAST loses most when files get small",
        "discussion of the file sets: the number of logs is fixed",
        _size_claim(_bast_loses_most),
        _tell_by_file_set,
    ),
    ClaimTest(
        "size-ratings",
        "Sensitivity to file size, 1 to 3: Mitsubishi lowest, BAST highest",
        "feature table; here 1 is below 10 % more time for small files, 3 from 50 %",
        _size_claim(_ratings),
        _tell_by_file_set,
    ),
    ClaimTest(
        "use-fat",
        "Use FAT: it takes less time than NTFS on every layer",
        "conclusion",
        _use_fat,
        _tell_metadata,
        qualified=True,
    ),
)
"""In the order of the publication: table, layers, file systems, file sets, conclusion."""
