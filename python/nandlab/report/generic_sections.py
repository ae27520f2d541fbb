"""The sections of the report on a study without sections of its own."""

from nandlab.report import charts
from nandlab.report.parts import DataTable, Figure, Section, numeric
from nandlab.results import Measurements, StudyResult
from nandlab.verdicts.generic import HEADLINE_METRICS, headline_metric
from nandlab.verdicts.measured import pairs
from nandlab.verdicts.wording import number

_CHARTS_MAX = 6
_ROWS_MAX = 400


def sections(result: StudyResult) -> list[Section]:
    """A table of every combination and bars of what tells most."""
    rows = Measurements(result)
    varied = [axis for axis in result.axes if len(rows.axis_values(axis)) > 1]
    metrics = [metric for metric in HEADLINE_METRICS if rows.has(metric)]
    first = headline_metric(rows, str(result.study.get("question", "")))
    if first is not None and first not in metrics:
        metrics.insert(0, first)
    if not metrics:
        return []
    figures = []
    if varied:
        leading, *others = varied
        for metric in metrics[:_CHARTS_MAX]:
            second = others[0] if others else leading
            points = [
                {leading: value, "series": other if others else metric, "value": found}
                for value in rows.axis_values(leading)
                for other in (rows.axis_values(second) if others else [value])
                if (found := rows.mean(metric, **{leading: value, second: other})) is not None
            ]
            figures.append(
                Figure(
                    metric.replace("_", "-"),
                    metric.replace("_", " "),
                    f"Mean by {leading}" + (f" and {second}." if others else "."),
                    charts.grouped_bars(
                        points,
                        x=leading,
                        y="value",
                        series="series",
                        order=rows.axis_values(leading),
                        y_title=f"{metric} ({rows.units[metric]})",
                        about=f"Bars of {metric} by {leading}",
                    ),
                    is_main=metric == metrics[0],
                )
            )
    places = list(
        dict.fromkeys(tuple(row[axis] for axis in result.axes) for row in result.rows.dicts())
    )
    lines = [
        [
            *place,
            *(
                number(rows.mean(metric, **dict(zip(result.axes, place, strict=True))))
                for metric in metrics
            ),
        ]
        for place in places[:_ROWS_MAX]
    ]
    table = DataTable(
        "Mean over repeats" + (f", first {_ROWS_MAX}" if len(places) > _ROWS_MAX else ""),
        (*result.axes, *(f"{metric} ({rows.units[metric]})" for metric in metrics)),
        lines,
        frozenset(range(len(result.axes), len(result.axes) + len(metrics))),
    )
    return [*_measured(result), Section("results", "Results", tables=(table,), figures=figures)]


def _measured(result: StudyResult) -> list[Section]:
    """What the study's reference holds beside what was simulated."""
    lines = [
        [one.words, one.metric, number(one.measured), number(one.simulated), number(one.ratio)]
        for one in pairs(result)
    ]
    if not lines:
        return []
    table = DataTable(
        "Means over repeats",
        ("cell", "metric", "measured", "simulated", "simulated / measured"),
        lines,
        numeric(2, 3),
    )
    return [Section("measured", "Measured, and simulated", tables=(table,))]
