"""What processes in the machine measured, and the rows and tables made of it.

Names, quantiles and buckets are those of simulated processes, so that the same tables, verdicts and
charts take both.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}
DIRECTIONS = ("read", "write")

Metric = tuple[str, float, str]
"""Name, value, unit; counts are whole numbers."""


class MeasurementError(ValueError):
    """The text that came out of the machine is not what `timed-load` prints."""


@dataclass(frozen=True)
class ProcessTimes:
    """One process: what it moved, from when to when, and how long each request took."""

    direction: str
    bytes_moved: int
    begin_ns: int
    end_ns: int
    latencies_ns: tuple[int, ...]


@dataclass(frozen=True)
class Measurement:
    """One cell in one repeat.

    `idle_ns` of the time from `begin_ns` to `end_ns` the processor had nothing to do. `counters`
    are those of the disk.
    """

    begin_ns: int
    end_ns: int
    idle_ns: int
    processes: tuple[ProcessTimes, ...]
    counters: Mapping[str, int] = field(default_factory=dict)

    def latencies_ns(self, direction: str) -> list[int]:
        """Latencies of all processes of a direction, the shortest first."""
        found = (one.latencies_ns for one in self.processes if one.direction == direction)
        return sorted(latency for latencies in found for latency in latencies)


def read_measurement(text: str) -> Measurement:
    """Read what `timed-load` printed, and the counters behind it.

    Raises `MeasurementError` when it is something else, or not all of it.
    """
    busy: tuple[int, int, int] | None = None
    processes: list[ProcessTimes] = []
    counters: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        word, *rest = line.split() or [""]
        try:
            values = tuple(int(one) for one in rest)
        except ValueError:
            raise MeasurementError(f"line {number}: {line[:60]!r} holds no numbers") from None
        if word == "busy" and len(values) == 3:
            busy = values[0], values[1], values[2]
        elif word in DIRECTIONS and len(values) > 3:
            moved, begin_ns, end_ns, *latencies_ns = values
            processes.append(ProcessTimes(word, moved, begin_ns, end_ns, tuple(latencies_ns)))
        elif word.isidentifier() and len(values) == 1:
            counters[word] = values[0]
        else:
            raise MeasurementError(f"line {number}: {line[:60]!r} is not understood")
    if busy is None or not processes:
        raise MeasurementError("the measurement is not complete")
    begin_ns, end_ns, idle_ns = busy
    return Measurement(begin_ns, end_ns, idle_ns, tuple(processes), counters)


def quantile(ordered: Sequence[int], share: float) -> int:
    """The least value that at least `share` of the values do not exceed."""
    return ordered[max(math.ceil(share * len(ordered)), 1) - 1]


def latency_metrics(direction: str, ordered: Sequence[int]) -> list[Metric]:
    """Number, mean, longest and quantiles of sorted latencies."""
    if not ordered:
        return []
    return [
        (f"{direction}_requests", len(ordered), "requests"),
        (f"{direction}_latency_mean_ns", sum(ordered) / len(ordered), "ns"),
        (f"{direction}_latency_max_ns", ordered[-1], "ns"),
        *(
            (f"{direction}_latency_{name}_ns", quantile(ordered, share), "ns")
            for name, share in QUANTILES.items()
        ),
    ]


def metrics(measured: Measurement) -> list[Metric]:
    """The rows of one cell in one repeat."""
    elapsed_ns = max(measured.end_ns - measured.begin_ns, 1)
    requests = sum(len(one.latencies_ns) for one in measured.processes)
    moved = sum(one.bytes_moved for one in measured.processes)
    rates = [one.bytes_moved / max(one.end_ns - one.begin_ns, 1) for one in measured.processes]
    found = [
        metric
        for direction in DIRECTIONS
        for metric in latency_metrics(direction, measured.latencies_ns(direction))
    ]
    found += [
        ("jain_index", jain_index(rates), "ratio"),
        ("throughput_bytes_per_s", moved * 1e9 / elapsed_ns, "bytes/s"),
        ("processor_ns_per_request", (elapsed_ns - measured.idle_ns) / requests, "ns"),
        ("processor_busy_share", 1 - measured.idle_ns / elapsed_ns, "ratio"),
        ("elapsed_ns", elapsed_ns, "ns"),
    ]
    found += [(f"device_{name}", count, name) for name, count in measured.counters.items()]
    return found


def jain_index(shares: Sequence[float]) -> float:
    """1 when all shares are the same, 1/n when one of n has everything."""
    squares = math.fsum(one * one for one in shares)
    return math.fsum(shares) ** 2 / (len(shares) * squares) if squares else 1.0


def buckets(ordered: Iterable[int]) -> list[tuple[int, int, int]]:
    """Lowest latency, highest latency and count, eight steps to a power of two."""
    found: dict[tuple[int, int], int] = {}
    for latency in ordered:
        width = 1 << max(max(latency, 1).bit_length() - 4, 0)
        low = latency // width * width
        found[low, low + width - 1] = found.get((low, low + width - 1), 0) + 1
    return [(low, high, count) for (low, high), count in found.items()]
