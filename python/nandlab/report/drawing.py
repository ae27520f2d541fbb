"""Calls of the chart engine, which take seconds and look for no signal."""

import threading
from collections.abc import Callable
from typing import TypeVar

from nandlab.interruption import leaves_work_behind

_LOOK_S = 0.02

Drawn = TypeVar("Drawn")


def waited_for(call: Callable[[], Drawn]) -> Drawn:
    """What the call returns; a signal ends the wait, not the call.

    The engine lets other threads go on while it works, so that handlers of signals run here.
    """
    results: list[Drawn] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            results.append(call())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(_LOOK_S)
    except KeyboardInterrupt:
        leaves_work_behind()
        raise
    if errors:
        raise errors[0]
    return results[0]
