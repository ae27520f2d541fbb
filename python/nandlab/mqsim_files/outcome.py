"""What became of each flow, under the names of MQSim's result file.

`Device_Response_Time` and `End_to_End_Request_Delay` are in microseconds. They are equal here: a
request of a flow is in its queue as soon as it is made. MQSim has no percentiles.
"""

from collections.abc import Mapping
from typing import Any

import polars

from nandlab.mqsim_files.flows import SECTOR_BYTES, Scenario, TraceLines
from nandlab.mqsim_files.sections import Section

FIRST_PID = 1_000
"""Number of the first process of a study of jobs; those of later jobs follow."""

_SHARES_PPM = {"p50": 500_000, "p90": 900_000, "p99": 990_000, "p999": 999_000, "p9999": 999_900}

LATENCY_COLUMNS = ("requests", "mean_us", "min_us", *(f"{one}_us" for one in _SHARES_PPM), "max_us")

Flow = dict[str, Any]


def flows_of_jobs(scenario: Scenario, requests: polars.DataFrame) -> list[Flow]:
    """The flows of a study of jobs, from the latency of every request."""
    found = []
    for number, flow in enumerate(scenario.flows):
        own = _with_queue(scenario, flow, requests.filter(polars.col("pid") == FIRST_PID + number))
        size_bytes = flow.count("Average_Request_Size") * SECTOR_BYTES
        counts = {one: own.filter(polars.col("direction") == one).height for one in _DIRECTIONS}
        last = own.select((polars.col("start_ns") + polars.col("latency_ns")).max()).item()
        latencies = [
            {"operation": one, **_exact(own.filter(polars.col("direction") == one)["latency_ns"])}
            for one in _DIRECTIONS
            if counts[one]
        ]
        whole = _exact(own["latency_ns"]) if own.height else {}
        sizes = {one: count * size_bytes for one, count in counts.items()}
        found.append(_flow(number, counts, sizes, last or 0, whole, latencies))
    return found


def _with_queue(scenario: Scenario, flow: Section, requests: polars.DataFrame) -> polars.DataFrame:
    """Requests with the time in the queue of their flow, where more are outstanding than fetched.

    A flow makes a request when one is answered, and the device fetches them in this order. So the
    n-th was made when as many were answered as n is above the depth of the queue; its answer does
    not depend on it. Requests that wait when the time of the flow is over are not in the list.
    """
    if flow.word("Synthetic_Generator_Type") != "QUEUE_DEPTH":
        return requests
    depth = flow.count("Average_No_of_Reqs_in_Queue")
    if depth <= scenario.fetch_size or requests.height == 0:
        return requests
    ordered = requests.sort("start_ns", maintain_order=True)
    ended = ordered["start_ns"] + ordered["latency_ns"]
    made = polars.concat([ordered["start_ns"].head(1)] * min(depth, ended.len()))
    made = polars.concat([made, ended.sort().head(max(0, ended.len() - depth))])
    assert (made <= ordered["start_ns"]).all(), "a request is made before it is fetched"
    return ordered.with_columns(made.alias("start_ns"), (ended - made).alias("latency_ns"))


def flow_of_replay(run: Mapping[str, Any], lines: TraceLines) -> Flow:
    """The flow of a trace. A replay keeps no shortest latency, and percentiles by operation."""
    latencies = []
    for operation in _DIRECTIONS:
        if one := run["latencies"].get(operation):
            times = {key: one[f"{key}_ns"] / 1_000 for key in ("mean", *_SHARES_PPM, "max")}
            row = {"requests": one["requests"], "min_us": None}
            row |= {f"{key}_us": value for key, value in times.items()}
            latencies.append({"operation": operation, **{key: row[key] for key in LATENCY_COLUMNS}})
    requests = sum(row["requests"] for row in latencies)
    whole = {
        "mean_us": sum(row["requests"] * row["mean_us"] for row in latencies) / max(requests, 1),
        "min_us": None,
        "max_us": max((row["max_us"] for row in latencies), default=None),
    }
    counts = {"read": lines.reads, "write": lines.requests - lines.reads}
    sizes = {"read": lines.read_bytes, "write": lines.write_bytes}
    # MQSim's clock begins at 0, that of a replay at the first request.
    return _flow(0, counts, sizes, run["elapsed_ns"] + lines.first_ns, whole, latencies)


_DIRECTIONS = ("read", "write")


def _exact(latencies_ns: polars.Series) -> dict[str, Any]:
    """Figures of latencies that are all known: percentiles are the smallest that so many reach."""
    ordered = latencies_ns.sort()
    count = ordered.len()
    figures: dict[str, Any] = {"requests": count, "mean_us": int(ordered.sum()) / count / 1_000}
    figures["min_us"] = ordered[0] / 1_000
    for name, share_ppm in _SHARES_PPM.items():
        figures[f"{name}_us"] = ordered[-(-count * share_ppm // 1_000_000) - 1] / 1_000
    return figures | {"max_us": ordered[-1] / 1_000}


def _flow(
    number: int,
    counts: Mapping[str, int],
    sizes: Mapping[str, int],
    elapsed_ns: int,
    whole: Mapping[str, Any],
    latencies: list[dict[str, Any]],
) -> Flow:
    """A flow as MQSim's result file has it, and its latencies by operation."""
    seconds = max(elapsed_ns, 1) / 1e9
    requests, transferred = sum(counts.values()), sum(sizes.values())
    flow: Flow = {
        "Name": f"Host.IO_Flow {number + 1}",
        "Request_Count": requests,
        "Read_Request_Count": counts["read"],
        "Write_Request_Count": counts["write"],
        "IOPS": requests / seconds,
        "IOPS_Read": counts["read"] / seconds,
        "IOPS_Write": counts["write"] / seconds,
        "Bytes_Transferred": transferred,
        "Bytes_Transferred_Read": sizes["read"],
        "Bytes_Transferred_Write": sizes["write"],
        "Bandwidth": transferred / seconds,
        "Bandwidth_Read": sizes["read"] / seconds,
        "Bandwidth_Write": sizes["write"] / seconds,
    }
    for name in ("Device_Response_Time", "End_to_End_Request_Delay"):
        flow[name] = whole.get("mean_us")
        flow[f"Min_{name}"] = whole.get("min_us")
        flow[f"Max_{name}"] = whole.get("max_us")
    return flow | {"elapsed_ns": elapsed_ns, "latencies": latencies}
