"""Chart shapes. Colours keep a contrast of 3 on white and on near-black."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

PALETTE = (
    "#3a7bd5",
    "#c9661a",
    "#2b8a4b",
    "#9b5de5",
    "#d1495b",
    "#14889a",
    "#94704a",
    "#7d8590",
)

POINTS_MAX = 5_000
"""Points of one chart; more is aggregated first."""

_HEIGHT_PX = 260
_LINE = "#8886"
_LEGEND_SHORT = 16
_NAMES_LEVEL = 5

Rows = Sequence[Mapping[str, Any]]


def grouped_bars(
    rows: Rows,
    *,
    x: str,
    y: str,
    series: str,
    order: Sequence[str],
    y_title: str,
    about: str,
    x_title: str | None = None,
) -> dict[str, Any]:
    """Bars of `y` side by side for each `series`, in groups of `x`."""
    import altair

    names = list(dict.fromkeys(row[series] for row in rows))
    chart = (
        _chart(rows)
        .mark_bar()
        .encode(
            x=altair.X(f"{x}:N", sort=list(order), title=x_title, axis=_names_axis(order)),
            xOffset=altair.XOffset(f"{series}:N", sort=names),
            y=altair.Y(f"{y}:Q", title=y_title, axis=altair.Axis(format="~s")),
            color=_colour(series, names),
            tooltip=[
                altair.Tooltip(f"{x}:N"),
                altair.Tooltip(f"{series}:N"),
                altair.Tooltip(f"{y}:Q", format=",.4~r"),
            ],
        )
    )
    return _finished(chart, about)


def stacked_bars(
    rows: Rows, *, x: str, y: str, series: str, order: Sequence[str], y_title: str, about: str
) -> dict[str, Any]:
    """Bars of `x`, each made of one piece for each `series`."""
    import altair

    names = list(dict.fromkeys(row[series] for row in rows))
    chart = (
        _chart(rows)
        .mark_bar()
        .encode(
            x=altair.X(f"{x}:N", sort=list(order), title=None, axis=_names_axis(order)),
            y=altair.Y(f"{y}:Q", title=y_title, axis=altair.Axis(format="~s")),
            color=_colour(series, names),
            tooltip=[
                altair.Tooltip(f"{x}:N"),
                altair.Tooltip(f"{series}:N"),
                altair.Tooltip(f"{y}:Q", format=",.4~r"),
            ],
        )
    )
    return _finished(chart, about)


def lines(
    rows: Rows,
    *,
    x: str,
    y: str,
    series: str,
    x_title: str,
    y_title: str,
    about: str,
    logarithmic_x: bool = False,
) -> dict[str, Any]:
    """A line of `y` over `x` for each `series`, told apart by colour and by dashes."""
    import altair

    names = list(dict.fromkeys(row[series] for row in rows))
    shown = _thinned(rows, x, series)
    chart = (
        _chart(shown)
        .mark_line(strokeWidth=2)
        .encode(
            x=altair.X(
                f"{x}:Q",
                title=x_title,
                axis=altair.Axis(format="~g" if logarithmic_x else "~s", tickCount=5),
                scale=altair.Scale(type="log" if logarithmic_x else "linear"),
            ),
            y=altair.Y(f"{y}:Q", title=y_title, axis=altair.Axis(format="~s")),
            color=_colour(series, names),
            strokeDash=altair.StrokeDash(f"{series}:N", sort=names, legend=None),
            tooltip=[
                altair.Tooltip(f"{series}:N"),
                altair.Tooltip(f"{x}:Q", format=","),
                altair.Tooltip(f"{y}:Q", format=","),
            ],
        )
    )
    return _finished(chart, about)


def ranges(
    rows: Rows,
    *,
    x: str,
    low: str,
    middle: str,
    high: str,
    spread: str,
    order: Sequence[str],
    title: str,
    about: str,
) -> dict[str, Any]:
    """Least to most as a thin line, mean and standard deviation as a thick one with a point."""
    import altair

    shown = [
        {
            **row,
            "below": max(row[middle] - row[spread], row[low]),
            "above": min(row[middle] + row[spread], row[high]),
        }
        for row in rows
    ]
    base = _chart(shown).encode(y=altair.Y(f"{x}:N", sort=list(order), title=None))
    tips = [altair.Tooltip(f"{x}:N")] + [
        altair.Tooltip(f"{name}:Q", format=",.4~r") for name in (low, middle, spread, high)
    ]
    whole = base.mark_rule(strokeWidth=1.5, color=PALETTE[7]).encode(
        x=altair.X(f"{low}:Q", title=title), x2=f"{high}:Q", tooltip=tips
    )
    inner = base.mark_rule(strokeWidth=7, color=PALETTE[0]).encode(
        x=altair.X("below:Q"), x2="above:Q", tooltip=tips
    )
    point = base.mark_point(filled=True, size=70, color=PALETTE[1]).encode(
        x=altair.X(f"{middle}:Q"), tooltip=tips
    )
    return _finished(altair.layer(whole, inner, point), about)


def dots(
    rows: Rows, *, x: str, y: str, series: str, order: Sequence[str], x_title: str, about: str
) -> dict[str, Any]:
    """A point at `x`, on a logarithmic scale, for each `series` in the line of each `y`."""
    import altair

    names = list(dict.fromkeys(row[series] for row in rows))
    chart = (
        _chart(rows)
        .mark_point(filled=True, size=70)
        .encode(
            x=altair.X(
                f"{x}:Q",
                title=x_title,
                scale=altair.Scale(type="log"),
                axis=altair.Axis(
                    format="~g",
                    values=_decades(min(row[x] for row in rows), max(row[x] for row in rows)),
                ),
            ),
            y=altair.Y(f"{y}:N", sort=list(order), title=None, axis=altair.Axis(grid=True)),
            color=_colour(series, names),
            shape=altair.Shape(f"{series}:N", sort=names, legend=None),
            tooltip=[
                altair.Tooltip(f"{y}:N"),
                altair.Tooltip(f"{series}:N"),
                altair.Tooltip(f"{x}:Q", format=",.4~r"),
            ],
        )
    )
    return _finished(chart, about)


def points_above_intervals(
    rows: Rows,
    intervals: Rows,
    *,
    x: str,
    y: str,
    x_title: str,
    y_title: str,
    about: str,
) -> dict[str, Any]:
    """Points over time on a logarithmic scale, and below them bars from `from` to `to`.

    `intervals` name their line in `die` and their colour in `kind`. Both parts share the axis of
    time; the lower one takes the lowest fifth of the picture.
    """
    import altair

    kinds = list(dict.fromkeys(row["kind"] for row in intervals))
    lines = sorted({row["die"] for row in intervals})
    tenths = [
        {**row, "low": 20 * lines.index(row["die"]) / len(lines)}
        | {"high": 20 * (lines.index(row["die"]) + 0.8) / len(lines)}
        for row in intervals
    ]
    top = max(row[y] for row in rows)
    least = min(row[y] for row in rows)
    # A logarithmic axis whose lowest fifth is left to the intervals.
    floor = least * (least / (top * 1.2)) ** (0.22 / 0.78)
    time = altair.Scale(domain=[0, max(row[x] for row in rows)], clamp=True, nice=False)
    points = (
        _chart(rows)
        .mark_point(filled=True, size=14, opacity=0.6, color=PALETTE[0])
        .encode(
            x=altair.X(f"{x}:Q", title=x_title, scale=time, axis=altair.Axis(tickCount=5)),
            y=altair.Y(
                f"{y}:Q",
                title=y_title,
                scale=altair.Scale(type="log", domain=[floor, top * 1.2]),
                axis=altair.Axis(format="~g", values=_decades(least, top)),
            ),
            tooltip=[
                altair.Tooltip(f"{x}:Q", format=".3f"),
                altair.Tooltip(f"{y}:Q", format=",.4~r"),
            ],
        )
    )
    bars = (
        _chart(tenths)
        .mark_rect()
        .encode(
            x=altair.X("from:Q", scale=time, title=x_title),
            x2="to:Q",
            y=altair.Y("low:Q", scale=altair.Scale(domain=[0, 100]), axis=None),
            y2="high:Q",
            color=_colour("kind", kinds, first=1),
            tooltip=[altair.Tooltip(f"{name}:N") for name in ("die", "kind")]
            + [altair.Tooltip(f"{name}:Q", format=".3f") for name in ("from", "to")],
        )
    )
    return _finished(altair.layer(bars, points).resolve_scale(y="independent"), about)


def _decades(low: float, high: float) -> list[float]:
    """Powers of ten from below `low` to above `high`."""
    return [
        10.0**power for power in range(math.floor(math.log10(low)), 1 + math.ceil(math.log10(high)))
    ]


def _chart(rows: Rows) -> Any:
    import altair

    assert len(rows) <= POINTS_MAX, "aggregate before plotting"
    data: Any = {"values": [dict(row) for row in rows]}
    return altair.Chart(data)


def _names_axis(order: Sequence[str]) -> Any:
    """Names side by side while there is room on a telephone, aslant when they are many."""
    import altair

    return altair.Axis(labelAngle=-40 if len(order) > _NAMES_LEVEL else 0)


def _colour(series: str, names: Sequence[str], first: int = 0) -> Any:
    import altair

    columns = 1 if any(len(name) > _LEGEND_SHORT for name in names) else 3
    colours = [PALETTE[(first + index) % len(PALETTE)] for index in range(len(names))]
    return altair.Color(
        f"{series}:N",
        sort=list(names),
        title=None,
        scale=altair.Scale(domain=list(names), range=colours),
        legend=altair.Legend(orient="top", columns=columns, labelLimit=320, symbolType="square"),
    )


def _thinned(rows: Rows, x: str, series: str) -> Rows:
    """Every n-th point of each series, the last one kept."""
    step = -(-len(rows) // (POINTS_MAX // 2))
    if step <= 1:
        return rows
    by_series: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        by_series.setdefault(row[series], []).append(row)
    return [
        row
        for points in by_series.values()
        for index, row in enumerate(sorted(points, key=lambda point: point[x]))
        if index % step == 0 or index == len(points) - 1
    ]


def _finished(chart: Any, about: str) -> dict[str, Any]:
    specification: dict[str, Any] = (
        chart.properties(width="container", height=_HEIGHT_PX, background="transparent")
        .configure_view(stroke=None)
        .configure_axis(
            gridColor=_LINE, domainColor=_LINE, tickColor=_LINE, labelFontSize=12, titleFontSize=12
        )
        .configure_legend(labelFontSize=12)
        .to_dict(validate=False)
    )
    # The page names its engine itself; without the address nothing in it looks like a load.
    specification.pop("$schema", None)
    specification["description"] = about
    specification["autosize"] = {"type": "fit-x", "contains": "padding"}
    return specification
