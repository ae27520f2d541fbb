"""Objectives and constraints: metrics of the rows by name, with their direction and unit."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nandlab.byte_sizes import DAYS_OF_A_YEAR, parse_bytes
from nandlab.claims.statistics import Interval, t_interval
from nandlab.errors import NandlabError
from nandlab.suggest import did_you_mean, unknown

if TYPE_CHECKING:
    from nandlab.frame import RunFrame

DIRECTIONS = ("minimise", "maximise")

_WORK = "work"
"""The phase of a lifecycle that the rows of the work itself have; mounts are other phases."""


@dataclass(frozen=True)
class Metric:
    """What is measured of a point: the first of `rows` that its results have."""

    name: str
    title: str
    rows: tuple[str, ...]
    is_least_best: bool
    unit: str
    aliases: tuple[str, ...] = ()
    phase: str = _WORK

    @property
    def direction(self) -> str:
        """`minimise` or `maximise`."""
        return DIRECTIONS[0 if self.is_least_best else 1]


LIFE_YEARS = "life_years"

METRICS = (
    Metric("write_amplification", "write amplification", ("waf",), True, "ratio", ("waf",)),
    Metric("p99_latency", "99 % of calls within", ("call_p99_ns", "latency_p99_ns"), True, "ns",
           ("call_p99_ns",)),
    Metric("p99_write_latency", "99 % of writes within", ("write_p99_ns",), True, "ns",
           ("write_p99_ns",)),
    Metric("p99_read_latency", "99 % of reads within", ("read_p99_ns",), True, "ns",
           ("read_p99_ns",)),
    Metric("p99_sync_latency", "99 % of syncs within", ("sync_p99_ns",), True, "ns",
           ("sync_p99_ns",)),
    Metric("max_latency", "longest call", ("call_max_ns", "latency_max_ns"), True, "ns",
           ("call_max_ns",)),
    Metric("throughput", "throughput", ("throughput_kib_per_s",), False, "KiB/s",
           ("throughput_kib_per_s",)),
    Metric("ram_bytes", "RAM of its structures", ("ram_bytes", "memory_bytes_max"), True, "bytes",
           ("ram", "memory", "memory_bytes_max")),
    Metric("device_ram_bytes", "RAM in the card", ("device_ram_bytes",), True, "bytes"),
    Metric("mount_time", "mount", ("mount_ns",), True, "ns", ("mount_ns",), "mount"),
    Metric("mount_after_cut_time", "mount after a power cut", ("mount_ns", "rebuild_ns"), True,
           "ns", ("rebuild_ns",), "mount-after-cut"),
    Metric("erases", "erases", ("erases",), True, "operations"),
    Metric("pages_copied", "pages copied", ("pages_copied",), True, "pages"),
    Metric("busy_time", "time of the chip", ("busy_ns",), True, "ns", ("busy_ns",)),
    Metric("weighted_time", "weighted time", ("weighted_time",), True, "reads"),
    Metric("life_bytes", "life, bytes written", ("lifetime_host_bytes",), False, "bytes",
           ("lifetime_host_bytes",)),
    Metric(LIFE_YEARS, "life", ("lifetime_host_bytes", "lifetime_years"), False, "years",
           ("lifetime_years",)),
)  # fmt: skip
"""Every metric that has a direction of its own."""

_BY_NAME = {name: one for one in METRICS for name in (one.name, *one.aliases)}

_COMPARISONS = (">=", "<=", ">", "<")
_TIMES_NS = {"ns": 1.0, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9}


@dataclass(frozen=True)
class Constraint:
    """A bound that a point has to keep; `text` is as it was given."""

    metric: Metric
    comparison: str
    bound: float
    text: str

    def excess(self, value: float) -> float:
        """By how much a value breaks the bound, as a part of it; 0 or less if it is kept."""
        over = value - self.bound if self.comparison[0] == "<" else self.bound - value
        if over == 0:
            # A strict bound is broken by the bound itself.
            return 0.0 if self.comparison.endswith("=") else math.ulp(1.0)
        return over / max(abs(self.bound), 1e-9)

    def is_kept(self, value: float) -> bool:
        """Whether a value keeps the bound."""
        return self.excess(value) <= 0

    def is_certain(self, found: Interval) -> bool:
        """False if the interval of the value holds values that keep the bound and others."""
        if found.low is None or found.high is None:
            return True
        return self.is_kept(found.low) == self.is_kept(found.high)


def parse_objectives(given: Sequence[str] | str) -> tuple[Metric, ...]:
    """Metrics of `a,b,c`, each a name of the table or `ROW:minimise`, `ROW:maximise`.

    Raises `NandlabError` for a name that is not known, with the nearest one.
    """
    words = given.split(",") if isinstance(given, str) else list(given)
    found: list[Metric] = []
    for word in (one.strip() for text in words for one in text.split(",")):
        metric = _metric("--objective", word)
        if metric in found:
            raise NandlabError(f"--objective: {word} is there twice")
        found.append(metric)
    return tuple(found)


def parse_constraint(given: str) -> Constraint:
    """A constraint such as `life_years>=10`, `ram_bytes<=64KiB` or `p99_latency<2ms`."""
    comparison = next((one for one in _COMPARISONS if one in given), None)
    name, _, text = given.partition(comparison or " ")
    name, text = name.strip(), text.strip()
    if comparison is None or not name or not text:
        raise NandlabError(
            f"--constraint {given}: write NAME>=NUMBER or NAME<=NUMBER, such as 'life_years>=10'"
        )
    metric = _metric("--constraint", name, needs_direction=False)
    return Constraint(metric, comparison, _bound(given, metric, text), given)


def _metric(option: str, word: str, *, needs_direction: bool = True) -> Metric:
    name, colon, direction = word.partition(":")
    if colon and direction not in DIRECTIONS:
        raise NandlabError(f"{option}: {unknown('direction', direction, DIRECTIONS)}")
    if name in _BY_NAME:
        known = _BY_NAME[name]
        if colon and direction != known.direction:
            raise NandlabError(
                f"{option}: {name} is always {known.direction}d; leave the direction out"
            )
        return known
    # A row without a direction of its own: its unit is that of its results.
    if colon or not needs_direction:
        if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
            raise NandlabError(f"{option}: {name!r} is no name of a metric")
        return Metric(name, name.replace("_", " "), (name,), direction != "maximise", "")
    hint = did_you_mean(name, _BY_NAME)
    raise NandlabError(
        f"{option}: unknown metric {name!r}: {hint}known are "
        f"{', '.join(one.name for one in METRICS)}; of any other row say {name}:minimise"
    )


def _bound(given: str, metric: Metric, text: str) -> float:
    try:
        return float(text.replace("_", ""))
    except ValueError:
        pass
    if metric.unit == "bytes":
        return float(parse_bytes(text, f"--constraint {given}"))
    match = re.fullmatch(r"([\d.]+)\s*([a-zµ]+)", text)
    if metric.unit == "ns" and match and match[2] in _TIMES_NS:
        return float(match[1]) * _TIMES_NS[match[2]]
    units = "; times take ns, us, ms or s" if metric.unit == "ns" else ""
    raise NandlabError(f"--constraint {given}: {text!r} is not a number{units}")


@dataclass(frozen=True)
class Measured:
    """A metric of a point: the mean over its repeats with its interval."""

    metric: Metric
    found: Interval
    unit: str
    is_endless: bool = False
    """Nothing wears in the work, so its life has no end."""
    repeats: Mapping[tuple[int, int], float] = field(default_factory=dict)
    """The mean of each repeat, by seed and repeat: equal keys had the same random numbers."""

    @property
    def value(self) -> float:
        """The estimate."""
        return self.found.estimate


class MissingMetricError(NandlabError):
    """The results have no rows of a metric."""


def measured(run: "RunFrame", metric: Metric, host_bytes_a_day: float | None) -> Measured:
    """A metric of a run, over all that its study varies, with an interval over the repeats.

    `host_bytes_a_day` turns a life in bytes into one in years; without it the rows must have years
    at the pace of the work. Raises `MissingMetricError` if there is nothing to take.
    """
    rows = metric.rows
    if metric.name == LIFE_YEARS:
        rows = ("lifetime_host_bytes",) if host_bytes_a_day else ("lifetime_years",)
    for row in rows:
        values = _by_repeat(run, row, metric.phase)
        if not values:
            continue
        if metric.name == LIFE_YEARS and host_bytes_a_day:
            a_year = host_bytes_a_day * DAYS_OF_A_YEAR
            values = {repeat: one / a_year for repeat, one in values.items()}
        unit, seed = metric.unit or run.units.get(row, ""), int(run.study.get("seed") or 1)
        repeats = {(seed, repeat): one for repeat, one in values.items()}
        return Measured(metric, t_interval(list(values.values())), unit, repeats=repeats)
    if metric.name in (LIFE_YEARS, "life_bytes") and _writes_nothing(run, metric.phase):
        return Measured(metric, Interval(math.inf, None, None, 1), metric.unit, is_endless=True)
    raise MissingMetricError(_missing(run, metric, rows))


def _missing(run: "RunFrame", metric: Metric, rows: Sequence[str]) -> str:
    have = sorted(run.metrics)
    if metric.name == LIFE_YEARS and "lifetime_host_bytes" in have:
        return (
            "life_years: the workload has no rate of its own; give --host-writes, such as 20GB/day"
        )
    usable = [one.name for one in METRICS if set(one.rows) & set(have)]
    hint = did_you_mean(metric.name, [*usable, *have])
    return (
        f"{metric.name}: the results have no {' or '.join(rows)}: {hint}"
        f"they have {', '.join(usable)}, and the rows {', '.join(have)}"
    )


def _writes_nothing(run: "RunFrame", phase: str) -> bool:
    """Whether the programs were counted, and there were none; not counted is not none."""
    programs = _by_repeat(run, "page_programs", phase)
    return bool(programs) and not any(programs.values())


def _by_repeat(run: "RunFrame", row: str, phase: str) -> dict[int, float]:
    """A mean for each repeat, over the axes that the study of a point still varies."""
    import polars

    if row not in run.metrics:
        return {}
    rows = run.metrics[row]
    if "phase" in run.axes:
        rows = rows.filter(rows["phase"].cast(polars.String) == phase)
    means = rows.group_by("repeat").agg(polars.col("value").mean()).sort("repeat")
    pairs = zip(means["repeat"], means["value"], strict=True)
    return {int(repeat): float(value) for repeat, value in pairs}


def directions() -> Mapping[str, str]:
    """Direction of each metric, for documents."""
    return {one.name: one.direction for one in METRICS}
