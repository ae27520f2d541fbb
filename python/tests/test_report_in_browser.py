"""The page in a real browser: no errors, every chart drawn, nothing wider than the window."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Browser, missing_programs, running_browser

from nandlab.present.front import write_index

_MISSING = missing_programs()

pytestmark = pytest.mark.skipif(
    bool(_MISSING),
    reason=f"not installed: {', '.join(_MISSING)}; apt-get install chromium chromium-driver",
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with running_browser(tmp_path_factory.mktemp("browser")) as running:
        yield running


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width_px", [400, 1400])
def test_the_page_is_right(browser: Browser, run_folder: Path, width_px: int, dark: bool) -> None:
    browser.open(run_folder / "report.html", width_px=width_px, dark=dark)
    assert browser.console() == []
    assert browser.evaluate("return document.documentElement.dataset.charts") == "drawn"
    places, drawn = browser.evaluate(
        "const places = [...document.querySelectorAll('[data-chart]')]"
        ".filter(place => !place.closest('details'));"
        "return [places.length, places.filter(place => {"
        "  const svg = place.querySelector('svg');"
        "  return svg && svg.getBoundingClientRect().width > 200"
        "    && svg.querySelectorAll('path, line').length > 5; }).length]"
    )
    assert places == drawn > 0
    wide = browser.evaluate("return document.documentElement.scrollWidth - window.innerWidth")
    assert wide <= 0
    cut = browser.evaluate(
        "return [...document.querySelectorAll('.chart svg text')].filter(text => {"
        "  const box = text.getBoundingClientRect();"
        "  const place = text.closest('.chart').getBoundingClientRect();"
        "  return box.width && (box.right > place.right + 1 || box.left < place.left - 1);"
        "}).map(text => text.closest('.chart').id + ': ' + text.textContent)"
    )
    assert cut == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_text_in_charts_has_the_colour_of_the_page(
    browser: Browser, run_folder: Path, dark: bool
) -> None:
    browser.open(run_folder / "report.html", width_px=1400, dark=dark)
    text, paper = browser.evaluate(
        "const text = document.querySelector('.chart svg text');"
        "return [getComputedStyle(text).fill, getComputedStyle(document.body).backgroundColor]"
    )
    light = [sum(map(int, colour.strip("rgb()").split(","))) > 382 for colour in (text, paper)]
    assert light == [dark, not dark]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width_px", [400, 1400])
def test_the_front_page_is_right(
    browser: Browser, run_folder: Path, width_px: int, dark: bool
) -> None:
    page = write_index(run_folder.parent).path
    browser.open(page, width_px=width_px, dark=dark, charts=False)
    assert browser.console() == []
    wide = browser.evaluate("return document.documentElement.scrollWidth - window.innerWidth")
    assert wide <= 0
    entries = browser.evaluate(
        "return [...document.querySelectorAll('.entry')].map(entry => entry.id)"
    )
    assert "ftl-windows" in entries
    assert len(entries) >= 6
