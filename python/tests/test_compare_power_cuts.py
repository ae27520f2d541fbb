"""The question of power cuts: guarantees decide, sampled cuts illustrate."""

import pytest

from nandlab.comparison.answer import headline, table
from nandlab.comparison.candidates import Candidate
from nandlab.comparison.questions import questions

MS = 1_000_000.0


def candidate(name: str, guarantee: str | None = "after fsync", **values: float) -> Candidate:
    """A candidate of made-up values."""
    known = guarantee is not None
    told = guarantee or "nothing"
    return Candidate(name, name.lower(), "", values, told, guarantee_is_known=known)


def sampled(seconds: float, cuts: int) -> dict[str, float]:
    """What so many sampled cuts took at most."""
    return {"cut_found_s": seconds, "cut_found_cuts": float(cuts)}


def told(*found: Candidate) -> str:
    """The answer to the question."""
    return headline(found, questions("power-cuts"))


def test_a_sample_decides_nothing() -> None:
    """The one that lost less by eight cuts may lose more by the next."""
    lucky = candidate("A", cut_loss_s=21.0, **sampled(0.0, 8))
    safe = candidate("B", cut_loss_s=7.0, **sampled(5.0, 16))
    assert told(lucky, safe) == (
        "Take B. Power cuts: B, the guarantee lets a cut take 7 s of the log (3.0 times better "
        "than the next). As an illustration, sampled cuts took at most nothing from A (8 cuts) and "
        "5 s of the log from B (16 cuts)."
    )
    rows = {row[0]: row[1:] for row in table((lucky, safe), questions("power-cuts")).rows}
    assert rows["a power cut may take"] == ("21 s of the log", "7 s of the log *")
    assert rows["sampled cuts took at most"] == ("nothing (8 cuts)", "5 s of the log (16 cuts)")


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        # The same loss is allowed: the mount after a cut decides, or nothing.
        (
            [
                candidate("A", cut_loss_s=7.0, mount_after_cut_ns=9 * MS, **sampled(1, 8)),
                candidate("B", cut_loss_s=7.0, mount_after_cut_ns=3 * MS, **sampled(7, 8)),
            ],
            "Take B. Power cuts: B, mounted after a cut in 3 ms (3.0 times better than the "
            "next). The guarantees allow the same: a cut may take 7 s of the log. As an",
        ),
        (
            [candidate("A", cut_loss_s=7.0, **sampled(1, 8)), candidate("B", cut_loss_s=7.0)],
            "Power cuts: undecided. The guarantees allow the same: a cut may take 7 s",
        ),
        # No pauses: there are no seconds to tell guarantees apart by, nor may the mount do it.
        (
            [
                candidate("A", "after fsync", mount_after_cut_ns=9 * MS),
                candidate("B", "after close", mount_after_cut_ns=3 * MS),
            ],
            "Power cuts: undecided. The guarantees differ in kind",
        ),
        (
            [candidate("A"), candidate("B", None, mount_after_cut_ns=1.0)],
            "Take A. Power cuts: A has a guarantee, and the others have none.",
        ),
        (
            [candidate("A"), candidate("B", "after close"), candidate("C", None)],
            "Power cuts: undecided between A and B. The others guarantee nothing.",
        ),
        # A card is unknown, whatever a file system beside it guarantees.
        (
            [candidate("A", cut_loss_s=7.0), candidate("B", cut_loss_s=9.0), candidate("C", None)],
            "Take A. Power cuts: A, the guarantee lets a cut take 7 s of the log (1.29 times",
        ),
    ],
)
def test_guarantees_decide_or_nothing_does(found: list[Candidate], expected: str) -> None:
    assert told(*found).startswith(expected), told(*found)


def test_what_could_not_be_mounted_after_a_cut_is_not_taken() -> None:
    lost = Candidate("A", "a", "", {"cut_loss_s": 1.0}, "after fsync", is_lost=True)
    text = told(lost, candidate("B", cut_loss_s=7.0), candidate("C", cut_loss_s=9.0))
    assert text.startswith("Take B.")
    assert text.endswith("1 could not be mounted after a cut.")
