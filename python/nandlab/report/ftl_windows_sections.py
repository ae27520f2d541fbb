"""The sections of the report on ftl-windows."""

from collections.abc import Mapping, Sequence
from typing import Any

from nandlab.byte_sizes import format_bytes
from nandlab.report import charts
from nandlab.report.parts import DataTable, Figure, Section
from nandlab.results import Measurements, StudyResult
from nandlab.verdicts.model import Distance, Verdict
from nandlab.verdicts.published_claims import size_rating, size_sensitivity
from nandlab.verdicts.published_distances import nearest
from nandlab.verdicts.published_view import COLUMNS, PUBLISHED_FTLS, READINGS, View, variants
from nandlab.verdicts.wording import ftl_name, large_size, number

COLUMN_TITLES = {
    "time_units": "Time (reads)",
    "reads": "Reads",
    "writes": "Writes",
    "erases": "Erases",
}
PUBLISHED = "published"


def sections(
    result: StudyResult, verdict: Verdict, layers: Sequence[Mapping[str, Any]]
) -> list[Section]:
    """All sections that these results can fill; `layers` is the listing of translation layers."""
    rows = Measurements(result)
    found = [
        _published(rows, verdict),
        _claims(verdict),
        _curves(result, rows, verdict),
        _inside(rows, verdict),
        _settings(rows),
        _counting(rows),
        _sizes(rows),
        _features(layers, rows),
        Section("unexplained", "What could not be explained", items=verdict.unexplained),
    ]
    return [
        section
        for section in found
        if section.figures or section.tables or section.items or section.identifier == "claims"
    ]


def _order(rows: Measurements) -> list[str]:
    present = rows.axis_values("ftl")
    return [ftl for ftl in PUBLISHED_FTLS if ftl in present] + [
        ftl for ftl in present if ftl not in PUBLISHED_FTLS
    ]


def _names(ftls: Sequence[str]) -> list[str]:
    return [ftl_name(ftl) for ftl in ftls]


def _published(rows: Measurements, verdict: Verdict) -> Section:
    best = nearest(verdict.nearness)
    reading = best.reading if best is not None else next(iter(READINGS))
    figures = [
        Figure(
            f"published-{column.replace('_', '-')}",
            f"{title} per {reading}",
            "Mean of each layer, published and simulated.",
            charts.grouped_bars(
                _beside(verdict.distances, reading, column),
                x="layer",
                y="value",
                series="source",
                order=_names(PUBLISHED_FTLS),
                y_title=title,
                about=f"Bars of {title.lower()} by layer, published and simulated",
            ),
            is_main=column == "time_units",
        )
        for column, title in COLUMN_TITLES.items()
        if verdict.distances
    ]
    tables = [
        _distance_table(verdict.distances, label, window)
        for label in verdict.variants
        for window in READINGS
        if any(cell.variant == label and cell.reading == window for cell in verdict.distances)
    ]
    tables.sort(
        key=lambda table: best is None or table.title != f"Per {best.reading}: {best.variant}"
    )
    near = [
        (
            one.variant,
            one.reading,
            one.workload,
            f"{one.means_factor:.2f}",
            f"{one.spreads_factor:.2f}" if one.spreads_factor else "-",
            f"{one.scale:.2f}",
            f"{one.shape_factor:.2f}",
        )
        for one in sorted(verdict.nearness, key=lambda one: one.means_factor)
    ]
    nearness = DataTable(
        "How near each way of setting, counting and reading comes",
        (
            "variant",
            "windows of",
            "workload",
            "means off by ×",
            "spreads off by ×",
            "best scale",
            "means off by ×, scaled",
        ),
        near,
        frozenset({3, 4, 5, 6}),
    )
    return Section(
        "published",
        "Published and simulated",
        paragraphs=(
            "The ratio is simulated over published: 1 is equal. Distances are means of |ln ratio|, "
            "written as a factor. “all” pools every workload, “all mp3” those with "
            "large files; the single workload listed is the nearest one of its variant. "
            "“Best scale” is the one factor on all simulated means that suits them best: it "
            "allows for windows that hold another amount of data.",
        ),
        tables=(tables[:1] + ([nearness] if near else []) + tables[1:]) if tables else (),
        figures=figures,
        template="published.html.j2",
    )


def _beside(cells: Sequence[Distance], reading: str, column: str) -> list[dict[str, Any]]:
    shown = [
        cell
        for cell in cells
        if cell.reading == reading and cell.column == column and cell.statistic == "mean"
    ]
    published = {cell.ftl: cell.published for cell in shown}
    found = [
        {"layer": ftl_name(ftl), "source": PUBLISHED, "value": value}
        for ftl, value in published.items()
    ]
    return found + [
        {"layer": ftl_name(cell.ftl), "source": cell.variant, "value": cell.simulated}
        for cell in shown
    ]


