"""Intervals on a logarithmic axis, some of which reach 0: each dot has its own place."""

import re

import vl_convert

from nandlab.claims.quantity import Quantity
from nandlab.claims.schema import Reading
from nandlab.present.charts import Chart, drawn
from nandlab.present.spec import Column, FigureSpec

VALUES = (1.0, 2.0, 40.0)


def dots_with(lows: tuple[float, ...]) -> Chart:
    """A chart of three dots and their intervals."""
    column = Column("behind the first", Quantity("behind_first"), Reading("as run"))
    spec = FigureSpec("behind", "Behind", "", column, kind="dots", log_x=True)
    points = [
        {"x": f"case {at}", "series": "here", "value": value, "low": low, "high": 2 * value}
        for at, (value, low) in enumerate(zip(VALUES, lows, strict=True))
    ]
    return drawn(points, spec, "ratio")


def places(chart: Chart) -> list[float]:
    """Where the dots are on the axis of the values, in pixels."""
    sized = {**chart.specification, "width": 400}
    picture = vl_convert.vegalite_to_svg(sized, vl_version="6.4")
    marks = re.findall(r'aria-roledescription="point"[^>]*transform="translate\(([\d.]+)', picture)
    assert len(marks) == len(VALUES), picture
    return [float(mark) for mark in marks]


def test_an_interval_that_reaches_zero_moves_no_dot() -> None:
    within = places(dots_with((0.5, 1.5, 20.0)))
    assert within == sorted(set(within))
    for low in (0.0, -3.0):
        found = places(dots_with((0.5, low, 20.0)))
        assert found == within, low


def test_intervals_that_all_reach_zero_begin_at_the_least_value() -> None:
    found = places(dots_with((-1.0, -2.0, -3.0)))
    assert found == sorted(set(found))
