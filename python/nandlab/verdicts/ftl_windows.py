"""The verdict of the study ftl-windows: five translation layers under FAT and NTFS."""

from collections.abc import Iterable, Sequence

from nandlab.results import Measurements, StudyResult
from nandlab.verdicts import mechanics, published_distances
from nandlab.verdicts.model import Claim, Distance, Nearness, Verdict
from nandlab.verdicts.published_claims import claims
from nandlab.verdicts.published_distances import ALL_WORKLOADS
from nandlab.verdicts.published_view import View, variants
from nandlab.verdicts.wording import ftl_name, number, percent, times

WINDOW = 100
"""Requests, or file operations, in a window of the publication."""

FAR = 1.25
"""From this factor on a cell of the published table is listed as not explained."""

CAVEATS = (
    "Linux's vfat and ntfs3 drivers stand in for those of Windows. ntfs3 does not log its metadata "
    "changes in $LogFile as Windows does, so NTFS on Windows writes more metadata than these "
    "traces hold. What compares NTFS with FAT is marked accordingly.",
    "The publication does not state the page and block size, the number of log blocks, the "
    "state of the disk at the start, or which workloads its table pools. Here all file systems, "
    "file sets and process counts are pooled with equal weight; the spread is the mean of the "
    "spreads of the single runs.",
    "The published charging (2 reads and 1 write more for each host page write in Lexar, BAST and "
    "FAST) is inferred from the published table alone. The chip does less; the honest columns "
    "count what it did.",
)


def judge(result: StudyResult) -> Verdict:
    """Which layer wins, why, how near this is to the publication, and which claims hold."""
    rows = Measurements(result)
    every = variants(rows)
    if not every or "ftl" not in result.axes or not rows.has("weighted_time_mean"):
        return Verdict(
            result.name,
            "No verdict: nothing was measured.",
            ("The rows hold no weighted time of any layer.",),
            CAVEATS,
        )
    main = View(rows, every[0])
    found_claims = claims([View(rows, variant) for variant in every], main)
    found_distances: list[Distance] = []
    found_nearness: list[Nearness] = []
    if result.reference is not None:
        found_distances = published_distances.distances(rows, result.reference)
        found_nearness = published_distances.nearness(rows, result.reference)
    honest = [View(rows, variant) for variant in every if variant.charging == "honest"]
    sentences = [
        *_winners(honest),
        _why(main),
        _comparison(main),
        *_nearness_sentences(found_nearness),
        *_claim_sentences(found_claims, [variant.label for variant in every]),
    ]
    return Verdict(
        study=result.name,
        headline=_headline(honest),
        sentences=tuple(sentence for sentence in sentences if sentence),
        caveats=(*_other_window(result), *CAVEATS),
        claims=tuple(found_claims),
        variants=tuple(variant.label for variant in every),
        distances=tuple(found_distances),
        nearness=tuple(found_nearness),
        unexplained=tuple(_unexplained(found_claims, found_distances, found_nearness)),
        main_settings=main.variant.settings,
    )


def _other_window(result: StudyResult) -> list[str]:
    workload = result.study.get("workload")
    window = workload.get("window", WINDOW) if isinstance(workload, dict) else WINDOW
    if window == WINDOW:
        return []
    return [
        f"Windows of {window} were asked for: read {window} wherever this page says {WINDOW}, and "
        "do not compare the amounts with the publication."
    ]


def _ranking(view: View) -> list[tuple[str, float]]:
    found = [(ftl, view.window("time_units", "mean", ftl)) for ftl in view.ftls()]
    known = [(ftl, value) for ftl, value in found if value is not None]
    return sorted(known, key=lambda pair: pair[1])


def _headline(views: Sequence[View]) -> str:
    won = [(view.variant.settings, ranking) for view in views if len(ranking := _ranking(view)) > 1]
    if not won:
        return "No verdict: fewer than two of the published layers were simulated."
    if len({ranking[0][0] for _, ranking in won}) > 1:
        parts = [f"{_win(ranking)} with {settings} settings" for settings, ranking in won]
        return f"{', '.join(parts)}."
    ranking = won[0][1]
    (_, time), (worst, worst_time) = ranking[0], ranking[-1]
    text = _win(ranking)
    if len(ranking) > 2:
        text += f", and {ftl_name(worst)} takes {times(worst_time / time)} as long"
    return f"{text}."


def _win(ranking: Sequence[tuple[str, float]]) -> str:
    (best, time), (second, second_time) = ranking[:2]
    ahead = percent(1 - time / second_time)
    return f"{ftl_name(best)} wins by {ahead} of time over {ftl_name(second)}"


def _comparison(view: View) -> str:
    """The layers that are not in the published table."""
    ranking = _ranking(view)
    found = [
        (ftl, view.window("time_units", "mean", ftl))
        for ftl in view.rows.axis_values("ftl")
        if ftl not in view.ftls()
    ]
    parts = [
        f"{ftl_name(ftl)} {number(time)} ({percent(abs(time / ranking[0][1] - 1))} "
        f"{'less' if time < ranking[0][1] else 'more'} than {ftl_name(ranking[0][0])})"
        for ftl, time in found
        if time is not None and ranking
    ]
    return f"For comparison, {view.variant.settings} settings: {', '.join(parts)}." if parts else ""


