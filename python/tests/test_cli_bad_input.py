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
        (("run",), ["STUDY"]),
        (("run", "ftl-windos"), ["'ftl-windos'", "did you mean ftl-windows?"]),
        (("run", "no/such.toml"), ["no/such.toml", "no such study file"]),
        (("run", "ftl-windows", "--jobs", "0"), ["--jobs 0", "at least 1"]),
        (("run", "ftl-windows", "--seed", "-3"), ["--seed -3"]),
        (("replay", "x", "--ftl", "bast", "--address", "wrap"), ["--address", "modulo"]),
        (("replay", "x", "--ftl", "bast", "--logical-size", "100 Mb"), ["--logical-size", "MiB"]),
        (("replay", "x", "--ftl", "bast", "--set", "log_blocks"), ["--set", "name=value"]),
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
        (("explain", "bats"), ["bast"]),
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
