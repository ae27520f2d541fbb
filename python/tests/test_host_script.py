"""`script --in host`: programs, their scripts carried out here, and the calls of both.

A program runs under strace, its log becomes a script, and the script runs under strace with `--in
host`. `host_calls` finds the calls of both logs apart from the importer.
"""

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from host_calls import Calls, Event, folded, with_times_of
from strace_logs import HOW, WHOLE, need_strace, python, record

import nandlab
from nandlab.errors import NandlabError
from nandlab.vm import VmUnavailable
from nandlab.vm.guest_program import GUEST_PROGRAM_VARIABLE, find_guest_program

TRACED = ",chroot"


@dataclass(frozen=True)
class Program:
    """A program that writes, and what of it no script keeps."""

    needs: tuple[str, ...]
    words: tuple[str, ...]
    not_kept: frozenset[str] = frozenset()
    """Calls that scripts do not have."""
    calls: tuple[str, ...] = ()
    """Calls that must be among those that were compared."""


def shell(text: str) -> tuple[str, ...]:
    return ("sh", "-c", text)


SQL = (
    "create table t (a integer primary key, b); insert into t (b) values ('one'); "
    "insert into t (b) select randomblob(3000) from t, t x, t y; begin; "
    "insert into t (b) select hex(randomblob(500)) from (select 1 union select 2 union select 3); "
    "commit; delete from t where a = 1; update t set b = zeroblob(9000);"
)

LOGGER = """
import os
from logging import INFO, getLogger
from logging.handlers import RotatingFileHandler
class Durable(RotatingFileHandler):
    def emit(self, record):
        super().emit(record)
        os.fdatasync(self.stream.fileno())
os.mkdir('log', 0o750)
folder = os.open('log', os.O_RDONLY | os.O_DIRECTORY)
log = getLogger()
log.setLevel(INFO)
log.addHandler(Durable('log/app', maxBytes=2000, backupCount=2))
for number in range(200):
    log.info('line %d of the log', number)
    if number % 50 == 49:
        os.fsync(folder)
audit = os.open('log/audit', os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_DSYNC, 0o600)
safe = os.open('log/safe', os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_SYNC)
os.posix_fallocate(safe, 0, 16384)
os.rename('log/app.1', 'log/kept')
for number in range(9):
    os.write(audit, b'audit %d\\n' % number)
    os.pwrite(safe, b'x' * number, 1000 * number)
os.ftruncate(safe, 5000)
os.lseek(safe, 4000, os.SEEK_SET)
os.read(safe, 600)
os.write(safe, b'by position')
os.unlink('log/safe')
os.write(safe, b'no name any more')
os.fsync(safe)
os.rename('log/kept', 'log/audit')
os.write(audit, b'to the file that was replaced')
os.chmod('log/audit', 0o400)
os.symlink('audit', 'log/latest')
os.setxattr('log/audit', 'user.kind', b'log') if os.path.exists('/proc/self/root') else None
os.sync()
"""

EDITOR = (
    "printf 'one\\ntwo\\nthree\\n' > text && "
    "vim -u NONE -i NONE -N -es -c 'set backupskip= backup writebackup swapfile backupcopy=no fsync' "
    "-c 'normal Gofour' -c w -c 'normal Gofive' -c wq text"
)

COMMIT = (
    "git init -q . && echo one > file && mkdir d && echo two > d/file && git add . && "
    "git -c user.name=n -c user.email=e@x -c core.fsync=all commit -qm first && "
    "echo three >> file && git -c user.name=n -c user.email=e@x commit -qam second"
)

MANY = "mkdir -m 711 a; mkdir a/b; for n in 1 2 3; do head -c ${n}0000 /dev/urandom > a/$n; done; "
ARCHIVE = MANY + "chmod 600 a/2; ln -s 1 a/link; ln a/3 a/b/three; touch -d @1000000000 a/1"

PROGRAMS = {
    "sqlite, rollback journal": Program(
        ("sqlite3",),
        ("sqlite3", "base.db", f"pragma journal_mode = delete; {SQL}"),
        calls=("open", "write", "fdatasync", "unlink", "close"),
    ),
    "sqlite, write-ahead log": Program(
        ("sqlite3",),
        ("sqlite3", "base.db", f"pragma journal_mode = wal; {SQL}"),
        frozenset(["mmap"]),
        calls=("write", "read", "fdatasync", "ftruncate"),
    ),
    "git commit": Program(("git",), shell(COMMIT), calls=("link", "rename", "mkdir")),
    "vim": Program(("vim",), shell(EDITOR), calls=("rename", "unlink", "fsync")),
    "logger": Program((), python(LOGGER), calls=("fallocate", "setxattr", "fsync", "sync")),
    "tar": Program(
        ("tar",),
        ("tar", "-xpf", "../archive.tar"),
        frozenset(["utimensat"]),
        calls=("mkdir", "symlink", "link", "utime", "chmod"),
    ),
    "dpkg": Program(
        ("dpkg", "dpkg-deb"),
        shell(
            "mkdir -p root/info root/updates target && : > root/status && : > root/available && "
            "dpkg --admindir=$PWD/root --instdir=$PWD/target --force-not-root "
            "--force-bad-path --log=$PWD/root/log -i ../small.deb"
        ),
        frozenset(["sync_file_range", "utimensat"]),
        calls=("fsync", "rename", "link", "utime"),
    ),
}


