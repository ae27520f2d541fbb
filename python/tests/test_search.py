"""The search: a planted optimum, files of spaces, points that are kept, and what it recommends."""

import csv
import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from planted_space import METRICS, RUNS, SPACE, question, read_table, searched

import nandlab as nl
from nandlab.byte_sizes import bytes_a_day
from nandlab.claims.statistics import Interval
from nandlab.design_space import answer
from nandlab.design_space import evaluate as evaluating
from nandlab.design_space.front import RULE, front_of
from nandlab.design_space.metrics import (
    Measured,
    measured,
    parse_constraint,
    parse_objectives,
)
from nandlab.design_space.points import INPUTS, POINTS, Point, Points
from nandlab.design_space.sampler import identity
from nandlab.design_space.search import Found, Question
from nandlab.design_space.space import read_space
from nandlab.errors import NandlabError
from nandlab.study_runs import RunRequest, frame_of

SMALL = """
[study]
name = "small"
question = "How much is copied?"
part = "generic-mlc-2x"
blocks = 64
repeats = 3
workload = { kind = "uniform", warm_up_writes = 1, measured_writes = 1 }
[space.axes]
ftl = ["page", "fast"]
spare_percent = { low = 12, high = 36, step = 12 }
cleaning = { choices = ["greedy", "fifo"], when = { "axes.ftl" = "page" } }
"""


@pytest.fixture
def space(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SMALL, encoding="utf-8")
    return path


