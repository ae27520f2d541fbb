"""Places for results that cannot be written to: before the work, and after it."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from made_up import answered
from places import fill, own_disk
from strace_logs import LOG
from synthetic_results import REFERENCE, engine_answer

from nandlab import study_runs
from nandlab.cli import main
from nandlab.errors import NandlabError
from nandlab.frame import read

NANDLAB = (sys.executable, "-m", "nandlab")
SMALL = Path(__file__).parents[2] / "traces/small/fat-mp3-1.parquet"
STUDY = str(REFERENCE.with_name("study.toml"))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with own_disk(tmp_path / "disk", "-o", "size=1m") as folder:
        yield folder


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Path]:
    with own_disk(tmp_path / "read-only", "-o", "ro,size=1m") as folder:
        yield folder


COMMANDS: dict[str, list[str]] = {
    "run": ["run", "ftl-windows", "--quick", "--out", "OUT"],
    "compare": ["compare", "--fs", "jffs2", "--workload", "WORKLOAD", "--out", "OUT"],
    "replay": ["replay", str(SMALL), "--ftl", "page", "--out", "OUT"],
    "validate": ["validate", "--out", "OUT"],
    "convert": ["convert", str(SMALL), "OUT"],
    "fio": ["fio", "JOB", "--device", "nvme-ssd", "--output", "OUT"],
    "fio-logs": ["fio", "JOB", "--device", "nvme-ssd", "--logs", "OUT"],
    "crash": ["crash", "SCRIPT", "--fs", "jffs2", "--out", "OUT"],
    "script-counts": ["script", "SCRIPT", "--fs", "jffs2", "--counts", "OUT"],
    "script-dump": ["script", "SCRIPT", "--fs", "jffs2", "--dump", "OUT"],
    "script-dumps": ["script", "SCRIPT", "--fs", "jffs2", "--dump-dir", "OUT"],
    "script-seq": ["script", "SCRIPT", "--fs", "jffs2", "--seq", "OUT"],
    "strace-import": ["strace-import", "LOG", "--root", "/r", "--out", "OUT"],
    "make": ["image", "make", "OUT", "--fs", "jffs2", "--from", "TREE"],
    "extract": ["image", "extract", "IMAGE", "OUT"],
    "capture": ["capture", "--out", "OUT"],
    "serve-raw": ["serve-raw", "--script", "SCRIPT", "--output", "OUT"],
}
"""Every command that writes, with the place where it does."""


def _words(name: str, out: str, tmp_path: Path) -> list[str]:
    tree = tmp_path / "tree"
    tree.mkdir(exist_ok=True)
    (tree / "file").write_text("text", encoding="utf-8")
    script = tmp_path / "script.ops"
    script.write_text("put a 644 4k 4096 x 1\n", encoding="utf-8")
    image = tmp_path / "image"
    if name == "extract" and not image.exists():
        make = ["image", "make", str(image), "--fs", "jffs2", "--from", str(tree)]
        assert main(make) == 0
    workload = Path(__file__).parents[2] / "workloads/compare/update.toml"
    places = {"OUT": out, "SCRIPT": str(script), "TREE": str(tree), "IMAGE": str(image)}
    places["WORKLOAD"] = str(workload)
    job = tmp_path / "job.fio"
    job.write_text("[a]\nsize=64k\ndirect=1\nwrite_lat_log\n", encoding="utf-8")
    places["JOB"] = str(job)
    log = tmp_path / "strace.log"
    log.write_text(LOG, encoding="ascii")
    places["LOG"] = str(log)
    return [places.get(word, word) for word in COMMANDS[name]]


def _refuses_at_once(
    name: str,
    out: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> str:
    """The command fails before its work, which is made to fail loudly here."""

    def work(*_: object, **__: object) -> Any:
        raise AssertionError("the work began")

    words = _words(name, out, tmp_path)
    capsys.readouterr()
    calls = ("run_study", "replay", "convert", "run_script", "cut_script")
    for call in calls:
        monkeypatch.setattr(f"nandlab.engine.{call}", work)
    if name == "make":
        monkeypatch.setattr("nandlab.engine.call", work)
    monkeypatch.setattr("nandlab.validation.comparison.compare", work)
    monkeypatch.setattr("nandlab.capture.run_machine", work)
    monkeypatch.setattr("nandlab.labs.raw_chip.run_machine", work)
    assert main(words) == 2
    error = capsys.readouterr().err
    assert error.startswith("nandlab: error: ")
    assert len(error.splitlines()) == 1
    return error


@pytest.mark.usefixtures("engine_is_built")
@pytest.mark.parametrize("name", COMMANDS)
def test_a_read_only_place_is_noticed_first(
    name: str,
    read_only: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    error = _refuses_at_once(name, str(read_only / "out"), tmp_path, capsys, monkeypatch)
    assert "Read-only" in error


@pytest.mark.usefixtures("engine_is_built")
@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "extract"])
def test_a_full_disk_is_noticed_first(
    name: str,
    small_disk: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fill(small_disk)
    error = _refuses_at_once(name, str(small_disk / "out"), tmp_path, capsys, monkeypatch)
    assert "No space" in error


@pytest.mark.usefixtures("engine_is_built")
@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in ("extract", "make")])
def test_a_name_that_is_no_text_is_noticed_first(
    name: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = os.fsdecode(os.fsencode(tmp_path) + b"/o\xfft")
    error = _refuses_at_once(name, out, tmp_path, capsys, monkeypatch)
    assert "not UTF-8" in error


def _run_whose_engine(
    spoil: Any, out: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> str:
    """Runs a study during which something happens to its target; the error."""
    answer = engine_answer()
    answer["study"]["reference"] = None

    def run_study(*_: object, **__: object) -> Any:
        spoil()
        return answered(answer)

    monkeypatch.setattr("nandlab.engine.run_study", run_study)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    with pytest.raises(NandlabError) as error:
        study_runs.run(study_runs.RunRequest("ftl-windows", STUDY, out))
    return str(error.value)


def _kept(message: str) -> Path:
    _, _, place = message.partition("the results are in ")
    return Path(place)


@pytest.mark.usefixtures("engine_is_built")
def test_results_survive_a_place_that_vanishes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = tmp_path / "parent"
    parent.mkdir()

    def spoil() -> None:
        shutil.rmtree(parent)
        parent.write_text("something else is here now", encoding="utf-8")

    message = _run_whose_engine(spoil, parent / "out", monkeypatch, tmp_path)
    assert read(_kept(message)).frame.height


@pytest.mark.usefixtures("engine_is_built")
def test_results_survive_a_disk_that_fills_up(
    small_disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = _run_whose_engine(lambda: fill(small_disk), small_disk / "out", monkeypatch, tmp_path)
    assert "No space" in message
    assert read(_kept(message)).frame.height
    assert not (small_disk / "out").exists()


@pytest.mark.usefixtures("engine_is_built")
def test_counts_survive_a_disk_that_fills_up(
    small_disk: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    script = tmp_path / "script.ops"
    script.write_text("phase a\nput a 644 4k 4096 x 1\nend\n", encoding="utf-8")
    from nandlab import engine

    carry_out = engine.run_script

    def full(*arguments: Any) -> Any:
        answer = carry_out(*arguments)
        fill(small_disk)
        return answer

    monkeypatch.setattr("nandlab.engine.run_script", full)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    counts = small_disk / "counts.csv"
    assert main(["script", str(script), "--fs", "jffs2", "--counts", str(counts)]) == 2
    kept = _kept(capsys.readouterr().err.strip())
    assert "reads" in kept.read_text(encoding="utf-8")


LINES = "phase a\nput a 644 40k 4096 x 1\nsnap kept\n"
REWRITES = "".join(f"write a 0 4k 4096 x {number} fsync\n" for number in range(12_000))
FILES = {"--dump": LINES, "--dump-dir": LINES, "--seq": LINES + REWRITES}
"""Options of `script` that write files of more than the disk takes, with a script each."""


@pytest.mark.usefixtures("engine_is_built")
@pytest.mark.parametrize("option", FILES)
def test_files_of_a_script_survive_a_disk_that_fills_up(
    option: str,
    small_disk: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fill(small_disk, leave_bytes=80 << 10)
    script = tmp_path / "script.ops"
    script.write_text(f"{FILES[option]}end\n", encoding="utf-8")
    words = ["script", str(script), "--fs", "jffs2", "--blocks", "64"]
    whole = tmp_path / "whole"
    assert main([*words, option, str(whole)]) == 0
    shown = capsys.readouterr().out
    scratch = tmp_path / "temporary"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    assert main([*words, option, str(small_disk / "out")]) == 2
    told = capsys.readouterr()
    # The counts are shown as if nothing had happened.
    assert told.out == shown
    assert "No space left on device; the results are in" in told.err
    kept = _kept(told.err.strip())
    wanted = next(whole.iterdir()) if whole.is_dir() else whole
    assert kept.read_bytes() == wanted.read_bytes()
    assert [path.name for path in small_disk.iterdir()] in (["filler"], ["filler", "out"])


def _shell(line: str) -> tuple[int, str]:
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", line], capture_output=True, encoding="utf-8", check=False
    )
    return done.returncode, done.stderr


@pytest.mark.usefixtures("engine_is_built")
@pytest.mark.parametrize(
    "words", ["list ftls", "list ftls --output-format json", "explain bast", "list parts"]
)
def test_closed_and_full_standard_outputs(words: str) -> None:
    command = f"{' '.join(NANDLAB)} {words}"
    assert _shell(f"{command} >&-") == (0, "")
    assert _shell(f"{command} >&- 2>&-") == (0, "")
    assert _shell(f"{command} <&-") == (0, "")
    # A pipe holds 64 KiB, so that a short table is written before its reader goes.
    code, errors = _shell(f"{command} | true")
    assert (code in (0, 141), errors) == (True, "")
    code, errors = _shell(f"({command}; echo $? >&2) | (exec <&-; sleep 2)")
    assert errors.strip() in ("0", "141")
    code, errors = _shell(f"{command} >/dev/full")
    assert (code, errors) == (2, "nandlab: error: No space left on device\n")


@pytest.mark.usefixtures("engine_is_built")
def test_an_endless_table_is_refused() -> None:
    code, errors = _shell(f"yes 0,1,R,1,8,8 | {' '.join(NANDLAB)} schedule - --scheduler noop")
    assert code in (2, 141)
    assert "larger than 256 MiB" in errors


@pytest.mark.usefixtures("engine_is_built")
def test_a_pipe_is_no_image(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for command in ("ls", "check", "info"):
        assert main(["image", command, str(pipe)]) == 2
        assert "this is no file" in capsys.readouterr().err


@pytest.mark.usefixtures("engine_is_built")
def test_names_that_are_no_text_in_json(tmp_path: Path) -> None:
    folder = os.fsdecode(os.fsencode(tmp_path) + b"/f\xff")
    Path(folder).mkdir()
    trace = f"{folder}/trace.parquet"
    shutil.copyfile(SMALL, trace)
    done = subprocess.run(
        [*NANDLAB, "replay", trace, "--ftl", "page", "--output-format", "json"],
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode("utf-8")
    script = f"{folder}/script.ops"
    Path(script).write_text("put a 644 4k 4096 x 1\n", encoding="utf-8")
    for words in (
        ["script", script, "--fs", "jffs2"],
        ["script", script, "--fs", "jffs2", "--image", f"{folder}/none"],
        ["image", "ls", f"{folder}/none"],
        ["crash", script, "--fs", "jffs2", "--output-format", "json"],
        ["run", f"{folder}/none.toml"],
        ["report", folder],
        ["index", folder],
    ):
        done = subprocess.run([*NANDLAB, *words], capture_output=True, check=False)
        assert done.returncode in (0, 2), done.stderr
        assert b"Traceback" not in done.stderr
        assert b"panicked" not in done.stderr
