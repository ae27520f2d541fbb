"""A sentence on each candidate, and the last line: why it is as it is, and which one to take."""

from nandlab.comparison.view import Candidate, Criterion, View, size
from nandlab.verdicts.wording import duration, joined, number, percent, times

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
        told.append(f"half of the writes return{where} within {duration(write)}")
    if sync is not None:
        told.append(f"half of the syncs that programmed pages take up to {duration(sync)}")
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
        return [f"a power cut at the end takes {size(lost)} that were not written yet"]
    return []


def verdict_line(view: View) -> str:
    """Which candidate to take, by what counts."""
    usable = [candidate for candidate in view.candidates if not candidate.is_full]
    if not usable:
        return "No winner: the flash is too small for this work, whichever is taken."
    if len(view.candidates) < 2:
        return f"{view.candidates[0].label} stands alone: name another one to compare it with."
    asked = [criterion for criterion in view.criteria() if criterion.in_verdict]
    told = [(criterion, view.winners(criterion)) for criterion in asked]
    told = [(criterion, winners) for criterion, winners in told if winners]
    if not told:
        return "No single winner: the candidates are alike in everything that was measured."
    common = [one for one in usable if all(one in winners for _, winners in told)]
    if len(common) == 1:
        reasons = [f"{criterion.in_verdict}{_by(view, criterion)}" for criterion, _ in told]
        return f"Take {common[0].label}: it is best for {joined(reasons)}."
    phrases = [
        f"for {criterion.in_verdict} {joined([one.label for one in winners])}{_by(view, criterion)}"
        for criterion, winners in told
    ]
    return f"No single winner: {'; '.join(phrases)}."


def _by(view: View, criterion: Criterion) -> str:
    factor = view.runner_up(criterion)
    return "" if factor is None or factor < 1.02 else f" ({times(factor)} better than the next)"


def notes(view: View) -> list[str]:
    """What a reader should know beside: under which conditions all of this holds, first."""
    told = [f"this holds for {view.conditions}."]
    schedulers = view.rows.axis_values("scheduler")
    free = [one.label for one in view.candidates if not one.scheduler]
    if len(schedulers) > 1 and free:
        told.append(
            f"no scheduler changes anything for {joined(free)}: no block requests are made there."
        )
    if any("lifetime_host_bytes" in one.values for one in view.candidates):
        told.append(
            "life is that of even wear, at the rated cycles of the part; mtdblock, under block "
            "file systems, levels none, and the block that was erased most decides there."
            if any(one.is_on_mtdblock for one in view.candidates)
            else "life is that of even wear, at the rated cycles of the part."
        )
    if any(one.is_on_card for one in view.candidates):
        told.append(
            "a card is one die of the part behind its layer, both planes driven together, at "
            "25 MB/s with 60 us a command (assumed); its capacity is less than its flash by 4.6 % "
            "or, if that is more, by 24 blocks."
        )
    return told
