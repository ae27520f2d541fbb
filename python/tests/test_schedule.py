"""`nandlab schedule`: the decisions of real kernels, recordings, and bad input."""

import csv
from collections.abc import Sequence
from pathlib import Path

import pytest

from nandlab import engine
from nandlab.cli import main
from nandlab.cli.action import parse_settings
from nandlab.errors import NandlabError

DECISIONS = Path(__file__).parents[2] / "crates/host/sched/tests/data/kernel-decisions"
SCHEDULERS = {"noop-2.6.32": "noop", "as-2.6.32": "anticipatory", "row-android-4.1": "row"}
HEAD = "time_us,pid,op,sync,sector,sectors\n"
EVENTS_HEAD = "time_us,event,id,pid,op,sync,sector,sectors\n"

with (DECISIONS / "index.csv").open(encoding="utf-8") as index:
    CASES = list(csv.DictReader(index))


def _arguments(**given: object) -> dict[str, object]:
    return {
        "scheduler": "noop",
        "settings": {},
        "hz": 1000,
        "service_us": 1000,
        "device": None,
        "queue_depth": None,
        "plug": "none",
        "nonrot": False,
        "sync_write_noidle": False,
        "harness": "kernel",
        "events": False,
        **given,
    }


def test_there_are_as_many_recorded_cases_as_were_made() -> None:
    assert len(CASES) == 160


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['dir']}/{case['case']}")
def test_every_recorded_decision_is_made_here_too(case: dict[str, str]) -> None:
    stem = DECISIONS / case["dir"] / case["case"]
    answer = engine.schedule(
        case["case"],
        Path(f"{stem}.in.csv").read_text(encoding="utf-8"),
        _arguments(
            scheduler=SCHEDULERS.get(case["dir"], case["dir"]),
            settings=parse_settings(case["tunables"].split()),
            hz=int(case["hz"]),
            service_us=int(case["service_us"]),
            queue_depth=int(case["queue_depth"]),
            nonrot=case["nonrot"] == "1",
            sync_write_noidle=case["sync_write_noidle"] == "1",
        ),
    )
    assert answer == Path(f"{stem}.out.csv").read_text(encoding="utf-8")


def _run(arguments: Sequence[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = main(["schedule", *arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_the_command_prints_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "requests.csv"
    table.write_text(HEAD + "0,1,W,0,800,8\n0,2,R,1,100,8\n500,2,R,1,108,8\n500.5,1,X,0,0,0\n")
    code, out, err = _run([str(table), "--scheduler", "deadline"], capsys)
    assert (code, err) == (0, "")
    assert out == "id,dispatch_us,complete_us\n0,0,1000\n1,1000,2000\n2,1000,2000\n"


def test_a_device_gives_its_own_times(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "requests.csv"
    table.write_text(HEAD + "0,1,W,1,0,8\n0,2,R,1,4096,8\n0,2,R,1,409600,8\n")
    code, out, _ = _run(
        [str(table), "--scheduler", "cfq", "--device", "emmc-4.5-64gb", "--plug", "task"], capsys
    )
    assert code == 0
    assert sorted(line.split(",")[0] for line in out.splitlines()[1:]) == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("5,1,R,1,0,8\n3,1,R,1,0,8\n", "line 3: time_us `3` is before that of the row above"),
        ("-5,1,R,1,0,8\n", "line 2: time_us `-5` is negative"),
        ("x,1,R,1,0,8\n", "line 2: time_us `x` must be a number of microseconds"),
        ("0,none,R,1,0,8\n", "line 2: pid `none` must be a process number"),
        ("0,1,Q,1,0,8\n", "line 2: op `Q` must be R (read), W (write) or X"),
        ("0,1,R,2,0,8\n", "line 2: sync `2` must be 0 or 1"),
        ("0,1,R,1,0,0\n", "line 2: sectors `0` is no length"),
        ("0,1,R,1,2199023255552,8\n", "end past the device of 2199023255552 sectors"),
        ("0,1,R,1,0\n", "line 2: 5 cells instead of 6"),
    ],
)
def test_bad_rows_are_named(
    rows: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "requests.csv"
    table.write_text(HEAD + rows)
    code, out, err = _run([str(table), "--scheduler", "noop"], capsys)
    assert (code, out) == (2, "")
    assert message in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--scheduler", "deadlin"], "did you mean `deadline`?"),
        (["--scheduler", "deadline", "--set", "fifo_bach=3"], "unknown setting `fifo_bach`"),
        (["--scheduler", "deadline", "--set", "fifo_batch=-3"], "fifo_batch"),
        (["--scheduler", "noop", "--hz", "0"], "--hz"),
        (["--scheduler", "noop", "--queue-depth", "0"], "--queue-depth"),
        (["--scheduler", "noop", "--device", "emcc"], "emmc-4.5-64gb"),
        (["--scheduler", "noop", "--device", "emmc-4.5-64gb", "--queue-depth", "9"], "admits 2"),
    ],
)
def test_bad_options_are_named(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "requests.csv"
    table.write_text(HEAD + "0,1,R,1,0,8\n")
    code, out, err = _run([str(table), *arguments], capsys)
    assert (code, out) == (2, "")
    assert message in err


def test_a_missing_column_is_named() -> None:
    with pytest.raises(NandlabError, match="line 1: column `sync` is missing"):
        engine.schedule("mine.csv", "time_us,pid,op,sector,sectors\n", _arguments())


def test_recorded_events_are_followed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recording = tmp_path / "events.csv"
    recording.write_text(
        EVENTS_HEAD
        + "0,insert,a,1,R,1,100,8\n"
        + "0,insert,b,1,R,1,50,8\n"
        + "1,merge,a,1,R,1,108,8\n"
        + "2,dispatch,a,,,,,\n"
        + "2.5,complete,a,,,,,\n"
        + "3,dispatch,,,,,,\n"
        + "3,dispatch,,,,,,\n"
    )
    code, out, err = _run(["--events", str(recording), "--scheduler", "deadline"], capsys)
    assert (code, err) == (0, "")
    assert out == "line,time_us,id,recorded\n5,2,a,a\n7,3,b,\n8,3,,\n"


def test_a_recording_that_parts_from_the_model_says_where(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recording = tmp_path / "events.csv"
    recording.write_text(
        EVENTS_HEAD
        + "0,insert,a,1,R,1,100,8\n"
        + "0,insert,b,1,R,1,50,8\n"
        + "2,dispatch,b,,,,,\n"
        + "3,complete,b,,,,,\n"
    )
    code, _, err = _run(["--events", str(recording), "--scheduler", "deadline"], capsys)
    assert code == 2
    assert "line 5: request b is complete, but was not chosen here" in err
    assert "differ since line 4" in err
