"""What a comparison holds for: kernel, part, own files, life, and what is told beforehand."""

import csv
import json
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from nandlab.cli import main
from nandlab.present.units import large_size

SCRIPT = """mkdir d 755
putn d/f 0 12 644 6000 2000 x 1
put new 644 5000 1000 t 2 fsync
rename new d/f00000
sync
drop
read d/f00000 4096
"""


@pytest.fixture
def workload(tmp_path: Path) -> Path:
    (tmp_path / "work.ops").write_text(SCRIPT)
    path = tmp_path / "my.toml"
    path.write_text('[workload]\nkind = "script"\nfile = "work.ops"\n')
    return path


def _prints(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(("compare", *arguments)) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def _words(shown: str) -> str:
    return " ".join(shown.split())


@pytest.mark.usefixtures("engine_is_built")
def test_the_conditions_stand_above_the_table_and_in_the_report(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "work.ops").write_text(SCRIPT)
    path = tmp_path / "my.toml"
    path.write_text(
        'repeats = 2\nseed = 7\n[workload]\nkind = "script"\nfile = "work.ops"\n'
        "[flash]\nfill_percent = 20\nrewritten_percent = 10\n"
    )
    out = tmp_path / "out"
    given = ("--fs", "jffs2,yaffs2", "--blocks", "160", "--workload", str(path), "--out", str(out))
    shown = _words(_prints(capsys, *given))
    held = (
        "part k9f2g08u0c of 160 blocks; "
        "kernel 2.6.29 (profile linux-2.6.29, which stands for 2.6.29 to before 2.6.35); "
        "board s5pv210-datasheet; device the chip itself; fill 20 % full and 10 % rewritten; "
        "preconditioning filled and rewritten a month before, then mounted and at rest; "
        "seed 7; repeats 2; "
        "workload work.ops: 76 calls, 75.2 KiB written, 4.88 KiB read"
    )
    assert f"Conditions: {held}" in shown
    page = (out / "report.html").read_text().partition("<details")[0]
    named = re.findall("<li><b>(.*?)</b> (.*?)</li>", page)
    assert "; ".join(map(" ".join, named)) == held
    found = json.loads((out / "verdict.json").read_text())["conditions"]
    assert list(found.items()) == named
    assert main(("compare", *given[:-2], "--output-format", "json")) == 0
    assert json.loads(capsys.readouterr().out)["result"]["conditions"] == held
    assert 'kernel = "2.6.29"' in (out / "comparison.toml").read_text()


@pytest.mark.usefixtures("engine_is_built")
def test_a_kernel_between_two_profiles_is_simulated_by_the_older_and_said_to_be(
    capsys: pytest.CaptureFixture[str], workload: Path
) -> None:
    given = ("--fs", "jffs2,yaffs2", "--blocks", "128", "--workload", str(workload))
    shown = _words(_prints(capsys, *given, "--kernel", "4.9"))
    assert "kernel 4.9 (profile linux-2.6.35, which stands for 2.6.35 to before 6.1)" in shown
    shown = _words(_prints(capsys, *given, "--kernel", "6.12"))
    assert "jffs2: profile linux-6.12, which stands for 6.12" in shown
    assert "yaffs2: profile linux-6.1, which stands for 6.1 to 6.12" in shown


@pytest.mark.usefixtures("engine_is_built")
@pytest.mark.parametrize(("kernel", "near"), [("7.0", "6.12"), ("2.4.20", "2.6.29"), ("x", "like")])
def test_a_kernel_that_is_not_modelled_is_refused(
    capsys: pytest.CaptureFixture[str], workload: Path, kernel: str, near: str
) -> None:
    given = ("--fs", "jffs2", "--kernel", kernel, "--workload", str(workload))
    assert main(("compare", *given)) == 2
    message = capsys.readouterr().err
    assert kernel in message
    assert near in message


def _trace(path: Path) -> str:
    """Overwrites on 64 pages, with some reads, as MSR traces have them."""
    lines = [
        f"{128166372003061629 + number * 1000},host,0,{'Read' if number % 5 == 4 else 'Write'},"
        f"{number * 7 % 64 * 2048},2048,100"
        for number in range(3000)
    ]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


@pytest.mark.usefixtures("engine_is_built")
def test_life_is_the_same_whichever_command_says_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    trace = _trace(tmp_path / "trace.csv")
    path = tmp_path / "my.toml"
    path.write_text('[workload]\nkind = "trace"\nfile = "trace.csv"\n')
    out = tmp_path / "out"
    given = ("--ftl", "bast,page", "--blocks", "64", "--workload", str(path), "--out", str(out))
    shown = _prints(capsys, *given)
    # A study counts after one pass of the trace.
    replay = ("replay", trace, "--ftl", "bast", "--blocks", "64", "--passes", "2")
    assert main((*replay, "--output-format", "json")) == 0
    answer = json.loads(capsys.readouterr().out)["result"]
    (life,) = [row["value"] for row in answer["metrics"] if row["metric"] == "lifetime_host_bytes"]
    with (out / "results.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["metric"] == "lifetime_host_bytes"]
    assert [int(row["value"]) for row in rows if row["ftl"] == "bast"] == [life]
    row = next(line for line in shown.splitlines() if line.strip().startswith("life, bytes"))
    assert large_size(life) in row
    assert "TB (" in row or "GB (" in row
    assert "after the set-up of the trace and one pass of it" in _words(shown)
    assert answer["device"]["initial_state"] == "the trace replayed once"
    assert main(replay) == 0
    assert large_size(life) in capsys.readouterr().out


@pytest.mark.usefixtures("engine_is_built")
def test_a_trace_past_the_end_gets_no_hint_of_another_command(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("128166372003061629,host,0,Write,99999744,512,100\n")
    path = tmp_path / "my.toml"
    path.write_text('[workload]\nkind = "trace"\nfile = "trace.csv"\n')
    assert main(("compare", "--ftl", "page", "--blocks", "64", "--workload", str(path))) == 2
    message = capsys.readouterr().err
    assert "past the end of the device" in message
    assert "--address" not in message
    assert main(("replay", str(trace), "--ftl", "page", "--blocks", "64")) == 2
    assert "--address modulo" in capsys.readouterr().err


PARTS = Path(__file__).resolve().parents[2]


def _own(tmp_path: Path) -> tuple[Path, Path]:
    """A part and a board of one's own."""
    part, board = tmp_path / "my-part.toml", tmp_path / "my-board.toml"
    text = (PARTS / "parts" / "k9f2g08u0c.toml").read_text()
    part.write_text(
        text.replace('"k9f2g08u0c"', '"my-part"').replace("2048\nplanes", "160\nplanes")
    )
    text = (PARTS / "boards" / "s5pv210-datasheet.toml").read_text()
    text = text.replace('"s5pv210-datasheet"', '"my-board"').replace('"2.6.29"', '"6.1"')
    board.write_text(text)
    return part, board


@pytest.mark.usefixtures("engine_is_built")
def test_parts_and_boards_of_ones_own_are_taken_and_kept(
    capsys: pytest.CaptureFixture[str], workload: Path, tmp_path: Path
) -> None:
    part, board = _own(tmp_path)
    out = tmp_path / "out"
    given = ("--fs", "jffs2,fat", "--part", str(part), "--board", str(board), "--out", str(out))
    shown = _words(_prints(capsys, *given, "--workload", str(workload)))
    assert "kernel 6.1 (profile linux-6.1, " in shown
    assert "board my-board; device the chip itself, mtdblock; " in shown
    assert "part my-part of 160 blocks; " in shown
    assert (out / "part-my-part.toml").read_bytes() == part.read_bytes()
    assert (out / "board-my-board.toml").read_bytes() == board.read_bytes()
    manifest = json.loads((out / "manifest.json").read_text())
    assert str(tmp_path) not in json.dumps(manifest["study"])
    # The folder is all that is needed to run it again.
    part.unlink()
    board.unlink()
    again = tmp_path / "again"
    assert main(("run", str(out / "comparison.toml"), "--out", str(again))) == 0
    kept = json.loads((again / "manifest.json").read_text())
    assert kept["results_digest"] == manifest["results_digest"]
    assert {one["what"] for one in kept["inputs"]} == {"part", "board", "script"}
    for one in kept["inputs"]:
        assert (again / one["file"]).is_file()


@pytest.mark.usefixtures("engine_is_built")
def test_cards_are_made_of_a_part_of_ones_own(
    capsys: pytest.CaptureFixture[str], workload: Path, tmp_path: Path
) -> None:
    part, _ = _own(tmp_path)
    out = tmp_path / "out"
    given = ("--fs", "fat", "--ftl", "bast", "--part", str(part), "--out", str(out))
    _prints(capsys, *given, "--workload", str(workload))
    part.unlink()
    assert main(("run", str(out / "comparison.toml"), "--out", str(tmp_path / "again"))) == 0


@pytest.mark.usefixtures("engine_is_built")
@pytest.mark.parametrize("option", ["--part", "--board"])
def test_a_file_of_ones_own_that_is_wrong_is_named(
    capsys: pytest.CaptureFixture[str], workload: Path, tmp_path: Path, option: str
) -> None:
    part, board = _own(tmp_path)
    own = part if option == "--part" else board
    own.write_text(own.read_text().replace("hz = ", "hertz = ").replace("rber_fresh", "rber"))
    given = ("--fs", "jffs2", option, str(own), "--workload", str(workload))
    assert main(("compare", *given)) == 2
    message = capsys.readouterr().err
    assert message.startswith(f"nandlab: error: {own}: ")
    assert "line" in message
    assert "nandlab-compare-" not in message
    assert main(("compare", "--fs", "jffs2", option, "no.toml", "--workload", str(workload))) == 2
    assert f"{option}: there is no" in capsys.readouterr().err


@pytest.mark.usefixtures("engine_is_built")
def test_candidates_that_cannot_be_mounted_are_told_before_anything_runs(
    capsys: pytest.CaptureFixture[str], workload: Path
) -> None:
    given = ("--fs", "yaffs2,ubifs", "--blocks", "12", "--workload", str(workload))
    assert main(("compare", *given)) == 2
    message = capsys.readouterr().err
    assert "nothing was run" in message
    assert "ubifs" in message
    assert "cannot be mounted" in message


@pytest.mark.usefixtures("engine_is_built")
def test_a_history_that_does_not_fit_is_told_before_anything_runs(
    capsys: pytest.CaptureFixture[str], workload: Path
) -> None:
    workload.write_text(workload.read_text() + "[flash]\nfill_percent = 90\n")
    given = ("--fs", "yaffs2,nilfs2", "--blocks", "160", "--workload", str(workload))
    assert main(("compare", *given)) == 2
    message = capsys.readouterr().err
    assert "nothing was run" in message
    assert "cannot have its history: it fills" in message


@pytest.mark.usefixtures("engine_is_built")
def test_hours_of_idle_time_cost_hardly_any_processor_time(tmp_path: Path) -> None:
    """Against the same script alone: structures are not walked while nothing happens."""
    work = "putn d/f 0 2000 644 3000 3000 x 1\nsync\nsleep 7200000\n"
    (tmp_path / "work.ops").write_text(f"mkdir d 755\n{work}")
    (tmp_path / "alone.ops").write_text(f"mount -\nmkdir d 755\n{work}")
    path = tmp_path / "my.toml"
    path.write_text('[workload]\nkind = "script"\nfile = "work.ops"\n')

    def seconds(*arguments: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "-m", "nandlab", *arguments, "--blocks", "512"]
        subprocess.run(command, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime - before.ru_utime

    part = ("--part", "k9f2g08u0c", "--board", "s5pv210-datasheet", "--fs", "ubifs")
    script = seconds("script", str(tmp_path / "alone.ops"), *part)
    compared = seconds("compare", "--workload", str(path), *part)
    # Besides the work it mounts three times. A look every 10 ms of idle time took 20 times as long.
    assert compared < 4 * script + 2, (script, compared)
