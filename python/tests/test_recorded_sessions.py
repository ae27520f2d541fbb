"""The recorded sessions: they run everywhere they can, and their checkers see what is wrong."""

import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import ModuleType

import pytest
from script_modules import script_modules
from strace_logs import WHOLE, need_strace, python, record

import nandlab

pytestmark = pytest.mark.usefixtures("engine_is_built")

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "workloads" / "recorded"
SCRIPTS = sorted(path.stem for path in FOLDER.glob("*.ops"))


@pytest.fixture(scope="module")
def recorder() -> Iterator[ModuleType]:
    with script_modules("record_sessions") as (module,):
        yield module


@pytest.fixture(scope="module")
def checker() -> Iterator[ModuleType]:
    with script_modules("sqlite_file_systems_runs") as (runs,):
        yield runs.checker()


def test_every_session_has_a_script_and_a_row(recorder: ModuleType) -> None:
    assert sorted(session.name for session in recorder.sessions()) == SCRIPTS
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    strace = re.findall(r"strace (\S+) recorded", readme)[0]
    assert recorder.readme(FOLDER, strace) == readme
    assert recorder.readme(FOLDER, "0.0") != readme


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_runs_and_leaks_nothing(name: str) -> None:
    text = (FOLDER / f"{name}.ops").read_text(encoding="utf-8")
    assert "/tmp/" not in text
    assert b"nandlab-session".hex() not in text
    assert not re.search(r"^sleep ", text, re.MULTILINE)
    acks = [int(number) for number in re.findall(r"^ack (\d+)$", text, re.MULTILINE)]
    assert acks == list(range(1, len(acks) + 1))
    assert len(acks) >= 2
    for file_system in ("ubifs", "yaffs2"):
        found = nandlab.script(text, fs=file_system)
        assert not found.failures
        assert not found.findings


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_a_new_recording_makes_the_same_calls(mode: str, recorder: ModuleType) -> None:
    need_strace()
    name = f"sqlite-{mode}-full"
    (session,) = (one for one in recorder.sessions() if one.name == name)
    for program in session.needs:
        if recorder.shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    text = (FOLDER / f"{name}.ops").read_text(encoding="utf-8")
    version = recorder.version_of(session.version)
    if version != text.split()[2].rstrip(":"):
        pytest.skip(f"sqlite3 {version} is not the recorded one")
    again = recorder.script_of(session, version, recorder.record(session))
    # SQLite draws the nonce of each journal, so bytes differ.
    assert _calls(again) == _calls(text)
    assert _calls(again.replace("fdatasync", "fsync", 1)) != _calls(text)


def _calls(text: str) -> list[str]:
    return [line.partition(" h ")[0] for line in text.splitlines()]


def test_what_a_session_leaves_is_the_whole_database(checker: ModuleType, tmp_path: Path) -> None:
    for name in (one for one in SCRIPTS if one.startswith("sqlite-")):
        image, folder = tmp_path / f"{name}.oob", tmp_path / name
        nandlab.script(FOLDER / f"{name}.ops", fs="yaffs2", dump=image)
        nandlab.image.extract(image, folder)
        assert checker.check(folder, 8) is None
        assert checker.check(folder, 9) == "acknowledged transactions are lost: 1"


def _database(folder: Path, transactions: int) -> Path:
    folder.mkdir()
    with closing(sqlite3.connect(folder / "base.db", isolation_level=None)) as base:
        base.execute("create table entry (id integer primary key, step integer, text)")
        base.execute("create index entry_of_step on entry (step)")
        for step in range(1, transactions + 1):
            rows = [(step, chr(96 + step) * 2000)] * 3
            base.executemany("insert into entry (step, text) values (?, ?)", rows)
            base.execute("update entry set step = ? where id = 1", (step,))
    return folder / "base.db"


def test_the_checker_sees_each_kind_of_damage(checker: ModuleType, tmp_path: Path) -> None:
    base = _database(tmp_path / "whole", 4)
    assert checker.check(base.parent, None) is None
    assert checker.check(base.parent, 4) is None
    assert checker.check(base.parent, 7) == "acknowledged transactions are lost: 3"
    (tmp_path / "none").mkdir()
    assert checker.check(tmp_path / "none", None) is None
    assert checker.check(tmp_path / "none", 2) == "acknowledged transactions are lost: 2"
    base = _database(tmp_path / "part", 4)
    with closing(sqlite3.connect(base, isolation_level=None)) as opened:
        opened.execute("delete from entry where id = 12")
    assert checker.check(base.parent, 4) == "a transaction is there in part"
    base = _database(tmp_path / "old", 4)
    with closing(sqlite3.connect(base, isolation_level=None)) as opened:
        opened.execute("update entry set step = 3 where id = 1")
    assert checker.check(base.parent, 4) == "a transaction is there in part"
    base = _database(tmp_path / "damaged", 4)
    pages = bytearray(base.read_bytes())
    pages[2 * 4096 : 3 * 4096] = bytes(4096)
    base.write_bytes(pages)
    reason = checker.check(base.parent, 4)
    assert reason == "the integrity check fails" or reason.startswith("SQLite refuses the file")
    base.write_bytes(b"no database" * 1000)
    assert checker.check(base.parent, 4).startswith("SQLite refuses the file: file is not a data")


def test_the_checker_as_a_program(tmp_path: Path) -> None:
    base = _database(tmp_path / "whole", 2)
    for acknowledged, status, told in (
        ("", 0, ""),
        ("2", 0, ""),
        ("3", 1, "acknowledged transactions are lost: 1\n"),
    ):
        done = subprocess.run(
            [sys.executable, str(FOLDER / "check_sqlite.py")],
            cwd=base.parent,
            env={"NANDLAB_ACK": acknowledged},
            capture_output=True,
            check=False,
            encoding="utf-8",
        )
        assert (done.returncode, done.stdout) == (status, told), done.stderr


PROGRAM = """
import os
for number in range(1, 5):
    file = os.open('state.new', os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o640)
    os.write(file, b'%d' % number * 5000)
    os.fsync(file)
    os.close(file)
    os.rename('state.new', 'state')
    folder = os.open('.', os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)
    print(number, flush=True)
"""


def test_a_recorded_program_keeps_what_it_acknowledged(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    log = record(tmp_path / "log", python(PROGRAM), root, *WHOLE)
    script = nandlab.strace_import(log, root=root, ack="stdout").script
    acks = [line for line in script.splitlines() if line.startswith("ack")]
    assert acks == [f"ack {number}" for number in range(1, 5)]

    def newest(folder: Path, acknowledged: int | None) -> str | None:
        state = folder / "state"
        found = int(state.read_bytes()[:1]) if state.exists() else 0
        return None if found >= (acknowledged or 0) else f"{found} of {acknowledged}"

    assert nandlab.crash(script, fs="ubifs", check=newest).is_clean
    # The same acknowledgements before the rename: what was told is not durable then.
    early = script.replace("fsync f0\n", "fsync f0\nack 9\n")
    found = nandlab.crash(early, fs="ubifs", check=newest)
    assert "0 of 9" in {group["first"]["reason"] for group in found.answer["check"]["groups"]}
