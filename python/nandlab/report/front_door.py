"""The studies of the four publications at a glance: question, both answers, what disagrees."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nandlab.results.reference import find_reference
from nandlab.results.study_result import StudyResult
from nandlab.studies import shipped_studies
from nandlab.verdicts.advice import ADVICE, Advice, Outcome, outcome
from nandlab.verdicts.model import Claim, Verdict
from nandlab.verdicts.published_answers import published_answer
from nandlab.verdicts.standing import Standing, standing

PUBLICATIONS = ("ftl-windows", "sfq-emmc", "scheduler-filesystem", "android")
"""The studies of the publications, in the order of the page."""

IN_A_KERNEL = "sfq-kernel"
"""Asks a question of the publications again, of a real kernel."""

SHOWN = 3
"""Claims that disagree are counted; so many are written out."""


@dataclass(frozen=True)
class Run:
    """A run in a folder, judged."""

    folder: str
    result: StudyResult
    verdict: Verdict
    has_report: bool


@dataclass(frozen=True)
class Card:
    """One study; `run` is None if there is no run of it."""

    study: str
    title: str
    question: str
    published: str
    run: Run | None

    @property
    def badge(self) -> str:
        """What is particular about the study."""
        return "in a real kernel" if self.study == IN_A_KERNEL else ""

    def counts(self) -> list[tuple[Standing, str]]:
        """How many of the publication's claims stand where, in words, without what is none."""
        found = [standing(claim) for claim in self.claims()]
        return [
            (where, f"{found.count(where)} {where.words(found.count(where))}")
            for where in Standing
            if where in found
        ]

    def disagreeing(self) -> list[Claim]:
        """Claims that hold in no setting."""
        return [claim for claim in self.claims() if standing(claim) is Standing.NOWHERE]

    def claims(self) -> Sequence[Claim]:
        """All claims of the publication."""
        return self.run.verdict.claims if self.run is not None else ()


def cards(runs: Sequence[Run], studies: Sequence[str]) -> list[Card]:
    """A card for each of `studies`, whether it was run or not."""
    return [_card(study, _run_of(runs, study)) for study in studies]


def other_runs(runs: Sequence[Run], shown: Sequence[Card]) -> list[Run]:
    """Runs that no card shows."""
    taken = {card.run.folder for card in shown if card.run is not None}
    return [run for run in runs if run.folder not in taken]


def outcomes(runs: Sequence[Run]) -> list[tuple[Advice, Outcome, Run | None]]:
    """What is left of each piece of advice, and the run that says so."""
    found = []
    for advice in ADVICE:
        run = _run_of(runs, advice.study)
        found.append((advice, outcome(advice, run.verdict if run is not None else None), run))
    return found


def _run_of(runs: Sequence[Run], study: str) -> Run | None:
    """The run of a study: the one in the folder of its name if there are several."""
    own = [run for run in runs if run.result.name == study]
    return min(own, key=lambda run: (run.folder != study, run.folder), default=None)


def _card(study: str, run: Run | None) -> Card:
    if run is not None:
        told: Mapping[str, object] = run.result.study
        published = published_answer(study, run.result.reference)
    else:
        told, published = _shipped(study)
    return Card(study, str(told.get("title", study)), str(told.get("question", "")), published, run)


def _shipped(study: str) -> tuple[Mapping[str, object], str]:
    """The study file of a study that was not run, and the published answer."""
    path: Path | None = shipped_studies().get(study)
    if path is None:
        return {}, ""
    told = tomllib.loads(path.read_text(encoding="utf-8"))
    return told, published_answer(study, find_reference(told, path))
