"""docs/devices.md names every key of a device file, and its example is one."""

import re
from pathlib import Path

import pytest

import nandlab as nl
from nandlab.errors import NandlabError

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "devices.md").read_text(encoding="utf-8")
TRACE = ROOT / "traces" / "small" / "fat-mp3-1.parquet"


def test_the_page_names_every_key(engine_is_built: None) -> None:
    with pytest.raises(NandlabError) as told:
        nl.replay(TRACE, device="emmc-4.5-64gb", closed_loop=True, settings={"host.no_key": 1})
    known = str(told.value).partition("known: ")[2].split(", ")
    assert len(known) > 30
    named = re.findall(r"^\| `([a-z_.]+)` \|", PAGE, re.MULTILINE)
    assert named == known


def test_the_example_is_a_device(tmp_path: Path, engine_is_built: None) -> None:
    text = PAGE.partition("```toml\n")[2].partition("```")[0]
    card = tmp_path / "my-card.toml"
    card.write_text(text, encoding="utf-8")
    found = nl.replay(TRACE, device=card, closed_loop=True, precondition="fill")
    assert found.answer["runs"][0]["requests_in"] == found.answer["runs"][0]["requests_out"] > 0
