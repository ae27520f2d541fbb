"""Signals while results have nowhere to go: every command with every kind of place.

The places are a disk that is full, one that fills up, a read-only one, a folder that vanishes, a
name that is no text, and a standard output that is closed or full. None may end in a traceback, a
panic, or later than two seconds of processor time after the signal. `NANDLAB_LONG_TESTS=1` tries
them all; the short form tries each command with one place in turn.
"""

import os
import random
import shutil
import signal
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from long_commands import LONG, command_line
from long_tests import IS_LONG
from places import fill, own_disk
from signalled import Blow, End, stopped

pytestmark = pytest.mark.usefixtures("engine_is_built")

ENDS_WITHIN_S = 2.0
STATUS = {signal.SIGINT: 130, signal.SIGTERM: 143}
NO_READER = 141


@dataclass(frozen=True)
class Place:
    """Where a command writes, and what becomes of it."""

    out: str
    shell: str | None = None
    """A line of the shell around the command, which gives it other streams."""
    vanishes: Callable[[], None] = lambda: None


def _full(folder: Path, stack: ExitStack) -> Place:
    disk = stack.enter_context(own_disk(folder / "full", "-o", "size=1m"))
    fill(disk)
    return Place(str(disk / "out"))


def _filling(folder: Path, stack: ExitStack) -> Place:
    disk = stack.enter_context(own_disk(folder / "filling", "-o", "size=1m"))
    fill(disk, leave_bytes=80 << 10)
    return Place(str(disk / "out"))


def _read_only(folder: Path, stack: ExitStack) -> Place:
    disk = stack.enter_context(own_disk(folder / "read-only", "-o", "ro,size=1m"))
    return Place(str(disk / "out"))


def _vanishing(folder: Path, _stack: ExitStack) -> Place:
    parent = folder / "vanishing"
    parent.mkdir()
    return Place(str(parent / "out"), vanishes=lambda: shutil.rmtree(parent, ignore_errors=True))


def _no_text(folder: Path, _stack: ExitStack) -> Place:
    return Place(os.fsdecode(os.fsencode(folder) + b"/o\xfft"))


def _closed(folder: Path, _stack: ExitStack) -> Place:
    return Place(str(folder / "out"), shell='exec "$@" >&-')


def _full_stream(folder: Path, _stack: ExitStack) -> Place:
    return Place(str(folder / "out"), shell='exec "$@" >/dev/full')


STREAMS = {"closed": _closed, "full-stream": _full_stream}
FOLDERS = {
    "full": _full,
    "filling": _filling,
    "read-only": _read_only,
    "vanishing": _vanishing,
    "no-text": _no_text,
}


def _places(name: str) -> list[str]:
    """The kinds of places that mean something to a command."""
    return [*FOLDERS, *STREAMS] if LONG[name].writes else [*STREAMS]


def _cases() -> list[tuple[str, str, signal.Signals]]:
    cases = []
    for index, name in enumerate(LONG):
        places, numbers = _places(name), tuple(STATUS)
        if IS_LONG:
            cases += [(name, place, number) for place in places for number in numbers]
        else:
            cases.append((name, places[index % len(places)], numbers[index // len(places) % 2]))
    return cases


@pytest.mark.parametrize(
    ("name", "kind", "number"), _cases(), ids=lambda value: getattr(value, "name", value)
)
def test_a_signal_ends_a_command_that_cannot_write(
    name: str, kind: str, number: signal.Signals, inputs: Path, tmp_path: Path
) -> None:
    long = LONG[name]
    draw = random.Random(f"{name} {kind} {number}")
    with ExitStack() as stack:
        place = (FOLDERS | STREAMS)[kind](tmp_path, stack)
        words = command_line(long, inputs, place.out)
        blow = Blow(number, draw.uniform(0, long.span_s), place.vanishes, place.shell)
        end = stopped(words, long, blow, tmp_path)
        _ends_as_promised(end, number, f"{name}, {kind}: {end}")
        left = [path.name for path in tmp_path.glob("*/.nandlab*")]
        assert left == [], f"{left} {end}"


def _ends_as_promised(end: End, number: signal.Signals, shown: str) -> None:
    for sign in ("Traceback", "panicked", "internal error", "Exception ignored"):
        assert sign not in end.errors, shown
    assert end.code in (0, 1, 2, NO_READER, STATUS[number]), shown
    assert end.processor_s <= ENDS_WITHIN_S, shown
    if end.code == 2:
        assert "nandlab: error: " in end.errors, shown
