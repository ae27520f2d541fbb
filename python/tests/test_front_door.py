"""The front page: every study of a publication, run or not, and what is left of their advice."""

import shutil
from pathlib import Path

import pytest

from nandlab import reproduce
from nandlab.report.front_door import IN_A_KERNEL, PUBLICATIONS, Card, Run, cards, other_runs
from nandlab.report.index import write_index
from nandlab.results.reference import find_reference
from nandlab.results.study_result import StudyResult, Table
from nandlab.studies import shipped_studies
from nandlab.verdicts import VERDICTS, judge
from nandlab.verdicts.advice import ADVICE, Advice, Outcome, outcome, summary
from nandlab.verdicts.model import Claim, Evaluation, Verdict
from nandlab.verdicts.published_answers import ANSWERS, published_answer
from nandlab.verdicts.standing import Standing, hangs_on, standing

LABELS = ("small, new", "small, old", "large, new", "large, old")


def claim(name: str, *holds: bool | None) -> Claim:
    found = [
        Evaluation(label, one, f"{name} in figures")
        for label, one in zip(LABELS, holds, strict=False)
    ]
    return Claim(name, f"It is {name}", "yes", tuple(found))


def verdict(*claims: Claim) -> Verdict:
    return Verdict("made-up", "headline", (), claims=claims)


@pytest.mark.parametrize(
    ("holds", "wanted"),
    [
        ((True, True), Standing.EVERYWHERE),
        ((True, None), Standing.EVERYWHERE),
        ((False, None), Standing.NOWHERE),
        ((True, False, None), Standing.SOMEWHERE),
        ((None, None), Standing.UNTESTED),
    ],
)
def test_where_a_claim_stands(holds: tuple[bool | None, ...], wanted: Standing) -> None:
    assert standing(claim("fast", *holds)) is wanted


@pytest.mark.parametrize(
    ("holds", "words"),
    [
        ((True, False, True, False), "holds with new, not with old"),
        ((False, False, True, True), "holds with large, not with small"),
        ((True, False, False, False), "holds in 1 of 4 settings: small, new"),
        ((True, False, True, True), "holds in 3 of 4 settings, not with small, old"),
        ((True, False, None, None), "holds with new, not with old"),
    ],
)
def test_what_decides_is_named(holds: tuple[bool | None, ...], words: str) -> None:
    assert hangs_on(claim("fast", *holds)) == words


def test_advice_stands_falls_or_depends_as_its_claims_do() -> None:
    both = Advice("made-up", "Take it", ("fast", "safe"))
    one = Advice("made-up", "Take it", ("fast",))
    yes, no = (True, True, True, True), (False, False, False, False)
    assert outcome(both, verdict(claim("fast", *yes), claim("safe", *yes))) == Outcome(
        "stands",
        "both claims it rests on hold in every setting",
        outcome(both, verdict(claim("fast", *yes), claim("safe", *yes))).reasons,
    )
    assert outcome(one, verdict(claim("fast", *no))).word == "falls"
    found = outcome(both, verdict(claim("fast", *yes), claim("safe", *no)))
    assert (found.word, found.summary) == (
        "depends",
        "of 2 claims it rests on hold 1 in every setting and 1 in none",
    )
    assert [reason.why for reason in found.reasons] == ["fast in figures", "safe in figures"]
    found = outcome(one, verdict(claim("fast", True, False, True, False)))
    assert (found.word, found.summary) == ("depends", "holds with new, not with old")
    assert outcome(one, verdict(claim("fast", None))).word == "cannot be told"
    assert outcome(one, verdict(claim("other", True))).word == "cannot be told"
    assert outcome(one, None).summary == "the study made-up was not run"


def test_outcomes_are_counted() -> None:
    words = ["falls", "depends", "depends", "cannot be told"]
    assert summary([Outcome(word, "") for word in words]) == (
        "none stands as it was given, 1 falls, 2 depend and 1 cannot be told"
    )


