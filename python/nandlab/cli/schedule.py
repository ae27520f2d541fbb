"""`nandlab schedule`."""

import sys
from typing import Annotated, Literal

from cyclopts import Parameter

from nandlab.cli.output_options import CsvOutput


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
    output: CsvOutput | None = None,
) -> int:
    """Print what an I/O scheduler does with a table of requests.

    REQUESTS has the columns time_us,pid,op,sync,sector,sectors and is sorted by time. op is R, W,
    or X for the exit of the process; sync is 0 or 1. A column ioprio (rt/0 to be/7, idle) may
    follow.

    The answer is CSV: id,dispatch_us,complete_us in the order of dispatch. id is the row of the
    request, counted from 0.

    Parameters
    ----------
    requests
        CSV file, or - for standard input.
    scheduler
        Use this scheduler (see `nandlab list schedulers`).
    sets
        Set a tunable of the scheduler as in sysfs, as NAME=VALUE. May be repeated.
    hz
        Set the timer ticks of the kernel in a second.
    service_us
        Set the service time of every request, in microseconds. Without it: 1000.
    device
        Use this device (see `nandlab list devices`) instead of a fixed service time.
    queue_depth
        Set the number of requests at the device. Without it: 1, or the depth of --device.
    plug
        Plug requests: queue as in Linux 2.6.29, task as in 3.x.
    nonrot
        Mark the queue as non-rotational.
    sync_write_noidle
        Set REQ_NOIDLE on synchronous writes, as fsync does.
    harness
        Choose the order of equal times. kernel: arrivals first. scenario: completions and timers
        first, without merging.
    events
        Read recorded events instead of REQUESTS, in the columns
        time_us,event,id,pid,op,sync,sector,sectors. The answer compares the requests chosen.
    output
        How to print the answer; a table is CSV.

    """
    import csv

    from nandlab import engine
    from nandlab.cli.output_options import form_of
    from nandlab.cli.settings import parse_settings
    from nandlab.errors import NandlabError
    from nandlab.terminal.output import print_json

    form = form_of(output)
    if (requests is None) == (events is None):
        raise NandlabError("requests are missing or given twice: give either REQUESTS or --events")
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
    if form == "json":
        print_json("schedule", list(csv.DictReader(answer.splitlines())))
    else:
        sys.stdout.write(answer)
    return 0


def _natural(option: str, value: int) -> int:
    from nandlab.errors import NandlabError

    if not 1 <= value < 2**32:
        raise NandlabError(f"{option}: {value} must be at least 1 and below 2^32")
    return value


def _read(argument: str | None) -> tuple[str, str]:
    """The name of a table in messages, and its text."""
    from nandlab.cli.standard_input import read_whole, shown_dash
    from nandlab.errors import NandlabError

    given = shown_dash(argument or "")
    try:
        return ("standard input" if given == "-" else given), read_whole(given).decode()
    except UnicodeDecodeError:
        raise NandlabError(f"{given} is not text; give a CSV file in UTF-8") from None
