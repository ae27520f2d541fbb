"""The verdict of studies without one of their own: ties, and what a question asks for."""

import pytest

from nandlab.results import StudyResult, Table
from nandlab.verdicts.generic import judge

Repeats = dict[str, list[float]]


def _result(
    metrics: dict[str, Repeats], *, question: str = "Which scheduler keeps reads short?"
) -> StudyResult:
    """A study of schedulers: for each metric, the values of the repeats of each of them."""
    rows = [
        (name, repeat, metric, value, "ns" if metric.endswith("_ns") else "operations")
        for metric, by_name in metrics.items()
        for name, values in by_name.items()
        for repeat, value in enumerate(values)
    ]
    columns = ("scheduler", "repeat", "metric", "value", "unit")
    study = {"name": "mine", "question": question}
    return StudyResult(study, ("scheduler",), Table.of(columns, rows), Table.of((), ()), "")


def test_nothing_that_was_measured_has_no_winner() -> None:
    assert judge(_result({})).headline == "No verdict: nothing was measured."


def test_one_candidate_stands_alone() -> None:
    headline = judge(_result({"read_latency_mean_ns": {"noop": [2e6, 3e6]}})).headline
    assert headline == "read_latency_mean_ns is 2.50 ms: nothing to compare it with."


@pytest.mark.parametrize("names", [("noop", "sfq"), ("deadline", "noop", "row", "sfq")])
def test_equal_candidates_tie(names: tuple[str, ...]) -> None:
    result = _result({"read_latency_mean_ns": {name: [2e6, 3e6] for name in names}})
    headline = judge(result).headline
    assert headline.startswith("scheduler: no difference: read_latency_mean_ns is 2.50 ms with ")
    for name in names:
        assert name in headline
    assert "least" not in headline


def test_a_difference_within_the_spread_of_the_repeats_is_none() -> None:
    result = _result({"read_latency_mean_ns": {"noop": [2e6, 3e6], "sfq": [2.2e6, 3.1e6]}})
    assert judge(result).headline == (
        "scheduler: no difference: read_latency_mean_ns is 2.50 ms to 2.65 ms with noop and sfq, "
        "which is within the spread of the repeats."
    )


def test_two_that_differ_by_more_have_a_winner() -> None:
    result = _result({"read_latency_mean_ns": {"noop": [4e6, 4.2e6], "sfq": [2e6, 2.1e6]}})
    assert judge(result).headline == (
        "scheduler: sfq has the least read_latency_mean_ns (2.05 ms), noop the most "
        "(4.10 ms, 2.0 times as much)."
    )


def test_of_many_those_that_tie_for_the_best_are_named_together() -> None:
    values = {"noop": [4e6, 4.2e6], "sfq": [2e6, 2.1e6], "row": [2.05e6, 2.2e6], "cfq": [9e6, 9e6]}
    assert judge(_result({"read_latency_mean_ns": values})).headline == (
        "scheduler: sfq and row have the least read_latency_mean_ns (2.05 ms, with no difference "
        "between them), cfq the most (9 ms, 4.4 times as much)."
    )


def test_those_that_tie_for_the_worst_are_named_together() -> None:
    values = {"noop": [4e6, 4e6], "row": [2e6, 2e6], "sfq": [4e6, 4e6]}
    assert judge(_result({"read_latency_mean_ns": values})).headline == (
        "scheduler: row has the least read_latency_mean_ns (2 ms), noop and sfq the most "
        "(4 ms, 2.0 times as much)."
    )


def test_a_single_run_of_each_is_told_apart_by_what_is_shown() -> None:
    same = judge(_result({"erases": {"noop": [1000.2], "sfq": [1000.4]}}, question="Wear?"))
    assert same.headline.startswith("scheduler: no difference: erases is 1,000 operations with ")
    other = judge(_result({"erases": {"noop": [1000.0], "sfq": [1010.0]}}, question="Wear?"))
    assert other.headline.startswith("scheduler: noop has the least erases (1,000 operations)")


@pytest.mark.parametrize(
    ("question", "metric"),
    [
        ("Which file system takes small synced records fastest?", "elapsed_ns"),
        ("Which one is quickest?", "elapsed_ns"),
        ("Which scheduler keeps reads short?", "read_latency_mean_ns"),
        ("Which has the shortest write latency?", "write_latency_mean_ns"),
        ("Which one causes the least wear?", "erases"),
        ("What lasts longest?", "erases"),
        ("How large is write amplification?", "waf"),
        ("Which one?", "waf"),
    ],
)
def test_the_question_decides_what_answers_it(question: str, metric: str) -> None:
    names = ("erases", "waf", "elapsed_ns", "read_latency_mean_ns", "write_latency_mean_ns")
    metrics = {name: {"noop": [100.0], "sfq": [200.0]} for name in names}
    assert f"the least {metric} (" in judge(_result(metrics, question=question)).headline


def test_fastest_is_answered_by_time_where_erases_say_otherwise() -> None:
    metrics = {
        "erases": {"jffs2": [10.0], "ubifs": [20.0]},
        "elapsed_ns": {"jffs2": [9e9], "ubifs": [3e9]},
    }
    headline = judge(_result(metrics, question="Which one is fastest?")).headline
    assert headline.startswith("scheduler: ubifs has the least elapsed_ns (3 s)")


def test_the_axis_that_the_question_names_comes_first() -> None:
    rows = [
        (size, name, 0, "elapsed_ns", value, "ns")
        for size in ("1", "2")
        for name, value in (("jffs2", 1e9), ("ubifs", 2e9))
    ]
    axes = ("file_kib", "file_system")
    columns = (*axes, "repeat", "metric", "value", "unit")
    study = {"name": "mine", "question": "Which file system is fastest?"}
    result = StudyResult(study, axes, Table.of(columns, rows), Table.of((), ()), "")
    verdict = judge(result)
    assert verdict.headline.startswith("file_system: jffs2 has the least")
    assert verdict.sentences[0].startswith("file_kib: no difference")


def test_candidates_are_compared_where_all_of_them_were_measured() -> None:
    """One that ran on the hard places alone is not worse for it."""
    places = {"easy": {"jffs2": 1e9}, "hard": {"jffs2": 9e9, "ubifs": 8e9}}
    rows = [
        (place, name, 0, "elapsed_ns", value, "ns")
        for place, by_name in places.items()
        for name, value in by_name.items()
    ]
    axes = ("place", "file_system")
    columns = (*axes, "repeat", "metric", "value", "unit")
    study = {"name": "mine", "question": "Which file system is fastest?"}
    result = StudyResult(study, axes, Table.of(columns, rows), Table.of((), ()), "")
    assert judge(result).headline.startswith("file_system: ubifs has the least elapsed_ns (8 s)")