def test_every_publication_has_an_answer_and_advice() -> None:
    assert {advice.study for advice in ADVICE} == set(PUBLICATIONS)
    # A comparison is the user's own and has no publication.
    judged = {name for name, _ in VERDICTS} - {"comparison"}
    assert set(ANSWERS) == {*PUBLICATIONS, IN_A_KERNEL} == judged
    tables = {
        name: find_reference({"reference": f"{name}.reference.csv"}, shipped_studies()[name])
        for name in PUBLICATIONS
    }
    found = {name: published_answer(name, table) for name, table in tables.items()}
    assert found["ftl-windows"].startswith("FAST costs least, 2.6 % less time than BAST; then")
    assert found["sfq-emmc"].startswith("SFQ against CFQ: longest read −78 %")
    assert "JFFS2's writes by 17 % (best anticipatory)" in found["scheduler-filesystem"]
    assert "YAFFS2 does not care" in found["scheduler-filesystem"]
    assert "at least 49 % faster" in found["android"]
    part = Table.of(["file_system", "test"], [["jffs2", "write"]])
    assert published_answer("scheduler-filesystem", part) == ""


def run(folder: str, result: StudyResult) -> Run:
    return Run(folder, result, judge(result), has_report=True)


def test_a_study_that_was_not_run_is_named(result: StudyResult) -> None:
    shown = cards([run("zoo", result), run("ftl-windows", result)], PUBLICATIONS)
    assert [card.study for card in shown] == list(PUBLICATIONS)
    assert shown[0].run is not None
    assert shown[0].run.folder == "ftl-windows"
    assert [card.run for card in shown[1:]] == [None, None, None]
    assert all(card.question and card.published for card in shown)
    other = other_runs([run("zoo", result), run("ftl-windows", result)], shown)
    assert [one.folder for one in other] == ["zoo"]


def test_a_card_counts_claims_by_where_they_stand(result: StudyResult) -> None:
    claims = (
        claim("fast", True, True),
        claim("safe", False, None),
        claim("small", False, False),
        claim("cheap", None),
    )
    card = Card("made-up", "t", "q", "p", Run("made-up", result, verdict(*claims), True))
    words = ["1 holds throughout", "2 hold nowhere", "1 could not be tested"]
    assert [one for _, one in card.counts()] == words
    assert [one.identifier for one in card.disagreeing()] == ["safe", "small"]


def test_the_page_holds_answers_and_advice(run_folder: Path, tmp_path: Path) -> None:
    shutil.copytree(run_folder, tmp_path / "ftl-windows")
    written = write_index(tmp_path)
    page, count = written.path, written.runs
    text = page.read_text(encoding="utf-8")
    assert count == 1
    assert text.index('id="ftl-windows"') < text.index('id="android"') < text.index('id="advice"')
    assert "YAFFS2 or UBIFS on an Android board" in text
    assert "FAST costs least, 2.6 % less time than BAST" in text
    assert "nandlab run android --out out/android" in text
    assert "the study android was not run" in text
    assert 'href="ftl-windows/report.html#claim-' in text
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["ftl-windows", "index.html"]


def test_a_folder_of_other_studies_gets_no_publications(tmp_path: Path) -> None:
    written = write_index(tmp_path)
    page, count = written.path, written.runs
    assert count == 0
    assert "No runs here yet" in page.read_text(encoding="utf-8")


STUDY = """
name = "tiny"
title = "Tiny"
question = "How fast?"
seed = 1
repeats = 1
part = "k9f1g08u0a"
[workload]
kind = "iozone"
options = "-i 0 -s 64k -r 4k"
[host]
board = "s5pv210-datasheet"
kernel = "2.6.29"
[axes]
file_system = ["yaffs2"]
"""


@pytest.mark.usefixtures("engine_is_built")
def test_all_shipped_studies_lead_to_one_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "tiny.toml"
    path.write_text(STUDY, encoding="utf-8")
    shipped = {"sfq-kernel": shipped_studies()["sfq-kernel"], "tiny": path}
    monkeypatch.setattr(reproduce, "shipped_studies", lambda: shipped)
    out = tmp_path / "out"
    assert reproduce.main(["--out", str(out), "--jobs", "1"]) == 0
    told = capsys.readouterr().out
    assert "Left out: sfq-kernel (needs a virtual machine; run it with --full)" in told
    assert "1 studies run, 1 left out" in told
    assert "Tiny" in (out / "index.html").read_text(encoding="utf-8")
    monkeypatch.setattr(reproduce, "shipped_studies", dict)
    assert reproduce.main(["--out", str(out)]) == 2
    assert "no study was found" in capsys.readouterr().err
