"""The Python API: public names work, are documented, and errors say where, why and what next."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import nandlab as nl

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
TRACE = ROOT / "traces" / "small" / "fat-mp3-1.parquet"
LISTS = (
    "boards", "devices", "file_systems", "formats", "ftls", "guarantees", "oob_layouts", "parts",
    "policies", "schedulers", "studies", "tests", "workloads",
)  # fmt: skip


@pytest.fixture(scope="module")
def run() -> nl.Run:
    """A quick run of two layers on one workload."""
    chosen = {"axes.ftl": ["bast", "fast"], "axes.file_set": ["mp3"], "axes.file_system": ["fat"]}
    return nl.run("ftl-windows", quick=True, set=chosen)


@pytest.mark.parametrize("name", LISTS)
def test_a_list_is_a_frame_with_names(name: str) -> None:
    frame = getattr(nl, name)()
    assert frame.height > 0
    assert frame["name"].is_unique().all()


def test_a_run_has_rows_claims_and_figures(run: nl.Run) -> None:
    assert run.name == "ftl-windows"
    assert run.is_quick
    assert not run.is_interrupted
    assert run.folder is None
    # An axis of numbers is a number.
    assert run.frame["processes"].dtype.is_integer()
    wide = run.wide("erases", "page_programs")
    assert set(wide["ftl"]) == {"bast", "fast"}
    assert wide["erases"].null_count() == 0
    assert set(run.claims["status"]) == {"not judged"}
    assert {"id", "estimate", "low", "high", "n", "status"} <= set(run.claims.columns)
    assert run.conditions["part"] == "published-small-block"
    assert run.chart(run.charts[0]).identifier == run.charts[0]
    assert run.table(run.tables[0]).identifier == run.tables[0]
    assert run.headline in run._repr_html_()
    assert run.digest[:12] in repr(run)


def test_a_run_is_written_and_opened_again(run: nl.Run, tmp_path: Path) -> None:
    page = run.report(tmp_path / "report")
    assert run.headline in page.read_text(encoding="utf-8")
    out = tmp_path / "run"
    chosen = {"axes.ftl": ["fast"], "axes.file_set": ["mp3"], "axes.processes": [1]}
    written = nl.run("ftl-windows", quick=True, set=chosen, out=out, jobs=1)
    opened = nl.open_run(out)
    assert opened.digest == written.digest
    assert opened.folder == out
    assert opened.frame.equals(written.frame)
    assert opened.claims.equals(written.claims)


def test_a_study_is_checked_and_run(tmp_path: Path) -> None:
    study = nl.Study("ftl-windows")
    assert "translation layer" in study.question
    assert study.plan(quick=True)["quick"]
    assert "axis" in study._repr_html_()
    text = f"""
name = "own"
title = "Own"
question = "How much?"
seed = 1
repeats = 1
part = "published-small-block"

[workload]
kind = "trace"
file = "{TRACE}"

[axes]
ftl = ["fast"]
"""
    own = nl.Study.from_toml(text)
    assert own.name == "own"
    found = own.run(quick=True)
    assert found.claims.height == 0
    # One layer on one workload: there is a table, and nothing to draw or judge.
    assert (found.charts, found.tables) == ((), ("results",))
    assert found.headline == "Quick form: nothing is judged."
    page = found.report(tmp_path / "report").read_text(encoding="utf-8")
    assert "Means over repeats" in page


def test_a_replay_counts_what_the_chip_did() -> None:
    found = nl.replay(TRACE, ftl="bast", part="published-small-block", settings={"log_blocks": 8})
    assert found.counters["erases"] > 0
    assert found.wear["erase_count_max"] >= 1
    times = {row["operation"]: row for row in found.service_times.to_dicts()}
    # Trims are counted with all.
    assert times["all"]["requests"] >= times["read"]["requests"] + times["write"]["requests"] > 0
    assert 0 < times["write"]["p50_ns"] <= times["write"]["p9999_ns"] <= times["write"]["max_ns"]
    assert {"metric", "value", "unit"} == set(found.metrics.columns)
    assert "erases" in found._repr_html_() or found.metrics.height > 10


def test_a_script_and_its_power_cuts() -> None:
    text = "phase work\nput a 644 3000 1000 x 1 fsync\nend\n"
    done = nl.script(f"mount jffs2 mtd0 -\n{text}", blocks=16)
    assert done.phases["programs"].sum() > 0
    assert done.failures == ()
    assert done.findings == ()
    cut = nl.crash(f"mount jffs2 mtd0 -\n{text}", fs="jffs2", blocks=16, every=7)
    assert cut.is_clean
    assert cut.cuts > 0
    assert cut.violations.height == 0
    assert "no violation" in cut._repr_html_()


def test_an_image_is_made_listed_checked_compared_and_extracted(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "a b").write_text("text " * 100, encoding="utf-8")
    image = tmp_path / "made.jffs2"
    made = nl.image.make(image, fs="jffs2", source=tree)
    assert made.answer["names"] == 2
    listing = nl.image.ls(image, hashes=True)
    assert set(listing.frame["path"]) == {".", "a b"}
    assert listing.frame["sha256"].null_count() == 1
    assert listing.is_clean
    assert nl.image.check(image).rows == []
    assert nl.image.info(image, fs="jffs2").answer["form"]["fs"] == "jffs2"
    assert nl.image.diff(image, image).is_clean
    (tree / "more").write_text("x", encoding="utf-8")
    other = tmp_path / "other.yaffs2"
    nl.image.make(other, fs="yaffs2", source=tree, part="nandsim-64MiB", page_size=2048)
    found = nl.image.diff(image, other)
    assert not found.is_clean
    assert "more" in set(found.frame["path"])
    nl.image.extract(image, tmp_path / "out")
    assert (tmp_path / "out" / "a b").read_text(encoding="utf-8") == "text " * 100


def test_requests_are_scheduled_and_traces_converted(tmp_path: Path) -> None:
    table = "time_us,pid,op,sync,sector,sectors\n0,1,W,0,800,8\n0,2,R,1,100,8\n"
    found = nl.schedule(table, scheduler="deadline", settings={"fifo_batch": 3})
    assert found.frame["id"].to_list() == ["0", "1"]
    summary = nl.convert(TRACE, tmp_path / "again.parquet").answer
    assert summary["records"] > 0
    assert (tmp_path / "again.parquet").is_file()


def test_items_are_listed_and_explained() -> None:
    assert {"bast", "fast"} <= {row["name"] for row in nl.listing("ftls").rows}
    assert {row["list"] for row in nl.explain("ubifs").answer} == {"file-systems", "guarantees"}
    steps = nl.explain("bast", ops="W0 R0", settings={"log_blocks": 2}).answer["steps"]
    assert [step["operation"] for step in steps] == ["W0", "R0"]


def test_a_file_that_is_lost_loses_no_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error hands over what was finished."""

    def refuse(*_: object) -> None:
        raise nl.NandlabError("no room")

    monkeypatch.setattr("nandlab.outputs.keep", refuse)
    with pytest.raises(nl.NandlabError) as error:
        nl.replay(TRACE, ftl="bast", part="published-small-block", out=tmp_path / "out")
    assert isinstance(error.value.result, nl.Replay)
    assert error.value.result.counters["erases"] > 0


