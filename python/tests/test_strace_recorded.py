"""Logs that strace records here become scripts whose trees are those of the host."""

import hashlib
import os
import re
import shutil
import stat
import subprocess
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import pytest
from strace_logs import HOW, WHOLE, need_strace, python, record

import nandlab
from nandlab.api.names import name_bytes
from nandlab.api.syscall_logs import StraceImport

pytestmark = pytest.mark.usefixtures("engine_is_built")

FILE_SYSTEMS = ("ubifs", "yaffs2")


@dataclass(frozen=True)
class Entry:
    """What a tree has under a name."""

    kind: str
    mode: int
    size: int
    content: str
    """Hash of the bytes, or where a symbolic link leads."""


Entries = dict[bytes, Entry]


def of_host(root: Path) -> Entries:
    """The tree of a folder of this machine."""
    found = {}
    for place, folders, files in os.walk(os.fsencode(root)):
        for name in (*folders, *files):
            path = os.path.join(place, name)  # noqa: PTH118
            status = os.lstat(path)
            mode = stat.S_IMODE(status.st_mode)
            if stat.S_ISLNK(status.st_mode):
                content = os.readlink(path).decode()  # noqa: PTH115
                entry = Entry("link", 0o777, len(content), content)
            elif stat.S_ISDIR(status.st_mode):
                entry = Entry("folder", mode, 0, "")
            else:
                whole = Path(os.fsdecode(path)).read_bytes()
                entry = Entry("file", mode, len(whole), hashlib.sha256(whole).hexdigest())
            found[os.path.relpath(path, os.fsencode(root))] = entry
    return found


def of_image(image: Path) -> Entries:
    """The tree of the image of a chip."""
    found = {}
    for row in nandlab.image.ls(image, hashes=True).rows:
        if row["path"] in (".", "lost+found"):
            # YAFFS2 shows a folder of its own.
            continue
        kind = {"d": "folder", "l": "link", "f": "file"}[row["type"]]
        mode = int(row["mode"], 8) & 0o7777 if kind != "link" else 0o777
        size = 0 if kind == "folder" else int(row["size"])
        content = row["target"] if kind == "link" else (row["sha256"] or "")
        found[name_bytes(row["path"])] = Entry(kind, mode, size, content)
    return found


def run_script(script: str, file_system: str, image: Path) -> Entries:
    """The tree that a script leaves on a chip."""
    nandlab.script(script, fs=file_system, dump=image)
    return of_image(image)


def imported(log: str, root: Path, **options: object) -> StraceImport:
    """The script of a log."""
    return nandlab.strace_import(log, root=root, **options)  # type: ignore[arg-type]


def without_bytes(entries: Entries) -> dict[bytes, tuple[str, int, int]]:
    return {name: (one.kind, one.mode, one.size) for name, one in entries.items()}


