"""`nandlab schedule`."""

import sys
from typing import Annotated, Literal

from cyclopts import Parameter


def schedule(
    requests: str | None = None,
    /,
    *,
    scheduler: str,
    sets: Annotated[list[str] | None, Parameter(name="--set", negative=())] = None,
    hz: int = 1000,
    service_us: int | None = None,
    device: str | None = None,
    queue_depth: int | None = None,
    plug: Literal["none", "queue", "task"] = "none",
    nonrot: Annotated[bool, Parameter(negative=())] = False,
    sync_write_noidle: Annotated[bool, Parameter(negative=())] = False,
    harness: Literal["kernel", "scenario"] = "kernel",
    events: str | None = None,
) -> int:
    """Print what a scheduler does with a given sequence of requests.

    The table REQUESTS has the columns time_us,pid,op,sync,sector,sectors, sorted by time: op is R,
    W, or X for the exit of the process; sync is 0 or 1; a column ioprio (rt/0 to be/7, idle) may
    follow. The answer is id,dispatch_us,complete_us in the order of dispatch, where id counts the
    rows from 0.

    Parameters
    ----------
    requests
        CSV file, or - for standard input.
    scheduler
        A name from `nandlab list schedulers`.
    sets
        name=value, a tunable of the scheduler as in sysfs; may be repeated.
    hz
        Ticks a second of the kernel.
    service_us
        Microseconds the device takes for each request; 1000 if left out.
    device
        A name from `nandlab list devices`, in place of a fixed time.
    queue_depth
        Requests with the device at a time; 1, or what a named device admits.
    plug
        queue plugs as Linux 2.6.29 does, task as 3.x does (rows of one process and time together).
    nonrot
        The queue is told that the device does not rotate.
    sync_write_noidle
        Synchronous writes carry REQ_NOIDLE, as those of fsync do.
    harness
        scenario: completions and timers before arrivals of the same time, which are inserted
        together, nothing merged; for scenarios worked out by hand.
    events
        CSV file of recorded events instead of REQUESTS: time_us,event,id,pid,op,sync,sector,sectors
        with event insert, merge, dispatch, complete or exit. The answer is the request chosen at
        every dispatch call beside the recorded one.

    """
    from nandlab import engine
    from nandlab.cli.settings import parse_settings
    from nandlab.errors import NandlabError

    if (requests is None) == (events is None):
        raise NandlabError("give either a table of requests or --events with a recording")
    if device is not None and service_us is not None:
        raise NandlabError("--device and --service-us exclude each other: give one")
    shown, text = _read(events if requests is None else requests)
    answer = engine.schedule(
        shown,
        text,
        {
            "scheduler": scheduler,
            "settings": parse_settings(sets),
            "hz": _natural("--hz", hz),
            "service_us": _natural("--service-us", 1000 if service_us is None else service_us),
            "device": device,
            "queue_depth": None if queue_depth is None else _natural("--queue-depth", queue_depth),
            "plug": plug,
            "nonrot": nonrot,
            "sync_write_noidle": sync_write_noidle,
            "harness": harness,
            "events": events is not None,
        },
    )
    sys.stdout.write(answer)
    return 0


def _natural(option: str, value: int) -> int:
    from nandlab.errors import NandlabError

    if not 1 <= value < 2**32:
        raise NandlabError(f"{option}: {value} must be at least 1 and below 2^32")
    return value


def _read(argument: str | None) -> tuple[str, str]:
    """What to call the table in messages, and its text."""
    from nandlab.cli.standard_input import read_whole, shown_dash
    from nandlab.errors import NandlabError

    given = shown_dash(argument or "")
    try:
        return ("standard input" if given == "-" else given), read_whole(given).decode()
    except UnicodeDecodeError:
        raise NandlabError(f"{given} is no text: a CSV file in UTF-8 is needed") from None
