"""What was measured of a case, in the same words wherever it was carried out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from nandlab.kernel_measurements import Measurement, Metric, buckets, jain_index, quantile

QUANTILES = {"p50": 0.5, "p99": 0.99, "p999": 0.999}


@dataclass(frozen=True)
class Watched:
    """One case at one place under one scheduler, once.

    `latencies_ns` are those of the watched processes, the shortest first. `rates_per_s` has what
    each process got done in the time, if they are to be compared. `disk_requests` are those of all
    processes, and of write-back.
    """

    latencies_ns: tuple[int, ...]
    done: int
    elapsed_ns: int
    disk_requests: int
    rates_per_s: tuple[float, ...] = ()
    busy_ns: int | None = None
    counters: Mapping[str, int] = field(default_factory=dict)


def watched_of(
    measured: Measurement, watched: int, block_bytes: Sequence[int], *, is_shared: bool
) -> Watched:
    """What `fair-load` measured; the first `watched` processes are watched.

    `block_bytes` has the size of a request of each process.
    """
    first = measured.processes[:watched]
    elapsed_ns = max(measured.end_ns - measured.begin_ns, 1)
    done = [
        one.bytes_moved / block for one, block in zip(measured.processes, block_bytes, strict=True)
    ]
    counters = dict(measured.counters)
    return Watched(
        tuple(sorted(latency for one in first for latency in one.latencies_ns)),
        round(sum(done[:watched])),
        elapsed_ns,
        counters.pop("disk_requests"),
        tuple(one * 1e9 / elapsed_ns for one in done) if is_shared else (),
        elapsed_ns - measured.idle_ns,
        counters,
    )


def metrics(found: Watched) -> list[Metric]:
    """The rows of one cell in one repeat."""
    ordered = found.latencies_ns
    rows: list[Metric] = [
        ("requests", len(ordered), "requests"),
        ("latency_mean_ns", sum(ordered) / len(ordered), "ns"),
        *(
            (f"latency_{name}_ns", quantile(ordered, share), "ns")
            for name, share in QUANTILES.items()
        ),
        ("latency_max_ns", ordered[-1], "ns"),
        ("rate_per_s", found.done * 1e9 / found.elapsed_ns, "requests/s"),
        ("throughput_per_s", found.disk_requests * 1e9 / found.elapsed_ns, "requests/s"),
        ("elapsed_ns", found.elapsed_ns, "ns"),
    ]
    if found.rates_per_s:
        rows.append(("jain_index", jain_index(found.rates_per_s), "ratio"))
    if found.busy_ns is not None:
        each = found.busy_ns / max(found.disk_requests, 1)
        rows.append(("processor_ns_per_request", each, "ns"))
    rows += [(f"device_{name}", count, name) for name, count in found.counters.items()]
    return rows


def behind_first(found: Mapping[str, Watched], *, is_shared: bool) -> dict[str, list[Metric]]:
    """How far each scheduler is behind the best one, of one case once: 1 for the best.

    Where all processes deserve the same, it is the best of Jain's indices over the scheduler's own.
    Elsewhere it is the worse of two: its mean latency over the least mean, and its longest over the
    least longest one.
    """
    if is_shared:
        indices = {name: jain_index(one.rates_per_s) for name, one in found.items()}
        best = max(indices.values())
        return {name: [("behind_first", best / one, "ratio")] for name, one in indices.items()}
    means = {name: sum(one.latencies_ns) / len(one.latencies_ns) for name, one in found.items()}
    longest = {name: one.latencies_ns[-1] for name, one in found.items()}
    rows: dict[str, list[Metric]] = {}
    for name in found:
        mean = means[name] / min(means.values())
        tail = longest[name] / min(longest.values())
        rows[name] = [
            ("behind_first", max(mean, tail), "ratio"),
            ("mean_behind_first", mean, "ratio"),
            ("longest_behind_first", tail, "ratio"),
        ]
    return rows


def pooled_rows(latencies_ns: Sequence[int]) -> list[Metric]:
    """Number, mean, quantiles and longest over all repeats."""
    ordered = sorted(latencies_ns)
    shares = {**QUANTILES, "max": 1.0}
    return [
        ("requests", len(ordered), "requests"),
        ("latency_mean_ns", sum(ordered) / len(ordered), "ns"),
        *((f"latency_{one}_ns", quantile(ordered, share), "ns") for one, share in shares.items()),
    ]


def distribution(latencies_ns: Sequence[int]) -> list[tuple[int, int, int]]:
    """Lowest latency, highest latency and count, eight steps to a power of two."""
    return buckets(sorted(latencies_ns))