WRITER = """
import os, subprocess, sys
os.mkdir('logs', 0o750)
log = open('logs/app log.txt', 'ab', buffering=0)
for number in range(40):
    log.write(b'line %d of the log\\n' % number)
    if number % 8 == 7:
        os.fsync(log.fileno())
for number in range(3):
    file = os.open('state.new', os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o640)
    for piece in range(5):
        os.write(file, os.urandom(3000) + bytes(1000))
    os.fsync(file)
    os.close(file)
    os.rename('state.new', 'state')
os.mkdir('moved')
big = os.open('moved/big', os.O_RDWR | os.O_CREAT, 0o600)
os.pwrite(big, b'end', 100_000)
os.pwritev(big, [b'ab' * 2000, b'cd' * 50], 4096)
os.rename('moved', 'there')
os.lseek(big, 50_000, os.SEEK_SET)
os.write(big, b'middle' * 100)
os.ftruncate(big, 99_000)
copy = os.dup(big)
os.close(big)
os.write(copy, b'by the copy')
os.link('there/big', 'same')
os.unlink('there/big')
os.write(copy, b'still there')
os.symlink(os.path.abspath('state'), 'to state')
os.symlink('logs', 'to-logs')
with open('to-logs/second', 'w') as file:
    file.write('through a link')
os.chmod('state', 0o400)
open('a>b<c "quoted" (1), \\xe9', 'w').write('odd name')
open('gone', 'w').write('x')
os.unlink('gone')
os.chdir('logs')
subprocess.run([sys.executable, '-I', '-B', '-c', "import os, sys; "
    "os.write(int(sys.argv[1]), b'by the child'); "
    "open('below', 'w').write(open('second').read())", str(copy)], pass_fds=(copy,), check=True)
os.sync()
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root folder"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("file_system", FILE_SYSTEMS)
def test_a_program_that_appends_replaces_and_moves(
    file_system: str, root: Path, tmp_path: Path
) -> None:
    log = record(tmp_path / "log", python(WRITER), root, *WHOLE)
    host = of_host(root)
    assert len(host) == 10
    found = imported(log, root)
    assert found.answer["bytes_drawn"] == found.answer["files_before"] == 0
    # The image keeps links as they are in the mount: absolute ones begin at its root.
    expected = dict(host)
    assert expected[b"to state"].content == str(root / "state")
    expected[b"to state"] = Entry("link", 0o777, len("/state"), "/state")
    assert run_script(found.script, file_system, tmp_path / "image") == expected
    found = imported(log, root, join=True)
    assert run_script(found.script, file_system, tmp_path / "joined") == expected
    # Where the host was slow the calls stand on several lines, with a wait between them.
    lines = [line for line in found.script.splitlines() if not line.startswith("sleep")]
    syncs = [line for line in lines if re.search(r"logs/app%20log.txt.* fsync$|^fsync logs", line)]
    assert len(syncs) == 5
    renames = [number for number, line in enumerate(lines) if line == "rename state.new state"]
    assert len(renames) == 3
    for number in renames:
        assert re.fullmatch(r"(put|write) state.new .* fsync|fsync state.new", lines[number - 1])
    drawn = imported(log, root, data="drawn")
    assert drawn.answer["bytes_kept"] == 0
    other = run_script(drawn.script, file_system, tmp_path / "drawn")
    assert without_bytes(other) == without_bytes(expected)
    assert other[b"state"].content != expected[b"state"].content


def test_a_short_log_keeps_sizes_and_says_what_is_drawn(root: Path, tmp_path: Path) -> None:
    log = record(tmp_path / "log", python(WRITER), root)
    found = imported(log, root)
    assert found.answer["bytes_drawn"] >= 3 * 5 * 4000
    expected = of_host(root)
    expected[b"to state"] = Entry("link", 0o777, len("/state"), "/state")
    tree = run_script(found.script, "yaffs2", tmp_path / "image")
    assert without_bytes(tree) == without_bytes(expected)


DATABASE = """
import sqlite3, sys
base = sqlite3.connect('base.db', isolation_level=None)
base.execute('pragma journal_mode = %s' % sys.argv[1])
base.execute('create table t (a integer primary key, b)')
for number in range(30):
    base.execute('insert into t (b) values (?)', ('text %d ' % number * 100,))
base.execute('begin')
for number in range(200):
    base.execute('insert into t (b) values (?)', (number,))
base.execute('commit')
base.execute('delete from t where a % 3 = 0')
if sys.argv[2] == 'crash':
    base.execute('begin immediate')
    base.execute('update t set b = 1')
    import os; os._exit(0)
