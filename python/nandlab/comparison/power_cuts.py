"""Which candidate loses least by a power cut: decided by guarantees, illustrated by sampled cuts.

The guarantees are those that `nandlab crash` checks at every operation (docs/power-cuts.md). A few
sampled cuts can show a loss. They cannot show that there is none, so they decide nothing.
"""

from collections.abc import Sequence

from nandlab.comparison.candidates import Candidate
from nandlab.comparison.criteria import CRITERIA, best_names, best_told, log_seconds, winners
from nandlab.present.headline import joined

_NAMED_MAX = 3
"""Candidates whose sampled cuts are named one by one; the table has all."""

_OF = {one.metric: one for one in CRITERIA}
_ALLOWED, _MOUNT = _OF["cut_loss_s"], _OF["mount_after_cut_ns"]


def by_guarantee(usable: Sequence[Candidate]) -> tuple[list[Candidate], str]:
    """The candidates to take, none if that is undecided; and the reason as a sentence."""
    whole = [one for one in usable if not one.is_lost]
    if not whole:
        return [], "no candidate could be mounted after a power cut."
    best, told = _decided(whole)
    if (lost := len(usable) - len(whole)) > 0:
        told = f"{told} {lost} could not be mounted after a cut."
    return best, " ".join([told, *illustration(whole)])


def _decided(whole: Sequence[Candidate]) -> tuple[list[Candidate], str]:
    if all(_ALLOWED.metric in one.values for one in whole):
        best, told = _by_seconds(whole)
        return (best, told) if best else _alike(whole)
    known = [one for one in whole if one.guarantee_is_known]
    if not 0 < len(known) < len(whole):
        return _alike(whole)
    best, told = _by_seconds(known)
    if best:
        return best, told
    if len(known) == 1:
        return known, f"{best_names(known, whole)} has a guarantee, and the others have none."
    return [], f"undecided between {best_names(known, whole)}. The others guarantee nothing."


def _by_seconds(found: Sequence[Candidate]) -> tuple[list[Candidate], str]:
    """By what the guarantees allow, if the script has pauses to count that in."""
    best = winners(_ALLOWED, found)
    if not best:
        return [], ""
    return best, f"{best_told(_ALLOWED, best, found)}."


def _alike(found: Sequence[Candidate]) -> tuple[list[Candidate], str]:
    """By the mount after a cut where guarantees are the same; else nothing decides."""
    allowed_s = [one.values[_ALLOWED.metric] for one in found if _ALLOWED.metric in one.values]
    if not allowed_s and len({one.guarantee for one in found}) > 1:
        return [], (
            "undecided. The guarantees differ in kind, and a script without pauses has no seconds "
            "to compare them by."
        )
    same = f": a cut may take {log_seconds(allowed_s[0])}" if allowed_s else ""
    if not (best := winners(_MOUNT, found)):
        return [], f"undecided. The guarantees allow the same{same}."
    return best, f"{best_told(_MOUNT, best, found)}. The guarantees allow the same{same}."


def illustration(found: Sequence[Candidate]) -> list[str]:
    """What sampled cuts took, and how many there were; nothing where none were made."""
    sampled = [one for one in found if "cut_found_s" in one.values]
    if not 0 < len(sampled) <= _NAMED_MAX:
        return []
    told = [f"{log_seconds(one.values['cut_found_s'])} from {one.label} "
            f"({one.values.get('cut_found_cuts', 0):.0f} cuts)" for one in sampled]  # fmt: skip
    return [f"As an illustration, sampled cuts took at most {joined(told)}."]
