"""`script --in host`: programs, their scripts carried out here, and the calls of both.

A program runs under strace, its log becomes a script, and the script runs under strace with `--in
host`. `host_calls` finds the calls of both logs apart from the importer.
"""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from host_calls import Calls, Event, folded, with_times_of
from strace_logs import HOW, WHOLE, need_strace, python, record

import nandlab
from nandlab.errors import NandlabError
from nandlab.host_script import COUNTS_HEAD
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
    failures: int | None = None
    """Calls below the root that fail; None where versions of the program differ."""


def shell(text: str) -> tuple[str, ...]:
    return ("sh", "-c", text)


SQL = (
    "create table t (a integer primary key, b); insert into t (b) values ('one'); "
    "insert into t (b) select randomblob(3000) from t, t x, t y; begin; "
    "insert into t (b) select hex(randomblob(500)) from (select 1 union select 2 union select 3); "
    "commit; delete from t where a = 1; update t set b = zeroblob(9000);"
)

LOGGER = """
import ctypes, os
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
rename = ctypes.CDLL(None).renameat2
assert rename(-100, b'log/audit', -100, b'log/app', 2) == 0  # RENAME_EXCHANGE
assert rename(-100, b'log/app', -100, b'log/older', 1) == 0  # RENAME_NOREPLACE
os.rename('log/audit', 'log/app')
os.rename('log/older', 'log/audit')
os.write(audit, b'to the file that was replaced')
os.chmod('log/audit', 0o400)
os.symlink('audit', 'log/latest')
try:
    os.setxattr('log/audit', 'user.kind', b'log')
except OSError:
    pass  # tmpfs has such attributes since Linux 6.6
os.sync()
"""

EDITOR = (
    "printf 'one\\ntwo\\nthree\\n' > text && "
    "vim -u NONE -i NONE -N -es -c 'set backupskip= backup swapfile backupcopy=no fsync' "
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
        failures=1,
    ),
    "sqlite, write-ahead log": Program(
        ("sqlite3",),
        ("sqlite3", "base.db", f"pragma journal_mode = wal; {SQL}"),
        frozenset(["mmap"]),
        calls=("write", "read", "fdatasync", "ftruncate"),
        failures=1,
    ),
    "git commit": Program(("git",), shell(COMMIT), calls=("link", "rename", "mkdir")),
    "vim": Program(("vim",), shell(EDITOR), calls=("rename", "unlink", "fsync")),
    "logger": Program((), python(LOGGER), calls=("fallocate", "fdatasync", "fsync", "sync")),
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


def _traced(guest: Path, log: Path) -> Path:
    """A program that runs the guest program under strace; the command itself is not traced."""
    wrapper = log.with_suffix(".sh")
    traced = [one + TRACED if one.startswith("trace=") else one for one in HOW]
    words = [need_strace(), *traced, *WHOLE, "-o", str(log), str(guest)]
    wrapper.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n', encoding="utf-8")
    wrapper.chmod(0o700)
    return wrapper


