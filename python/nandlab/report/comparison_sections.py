"""The report's sections on candidates side by side."""

from collections.abc import Mapping, Sequence
from typing import Any

from nandlab.comparison.table import BEST, table_cells
from nandlab.comparison.view import View
from nandlab.report import charts, generic_sections
from nandlab.report.parts import DataTable, Figure, Section, numeric
from nandlab.results import StudyResult
from nandlab.verdicts.comparison import is_comparison
from nandlab.verdicts.model import Verdict

_CHARTS = (
    ("throughput_kib_per_s", "Throughput", 1.0, "KiB/s"),
    ("call_p99_ns", "99 % of calls within", 1e6, "ms"),
    ("mount_after_cut_ns", "Mount after a power cut", 1e6, "ms"),
    ("waf", "Write amplification", 1.0, "ratio"),
)


def sections(
    result: StudyResult, verdict: Verdict, layers: Sequence[Mapping[str, Any]]
) -> list[Section]:
    """The table that the terminal shows, what a power cut leaves, and bars."""
    if not is_comparison(result):
        return generic_sections.sections(result)
    view = View(result)
    labels = [candidate.label for candidate in view.candidates]
    table = DataTable(
        f"{BEST} best of its row, or within 2 % of it; {view.conditions}",
        ("", *labels),
        table_cells(view),
        numeric(1, len(labels)),
    )
    figures = [
        _figure(view, key, title, scale, unit)
        for key, title, scale, unit in _CHARTS
        if any(key in candidate.values for candidate in view.candidates)
    ]
    found = [Section("side-by-side", "Side by side", tables=(table,), figures=figures)]
    safe = [f"{one.label}: {one.safe}." for one in view.candidates if one.safe]
    if safe:
        found.append(Section("power-cut", "What is safe from a power cut", items=safe))
    return found


def _figure(view: View, key: str, title: str, scale: float, unit: str) -> Figure:
    points = [
        {"candidate": one.label, "series": title, "value": one.values[key] / scale}
        for one in view.candidates
        if key in one.values
    ]
    return Figure(
        key.replace("_", "-"),
        title,
        "Mean over the repeats.",
        charts.grouped_bars(
            points,
            x="candidate",
            y="value",
            series="series",
            order=[one.label for one in view.candidates],
            y_title=f"{title} ({unit})",
            about=f"Bars of {title} by candidate",
        ),
        is_main=key == "throughput_kib_per_s",
    )
