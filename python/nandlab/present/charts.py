"""Builds a chart from its declaration. Colours keep a contrast of 3 on white and near-black."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nandlab.frame import RunFrame
from nandlab.present.spec import FigureSpec, ReportSpec
from nandlab.present.tables import measured, published_beside
from nandlab.present.units import scale_of

PALETTE = (
    "#3a7bd5", "#c9661a", "#2b8a4b", "#9b5de5", "#d1495b", "#14889a", "#94704a", "#7d8590",
)  # fmt: skip
PUBLISHED = "published"

_GREY = "#7d8590"
_HEIGHT_PX = 260
_LEVEL_NAMES = 7
"""From so many names on they stand aslant."""
_POINTS_MAX = 5_000
_TICKS_MAX = 8
_LEGEND_CHARACTERS = 56
_LOG_X, _LOG_Y = 10, 100
"""Axes whose largest value is so many times the least are logarithmic."""


@dataclass(frozen=True)
class Chart:
    """A finished chart: a Vega-Lite specification whose width follows its place."""

    identifier: str
    title: str
    caption: str
    specification: Mapping[str, Any]
    data: tuple[Mapping[str, Any], ...]
    """The points of the chart, in the units that it shows."""

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {"title": self.title, "caption": self.caption, "points": list(self.data)}

    def _repr_mimebundle_(self, **_: object) -> dict[str, Any]:
        return {"application/vnd.vegalite.v6+json": {**self.specification, "width": 600}}


def chart(run: RunFrame, spec: FigureSpec, report: ReportSpec) -> Chart | None:
    """The chart that `spec` declares, over the rows of a run; None where nothing was run."""
    if spec.table:
        points = _of_table(run, spec, report)
    elif spec.kind == "curve":
        points = _curve(run, spec, report)
    else:
        points = _stacked(run, spec, report) if spec.parts else _points(run, spec, report)
    if not points:
        return None
    unit = spec.column.unit or run.units.get(spec.column.quantity.metric, "")
    return drawn(points, spec, unit)


def drawn(points: list[dict[str, Any]], spec: FigureSpec, unit: str) -> Chart:
    """The chart of points, each with `x`, `series` and `value`, perhaps with `low` and `high`."""
    scale = scale_of([point["value"] for point in points], unit)
    for point in points:
        for name in ("value", "low", "high"):
            if point.get(name) is not None:
                point[name] /= scale.size
    is_numeric = all(isinstance(point["x"], int | float) for point in points)
    is_lines = spec.kind in ("curve", "lines", "points") or (spec.kind is None and is_numeric)
    title = scale.titled(spec.column.title)
    draw = _dots if spec.kind == "dots" else _lines if is_lines and is_numeric else _bars
    return Chart(
        spec.identifier, spec.title, spec.caption, draw(points, spec, title), tuple(points)
    )


def _points(run: RunFrame, spec: FigureSpec, report: ReportSpec) -> list[dict[str, Any]]:
    axes = [spec.x] + ([spec.series] if spec.series else [])
    values = []
    for axis in axes:
        present = run.values_of(axis)
        chosen = spec.values.get(axis)
        texts = {str(value) for value in present}
        values.append(present if chosen is None else [one for one in chosen if str(one) in texts])
    values[0] = [x for x in values[0] if x is not None]
    points: list[dict[str, Any]] = []
    published: list[dict[str, Any]] = []
    for place in (dict(zip(axes, one, strict=True)) for one in itertools.product(*values)):
        found = measured(run, spec.column, spec.column.quantity.at(place))
        x = spec.at.get(str(place[spec.x]), place[spec.x])
        shown = x if isinstance(x, int | float) else report.name(x)
        if found is not None:
            series = report.name(place[spec.series]) if spec.series else "here"
            point = {"x": shown, "series": series, "value": found.estimate}
            points.append({**point, "low": found.low, "high": found.high})
        if spec.column.published is not None:
            cell = published_beside(run, spec.column, place)
            word = PUBLISHED
            if spec.series and run.reference and spec.series in run.reference.columns:
                word = f"{report.name(place[spec.series])}, {PUBLISHED}"
            if cell is not None and found is not None:
                alone = {"x": shown, "series": word, "value": cell, "low": None, "high": None}
                # One published value may stand beside several series.
                published += [] if alone in published else [alone]
    return points + published


def _stacked(run: RunFrame, spec: FigureSpec, report: ReportSpec) -> list[dict[str, Any]]:
    """Points of each part in turn; a part that a run has not or that is 0 has no point."""
    found = []
    for name, metric in spec.parts.items():
        column = replace(spec.column, quantity=replace(spec.column.quantity, metric=metric))
        points = _points(run, replace(spec, column=column, series=None), report)
        for point in points:
            if point["value"] > 0:
                found.append({**point, "series": name, "low": None, "high": None})
    return found


def _curve(run: RunFrame, spec: FigureSpec, report: ReportSpec) -> list[dict[str, Any]]:
    from nandlab.claims.quantity import selected

    metric = spec.column.quantity.metric
    select = {key: one for key, one in spec.column.quantity.select.items() if key in run.axes}
    if metric not in run.curves.columns or spec.series is None:
        return []
    rows = selected(run, run.curves, {**select, **spec.values})
    every = max(1, -(-rows.height // _POINTS_MAX))
    return [
        {"x": row[spec.x], "series": report.name(row[spec.series]), "value": float(row[metric])}
        for row in rows.gather_every(every).to_dicts()
    ]


def _of_table(run: RunFrame, spec: FigureSpec, report: ReportSpec) -> list[dict[str, Any]]:
    """Points of a table of the run, a row each; times on the x axis in a unit of suitable size."""
    import polars

    frame, metric = run.tables.get(spec.table), spec.column.quantity.metric
    if frame is None or not {spec.x, metric} <= set(frame.columns):
        return []
    for name, wanted in {**spec.column.quantity.select, **spec.values}.items():
        if name in frame.columns:
            texts = [str(one) for one in (wanted if isinstance(wanted, list) else [wanted])]
            frame = frame.filter(frame[name].cast(polars.String).is_in(texts))
    rows = frame.gather_every(max(1, -(-frame.height // _POINTS_MAX))).to_dicts()
    return [
        {
            "x": float(row[spec.x]) / spec.x_size,
            "series": report.name(row[spec.series]) if spec.series else "here",
            "value": float(row[metric]),
        }
        for row in rows
    ]


def _dots(points: list[dict[str, Any]], spec: FigureSpec, title: str) -> dict[str, Any]:
    """Dots on a row for each value of the axis: for many names, and values that span powers."""
    order = list(dict.fromkeys(str(point["x"]) for point in points))
    is_log = _is_log(points, "value", _LOG_Y) if spec.log_x is None else spec.log_x
    rows = {**_names("x", order), "title": spec.x_title or None, "axis": {"grid": True}}
    dots = {
        "mark": {"type": "point", "filled": True, "size": 50, "opacity": 0.85},
        "encoding": {"x": _value(title, is_log=is_log), **_told(points)},
    }
    return finished([dots, *_whiskers(points, "x", is_log=is_log)], {"y": rows}, points, spec)


def _bars(points: list[dict[str, Any]], spec: FigureSpec, title: str) -> dict[str, Any]:
    order = list(dict.fromkeys(str(point["x"]) for point in points))
    # Two figures of the same parts have the same colours, whichever parts are 0.
    told = _told(points, list(spec.parts))
    axis = {"labelAngle": 0 if len(order) < _LEVEL_NAMES else -35}
    places = {"x": {**_names("x", order), "title": spec.x_title or None, "axis": axis}}
    height = _value(title) | ({"stack": "zero"} if spec.parts else {})
    if not spec.parts:
        places["xOffset"] = _names("series", told["color"]["sort"])
    bars = {"mark": "bar", "encoding": {"y": height, **told}}
    return finished([bars, *_whiskers(points, "y")], places, points, spec)


def _lines(points: list[dict[str, Any]], spec: FigureSpec, title: str) -> dict[str, Any]:
    is_plain = spec.kind == "curve" and not spec.table
    log_x = not is_plain and _is_log(points, "x", _LOG_X) if spec.log_x is None else spec.log_x
    log_y = not is_plain and _is_log(points, "value", _LOG_Y) if spec.log_y is None else spec.log_y
    x = {
        "field": "x",
        "type": "quantitative",
        "axis": _ticks(points, spec),
        "title": spec.x_title or spec.x.replace("_", " "),
        "scale": {"type": "log" if log_x else "linear", "nice": not log_x},
    }
    told = _told(points)
    encoding = {"y": _value(title, is_log=log_y), **told}
    dots = {"type": "point", "filled": True}
    if spec.kind == "points":
        layers = [{"mark": {**dots, "size": 12, "opacity": 0.5}, "encoding": encoding}]
        return finished(layers, {"x": x}, points, spec)
    dashes = {**_names("series", told["color"]["sort"]), "legend": None}
    line = {"type": "line", "strokeWidth": 2}
    layers = [{"mark": line, "encoding": {**encoding, "strokeDash": dashes}}]
    if spec.kind != "curve":
        layers.append({"mark": {**dots, "size": 40}, "encoding": encoding})
    whiskers = _whiskers(points, "y", is_log=log_y)
    return finished([*layers, *whiskers], {"x": x}, points, spec)


def _ticks(points: Sequence[Mapping[str, Any]], spec: FigureSpec) -> dict[str, Any]:
    """Few places of an axis are its ticks; they need all their digits."""
    places = sorted({point["x"] for point in points})
    if spec.kind != "curve" and len(places) <= _TICKS_MAX:
        return {"values": places, "format": ",.9~r"}
    return {"format": ",~r", "tickCount": 6}


def _names(field: str, order: Sequence[str]) -> dict[str, Any]:
    return {"field": field, "type": "nominal", "sort": list(order)}


def _value(title: str, *, is_log: bool = False) -> dict[str, Any]:
    """The axis of the values."""
    axis = {"format": ",~r", "tickCount": 5}
    plain = {"field": "value", "type": "quantitative", "title": title, "axis": axis}
    return {**plain, "scale": {"type": "log" if is_log else "linear", "nice": True}}


def _whiskers(
    points: Sequence[Mapping[str, Any]], axis: str, *, is_log: bool = False
) -> list[dict[str, Any]]:
    """Error bars along an axis, wherever there is an interval.

    On a logarithmic axis an interval that reaches 0 begins at the least of what is shown: one end
    that has no place there would take the place of all others.
    """
    if not any(point.get("low") is not None for point in points):
        return []
    low: dict[str, Any] = {"field": "low", "type": "quantitative"}
    change: list[dict[str, Any]] = [{"filter": "isValid(datum.low)"}]
    if is_log:
        ends = [point[name] for point in points for name in ("value", "low")]
        least = min((end for end in ends if end is not None and end > 0), default=None)
        if least is None:
            return []
        change.append({"calculate": f"datum.low > 0 ? datum.low : {least!r}", "as": "from"})
        low["field"] = "from"
    return [
        {
            "transform": change,
            "mark": {"type": "rule", "strokeWidth": 1.5},
            "encoding": {axis: low, f"{axis}2": {"field": "high"}, "color": {"value": _GREY}},
        }
    ]


def _is_log(points: Sequence[Mapping[str, Any]], name: str, least: int) -> bool:
    values = [float(point[name]) for point in points]
    return min(values) > 0 and max(values) >= least * min(values)


def _told(points: Sequence[Mapping[str, Any]], series: Sequence[str] = ()) -> dict[str, Any]:
    """Colours of the series, and what a pointer on a mark shows."""
    names = list(series) or list(dict.fromkeys(point["series"] for point in points))
    # As many columns as fit a page of 400 px; one series needs no legend.
    columns = max(1, min(4, _LEGEND_CHARACTERS // (max(map(len, names)) + 4)))
    legend = {"title": None, "orient": "bottom", "columns": columns} if names[1:] else None
    colours = list(itertools.islice(itertools.cycle(PALETTE), len(names)))
    scale = {"domain": names, "range": colours}
    tips = [{"field": name, "type": "nominal"} for name in ("series", "x")]
    tips += [
        {"field": name, "type": "quantitative", "format": ",.4~r"}
        for name in ("value", "low", "high")
    ]
    return {
        "color": {**_names("series", names), "scale": scale, "legend": legend},
        "tooltip": tips,
    }


def finished(
    layers: Sequence[Mapping[str, Any]],
    shared: Mapping[str, Any],
    points: Sequence[Mapping[str, Any]],
    spec: FigureSpec,
) -> dict[str, Any]:
    """The specification; without the address of its schema nothing in it looks like a load."""
    lines = {"gridColor": "#8883", "domainColor": "#8886", "tickColor": "#8886"}
    config = {
        "axis": {"labelColor": _GREY, "titleColor": _GREY, **lines},
        "legend": {"labelColor": _GREY},
        "view": {"stroke": None},
    }
    return {
        "description": spec.title,
        "width": "container",
        "height": _HEIGHT_PX,
        "background": "transparent",
        "autosize": {"type": "fit-x", "contains": "padding"},
        "data": {"values": list(points)},
        "encoding": shared,
        "layer": list(layers),
        "config": config,
    }