def _prepared(folder: Path) -> None:
    """An archive and a package, whose making is in no log."""
    source = folder / "source"
    source.mkdir()
    subprocess.run(shell(ARCHIVE), cwd=source, check=True, umask=0o022)
    subprocess.run(["tar", "-C", source, "-cf", folder / "archive.tar", "a"], check=True)
    if shutil.which("dpkg-deb") is None:
        return
    (source / "DEBIAN").mkdir()
    (source / "DEBIAN" / "control").write_text(
        "Package: small\nVersion: 1\nArchitecture: all\nMaintainer: nobody <n@x>\n"
        "Description: files for a test\n",
        encoding="utf-8",
    )
    words = ["dpkg-deb", "--root-owner-group", "-Zgzip", "-b", source, folder / "small.deb"]
    subprocess.run(words, check=True, capture_output=True)


@pytest.fixture(scope="module")
def guest() -> Path:
    try:
        return find_guest_program()
    except VmUnavailable as reason:
        pytest.skip(str(reason))


def _replayed(guest: Path, script: Path, folder: Path) -> tuple[str, Path]:
    """The log of `--in host`, and the directory that it kept."""
    log, place = folder / "replay.log", folder / "temporary"
    place.mkdir()
    traced = [one + TRACED if one.startswith("trace=") else one for one in HOW]
    command = [sys.executable, "-m", "nandlab", "script", str(script), "--in", "host"]
    done = subprocess.run(
        [need_strace(), *traced, *WHOLE, "-o", str(log), *command, "--keep", "--no-sleep"],
        capture_output=True,
        encoding="utf-8",
        check=False,
        env=os.environ | {"TMPDIR": str(place), GUEST_PROGRAM_VARIABLE: str(guest)},
        umask=0o022,
    )
    assert done.returncode == 0, done.stderr
    (kept,) = (one for one in place.iterdir() if one.is_dir())
    assert f"directory: {kept}\n" in done.stdout
    return log.read_text(encoding="ascii"), kept


def _lines(script: str) -> list[str]:
    """Lines of a script without comments and waits; a file opened for `fallocate` is its path."""
    lines = [one for one in script.splitlines() if not re.match("#|sleep ", one)]
    text = "\n".join(lines)
    return re.sub(r"open f(\d+) (\S+) w\n(fallocate \2 .*)\nclose f\1\n", r"\3\n", text).split("\n")


def differences(name: str, there: list[Event], here: list[Event]) -> str:
    """What two lists of calls have apart; an empty text if nothing."""
    if there == here:
        return ""
    first = next(
        (at for at, pair in enumerate(zip(there, here, strict=False)) if pair[0] != pair[1]),
        min(len(there), len(here)),
    )
    lost, added = Counter(map(str, there)), Counter(map(str, here))
    told = [
        f"{name}: {len(there)} calls, and {len(here)} of the script; the first apart is {first}:",
        *(f"  program {one}" for one in there[first : first + 3]),
        *(f"  script  {one}" for one in here[first : first + 3]),
        *(f"  lost    {one}" for one in list(lost - added)[:9]),
        *(f"  added   {one}" for one in list(added - lost)[:9]),
    ]
    return "\n".join(told)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_script_makes_the_calls_of_its_program(
    name: str, guest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = PROGRAMS[name]
    for need in program.needs:
        if shutil.which(need) is None:
            pytest.skip(f"{need} is not installed")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    root = tmp_path / "root"
    root.mkdir()
    _prepared(tmp_path)
    text = record(tmp_path / "log", program.words, root, *WHOLE)
    found = nandlab.strace_import(text, root=root)
    script = tmp_path / "script.ops"
    script.write_text(found.script, encoding="utf-8")
    there = Calls(text, str(root), str(root))
    log, kept = _replayed(guest, script, tmp_path)
    here = Calls(log, str(kept), os.getcwd())
    assert set(there.not_kept) == program.not_kept
    assert set(program.calls) <= {str(one[0]) for one in there.events}
    assert found.answer["files_before"] == found.answer["bytes_drawn"] == 0
    # The command makes the directory; the calls of the script follow.
    assert here.events[0] == ("mkdir", b".", 0o700)
    calls = folded(here.events[1:])
    said = differences(name, with_times_of(folded(there.events), calls), calls)
    assert not said, said
    # The script of the second log is that of the first.
    again = nandlab.strace_import(log, root=kept)
    assert _lines(again.script) == _lines(found.script)
