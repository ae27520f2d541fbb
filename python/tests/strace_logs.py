"""Logs of strace for tests: written by hand, and recorded."""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

TRACED = "%file,%desc,%process,sync,syncfs,msync,umask"
HOW = ("-f", "-ttt", "-y", "-e", f"trace={TRACED}")
WHOLE = ("-xx", "-s", "16777216")


def log_of(*calls: str, process: int = 7, step_us: int = 10) -> str:
    """A log of calls; `/r` is the root. A call that begins with `@N ` is of process N."""
    lines = []
    for number, call in enumerate(calls):
        maker, _, text = call.partition(" ") if call.startswith("@") else (f"@{process}", "", call)
        micros = number * step_us
        stamp = f"17956{micros // 10**6:05d}.{micros % 10**6:06d}"
        lines.append(f"{maker[1:]} {stamp} {text}\n")
    return "".join(lines)


def need_strace() -> str:
    """The program, where it may trace; else the test is left out by its name."""
    found = shutil.which("strace")
    if found is None:
        pytest.skip("strace is not installed")
    done = subprocess.run([found, "-o", "/dev/null", "true"], capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"strace may not trace here: {done.stderr.decode(errors='replace').strip()}")
    return found


def record(log: Path, program: Sequence[str], folder: Path, *options: str) -> str:
    """Runs a program in a folder under strace, with umask 022; the text of the log."""
    words = [need_strace(), *HOW, *options, "-o", str(log), *program]
    done = subprocess.run(words, cwd=folder, capture_output=True, check=False, umask=0o022)
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return log.read_text(encoding="ascii")


def python(text: str) -> tuple[str, ...]:
    """A program of Python, without files of its own beside."""
    return (sys.executable, "-I", "-B", "-c", text)


LOG = log_of(
    'openat(AT_FDCWD</r>, "a", O_WRONLY|O_CREAT|O_EXCL, 0666) = 3</r/a>',
    'write(3</r/a>, "hello", 5) = 5',
    "fsync(3</r/a>) = 0",
    'unlink("a") = 0',
)
"""A short log, whose root is `/r`."""