# The planted optimum.


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_planted_optimum_is_found(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome, table = searched(seed, tmp_path, monkeypatch)
    assert len(outcome.found) == RUNS < 200
    assert len(table.known) == 2_000
    assert len(set(table.evaluated)) == len(table.evaluated) == RUNS
    taken = front_of(outcome.found, question()).recommendation
    assert taken is not None
    assert taken.taken.point.key == table.best()[0]


def test_random_points_do_not_find_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in (1, 2, 3):
        outcome, table = searched(seed, tmp_path, monkeypatch, is_random=True)
        taken = front_of(outcome.found, question()).recommendation
        assert taken is not None
        assert taken.taken.point.key != table.best()[0]


def test_the_optimum_is_not_that_without_constraints(tmp_path: Path) -> None:
    known = [(choices, values) for choices, values in read_table() if values is not None]
    free = min(known, key=lambda one: one[1]["write_amplification"])
    assert free[0]["axes.ftl"] == "page"
    assert not all(one.is_kept(free[1][one.metric.name]) for one in question().constraints)


def test_a_sample_of_the_table_is_what_the_engine_says(tmp_path: Path) -> None:
    points = Points(read_space(SPACE), tmp_path)
    for choices, values in random.Random(1).sample(read_table(), 20):
        point = points.point(choices)
        assert bool(point.refusal) == (values is None), point.label
        if values is not None:
            with points.written(point) as path:
                run = frame_of(RunRequest(study=str(path), path=str(path), out=path, jobs=1))
            found = {one.name: measured(run, one, None).value for one in METRICS}
            assert found == pytest.approx(dict(values), rel=1e-9), point.label


def test_the_same_seed_asks_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = question("write_amplification,ram_bytes", 40)
    first, second, other = (
        [one.point.key for one in searched(seed, tmp_path, monkeypatch, asked)[0].found]
        for seed in (7, 7, 8)
    )
    assert first == second != other


# Points that are kept.


def test_points_are_studies_that_run_again(space: Path, tmp_path: Path) -> None:
    found = nl.search(space, objective="waf,ram_bytes", runs=6, out=tmp_path / "out", jobs=2)
    assert found.recommended is not None
    place = tmp_path / "out" / found.answer["recommendation"]["study"]
    again = nl.run(place, out=tmp_path / "again")
    assert again.digest == nl.open_run(place.parent).digest
    for name in ("report.html", "points.csv", "search.json", "figures"):
        assert (tmp_path / "out" / name).exists()
    assert json.loads((tmp_path / "out" / "search.json").read_text(encoding="utf-8")) == (
        found.answer | {}
    )
    with (tmp_path / "out" / "points.csv").open(encoding="utf-8") as file:
        assert len(list(csv.DictReader(file))) == 6


def test_a_second_call_runs_only_what_is_missing(
    space: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answer, "picture", lambda *_: b"")
    calls: list[str] = []
    plain = evaluating._run

    def counted(point: Point, *rest: Any) -> None:
        calls.append(point.key)
        plain(point, *rest)

    monkeypatch.setattr(evaluating, "_run", counted)
    out = tmp_path / "out"
    half = nl.search(space, objective="waf", runs=3, out=out, jobs=1)
    assert len(calls) == 3
    whole = nl.search(space, objective="waf", runs=6, out=out, jobs=2)
    assert len(calls) == len(set(calls)) == 6
    assert whole.rows[:3] == [
        {**one, "is_on_front": whole.rows[at]["is_on_front"]} for at, one in enumerate(half.rows)
    ]
    fresh = nl.search(space, objective="waf", runs=6, out=tmp_path / "fresh", jobs=1)
    assert fresh.answer["digest"] == whole.answer["digest"]
    # A damaged folder of results is none: the point is run again.
    (out / POINTS / calls[0] / "manifest.json").unlink()
    for file in (out / POINTS / calls[0]).iterdir():
        file.unlink()
    nl.search(space, objective="waf", runs=6, out=out)
    assert calls[12:] == calls[:1]


def test_a_whole_space_is_evaluated_once(space: Path, tmp_path: Path) -> None:
    found = nl.search(space, objective="waf", runs=100, out=tmp_path / "out")
    assert found.answer["is_exhausted"]
    refused = sum(one["points"] for one in found.answer["refused"])
    assert len(found.rows) + refused == 9
    assert len({one["key"] for one in found.rows}) == len(found.rows)


def test_a_point_that_cannot_be_is_counted_with_its_reason(space: Path, tmp_path: Path) -> None:
    found = nl.search(space, objective="waf", runs=100, out=tmp_path / "out")
    (one,) = found.answer["refused"]
    assert one["points"] == 2
    assert one["example"] in ("ftl=fast spare_percent=12", "ftl=fast spare_percent=24")
    assert "good blocks" in one["reason"]


def test_files_of_the_user_go_with_the_points(space: Path, tmp_path: Path) -> None:
    part = tmp_path / "mine.toml"
    source = SPACE.parents[2] / "parts" / "generic-mlc-2x.toml"
    part.write_text(source.read_text(encoding="utf-8"), encoding="utf-8")
    text = SMALL.replace("[space.axes]", '[space]\npart = ["mine.toml"]\n[space.axes]')
    space.write_text(text, encoding="utf-8")
    out = tmp_path / "out"
    nl.search(space, objective="waf", runs=2, out=out)
    keys = {one.name for one in (out / POINTS).iterdir()}
    assert (out / INPUTS / "mine.toml").read_text(encoding="utf-8") == part.read_text("utf-8")
    moved = out.rename(tmp_path / "moved")
    part.unlink()
    key = sorted(keys)[0]
    assert nl.run(moved / POINTS / key / "study.toml").digest == (
        nl.open_run(moved / POINTS / key).digest
    )


def test_the_key_of_a_point_changes_with_the_content_of_its_files(tmp_path: Path) -> None:
    source = (SPACE.parents[2] / "parts" / "generic-mlc-2x.toml").read_text(encoding="utf-8")
    text = SMALL.replace("[space.axes]", '[space]\npart = ["mine.toml"]\n[space.axes]')
    keys = []
    for name, part in (("a", source), ("b", f"{source}\n# other\n"), ("c", source)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "mine.toml").write_text(part, encoding="utf-8")
        (folder / "space.toml").write_text(text, encoding="utf-8")
        read = read_space(folder / "space.toml")
        choices = next(read.points())
        keys.append(Points(read, folder / "out").point(choices).key)
    assert keys[0] == keys[2] != keys[1]


def test_ctrl_c_leaves_finished_points(tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = ["search", str(SPACE), "--objective", "waf", "--runs", "150", "--out", str(out)]
    command = [sys.executable, "-m", "nandlab", *words]
    with subprocess.Popen(command, stderr=subprocess.PIPE, encoding="utf-8") as process:
        until = time.monotonic() + 60
        while len(list((out / POINTS).glob("[!.]*"))) < 3 and time.monotonic() < until:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "The same command goes on there." in told
    finished = list((out / POINTS).glob("[!.]*/manifest.json"))
    assert finished
    assert not list((out / POINTS).glob(".*"))
    assert all(nl.open_run(one.parent).digest for one in finished)


def test_ctrl_c_ends_a_long_point(space: Path, tmp_path: Path) -> None:
    text = SMALL.replace("blocks = 64", "blocks = 4000").replace(
        "measured_writes = 1", "measured_writes = 400"
    )
    space.write_text(text, encoding="utf-8")
    out = tmp_path / "out"
    words = ["search", str(space), "--objective", "waf", "--runs", "4", "--out", str(out)]
    with subprocess.Popen([sys.executable, "-m", "nandlab", *words, "--jobs", "2"]) as process:
        # Points that are only looked at are there for less long.
        seen: dict[str, float] = {}
        until = time.monotonic() + 60
        while time.monotonic() < until:
            now = time.monotonic()
            there = [one.name for one in (out / POINTS).glob(".study-*")]
            seen = {name: seen.get(name, now) for name in there}
            if any(now - since > 2 for since in seen.values()):
                break
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        begin = time.monotonic()
        assert process.wait(timeout=60) == 130
    assert time.monotonic() - begin < 5
    assert not list((out / POINTS).iterdir())


# Files of spaces.


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"page", "fast"', '"page", "fats"', r"small.toml:10: axes.ftl: .*fats.*did you mean"),
        ("spare_percent =", "spare_procent =", r":11: axes.spare_procent: .*spare_percent"),
        ("step = 12", "stop = 12", r":11: axes.spare_percent: unknown key 'stop'.*step"),
        ("low = 12", "low = 40", r"low 40 is above high 36"),
        ("low = 12", "low = 1.5", r"low must be a whole number"),
        ("low = 12, high = 36", "low = 150, high = 186", r":11: axes.spare_percent: .*150"),
        ("step = 12", "step = 12, log = true", r"step does not go with log"),
        ('"axes.ftl" = "page"', '"axes.flt" = "page"', r"did you mean axes.ftl"),
        ('"axes.ftl" = "page"', '"axes.ftl" = "pages"', r"axes.ftl has no choice pages"),
        ('"greedy", "fifo"', '"greedy", "greedy"', r":12: axes.cleaning: .* greedy is there twice"),
        ('"greedy", "fifo"', "", r"must be a list of choices"),
        ("[space.axes]", "[spaces.axes]", r"unknown key 'spaces': did you mean space"),
        ("[study]", "[card]\n[study]", r""),
        ('name = "small"', 'name = "small', r"docs/search.md"),
        ("kind = ", "kid = ", r"small.toml: no point can be: unknown field `kid`.*did you mean"),
    ],
)
def test_what_a_space_may_not_say(
    old: str, new: str, message: str, space: Path, tmp_path: Path
) -> None:
    assert old in SMALL
    space.write_text(SMALL.replace(old, new), encoding="utf-8")

    def call() -> None:
        nl.search(space, objective="waf", runs=2, out=tmp_path / "out")

    if not message:
        call()
        return
    with pytest.raises(NandlabError, match=message):
        call()
    assert not list((tmp_path / "out").glob(f"{POINTS}/*/manifest.json"))


