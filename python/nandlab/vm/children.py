"""Programs that are started and waited for, and that end with this one."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

_LEASH = Path(__file__).with_name("leash.py")

_running: set["subprocess.Popen[str]"] = set()
_lock = threading.Lock()


@contextmanager
def started(
    command: Sequence[str],
    *,
    directory: Path | None = None,
    environment: Mapping[str, str] | None = None,
    is_apart: bool = False,
) -> Iterator["subprocess.Popen[str]"]:
    """A program whose standard output is read as text; it and its children end with the block.

    Its errors go to standard output, too, unless `is_apart`.
    """
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", str(_LEASH), str(os.getpid()), *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE if is_apart else subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        cwd=directory,
        env=environment,
        start_new_session=True,
    )
    with _lock:
        _running.add(process)
    try:
        with process:
            try:
                yield process
            finally:
                end(process)
    finally:
        with _lock:
            _running.discard(process)


def run(
    command: Sequence[str],
    *,
    directory: Path | None = None,
    environment: Mapping[str, str] | None = None,
    is_apart: bool = False,
) -> "subprocess.CompletedProcess[str]":
    """Runs a program to its end, with what it prints."""
    with started(
        command, directory=directory, environment=environment, is_apart=is_apart
    ) as process:
        output, errors = process.communicate()
    return subprocess.CompletedProcess(list(command), process.returncode, output, errors)


def end(process: "subprocess.Popen[str]") -> None:
    """Ends a program and all that it started, if it has not ended by itself."""
    if process.poll() is None:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            # Its session is not made yet, or it ended meanwhile.
            process.kill()


def end_all() -> None:
    """Ends all programs that run."""
    with _lock:
        running = list(_running)
    for process in running:
        end(process)
