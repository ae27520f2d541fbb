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

_HEIGHT_PX = 260
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
    import altair

    names = list(dict.fromkeys(point["series"] for point in points))
    order = list(dict.fromkeys(str(point["x"]) for point in points))
    is_log = _is_log([point["value"] for point in points], _LOG_Y)
    log_x = is_log if spec.log_x is None else spec.log_x
    base = altair.Chart(_data(points)).encode(
        y=altair.Y("x:N", sort=order, title=spec.x_title or None, axis=altair.Axis(grid=True))
    )
    x = altair.X(
        "value:Q",
        title=title,
        scale=altair.Scale(type="log" if log_x else "linear", nice=True),
        axis=altair.Axis(format=",~r", tickCount=5),
    )
    dots = base.mark_point(filled=True, size=50, opacity=0.85).encode(
        x=x, color=_colour(names), tooltip=_tips()
    )
    layers = [dots]
    if any(point.get("low") is not None for point in points):
        known = base.transform_filter("isValid(datum.low)").mark_rule(strokeWidth=1.5)
        grey = altair.value("#7d8590")
        layers.append(known.encode(x=altair.X("low:Q"), x2="high:Q", color=grey))
    return _finished(layers, spec)


def _bars(points: list[dict[str, Any]], spec: FigureSpec, title: str) -> dict[str, Any]:
    import altair

    order = list(dict.fromkeys(str(point["x"]) for point in points))
    # Two figures of the same parts have the same colours, whichever parts are 0.
    names = list(spec.parts or dict.fromkeys(point["series"] for point in points))
    base = altair.Chart(_data(points)).encode(
        x=altair.X(
            "x:N",
            sort=order,
            title=spec.x_title or None,
            axis=altair.Axis(labelAngle=0 if len(order) < 7 else -35),
        ),
    )
    if not spec.parts:
        base = base.encode(xOffset=altair.XOffset("series:N", sort=names))
    bars = base.mark_bar().encode(
        y=altair.Y(
            "value:Q",
            title=title,
            stack="zero" if spec.parts else altair.Undefined,
            axis=altair.Axis(format=",~r", tickCount=5),
        ),
        color=_colour(names),
        tooltip=_tips(),
    )
    return _finished([bars, *_whiskers(base, points)], spec)


def _lines(points: list[dict[str, Any]], spec: FigureSpec, title: str) -> dict[str, Any]:
    import altair

    names = list(dict.fromkeys(point["series"] for point in points))
    is_log = [
        _is_log([point[name] for point in points], least)
        for name, least in (("x", _LOG_X), ("value", _LOG_Y))
    ]
    if spec.kind == "curve" and not spec.table:
        is_log = [False, False]
    log_x = is_log[0] if spec.log_x is None else spec.log_x
    log_y = is_log[1] if spec.log_y is None else spec.log_y
    x_scale = altair.Scale(type="log" if log_x else "linear", nice=not log_x)
    y_scale = altair.Scale(type="log" if log_y else "linear", nice=True)
    base = altair.Chart(_data(points)).encode(
        x=altair.X(
            "x:Q",
            title=spec.x_title or spec.x.replace("_", " "),
            scale=x_scale,
            axis=altair.Axis(**_ticks(points, spec)),
        ),
        color=_colour(names),
    )
    y = altair.Y("value:Q", title=title, scale=y_scale, axis=altair.Axis(format=",~r", tickCount=5))
    dashes = altair.StrokeDash("series:N", sort=names, legend=None)
    if spec.kind == "points":
        points_mark = base.mark_point(filled=True, size=12, opacity=0.5)
        return _finished([points_mark.encode(y=y, tooltip=_tips())], spec)
    layers = [base.mark_line(strokeWidth=2).encode(y=y, strokeDash=dashes, tooltip=_tips())]
    if spec.kind != "curve":
        layers.append(base.mark_point(filled=True, size=40).encode(y=y, tooltip=_tips()))
    return _finished([*layers, *_whiskers(base, points)], spec)


def _ticks(points: Sequence[Mapping[str, Any]], spec: FigureSpec) -> dict[str, Any]:
    """Few places of an axis are its ticks; they need all their digits."""
    places = sorted({point["x"] for point in points})
    if spec.kind != "curve" and len(places) <= _TICKS_MAX:
        return {"values": places, "format": ",.9~r"}
    return {"format": ",~r", "tickCount": 6}


def _data(points: Sequence[Mapping[str, Any]]) -> Any:
    import altair

    return altair.InlineData(values=list(points))


def _whiskers(base: Any, points: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Error bars, wherever there is an interval."""
    import altair

    if not any(point.get("low") is not None for point in points):
        return []
    known = base.transform_filter("isValid(datum.low)")
    rule = known.mark_rule(strokeWidth=1.5, color="#7d8590")
    return [rule.encode(y=altair.Y("low:Q"), y2="high:Q", color=altair.value("#7d8590"))]


def _is_log(values: Sequence[float], least: int) -> bool:
    return min(values) > 0 and max(values) >= least * min(values)


def _tips() -> list[Any]:
    import altair

    names = [altair.Tooltip("series:N"), altair.Tooltip("x:N")]
    return names + [altair.Tooltip(f"{one}:Q", format=",.4~r") for one in ("value", "low", "high")]


def _colour(names: Sequence[str]) -> Any:
    import altair

    # As many columns as fit a page of 400 px; one series needs no legend.
    columns = max(1, min(4, _LEGEND_CHARACTERS // (max(map(len, names)) + 4)))
    legend = altair.Legend(title=None, orient="bottom", columns=columns) if names[1:] else None
    colours = list(itertools.islice(itertools.cycle(PALETTE), len(names)))
    return altair.Color(
        "series:N", sort=names, scale=altair.Scale(domain=names, range=colours), legend=legend
    )


def _finished(layers: Sequence[Any], spec: FigureSpec) -> dict[str, Any]:
    import altair

    drawn = altair.layer(*layers) if len(layers) > 1 else layers[0]
    finished = (
        drawn.properties(
            width="container", height=_HEIGHT_PX, background="transparent", description=spec.title
        )
        .configure_axis(
            labelColor="#7d8590",
            titleColor="#7d8590",
            gridColor="#8883",
            domainColor="#8886",
            tickColor="#8886",
        )
        .configure_legend(labelColor="#7d8590")
        .configure_view(stroke=None)
    )
    specification: dict[str, Any] = finished.to_dict(validate=False)
    # The page names its engine itself; without the address nothing in it looks like a load.
    specification.pop("$schema", None)
    specification["autosize"] = {"type": "fit-x", "contains": "padding"}
    return specification
