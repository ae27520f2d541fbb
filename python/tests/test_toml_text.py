"""TOML that nandlab writes is what it stands for, and lines of keys are found again."""

import datetime
import math
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nandlab.toml_text import TomlLines, toml_of

TEXTS = st.text(st.characters(codec="utf-8"), max_size=8)
WORDS = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    TEXTS,
    st.dates(),
    st.times(),
    st.datetimes(timezones=st.sampled_from([None, datetime.UTC])),
)
VALUES = st.recursive(
    WORDS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=6,
)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(TEXTS, VALUES, max_size=4))
def test_what_is_written_is_read_as_the_same(table: dict[str, Any]) -> None:
    assert tomllib.loads(toml_of(table)) == table


def test_keys_and_values_that_json_writes_otherwise() -> None:
    table = {
        "inline": [{"a key": 1, "axes.ftl": ["page"], "": 2}],
        "ends": [math.inf, -math.inf],
        "delete": "\x7f",
        "on": datetime.date(2026, 11, 27),
        "below": {"a b": {"c.d": 1e-7}},
    }
    assert tomllib.loads(toml_of(table)) == table
    assert math.isnan(tomllib.loads(toml_of({"x": math.nan}))["x"])
    with pytest.raises(TypeError, match="TOML has no NoneType"):
        toml_of({"x": None})


def test_lines_of_keys() -> None:
    text = 'title = "a = b"\n[space]\npart = 1\n[space.axes]\n  "ftl" = 2\n[[claim]]\nwidth.x = 3\n'
    lines = TomlLines(Path("a.toml"), text)
    found = {key: lines.line_of(key) for key in ("space.part", "axes.ftl", "claim", "width", "b")}
    assert found == {"space.part": 2, "axes.ftl": 4, "claim": 5, "width": 6, "b": None}
    assert lines.line_of("title", 1) is None
    assert str(lines.at(2, "no")) == "a.toml:3: no"
    assert str(lines.at(None, "no")) == "a.toml: no"
