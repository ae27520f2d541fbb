"""The evaluator against random data whose truth is known."""

import math
from pathlib import Path
from random import Random
from typing import Any

import numpy
import pytest
from made_up import typed
from scipy.special import stdtrit

from nandlab.claims import Status, evaluate, load_claims, quantity
from nandlab.claims.predicates import PREDICATES
from nandlab.claims.quantity import Sample
from nandlab.claims.schema import ClaimFile
from nandlab.claims.statistics import LEAST_REPLICATES, Interval, Region, status_of, t_point
from nandlab.frame import RunFrame
from nandlab.frame.reference import Reference
from nandlab.present.headline import WORDS_MAX, count_words, leaders, quick_words

SETS = 1_000
WRONG_MAX = 0.05
REPEATS = 8
NOISE = 0.2

HEAD = 'id = "one"\ntext = "t"\nwhere = "w"\nmetric = "m"\n'
SIDES = "left = { x = 2 }\nright = { x = 1 }\n"
VALUES = 'axis = "x"\nvalues = [1, 2, 3]\n'
PART = 'predicate = "ratio", left = { x = %d }, right = { x = 1 }, above = 1.2'
OF = f"of = [{{ {PART % 2} }}, {{ {PART % 3} }}]\n"

# The true medians at x = 1, 2, 3, from the place `at` on a scale on which 0 is the claim's bound.
CASES: dict[str, tuple[str, Any, Any]] = {
    "all": (OF, lambda at: (1, 1.2 * math.exp(at), 1.2 * math.exp(at)), lambda at: at > 0),
    "any": (OF, lambda at: (1, 1.2 * math.exp(at), 0.6), lambda at: at > 0),
    "change": (f"{SIDES}below = -0.3\n", lambda at: (1, 0.7 * math.exp(-at), 1), lambda at: at > 0),
    "difference": (f"{SIDES}above = 0.5\n", lambda at: (1, 1.5 + at, 1), lambda at: at > 0),
    "equal": (
        f'{VALUES}tolerance = 0.5\ntolerance_why = "w"\n',
        lambda at: (1, 1.5 * math.exp(-at), 1),
        lambda at: abs(math.log(1.5) - at) < math.log(1.5),
    ),
    "order": (VALUES, lambda at: (1, math.exp(at), math.exp(at + 0.5)), lambda at: at > 0),
    "ratio": (f"{SIDES}above = 1.5\n", lambda at: (1, 1.5 * math.exp(at), 1), lambda at: at > 0),
    "trend": (
        f'{VALUES}direction = "up"\n',
        lambda at: (1, 2 ** (2 * at), 3 ** (2 * at)),
        lambda at: at > 0,
    ),
    "value": ("select = { x = 1 }\nabove = 2\n", lambda at: (2 + at, 1, 1), lambda at: at > 0),
}


def a_run(cells: list[list[float]], metric: str = "m", **study: Any) -> RunFrame:
    """Repeats of a metric at x = 1, 2, …"""
    rows = [
        (str(x), repeat, metric, value, "ratio")
        for x, values in enumerate(cells, start=1)
        for repeat, value in enumerate(values)
    ]
    table = typed(("x", "repeat", "metric", "value", "unit"), rows)
    return RunFrame({"name": "s", **study}, ("x",), table, typed(("x",), ()), "d")


def claims_of(folder: Path, text: str) -> ClaimFile:
    (folder / "claims.toml").write_text(text, encoding="utf-8")
    return load_claims(folder)


def outcome(status: str, *, is_true: bool) -> str:
    if status == Status.UNDECIDED:
        return "undecided"
    return "right" if (status == Status.SUPPORTED) == is_true else "wrong"


@pytest.mark.parametrize("predicate", sorted(CASES))
def test_a_wrong_status_is_rare(predicate: str, tmp_path: Path) -> None:
    keys, medians, truth = CASES[predicate]
    claims = claims_of(tmp_path, f'[[claim]]\n{HEAD}predicate = "{predicate}"\n{keys}')
    random = Random(predicate)
    counts = {"right": 0, "wrong": 0, "undecided": 0}
    for _ in range(SETS):
        at = random.uniform(-0.8, 0.8)
        is_linear = predicate in ("difference", "value")
        cells = [
            [
                middle + random.gauss(0, NOISE)
                if is_linear
                else middle * random.lognormvariate(0, NOISE)
                for _ in range(REPEATS)
            ]
            for middle in medians(at)
        ]
        status = evaluate(a_run(cells), claims)["status"][0]
        counts[outcome(status, is_true=truth(at))] += 1
    assert counts["wrong"] <= WRONG_MAX * SETS, counts
    # A judge that never decides would pass the line above.
    assert counts["right"] >= SETS / 2, counts


