"""The report of studies without claims: ties, too few repeats, and what a question asks for."""

from typing import Any

import pytest
from made_up import run_of

from nandlab.frame import RunFrame
from nandlab.present import present

Repeats = dict[str, list[float]]


def _run(
    metrics: dict[str, Repeats],
    *,
    question: str = "Which scheduler keeps reads short?",
    **study: Any,
) -> RunFrame:
    """A study of schedulers: for each metric, the values of the repeats of each of them."""
    rows = [
        (name, repeat, metric, value, "ns" if metric.endswith("_ns") else "operations")
        for metric, by_name in metrics.items()
        for name, values in by_name.items()
        for repeat, value in enumerate(values)
    ]
    resolved = {"name": "mine", "question": question, "seed": 1, **study}
    return run_of({"study": resolved, "columns": ["scheduler"], "rows": rows})


def _headline(metrics: dict[str, Repeats], **keys: Any) -> str:
    headline = present(_run(metrics, **keys)).headline
    assert len(headline.split()) <= 25
    return headline


def _by_axes(axes: list[str], rows: list[tuple[Any, ...]], question: str) -> str:
    """The headline of rows of axes, repeat and value; three repeats of each."""
    repeated = [
        (*places, repeat, "elapsed_ns", value + repeat, "ns")
        for *places, value in rows
        for repeat in range(3)
    ]
    study = {"name": "mine", "question": question, "seed": 1}
    return present(run_of({"study": study, "columns": axes, "rows": repeated})).headline


def test_nothing_that_was_measured_has_no_winner() -> None:
    shown = present(_run({}))
    assert shown.headline == "Nothing was measured."
    assert (shown.tables, shown.charts) == ((), ())


def test_one_candidate_stands_alone() -> None:
    shown = present(_run({"read_latency_mean_ns": {"noop": [2e6, 3e6]}}))
    assert shown.headline == ("Read latency mean is 2.50 ms; there is nothing to compare it with.")
    assert shown.charts == ()
    assert shown.tables[0].rows == (("2.50",),)


@pytest.mark.parametrize("names", [("noop", "sfq"), ("deadline", "noop", "row", "sfq")])
def test_equal_candidates_tie(names: tuple[str, ...]) -> None:
    headline = _headline({"read_latency_mean_ns": {name: [2e6, 3e6, 4e6] for name in names}})
    assert headline == "Read latency mean is the same with every scheduler (3 repeats)."


def test_a_difference_within_the_spread_of_the_repeats_is_none() -> None:
    values = {"noop": [2e6, 3e6, 2.4e6], "sfq": [2.2e6, 3.1e6, 2.1e6]}
    assert _headline({"read_latency_mean_ns": values}) == (
        "Read latency mean tells no scheduler apart from the others (3 repeats)."
    )


def test_two_that_differ_by_more_have_a_winner() -> None:
    values = {"noop": [4e6, 4.2e6, 4.1e6], "sfq": [2e6, 2.1e6, 2.0e6]}
    headline = _headline({"read_latency_mean_ns": values})
    assert headline == (
        "Scheduler sfq has the least read latency mean: 0.496 times that of noop "
        "(0.479 to 0.514, 3 repeats)."
    )


@pytest.mark.parametrize("repeats", [1, 2])
def test_too_few_repeats_decide_nothing(repeats: int) -> None:
    values = {"noop": [1000.0] * repeats, "sfq": [9000.0] * repeats}
    told = "1 repeat" if repeats == 1 else "2 repeats"
    assert _headline({"erases": values}, question="Wear?") == (
        f"Undecided: {told}; at least 3 are needed to judge."
    )


def test_a_quick_run_and_an_interrupted_one_are_never_judged() -> None:
    values = {"erases": {"noop": [1.0] * 3, "sfq": [9.0] * 3}}
    assert _headline(values, quick=True) == "Quick form: nothing is judged."
    run = _run(values)
    stopped = RunFrame(**{**vars(run), "interrupted": True})
    assert present(stopped).headline == "Interrupted: nothing is judged."


def test_of_many_those_that_tie_for_the_best_are_named_together() -> None:
    values = {
        "noop": [4e6, 4.2e6, 4.1e6],
        "sfq": [2e6, 2.1e6, 2.2e6],
        "row": [2.05e6, 2.2e6, 2.1e6],
        "cfq": [9e6, 9e6, 9e6],
    }
    assert _headline({"read_latency_mean_ns": values}) == (
        "Scheduler sfq and row have the least read latency mean; nothing tells them apart "
        "(3 repeats)."
    )