def test_candidates_stand_side_by_side() -> None:
    workload = ROOT / "workloads" / "compare" / "copy-files.toml"
    found = nl.compare(ftl=["bast", "fast"], workload=workload, part="published-small-block")
    assert found.table.columns == ["criterion", "BAST", "FAST"]
    assert found.headline
    assert len(found.sentences) >= 1
    assert found.run.frame.height > 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nl.run("ftl-window"), "did you mean ftl-windows"),
        (lambda: nl.run("ftl-windows", jobs=0), "must be at least 1"),
        (lambda: nl.run("ftl-windows", seed=-1), "must be at least 0 and below 2"),
        (lambda: nl.open_run("nowhere"), "nowhere"),
        (lambda: nl.replay(TRACE, ftl="fist"), "fast"),
        (lambda: nl.replay("nowhere.parquet", ftl="fast"), "nowhere.parquet"),
        (lambda: nl.script("put a\n", fs="jffs2"), "script:1"),
        (lambda: nl.script("sync\n", fs="jffs2", blocks=0), "--blocks: 0 must be at least 1"),
        (
            lambda: nl.replay(TRACE, ftl="fast", logical_size="9 Mb"),
            "--logical-size: .* is not a size",
        ),
        (
            lambda: nl.replay(TRACE, ftl="fast", trace_device=-1),
            "--trace-device: -1 must be at least 0",
        ),
        (lambda: nl.convert(TRACE, "x.csv"), "write to x.parquet"),
        (lambda: nl.schedule(scheduler="noop"), "requests are missing or given twice"),
        (lambda: nl.schedule("nowhere.csv", scheduler="noop", hz=0), "nowhere.csv"),
        (lambda: nl.explain("ubfs"), "did you mean ubifs"),
        (lambda: nl.image.ls("nowhere"), "nowhere"),
        (lambda: nl.image.make("x", fs="jffs2"), "--from is missing"),
        (lambda: nl.image.make("x", fs="jffs2", source=".", label="a"), "--label: .* nilfs2 only"),
        (lambda: nl.image.make("x", fs="nilfs2", source=".", oob=True), "--oob: .* raw NAND"),
        (lambda: nl.crash("sync\n", fs="jffs3"), "jffs"),
        (lambda: nl.compare(fs="jffs2", workload="nowhere.toml"), "nowhere.toml"),
        (lambda: nl.Study.from_toml("name = \n"), "study.toml"),
    ],
)
def test_errors_name_place_and_suggestion(call: object, message: str) -> None:
    assert callable(call)
    with pytest.raises(nl.NandlabError, match=message):
        call()


def test_a_metric_a_figure_and_a_table_that_do_not_exist(run: nl.Run) -> None:
    for call in (run.wide, run.chart, run.table):
        with pytest.raises(nl.NandlabError):
            call("erasez")


def test_the_reference_covers_every_public_name() -> None:
    done = subprocess.run([sys.executable, "scripts/api_page.py", "--check"], cwd=ROOT, check=False)
    assert done.returncode == 0, "docs/api.md is old: make docs"
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    missing = [name for name in nl.__all__ if not name.startswith("_") and f"nl.{name}" not in text]
    assert missing == []
    assert set(dir(nl)) == set(nl.__all__)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path) -> None:
    """Every cell is executed, and what a cell ends in is shown as a notebook shows it."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    space: dict[str, object] = {}
    before = Path.cwd()
    os.chdir(ROOT)
    try:
        for cell in cells:
            if cell["cell_type"] == "code":
                assert cell["outputs"] == [], "notebooks are kept without outputs"
                shown = _execute("".join(cell["source"]), space)
                html = getattr(shown, "_repr_html_", None)
                assert html is None or html()
    finally:
        os.chdir(before)


def _execute(text: str, space: dict[str, object]) -> object:
    tree = ast.parse(text)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), space)
    if last is None:
        return None
    assert isinstance(last, ast.Expr)
    return eval(compile(ast.Expression(last.value), "cell", "eval"), space)


def test_three_notebooks_are_there() -> None:
    assert len(NOTEBOOKS) == 3
