"""The answer of a search: full disks, a space that is done with, points told apart by repeats."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from places import fill, own_disk

import nandlab as nl
from nandlab.claims.statistics import t_interval
from nandlab.design_space import answer, answered
from nandlab.design_space import evaluate as evaluating
from nandlab.design_space.front import front_of, may_be_the_same
from nandlab.design_space.metrics import Measured, parse_objectives
from nandlab.design_space.points import Point
from nandlab.design_space.search import Found, Question
from nandlab.errors import NandlabError

SPACE = """
[study]
name = "small"
question = "How much is copied?"
part = "generic-mlc-2x"
blocks = 64
repeats = 3
workload = { kind = "uniform", warm_up_writes = 1, measured_writes = 1 }
[space.axes]
ftl = ["page", "dftl"]
spare_percent = { low = 24, high = 36, step = 12 }
"""

(METRIC,) = parse_objectives("write_amplification")


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose points are run once for several tests."""
    return tmp_path_factory.mktemp("known") / "out"


@pytest.fixture
def space(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SPACE, encoding="utf-8")
    return path


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with own_disk(tmp_path / "disk", "-o", "size=4m") as folder:
        yield folder


@pytest.fixture(autouse=True)
def _no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer, "picture", lambda *_: b"")


# Disks that are full.


def test_an_answer_that_finds_no_room_is_kept_elsewhere(
    space: Path, disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = answered.answered

    def full(*given: Any) -> Any:
        fill(disk)
        return plain(*given)

    monkeypatch.setattr(answered, "answered", full)
    with pytest.raises(NandlabError) as raised:
        nl.search(space, objective="waf", runs=1, out=disk / "out", jobs=1)
    told = str(raised.value)
    assert told.startswith(f"{disk / 'out'}: No space left on device; the results are in ")
    place = Path(told.rpartition(" ")[2])
    found = json.loads((place / "search.json").read_text(encoding="utf-8"))
    assert len(found["points"]) == 1
    assert {"report.html", "points.csv", "figures"} <= {one.name for one in place.iterdir()}


def test_a_point_that_finds_no_room_ends_the_search_and_the_others_stay(
    space: Path, disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nl.search(space, objective="waf", runs=1, out=disk / "out", jobs=1)
    plain = evaluating._carry_out

    def full(*given: Any) -> Any:
        fill(disk)
        return plain(*given)

    monkeypatch.setattr(evaluating, "_carry_out", full)
    with pytest.raises(NandlabError, match="No space left on device; finished points, 1, are in"):
        nl.search(space, objective="waf", runs=2, out=disk / "out", jobs=1)
    (disk / "filler").unlink()
    monkeypatch.setattr(evaluating, "_carry_out", plain)
    assert len(nl.search(space, objective="waf", runs=2, out=disk / "out").rows) == 2


# A space that is done with.


@pytest.mark.parametrize("sampler", ["tpe", "random"])
@pytest.mark.parametrize(("runs", "expected"), [(3, False), (4, True), (5, True)])
def test_exhausted_is_said_of_the_whole_space_alone(
    space: Path, known: Path, sampler: Any, runs: int, *, expected: bool
) -> None:
    """Four points: as many runs are enough, and a further one changes nothing."""
    found = nl.search(space, objective="waf", runs=runs, sampler=sampler, out=known)
    assert len(found.rows) == min(runs, 4)
    assert found.answer["is_exhausted"] is expected


def test_a_search_that_gives_up_has_not_seen_the_whole_space(
    space: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Points that are refused end a search, too: the others were never asked for."""
    text = SPACE.replace("low = 24", "low = 1").replace("step = 12", "step = 1")
    text = text.replace("repeats = 3", "repeats = 1")
    space.write_text(text.replace('"page", "dftl"', '"fast"'), encoding="utf-8")
    monkeypatch.setattr("nandlab.design_space.search._REFUSED_MAX", 1)
    found = nl.search(space, objective="waf", runs=2, seed=3, out=tmp_path / "out")
    asked = len(found.rows) + sum(one["points"] for one in found.answer["refused"])
    assert asked < 36
    assert found.answer["is_exhausted"] is False


@pytest.mark.parametrize(("seed", "runs"), [(1, 0), (4, 1)])
def test_a_search_without_a_run_is_no_success(
    space: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, runs: int
) -> None:
    """A script that calls the search learns from the exit status that there is no answer."""
    text = SPACE.replace("low = 24", "low = 1").replace("step = 12", "step = 1")
    text = text.replace("repeats = 3", "repeats = 1")
    space.write_text(text.replace('"page", "dftl"', '"fast"'), encoding="utf-8")
    monkeypatch.setattr("nandlab.design_space.search._REFUSED_MAX", 0)
    found = nl.search(space, objective="waf", runs=1, seed=seed, out=tmp_path / "out")
    assert len(found.rows) == runs
    assert found.is_clean is (runs > 0)


# Points told apart by their repeats.


def measured(*values: float, seed: int = 1) -> Measured:
    """A metric with a value for each repeat."""
    repeats = {(seed, number): value for number, value in enumerate(values)}
    return Measured(METRIC, t_interval(values), "ratio", repeats=repeats)


def point(number: int, value: Measured) -> Found:
    return Found(number, Point({}, str(number), key=str(number)), {METRIC.name: value})


def test_repeats_of_the_same_seed_are_compared_in_pairs() -> None:
    """What the random numbers do to both points says nothing of which is better."""
    first, second = measured(1.0, 2.0, 3.0), measured(1.1, 2.1, 3.11)
    assert not may_be_the_same(first, second)
    # The same values by other random numbers are far within each other's intervals.
    assert may_be_the_same(first, measured(1.1, 2.1, 3.11, seed=2))
    # Pairs that differ by turns are not told apart.
    assert may_be_the_same(first, measured(1.3, 1.9, 3.1))
    assert may_be_the_same(first, first)
    question = Question((METRIC,), (), 2)
    taken = front_of([point(1, first), point(2, second)], question).recommendation
    assert taken is not None
    assert taken.is_decided
    taken = front_of([point(1, first), point(2, measured(1.3, 1.9, 3.1))], question).recommendation
    assert taken is not None
    assert not taken.is_decided


def test_measured_points_have_the_repeats_of_their_seed(space: Path, known: Path) -> None:
    nl.search(space, objective="waf", runs=1, out=known)
    place = min((known / "points").iterdir())
    from nandlab.design_space.metrics import measured as measure
    from nandlab.frame import read

    found = measure(read(place), METRIC, None)
    assert sorted(found.repeats) == [(1, 0), (1, 1), (1, 2)]
    assert t_interval(list(found.repeats.values())) == found.found
