"""Policies in Python: the examples of the documents, their checks, and policies that are wrong."""

import json
import resource
import shutil
from pathlib import Path

import pytest

import nandlab as nl
from nandlab.cli import main
from nandlab.errors import NandlabError

pytestmark = pytest.mark.usefixtures("engine_is_built")

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "policies"
RECORDED = ROOT / "crates" / "host" / "sched" / "tests" / "data" / "kernel-decisions"
LINES_MAX = {"my_greedy.py": 20, "my_noop.py": 30, "my_layer.py": 120}

STUDY = """
name = "own"
title = "A policy of one's own"
question = "Does it do what the built-in one does?"
part = "generic-mlc-2x"
blocks = 64
seed = 3
repeats = 1
[workload]
kind = "uniform"
warm_up_writes = 1
measured_writes = 1
[axes]
ftl = ["page"]
cleaning = ["POLICY"]
spare_percent = [20]
pages_per_block = [64]
"""


def study(policy: str) -> str:
    return STUDY.replace("POLICY", policy)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the examples, which commands name as they lie in it."""
    for path in EXAMPLES.glob("*.py"):
        shutil.copy(path, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", LINES_MAX)
def test_an_example_is_as_short_as_promised(name: str) -> None:
    assert len((EXAMPLES / name).read_text(encoding="utf-8").splitlines()) <= LINES_MAX[name]


@pytest.mark.parametrize("policy", ["my_greedy.py:MyGreedy", "my_noop.py:MyNoop"])
def test_an_example_passes_its_check(here: Path, policy: str) -> None:
    assert nl.check(policy, sequences=60).is_clean


def test_the_layer_passes_its_check(here: Path) -> None:
    found = nl.check("my_layer.py:MyLayer", sequences=60)
    counts = {row["what"]: row["count"] for row in found.rows}
    assert found.is_clean, found.answer
    assert counts["power cuts"] > 200
    assert counts["power cuts in a rebuild"] > 100
    assert counts["blocks that went bad"] > 5


def wrong(here: Path, example: str, old: str, new: str) -> nl.PolicyCheck:
    """The check of an example in which one text is replaced."""
    text = (EXAMPLES / example).read_text(encoding="utf-8")
    assert old in text
    (here / "wrong.py").write_text(text.replace(old, new), encoding="utf-8")
    (made_of,) = (line for line in text.splitlines() if line.startswith("class "))
    return nl.check(f"wrong.py:{made_of.split()[1].split('(')[0]}", sequences=60)


def test_a_layer_that_acknowledges_before_it_programs_is_found(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "early.py").write_text(
        (EXAMPLES / "my_layer.py").read_text(encoding="utf-8")
        + """

class Early(MyLayer):
    \"\"\"Keeps the last page in RAM until the next one comes.\"\"\"

    held = None

    def write(self, flash, lpn, data):
        self.flush(flash)
        self.held = (lpn, data)

    def flush(self, flash):
        if self.held:
            lpn, data = self.held
            super().write(flash, lpn, data)
            self.held = None

    def read(self, flash, lpn):
        if self.held and self.held[0] == lpn:
            return self.held[1]
        return super().read(flash, lpn)

    def rebuild(self, flash):
        self.held = None
        super().rebuild(flash)
