"""Records programs under strace and writes their scripts to workloads/recorded, with its README."""

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import nandlab

FOLDER = Path(__file__).resolve().parents[1] / "workloads" / "recorded"

TRACED = "%file,%desc,%process,sync,syncfs,msync,umask"
STRACE = ("strace", "-f", "-ttt", "-y", "-xx", "-s", "16777216", "-e", f"trace={TRACED}")

ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "LC_ALL": "C",
    "TZ": "UTC",
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "SOURCE_DATE_EPOCH": "1000000000",
    **{f"GIT_{role}_NAME": "name" for role in ("AUTHOR", "COMMITTER")},
    **{f"GIT_{role}_EMAIL": "name@example.org" for role in ("AUTHOR", "COMMITTER")},
    **{f"GIT_{role}_DATE": "1000000000 +0000" for role in ("AUTHOR", "COMMITTER")},
}
"""All that a program sees of this machine."""

RECORDED_S = 1_000_000_000
"""The second that stands for the times of the recording."""

PYTHON = "python3"

JOURNAL_MODES = ("delete", "truncate", "persist", "wal")
SYNCHRONOUS = ("off", "normal", "full", "extra")
TRANSACTIONS = 8
ROWS = 3
"""Rows of a transaction, as `check_sqlite.py` knows them."""
ROW_BYTES = 300
"""Text of a row: pages of 4,096 bytes are divided twice within a session."""


@dataclass(frozen=True)
class Session:
    """A program that is recorded."""

    name: str
    words: tuple[str, ...]
    version: tuple[str, ...]
    """Asks the program for its version."""
    does: str
    stdin: str = ""
    setup: str = ""
    """A command of the shell whose calls are in no script, in the folder above the root."""
    needs: tuple[str, ...] = ()

    @property
    def program(self) -> str:
        """The program whose version counts."""
        return self.version[0]


def sql(journal_mode: str, synchronous: str) -> str:
    """What sqlite3 reads: transactions, and a line printed behind each COMMIT."""
    lines = [
        ".once /dev/null",
        f"pragma journal_mode = {journal_mode};",
        f"pragma synchronous = {synchronous};",
        "create table entry (id integer primary key, step integer, text);",
        "create index entry_of_step on entry (step);",
    ]
    for step in range(1, TRANSACTIONS + 1):
        lines.append("begin;")
        letter = chr(ord("a") + step)
        lines += [
            f"insert into entry (step, text) values ({step}, '{letter * ROW_BYTES}');"
            for _ in range(ROWS)
        ]
        lines += [f"update entry set step = {step} where id = 1;", "commit;", f".print {step}"]
    return "".join(f"{line}\n" for line in lines)


LOGGER = """
import os, struct
SLOT, SLOTS = 64, 64
file = os.open('ring', os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
os.ftruncate(file, SLOT * (SLOTS + 1))
os.fsync(file)
folder = os.open('.', os.O_RDONLY)
os.fsync(folder)
for number in range(1, 41):
    record = struct.pack('<QQ', number, number * 300).ljust(SLOT, b'.')
    os.pwrite(file, record, SLOT * (1 + number % SLOTS))
    os.pwrite(file, struct.pack('<Q', number), 0)
    os.fdatasync(file)
    os.write(1, b'%d\\n' % number)
"""
"""A log as round-robin databases keep it: slots of one size, and the number of the newest before
them. The name and the size are durable before the first record."""

_VIM = "vim -n -u NONE -i NONE -N -es -c 'set backupskip= backup backupcopy=no fsync'"
EDITOR = (
    f"{_VIM} -c 'normal ione' -c wq text && echo 1 && {_VIM} -c 'normal Gotwo' -c wq text && "
    f"echo 2 && {_VIM} -c 'normal Gothree' -c wq text && echo 3"
)

COMMITS = (
    "git init -q --template= . && echo one > file && git add . && "
    "git commit -qm first && echo 1 && echo two >> file && git commit -qam second && echo 2 && "
    "mkdir d && echo three > d/file && git add . && git commit -qm third && echo 3"
)

_DPKG = (
    "dpkg --admindir=$PWD/admin --instdir=$PWD/target --force-not-root --force-bad-path "
    "--log=/dev/null"
)
PACKAGE = (
    "mkdir -p admin/info admin/updates target && : > admin/status && : > admin/available && "
    f"{_DPKG} -i ../small_1.deb > /dev/null && echo 1 && "
    f"{_DPKG} -i ../small_2.deb > /dev/null && echo 2"
)
BUILD_PACKAGES = """
for version in 1 2; do
  mkdir -p package/DEBIAN package/etc package/usr/share
  printf 'Package: small\\nVersion: %s\\nArchitecture: all\\n' $version > package/DEBIAN/control
  printf 'Maintainer: name <name@example.org>\\nDescription: files\\n' >> package/DEBIAN/control
  echo /etc/small.conf > package/DEBIAN/conffiles
  echo "setting = 1" > package/etc/small.conf
  yes "text of version $version" | head -c 3000 > package/usr/share/small.txt
  find package -exec touch -d @1000000000 {} +
  dpkg-deb --root-owner-group -Znone -b package small_$version.deb > /dev/null
done
"""