def test_shares_are_seldom_wrong(tmp_path: Path) -> None:
    keys = 'predicate = "share"\nsuccesses = "s"\ntrials = "t"\nabove = 0.9\n'
    claims = claims_of(tmp_path, f"[[claim]]\n{HEAD}{keys}pool = {{ over = ['x'] }}\n")
    random = Random("share")
    counts = {"right": 0, "wrong": 0, "undecided": 0}
    for _ in range(SETS):
        share = random.uniform(0.7, 1.0)
        trials = 200
        successes = sum(random.random() < share for _ in range(trials))
        rows = [("1", 0, "s", float(successes), ""), ("1", 0, "t", float(trials), "")]
        table = typed(("x", "repeat", "metric", "value", "unit"), rows)
        run = RunFrame({"name": "s"}, ("x",), table, table, "d")
        counts[outcome(evaluate(run, claims)["status"][0], is_true=share > 0.9)] += 1
    assert counts["wrong"] <= WRONG_MAX * SETS, counts
    assert counts["right"] >= SETS / 2, counts


def test_every_predicate_is_tested() -> None:
    assert {*CASES, "share", "by_construction"} == set(PREDICATES)


def test_windows_of_one_run_are_resampled_in_blocks(tmp_path: Path) -> None:
    """Neighbouring windows resemble one another: blocks must be wide enough to tell."""
    keys = 'predicate = "order"\naxis = "x"\nvalues = [1, 2]\nreplicates = "windows"\n'
    head = HEAD.replace('"m"', '"m_mean"')
    claims = claims_of(tmp_path, f"[[claim]]\n{head}{keys}")
    random = Random("windows")
    wrong = 0
    for _ in range(200):
        rows, points = [], []
        for x in (1, 2):
            total, drift = 0.0, 0.0
            for io in range(121):
                points.append((str(x), float(io), total))
                drift = 0.5 * drift + random.gauss(0, 1)
                total += 20 + drift
            rows.append((str(x), 0, "m_mean", total / 121, "ratio"))
        frame = typed(("x", "repeat", "metric", "value", "unit"), rows)
        curves = typed(("x", "io", "m"), points)
        status = evaluate(RunFrame({"name": "s"}, ("x",), frame, curves, "d"), claims)["status"][0]
        wrong += status == Status.SUPPORTED
    # Both are drawn alike, so that each side of a 95 % interval errs in 2.5 %.
    assert wrong <= WRONG_MAX * 200


@pytest.mark.parametrize("repeats", [1, 2])
def test_too_few_repeats_decide_nothing(repeats: int, tmp_path: Path) -> None:
    claims = claims_of(tmp_path, f'[[claim]]\n{HEAD}predicate = "ratio"\n{SIDES}above = 1.5\n')
    row = evaluate(a_run([[1.0] * repeats, [9.0] * repeats]), claims).to_dicts()[0]
    assert repeats < LEAST_REPLICATES
    assert (row["status"], row["low"], row["n"]) == (Status.UNDECIDED, None, repeats)
    assert "at least 3 are needed" in row["reason"]


def test_equal_values_are_in_no_order(tmp_path: Path) -> None:
    claims = claims_of(tmp_path, f'[[claim]]\n{HEAD}predicate = "order"\n{VALUES}')
    assert evaluate(a_run([[5.0] * 4] * 3), claims)["status"][0] == Status.CONTRADICTED


@pytest.mark.parametrize(("bound", "sign"), [(1.0, 1), (1.0, -1), (-0.5, 1), (250.0, -1)])
def test_a_difference_that_no_record_shows_is_a_tie(bound: float, sign: int) -> None:
    """Values a billionth beyond the bound are on it; a hundred thousandth beyond counts."""
    region = Region(above=bound) if sign > 0 else Region(below=bound)

    def status(part: float) -> Status:
        at = bound + sign * abs(bound) * part
        return status_of(Interval(at, at, at, 10), region)

    assert status(3e-9) is Status.CONTRADICTED
    assert status(1e-5) is Status.SUPPORTED


def test_a_quick_form_has_neither_interval_nor_verdict(tmp_path: Path) -> None:
    claims = claims_of(tmp_path, f'[[claim]]\n{HEAD}predicate = "order"\n{VALUES}')
    row = evaluate(a_run([[1.0] * 4, [2.0] * 4, [3.0] * 4], quick=True), claims).to_dicts()[0]
    assert (row["status"], row["low"], row["high"]) == (Status.NOT_JUDGED, None, None)
    assert row["estimate"] == pytest.approx(1.5)


