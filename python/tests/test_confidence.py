"""Relative changes and their intervals."""

import math

import pytest

from nandlab.verdicts.confidence import change, geometric_mean


def test_twice_and_half_cancel() -> None:
    found = change([2.0, 0.5])
    assert found.value == pytest.approx(0.0)
    assert found.low < -0.99
    assert found.high > 100


def test_the_interval_is_students() -> None:
    # Five logarithms with mean 0.1 and standard deviation sqrt(0.025): t of 4 degrees is 2.776.
    found = change([math.exp(one) for one in (-0.1, 0.0, 0.1, 0.2, 0.3)])
    half = 2.776 * math.sqrt(0.025) / math.sqrt(5)
    assert found.value == pytest.approx(math.expm1(0.1))
    assert found.low == pytest.approx(math.expm1(0.1 - half))
    assert found.high == pytest.approx(math.expm1(0.1 + half))
    assert found.repeats == 5


def test_one_pair_says_nothing_of_the_interval() -> None:
    found = change([0.25])
    assert found.value == pytest.approx(-0.75)
    assert (found.low, found.high) == (-1.0, math.inf)


def test_many_pairs_use_the_normal() -> None:
    ratios = [math.exp(0.01 * (-1) ** one) for one in range(100)]
    assert change(ratios).high == pytest.approx(math.expm1(1.96 * 0.01005 / 10), rel=1e-3)


def test_geometric_mean() -> None:
    assert geometric_mean([1.0, 100.0]) == pytest.approx(10.0)
