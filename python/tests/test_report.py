"""The page of a report: self-contained, escaped, one chart engine."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from made_up import run_of
from synthetic_results import engine_answer

from nandlab.frame import RunFrame
from nandlab.present import drawing, present
from nandlab.present.page import render
from nandlab.present.units import interval_text

POINTS_MAX = 5_000


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


def test_the_first_screen_is_sentence_figure_table_and_conditions(page: str) -> None:
    first = page.partition("<details")[0]
    sentence = re.search(r'<p class="headline">(.*?)</p>', first)
    assert sentence is not None
    assert 0 < len(sentence[1].split()) <= 25
    assert first.count("data-chart=") == 1
    assert first.count("<table") == 1
    for name in ("part", "seed", "repeats", "form"):
        assert f"<b>{name}</b>" in first
    for column in ("published", "here", "interval", "status"):
        assert f">{column}</th>" in first


def test_what_is_put_in_is_escaped(result: RunFrame) -> None:
    answer = engine_answer()
    answer["study"]["title"] = "</title><script>alert(1)</script>"
    answer["rows"] = [
        ["</script><b>" if cell == "page" else cell for cell in row] for row in answer["rows"]
    ]
    answer["rows"] += [["</script><b>", *row[1:]] for row in answer["rows"] if row[0] == "bast"]
    hostile = run_of(answer, result.reference, result.folder)
    page = render(present(hostile), "nandlab run x")
    assert "<script>alert" not in page
    assert "</script><b>" not in page


def test_charts_are_small_enough(result: RunFrame) -> None:
    charts = present(result).charts
    assert len(charts) >= 5
    assert len({chart.identifier for chart in charts}) == len(charts)
    for chart in charts:
        assert 0 < len(chart.data) <= POINTS_MAX
        assert chart.specification["width"] == "container"
        assert chart.specification["description"]


def test_the_first_figure_is_a_picture_too(run_folder: Path) -> None:
    pictures = list((run_folder / "figures").glob("*.png"))
    assert len(pictures) == 1
    assert all(picture.read_bytes().startswith(b"\x89PNG") for picture in pictures)


def _drawing_of(title: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[bytes, int]:
    """A small picture, and how often the chart engine was called for it."""
    calls: list[object] = []

    def waited_for(call: Callable[[], bytes]) -> bytes:
        calls.append(call)
        return call()

    monkeypatch.setattr(drawing, "waited_for", waited_for)
    values = [{"x": 1, "value": 2}]
    encoding = {"x": {"field": "x"}, "y": {"field": "value"}}
    chart = {"data": {"values": values}, "mark": "bar", "encoding": encoding}
    return drawing.picture(chart, title, place), len(calls)


def test_a_picture_of_the_same_chart_is_not_drawn_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "one.png"
    first, calls = _drawing_of("a", place, monkeypatch)
    assert calls == 1
    # Whole, with the size of the picture first (PNG specification, 5.6).
    assert drawing.chunks(first)[0][0] == b"IHDR"
    place.write_bytes(first)
    assert _drawing_of("a", place, monkeypatch) == (first, 0)
    other, calls = _drawing_of("b", place, monkeypatch)
    assert calls == 1
    assert other != first
    for damaged in (b"", first[:-1], first[:-100] + b"x" + first[-99:], first + b"x", b"text"):
        place.write_bytes(damaged)
        assert _drawing_of("a", place, monkeypatch) == (first, 1)


def test_a_study_without_claims_gets_the_same_page() -> None:
    answer = engine_answer()
    answer["study"] = {"name": "another", "title": "Another", "question": "", "seed": 1}
    page = render(present(run_of(answer)), "nandlab run another")
    first = page.partition("<details")[0]
    assert "<h1>Another</h1>" in first
    assert "Undecided: 1 repeat; at least 3 are needed to judge." in first
    assert first.count("data-chart=") == first.count("<table") == 1
    assert "<b>seed</b> 1" in first
    assert "How each claim is tested" not in page


def test_the_conditions_name_the_reading_that_the_claims_stand_on(result: RunFrame) -> None:
    shown = present(result)
    assert shown.conditions[-1] == ("reading", shown.definitions.readings[0].name)


@pytest.mark.parametrize(
    ("ends", "shown"),
    [
        ((0.9996, 1.0004), "0.9996 to 1.0004"),
        ((1.02, 1.08), "1.02 to 1.08"),
        ((-1.2, 0.4), "-1.20 to 0.40"),
        ((999.7, 1000.4), "999.7 to 1,000.4"),
        ((0.012, 35.0), "0.0120 to 35"),
        ((1.0, 1.0), "1 to 1"),
        ((0.0, 2.0), "0 to 2"),
    ],
)
def test_both_ends_of_an_interval_have_the_same_decimals(
    ends: tuple[float, float], shown: str
) -> None:
    assert interval_text(*ends, "ratio") == shown


def test_a_study_without_a_number_of_warm_up_writes_has_a_page(tmp_path: Path) -> None:
    import nandlab as nl

    study = tmp_path / "plain.toml"
    study.write_text(
        'name = "plain"\ntitle = "Plain"\nquestion = "How much?"\npart = "generic-mlc-2x"\n'
        'blocks = 16\nseed = 1\nrepeats = 1\n[workload]\nkind = "uniform"\nmeasured_writes = 1\n'
        '[axes]\nftl = ["page"]\nspare_percent = [28]\npages_per_block = [64]\n',
        encoding="utf-8",
    )
    nl.run(study, out=tmp_path / "out")
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "written over as often as by default" in page
