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


MORE_HEAD = "time_us,event,id,pid,op,sync,sector,sectors,absorbed,place,mergeable,zone\n"

JOINED = (
    MORE_HEAD
    + "0,insert,z,1,R,1,900,8,,,,\n"
    + "0,insert,a,1,R,1,8,8,,,,\n"
    + "0,insert,b,1,R,1,0,8,,,,\n"
    + "0,insert,w,1,W,1,500,8,,,0,\n"
    + "0,insert,d,1,D,0,600,8,,,,\n"
    + "1,join,a,1,R,1,16,8,,,,\n"
    + "1,absorb,b,,,,,,a,,,\n"
    + "2,dispatch,z,,,,,,,,,\n"
    + "3,requeue,z,,,,,,,head,,\n"
    + "4,dispatch,z,,,,,,,,,\n"
    + "5,dispatch,b,,,,,,,,,\n"
    + "6,complete,z,,,,,,,,,\n"
    + "7,insert,f,2,W,1,700,8,,head,0,\n"
    + "8,dispatch,f,,,,,,,,,\n"
)


def test_joined_and_returned_requests_are_followed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recording = tmp_path / "events.csv"
    recording.write_text(JOINED)
    code, out, err = _run(["--events", str(recording), "--scheduler", "sfq"], capsys)
    assert (code, err) == (0, "")
    assert [line.split(",")[2:] for line in out.splitlines()[1:]] == [
        ["z", "z"],
        ["z", "z"],
        ["b", "b"],
        ["f", "f"],
    ]


@pytest.mark.parametrize(
    ("row", "scheduler", "message"),
    [
        ("1,absorb,b,,,,,,q,,,", "sfq", "line 8: absorbed `q` names no request"),
        ("1,absorb,b,,,,,,b,,,", "sfq", "absorbed `b` is the request that stays"),
        (
            "1,absorb,z,,,,,,a,,,",
            "sfq",
            "request z was not the one that took this part here: b was",
        ),
        ("1,absorb,a,,,,,,b,,,", "sfq", "request a would not have absorbed b here"),
        ("1,absorbs,b,,,,,,a,,,", "sfq", "did you mean `absorb`"),
        ("1,join,a,1,R,1,800,8,,,,", "sfq", "request a would not have taken this request here"),
        ("1,join,a,1,D,1,16,8,,,,", "sfq", "request a would not have taken this request here"),
        ("1,join,a,1,Q,1,16,8,,,,", "sfq", "op `Q` must be R (read), W (write) or D (discard)"),
        ("1,requeue,a,,,,,,,head,,", "sfq", "request a is given back, but was not chosen here"),
        ("1,requeue,a,,,,,,,,,", "sfq", "place `` must be head or tail"),
        ("1,requeue,a,,,,,,,hed,,", "sfq", "did you mean `head`"),
        ("1,requeue,a,,,,,,,head,,", "cfq-3.4", "is not modelled with cfq-3.4"),
        ("1,insert,n,1,W,1,80,8,,head,,", "bfq-6.12", "is not modelled with bfq-6.12"),
        ("1,insert,n,1,W,1,80,8,,tail,,", "sfq", "place `tail` must be head or empty"),
        ("1,insert,n,1,W,1,80,8,,,2,", "sfq", "mergeable `2` must be 0, or 1 or empty"),
        ("1,insert,n,1,W,1,80,8,,,,x", "sfq", "zone `x` must be the number of a zone"),
        ("1,insert,n,1,R,1,80,8,,,,4", "sfq", "zone `4` must be empty"),
    ],
)
def test_a_bad_row_of_a_recording_is_named(
    row: str, scheduler: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recording = tmp_path / "events.csv"
    rows = JOINED.splitlines()
    recording.write_text("\n".join([*rows[:7], row]) + "\n")
    code, _, err = _run(["--events", str(recording), "--scheduler", scheduler], capsys)
    assert code == 2
    assert "line 8" in err
    assert message in err


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
