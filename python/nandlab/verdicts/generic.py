"""The verdict of studies that have none of their own: what each axis changes."""

from nandlab.results import Measurements, StudyResult
from nandlab.verdicts import measured
from nandlab.verdicts.model import Verdict
from nandlab.verdicts.wording import number, times

HEADLINE_METRICS = (
    *("weighted_time_mean", "weighted_time", "waf", "erases", "busy_ns"),
    *("read_latency_mean_ns", "read_latency_max_ns"),
    *("write_latency_mean_ns", "write_latency_max_ns"),
    "elapsed_ns",
)
"""Metrics that tell most, best first; less is better in all of them."""


def judge(result: StudyResult) -> Verdict:
    """Names the best value of each axis by the metric that tells most."""
    rows = Measurements(result)
    metric = headline_metric(rows)
    varied = [axis for axis in result.axes if len(rows.axis_values(axis)) > 1]
    if metric is None:
        return Verdict(result.name, "No verdict: nothing was measured.", ())
    against = measured.sentence(result)
    if not varied:
        value = rows.mean(metric)
        headline = f"{metric} is {number(value)} {rows.units[metric]}."
        return Verdict(result.name, against or headline, (headline,) if against else ())
    sentences = []
    for axis in varied:
        means = {value: rows.mean(metric, **{axis: value}) for value in rows.axis_values(axis)}
        known = {value: at for value, at in means.items() if at is not None}
        if len(known) < 2:
            continue
        best, worst = (
            min(known, key=lambda value: known[value]),
            max(known, key=lambda value: known[value]),
        )
        ratio = known[worst] / known[best] if known[best] else None
        sentences.append(
            f"{axis}: {best} has the least {metric} ({number(known[best])}), {worst} the most "
            f"({number(known[worst])}"
            + (f", {times(ratio)} as much)." if ratio is not None else ").")
        )
    headline = sentences[0] if sentences else f"{metric} was measured."
    if against:
        return Verdict(result.name, against, tuple(sentences))
    return Verdict(result.name, headline, tuple(sentences[1:]))


def headline_metric(rows: Measurements) -> str | None:
    """The metric to show first."""
    metrics = rows.metrics()
    chosen = [metric for metric in HEADLINE_METRICS if metric in metrics]
    return chosen[0] if chosen else next(iter(metrics), None)