@pytest.mark.parametrize(
    ("question", "metric"),
    [
        ("Which file system takes small synced records fastest?", "elapsed time"),
        ("Which one is quickest?", "elapsed time"),
        ("Which scheduler keeps reads short?", "read latency mean"),
        ("Which has the shortest write latency?", "write latency mean"),
        ("Which one causes the least wear?", "erases"),
        ("What lasts longest?", "erases"),
        ("How large is write amplification?", "waf"),
        ("Which one?", "waf"),
    ],
)
def test_the_question_decides_what_answers_it(question: str, metric: str) -> None:
    names = ("erases", "waf", "elapsed_ns", "read_latency_mean_ns", "write_latency_mean_ns")
    metrics = {name: {"noop": [100.0] * 3, "sfq": [200.0] * 3} for name in names}
    assert f"the least {metric}: 0.500 times" in _headline(metrics, question=question)


def test_fastest_is_answered_by_time_where_erases_say_otherwise() -> None:
    metrics = {
        "erases": {"jffs2": [10.0] * 3, "ubifs": [20.0] * 3},
        "elapsed_ns": {"jffs2": [9e9] * 3, "ubifs": [3e9] * 3},
    }
    headline = _headline(metrics, question="Which one is fastest?")
    assert headline.startswith("Scheduler ubifs has the least elapsed time: 0.333 times that")


def test_the_axis_that_the_question_names_comes_first() -> None:
    rows = [
        (size, name, value) for size in (1, 2) for name, value in (("jffs2", 1e9), ("ubifs", 2e9))
    ]
    headline = _by_axes(["file_kib", "file_system"], rows, "Which file system is fastest?")
    assert headline.startswith("File system jffs2 has the least elapsed time: 0.500 times")
    assert _by_axes(["file_kib", "file_system"], rows, "What does file kib change?") == (
        "Elapsed time is the same with every file kib (3 repeats)."
    )


def test_candidates_are_compared_where_all_of_them_were_measured() -> None:
    """One that ran on the hard places alone is not worse for it."""
    rows = [("easy", "jffs2", 1e9), ("hard", "jffs2", 9e9), ("hard", "ubifs", 8e9)]
    headline = _by_axes(["place", "file_system"], rows, "Which file system is fastest?")
    assert headline.startswith("File system ubifs has the least elapsed time: 0.889 times")


def test_candidates_that_share_no_place_are_not_compared() -> None:
    rows = [("easy", "jffs2", 1e9), ("hard", "ubifs", 8e9)]
    assert _by_axes(["place", "file_system"], rows, "Which file system is fastest?") == ""


def test_layers_that_ignore_a_setting_hide_no_difference() -> None:
    rows = [("bast", 2, 4e9), ("bast", 8, 1e9), ("page", 2, 3e9), ("page", 8, 3e9)]
    headline = _by_axes(["ftl", "log_blocks"], rows, "What do log blocks change?")
    assert headline.startswith("Log blocks 8 has the least elapsed time: 0.250 times that of 2")


def test_an_axis_that_means_nothing_to_a_run_is_no_candidate() -> None:
    rows = [("ubifs", "noop", 4e9), ("ubifs", "cfq", 1e9), ("jffs2", "-", 1e8)]
    headline = _by_axes(["file_system", "scheduler"], rows, "Which scheduler is fastest?")
    assert headline.startswith("Scheduler cfq has the least elapsed time: 0.250 times that of noop")


def test_the_figure_averages_over_no_axis_and_says_where_it_stands() -> None:
    rows = [
        (part, ftl, blocks, repeat, "waf", value, "ratio")
        for part in ("small", "large")
        for ftl, value in (("bast", 2.0), ("page", 1.0))
        for blocks in (2, 8)
        for repeat in range(3)
    ]
    study = {"name": "mine", "question": "Which log blocks?", "seed": 1}
    axes = ["part", "ftl", "log_blocks"]
    shown = present(run_of({"study": study, "columns": axes, "rows": rows}))
    (chart,) = shown.charts
    assert {(point["x"], point["series"]) for point in chart.data} == {
        (blocks, part) for blocks in (2, 8) for part in ("small", "large")
    }
    assert chart.caption == "Colours: part. At ftl bast."
    assert {point["value"] for point in chart.data} == {2.0}
    (table,) = shown.tables
    assert table.columns == ("part", "ftl", "log blocks", "waf")
    assert len(table.rows) == 8


def test_a_value_that_is_called_like_another_axis_is_compared() -> None:
    rows = [(40, "fill", 2e9), (40, "operations", 1e9)]
    headline = _by_axes(["operations", "phase"], rows, "Which phase is fastest?")
    assert headline.startswith("Phase operations has the least elapsed time: 0.500 times that of")
