"""The search of readings: a small study whose truth is planted, and what its file may say."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy
import pytest

import nandlab as nl
from nandlab.errors import NandlabError
from nandlab.readings import simulation
from nandlab.readings.page import chapter
from nandlab.readings.prediction import LEAST_READINGS, Predictor, design, needed
from nandlab.readings.scoring import Scores, effects
from nandlab.readings.search import apart
from nandlab.readings.simulation import edited, simulate
from nandlab.readings.spec import Cell, Formula, load_readings

STUDY = """
name = "made-up"
title = "Cleaning with unsaid spare area"
question = "How much is copied?"
part = "generic-mlc-2x"
blocks = 64
seed = 1
repeats = 1
reference = "reference.csv"

[workload]
kind = "uniform"
warm_up_writes = 1
measured_writes = 1

[axes]
ftl = ["page"]
cleaning = ["greedy", "fifo", "random"]
spare_percent = [12.5]
pages_per_block = [32]
"""

READINGS = """
[[choice]]
name = "spare"
unsaid = "the spare area"
why = "not printed"
shipped = "12.5 %"
[choice.options]
"12.5 %" = { set = { "axes.spare_percent" = 12.5 } }
"28 %" = { set = { "axes.spare_percent" = 28 } }

[[choice]]
name = "passes"
unsaid = "passes summed"
why = "not printed"
shipped = "1"
[choice.options]
1 = { words = { passes = "1" } }
2 = { words = { passes = "2" } }
3 = { words = { passes = "3" } }

[[choice]]
name = "rows"
unsaid = "which row is meant"
why = "not printed"
shipped = "as labelled"
[choice.options]
"as labelled" = { words = { first = "greedy" } }
swapped = { words = { first = "random" } }

[[runs]]
id = "all"
choices = ["spare"]
set = { "axes.pages_per_block" = 32 }

[[cells]]
id = "copies"
where = { kind = "copies" }
column = "value"
axes = ["cleaning"]
order = "cleaning"
metric = "{passes} * pages_copied"

[[cells]]
id = "factor"
where = { kind = "factor" }
column = "value"
plus = 1
metric = "waf"
at = { cleaning = "{first}" }

[[measurement]]
title = "write the device once"
metric = "{passes} * pages_copied"
at = { cleaning = "greedy" }
seconds = "pages_copied / 1e3"
"""

HEAD = "kind,cleaning,value,certainty\n"


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """A study with two passes at 28 % of spare area, as its reference has it."""
    folder = tmp_path / "made-up"
    folder.mkdir()
    (folder / "study.toml").write_text(STUDY)
    (folder / "readings.toml").write_text(READINGS)
    (folder / "reference.csv").write_text(HEAD + "copies,greedy,1,printed\n")
    sets = {"axes.spare_percent": 28}
    rows = nl.run(folder, set=sets, jobs=1).wide("pages_copied", "waf").to_dicts()
    lines = [f"copies,{row['cleaning']},{2 * row['pages_copied']},printed" for row in rows]
    random = next(row for row in rows if row["cleaning"] == "random")
    lines.append(f"factor,random,{random['waf'] - 1},read_off")
    (folder / "reference.csv").write_text(HEAD + "\n".join(lines) + "\n")
    return folder


def search(study: Path, **options: object) -> nl.Readings:
    return nl.search_readings(str(study), cache=study.parent / "cache", jobs=1, **options)  # type: ignore[arg-type]


def test_the_reading_of_the_reference_is_the_best(study: Path) -> None:
    found = search(study)
    assert found.best == {"spare": "28 %", "passes": "2", "rows": "swapped"}
    assert found.answer["readings"][0]["error"] == pytest.approx(0, abs=1e-9)
    assert found.answer["readings"][0]["tau"] == 1
    # Two options of the spare area were run, whatever the other choices are.
    assert found.answer["design"]["runs"] == found.answer["design"]["carried_out"] == 2
    assert found.answer["design"]["readings"] == found.answer["design"]["product"] == 12
    assert found.answer["against_every_reading"] == []
    shipped = found.answer["shipped"]["made-up"]
    assert shipped["choices"] == {"spare": "12.5 %", "passes": "1", "rows": "as labelled"}
    assert shipped["error"] > 0.2
    # The effects rank what moves the score, and what moves nothing explains nothing.
    shares = {row["choice"]: row["share"] for row in found.effects.to_dicts()}
    assert 0 < sum(shares.values()) <= 1 + 1e-9
    (measured,) = found.answer["measurements"]
    assert measured["separation"] > 0


def test_other_scores_rank_too(study: Path) -> None:
    """Whatever the level: passes scale all copies alike, so their shape is the same."""
    shapes = [one["shape_error"] for one in search(study, by="shape").answer["readings"]]
    assert shapes == sorted(shapes)
    taus = [one["tau"] for one in search(study, by="order").answer["readings"]]
    assert taus == sorted(taus, reverse=True)
    file = study / "readings.toml"
    file.write_text(file.read_text().replace('order = "cleaning"\n', ""))
    with pytest.raises(NandlabError, match="rank by level or shape"):
        search(study, by="order")


CLAIMS = """
[defaults]
metric = "pages_copied"

