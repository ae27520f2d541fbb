"""The report of a comparison: a table, a sentence on each candidate, and which one to take."""

from collections.abc import Sequence
from dataclasses import replace

from nandlab.claims.quantity import Quantity
from nandlab.claims.schema import Reading
from nandlab.comparison.asked import answers
from nandlab.comparison.beside import NOTES
from nandlab.comparison.candidates import Candidate, candidates, planned, unfinished
from nandlab.comparison.conditions import conditions
from nandlab.comparison.criteria import (
    BEST,
    CRITERIA,
    Criterion,
    log_seconds,
    times_better,
    winners,
)
from nandlab.comparison.questions import Question, of_study
from nandlab.frame import RunFrame
from nandlab.present.charts import Chart, drawn
from nandlab.present.headline import WORDS_MAX, joined
from nandlab.present.page import Presented, unclaimed
from nandlab.present.spec import Column, FigureSpec
from nandlab.present.tables import ShownTable
from nandlab.present.units import estimate_text, number, percent

CANDIDATES = "Candidates"
"""Heading of the sentences on the candidates."""

CUTS = "What a power cut takes"
"""Heading of the sentences on power cuts."""

_NAMED_MAX = 6
"""Candidates that are named where some were not run."""


def is_comparison(run: RunFrame) -> bool:
    """Whether the rows are those of `nandlab compare`; a study may bear its name by chance."""
    metrics = {"call_calls", "is_full", "rebuild_ns"}
    return run.name == "comparison" and not metrics.isdisjoint(run.metrics)


def side_by_side(run: RunFrame) -> Presented:
    """What the report of a comparison shows; of an interrupted one, the finished candidates."""
    found, asked = candidates(run), of_study(run.study)
    charts = [_chart(one, found) for one in CRITERIA if one.unit and _has(one, found)]
    remarks = {
        CUTS: tuple(cut_sentence(one) for one in found if "cut_loss_s" in one.values),
        CANDIDATES: tuple(sentence(one) for one in found),
        "What is safe from a power cut": tuple(
            f"{one.label}: {one.safe}." for one in found if one.safe
        ),
        "Notes": tuple(notes(found, run)),
    }
    told = tuple((title, sentences) for title, sentences in remarks.items() if sentences)
    answer = partial_words(run) if run.interrupted else headline(found, asked)
    tables = [table(found, asked, is_partial=run.interrupted)] if found else []
    shown = unclaimed(run, answer, tables, charts, tuple(conditions(run)), told)
    # The first screen is for the verdict and its table: all figures are folded.
    report = replace(shown.report, first_figure=None)
    return replace(shown, report=report, open_remarks=frozenset({CUTS}))


def partial_words(run: RunFrame) -> str:
    """What an interrupted comparison has: nothing is judged of candidates that were not run."""
    left, count = unfinished(run), len(planned(run))
    told = f"Interrupted: {count - len(left)} of {count} candidates finished; none is judged."
    return f"{told} Not finished: {joined(left)}." if len(left) <= _NAMED_MAX else told


def table(
    found: Sequence[Candidate], asked: Sequence[Question] = (), *, is_partial: bool = False
) -> ShownTable:
    """A row for each criterion, those that are asked for first; a column for each candidate."""
    wanted = [metric for question in asked for metric in question.metrics]
    places = {metric: place for place, metric in reversed(list(enumerate(wanted)))}
    ordered = sorted(CRITERIA, key=lambda one: places.get(one.metric, len(wanted)))
    rows = []
    for criterion in (one for one in ordered if _has(one, found)):
        # The best of the finished ones may not be the best of all.
        best = [] if is_partial else winners(criterion, found)
        shown = [(one, criterion.cell(one)) for one in found]
        rows.append((criterion.title, *(f"{t} {BEST}" if c in best else t for c, t in shown)))
    safe = ("no space was left" if one.is_full else one.guarantee for one in found)
    rows.append(("safe from a power cut", *safe))
    columns = ("", *(one.label for one in found))
    title = f"Side by side ({BEST} best value of the row, or within 2 % of it)"
    if is_partial:
        title = "Side by side, partial: only candidates that finished before the interruption"
    return ShownTable("side-by-side", title, columns, tuple(rows), 1)


