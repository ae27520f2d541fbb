"""Quick forms of every study with claims: no interval and no verdict anywhere."""

import json
import re

import pytest
from quick_runs import quick_run
from test_claims import FOLDERS

from nandlab import engine

VERDICTS = re.compile(r"\b(supported|contradicted|undecided)\b")


@pytest.mark.usefixtures("engine_is_built")
@pytest.mark.parametrize("study", FOLDERS)
def test_a_quick_run_prints_neither_interval_nor_verdict(
    study: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    plan = engine.describe_study(str(FOLDERS[study] / "study.toml"), [], None, quick=True)
    if plan.get("needs_vm"):
        pytest.skip("needs a virtual machine")
    run = quick_run(study, tmp_path_factory)
    out, printed = run.folder, run.printed
    found = json.loads((out / "verdict.json").read_text(encoding="utf-8"))
    assert found["quick"] is True
    assert {claim["status"] for claim in found["claims"]} == {"not judged"}
    assert all(claim["low"] is claim["high"] is None for claim in found["claims"])
    for figure in found["figures"].values():
        assert all(point.get("low") is None for point in figure["points"])
    page = (out / "report.html").read_text(encoding="utf-8").partition('id="tests"')[0]
    body = page.partition("<body>")[2]
    for text in (printed, body, found["headline"]):
        assert not VERDICTS.search(text)
        assert not re.search(r">interval</th>| interval +n ", text)
    assert "quick" in body
    assert len(found["headline"].split()) <= 25
