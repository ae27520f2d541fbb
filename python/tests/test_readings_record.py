"""The searches on record: they are of the shipped files, large enough, and find planted truths."""

import json
import tomllib
from pathlib import Path

import pytest

from nandlab.readings.page import RECORDED, chapter, page_of
from nandlab.readings.record import MARK, PAGE, SEARCHES
from nandlab.readings.spec import load_readings
from nandlab.study_files import shipped_studies

NAMES = [name for names in SEARCHES for name in names]
LEAST_READINGS = {"sfq-emmc": 40}
"""100 of all other studies."""


def folder(name: str) -> Path:
    return shipped_studies()[name].parent


@pytest.mark.parametrize("name", NAMES)
def test_the_record_is_of_the_shipped_file(name: str) -> None:
    answer = json.loads((folder(name) / RECORDED).read_text(encoding="utf-8"))
    searched = {one["choice"]: list(one["least_error"]) for one in answer["effects"]}
    for choice in load_readings(name).choices:
        assert searched[choice.name] == choice.names
        assert next(e for e in answer["effects"] if e["choice"] == choice.name)["shipped"][
            name
        ] == (choice.shipped)
    assert answer["not_tried"][name] == load_readings(name).plain["not_tried"]


@pytest.mark.parametrize("name", NAMES)
def test_a_search_is_large_and_finds_planted_truths(name: str) -> None:
    answer = json.loads((folder(name) / RECORDED).read_text(encoding="utf-8"))
    assert answer["design"]["readings"] >= LEAST_READINGS.get(name, 100)
    assert answer["design"]["least_readings_of_an_option"] >= 5
    assert answer["trust"]["planted"] == {"draws": 20, "found": pytest.approx(20, abs=1)}
    # Not below it where a study ships the reading that the search found.
    assert answer["readings"][0]["error"] <= min(one["error"] for one in answer["shipped"].values())


def test_published_fit_is_what_the_search_finds() -> None:
    """The settings that a study calls nearest to the table are those of the best reading."""
    answer = json.loads((folder("ftl-windows") / RECORDED).read_text(encoding="utf-8"))
    study = tomllib.loads((folder("ftl-windows") / "study.toml").read_text(encoding="utf-8"))
    fit = study["settings"]["published-fit"]
    found = {}
    for choice in load_readings("ftl-windows").plain["choice"]:
        option = choice["options"][answer["readings"][0]["choices"][choice["name"]]]
        for key, value in option.get("set", {}).items():
            if key.startswith("settings.default."):
                _, _, ftl, name = key.split(".")
                found[ftl, name] = value
    assert len(found) >= 9
    assert {(ftl, name): fit[ftl].get(name) for ftl, name in found} == found


def test_the_page_is_what_the_command_printed() -> None:
    page = PAGE.read_text(encoding="utf-8").partition(MARK)[2]
    assert page
    for name in NAMES:
        answer = json.loads((folder(name) / RECORDED).read_text(encoding="utf-8"))
        assert page_of(answer) in page
        assert f"nandlab readings {' '.join(answer['studies'])}" in page


@pytest.mark.parametrize("name", NAMES)
def test_the_chapter_fits_a_screen(name: str) -> None:
    found = chapter(folder(name), name)
    assert found is not None
    table, sentences = found
    assert 5 <= len(table.rows) <= 12
    assert 3 <= len(sentences) <= 6
    assert max(len(one) for one in sentences) <= 300