def _distance_table(cells: Sequence[Distance], variant: str, reading: str) -> DataTable:
    at = {
        (cell.ftl, cell.statistic, cell.column): cell
        for cell in cells
        if cell.variant == variant and cell.reading == reading
    }
    lines = []
    for ftl in PUBLISHED_FTLS:
        for statistic in ("mean", "stddev"):
            line = [ftl_name(ftl), "mean" if statistic == "mean" else "st. dev."]
            for column in COLUMN_TITLES:
                cell = at.get((ftl, statistic, column))
                line += (
                    [number(cell.published), number(cell.simulated), f"{cell.ratio:.2f}"]
                    if cell is not None
                    else ["-", "-", "-"]
                )
            lines.append(line)
    heads = [
        head
        for title in COLUMN_TITLES.values()
        for head in (f"{title} published", "simulated", "ratio")
    ]
    return DataTable(
        f"Per {reading}: {variant}",
        ("layer", "statistic", *heads),
        lines,
        frozenset(range(2, 2 + len(heads))),
    )


def _claims(verdict: Verdict) -> Section:
    return Section(
        "claims",
        "Claims of the publication",
        paragraphs=(
            "Each claim under each way of setting the layers and counting their work, over all "
            "workloads, in windows of 100 device requests. The small numbers say in how many of "
            "the single workloads it holds.",
        ),
        template="claims.html.j2",
    )


def _curves(result: StudyResult, rows: Measurements, verdict: Verdict) -> Section:
    settings = verdict.main_settings
    curves = result.curves.dicts()
    processes = rows.axis_values("processes")[:1]
    order = _order(rows)
    names = _names(order)
    figures = []
    for column, title in (("weighted_time", "time (reads)"), ("erases", "erases")):
        for file_system in rows.axis_values("file_system"):
            for file_set in rows.axis_values("file_set"):
                place = {"file_system": file_system, "file_set": file_set, "settings": settings}
                points = [
                    {"layer": ftl_name(row["ftl"]), "requests": row["io"], "value": row[column]}
                    for row in curves
                    if all(row.get(axis) == value for axis, value in place.items())
                    and (not processes or row.get("processes") == processes[0])
                    and row["ftl"] in order
                ]
                if points:
                    where = f"{file_system.upper()}, {file_set.upper()}"
                    figures.append(
                        Figure(
                            f"curve-{column.replace('_', '-')}-{file_system}-{file_set}",
                            f"Cumulative {title}: {where}",
                            f"{settings} settings, honestly counted, one process.",
                            charts.lines(
                                sorted(points, key=lambda row: names.index(row["layer"])),
                                x="requests",
                                y="value",
                                series="layer",
                                x_title="device requests",
                                y_title=title,
                                about=f"Lines of cumulative {title} over requests, {where}",
                            ),
                            is_main=file_system == "fat" and column == "weighted_time",
                        )
                    )
    return Section("curves", "How the work adds up", figures=figures)


def _inside(rows: Measurements, verdict: Verdict) -> Section:
    settings = verdict.main_settings
    order = _order(rows)
    kinds = (("merges_switch", "switch"), ("merges_partial", "partial"), ("merges_full", "full"))
    merges = []
    wear = []
    memory = []
    numbers = []
    for ftl in order:
        at = {"ftl": ftl, "settings": settings}
        host_pages = rows.total("host_write_pages", **at)
        for metric, kind in kinds:
            total = rows.total(metric, **at)
            if total is not None and host_pages:
                merges.append(
                    {"layer": ftl_name(ftl), "kind": kind, "merges": 1000 * total / host_pages}
                )
        counts = {
            name: rows.mean(f"erase_count_{name}", **at)
            for name in ("min", "mean", "max", "stddev")
        }
        if all(value is not None for value in counts.values()):
            wear.append({"layer": ftl_name(ftl), **counts})
        ram_bytes = rows.mean("ram_bytes", **at)
        if ram_bytes is not None:
            memory.append({"layer": ftl_name(ftl), "bytes": ram_bytes})
        lifetime_bytes = rows.mean("lifetime_host_bytes", **at)
        numbers.append(
            [
                ftl_name(ftl),
                number(rows.mean("waf", **at)),
                *(number(rows.mean(metric, **at)) for metric, _ in kinds),
                number(rows.mean("pages_copied", **at)),
                *(number(counts[name]) for name in ("min", "mean", "max", "stddev")),
                format_bytes(ram_bytes) if ram_bytes is not None else "-",
                large_size(lifetime_bytes) if lifetime_bytes is not None else "-",
            ]
        )
    names = _names(order)
    figures = []
    if merges:
        figures.append(
            Figure(
                "merges",
                "Merges by kind",
                "For each 1,000 pages the host wrote, all workloads. A switch renames a full "
                "block, a partial merge completes it first, a full merge copies a whole block.",
                charts.stacked_bars(
                    merges,
                    x="layer",
                    y="merges",
                    series="kind",
                    order=names,
                    y_title="merges per 1,000 pages",
                    about="Stacked bars of merges by kind for each layer",
                ),
                is_main=True,
            )
        )
    if wear:
        figures.append(
            Figure(
                "erase-counts",
                "Erases of a block",
                "Least to most (thin), mean and one standard deviation (thick), mean of all runs.",
                charts.ranges(
                    wear,
                    x="layer",
                    low="min",
                    middle="mean",
                    high="max",
                    spread="stddev",
                    order=names,
                    title="erases of a block",
                    about="Range, mean and deviation of erase counts for each layer",
                ),
            )
        )
    if memory:
        figures.append(
            Figure(
                "ram",
                "Memory for the tables",
                "Bytes of RAM the algorithm needs.",
                charts.plain_bars(
                    memory,
                    x="layer",
                    y="bytes",
                    order=names,
                    y_title="bytes of RAM",
                    about="Bars of RAM bytes for each layer",
                ),
            )
        )
    table = DataTable(
        f"Inside the layers, mean of all runs, {settings} settings",
        (
            "layer",
            "WAF (programs / host pages)",
            "switch merges",
            "partial merges",
            "full merges",
            "pages copied",
            "erases of a block: least",
            "mean",
            "most",
            "st. dev.",
            "RAM",
            "host bytes until worn out",
        ),
        numbers,
        frozenset(range(1, 12)),
    )
    return Section(
        "inside", "Merges, wear and memory", tables=(table,) if numbers else (), figures=figures
    )