base.close()
"""


@pytest.mark.parametrize("end", ["close", "crash"])
@pytest.mark.parametrize("mode", ["delete", "truncate", "persist", "wal"])
def test_sqlite_in_each_journal_mode(mode: str, end: str, root: Path, tmp_path: Path) -> None:
    program = (*python(DATABASE), mode, end)
    log = record(tmp_path / "log", program, root, *WHOLE)
    found = imported(log, root)
    expected = of_host(root)
    names = {b"base.db"}
    if mode in ("persist", "truncate"):
        names.add(b"base.db-journal")
    if (mode, end) == ("wal", "crash"):
        names |= {b"base.db-shm", b"base.db-wal"}
    assert names <= set(expected)
    mapped = ["base.db-shm"] if mode == "wal" else []
    assert found.answer["mapped"] == mapped
    assert "fdatasync f0\n" in found.script
    joined = imported(log, root, join=True)
    assert ("fdatasync base.db\n" in joined.script) or (" fsync\n" in joined.script)
    scripts = (found.script, joined.script)
    for number, (file_system, script) in enumerate(product(FILE_SYSTEMS, scripts)):
        tree = run_script(script, file_system, tmp_path / str(number))
        for name in map(str.encode, mapped):
            # What SQLite stores into the mapped index is in no log.
            assert without_bytes(tree).get(name) == without_bytes(expected).get(name)
            tree.pop(name, None)
        left = {name: one for name, one in expected.items() if name.decode() not in mapped}
        assert tree == left


@pytest.mark.parametrize("file_system", FILE_SYSTEMS)
def test_a_commit_of_git(
    file_system: str, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    commit = (
        "git init -q . && echo one > file && mkdir d && echo two > d/file && git add . && "
        "git -c user.name=n -c user.email=e@x commit -qm first && echo three >> file && "
        "git -c user.name=n -c user.email=e@x -c core.fsync=all commit -qam second && "
        "git gc -q && git fsck"
    )
    log = record(tmp_path / "log", ("sh", "-c", commit), root, *WHOLE)
    found = imported(log, root)
    assert found.answer["processes"] > 3
    assert "processes and threads made the calls" in found.script
    assert run_script(found.script, file_system, tmp_path / "image") == of_host(root)
    joined = imported(log, root, join=True)
    assert run_script(joined.script, file_system, tmp_path / "joined") == of_host(root)


CHANGER = """
import os
os.stat('old')
file = os.open('old', os.O_RDWR)
os.pread(file, 100, 2000)
os.pwrite(file, b'changed', 5000)
os.write(os.open('grown', os.O_WRONLY | os.O_APPEND), b'more')
os.stat('grown')
print(len(open('d/read', 'rb').read()))
os.rename('d', 'e')
os.unlink('e/removed')
"""


def test_files_that_were_there_have_the_sizes_that_the_log_shows(
    root: Path, tmp_path: Path
) -> None:
    (root / "d").mkdir()
    for name, size in (("old", 9000), ("grown", 700), ("d/read", 33_000), ("d/removed", 5)):
        (root / name).write_bytes(b"x" * size)
        (root / name).chmod(0o644)
    log = record(tmp_path / "log", python(CHANGER), root, *WHOLE)
    found = imported(log, root)
    assert found.answer["files_before"] == 5
    expected = of_host(root)
    for file_system in FILE_SYSTEMS:
        tree = run_script(found.script, file_system, tmp_path / file_system)
        assert without_bytes(tree) == without_bytes(expected)
    assert "put old 644 9000 " in found.script
    assert "put grown 644 700 " in found.script
    assert "pwrite f0 5000 7 h 6368616e676564\n" in found.script
    assert "pread f0 2000 100\n" in found.script
    joined = imported(log, root, join=True)
    assert "write old 5000 7 7 h 6368616e676564\n" in joined.script
    assert "read old 100 2000 100\n" in joined.script


def test_a_log_on_standard_error(root: Path, tmp_path: Path) -> None:
    """Without `-o` a number stands before a call only while there are several processes."""
    program = (
        "echo one > a; (echo two > b; echo three >> a) & wait; mkdir c; (cd c; echo four > d); "
        "echo five >> c/d"
    )
    done = subprocess.run(
        [need_strace(), *HOW, *WHOLE, "sh", "-c", program],
        cwd=root,
        capture_output=True,
        check=True,
        umask=0o022,
        encoding="ascii",
    )
    found = imported(done.stderr, root)
    assert run_script(found.script, "ubifs", tmp_path / "image") == of_host(root)