def _winners(views: Iterable[View]) -> list[str]:
    sentences = []
    for view in views:
        ranking = _ranking(view)
        if len(ranking) < 2:
            continue
        order = ", ".join(f"{ftl_name(ftl)} {number(time)}" for ftl, time in ranking)
        sentences.append(
            f"With the {view.variant.settings} settings, honestly counted, 100 device requests "
            f"take, in units of one page read: {order}."
        )
    return sentences


def _why(view: View) -> str:
    ranking = _ranking(view)
    if len(ranking) < 2:
        return ""
    best, worst = ranking[0][0], ranking[-1][0]
    parts = [
        mechanics.merging(view, [best, worst]),
        mechanics.copying(view, [best, worst]),
    ]
    text = " ".join(part for part in parts if part)
    return f"Why: {text}" if text else ""


def _nearness_sentences(found: Sequence[Nearness]) -> list[str]:
    best = published_distances.nearest(found)
    if best is None:
        return ["There is no published table to compare with."]
    sentences = [
        f"Nearest to the publication: {best.variant}, windows of {best.reading}. There the means "
        f"are off by a factor of {best.means_factor:.2f} on average"
        + (
            f", and by {best.shape_factor:.2f} after allowing for windows that hold "
            f"{times(best.scale)} the data."
            if best.means_factor / best.shape_factor > 1.02
            else "."
        )
    ]
    honest = [one for one in found if "honest" in one.variant and one.workload == ALL_WORKLOADS]
    honest_best = min(honest, key=lambda one: one.means_factor, default=None)
    if honest_best is not None and honest_best.variant != best.variant:
        sentences.append(
            f"Honest counting comes nearest with {honest_best.variant.split(',')[0]} settings: a "
            f"factor of {honest_best.means_factor:.2f}."
        )
    part = [one for one in found if one.workload != ALL_WORKLOADS]
    near = min(part, key=lambda one: one.means_factor, default=None)
    if near is not None and near.means_factor < best.means_factor:
        sentences.append(
            f"A part of the workloads comes nearer: {near.workload}, with {near.variant} and "
            f"windows of {near.reading}, a factor of {near.means_factor:.2f}."
        )
    return sentences


def _claim_sentences(found: Sequence[Claim], labels: Sequence[str]) -> list[str]:
    verdict = Verdict("", "", (), claims=tuple(found))
    counted = [(label, *verdict.claims_holding(label)) for label in labels]
    testable = max((tested for _, _, tested in counted), default=0)
    if not testable:
        return ["No claim of the publication could be tested."]
    parts = [f"{held} of {tested} with {label}" for label, held, tested in counted]
    return [f"Claims of the publication that hold: {'; '.join(parts)}."]


def _unexplained(
    found_claims: Sequence[Claim],
    found_distances: Sequence[Distance],
    found_nearness: Sequence[Nearness],
) -> list[str]:
    lines = []
    best = published_distances.nearest(found_nearness)
    if best is not None:
        lines += _missed_cells(best, found_distances)
        lines += _part_that_is_nearer(best, found_nearness)
    for claim in found_claims:
        outcomes = [one.holds for one in claim.evaluations]
        if outcomes and all(outcome is False for outcome in outcomes):
            lines.append(f"Holds in no variant: {claim.text}. {claim.evaluations[0].detail}.")
    untested = [
        claim.text for claim in found_claims if all(one.holds is None for one in claim.evaluations)
    ]
    if untested:
        lines.append(f"Could not be tested on these results: {'; '.join(untested)}.")
    lines.append(
        "Why the published rows of Lexar, BAST and FAST count more writes for each erase than "
        "a block has pages: charging each host page write twice makes them fit, but no "
        "independent source says that this was done."
    )
    return lines


def _missed_cells(best: Nearness, found: Sequence[Distance]) -> list[str]:
    """Cells that no amount of data in a window can explain, in the nearest reading."""
    lines = []
    for statistic, word in (("mean", "means"), ("stddev", "standard deviations")):
        cells = [
            (cell, cell.ratio * best.scale)
            for cell in found
            if (cell.variant, cell.reading, cell.statistic)
            == (best.variant, best.reading, statistic)
        ]
        parts = [
            f"{ftl_name(cell.ftl)} {cell.column.replace('_units', '')} ×{ratio:.2f}"
            for cell, ratio in cells
            if not 1 / FAR <= ratio <= FAR
        ]
        if parts:
            lines.append(
                f"In the nearest reading ({best.variant}, windows of {best.reading}), with all "
                f"cells scaled by {best.scale:.2f}, {len(parts)} of {len(cells)} {word} are still "
                f"off by more than a factor of {FAR}: {', '.join(parts)}."
            )
    return lines


def _part_that_is_nearer(best: Nearness, found: Sequence[Nearness]) -> list[str]:
    """Says so when the published table looks like one file set rather than all."""
    same = [
        one
        for one in found
        if (one.variant, one.reading) == (best.variant, best.reading)
        and one.workload.startswith("all ")
    ]
    near = min(same, key=lambda one: one.means_factor, default=None)
    if near is None or near.means_factor * FAR > best.means_factor:
        return []
    return [
        "Pooled over all workloads the means must be scaled by "
        f"{best.scale:.2f} to fit best; over {near.workload} alone they are off by a factor of "
        f"{near.means_factor:.2f} unscaled. The published table seems to rest mostly on those, "
        "or to weigh by bytes; it does not say."
    ]
