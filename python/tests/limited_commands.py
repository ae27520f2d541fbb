"""Runs commands one after the other in a process with little memory, and tells what became of each.

`python limited_commands.py` reads from standard input a JSON list of argument lists. For each it
prints a line of JSON to the file that its argument names: before the command its number, after it
the exit code, what it printed as an error, and the processor time between the signal that ends it
and its end. Only processor time counts here, so that a busy machine changes nothing.
"""

import contextlib
import io
import json
import os
import resource
import signal
import sys
import time
import traceback
from types import FrameType

MEMORY_BYTES = 2 << 30
PATIENCE_S = 1.0
"""Processor time after which a command is asked to stop: some numbers stand for long work."""

TOO_LATE_S = 6.0
"""Processor time after which a command that was asked to stop is given up."""


def main() -> None:
    """Runs all commands."""
    # A signal in the middle of an import leaves a part of the module to all later commands.
    import polars as polars

    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    with open(sys.argv[1], "a", encoding="utf-8", buffering=1) as log:  # noqa: PTH123
        for number, arguments in enumerate(json.load(sys.stdin)):
            log.write(json.dumps({"begins": number}) + "\n")
            log.write(json.dumps({"number": number, **_carry_out(arguments)}) + "\n")


def _carry_out(arguments: list[str]) -> dict[str, object]:
    from nandlab.cli import main as command

    stopped_at: list[float] = []

    def late(_number: int, _frame: FrameType | None) -> None:
        if stopped_at:
            os._exit(99)
        stopped_at.append(time.process_time())
        signal.setitimer(signal.ITIMER_PROF, TOO_LATE_S)
        os.kill(os.getpid(), signal.SIGTERM)

    signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, PATIENCE_S)
    out, errors = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
            code: object = command(arguments)
    except BaseException:
        code = f"traceback: {traceback.format_exc()}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    after_s = time.process_time() - stopped_at[0] if stopped_at else 0.0
    return {"code": code, "errors": errors.getvalue(), "after_s": after_s}


if __name__ == "__main__":
    main()