[[reading]]
name = "as printed"
select = { spare_percent = 12.5 }

[[claim]]
id = "few-copies"
text = "Greedy copies few pages"
where = "page 1"
predicate = "value"
metric = "{passes} * pages_copied"
select = { cleaning = "greedy" }
below = BOUND

[[claim]]
id = "greedy-least"
text = "Greedy copies least"
where = "page 1"
predicate = "order"
axis = "cleaning"
values = ["greedy", "fifo", "random"]
least = "greedy"

[[claim]]
id = "first-is-random"
text = "The first copies as much as random"
where = "page 1"
predicate = "equal"
axis = "cleaning"
values = ["first", "random"]
tolerance = 0.001
tolerance_why = "the same"

[[claim]]
id = "not-run"
text = "Another way"
where = "page 1"
predicate = "ratio"
left = { cleaning = "windowed-greedy" }
right = { cleaning = "greedy" }
above = 1
"""

RULES = """
[[claims]]
ids = ["first-is-random"]
values = { cleaning = { first = "{first}" } }
"""


def with_claims(study: Path, repeats: int = 3) -> Path:
    """The study with claims; one pass at 28 % is within the bound, and nothing else is."""
    rows = nl.run(study, set={"axes.spare_percent": 28}, jobs=1).wide("pages_copied").to_dicts()
    copied = next(row["pages_copied"] for row in rows if row["cleaning"] == "greedy")
    (study / "claims.toml").write_text(CLAIMS.replace("BOUND", str(1.5 * copied)))
    file = study / "readings.toml"
    file.write_text(f"[set]\nrepeats = {repeats}\n{file.read_text()}{RULES}")
    return study


def test_claims_are_judged_under_every_reading(study: Path) -> None:
    answer = search(with_claims(study)).answer
    found = {one["id"]: one for one in answer["claims"]}
    few = found["few-copies"]
    # Two of six: a bound of 1.5 is kept by one pass at 28 %, under both options of `rows`.
    assert few["choices"] == ["passes", "spare"]
    assert few["shares"]["supported"] == pytest.approx(1 / 6)
    assert few["shares"]["contradicted"] == pytest.approx(5 / 6)
    assert few["best"]["status"] == few["shipped"]["status"] == "contradicted"
    assert few["nearest"]["choices"] == {"passes": "1", "spare": "28 %"}
    assert (few["nearest"]["status"], few["nearest"]["n"]) == ("supported", 3)
    assert few["nearest"]["low"] < few["nearest"]["estimate"] < few["nearest"]["high"]
    # The passes scale all alike, so the claim does not depend on them.
    assert found["greedy-least"]["choices"] == ["spare"]
    assert found["greedy-least"]["shares"]["supported"] == 1
    assert not found["not-run"]["is_run"]
    assert found["not-run"]["shares"]["not run"] == 1


def test_a_word_of_a_reading_replaces_a_value_of_a_claim(study: Path) -> None:
    found = {one["id"]: one for one in search(with_claims(study)).answer["claims"]}
    same = found["first-is-random"]
    assert same["choices"] == ["rows", "spare"]
    assert same["shares"]["supported"] == same["shares"]["contradicted"] == 0.5
    assert same["nearest"]["choices"]["rows"] == "swapped"


def test_claims_of_one_repeat_are_undecided(study: Path) -> None:
    found = {one["id"]: one for one in search(with_claims(study, repeats=1)).answer["claims"]}
    assert found["few-copies"]["shares"]["undecided"] == 1
    assert found["few-copies"]["best"]["reason"].startswith("1 independent replicate")


SHAPES = """
[[choice]]
name = "shape"
unsaid = "the pages of a block"
why = "not printed"
shipped = "32"
[choice.options]
32 = { set = { "axes.pages_per_block" = 32 }, words = { own = "" } }
several = { set = { "axes.pages_per_block" = [16, 32, 64] }, words = { own = "pages_per_block" } }
"""


def test_an_option_may_bring_replicates_of_its_own(study: Path) -> None:
    """As a set of traces does that has several captures of each cell."""
    study = with_claims(study)
    file = study / "readings.toml"
    text = file.read_text().replace('choices = ["spare"]', 'choices = ["spare", "shape"]')
    rule = '\n[[claims]]\nreplicates = "{own}"\n'
    file.write_text(f"{text}{SHAPES}")
    with pytest.raises(NandlabError, match="axis 'pages_per_block' has several values"):
        search(study)
    file.write_text(f"{text}{SHAPES}{rule}")
    found = {one["id"]: one for one in search(study).answer["claims"]}
    few = found["few-copies"]
    # The shipped option has one shape and three repeats; the other has three shapes of each.
    assert few["choices"] == ["passes", "shape", "spare"]
    assert few["shipped"]["n"] == 3
    file.write_text(f"{text}{SHAPES}{rule}".replace('shipped = "32"', 'shipped = "several"'))
    found = {one["id"]: one for one in search(study).answer["claims"]}
    assert found["few-copies"]["shipped"]["n"] == 9
    file.write_text(f"{text}{SHAPES}{rule}".replace("{own}", "{shape}"))
    with pytest.raises(NandlabError, match=r"\{shape\}: no option of a choice has this word"):
        load_readings(str(study))


SIDES = """
[[contradiction]]
about = "copies of greedy"
[[contradiction.sides]]
says = "half"
where = "page 2"
published = HALF
metric = "pages_copied"
at = { cleaning = "greedy" }
[[contradiction.sides]]
says = "greedy is worst"
where = "page 3"
[contradiction.sides.claim]
predicate = "order"
metric = "pages_copied"
axis = "cleaning"
values = ["greedy", "fifo", "random"]
most = "greedy"
[[contradiction.sides]]
says = "as labelled"
where = "page 4"
choice = "rows"
option = "as labelled"
"""


def test_sides_of_a_contradiction_are_scored(study: Path) -> None:
    study = with_claims(study)
    rows = nl.run(study, set={"axes.spare_percent": 28}, jobs=1).wide("pages_copied").to_dicts()
    copied = next(row["pages_copied"] for row in rows if row["cleaning"] == "greedy")
    file = study / "readings.toml"
    file.write_text(file.read_text() + SIDES.replace("HALF", str(copied / 2)))
    number, claim, option = search(study).answer["contradictions"]
    # The reference is of the first repeat; the others differ a little.
    assert number["best"] == pytest.approx(1, rel=0.1)
    assert number["least"] <= number["best"]
    assert (claim["best"]["status"], claim["share"]) == ("contradicted", 0)
    # The best reading takes the other option, which explains the factor.
    assert option["best"] > option["least"] - 1e-9 > 0
    file.write_text(file.read_text().replace('option = "as labelled"', 'option = "labelled"'))
    with pytest.raises(NandlabError, match="as labelled"):
        load_readings(str(study))


def test_nothing_is_run_twice_and_workers_change_nothing(study: Path) -> None:
    first = search(study)
    again = search(study)
    assert again.answer["design"]["carried_out"] == 0
    other = nl.search_readings(str(study), cache=study.parent / "other", jobs=2)
    assert first.answer["digest"] == again.answer["digest"] == other.answer["digest"]
    # A changed input is another run.
    file = study / "study.toml"
    file.write_text(file.read_text().replace("seed = 1", "seed = 2"))
    assert search(study).answer["design"]["carried_out"] == 2


def test_a_cell_that_no_reading_reaches_is_named(study: Path) -> None:
    reference = study / "reference.csv"
    lines = reference.read_text().splitlines()
    cells = lines[1].split(",")
    lines[1] = ",".join([*cells[:2], str(float(cells[2]) * 50), cells[3]])
    reference.write_text("\n".join(lines) + "\n")
    (named,) = search(study).answer["against_every_reading"]
    assert (named["group"], named["cell"]) == ("copies", cells[1])
    assert named["nearest"] < named["published"] / 5


def test_a_draw_starves_no_option(study: Path) -> None:
    """A draw of six of 36 readings would have two of each option of three."""
    file = study / "readings.toml"
    options = "".join(f"{one} = {{}}\n" for one in "abc")
    more = '[[choice]]\nname = "more"\nunsaid = "?"\nwhy = "?"\nshipped = "a"\n[choice.options]\n'
    file.write_text(file.read_text().replace("[[runs]]", f"{more}{options}\n[[runs]]", 1))
    found = search(study, most=6).answer["design"]
    assert (found["is_whole"], found["product"]) == (False, 36)
    assert found["least_readings_of_an_option"] >= LEAST_READINGS
    assert found["readings"] < 36


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda text: text.replace('shipped = "1"', 'shipped = "4"'), "shipped option"),
        (lambda text: text.replace("[[runs]]", "[[run]]"), "did you mean runs"),
        (lambda text: text.replace("{passes} *", "{pases} *"), "{pases}"),
        (
            lambda text: text.replace('choices = ["spare"]', 'choices = ["spore"]'),
            "did you mean spare",
        ),
        (lambda text: text.replace('column = "value"', 'column = "values"'), "did you mean value"),
        (lambda text: text.replace('{ kind = "copies" }', '{ kind = "none" }'), "no row"),
        (lambda text: text.replace("why", "because", 1), "because"),
        (lambda text: text.replace("plus = 1", "plus = -9"), "positive"),
    ],
)
def test_a_wrong_file_is_refused(study: Path, change: Callable[[str], str], told: str) -> None:
    file = study / "readings.toml"
    file.write_text(change(file.read_text()))
    with pytest.raises(NandlabError) as error:
        load_readings(str(study))
    assert told in str(error.value)
    assert "readings.toml" in str(error.value)


def test_a_study_without_readings_is_refused() -> None:
    with pytest.raises(NandlabError, match=r"readings\.toml"):
        nl.search_readings("write-amplification")


def test_a_shared_choice_must_be_the_same(study: Path) -> None:
    other = study.parent / "other-study"
    other.mkdir()
    for file in study.iterdir():
        (other / file.name).write_text(file.read_text())
    own = (other / "readings.toml").read_text().replace('passes = "3"', 'passes = "4"')
    (other / "readings.toml").write_text(own)
    with pytest.raises(NandlabError, match="'passes' has other options"):
        nl.search_readings([str(study), str(other)])


def apart_from(study: Path) -> Path:
    """Another study, whose choices have other names."""
    other = study.parent / "made-up-apart"
    other.mkdir()
    for file in study.iterdir():
        (other / file.name).write_text(file.read_text())
    own = (other / "readings.toml").read_text()
    for name in ("spare", "passes", "rows"):
        own = own.replace(f'name = "{name}"', f'name = "its-{name}"')
    (other / "readings.toml").write_text(own.replace('["spare"]', '["its-spare"]'))
    (other / "study.toml").write_text(STUDY.replace('"made-up"', '"made-up-apart"'))
    return other


def test_studies_that_share_nothing_are_searched_apart(study: Path) -> None:
    names = [str(study), str(apart_from(study))]
    found = nl.search_readings(names, cache=study.parent / "cache", jobs=1)
    first, second = found.answer["searches"]
    assert (first["studies"], second["studies"]) == (["made-up"], ["made-up-apart"])
    # Twelve readings each, not their product.
    assert [one["design"]["readings"] for one in found.searches] == [12, 12]
    assert [one["searched_with"] for one in found.answer["readings"]] == [[], []]
    assert found.best["its-spare"] == found.best["spare"] == "28 %"
    assert {row["choice"] for row in found.effects.to_dicts()} >= {"spare", "its-spare"}
    # The digest is that of all, and workers and order of the runs do not change it.
    again = nl.search_readings(names, cache=study.parent / "again", jobs=2)
    assert again.answer["digest"] == found.answer["digest"] != first["digest"]
    alone = search(study)
    assert alone.answer["digest"] == first["digest"]
    assert "All studies" in found.text


def test_a_choice_shared_through_a_third_study_joins(study: Path) -> None:
    first, second = load_readings(str(study)), load_readings(str(apart_from(study)))
    both = replace(second, choices=(*first.choices, *second.choices))
    assert apart([first, second]) == [[first], [second]]
    assert apart([first, second, both]) == [[first, second, both]]


def test_an_interrupted_search_goes_on(study: Path) -> None:
    """The second batch is interrupted: the first is kept, and the same call does the rest."""
    readings = load_readings(str(study))
    jobs = needed([readings], design([readings], 100))
    cache = study.parent / "cache"

    def stop(done: int, _total: int, _label: str) -> None:
        if done == 1:
            raise KeyboardInterrupt

    assert simulate(jobs, cache, 1, stop) == ({}, 1, False)
    assert len(list(cache.glob("*.json"))) == 1
    rows, carried_out, is_whole = simulate(jobs, cache, 1, lambda done, total, label: None)
    assert (len(rows), carried_out, is_whole) == (2, 1, True)


def test_a_search_goes_on_after_ctrl_c(study: Path) -> None:
    """The command is stopped with its first results on disk; the next call does the rest."""
    file = study / "study.toml"
    slow = file.read_text().replace("blocks = 64", "blocks = 512")
    file.write_text(slow.replace("measured_writes = 1", "measured_writes = 40"))
    option = '"{0} %" = {{ set = {{ "axes.spare_percent" = {0} }} }}\n'
    options = "".join(option.format(percent) for percent in range(15, 25))
    readings = study / "readings.toml"
    readings.write_text(readings.read_text().replace('"28 %" =', f'{options}"28 %" ='))
    cache = study.parent / "cache"
    words = [sys.executable, "-m", "nandlab", "readings", str(study), "--jobs", "1", "--json"]
    words += ["--cache", str(cache)]
    stopped = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for _ in range(6_000):
        if list(cache.glob("*.json")) or stopped.poll() is not None:
            break
        time.sleep(0.01)
    stopped.send_signal(signal.SIGINT)
    _, errors = stopped.communicate(timeout=120)
    assert stopped.returncode == 130
    assert "The same command goes on there" in errors
    kept = len(list(cache.glob("*.json")))
    assert 0 < kept < 12
    again = json.loads(subprocess.run(words, capture_output=True, check=True).stdout)["result"]
    assert again["design"]["carried_out"] == 12 - kept
    whole = nl.search_readings(str(study), cache=study.parent / "whole", jobs=2)
    assert again["digest"] == whole.answer["digest"]


def test_a_signal_between_two_calls_of_the_engine_keeps_what_is_done(
    study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, calls = simulation._tables, []

    def tables(answer: dict[str, object]) -> object:
        calls.append(answer)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return read(answer)

    monkeypatch.setattr(simulation, "_tables", tables)
    cache = study.parent / "cache"
    with pytest.raises(nl.Interrupted, match=r"^Interrupted: 1 of the missing runs .* goes on"):
        nl.search_readings(str(study), cache=cache, jobs=1)
    assert len(list(cache.glob("*.json"))) == 1


def test_the_command_prints_what_json_holds(study: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    words = [sys.executable, "-m", "nandlab", "readings", str(study), "--jobs", "1"]
    words += ["--cache", str(tmp_path / "cache")]
    shown = subprocess.run([*words, "--out", str(page)], capture_output=True, text=True, check=True)
    told = subprocess.run([*words, "--json"], capture_output=True, text=True, check=True)
    answer = json.loads(told.stdout)["result"]
    assert set(answer["readings"][0]["choices"]) == {"spare", "passes", "rows"}
    assert f"Digest: {answer['digest']}" in shown.stdout
    for title in ("The nearest joint readings", "What each choice moves", "How far to trust it"):
        assert title in shown.stdout
        assert f"### {title}" in page.read_text()


def test_a_board_is_changed_in_its_section() -> None:
    text = "name = 'a'\n[costs]\npage_ns = 1\n[raw_nand]\npage_ns = 2\n"
    found = edited(text, {"raw_nand.page_ns": 5, "name": '"b"'}, Path("a.toml"))
    assert found == 'name = "b"\n[costs]\npage_ns = 1\n[raw_nand]\npage_ns = 5\n'
    with pytest.raises(NandlabError, match=r"raw_nand\.speed"):
        edited(text, {"raw_nand.speed": 1}, Path("a.toml"))


def cells(count: int, studies: int = 1) -> tuple[Cell, ...]:
    none = Formula("nothing", ({},))
    made = (("one", "two")[number % studies] for number in range(count))
    return tuple(
        Cell(study, "all", str(number), 10.0 + number, "printed", none, order=("o", str(number)))
        for number, study in enumerate(made)
    )


def test_level_and_shape_are_apart() -> None:
    own = cells(4)
    published = numpy.array([one.published for one in own])
    scores = Scores(own, numpy.array([published, 2 * published, published[::-1]]))
    assert scores.level[:2] == pytest.approx([0, numpy.log(2)])
    assert scores.shape[:2] == pytest.approx([0, 0])
    assert scores.shape[2] > 0.1
    assert scores.tau == pytest.approx([1, 1, -1])


def test_ties_count_as_nothing_and_nonsense_is_bounded() -> None:
    own = cells(3)
    scores = Scores(own, numpy.array([[7.0, 7.0, 7.0], [-1.0, 0.0, 1e9]]))
    assert scores.tau[0] == 0
    assert scores.level[1] == pytest.approx(numpy.log(10))


def test_every_study_counts_the_same_and_certain_cells_more() -> None:
    own = cells(5, studies=2)
    scores = Scores(own, numpy.ones((1, 5)))
    first = [w for w, one in zip(scores.weights, own, strict=True) if one.study == "one"]
    assert sum(first) == pytest.approx(0.5)
    doubtful = Cell(**{**own[0].__dict__, "certainty": "reconstructed"})
    assert doubtful.weight == own[0].weight / 2


def test_effects_are_those_of_a_worked_example() -> None:
    """A sum of two choices: the variances of 0 and 6, and of 0 and 2, are 9 and 1."""
    table = numpy.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    alone, total = zip(*effects(table, numpy.array([0.0, 2, 6, 8])), strict=True)
    assert alone == pytest.approx([0.9, 0.1])
    assert total == pytest.approx([0.9, 0.1])
    # An interaction belongs to no choice alone, and to both in total.
    alone, total = zip(*effects(table, numpy.array([1.0, 0, 0, 1])), strict=True)
    assert alone == pytest.approx([0, 0])
    assert total == pytest.approx([1, 1])


def test_orders_far_from_the_published_level_are_their_own() -> None:
    own = cells(3)
    scores = Scores(own, numpy.array([[900.0, 800, 700], [500, 500, 500]]))
    assert scores.tau == pytest.approx([-1, 0])


def planted(count: int) -> Scores:
    """Readings of three choices over 40 cells, all farther from each other than noise."""
    draw = numpy.random.default_rng(7)
    published = numpy.exp(draw.normal(2, 1, 40))
    effects = draw.normal(0, 0.4, (count, 40))
    own = tuple(Cell("one", "all", str(n), float(p), "printed", Formula("", ({},)))
                for n, p in enumerate(published))  # fmt: skip
    return Scores(own, published * numpy.exp(effects))


def test_planted_truths_are_found_again() -> None:
    assert planted(200).found_again(20) >= 19


def test_planted_truths_are_lost_in_noise() -> None:
    """The test above can fail: noise as large as what readings differ by hides the truth."""
    assert planted(200).found_again(20, noise=0.05) > 15
    scores = planted(200)
    draw, lost = numpy.random.default_rng(3), 0
    for _ in range(20):
        hidden = int(draw.integers(200))
        reference = scores.logarithms[hidden] + draw.normal(0, 3, 40)
        ranked = numpy.argsort(numpy.abs(scores.logarithms - reference) @ scores.weights)
        lost += scores.distance(hidden, scores.leading(ranked, 3)).min() > 0.05
    assert lost > 10


def test_readings_within_noise_count_as_one() -> None:
    own = cells(2)
    published = numpy.array([one.published for one in own])
    scores = Scores(own, numpy.array([published, published * 1.01, published * 2]))
    assert scores.leading([0, 1, 2], 3) == [0, 2]


def test_shuffled_references_fit_worse_than_the_true_one() -> None:
    own = cells(8)
    published = numpy.array([one.published for one in own])
    scores = Scores(own, numpy.array([published * 1.01, published[::-1]]))
    found = scores.shuffled(50)
    assert found is not None
    least, true = found
    assert true == pytest.approx(numpy.log(1.01))
    assert (least > true).mean() > 0.95
    assert Scores(cells(2), numpy.ones((1, 2))).shuffled(5) is None


def test_what_is_left_out_is_judged_by_what_others_chose() -> None:
    own = cells(4, studies=2)
    published = numpy.array([one.published for one in own])
    is_first = numpy.array([one.study == "one" for one in own])
    # The first reading fits the first study alone, the second reading the other one.
    fits = numpy.array([numpy.where(is_first, 1, 2), numpy.where(is_first, 2, 1)])
    found = Scores(own, published * fits).left_out()
    assert found["one"] == (1, pytest.approx(numpy.log(2)))
    assert found["two"] == (0, pytest.approx(numpy.log(2)))
    # A reading that is the same to the other cells may fit those that are left out better.
    free = numpy.array([numpy.where(is_first, 2, 1), numpy.where(is_first, 1.1, 1)])
    assert Scores(own, published * free).left_out()["one"] == (1, pytest.approx(numpy.log(1.1)))


def test_what_is_left_out_can_be_chosen_among_some_readings() -> None:
    own = cells(4, studies=2)
    published = numpy.array([one.published for one in own])
    is_first = numpy.array([one.study == "one" for one in own])
    fits = numpy.array([numpy.where(is_first, a, b) for a, b in ((1, 1), (2, 3), (4, 2))])
    scores = Scores(own, published * fits)
    assert scores.left_out()["one"] == (0, pytest.approx(0))
    # Without the first reading the second study chooses the third.
    assert scores.left_out([1, 2])["one"] == (2, pytest.approx(numpy.log(4)))
    assert scores.left_out([1, 2])["two"] == (1, pytest.approx(numpy.log(3)))


def test_shared_choices_are_compared_in_sample_and_left_out(study: Path) -> None:
    other = study.parent / "other-study"
    other.mkdir()
    for file in study.iterdir():
        (other / file.name).write_text(file.read_text().replace('"made-up"', '"other"'))
    answer = nl.search_readings([str(study), str(other)], cache=study.parent / "cache").answer
    spare = {one["option"]: one for one in answer["shared"] if one["choice"] == "spare"}
    # Both references were made at 28 %.
    assert spare["28 %"]["error"] == pytest.approx(0, abs=1e-9)
    assert spare["28 %"]["left_out"]["other"] == pytest.approx(0, abs=1e-9)
    assert spare["12.5 %"]["error"] > 0.05 < spare["12.5 %"]["left_out"]["made-up"]
    assert search(study).answer["shared"] == []


def test_a_bound_that_is_kept_counts_as_met(study: Path) -> None:
    file = study / "readings.toml"
    hedged = file.read_text().replace(
        "[[runs]]",
        '[[choice]]\nname = "hedge"\nunsaid = "a bound"\nwhy = "or more"\nshipped = "point"\n'
        '[choice.options]\npoint = { words = { hedge = "point" } }\n'
        'bound = { words = { hedge = "bound" } }\n\n[[runs]]',
    )
    hedged = hedged.replace('id = "factor"', 'id = "factor"\nhedge = "hedge"')
    file.write_text(hedged)
    reference = study / "reference.csv"
    lines = [f"{line},at_least" for line in reference.read_text().splitlines()]
    lines[0] = HEAD.strip() + ",relation"
    lines[-1] = "factor,random,-0.9,printed,at_least"
    reference.write_text("\n".join(lines) + "\n")
    readings = load_readings(str(study))
    table = design([readings], 100)
    rows, _, _ = simulate(needed([readings], table), study.parent / "cache", 1, lambda *_: None)
    found = Predictor([readings], table, rows).cell(readings.cells[-1])
    is_bound = table.table[:, [one.name for one in table.choices].index("hedge")] == 1
    assert found[is_bound] == pytest.approx(0.1)
    assert (found[~is_bound] > 1).all()


def test_the_chapter_of_a_report_shows_what_is_on_record(study: Path) -> None:
    assert chapter(study, "made-up") is None
    nl.search_readings(
        str(study), cache=study.parent / "cache", jobs=1, out=study / "readings.json"
    )
    found = chapter(study, "made-up")
    assert found is not None
    table, sentences = found
    assert len(table.rows) == 3
    assert ("passes summed", "1", "2") in [row[:3] for row in table.rows]
    assert any("off by 0 %, the shipped one by" in one for one in sentences)
    assert any("write the device once" in one for one in sentences)
    # The chapter is part of the report of a run.
    run = nl.run(study, jobs=1)
    page = run.report(study.parent / "report").read_text()
    assert "What the publication leaves unsaid" in page
    assert "passes summed" in page
