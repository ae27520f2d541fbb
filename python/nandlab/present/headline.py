"""The one sentence of a report, made from its claims and its candidates."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from nandlab.claims.evaluate import counted, counts
from nandlab.claims.quantity import MissingError, Sample, sample
from nandlab.claims.statistics import Region, Status, status_of
from nandlab.frame import RunFrame
from nandlab.present.discussion import filled
from nandlab.present.spec import ChangesSpec, HeadlinePart, HeadlineSpec, ReportSpec
from nandlab.present.units import estimate_text

if TYPE_CHECKING:
    import polars

WORDS_MAX = 25

_SHOWN = (Status.SUPPORTED, Status.CONTRADICTED, Status.UNDECIDED, Status.NOT_RUN)


def headline(run: RunFrame, frame: "polars.DataFrame", report: ReportSpec) -> str:
    """What the run answers: the best candidates or a sentence, then the claims by status.

    The claims are left to the table where both together are long. A quick form says only how many
    claims it estimated.
    """
    found = counts(frame)
    if run.is_quick:
        return quick_words(sum(found.values()))
    parts = [
        first_words(run, frame, report),
        count_words(found),
    ]
    text = " ".join(part for part in parts if part)
    return text if len(text.split()) <= WORDS_MAX else parts[0]


def quick_words(claims: int) -> str:
    """The sentence of a quick form."""
    if claims == 0:
        return "Quick form: nothing is judged."
    return f"Quick form: {_claims(claims)} estimated, none judged."


def count_words(found: Mapping[Status, int]) -> str:
    """How many claims have which status; silent without claims."""
    judged = [(status, found.get(status, 0)) for status in _SHOWN]
    total = sum(found.values())
    parts = [f"{count} {status.value}" for status, count in judged if count]
    if parts:
        first = next(count for _, count in judged if count)
        parts[0] = parts[0].replace(" ", " is " if first == 1 else " are ", 1)
    if not parts:
        return f"{_claims(total).capitalize()} true by construction." if total else ""
    if total == 1:
        return f"The one claim is {judged_word(found)}."
    return f"Of {total} claims {joined(parts)}."


def judged_word(found: Mapping[Status, int]) -> str:
    """The status of the only claim."""
    return next(status.value for status, count in found.items() if count)


def first_words(run: RunFrame, frame: "polars.DataFrame", report: ReportSpec) -> str:
    """What the headline says before it counts claims; empty where that is not true of the run."""
    spec = report.headline
    if isinstance(spec, ChangesSpec):
        return changes_words(frame, spec)
    if spec is None or not spec.sentence:
        return best_words(run, spec, report) if spec else ""
    rows = {row["id"]: row for row in counted(frame).to_dicts()}
    if any(rows[name]["status"] != status for name, status in spec.when.items()):
        return ""
    return filled(spec.sentence, rows)


def changes_words(frame: "polars.DataFrame", spec: ChangesSpec) -> str:
    """What changes by how much; a change whose interval holds 0 is said to be none."""
    rows = {row["id"]: row for row in counted(frame).to_dicts()}
    found, none = [], []
    for claim, name in spec.changes:
        row = rows[claim]
        if row["low"] is None or row["high"] is None:
            # Nothing is said of a change that was not run, or has no interval.
            return ""
        if row["low"] <= 0 <= row["high"]:
            none.append(name)
        else:
            found.append(f"{name} by {estimate_text(row['estimate'], row['unit'])}")
    if not found:
        neither = "neither " if len(none) > 1 else ""
        return f"{spec.subject} measurably changes {neither or 'not '}{' nor '.join(none)}."
    unchanged = f", but not {joined(none)}" if none else ""
    return f"{spec.subject} changes {joined(found)}{unchanged}."


def best_words(run: RunFrame, spec: HeadlineSpec, report: ReportSpec) -> str:
    """The candidates that no other beats; equal ones are named together, and none wins.

    Of several parts only those with one leader are told, candidate by candidate.
    """
    found = [(part, _candidates(run, spec, part, report)) for part in spec.parts]
    ranked = [(part, samples) for part, samples in found if len(samples) > 1]
    if not ranked:
        return ""
    if len(spec.parts) > 1:
        led: dict[str, list[str]] = {report.name(value): [] for value in spec.values}
        for part, samples in ranked:
            names = leaders(samples, most=part.best == "most")
            if len(names) == 1:
                led[names[0]].append(part.phrase)
        told = [f"{name} {joined(phrases)}" for name, phrases in led.items() if phrases]
        return f"{capital('; '.join(told))}." if told else ""
    part, samples = ranked[0]
    names = leaders(samples, most=part.best == "most")
    if len(names) == 1:
        return f"{capital(names[0])} {part.phrase}."
    if len(names) > 3 or len(names) == len(samples):
        return f"No single candidate of {len(samples)} {part.phrase}."
    return f"{capital(joined(names))} are not told apart; the others do worse."


def _candidates(
    run: RunFrame, spec: HeadlineSpec, part: HeadlinePart, report: ReportSpec
) -> dict[str, Sample]:
    """What is measured of each candidate; nothing where one of them was not run."""
    found: dict[str, Sample] = {}
    for value in spec.values:
        at = part.column.quantity.at({spec.axis: value})
        try:
            found[report.name(value)] = sample(run, at, part.column.reading.parts)
        except MissingError:
            return {}
    return found


def capital(words: str) -> str:
    """Words with a capital first letter."""
    return f"{words[:1].upper()}{words[1:]}"


def leaders(samples: Mapping[str, Sample], *, most: bool) -> list[str]:
    """Candidates that no other beats by an interval, best estimate first."""
    left = []
    for name, own in samples.items():
        beaten = False
        for other, against in samples.items():
            if other != name and not beaten:
                try:
                    ratio = own.divided_by(against).ratio()
                except MissingError:
                    continue
                worse = Region(below=1.0) if most else Region(above=1.0)
                beaten = status_of(ratio, worse) is Status.SUPPORTED
        if not beaten:
            left.append(name)
    order = {name: one.value().estimate for name, one in samples.items()}
    return sorted(left, key=lambda name: -order[name] if most else order[name])


def joined(words: Sequence[str]) -> str:
    """Words with commas and a last `and`."""
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else "".join(words)


def _claims(count: int) -> str:
    return f"{count} claim{'s' if count != 1 else ''}"