def test_conditions_and_ranges_make_the_points(space: Path) -> None:
    read = read_space(space)
    points = [dict(one) for one in read.points()]
    assert len(points) == read.count() == 9
    assert {one["axes.spare_percent"] for one in points} == {12, 24, 36}
    assert all(("axes.cleaning" in one) == (one["axes.ftl"] == "page") for one in points)
    assert len({identity(one) for one in points}) == 9


# Objectives and constraints.


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: parse_objectives("write_amplificaton"), "did you mean write_amplification"),
        (lambda: parse_objectives("waf,write_amplification"), "is there twice"),
        (lambda: parse_objectives("waf:maximise"), "always minimised"),
        (lambda: parse_objectives("rows:minimize"), "did you mean minimise"),
        (lambda: parse_constraint("life_years=10"), "write NAME>=NUMBER"),
        (lambda: parse_constraint("ram_bytes<=ten"), "not a size"),
        (lambda: parse_constraint("p99_latency<2min"), "times take ns"),
        (lambda: bytes_a_day("20GB/month", "--host-writes"), "write 20GB/day; periods are s, h"),
    ],
)
def test_what_objectives_may_not_say(call: Callable[[], object], message: str) -> None:
    with pytest.raises(NandlabError, match=message):
        call()


def test_bounds_have_units() -> None:
    assert parse_constraint("ram_bytes<=64KiB").bound == 65_536
    assert parse_constraint("p99_latency < 2ms").bound == 2e6
    assert not parse_constraint("erases<5").is_kept(5)
    assert parse_constraint("erases<=5").is_kept(5)
    assert bytes_a_day("24GB/day", "x") == pytest.approx(bytes_a_day("1GB/hour", "x")) == 24e9
    # One grammar for --host-writes and --rate: a size alone is that of a day.
    assert bytes_a_day("24GB", "x") == bytes_a_day(24 * 10**9, "x") == 24e9


