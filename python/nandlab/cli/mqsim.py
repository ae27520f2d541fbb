"""`nandlab mqsim`."""

from collections.abc import Mapping
from typing import Any

from nandlab.api import mqsim as api
from nandlab.cli.action import Given, command
from nandlab.terminal.output import counted, print_text
from nandlab.terminal.tables import Column, print_rows, text_column


def _shown(value: Any) -> str:
    return "-" if value is None else f"{value:,.1f}"


def _time(heading: str, key: str) -> Column:
    return Column(heading, key, _shown)


_FLOWS = (
    Column("scenario", "scenario"),
    text_column("flow", "Name"),
    Column("Request_Count", "Request_Count"),
    Column("IOPS", "IOPS", "{:,.0f}"),
    Column("Bytes_Transferred", "Bytes_Transferred"),
    Column("Bandwidth (bytes/s)", "Bandwidth", "{:,.0f}"),
    _time("Device_Response_Time (us)", "Device_Response_Time"),
    _time("Min_", "Min_Device_Response_Time"),
    _time("Max_", "Max_Device_Response_Time"),
)
_LATENCIES = (
    Column("scenario", "scenario"),
    text_column("flow"),
    text_column("operation"),
    Column("requests", "requests"),
    *(_time(f"{key[:-3]} (us)", key) for key in ("mean_us", "min_us", "p50_us", "p90_us")),
    *(_time(f"{key[:-3]} (us)", key) for key in ("p99_us", "p999_us", "p9999_us", "max_us")),
)
_UNLIKE = tuple(text_column(name) for name in ("key", "value", "fate", "reason"))


@command("mqsim", api.mqsim, separated="csv")
def mqsim(found: api.Mqsim, given: Given) -> None:
    """Run the flows of MQSim's own files on nandlab's devices.

    SSDCONFIG describes the device and WORKLOAD the flows, in MQSim's XML. Results have the names of
    MQSim's result file, with percentiles beside them.

    The last table names the keys of these files that are approximated or ignored, with the reason.
    A key that cannot be carried out is refused. docs/mqsim.md lists all keys.
    """
    answer = found.answer
    print_text(f"{answer['ssdconfig']} with {answer['workload']}")
    for scenario in answer["scenarios"]:
        print_text(_conditions(scenario))
    print_rows("", _FLOWS, found.rows)
    print_rows("Latencies by operation", _LATENCIES, api.latency_rows(answer))
    if answer["unlike"]:
        print_rows("Keys that are approximated or ignored", _UNLIKE, answer["unlike"])
    for scenario in answer["scenarios"]:
        for note in scenario["notes"]:
            print_text(f"Note: {note}")


def _conditions(scenario: Mapping[str, Any]) -> str:
    """What a scenario asked for, and what it ran on, in a line."""
    settings = scenario["settings"]
    is_replay = scenario["runs_as"] == "replay"
    what = "trace" if is_replay else counted(len(scenario["flows"]), "synthetic flow")
    state = "empty" if scenario["starts_empty"] else "written once"
    if scenario["filled_first"]:
        state = "full, then rewritten twice at random"
    # The layer with a cached map has one policy.
    cleaning = settings.get("flash.settings.cleaning", "greedy")
    return (
        f"Scenario {scenario['scenario']}: {what}; {counted(scenario['dies'], 'die')} on "
        f"{counted(settings['flash.channels'], 'channel')}, pages of {scenario['page_bytes']:,} "
        f"bytes, {settings['flash.capacity_bytes']:,} bytes offered and {state}, cleaning "
        f"{cleaning}, layer {settings.get('flash.ftl', 'page')}, "
        f"cache {settings['cache.bytes']:,} bytes, seed {scenario['seed']}"
    )
