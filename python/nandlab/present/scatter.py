"""A figure of points in a plane, in classes of which the last is drawn on top."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nandlab.present.charts import PALETTE, Chart, finished
from nandlab.present.spec import FigureSpec
from nandlab.present.units import scale_of

_GREY = "#7d8590"
_LOGARITHMIC_FROM = 10
_OPACITY = 0.85


@dataclass(frozen=True)
class PointClass:
    """A class of points: its name in the legend and how large its dots are."""

    name: str
    colour: str = _GREY
    size: int = 28
    shape: str = "circle"
    is_joined: bool = False
    """A line of steps joins its points: the bound of what can be had."""


@dataclass(frozen=True)
class Scattered:
    """An axis of the plane: title and unit of its values."""

    title: str
    unit: str


COLOURS = PALETTE
"""Colours of classes."""


def scatter(
    points: Sequence[Mapping[str, Any]],
    spec: FigureSpec,
    x: Scattered,
    y: Scattered,
    classes: Sequence[PointClass],
    steps: str = "step-after",
) -> Chart:
    """The chart of points with `x`, `y`, `series` and `name`, perhaps with ends of intervals.

    The ends are `x_low`, `x_high`, `low` and `high`. `steps` is how Vega joins points by a line.
    """
    scales = {"x": scale_of([one["x"] for one in points], x.unit),
              "y": scale_of([one["y"] for one in points], y.unit)}  # fmt: skip
    of = {"x": "x", "x_low": "x", "x_high": "x", "y": "y", "low": "y", "high": "y"}
    shown = []
    for point in points:
        scaled = {
            key: None if point.get(key) is None else point[key] / scales[axis].size
            for key, axis in of.items()
        }
        shown.append({**point, **scaled})
    present = [one for one in classes if any(point["series"] == one.name for point in shown)]
    shared = {
        "x": _axis("x", scales["x"].titled(x.title), shown),
        "y": _axis("y", scales["y"].titled(y.title), shown),
    }
    layers: list[dict[str, Any]] = [_steps(one, steps) for one in present if one.is_joined]
    layers += _whiskers(shown)
    layers += _dots(present)
    specification = finished(layers, shared, shown, spec)
    return Chart(spec.identifier, spec.title, spec.caption, specification, tuple(shown))


def _axis(name: str, title: str, points: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    values = [float(one[name]) for one in points]
    is_log = min(values) > 0 and max(values) >= _LOGARITHMIC_FROM * min(values)
    scale = {"type": "log" if is_log else "linear", "nice": not is_log, "zero": False}
    axis = {"format": ",~r", "tickCount": 6}
    return {"field": name, "type": "quantitative", "title": title, "axis": axis, "scale": scale}


def _dots(classes: Sequence[PointClass]) -> list[dict[str, Any]]:
    """A layer for each class, with dots of its own size and shape."""
    names, colours = [one.name for one in classes], [one.colour for one in classes]
    legend = {"title": None, "orient": "bottom", "columns": 2}
    colour = {"field": "series", "type": "nominal", "sort": names, "legend": legend,
              "scale": {"domain": names, "range": colours}}  # fmt: skip
    tips = [{"field": name, "type": "nominal"} for name in ("name", "series")]
    tips += [{"field": name, "type": "quantitative", "format": ",.4~r"} for name in ("x", "y")]
    return [
        {
            "transform": [{"filter": {"field": "series", "equal": one.name}}],
            "mark": {"type": "point", "filled": True, "opacity": _OPACITY, "size": one.size,
                     "shape": one.shape},
            "encoding": {"color": colour, "tooltip": tips},
        }
        for one in classes
    ]  # fmt: skip


def _steps(one: PointClass, steps: str) -> dict[str, Any]:
    """A value of y holds until the next point betters it."""
    line = {"type": "line", "interpolate": steps, "strokeWidth": 1.5, "opacity": 0.7}
    return {
        "transform": [{"filter": "datum.is_joined"}],
        "mark": line,
        "encoding": {"color": {"value": one.colour}},
    }


def _whiskers(points: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Error bars along both axes, wherever there is an interval."""
    layers: list[dict[str, Any]] = []
    for axis, low, high in (("y", "low", "high"), ("x", "x_low", "x_high")):
        if any(one.get(low) is not None for one in points):
            ends: dict[str, Any] = {axis: {"field": low, "type": "quantitative"}}
            ends[f"{axis}2"] = {"field": high}
            layers.append({
                "transform": [{"filter": f"isValid(datum.{low})"}],
                "mark": {"type": "rule", "strokeWidth": 1.2},
                "encoding": {**ends, "color": {"value": _GREY}},
            })  # fmt: skip
    return layers
