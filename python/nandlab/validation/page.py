"""Writes docs/validation.md."""

from statistics import fmean

from nandlab.validation import named_devices, prose, published_times, recorded
from nandlab.validation.comparison import Comparison, Figure
from nandlab.validation.explanations import DEPARTURES
from nandlab.validation.orders import Order
from nandlab.validation.workloads import IMPLEMENTATIONS


def render(comparison: Comparison) -> str:
    """The whole page."""
    figures = comparison.figures
    left_out = f"Stopped before its end: {comparison.unfinished} workloads are left out.\n"
    parts = [prose("head"), *([left_out] if comparison.unfinished else []), _summary(figures)]
    for implementation in IMPLEMENTATIONS:
        own = [figure for figure in figures if figure.workload.implementation == implementation]
        if not own:
            continue
        seeds = f", {implementation.seeds} seeds" if implementation.seeds > 1 else ""
        parts.append(f"## {implementation.title}: profile `{implementation.profile}`{seeds}\n")
        parts += [_table(name, own) for name in dict.fromkeys(one.workload.name for one in own)]
        parts.append(prose(implementation.name))
    parts += [
        _orders(comparison.orders),
        prose("nilfs2-bios"),
        recorded.sections(),
        named_devices.section(),
        published_times.section(),
    ]
    return "\n".join(parts)


def _summary(figures: list[Figure]) -> str:
    lines = [
        "| implementation | figures | equal | as near as asked | further away, explained | not |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for implementation in IMPLEMENTATIONS:
        own = [figure for figure in figures if figure.workload.implementation == implementation]
        equal = sum(figure.difference == 0 for figure in own)
        held = sum(figure.holds for figure in own)
        explained = sum(not figure.holds and figure.explanation is not None for figure in own)
        cells = [implementation.title, len(own), equal, held, explained]
        cells.append(len(own) - held - explained)
        lines.append(f"| {' | '.join(str(cell) for cell in cells)} |")
    return "\n".join([*lines, ""])


def _table(workload: str, figures: list[Figure]) -> str:
    lines = [
        f"### {workload}\n",
        "| phase | operation | recorded | here | difference | asked | |",
        "|---|---|---:|---:|---:|---|---|",
    ]
    for figure in figures:
        if figure.workload.name != workload or not any((*figure.recorded, *figure.shown)):
            continue
        verdict = "ok" if figure.holds else "explained" if figure.explanation else "**differs**"
        cells = [figure.phase, figure.kind, _recorded(figure), _number(fmean(figure.shown))]
        cells += [_difference(figure), str(figure.asked), verdict]
        lines.append(f"| {' | '.join(cells)} |")
    reasons: dict[str, list[str]] = {}
    for figure in figures:
        if figure.workload.name == workload and not figure.holds and figure.explanation:
            reasons.setdefault(figure.explanation, []).append(f"{figure.phase} {figure.kind}")
    lines += [f"\n*{', '.join(places)}*: {reason}." for reason, places in reasons.items()]
    return "\n".join([*lines, ""])


def _orders(orders: list[Order]) -> str:
    lines = [
        prose("orders"),
        "| workload | operations | in step | phases | same | reordered | first departs in "
        "| recorded | here |",
        "|---|---:|---:|---:|---:|---:|---|---|---|",
    ]
    for order in orders:
        same = sum(phase.is_same for phase in order.phases)
        reordered = sum(phase.has_same_operations for phase in order.phases) - same
        cells = [order.workload.name, f"{order.length:,}", f"{order.in_step:,}"]
        cells += [str(len(order.phases)), str(same), str(reordered)]
        if departure := order.departure:
            cells.append(f"{departure.phase}, operation {departure.number:,}")
            cells += [
                f"`{line}`" if line else "none" for line in (departure.recorded, departure.shown)
            ]
        else:
            cells += ["nowhere", "", ""]
        lines.append(f"| {' | '.join(cells)} |")
    reasons: dict[str, list[str]] = {}
    for order in orders:
        if order.departure and order.workload.name in DEPARTURES:
            _, reason = DEPARTURES[order.workload.name]
            reasons.setdefault(reason, []).append(order.workload.name)
    lines += [f"\n*{', '.join(names)}*: {reason}." for reason, names in reasons.items()]
    return "\n".join([*lines, ""])


def _recorded(figure: Figure) -> str:
    text = _number(fmean(figure.recorded))
    least, most = min(figure.recorded), max(figure.recorded)
    return text if least == most else f"{text} [{_number(least)}..{_number(most)}]"


def _difference(figure: Figure) -> str:
    difference = figure.difference
    wanted = fmean(figure.recorded)
    if difference == 0:
        return "0"
    share = f" ({difference / wanted:+.1%})" if wanted else ""
    return f"{_number(difference, sign='+')}{share}"


def _number(value: float, sign: str = "") -> str:
    return f"{value:{sign},.0f}" if value == round(value) else f"{value:{sign},.1f}"
