"""Sizes as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nandlab.byte_sizes import format_bytes, parse_bytes
from nandlab.errors import NandlabError


@pytest.mark.parametrize(
    ("text", "expected"),
    [("512", 512), ("1kB", 1000), ("1 KiB", 1024), ("1.5MiB", 1_572_864), ("2GB", 2 * 10**9)],
)
def test_units(text: str, expected: int) -> None:
    assert parse_bytes(text, "--size") == expected


@pytest.mark.parametrize("text", ["", "MiB", "100Mb", "-1", "0", "1.0001KiB", "1e9"])
def test_everything_else_is_refused(text: str) -> None:
    with pytest.raises(NandlabError, match=r"^--size: "):
        parse_bytes(text, "--size")


@given(st.integers(min_value=1, max_value=2**40))
def test_whole_kibibytes_come_back(count: int) -> None:
    assert parse_bytes(f"{count}KiB", "--size") == count * 1024
    assert format_bytes(count * 1024)
