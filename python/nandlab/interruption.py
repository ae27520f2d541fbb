"""Ctrl-C and SIGTERM: work ends soon, what is finished stays, the exit status tells the signal.

The handler raises `Interrupted` in the main thread; the engine is told by its own calls, which look
for it many times a second. A second signal changes nothing, for everything is ending already; one
that comes when that takes too long ends the process at once.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""What asks to stop."""

ENDS_WITHIN_S = 2.0
"""All long work ends in this time after the signal."""

_AGAIN_AFTER_S = 0.02
"""An exception that was lost is raised again after this time, out of the place that lost it."""

_STATUS_OF_SIGNALS = 128
"""A shell adds the number of the signal: 130 after Ctrl-C, 143 after SIGTERM."""


class Interrupted(KeyboardInterrupt):
    """Somebody asked to stop; `status` is that of the process."""

    def __init__(self, number: int) -> None:
        """Keep the number of the signal."""
        super().__init__(f"signal {number}")
        self.status = _STATUS_OF_SIGNALS + number


class _State:
    """The first signal, when it came, and whether its exception has to wait."""

    def __init__(self) -> None:
        self.number: int | None = None
        self.since_s = 0.0
        self.held = 0
        self.is_raised = False
        self.leaves_work = False


_state = _State()


def heed_signals() -> None:
    """Installs the handlers; what the caller of the process ignores stays ignored."""
    global _state
    if threading.current_thread() is not threading.main_thread():
        return
    _state = _State()
    sys.unraisablehook = _raise_again
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _handle)


def rest() -> None:
    """The process has done its work and ends: a signal that comes now has nothing to end.

    The interpreter takes its handlers back while it ends, and the signal would end the process with
    a status that says the work was cut short.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def received() -> Interrupted | None:
    """The first signal that came."""
    return None if _state.number is None else Interrupted(_state.number)


@contextmanager
def held() -> Iterator[None]:
    """A signal waits until the block has ended: it is short, and must be done as a whole."""
    _state.held += 1
    try:
        yield
    finally:
        _state.held -= 1
    if _state.held == 0 and _state.number is not None and not _state.is_raised:
        _state.is_raised = True
        raise Interrupted(_state.number)


def leaves_work_behind() -> None:
    """A thread is left in a library that cannot be told to stop: `end_with` ends the process."""
    _state.leaves_work = True


def end_with(status: int) -> int:
    """The status of a process that was interrupted; it ends at once if work was left behind.

    The libraries are not asked then to tidy up under a thread that still uses them.
    """
    if _state.leaves_work:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    return status


def _raise_again(lost: sys.UnraisableHookArgs) -> None:
    """Sends the signal once more if its exception was lost.

    The interpreter runs a handler between any two instructions, those of a finalizer or of a
    callback of a weak reference included, and drops what these raise. The lock of a module that is
    imported has such a callback, so a command that has just begun would go on as if nothing came.
    """
    if not isinstance(lost.exc_value, Interrupted):
        sys.__unraisablehook__(lost)
        return
    _state.is_raised = False
    # The main thread, as a call of the system that waits there must end for the handler to run.
    main = threading.main_thread().ident
    again = threading.Timer(_AGAIN_AFTER_S, signal.pthread_kill, (main, _state.number))
    again.daemon = True
    again.start()


def _handle(number: int, _frame: FrameType | None) -> None:
    if _state.number is not None and not _state.is_raised and _state.held == 0:
        _state.is_raised = True
        raise Interrupted(_state.number)
    if _state.number is not None:
        if time.monotonic() - _state.since_s > ENDS_WITHIN_S:
            from nandlab.vm.children import end_all

            end_all()
            os._exit(_STATUS_OF_SIGNALS + _state.number)
        return
    _state.number, _state.since_s = number, time.monotonic()
    if _state.held == 0:
        _state.is_raised = True
        raise Interrupted(number)
