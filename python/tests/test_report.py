"""The page of a report: self-contained, escaped, one chart engine."""

import re
from pathlib import Path

import pytest
from synthetic_results import engine_answer

from nandlab.report.charts import POINTS_MAX
from nandlab.report.page import render, sections_of
from nandlab.results.study_result import StudyResult
from nandlab.verdicts import judge


@pytest.fixture(scope="module")
def page(run_folder: Path) -> str:
    return (run_folder / "report.html").read_text(encoding="utf-8")


def _without_engine(page: str) -> str:
    return re.sub(r'<script id="chart-engine">.*?</script>', "", page, flags=re.S)


def test_it_loads_nothing_from_elsewhere(page: str) -> None:
    assert not re.search(r"https?://", _without_engine(page))
    assert not re.search(
        r"<(?:link|script|img|iframe)[^>]+(?:src|href)=[\"'](?!data:|#)", _without_engine(page)
    )
    assert "default-src 'none'" in page


def test_it_holds_the_chart_engine_once(page: str) -> None:
    assert page.count('id="chart-engine"') == 1
    assert page.count("window.vegaEmbed") == 1
    assert len(page) < 2_500_000


def test_every_section_has_its_link(page: str) -> None:
    for anchor in re.findall(r'<a href="#([^"]+)"', page):
        assert f'id="{anchor}"' in page


def test_the_first_screen_is_the_verdict_and_the_caveat(page: str) -> None:
    before_sections = page.partition("<main>")[0]
    assert "FAST wins" in before_sections
    assert "Claims of the publication that hold" in before_sections
    assert "$LogFile" in before_sections


def test_what_is_put_in_is_escaped(page: str) -> None:
    assert "a &lt;paper&gt;" in page
    assert "a <paper>" not in page
    answer = engine_answer()
    answer["study"]["title"] = "</title><script>alert(1)</script>"
    answer["rows"] = [
        ["</script><b>" if cell == "fat" else cell for cell in row] for row in answer["rows"]
    ]
    result = StudyResult.from_engine(answer)
    verdict = judge(result)
    hostile = render(result, verdict, sections_of(result, verdict, []), "nandlab run x")
    assert "<script>alert" not in hostile
    assert "</script><b>" not in hostile


def test_charts_are_small_enough(result: StudyResult) -> None:
    figures = [
        figure for section in sections_of(result, judge(result), []) for figure in section.figures
    ]
    assert len(figures) >= 10
    assert len({figure.identifier for figure in figures}) == len(figures)
    for figure in figures:
        data = figure.specification.get("data") or figure.specification["layer"][0]["data"]
        values = data.get("values")
        if values is not None:
            assert 0 < len(values) <= POINTS_MAX
        assert figure.specification["width"] == "container"
        assert figure.specification["description"]


def test_main_figures_are_pictures_too(run_folder: Path) -> None:
    pictures = list((run_folder / "figures").glob("*.png"))
    assert len(pictures) >= 3
    assert all(picture.read_bytes().startswith(b"\x89PNG") for picture in pictures)


def test_a_study_without_sections_of_its_own_gets_a_page() -> None:
    answer = engine_answer()
    answer["study"] = {"name": "another", "title": "Another", "question": "", "seed": 1}
    result = StudyResult.from_engine(answer)
    verdict = judge(result)
    sections = sections_of(result, verdict, [])
    assert [section.identifier for section in sections] == ["results"]
    assert "Another" in render(result, verdict, sections, "nandlab run another")