def cut_sentence(candidate: Candidate) -> str:
    """What a power cut takes, in seconds of the user's own log."""
    seconds, found = candidate.values["cut_loss_s"], candidate.values.get("cut_found_s")
    told = f"{candidate.label}: a power cut may take {log_seconds(seconds)}"
    if found is None:
        return f"{told}."
    count = candidate.values.get("cut_found_cuts", 0)
    return (
        f"{told}; {count:.0f} sampled cuts took {log_seconds(found)}{' at most' if found else ''}."
    )


def _chart(criterion: Criterion, found: Sequence[Candidate]) -> Chart:
    known = [one for one in found if criterion.metric in one.values]
    points = [
        {"x": one.label, "series": "here", "value": one.values[criterion.metric]} for one in known
    ]
    title = f"{criterion.title[:1].upper()}{criterion.title[1:]}"
    column = Column(title, Quantity(criterion.metric), Reading("as run"))
    identifier = criterion.metric.replace("_", "-")
    spec = FigureSpec(identifier, title, "", column, kind="bars")
    return drawn(points, spec, criterion.unit)


def _has(criterion: Criterion, found: Sequence[Candidate]) -> bool:
    return any(criterion.metric in one.values for one in found)


def headline(found: Sequence[Candidate], questions: Sequence[Question] = ()) -> str:
    """Which candidate to take, by what is asked, or by what counts."""
    usable = [one for one in found if not one.is_full]
    if not usable:
        return "No winner: the flash is too small for this work, whichever is taken."
    if len(found) < 2:
        return f"{found[0].label} stands alone: name another one to compare it with."
    if questions:
        return answers(questions, usable)
    asked = [one for one in CRITERIA if one.headline]
    told = [(one, best) for one in asked if (best := winners(one, found))]
    if not told:
        return "No single winner: the candidates are alike in everything that was measured."
    common = [one for one in usable if all(one in best for _, best in told)]
    for factors in ([times_better(one, best, found) for one, best in told], [""] * len(told)):
        # By how much is left to the table where the sentence would be long.
        text = _answer(common, told, factors)
        if len(text.split()) <= WORDS_MAX:
            break
    return text


def _answer(
    common: Sequence[Candidate],
    told: Sequence[tuple[Criterion, Sequence[Candidate]]],
    factors: Sequence[str],
) -> str:
    """One candidate if it is best for everything that counts, else the best for each."""
    if len(common) == 1:
        reasons = [f"{one.headline}{by}" for (one, _), by in zip(told, factors, strict=True)]
        return f"Take {common[0].label}: it is best for {joined(reasons)}."
    best_for: dict[str, list[str]] = {}
    for (criterion, best), by in zip(told, factors, strict=True):
        names = f"{joined([one.label for one in best])}{by}"
        best_for.setdefault(names, []).append(criterion.headline)
    phrases = [f"for {joined(what)} {names}" for names, what in best_for.items()]
    return f"No single winner: {'; '.join(phrases)}."


_PARTS = (
    ("array_program_ns", "programming pages"),
    ("transfer_ns", "moving bytes between memory and chip"),
    ("array_erase_ns", "erasing blocks"),
    ("array_read_ns", "reading pages"),
    ("driver_ns", "the chip's driver"),
    ("device_die_ns", "the card's die"),
    ("device_cleaning_ns", "the card's merging and cleaning"),
    ("device_interface_ns", "moving bytes to and from the card"),
    ("software_ns", "the processor (file system, checksums, compression, copies)"),
)
_LAYER_PARTS = (
    ("busy_program_ns", "programming pages"),
    ("busy_read_ns", "reading pages"),
    ("busy_erase_ns", "erasing blocks"),
)
_HOT_ERASES = 10
_HOT_FACTOR = 20.0
"""A block erased so often, and so much more often than the mean, wears out before the others."""


