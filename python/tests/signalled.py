"""Processes that a signal ends: when it comes, and what it leaves of them.

Moments and the time until the end are processor time, which other work of the machine does not
change. The clock has an allowance that is measured.
"""

import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from long_commands import NANDLAB, Long

PATIENCE_S = 120.0
TICKS = os.sysconf("SC_CLK_TCK")
WAITS_FACTOR = 4
"""A process that waits uses no processor time: a moment comes by the clock, so much later."""


@dataclass(frozen=True)
class End:
    """How a command ended after a signal."""

    code: int
    output: str
    errors: str
    processor_s: float
    clock_s: float


@dataclass(frozen=True)
class Blow:
    """What happens to a command, and when."""

    number: signal.Signals
    moment_s: float
    """Processor time after its handlers are there."""
    before: Callable[[], None] = lambda: None
    """Called at half that time."""
    shell: str | None = None
    """A line of the shell around `"$@"` that gives it other streams."""


def stopped(words: Sequence[str], long: Long, blow: Blow, folder: Path) -> End:
    """Starts a command, sends the signal at its moment, and waits for its end."""
    scratch = folder / "tmp"
    scratch.mkdir(exist_ok=True)
    given = list(words) if blow.shell is None else ["bash", "-c", blow.shell, "bash", *words]
    with ExitStack() as stack:
        output = stack.enter_context((folder / "output").open("w+b"))
        errors = stack.enter_context((folder / "errors").open("w+b"))
        process = subprocess.Popen(
            given,
            stdin=_standard_input(long, stack),  # type: ignore[arg-type]
            stdout=output,
            stderr=errors,
            cwd=folder,
            env=os.environ | {"TMPDIR": str(scratch)},
        )
        while _lives(process.pid) and not _heeds(process.pid):
            time.sleep(0.005)
        _works_for(process.pid, blow.moment_s / 2)
        blow.before()
        _works_for(process.pid, blow.moment_s / 2)
        before_s, start_s = _processor_s(process.pid), time.monotonic()
        # Not by the object's own method: that takes the status of a command that has ended.
        os.kill(process.pid, blow.number)
        status, usage = _end_of(process.pid)
        clock_s = time.monotonic() - start_s
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.stdin is not None:
            process.stdin.close()
        output.seek(0)
        errors.seek(0)
        texts = [file.read().decode("utf-8", "replace") for file in (output, errors)]
    used_s = usage.ru_utime + usage.ru_stime - before_s
    return End(process.returncode, texts[0], texts[1], used_s, clock_s)


def _standard_input(long: Long, stack: ExitStack) -> object:
    if long.feeds is None:
        return subprocess.PIPE if long.is_silent else subprocess.DEVNULL
    feeder = subprocess.Popen(["yes", long.feeds], stdout=subprocess.PIPE)

    def end() -> None:
        feeder.kill()
        feeder.communicate()

    stack.callback(end)
    return feeder.stdout


def _heeds(process: int) -> bool:
    """True if the process has a handler for SIGTERM: until then the interpreter starts."""
    try:
        status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
        name = Path(f"/proc/{process}/comm").read_text(encoding="utf-8").strip()
    except OSError:
        return False
    caught = next((line for line in status.splitlines() if line.startswith("SigCgt:")), "0 0")
    return name != "bash" and bool(int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1)


def _processor_s(process: int) -> float:
    """Processor time of all threads so far; 0 if the process has ended."""
    try:
        text = Path(f"/proc/{process}/stat").read_text(encoding="utf-8")
    except OSError:
        return 0.0
    fields = text.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def _lives(process: int) -> bool:
    """False of a process that has ended; its status stays for whoever waits for it."""
    return os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None


def _works_for(process: int, moment_s: float) -> None:
    """Waits until a process has used so much processor time, or has waited for longer."""
    begin_s, limit_s = _processor_s(process), time.monotonic() + WAITS_FACTOR * moment_s
    while _lives(process) and _processor_s(process) - begin_s < moment_s:
        if time.monotonic() >= limit_s:
            return
        time.sleep(0.005)


def _end_of(process: int) -> tuple[int, resource.struct_rusage]:
    limit_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < limit_s:
        found, status, usage = os.wait4(process, os.WNOHANG)
        if found:
            return status, usage
        time.sleep(0.01)
    os.kill(process, signal.SIGKILL)
    os.wait4(process, 0)
    pytest.fail(f"the command did not end in {PATIENCE_S} s after the signal")


def slowness() -> float:
    """How many times longer than its processor time a program of this machine takes at present."""
    start_s, before = time.monotonic(), os.times()
    subprocess.run([*NANDLAB, "--version"], check=True, capture_output=True)
    after = os.times()
    own_s = after.children_user + after.children_system
    own_s -= before.children_user + before.children_system
    return max((time.monotonic() - start_s) / max(own_s, 0.01), 1.0)
