"""Commands that answer at once."""

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars
import pytest

from nandlab.api.listings import KINDS, Kind, listing
from nandlab.cli import main
from nandlab.engine import run_study
from nandlab.frame.run_directory import MANIFEST, RESULTS_PARQUET


def _prints(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(arguments) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    text = _prints(capsys, "--help")
    for verb in ("run", "replay", "list", "explain", "convert", "capture", "compare", "report"):
        assert f" {verb} " in text
    assert _prints(capsys, "--version").strip() == "0.1.0"


@pytest.mark.usefixtures("engine_is_built")
@pytest.mark.parametrize("kind", ["formats", "ftls", "parts", "policies", "studies", "workloads"])
def test_every_list_in_every_form(capsys: pytest.CaptureFixture[str], kind: str) -> None:
    names = [
        entry["name"] for entry in json.loads(_prints(capsys, "list", kind, "--json"))["result"]
    ]
    assert names
    table = _prints(capsys, "list", kind)
    lines = _prints(capsys, "list", kind, "--output-format", "csv").splitlines()
    assert lines[0] == "name,summary"
    for name, line in zip(names, lines[1:], strict=True):
        assert name in table
        assert line.startswith(name)


@pytest.mark.usefixtures("engine_is_built")
def test_explain_shows_what_every_operation_did(capsys: pytest.CaptureFixture[str]) -> None:
    text = _prints(capsys, "explain", "bast", "--ops", "W0 W1 W0 R0", "--pages-per-block", "4")
    assert "W0" in text
    assert "L0*" in text
    assert "PD1" in text


@pytest.mark.usefixtures("engine_is_built")
@pytest.mark.parametrize("kind", KINDS)
def test_explain_knows_everything_in_every_list(
    capsys: pytest.CaptureFixture[str], kind: Kind
) -> None:
    for entry in listing(kind).rows:
        shown = _prints(capsys, "explain", entry["name"].upper())
        assert f"{entry['name']}: {' '.join(entry['summary'].split())} ({kind})" in shown
        found = json.loads(_prints(capsys, "explain", entry["name"], "--output-format", "json"))
        assert kind in [one["list"] for one in found["result"]]


@pytest.mark.usefixtures("engine_is_built")
def test_a_dry_run_writes_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = _prints(capsys, "run", "ftl-windows", "--dry-run")
    assert "nothing was run" in text
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("engine_is_built")
def test_replay_from_a_file_in_every_form(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    trace = tmp_path / "tiny.csv"
    lines = [
        f"{128166372003061629 + number * 1000},host,0,Write,{number % 8 * 4096},4096,100"
        for number in range(64)
    ]
    trace.write_text("\n".join(lines) + "\n")
    arguments = ("replay", str(trace), "--ftl", "page", "--format", "msr")
    metrics = {
        row["metric"]: row["value"]
        for row in json.loads(_prints(capsys, *arguments, "--json"))["result"]["metrics"]
    }
    assert metrics["host_requests"] == 64
    assert "host_requests,64,requests" in _prints(capsys, *arguments, "--output-format", "csv")
    out = tmp_path / "out"
    assert "host_requests" in _prints(capsys, *arguments, "--out", str(out))
    assert "host_requests,64,requests" in (out / "metrics.csv").read_text()


def test_compare_tells_equal_runs_from_different_ones(
    capsys: pytest.CaptureFixture[str], run_folder: Path, tmp_path: Path
) -> None:
    assert "0 of" in _prints(capsys, "compare", str(run_folder), str(run_folder))
    other = tmp_path / "other"
    shutil.copytree(run_folder, other)
    rows = polars.read_parquet(other / RESULTS_PARQUET)
    index = rows["metric"].index_of("waf")
    assert index is not None
    rows[index, "value"] = 9.5
    rows.write_parquet(other / RESULTS_PARQUET)
    manifest = json.loads((other / MANIFEST).read_text())
    manifest["results_digest"] = "cd" * 32
    (other / MANIFEST).write_text(json.dumps(manifest))
    assert main(("compare", str(run_folder), str(other))) == 1
    text = capsys.readouterr().out
    assert "1 of" in text
    assert "9.5" in text


@pytest.mark.usefixtures("engine_is_built")
def test_report_renders_the_same_page_again(
    capsys: pytest.CaptureFixture[str], run_folder: Path, tmp_path: Path
) -> None:
    other = tmp_path / "again"
    shutil.copytree(run_folder, other)
    (other / "report.html").unlink()
    assert "takes the least time" in _prints(capsys, "report", str(other))
    assert (other / "report.html").stat().st_size > 500_000


def test_index_lists_the_runs(capsys: pytest.CaptureFixture[str], run_folder: Path) -> None:
    assert "index.html: 1 run\n" in _prints(capsys, "index", str(run_folder.parent))
    page = (run_folder.parent / "index.html").read_text()
    assert 'href="ftl-windows/report.html"' in page
    assert "Performance analysis of FTL" in page


@pytest.mark.parametrize("text", ["{}", "[1]", "3", "no JSON", '{"kind": "replay"}'])
def test_index_leaves_out_a_folder_that_is_no_run(
    capsys: pytest.CaptureFixture[str], run_folder: Path, tmp_path: Path, text: str
) -> None:
    shutil.copytree(run_folder, tmp_path / "mine")
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / MANIFEST).write_text(text)
    assert main(("index", str(tmp_path))) == 0
    captured = capsys.readouterr()
    assert "index.html: 1 run\n" in captured.out
    assert f"left out: {foreign}" in captured.err
    assert 'href="mine/report.html"' in (tmp_path / "index.html").read_text()


@pytest.mark.usefixtures("engine_is_built")
def test_replay_counts_reads_of_pages_that_were_never_written(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    trace = tmp_path / "reads.csv"
    lines = [
        f"{128166372003061629 + number * 1000},host,0,{kind},{place * 2048},2048,100"
        for number, (kind, place) in enumerate(
            [("Write", 0), ("Write", 1), *(("Read", place) for place in range(10))]
        )
    ]
    trace.write_text("\n".join(lines) + "\n")
    arguments = ("replay", str(trace), "--ftl", "bast", "--blocks", "64")

    def metrics(*more: str) -> dict[str, float]:
        answer = json.loads(_prints(capsys, *arguments, *more, "--json"))["result"]
        return {row["metric"]: row["value"] for row in answer["metrics"]}

    assert metrics()["unwritten_read_pages"] == 8
    shown = _prints(capsys, *arguments)
    assert "Note: 8 of the 10 pages that were read had never been written" in shown
    assert "--fill writes the whole device before the trace" in shown
    assert "as delivered: erased" in shown
    filled = metrics("--fill")
    assert filled["unwritten_read_pages"] == 0
    assert filled["page_reads"] >= 10
    shown = _prints(capsys, *arguments, "--fill")
    assert "every page written once" in shown
    assert "never been written" not in shown


@pytest.mark.usefixtures("engine_is_built")
@pytest.mark.parametrize("lines", ["", "phase -\n"])
def test_a_script_without_phases_is_one(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, lines: str
) -> None:
    path = tmp_path / "my.ops"
    path.write_text(f"mount -\nput a 644 10000 4096 x 1 fsync\n{lines}umount\n")
    arguments = ("script", str(path), "--fs", "yaffs2", "--output-format", "json")
    (phase,) = json.loads(_prints(capsys, *arguments))["result"]["phases"]
    assert phase["phase"] == "script"
    assert phase["programs"] > 0


@pytest.mark.usefixtures("engine_is_built")
def test_a_dash_is_standard_input() -> None:
    trace = "128166372003061629,host,0,Write,0,4096,100\n"
    command = [sys.executable, "-m", "nandlab", "replay", "-", "--ftl", "bast", "--format", "msr"]
    command += ["--output-format", "csv"]
    done = subprocess.run(command, input=trace, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "host_requests,1,requests" in done.stdout


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.usefixtures("engine_is_built")
def test_an_interrupted_run_keeps_what_is_finished(tmp_path: Path, number: signal.Signals) -> None:
    out = tmp_path / "out"
    command = [sys.executable, "-m", "nandlab", "run", "ftl-windows", "--jobs", "1"]
    # On a busy machine the signal may come before the first run has begun: then it waits longer.
    for wait_s in (3, 12, 48, 192):
        process = subprocess.Popen(
            [*command, "--out", str(out)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        time.sleep(wait_s)
        process.send_signal(number)
        _, complaint = process.communicate(timeout=120)
        assert process.returncode == {signal.SIGINT: 130, signal.SIGTERM: 143}[number]
        assert "Traceback" not in complaint
        if out.exists():
            break
    assert json.loads((out / MANIFEST).read_text())["interrupted"] is True


@pytest.mark.usefixtures("engine_is_built")
def test_a_signal_during_the_last_call_of_progress_is_told() -> None:
    # Whatever the callback raises asks the run to stop. Nothing is left to run then, and a command
    # that reads `interrupted` as false would go on as if no signal had come.
    calls: list[tuple[int, int]] = []

    def progress(done: int, total: int, label: str) -> None:
        calls.append((done, total))
        if done == total:
            raise KeyboardInterrupt(label)

    study = Path(__file__).parents[2] / "studies/write-amplification/study.toml"
    answer = run_study(study, [], None, quick=True, jobs=1, progress=progress)
    done, total = calls[-1]
    assert done == total
    assert answer["interrupted"] is True
    answer = run_study(study, [], None, quick=True, jobs=1)
    assert answer["interrupted"] is False