def sentence(candidate: Candidate) -> str:
    """Where the time goes, what a caller waits for, and what becomes of the flash."""
    if candidate.is_full:
        return f"{candidate.label}: the flash is too small for this work: no space was left."
    clauses = [*_time(candidate), *_waiting(candidate), *_wear(candidate), *_cut(candidate)]
    return f"{candidate.label}: {'; '.join(clauses)}."


def _time(candidate: Candidate) -> list[str]:
    values = candidate.values
    parts = _LAYER_PARTS if "busy_ns" in values else _PARTS
    spent = {words: values.get(key, 0.0) for key, words in parts}
    whole = sum(spent.values())
    if whole <= 0:
        return []
    shares = sorted(spent.items(), key=lambda item: -item[1])[:2]
    shown = joined([f"{words} takes {percent(part / whole)}" for words, part in shares if part])
    return [f"{shown} of the time"]


def _waiting(candidate: Candidate) -> list[str]:
    """How long half of the writes, and of the syncs that had something to write, take.

    Syncs without work say nothing of what a sync costs: they are left out, and where there are no
    others nothing is said of syncs at all.
    """
    values = candidate.values
    write, sync = values.get("write_p50_ns"), values.get("working_sync_p50_ns")
    told = []
    if write is not None:
        # The file system says itself whether it keeps pages dirty: this is no guess from times.
        where = " from memory" if values.get("dirty_bytes_max", 0) > 0 else ""
        told.append(f"half of the writes return{where} within {estimate_text(write, 'ns')}")
    if sync is not None:
        told.append(
            f"half of the syncs that programmed pages take up to {estimate_text(sync, 'ns')}"
        )
    return [", ".join(told)] if told else []


def _wear(candidate: Candidate) -> list[str]:
    values = candidate.values
    waf = values.get("waf")
    if waf is None:
        return []
    clauses = [_amplification(waf)]
    hottest, mean = values.get("erase_count_max", 0.0), values.get("erase_count_mean", 0.0)
    if hottest >= _HOT_ERASES and hottest > _HOT_FACTOR * mean:
        clauses.append(
            f"one block was erased {number(hottest)} times while the mean is {number(mean)}"
        )
    return clauses


def _amplification(waf: float) -> str:
    if waf < 0.995:
        return f"compression leaves {percent(waf)} of the bytes to be programmed"
    return f"each byte is programmed {'once' if waf < 1.005 else f'{number(waf)} times'}"


def _cut(candidate: Candidate) -> list[str]:
    values = candidate.values
    if candidate.is_lost:
        return ["what a power cut at the end left could not be mounted"]
    lost = values.get("dirty_bytes_at_end", 0.0)
    if lost > 0:
        return [
            f"a power cut at the end takes {estimate_text(lost, 'bytes')} that were not written yet"
        ]
    return []


def notes(found: Sequence[Candidate], run: RunFrame) -> list[str]:
    """What a reader should know beside."""
    told = [f"{note}." for note in run.beside.get(NOTES, ())]
    free = [one.label for one in found if not one.scheduler]
    if "scheduler" in run.varied and free:
        told.append(
            f"No scheduler changes anything for {joined(free)}: no block requests are made there."
        )
    if any("lifetime_host_bytes" in one.values for one in found):
        told.append(
            "Life is that of even wear, at the rated cycles of the part; mtdblock, under block "
            "file systems, levels none, and the block that was erased most decides there."
            if any(one.is_on_mtdblock for one in found)
            else "Life is that of even wear, at the rated cycles of the part."
        )
    if any(one.is_on_card for one in found):
        told.append(
            "A card is one die of the part behind its layer, both planes driven together, at "
            "25 MB/s with 60 us a command (assumed); its capacity is less than its flash by 4.6 % "
            "or, if that is more, by 24 blocks."
        )
    return told
