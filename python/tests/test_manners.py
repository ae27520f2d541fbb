"""What all commands share: JSON of one shape, names of options, completion, templates."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from command_table import commands
from mqsim_inputs import Files
from strace_logs import LOG

import nandlab as nl
from nandlab import __version__
from nandlab.cli import main
from nandlab.terminal.output import print_json

pytestmark = pytest.mark.usefixtures("engine_is_built")

ROOT = Path(__file__).resolve().parents[2]
WITHOUT_JSON = {("completion",)}
"""Its answer is a program."""

NEEDS_CLIENTS = {("serve",), ("serve-ctl",)}
"""Work until somebody ends them: the tests of servers have their JSON."""

NEEDS_LONG = {("capture",), ("readings",), ("serve-crash",), ("serve-raw",), ("validate",)}
"""Boots a machine, or takes minutes: tests of their own have their JSON."""


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory, run_folder: Path) -> dict[str, str]:
    """What the commands read, by name."""
    folder = tmp_path_factory.mktemp("manners")
    tree = folder / "tree"
    tree.mkdir()
    (tree / "file").write_text("text " * 100, encoding="utf-8")
    script = folder / "script.ops"
    script.write_text("put a 644 8k 4096 x 1 fsync\nunlink a\n", encoding="utf-8")
    workload = folder / "workload.toml"
    workload.write_text('[workload]\nkind = "script"\nfile = "script.ops"\n', encoding="utf-8")
    table = folder / "table.csv"
    table.write_text("time_us,pid,op,sync,sector,sectors\n0,1,R,1,8,8\n", encoding="utf-8")
    study = folder / "tiny.toml"
    study.write_text(
        'name = "tiny"\ntitle = "t"\nquestion = "q"\nseed = 1\npart = "published-small-block"\n'
        'blocks = 64\n[workload]\nkind = "uniform"\nwarm_up_writes = 1\nmeasured_writes = 1\n'
        '[axes]\nftl = ["page", "bast"]\n',
        encoding="utf-8",
    )
    space = folder / "space.toml"
    space.write_text(f'base = "{study}"\n[space]\n"axes.ftl" = ["page", "bast"]\n', "utf-8")
    runs = folder / "runs"
    shutil.copytree(run_folder, runs / "one")
    image = folder / "image.jffs2"
    assert main(["image", "make", str(image), "--fs", "jffs2", "--from", str(tree)]) == 0
    found = {"tree": tree, "script": script, "workload": workload, "table": table, "runs": runs}
    found |= {"study": study, "space": space, "image": image, "folder": folder, "run": runs / "one"}
    fio = folder / "job.fio"
    fio.write_text("[a]\nsize=64k\ndirect=1\n", encoding="utf-8")
    log = folder / "strace.log"
    log.write_text(LOG, encoding="ascii")
    served = folder / "served.log"
    card = {"capacity": "4MiB", "precondition": "none", "time": "none"}
    with nl.serve("emmc-5.1-64gb", listen="tcp:127.0.0.1:0", log=served, **card):
        pass
    found |= {"fio": fio, "log": log, "served": served}
    found |= dict(zip(("mqsim_device", "mqsim_workload"), Files(folder).paths, strict=True))
    found |= {"trace": ROOT / "traces/small/fat-mp3-1.parquet"}
    return {name: str(path) for name, path in found.items()}


CALLS = {
    ("run",): "run {study} --jobs 1 --out {folder}/out",
    ("report",): "report {run}",
    ("compare",): "compare --ftl page,bast --blocks 2048 --workload {folder}/trace.toml",
    ("index",): "index {runs}",
    ("search",): "search {space} --objective waf --runs 2 --jobs 1 --out {folder}/search",
    ("replay",): "replay {trace} --ftl page",
    ("check",): "check greedy --sequences 3",
    ("life",): "life {trace} --ftl page --blocks 2048 --rate 1GiB/day",
    ("fio",): "fio {fio} --device nvme-ssd",
    ("mqsim",): "mqsim {mqsim_device} {mqsim_workload}",
    ("schedule",): "schedule {table} --scheduler noop",
    ("script",): "script {script} --fs jffs2",
    ("strace-import",): "strace-import {log}",
    ("crash",): "crash {script} --fs jffs2 --every 9 --jobs 1",
    ("crash-search",): "crash-search --fs jffs2 --blocks 32 --pages-per-block 16 --runs 1",
    ("serve-replay",): "serve-replay {served}",
    ("image", "make"): "image make {folder}/again.jffs2 --fs jffs2 --from {tree}",
    ("image", "ls"): "image ls {image}",
    ("image", "extract"): "image extract {image} {folder}/extracted",
    ("image", "check"): "image check {image}",
    ("image", "info"): "image info {image}",
    ("image", "diff"): "image diff {image} {image}",
    ("convert",): "convert {trace} {folder}/converted.parquet",
    ("list",): "list parts",
    ("explain",): "explain ubifs",
    ("new",): "new study mine --out {folder}",
}


def _answer(capsys: pytest.CaptureFixture[str], words: list[str]) -> object:
    capsys.readouterr()
    assert main(words) == 0
    return json.loads(capsys.readouterr().out)


def test_every_command_is_called() -> None:
    assert set(commands()) == set(CALLS) | WITHOUT_JSON | NEEDS_LONG | NEEDS_CLIENTS


@pytest.mark.parametrize("words", CALLS, ids=" ".join)
def test_json_has_one_shape(
    words: tuple[str, ...], places: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    trace = f'[workload]\nkind = "trace"\nfile = "{places["trace"]}"\n'
    (Path(places["folder"]) / "trace.toml").write_text(trace, encoding="utf-8")
    called = CALLS[words].format(**places).split()
    answer = _answer(capsys, [*called, "--json"])
    assert isinstance(answer, dict)
    assert list(answer) == ["command", "version", "result"]
    assert answer["command"] == " ".join(words)
    assert answer["version"] == __version__
    assert answer["result"] or words == ("image", "diff")


def test_the_longer_form_is_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    short = _answer(capsys, ["list", "ftls", "--json"])
    assert short == _answer(capsys, ["list", "ftls", "--output-format", "json"])
    assert main(["list", "ftls", "--json", "--output-format", "csv"]) == 2
    assert "exclude each other" in capsys.readouterr().err


def test_numbers_that_json_lacks_are_null(capsys: pytest.CaptureFixture[str]) -> None:
    print_json("test", {"a": [float("inf"), 1.5], "b": (float("nan"),)})
    assert json.loads(capsys.readouterr().out)["result"] == {"a": [None, 1.5], "b": [None]}


@pytest.mark.parametrize("words", sorted([*CALLS, *NEEDS_LONG]), ids=" ".join)
def test_options_have_one_name_and_one_meaning(words: tuple[str, ...]) -> None:
    names = {option.name for option in commands()[words]}
    assert {"--json", "--output-format"} <= names
    assert "--workers" not in names
    # The format of a trace; the form of an answer is --output-format.
    assert ("--format" in names) is (words in (("replay",), ("convert",), ("life",)))


def test_commands_that_run_side_by_side_take_jobs() -> None:
    with_jobs = {words for words, options in commands().items() if "--jobs" in map(_name, options)}
    assert with_jobs == {
        ("run",),
        ("compare",),
        ("crash",),
        ("crash-search",),
        ("readings",),
        ("search",),
    }


def _name(option: object) -> str:
    return str(getattr(option, "name", ""))


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_a_script_of_the_shell(
    shell: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["completion", shell]) == 0
    text = capsys.readouterr().out
    for word in ("compare", "extract", "output-format"):
        assert word in text
    if program := shutil.which(shell):
        script = tmp_path / "script"
        script.write_text(text, encoding="utf-8")
        subprocess.run([program, "-n", str(script)], check=True)


def test_bash_completes_commands_and_options(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["completion", "bash"]) == 0
    script = tmp_path / "completion.bash"
    script.write_text(capsys.readouterr().out, encoding="utf-8")

    def completed(*words: str) -> list[str]:
        line = " ".join(f"'{word}'" for word in ("nandlab", *words))
        program = (
            f'source "{script}"; COMP_WORDS=({line}); COMP_CWORD={len(words)}; '
            'COMPREPLY=(); _nandlab; printf "%s\\n" "${COMPREPLY[@]}"'
        )
        done = subprocess.run(
            ["bash", "-c", program], capture_output=True, encoding="utf-8", check=True
        )
        return [word.strip() for word in done.stdout.split()]

    assert "compare" in completed("comp")
    assert "extract" in completed("image", "ex")
    assert "--quick" in completed("run", "--qu")
    assert "ftls" in completed("list", "ft")


def test_a_template_of_a_study_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["new", "study", "my-study"]) == 0
    assert "Next: nandlab run my-study/study.toml" in capsys.readouterr().out
    words = ["--set", "blocks=64", "--set", "repeats=1", "--set", "axes.spare_percent=28"]
    assert main(["run", "my-study/study.toml", "--out", "out", *words]) == 0
    assert (tmp_path / "out/report.html").is_file()


def test_a_template_of_a_part_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new", "part", "my-part", "--out", str(tmp_path)]) == 0
    trace = str(ROOT / "traces/small/fat-mp3-1.parquet")
    part = str(tmp_path / "my-part.toml")
    assert main(["replay", trace, "--ftl", "page", "--part", part]) == 0
    assert "my-part" in capsys.readouterr().out


def test_a_template_of_a_workload_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new", "workload", "mine", "--out", str(tmp_path)]) == 0
    workload = str(tmp_path / "mine.toml")
    assert main(["compare", "--fs", "jffs2", "--blocks", "512", "--workload", workload]) == 0
    assert "JFFS2" in capsys.readouterr().out


def test_a_template_replaces_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.ops").write_text("precious", encoding="utf-8")
    assert main(["new", "workload", "mine", "--out", str(tmp_path)]) == 2
    assert "mine.ops: the file exists; give another name" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.ops"]
    assert (tmp_path / "mine.ops").read_text(encoding="utf-8") == "precious"


@pytest.mark.parametrize("name", ["", "..", "a/b", ".hidden", "tab\t", "ü", "x" * 65])
def test_a_name_that_is_a_path_is_refused(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["new", "part", name, "--out", str(tmp_path)]) == 2
    assert "is not a name" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
