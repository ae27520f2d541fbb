"""`nandlab replay`, `nandlab convert` and `nandlab schedule`."""

import sys
from typing import Any

from nandlab.api import requests as api
from nandlab.api.answer import Answer
from nandlab.api.device_replay import DeviceReplay
from nandlab.cli.action import Given, command
from nandlab.terminal.output import print_text
from nandlab.terminal.tables import Column, print_facts, print_rows, text_column


@command("replay", api.replay, separated="csv")
def replay(found: api.Replay | DeviceReplay, given: Given) -> None:
    """Replay a trace: count a chip's operations, or measure latencies on a device.

    With --ftl and without --device a translation layer serves the trace, and chip operations are
    counted. With --device requests go through a scheduler to a device in simulated time.
    """
    if isinstance(found, DeviceReplay):
        from nandlab.cli.device_replay import print_device_replay

        print_device_replay(found)
        return
    print_facts("", {**found.answer.get("trace", {}), **found.answer["device"]}, "replay")
    print_rows("", (text_column("metric"), Column("value", "value"), _UNIT), found.rows)
    for note in found.notes:
        print_text(f"Note: {note}")


def _unit(row: Any) -> str:
    """The unit; the lifetime also in larger units."""
    from nandlab.present.units import large_size

    is_life = row["metric"] == "lifetime_host_bytes"
    return f"{row['unit']}: {large_size(row['value'])}" if is_life else str(row["unit"])


_UNIT = text_column("unit", _unit)
_SIZES = (Column("up to bytes", "up_to_bytes"), Column("requests", "requests"))


@command("convert", api.convert)
def convert(found: Answer, given: Given) -> None:
    """Convert a trace to Parquet and summarise it.

    The name of the target must end in .parquet: no other format is written.
    """
    facts = {
        name.replace("_", " "): value
        for name, value in found.answer.items()
        if not isinstance(value, list)
    }
    print_facts(given["target"], facts)
    if found.rows:
        print_rows("Request sizes", _SIZES, found.rows)
    for note in found.answer.get("notes", ()):
        print_text(f"Note: {note}")


@command("schedule", api.schedule, separated="csv")
def schedule(found: Answer, given: Given) -> None:
    """Print what an I/O scheduler does with a table of requests.

    REQUESTS has the columns time_us,pid,op,sync,sector,sectors and is sorted by time. op is R, W,
    or X for the exit of the process; sync is 0 or 1. A column ioprio (rt/0 to be/7, idle) may
    follow.

    The answer is CSV: id,dispatch_us,complete_us in the order of dispatch. id is the row of the
    request, counted from 0.
    """
    sys.stdout.write(found.text)
