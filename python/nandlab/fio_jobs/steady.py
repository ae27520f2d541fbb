"""fio's `steadystate`: a job ends when its rate is steady, and the report tells of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nandlab.fio_jobs.job_file import Given
from nandlab.fio_jobs.values import bytes_of, time_ns_of
from nandlab.suggest import did_you_mean

if TYPE_CHECKING:
    import polars

_KINDS = ("bw", "bw_slope", "iops", "iops_slope")
_SECOND_NS = 1_000_000_000


@dataclass(frozen=True)
class Wanted:
    """What a job asks for."""

    kind: str
    limit: float
    is_percent: bool
    window_s: int
    ramp_s: int

    @property
    def sign(self) -> str:
        """What stands behind its numbers."""
        return "%" if self.is_percent else ""

    def lines(self, *, is_of_group: bool) -> list[tuple[str, object]]:
        """Keys of the engine."""
        return [
            ("steadystate", f'"{self.kind}:{self.limit!r}{self.sign}"'),
            ("ss_dur_s", self.window_s),
            ("ss_ramp_s", self.ramp_s),
            ("ss_of_group", str(is_of_group).lower()),
        ]


@dataclass(frozen=True)
class Steady:
    """What the last window of a job was like."""

    wanted: Wanted
    is_attained: bool
    deviation: float
    """Largest distance of a second from the mean; 0 where the slope is looked at, as in fio."""
    slope: float
    criterion: float
    iops: tuple[int, ...]
    """Requests of each second of the window."""
    bytes_per_s: tuple[int, ...]


def wanted_of(options: Mapping[str, Given], kb_base: int) -> Wanted | None:
    """The key `steadystate` of a job, with its times."""
    given = options.get("steadystate")
    if given is None:
        return None
    kind, _, text = (given.value or "").partition(":")
    if kind not in _KINDS:
        near = did_you_mean(kind, _KINDS).removesuffix("? ")
        suggestion = f"{near}?" if near else f"choose one of {', '.join(_KINDS)}"
        raise given.fault("fio has no such criterion", suggestion)
    is_percent = text.endswith("%")
    try:
        plain = kind.startswith("bw") and not is_percent
        limit = float(bytes_of(given, text, kb_base) if plain else text.removesuffix("%").strip())
    except ValueError:
        limit = 0.0
    # `not` as well for what is no number.
    if not 0 < limit < float("inf"):
        raise given.fault("its limit must be above 0", f"write {kind}:10%, for example")
    times = []
    for name, least in (("steadystate_duration", 2), ("steadystate_ramp_time", 0)):
        one = options.get(name)
        seconds = time_ns_of(one, one.value or "") // _SECOND_NS if one else 0
        if seconds < least:
            fault = one or given
            raise fault.fault("it needs ss_dur of at least 2 s", "add ss_dur=10s, for example")
        times.append(seconds)
    return Wanted(kind, limit, is_percent, times[0], times[1])


def steady_of(
    wanted: Wanted, frames: "Sequence[polars.DataFrame]", steady_ns: int, alive_ns: int
) -> Steady:
    """The window that ended at `steady_ns`, or the last whole one of the run, if that is 0.

    Times count from when the processes began.
    """
    last_s = (steady_ns or alive_ns) // _SECOND_NS
    first_s = max(last_s - wanted.window_s, 0)
    counts = [0] * wanted.window_s
    moved = [0] * wanted.window_s
    for frame in frames:
        for end_ns, size in frame.select("end_ns", "bytes").iter_rows():
            # A request that ends with a second is one of the next.
            place = end_ns // _SECOND_NS - first_s
            if 0 <= place < min(wanted.window_s, last_s - first_s):
                counts[place] += 1
                moved[place] += size
    values = counts if wanted.kind.startswith("iops") else moved
    number = wanted.window_s
    mean = sum(values) / number
    deviation = slope = 0.0
    if wanted.kind.endswith("slope"):
        places = number * (number - 1) / 2
        squares = (number - 1) * number * (2 * number - 1) / 6
        weighted = sum(place * value for place, value in enumerate(values))
        slope = (weighted - places * sum(values) / number) / (squares - places**2 / number)
        criterion, base = slope, float(sum(values) // number)
    else:
        deviation = max(abs(value - mean) for value in values)
        criterion, base = deviation, mean
    if wanted.is_percent:
        criterion = 100 * criterion / base if base else 0.0
    return Steady(wanted, steady_ns > 0, deviation, slope, criterion, tuple(counts), tuple(moved))


def document_of(steady: Steady) -> dict[str, object]:
    """The table `steadystate` of fio's JSON."""
    wanted = steady.wanted
    return {
        "ss": f"{wanted.kind}:{wanted.limit:f}{wanted.sign}",
        "duration": wanted.window_s,
        "attained": int(steady.is_attained),
        "criterion": f"{steady.criterion:f}{wanted.sign}",
        "max_deviation": steady.deviation,
        "slope": steady.slope,
        "data": {
            "bw_mean": sum(steady.bytes_per_s) // wanted.window_s,
            "iops_mean": sum(steady.iops) // wanted.window_s,
            "iops": list(steady.iops),
            "bw": list(steady.bytes_per_s),
        },
    }