def test_a_cell_that_was_not_run(tmp_path: Path) -> None:
    claims = claims_of(tmp_path, f'[[claim]]\n{HEAD}predicate = "order"\n{VALUES}')
    assert evaluate(a_run([[1.0] * 4, [2.0] * 4]), claims)["status"][0] == Status.NOT_RUN


def test_a_tolerance_widens_with_the_certainty_of_the_cell(tmp_path: Path) -> None:
    keys = (
        'predicate = "ratio"\npublished = { column = "y" }\ntolerance = 0.1\ntolerance_why = "w"\n'
    )
    claims = claims_of(tmp_path, f"[[claim]]\n{HEAD}{keys}{SIDES}")
    found = []
    for certainty in ("printed", "reconstructed"):
        run = a_run([[1.0] * 4, [1.15] * 4])
        columns = ("x", "y", "certainty")
        cells = ((1.0, 1.0, certainty), (2.0, 1.0, "printed"))
        rows = tuple(dict(zip(columns, line, strict=True)) for line in cells)
        reference = Reference(columns, rows)
        found.append(
            evaluate(RunFrame(**{**vars(run), "reference": reference}), claims)["status"][0]
        )
    assert found == [Status.CONTRADICTED, Status.SUPPORTED]


@pytest.mark.parametrize("most", [True, False])
def test_equal_candidates_never_win(most: bool) -> None:
    random = Random("leaders")
    won = 0
    for _ in range(SETS):
        samples = {
            name: Sample({key: random.lognormvariate(0, NOISE) for key in range(REPEATS)})
            for name in "ab"
        }
        won += len(leaders(samples, most=most)) == 1
    assert won <= WRONG_MAX * SETS
    same = Sample(dict.fromkeys(range(REPEATS), 3.0))
    assert leaders({"a": same, "b": same, "c": same}, most=most) == ["a", "b", "c"]


def test_a_better_candidate_wins() -> None:
    better, worse = (Sample({key: base + key for key in range(REPEATS)}) for base in (10.0, 30.0))
    assert leaders({"a": worse, "b": better}, most=False) == ["b"]
    assert leaders({"a": worse, "b": better}, most=True) == ["a"]


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ({}, ""),
        ({Status.BY_CONSTRUCTION: 2}, "2 claims true by construction."),
        ({Status.SUPPORTED: 1}, "The one claim is supported."),
        (
            {Status.CONTRADICTED: 1, Status.UNDECIDED: 2},
            "Of 3 claims 1 is contradicted and 2 undecided.",
        ),
        ({Status.SUPPORTED: 2, Status.NOT_RUN: 1}, "Of 3 claims 2 are supported and 1 not run."),
    ],
)
def test_the_headline_counts_what_the_table_shows(counts: dict[Status, int], words: str) -> None:
    assert count_words(counts) == words


def test_headlines_never_contradict_their_table() -> None:
    random = Random("headline")
    for _ in range(SETS):
        counts = {status: random.randrange(4) for status in Status if status != Status.NOT_JUDGED}
        words = count_words(counts)
        total = sum(counts.values())
        assert len(words.split()) + 9 <= WORDS_MAX
        for status in (Status.SUPPORTED, Status.CONTRADICTED, Status.UNDECIDED, Status.NOT_RUN):
            assert (status.value in words) == (counts[status] > 0)
            if counts[status] and total > 1:
                number = (
                    words.split(status.value)[0].replace(" is", "").replace(" are", "").split()[-1]
                )
                assert number == str(counts[status])


@pytest.mark.parametrize(
    ("claims", "words"), [(0, "nothing is judged"), (1, "1 claim "), (7, "7 claims ")]
)
def test_the_headline_of_a_quick_form(claims: int, words: str) -> None:
    assert words in quick_words(claims)


def test_the_points_of_students_distribution_are_those_of_scipy() -> None:
    for freedom in range(1, 60):
        assert t_point(freedom) == float(stdtrit(freedom, 0.975))


def test_pooling_plain_numbers_agrees_with_pooling_draws() -> None:
    random = Random(1)
    for how in ("geometric-mean", "maximum"):
        for _ in range(100):
            values = [random.lognormvariate(0, 5) for _ in range(random.randint(1, 5))]
            plain = quantity._POOLED[how](values)
            (drawn,) = quantity._POOLED[how]([numpy.array([value]) for value in values])
            assert type(plain) is float
            assert plain == pytest.approx(float(drawn), rel=1e-14)
