"""`nandlab crash --check`: what a command or a function sees of each cut, and what it says."""

import csv
import io
import json
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

import nandlab as nl
from nandlab.cli import main
from nandlab.cli.scripts import check_sentence
from nandlab.cut_checks import PREFIX, CutCheck
from nandlab.errors import NandlabError

pytestmark = pytest.mark.usefixtures("engine_is_built")

WORKLOADS = Path(__file__).parents[2] / "workloads"
SAFE = WORKLOADS / "config-safe.ops"
TRUNCATE = WORKLOADS / "config-truncate.ops"
WHOLE = 'test "$(wc -c < cfg)" -eq 6000 || { echo first; echo "cfg is cut short"; exit 1; }'
"""A command that fails where the settings are not whole, and where there are none."""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where folders are made; each test ends with none left."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", None)
    return folder


def whole(folder: Path, acknowledged: int | None) -> str | None:
    """The same as a function."""
    settings = folder / "cfg"
    if acknowledged is None and not settings.exists():
        return None
    return None if settings.stat().st_size == 6000 else "cfg is cut short"


def test_a_command_is_told_what_it_found_beside_the_expectation(
    capsys: pytest.CaptureFixture[str], temporary: Path
) -> None:
    words = ["crash", str(TRUNCATE), "--fs", "yaffs2", "--only", "60", "--check", WHOLE]
    assert main(words) == 1
    text = capsys.readouterr().out
    assert f"check {WHOLE}: broken at 3 of 3 cuts; run " in text
    assert "  at 3 of 3 cuts cfg is cut short: the first between line " in text
    assert "    the first: --only 60 --torn nothing" in text
    assert "first: " not in text.replace("the first: ", "")
    assert not list(temporary.iterdir())


def test_a_function_and_a_command_say_the_same(temporary: Path) -> None:
    command = 'test -n "$NANDLAB_ACK" || test -e cfg || exit 0; ' + WHOLE
    for workers in (1, 2):
        by_command = nl.crash(TRUNCATE, fs="jffs2", every=5, check=command, jobs=workers)
        by_function = nl.crash(TRUNCATE, fs="jffs2", every=5, check=whole)
        one, other = (found.answer["check"] for found in (by_command, by_function))
        assert one.pop("command") == command
        assert other.pop("command") == "whole"
        assert one == other
        assert 0 < one["failed"] < one["cuts"]
        assert one["asked"] < one["cuts"]
    assert not list(temporary.iterdir())


def test_equal_files_are_looked_at_once_and_the_environment_tells_the_cut(
    tmp_path: Path, temporary: Path
) -> None:
    log = tmp_path / "log"
    told = f'echo "$NANDLAB_CUT,$NANDLAB_TORN,$NANDLAB_ACK" >> {log}'
    found = nl.crash(SAFE, fs="ubifs", every=3, check=told, jobs=1).answer
    rows = [line.split(",") for line in log.read_text(encoding="utf-8").splitlines()]
    assert len(rows) == found["check"]["asked"] < found["check"]["cuts"]
    assert [int(row[0]) for row in rows] == sorted(int(row[0]) for row in rows)
    assert {row[1] for row in rows} <= {"nothing", "prefix", "data-only"}
    acknowledged = [int(row[2] or 0) for row in rows]
    assert acknowledged == sorted(acknowledged)
    assert (acknowledged[0], acknowledged[-1]) == (0, 13)


def test_broken_cuts_are_rows_and_stand_in_the_document(tmp_path: Path) -> None:
    table, document = tmp_path / "rows.csv", tmp_path / "all.json"
    found = nl.crash(TRUNCATE, fs="yaffs2", every=9, check=whole, out=table)
    rows = list(csv.DictReader(io.StringIO(table.read_text(encoding="utf-8"))))
    checked = [row for row in rows if row["kind"] == "check"]
    assert len(checked) == len(found.broken_checks) == found.answer["check"]["failed"] > 0
    assert {row["expected"] for row in checked} == {"check whole"}
    assert {row["found"] for row in checked} == {"cfg is cut short"}
    assert len(found.violations) == 0
    assert len(found.broken_expectations) + len(checked) == len(rows)
    nl.crash(TRUNCATE, fs="yaffs2", every=9, check=whole, out=document)
    check = json.loads(document.read_text(encoding="utf-8"))["check"]
    assert [group["sentence"] for group in check["groups"]] == list(found.sentences)[-1:]
    assert nl.crash(SAFE, fs="yaffs2", only=3).answer["check"] is None


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("exit 7", "exit status 7 at cut point 5 (nothing). Exit with 0 if"),
        ("echo oh; echo 'no file' >&2; exit 2", "exit status 2 at cut point 5 (nothing): no file."),
        ("no-such-program", "exit status 127 at cut point 5 (nothing): "),
        ("kill -9 $$", "signal 9 at cut point 5 (nothing)."),
    ],
)
def test_other_ends_of_a_command_end_the_run(
    command: str, reason: str, capsys: pytest.CaptureFixture[str], temporary: Path
) -> None:
    words = ["crash", str(SAFE), "--fs", "yaffs2", "--only", "5", "--check", command]
    assert main(words) == 2
    told = capsys.readouterr().err
    assert f"--check {command}: {reason}" in told
    assert told.count("--check") == 1
    assert not list(temporary.iterdir())