def test_a_metric_that_no_point_has_is_refused(space: Path, tmp_path: Path) -> None:
    with pytest.raises(NandlabError, match=r"have no call_p99_ns.*they have write_amplification"):
        nl.search(space, objective="p99_latency", runs=2, out=tmp_path / "out")
    with pytest.raises(NandlabError, match="give --host-writes"):
        nl.search(space, objective="life_years", runs=2, out=tmp_path / "out")


def test_a_life_in_years_is_that_in_bytes_at_the_rate(space: Path, tmp_path: Path) -> None:
    found = nl.search(space, objective="life_years,life_bytes", runs=2, out=tmp_path / "out",
                      host_writes="1GB/day")  # fmt: skip
    for row in found.rows:
        assert row["life_years"] == pytest.approx(row["life_bytes"] / 1e9 / 365.25)


# What is recommended.


def made_up(number: int, *values: float, spread: float = 0.0) -> Found:
    objectives = parse_objectives("write_amplification,ram_bytes")
    cells: Mapping[str, Measured] = {
        metric.name: Measured(metric, Interval(one, one - spread, one + spread, 3), metric.unit)
        for metric, one in zip(objectives, values, strict=True)
    }
    return Found(number, Point({}, f"point {number}", key=str(number)), cells)


def asked(*bounds: str) -> Question:
    return replace(
        Question(parse_objectives("write_amplification,ram_bytes"), (), 10),
        constraints=tuple(parse_constraint(one) for one in bounds),
    )


def test_the_nearest_to_the_best_values_is_taken() -> None:
    points = [made_up(1, 1, 9), made_up(2, 2, 3), made_up(3, 5, 2), made_up(4, 5, 8)]
    front = front_of(points, asked())
    assert [one.number for one in front.points] == [2, 1, 3]
    assert front.recommendation is not None
    assert front.recommendation.taken.number == 2
    assert front.recommendation.is_decided
    assert "nearest to the best value" in RULE


def test_a_constraint_leaves_points_out() -> None:
    points = [made_up(1, 1, 9), made_up(2, 2, 3), made_up(3, 5, 2)]
    front = front_of(points, asked("ram_bytes<=2"))
    assert [one.number for one in front.points] == [3]
    assert front_of(points, asked("ram_bytes<=1")).recommendation is None


def test_points_that_are_not_told_apart_are_named() -> None:
    points = [made_up(1, 1, 9, spread=0.2), made_up(2, 1.1, 9.1, spread=0.2), made_up(3, 5, 2)]
    taken = front_of([points[0], points[1]], asked()).recommendation
    assert taken is not None
    assert [one.number for one in taken.overlapping] == [2]
    assert not taken.is_decided
    tied = front_of([made_up(1, 1, 2), made_up(2, 2, 1)], asked()).recommendation
    assert tied is not None
    assert [one.number for one in tied.ties] == [2]
    same = front_of([made_up(1, 1, 2), made_up(2, 1, 2)], asked()).recommendation
    assert same is not None
    assert [one.number for one in same.ties] == [2]


def test_a_constraint_within_the_interval_is_undecided() -> None:
    taken = front_of([made_up(1, 1, 9, spread=0.2)], asked("ram_bytes<=9.1")).recommendation
    assert taken is not None
    assert taken.uncertain == ("ram_bytes<=9.1",)
    assert not taken.is_decided


def test_a_missing_optuna_is_said_with_its_cure(space: Path, tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['optuna'] = None; from nandlab.cli import main; "
        f"sys.exit(main(['search', {str(space)!r}, '--objective', 'waf', '--out', 'x']))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False,
                          encoding="utf-8", cwd=tmp_path)  # fmt: skip
    assert done.returncode == 2
    assert "needs Optuna" in done.stderr
    assert "pip install" in done.stderr


def test_another_folder_is_left_alone(space: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter").write_text("dear", encoding="utf-8")
    with pytest.raises(NandlabError, match="not of a search"):
        nl.search(space, objective="waf", runs=2, out=tmp_path / "mine")
