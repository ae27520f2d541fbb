"""What only `make test-long` runs: it sets `NANDLAB_LONG_TESTS=1`, and CONTRIBUTING.md lists it."""

import os

import pytest

IS_LONG = os.environ.get("NANDLAB_LONG_TESTS") == "1"

only_long = pytest.mark.skipif(not IS_LONG, reason="a part of make test-long")
"""For a test that repeats, on another kernel or in another size, what `make test` shows."""


def first_or_all(values: tuple[str, ...], first: tuple[str, ...]) -> list[object]:
    """Parameters of a test: `make test` runs those in `first`, and the others are counted as left
    out."""
    return [value if value in first else pytest.param(value, marks=only_long) for value in values]
