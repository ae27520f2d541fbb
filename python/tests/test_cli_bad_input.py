"""Bad input: exit code 2, one message, never a traceback."""

from pathlib import Path

import pytest

from nandlab.cli import main


def _fails(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("nandlab: error: ")
    assert "Traceback" not in captured.err
    return captured.err


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("rn",), ['"rn"', 'Did you mean "run"']),
        (("run", "ftl-windows", "--sed", "3"), ["--sed", "Did you mean --seed"]),
        (("replay", "--sed", "4", "x", "--ftl", "bast"), ["--sed"]),
        (("run",), ["STUDY", "Try `nandlab run --help`"]),
        (("replay",), ["Try `nandlab replay --help`"]),
        (("image", "ls"), ["Try `nandlab image ls --help`"]),
        (("image", "ls", "x", "--hsh"), ["--hash", "Try `nandlab image ls --help`"]),
        (("run", "ftl-windos"), ["'ftl-windos'", "did you mean ftl-windows?"]),
        (("run", "no/such.toml"), ["no/such.toml", "no such study file"]),
        (("run", "ftl-windows", "--jobs", "0"), ["--jobs: 0", "at least 1"]),
        (("run", "ftl-windows", "--seed", "-3"), ["--seed: -3"]),
        (("replay", "x", "--ftl", "bast", "--address", "wrap"), ["--address", "modulo"]),
        (("replay", "x", "--ftl", "bast", "--logical-size", "100 Mb"), ["--logical-size", "MiB"]),
        (("replay", "x", "--ftl", "bast", "--set", "log_blocks"), ["--set", "NAME=VALUE"]),
        (("replay", "x", "--ftl", "bast", "--passes", "0"), ["--passes: 0", "at least 1"]),
        (("list", "ftl"), ["ftls"]),
        (("compare", "nowhere", "nowhere"), ["nowhere", "no such folder"]),
        (("report", "nowhere"), ["nowhere", "no such folder"]),
        (("index", "nowhere"), ["nowhere", "no such folder"]),
        (("capture", "--file-set", "mp4", "--out", "x"), ["mp4", "mp3"]),
        (("capture", "--verify", "nowhere.json", "--out", "x"), ["nowhere.json"]),
    ],
)
def test_the_message_says_place_reason_and_suggestion(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], expected: list[str]
) -> None:
    message = _fails(capsys, *arguments)
    for part in expected:
        assert part in message


@pytest.mark.usefixtures("engine_is_built")
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("replay", "no-such-trace", "--ftl", "bast"), ["no-such-trace"]),
        (("replay", "no-such-trace", "--ftl", "bats"), ["bast"]),
        (("explain", "bats"), ["did you mean bast?"]),
        (("explain", "ubfs"), ["did you mean ubifs?", "nandlab list KIND"]),
        (("explain", "file-systems"), ["nandlab list file-systems"]),
        (("convert", "trace.csv", "out.csv"), ["out.csv", "out.parquet", "Parquet"]),
        (("convert", "trace.csv", "converted"), ["converted.parquet"]),
        (("explain", "bast", "--ops", "Q1"), ["Q1"]),
        (("explain", "bast", "--ops", " "), ["--ops"]),
        (("explain", "bast", "--ops", "W1", "--set", "log_blcks=2"), ["log_blocks"]),
        (("run", "ftl-windows", "--set", "sede=3"), ["sede", "seed"]),
        (("convert", "no-such-trace", "out.parquet"), ["no-such-trace"]),
    ],
)
def test_the_engine_complains_as_clearly(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], expected: list[str]
) -> None:
    message = _fails(capsys, *arguments)
    for part in expected:
        assert part in message


@pytest.mark.usefixtures("engine_is_built")
def test_a_folder_that_is_not_a_run_is_left_alone(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    precious = tmp_path / "precious.txt"
    precious.write_text("mine")
    message = _fails(capsys, "run", "ftl-windows", "--quick", "--out", str(tmp_path))
    assert "not a run of nandlab" in message
    assert precious.read_text() == "mine"


STUDY = """name = "NAME"
title = "t"
question = "q"
seed = 1
part = "published-small-block"
blocks = 64
[workload]
kind = "uniform"
warm_up_writes = 1
measured_writes = 1
[axes]
ftl = ["page"]
"""


@pytest.mark.usefixtures("engine_is_built")
@pytest.mark.parametrize("name", ["/abs", "../up", "a/b", "..", ".", "", " ", "tab\\t"])
def test_a_study_whose_name_leads_elsewhere_is_refused(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    """Results go to out/NAME: a name that is a path would put them anywhere."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "mine.toml"
    path.write_text(STUDY.replace("NAME", name.replace("/abs", f"{tmp_path}/abs")))
    message = _fails(capsys, "run", str(path))
    assert "mine.toml: name: " in message
    assert "one name without slashes" in message
    assert [one.name for one in tmp_path.iterdir()] == ["mine.toml"]


@pytest.mark.usefixtures("engine_is_built")
def test_missing_keys_of_a_part_are_told_at_once_and_of_the_part_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    part = tmp_path / "my-part.toml"
    whole = (Path(__file__).resolve().parents[2] / "parts" / "k9f2g08u0c.toml").read_text()
    head, _ = whole.split("[errors]")
    part.write_text(head + "[errors]\nrber_fresh = 1e-11\n")
    line = head.count("\n") + 1
    study = tmp_path / "mine.toml"
    study.write_text(STUDY.replace("NAME", "mine").replace("published-small-block", str(part)))
    for command in (("run", str(study)), ("replay", "x", "--ftl", "bast", "--part", str(part))):
        message = _fails(capsys, *command)
        assert message.startswith(f"nandlab: error: {part}: lacks in [errors] (line {line}) ")
        assert message.count("\n") == 1
        for key in ("erase_cycles_max", "ecc_codeword_bytes", "factory_bad_probability"):
            assert key in message
        assert "rber_fresh" not in message


@pytest.mark.usefixtures("engine_is_built")
@pytest.mark.parametrize("call", ["append", "write"])
def test_a_call_that_makes_no_file_says_which_one_does(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, call: str
) -> None:
    path = tmp_path / "my.ops"
    offset = "0 " if call == "write" else ""
    path.write_text(f"mount -\n{call} new {offset}100 100 x 1\n")
    message = _fails(capsys, "script", str(path), "--fs", "jffs2")
    assert f"{path}:2: {call}: ENOENT" in message
    assert "make it with `put` first" in message
