"""Commands that answer at once."""

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nandlab.cli import main
from nandlab.results.run_directory import MANIFEST, RESULTS_CSV


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
        entry["name"]
        for entry in json.loads(_prints(capsys, "list", kind, "--output-format", "json"))
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
@pytest.mark.parametrize("name", ["bast", "greedy", "published-small-block", "msr"])
def test_explain_knows_all_kinds(capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert _prints(capsys, "explain", name).startswith(f"{name}: ")


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
        for row in json.loads(_prints(capsys, *arguments, "--output-format", "json"))["metrics"]
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
    text = (other / RESULTS_CSV).read_text()
    line = next(line for line in text.splitlines() if ",waf," in line)
    place, _, rest = line.rpartition(",waf,")
    (other / RESULTS_CSV).write_text(text.replace(line, f"{place},waf,9.5,ratio"))
    manifest = json.loads((other / MANIFEST).read_text())
    manifest["results_digest"] = "cd" * 32
    (other / MANIFEST).write_text(json.dumps(manifest))
    assert main(("compare", str(run_folder), str(other))) == 1
    text = capsys.readouterr().out
    assert "1 of" in text
    assert "9.5" in text
    assert rest


@pytest.mark.usefixtures("engine_is_built")
def test_report_renders_the_same_page_again(
    capsys: pytest.CaptureFixture[str], run_folder: Path, tmp_path: Path
) -> None:
    other = tmp_path / "again"
    shutil.copytree(run_folder, other)
    (other / "report.html").unlink()
    assert "wins" in _prints(capsys, "report", str(other))
    assert (other / "report.html").stat().st_size > 500_000


def test_index_lists_the_runs(capsys: pytest.CaptureFixture[str], run_folder: Path) -> None:
    assert "1 runs" in _prints(capsys, "index", str(run_folder.parent))
    page = (run_folder.parent / "index.html").read_text()
    assert 'href="ftl-windows/report.html"' in page
    assert "wins" in page


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
    for wait_s in (3, 12):
        process = subprocess.Popen(
            [*command, "--out", str(out)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        time.sleep(wait_s)
        process.send_signal(number)
        _, complaint = process.communicate(timeout=120)
        assert process.returncode == {signal.SIGINT: 130, signal.SIGTERM: 143}[number]
        assert "Traceback" not in complaint
        # On a busy machine the signal may come before the first run has begun.
        if out.exists():
            break
    assert json.loads((out / MANIFEST).read_text())["interrupted"] is True