def _settings(rows: Measurements) -> Section:
    return _grouped(
        "settings",
        "Default and published-fit settings",
        "default-published-fit",
        "published-fit sets the layers as the published numbers suggest; default sets each layer "
        "as its own description does. Honestly counted.",
        [
            {"layer": ftl_name(ftl), "series": variant.settings, "value": value}
            for variant in variants(rows)
            if variant.charging == "honest"
            for ftl in _order(rows)
            if (value := View(rows, variant).window("time_units", "mean", ftl)) is not None
        ],
        rows,
        "time per 100 requests",
    )


def _counting(rows: Measurements) -> Section:
    last = [variant.settings for variant in variants(rows)][-1:]
    return _grouped(
        "counting",
        "Honest and double charging",
        "honest-double",
        "The published rows of Lexar, BAST and FAST fit only if each host page write is charged "
        f"2 reads and 1 write more than the chip does. Settings: {''.join(last)}.",
        [
            {"layer": ftl_name(ftl), "series": variant.charging, "value": value}
            for variant in variants(rows)
            if variant.settings in last
            for ftl in _order(rows)
            if (value := View(rows, variant).window("time_units", "mean", ftl)) is not None
        ],
        rows,
        "time per 100 requests",
    )


def _sizes(rows: Measurements) -> Section:
    honest = [variant for variant in variants(rows) if variant.charging == "honest"]
    found = []
    lines = []
    for ftl in _order(rows):
        line = [ftl_name(ftl)]
        for variant in honest:
            ratio = size_sensitivity(View(rows, variant), ftl)
            if ratio is not None:
                found.append({"layer": ftl_name(ftl), "series": variant.settings, "value": ratio})
            line += [f"{ratio:.2f}", str(size_rating(ratio))] if ratio is not None else ["-", "-"]
        lines.append(line)
    section = _grouped(
        "sizes",
        "Sensitivity to file size",
        "file-size",
        "Time for each page written with small files (JPG) over that with large files (MP3), "
        "honestly counted, and its rating: 1 is flat (below 1.1), 3 strong (from 1.5).",
        found,
        rows,
        "JPG over MP3",
    )
    if not found:
        return section
    heads = [head for variant in honest for head in (f"{variant.settings}", "rating")]
    table = DataTable(
        "JPG over MP3, time for each page written",
        ("layer", *heads),
        lines,
        frozenset(range(1, 1 + len(heads))),
    )
    return Section(
        section.identifier,
        section.title,
        section.paragraphs,
        tables=(table,),
        figures=section.figures,
    )


def _grouped(
    identifier: str,
    title: str,
    figure: str,
    about: str,
    points: Sequence[Mapping[str, Any]],
    rows: Measurements,
    y_title: str,
) -> Section:
    if len({point["series"] for point in points}) < 1:
        return Section(identifier, title)
    chart = charts.grouped_bars(
        points,
        x="layer",
        y="value",
        series="series",
        order=_names(_order(rows)),
        y_title=y_title,
        about=f"Bars for each layer: {title.lower()}",
    )
    return Section(
        identifier,
        title,
        paragraphs=(about,),
        figures=(Figure(figure, title, "Mean over all workloads.", chart),),
    )


def _features(layers: Sequence[Mapping[str, Any]], rows: Measurements) -> Section:
    order = _order(rows)
    by_name = {str(layer["name"]): layer for layer in layers}
    lines = [
        [
            ftl_name(name),
            *(str(by_name[name].get("features", {}).get(feature, "")) for feature in _FEATURES),
            str(by_name[name].get("source", "")),
        ]
        for name in order
        if name in by_name
    ]
    table = DataTable("", ("layer", *_FEATURES.values(), "source"), lines)
    return Section("features", "How the layers work", tables=(table,) if lines else ())


_FEATURES = {
    "mapping": "maps",
    "first_write": "first write goes to",
    "overwrite": "overwrite goes to",
    "block_kinds": "kinds of block",
}

assert set(COLUMN_TITLES) == set(COLUMNS)
