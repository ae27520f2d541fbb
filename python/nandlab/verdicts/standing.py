"""What is left of a claim over all settings it was tested in, and what its outcome hangs on."""

from enum import Enum

from nandlab.verdicts.model import Claim, Evaluation
from nandlab.verdicts.wording import joined


class Standing(Enum):
    """In how many of the settings a claim holds; those that cannot tell do not count."""

    EVERYWHERE = "holds throughout"
    SOMEWHERE = "hangs on the setting"
    NOWHERE = "holds nowhere"
    UNTESTED = "could not be tested"

    def words(self, count: int) -> str:
        """What `count` claims do that stand here."""
        verb, rest = self.value.split(" ", 1)
        plural = {"holds": "hold", "hangs": "hang"}.get(verb, verb)
        return f"{verb if count == 1 else plural} {rest}"


def standing(claim: Claim) -> Standing:
    """Where a claim stands."""
    outcomes = {one.holds for one in claim.evaluations if one.holds is not None}
    if not outcomes:
        return Standing.UNTESTED
    if len(outcomes) == 2:
        return Standing.SOMEWHERE
    return Standing.EVERYWHERE if True in outcomes else Standing.NOWHERE


def hangs_on(claim: Claim) -> str:
    """With which settings a claim holds and with which not, in words.

    Where one part of the settings' labels (which are parted by commas) decides alone, only that
    part is named: `published counting`, not every label that holds it.
    """
    known = [one for one in claim.evaluations if one.holds is not None]
    deciding = _deciding_parts(known)
    if deciding is not None:
        holding, failing = deciding
        return f"holds with {joined(holding)}, not with {joined(failing)}"
    holding = [one.variant for one in known if one.holds]
    failing = [one.variant for one in known if not one.holds]
    counted = f"holds in {len(holding)} of {len(known)} settings"
    if len(holding) <= len(failing):
        return f"{counted}: {'; '.join(holding)}"
    return f"{counted}, not with {'; '.join(failing)}"


def _deciding_parts(known: list[Evaluation]) -> tuple[list[str], list[str]] | None:
    """The values of the first part of the labels that settles the outcome: holding, failing."""
    labels = [one.variant.split(", ") for one in known]
    if len({len(parts) for parts in labels}) != 1:
        return None
    for place in range(len(labels[0])):
        outcomes: dict[str, set[bool | None]] = {}
        for parts, one in zip(labels, known, strict=True):
            outcomes.setdefault(parts[place], set()).add(one.holds)
        if all(len(found) == 1 for found in outcomes.values()):
            return (
                [value for value, found in outcomes.items() if True in found],
                [value for value, found in outcomes.items() if False in found],
            )
    return None