""",
        encoding="utf-8",
    )
    assert main(["check", "early.py:Early", "--sequences", "60"]) == 1
    told = capsys.readouterr().out
    assert "was acknowledged" in told
    steps = [line for line in told.splitlines() if line.strip()[:1].isdigit()]
    assert 2 <= len(steps) <= 4, told
    assert any("the power will fail" in step for step in steps)
    assert any("write" in step for step in steps)


def test_other_wrong_layers_are_found(here: Path) -> None:
    newest = "sorted(flash.scan(), key=lambda found: found[3])"
    found = wrong(here, "my_layer.py", newest, "flash.scan()")
    assert not found.is_clean, "the last of the scan is not the newest"
    found = wrong(here, "my_layer.py", "if flash.free_blocks == 0 and", "if False and")
    assert "no free block is left" in found.answer["broke"], "interrupted cleaning leaves no room"
    found = wrong(
        here, "my_layer.py", "self.place[lpn] = (block, page)", "self.place[lpn] = (block, 0)"
    )
    assert not found.is_clean, "it looks for all pages in the first of the block"
    found = wrong(
        here, "my_layer.py", "program(block, page, lpn, data)", "program(block, page, lpn)"
    )
    assert "has no bytes" in found.answer["broke"]
    found = wrong(
        here, "my_layer.py", "program(block, page, lpn,", "program(block, page, lpn + 999,"
    )
    assert "there is no logical page" in found.answer["broke"]
    found = wrong(here, "my_layer.py", "logical_pages // pages_per_block) + 2", "1 // 1) + 1")
    assert not found.is_clean, "it asks for too few blocks"


def test_wrong_schedulers_are_found(here: Path) -> None:
    given = "        return self.waiting.pop(0) if self.waiting else None\n"
    kept = (
        f"        self.last = {given.strip().removeprefix('return ')}\n        return self.last\n"
    )
    text = (EXAMPLES / "my_noop.py").read_text(encoding="utf-8")
    assert given in text
    latter = "        return next(iter(self.waiting[self.waiting.index(request) + 1 :]), None)\n"
    text = text.replace(given, kept).replace(latter, "        return getattr(self, 'last', None)\n")
    (here / "last.py").write_text(text, encoding="utf-8")
    found = nl.check("last.py:MyNoop", sequences=60)
    assert "which was dispatched" in found.answer["broke"] or "has ended" in found.answer["broke"]
    loses = "self.waiting.pop(0) if self.waiting else None"
    found = wrong(
        here, "my_noop.py", loses, "self.waiting.pop(0) if len(self.waiting) > 1 else None"
    )
    assert "never dispatched" in found.answer["broke"] or "with force" in found.answer["broke"]
    found = wrong(here, "my_noop.py", loses, "self.waiting[0] if self.waiting else None")
    assert "which has ended" in found.answer["broke"] or "gave before" in found.answer["broke"]
    found = wrong(here, "my_noop.py", "self.waiting.remove(absorbed)", "pass")
    assert not found.is_clean
    found = wrong(here, "my_noop.py", loses, "1 / 0")
    assert "division by zero (line" in found.answer["broke"]
    assert len(found.answer["operations"]) == 1


def test_a_wrong_cleaning_policy_is_found(here: Path) -> None:
    answer = "int(view.blocks[view.valid_pages.argmin()])"
    found = wrong(here, "my_greedy.py", answer, "10_000")
    assert "which is none of those that may be cleaned" in found.answer["broke"]
    found = wrong(here, "my_greedy.py", answer, "int(view.blocks[view.ages.argmin()])")
    assert 'add "ages" to looks_at' in found.answer["broke"]


def run(here: Path, policy: str) -> nl.Run:
    (here / "own.toml").write_text(study(policy), encoding="utf-8")
    return nl.run("own.toml", out=here / "out")


def test_greedy_in_python_gives_what_the_built_in_gives(here: Path) -> None:
    def results(policy: str) -> list[str]:
        run(here, policy)
        text = (here / "out" / "results.csv").read_text(encoding="utf-8")
        rows = text.replace(policy, "POLICY").splitlines()
        # A closed form is known of the built-in one alone.
        return [row for row in rows if ",predicted_waf," not in row]

    own = results("my_greedy.py:MyGreedy")
    assert own == results("greedy")
    assert any("cleaned" in line or "erases" in line for line in own)
    manifest = json.loads((here / "out" / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["inputs"] == []
    run(here, "my_greedy.py:MyGreedy")
    manifest = json.loads((here / "out" / "manifest.json").read_text(encoding="utf-8"))
    (kept,) = manifest["inputs"]
    assert kept["what"] == "policy"
    assert (here / "out" / kept["file"]).read_bytes() == (here / "my_greedy.py").read_bytes()


def test_noop_in_python_decides_as_the_built_in(here: Path) -> None:
    inputs = sorted(RECORDED.glob("*/*.in.csv"))
    assert len(inputs) >= 160
    for path in inputs:
        both = [
            nl.schedule(str(path), scheduler=name).text for name in ("noop", "my_noop.py:MyNoop")
        ]
        assert both[0] == both[1], path


def test_a_layer_in_python_runs_in_a_study_and_a_replay(here: Path) -> None:
    text = study("greedy").replace('"page"', '"page", "my_layer.py:MyLayer"')
    text = text.replace('cleaning = ["greedy"]', "")
    (here / "own.toml").write_text(text, encoding="utf-8")
    found = nl.run("own.toml", out=here / "out").frame
    rows = found.filter(found["metric"] == "waf").select("ftl", "value")
    waf = dict(rows.iter_rows())
    assert waf["page"] == pytest.approx(waf["my_layer.py:MyLayer"], rel=0.1)


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        ("none.py:A", "there is no file none.py"),
        ("my_greedy.py:MyGredy", "did you mean MyGreedy?"),
        ("my_greedy.py:", "has no policy"),
        ("broken.py:A", "line 1 of broken.py"),
        ("raises.py:A", "division by zero (line 2)"),
        ("columns.py:A", "looks_at has no column `colour`"),
        ("half.py:A", "the class has no absorb, dispatch; docs/policies.md"),
        ("my_greedy.py", "name the class after the file"),
        ("gredy", "did you mean greedy?"),
    ],
)
def test_what_cannot_be_loaded_is_told(
    here: Path, policy: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "broken.py").write_text("class A(:\n", encoding="utf-8")
    (here / "half.py").write_text(
        "from nandlab.policy import Scheduler\n"
        "class A(Scheduler):\n    def insert(self, now_ns, request): pass\n",
        encoding="utf-8",
    )
    (here / "raises.py").write_text("x = 1\ny = x / 0\n", encoding="utf-8")
    (here / "columns.py").write_text(
        "from nandlab.policy import CleaningPolicy\n"
        "class A(CleaningPolicy):\n    looks_at = ('colour',)\n"
        "    def choose(self, view): pass\n",
        encoding="utf-8",
    )
    assert main(["check", policy]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1


def test_an_exception_in_a_run_names_the_line(here: Path) -> None:
    text = (EXAMPLES / "my_greedy.py").read_text(encoding="utf-8")
    (here / "fails.py").write_text(text.replace("int(view", "int(vieuw"), encoding="utf-8")
    with pytest.raises(NandlabError, match=r"vieuw.*line 13 of .*fails.py, in choose"):
        run(here, "fails.py:MyGreedy")
    assert not (here / "out").exists()


def test_a_scheduler_of_the_wrong_kind_is_refused(here: Path) -> None:
    with pytest.raises(NandlabError, match="cleaning"):
        run(here, "my_noop.py:MyNoop")


def test_greedy_in_python_takes_at_most_five_times_as_long(here: Path) -> None:
    def seconds(policy: str) -> float:
        text = study(policy).replace("measured_writes = 1", "measured_writes = 40")
        (here / "own.toml").write_text(text, encoding="utf-8")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
        nl.run("own.toml", out=here / "out", jobs=1)
        return resource.getrusage(resource.RUSAGE_SELF).ru_utime - before

    seconds("greedy")
    pairs = [(seconds("my_greedy.py:MyGreedy"), seconds("greedy")) for _ in range(3)]
    assert min(own / built_in for own, built_in in pairs) <= 5, pairs


def test_a_class_of_an_installed_package_is_found_by_its_entry_point(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = here / "site"
    about = site / "installed_policies-1.0.dist-info"
    about.mkdir(parents=True)
    shutil.copy(here / "my_greedy.py", site / "installed_policies.py")
    (about / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: installed-policies\nVersion: 1.0\n", encoding="utf-8"
    )
    (about / "entry_points.txt").write_text(
        "[nandlab.policies]\nfewest = installed_policies:MyGreedy\n"
        "bad = installed_policies:Nothing\n",
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(str(site))
    assert nl.check("fewest", sequences=5).is_clean
    run(here, "fewest")
    manifest = json.loads((here / "out" / "manifest.json").read_text(encoding="utf-8"))
    assert [one["name"] for one in manifest["inputs"]] == ["fewest"]
    with pytest.raises(NandlabError, match="bad: installed_policies:Nothing cannot be loaded"):
        nl.check("bad")


def test_a_cell_depends_on_the_source_of_its_policy(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "own.toml").write_text(study("my_greedy.py:MyGreedy"), encoding="utf-8")

    def taken() -> bool:
        assert main(["run", "own.toml", "--out", "out", "--cells", "kept"]) == 0
        told = capsys.readouterr()
        return "1 of 1 cells were finished before" in " ".join((told.out + told.err).split())

    assert not taken()
    assert taken()
    source = here / "my_greedy.py"
    source.write_text(
        source.read_text(encoding="utf-8") + "\n# Another source.\n", encoding="utf-8"
    )
    assert not taken(), "another source may give another result"


def test_a_policy_travels_to_workers(here: Path) -> None:
    pytest.importorskip("distributed")
    (here / "own.toml").write_text(study("my_greedy.py:MyGreedy"), encoding="utf-8")
    whole = nl.run("own.toml", out=here / "one").digest
    assert nl.run("own.toml", out=here / "two", cluster="local:1").digest == whole