def sessions() -> Iterator[Session]:
    """All sessions."""
    for mode in JOURNAL_MODES:
        for synchronous in SYNCHRONOUS:
            yield Session(
                name=f"sqlite-{mode}-{synchronous}",
                words=("stdbuf", "-oL", "sqlite3", "-batch", "base.db"),
                version=("sqlite3", "-version"),
                does=f"`journal_mode = {mode}`, `synchronous = {synchronous}`: "
                f"{TRANSACTIONS} transactions of {ROWS} rows",
                stdin=sql(mode, synchronous),
                needs=("sqlite3", "stdbuf"),
            )
    python = (PYTHON, "-I", "-S", "-B", "-c", LOGGER)
    yield Session(
        "ring-logger",
        python,
        (PYTHON, "--version"),
        "writes 40 records of 64 bytes into a ring of slots, each with `fdatasync`",
    )
    yield Session(
        "vim-save",
        ("sh", "-c", EDITOR),
        ("vim", "--version"),
        "saves a text three times: backup by rename, new file, `fsync`",
        needs=("vim",),
    )
    yield Session(
        "git-commit",
        ("sh", "-c", COMMITS),
        ("git", "--version"),
        "`git init`, then three times `git commit`",
        needs=("git",),
    )
    yield Session(
        "dpkg-upgrade",
        ("sh", "-c", PACKAGE),
        ("dpkg", "--version"),
        "installs a package of two files, then its next version",
        setup=BUILD_PACKAGES,
        needs=("dpkg", "dpkg-deb"),
    )


def version_of(words: Sequence[str]) -> str:
    """The number of a version, as the program tells it first."""
    done = subprocess.run(words, capture_output=True, check=True, encoding="utf-8")
    found = re.search(r"\d+(\.\d+)+", done.stdout + done.stderr)
    if found is None:
        raise SystemExit(f"{words[0]} tells no version")
    return found[0]


def record(session: Session) -> nandlab.StraceImport:
    """Runs a program under strace in a new folder, and makes the script of its log."""
    for program in (*session.needs, "strace"):
        if shutil.which(program) is None:
            raise SystemExit(f"{program} is not installed: no session {session.name}")
    with tempfile.TemporaryDirectory(prefix="nandlab-session-") as name:
        folder, log = Path(name).resolve(), Path(name) / "log"
        root = folder / "root"
        root.mkdir()
        _run(("sh", "-ec", session.setup), folder, "")
        _run((*STRACE, "-o", str(log), *session.words), root, session.stdin)
        return nandlab.strace_import(log, root=root, ack="stdout")


def _run(words: Sequence[str], folder: Path, stdin: str) -> None:
    done = subprocess.run(
        words,
        cwd=folder,
        input=stdin,
        capture_output=True,
        check=False,
        umask=0o022,
        encoding="utf-8",
        env=ENVIRONMENT,
    )
    if done.returncode:
        raise SystemExit(f"{shlex.join(words)}: {done.stderr.strip()}")


_MADE_BY = re.compile(r"# (Made by nandlab strace-import|The mount point stands for)")
_TIMES = re.compile(r"(utime \S+) \d+ \d+")


def script_of(session: Session, version: str, found: nandlab.StraceImport) -> str:
    """The script without what belongs to the recording: waits, times, the name of its folder."""
    kept = [
        _TIMES.sub(rf"\1 {RECORDED_S} {RECORDED_S}", line)
        for line in found.script.splitlines()
        if not line.startswith("sleep ") and not _MADE_BY.match(line)
    ]
    head = [
        f"# {session.program} {version}: {session.does}.",
        "# scripts/record_sessions.py made it of a log of strace; waits and times are left out.",
    ]
    return "".join(f"{line}\n" for line in (*head, *kept))


README_HEAD = """# Recorded sessions

Made by `scripts/record_sessions.py`: do not edit.

Each script has the calls that a program made to its files, with their bytes. `ack N` stands where
the program had told its user that step N is done. strace {strace} recorded
them, and `nandlab strace-import --ack stdout` made the scripts. Waits and times are left out, but
the index of git has those of its files, with their inodes.

    nandlab crash workloads/recorded/sqlite-delete-full.ops --fs ubifs \\
        --check "python3 $PWD/workloads/recorded/check_sqlite.py"

| script | program | command | what it does | calls | `ack` |
|---|---|---|---|---:|---:|
"""

README_TAIL = """
The programs that sqlite3, Python and the shell are given stand in `scripts/record_sessions.py`,
with the packages that dpkg installs.
"""


def readme(folder: Path, strace: str) -> str:
    """The README of the folder, of the scripts that lie there."""
    text = README_HEAD.format(strace=strace)
    for session in sessions():
        path = folder / f"{session.name}.ops"
        lines = path.read_text(encoding="utf-8").splitlines()
        calls = [line for line in lines if not line.startswith(("#", "phase", "end", "ack"))]
        acks = sum(line.startswith("ack ") for line in lines)
        command = " ".join(session.words).partition(" -c ")
        shown = f"{command[0]}{command[1]}..." if command[1] else command[0]
        version = lines[0].split()[2].rstrip(":")
        text += f"| `{path.name}` | {session.program} {version} | `{shown}` | {session.does} "
        text += f"| {len(calls)} | {acks} |\n"
    return text + README_TAIL


def main(arguments: Sequence[str] | None = None) -> int:
    """Record all sessions, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=FOLDER, help="write to this folder")
    parser.add_argument("names", nargs="*", help="record these sessions alone")
    given = parser.parse_args(arguments)
    given.out.mkdir(parents=True, exist_ok=True)
    versions: dict[tuple[str, ...], str] = {}
    for session in sessions():
        if given.names and session.name not in given.names:
            continue
        if session.version not in versions:
            versions[session.version] = version_of(session.version)
        script = script_of(session, versions[session.version], record(session))
        (given.out / f"{session.name}.ops").write_text(script, encoding="utf-8")
    if not given.names or given.out == FOLDER:
        text = readme(given.out, version_of(("strace", "--version")))
        (given.out / "README.md").write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
