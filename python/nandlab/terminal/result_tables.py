"""The headline table of a run."""

from nandlab.present import Presented
from nandlab.results import Measurements, StudyResult
from nandlab.terminal.output import print_table, print_text
from nandlab.verdicts.generic import HEADLINE_METRICS, headline_metric
from nandlab.verdicts.model import Verdict
from nandlab.verdicts.wording import number

_ROWS_MAX = 40


def print_result(result: StudyResult, verdict: Verdict | Presented) -> None:
    """Tables of the results, then the verdict in words."""
    if isinstance(verdict, Presented):
        verdict.print()
        return
    _print_combinations(result)
    print_text(verdict.headline)
    for sentence in verdict.sentences:
        print_text(sentence)


def _print_combinations(result: StudyResult) -> None:
    rows = Measurements(result)
    metrics = [metric for metric in HEADLINE_METRICS if rows.has(metric)]
    first = headline_metric(rows, str(result.study.get("question", "")))
    if first is not None and first not in metrics:
        metrics.insert(0, first)
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
    axes = len(result.axes)
    more = f" (first {_ROWS_MAX} of {len(places)})" if len(places) > _ROWS_MAX else ""
    print_table(
        f"{result.study.get('title', result.name)}{more}",
        (*result.axes, *metrics),
        lines,
        frozenset(range(axes, axes + len(metrics))),
    )