def test_an_error_of_a_function_is_the_callers(temporary: Path) -> None:
    def wrong(folder: Path, acknowledged: int | None) -> str | None:
        raise LookupError("the function is wrong")

    with pytest.raises(LookupError, match="the function is wrong"):
        nl.crash(SAFE, fs="yaffs2", only=5, check=wrong)
    assert not list(temporary.iterdir())


@pytest.mark.parametrize(
    ("check", "sentence"),
    [
        ({"failed": 0, "cuts": 1, "asked": 1}, "holds at 1 cut; run 1 time"),
        ({"failed": 2, "cuts": 2000, "asked": 90}, "broken at 2 of 2,000 cuts; run 90 times"),
    ],
)
def test_the_sentence_of_a_check(check: dict[str, int], sentence: str) -> None:
    told = check_sentence({"command": "test -s a", **check})
    assert told == f"check test -s a: {sentence}, once for equal files"


def test_files_are_written_as_they_were_found(temporary: Path) -> None:
    """Names of every kind, a file with two names, and names that cannot be read."""
    seen = {}

    def look(folder: Path, acknowledged: int | None) -> str | None:
        for path in sorted(folder.rglob("*")):
            status = path.lstat()
            kind = stat.S_IFMT(status.st_mode)
            seen[str(path.relative_to(folder))] = (kind, stat.S_IMODE(status.st_mode), status)
        assert (folder / "d/f").read_bytes() == b"bytes"
        assert (folder / "link").readlink() == Path("d/f")
        for name in ("damaged", "lists-nothing"):
            with pytest.raises(OSError, match="symbolic links"):
                (folder / name).read_bytes()
        return "broken\n  twice"

    files = [
        (b"", "d", 0o755, b"", b""),
        (b"d", "d", 0o500, b"", b"d"),
        (b"d/f", "f", 0o444, b"bytes", b"d/f"),
        (b"d/same", "f", 0o444, b"bytes", b"d/f"),
        (b"fat", "f", 0, b"", b"fat"),
        (b"link", "l", 0o777, b"d/f", b"link"),
        (b"lists-nothing", "d", 0o755, b"", b"lists-nothing"),
        (b"pipe", "p", 0o600, b"", b"pipe"),
        (b"damaged", "?", 0, b"", b"damaged"),
        (b"lists-nothing", "?", 0, b"", b"lists-nothing"),
    ]
    with CutCheck(look, None) as check:
        assert check([(1, "nothing", None, files)]) == ["broken twice"]
        assert len(list(temporary.iterdir())) == 1
    assert not list(temporary.iterdir())
    modes = {name: mode for name, (_, mode, _) in seen.items()}
    assert modes["d"] == 0o700 | 0o500
    assert modes["d/f"] == modes["d/same"] == 0o644
    assert modes["fat"] == 0o600
    assert seen["d/f"][2].st_ino == seen["d/same"][2].st_ino
    assert seen["pipe"][0] == stat.S_IFIFO


def test_what_cannot_be_mounted_is_broken(temporary: Path) -> None:
    """mtdblock erases a block of FAT before it writes it back."""
    found = nl.crash(
        "put a 644 3000 3000 x 1 fsync\nput b 644 3000 3000 x 2 fsync\n",
        fs="fat",
        check=lambda folder, acknowledged: None,
    )
    check = found.answer["check"]
    assert check["failed"] > 0
    assert {one["reason"].partition(":")[0] for one in check["failures"]} == {"nothing can be read"}
    hazards = [torn["hazards"].get("erased-block", 0) for torn in found.answer["torn"]]
    assert sum(hazards) >= check["failed"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_no_folder_and_no_process(
    number: signal.Signals, tmp_path: Path, temporary: Path
) -> None:
    begun = tmp_path / "begun"
    command = f"echo $$ > {begun}.new; mv {begun}.new {begun}; sleep 600; exit 1"
    words = [sys.executable, "-m", "nandlab", "crash", str(SAFE), "--fs", "yaffs2", "--jobs", "1"]
    process = subprocess.Popen(
        [*words, "--check", command], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    while not begun.exists() and process.poll() is None:
        time.sleep(0.02)
    (folder,) = temporary.iterdir()
    assert folder.name.startswith(PREFIX)
    process.send_signal(number)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + number, errors
    assert "Interrupted: some cuts were not made." in errors.decode()
    assert "holds at 0 cuts; run 0 times" in output.decode()
    assert not list(temporary.iterdir())
    with pytest.raises(ProcessLookupError):
        os.kill(int(begun.read_text(encoding="ascii")), 0)


def test_a_folder_that_cannot_be_made_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    with pytest.raises(NandlabError, match="--check: no folder can be made: No such file"):
        nl.crash(SAFE, fs="yaffs2", only=5, check="true")


def test_a_check_makes_no_script_smaller(tmp_path: Path) -> None:
    smaller = tmp_path / "small.ops"
    with pytest.raises(NandlabError, match="omit --check"):
        nl.crash(TRUNCATE, fs="jffs2", only=0, check=whole, minimise=smaller)
    assert not smaller.exists()