def _replayed(
    guest: Path, script: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[str, Path]:
    """The log of `--in host`, and the directory that it kept."""
    log = folder / "replay.log"
    monkeypatch.setenv(GUEST_PROGRAM_VARIABLE, str(_traced(guest, log)))
    found = nandlab.script(script, place="host", keep=True, no_sleep=True)
    assert not found.failures
    return log.read_text(encoding="ascii"), Path(found.answer["directory"])


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


def _folder(folder: Path) -> Path:
    found = folder / "temporary"
    found.mkdir(exist_ok=True)
    return found


@pytest.fixture
def temporary(guest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which the command makes its directory."""
    monkeypatch.setenv(GUEST_PROGRAM_VARIABLE, str(guest))
    monkeypatch.setattr(tempfile, "tempdir", str(_folder(tmp_path)))
    return _folder(tmp_path)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_script_makes_the_calls_of_its_program(
    name: str, guest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = PROGRAMS[name]
    for need in program.needs:
        if shutil.which(need) is None:
            pytest.skip(f"{need} is not installed (make system-packages)")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    root = tmp_path / "root"
    root.mkdir()
    _prepared(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(_folder(tmp_path)))
    text = record(tmp_path / "log", program.words, root, *WHOLE)
    found = nandlab.strace_import(text, root=root)
    there = Calls(text, str(root), str(root))
    log, kept = _replayed(guest, found.script, tmp_path, monkeypatch)
    here = Calls(log, str(kept), "/")
    assert set(there.not_kept) == program.not_kept
    assert set(program.calls) <= {str(one[0]) for one in there.events}
    assert found.answer["files_before"] == found.answer["bytes_drawn"] == 0
    calls = folded(here.events)
    said = differences(name, with_times_of(folded(there.events), calls), calls)
    assert not said, said
    # The script of the second log is that of the first.
    again = nandlab.strace_import(log, root=kept)
    assert _lines(again.script) == _lines(found.script)
    # Calls that failed fail alike, and joined lines run, too: one that does not would end the run.
    monkeypatch.setenv(GUEST_PROGRAM_VARIABLE, str(guest))
    failing = nandlab.strace_import(text, root=root, failed="fails").script
    assert failing.count("\nfails ") == program.failures or program.failures is None
    for other in (failing, nandlab.strace_import(text, root=root, join=True).script):
        assert nandlab.script(other, place="host", no_sleep=True).failures == ()


WRITES = "open f0 a rw,creat,dsync 600\nwrite f0 9 x 1\npwrite f0 20 5 x 2\nfsync f0\nclose f0\n"


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (WRITES.replace("20 5", "21 5"), "added   ('write', b'a', 21, 5)"),
        (WRITES.replace("write f0 9", "write f0 8"), "lost    ('write', b'a', 0, 9)"),
        (WRITES.replace("fsync f0", "fdatasync f0"), "added   ('fdatasync', b'a')"),
        (WRITES.replace("fsync f0\n", ""), "lost    ('fsync', b'a')"),
        (WRITES.replace("dsync", "sync"), "O_SYNC"),
        (WRITES.replace("close f0\n", "close f0\nunlink a\n"), "added   ('unlink', b'a')"),
    ],
)
def test_a_call_that_differs_is_told(
    wrong: str,
    told: str,
    guest: Path,
    temporary: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = []
    for text in (WRITES, WRITES, wrong):
        log, kept = _replayed(guest, text, tmp_path, monkeypatch)
        calls.append(Calls(log, str(kept), "/").events)
    assert differences("a program", calls[0], calls[1]) == ""
    assert told in differences("a program", calls[0], calls[2])


def test_the_directory_is_removed_unless_it_is_kept(temporary: Path) -> None:
    text = "mkdir d 0\nmkdir d/e 755\nput d/e/f 0 5000 4096 t 1\nsymlink e d/l\n"
    found = nandlab.script(text, place="host")
    assert found.phases["phase"].to_list() == ["script"]
    assert found.phases["calls"].to_list() == [4]
    assert found.answer["directory"] is None
    assert not list(temporary.iterdir())
    kept = nandlab.script(text, place="host", keep=True)
    (folder,) = temporary.iterdir()
    assert kept.answer["directory"] == str(folder)
    assert (folder / "d/e/f").stat().st_size == 5000
    with pytest.raises(NandlabError, match=r"script:2: unlink: .*os error 2"):
        nandlab.script("sync\nunlink none\n", place="host")
    assert list(temporary.iterdir()) == [folder]


def test_what_needs_a_chip_is_refused_with_its_place(temporary: Path) -> None:
    for line in ("mount -", "umount", "powercut", "cmd rmmod nandsim", "snap a", "drop"):
        with pytest.raises(NandlabError, match="script:2: a directory of this machine has no chip"):
            nandlab.script(f"put a 644 1 1 x 1\n{line}\n", place="host")
    with pytest.raises(NandlabError, match="script:1: a device would be one of this machine"):
        nandlab.script("mknod a 600 b 8 0\nput a 644 1 1 x 1\n", place="host")
    with pytest.raises(NandlabError, match=r"script:1:1: `pit` is no call"):
        nandlab.script("pit a\n", place="host")
    for name, value in (("fs", "ubifs"), ("blocks", 64), ("seq", "s")):
        with pytest.raises(NandlabError, match=f"--{name}: a directory of this machine"):
            nandlab.script("sync\n", place="host", **{name: value})  # type: ignore[arg-type]
    with pytest.raises(NandlabError, match="--keep: needs --in host"):
        nandlab.script("sync\n", keep=True)
    assert not list(temporary.iterdir())


def test_waits_blocks_and_expected_failures(temporary: Path, tmp_path: Path) -> None:
    text = (
        "phase one\nfails ENOENT unlink a\ntry unlink b\nfor i in 1..3 { mkdir d$i 755 }\n"
        "phase two\nevery 1h for 1d { put d1/x 644 1 1 x 1 }\nsleep 1d\n"
        "concurrent {\nput d2/y 600 9 9 x 1\nsleep 1h\n} {\nmkdir d3/z 700\n}\n"
    )
    tree = tmp_path / "tree"
    counts = tmp_path / "counts.csv"
    found = nandlab.script(text, place="host", no_sleep=True, manifest=tree, counts=counts)
    head, *rows = counts.read_text(encoding="utf-8").splitlines()
    assert (head, [row.rpartition(",")[0] for row in rows]) == (COUNTS_HEAD, ["one,5", "two,24"])
    assert [row["phase"] for row in found.rows] == ["one", "two"]
    assert [row["calls"] for row in found.rows] == [5, 24]
    (failure,) = found.failures
    assert failure.startswith("script:3: unlink: ")
    names = [line.rpartition("\t")[2] for line in tree.read_text(encoding="utf-8").splitlines()]
    assert names[1:] == [".", "d1", "d1/x", "d2", "d2/y", "d3", "d3/z"]
    begun = time.monotonic()
    nandlab.script("sleep 300ms\nevery 100ms for 200ms { sync }\n", place="host")
    assert time.monotonic() - begun > 0.3
    with pytest.raises(
        NandlabError, match=r"script:1: ENOSPC: .* was expected, but the call succeeded"
    ):
        nandlab.script("fails ENOSPC mkdir a 755\n", place="host")


@pytest.mark.parametrize(("sign", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_calls_and_removes_the_directory(
    sign: int, code: int, guest: Path, tmp_path: Path
) -> None:
    script, place = tmp_path / "long.ops", _folder(tmp_path)
    script.write_text("put a 644 1 1 x 1\nsleep 1h\n", encoding="utf-8")
    environment = os.environ | {"TMPDIR": str(place), GUEST_PROGRAM_VARIABLE: str(guest)}
    words = [sys.executable, "-m", "nandlab", "script", str(script), "--in", "host"]
    with subprocess.Popen(words, env=environment, stderr=subprocess.DEVNULL) as command:
        try:
            while not list(place.glob("*/a")):
                assert command.poll() is None
                time.sleep(0.05)
            command.send_signal(sign)
            assert command.wait(timeout=60) == code
        finally:
            command.kill()
    assert not list(place.iterdir())


def _made(guest: Path, script: str, folder: Path, user: int | None) -> str:
    """What the program prints of a script in a folder, as a user of this machine."""
    place = folder / "script.ops"
    place.write_text(script, encoding="utf-8")
    (folder / "in").mkdir(exist_ok=True)
    if user is not None:
        os.chown(folder / "in", user, user)
    words = [guest, "host-script", "--file", place, "--directory", folder / "in"]
    words += ["--keep-going", "no", "--waits", "yes"]
    done = subprocess.run(
        words, capture_output=True, check=True, encoding="utf-8", user=user, group=user
    )
    return done.stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may act as another user")
def test_no_call_leaves_the_directory(guest: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        program = shutil.copy(guest, folder / "guest")
        (folder / "outside").write_text("as it was", encoding="utf-8")
        ways = (
            f"symlink {folder}/outside a\nput a 644 5 5 x 1\n",
            "put ../outside 644 5 5 x 1\n",
            "mkdir d 755\nsymlink ../.. d/up\nput d/up/outside 644 5 5 x 1\n",
            "unlink ../outside\n",
            "symlink .. up\nrename up/outside taken\n",
            "concurrent {\nsymlink .. u\nput u/outside 644 5 5 x 1\n} {\nunlink ../outside\n}\n",
        )
        for user in (None, 65534):
            for way in ways:
                told = _made(Path(program), way, folder, user)
                # Root has the directory as its root. Others are told before anything runs.
                assert user is None or told.startswith("refused\t")
                assert user is None or "out of the directory" in told
                assert not (user and list((folder / "in").iterdir()))
                assert (folder / "outside").read_text(encoding="utf-8") == "as it was"
                shutil.rmtree(folder / "in")
        told = _made(Path(program), "mkdir a 755\nchown a 0 0\n", folder, 65534)
        assert told.startswith("refused\t2\tonly root gives files to 0:0")
        assert not list((folder / "in").iterdir())
        told = _made(
            Path(program), "mkdir a 755\nsymlink a b\nput b/f 644 3 3 x 1\n", folder, 65534
        )
        assert told.startswith("phase\tscript\t3\t")
