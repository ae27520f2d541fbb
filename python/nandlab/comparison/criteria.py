"""The rows of the table of a comparison, and which candidates are best in one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from nandlab.byte_sizes import DAYS_OF_A_YEAR
from nandlab.comparison.candidates import Candidate
from nandlab.present.headline import joined
from nandlab.present.units import estimate_text, large_size, number

BEST = "*"
"""Stands behind the best value of a row."""

_NEAR = 0.02
"""Values that differ by less are called alike."""


def years(value: float) -> str:
    """Years; days below one, as more digits would say nothing."""
    if value < 1:
        return f"{number(value * DAYS_OF_A_YEAR)} days"
    return "over 1,000 years" if value > 1000 else f"{number(value)} years"


def log_seconds(value: float) -> str:
    """Seconds of the user's own log."""
    return "nothing" if value == 0 else f"{number(value)} s of the log"


@dataclass(frozen=True)
class Criterion:
    """A row of the table."""

    metric: str
    title: str
    show: Callable[[float], str]
    best: Callable[..., float] = min
    headline: str = ""
    """How the headline names it; empty if it is left out there."""
    unit: str = ""
    """Unit of its figure; empty if it has none."""
    told: str = "{}"
    """The value in an answer to a question."""
    sample: str = ""
    """Metric with the size of the sample behind it: it illustrates, and no value is best."""

    def cell(self, candidate: Candidate) -> str:
        """The value of a candidate as the table shows it."""
        value = candidate.values.get(self.metric)
        if value is None:
            return "-"
        size = candidate.values.get(self.sample)
        return self.show(value) if size is None else f"{self.show(value)} ({size:.0f} cuts)"


_TIME, _BYTES = partial(estimate_text, unit="ns"), partial(estimate_text, unit="bytes")
_RATE = partial(estimate_text, unit="KiB/s")

CRITERIA = (
    Criterion("throughput_kib_per_s", "throughput", _RATE, max, "throughput", "KiB/s", "{}"),
    Criterion(
        *("call_p99_ns", "99 % of calls within", _TIME, min, "tail latency", "ns"),
        "99 % of calls within {}",
    ),
    Criterion("write_p99_ns", "99 % of writes within", _TIME),
    Criterion("sync_p99_ns", "99 % of syncs within", _TIME),
    Criterion("call_max_ns", "longest call", _TIME, told="longest call {}"),
    Criterion("mount_ns", "mount", _TIME, min, "mounting", told="mounted in {}"),
    Criterion(
        *("mount_after_cut_ns", "mount after a power cut", _TIME),
        unit="ns",
        told="mounted after a cut in {}",
    ),
    Criterion(
        "cut_loss_s", "a power cut may take", log_seconds, told="the guarantee lets a cut take {}"
    ),
    Criterion(
        *("cut_found_s", "sampled cuts took at most", log_seconds),
        sample="cut_found_cuts",
    ),
    Criterion("memory_bytes", "RAM of its structures", _BYTES, min, "memory", told="{} of RAM"),
    Criterion("device_ram_bytes", "RAM in the card", _BYTES, told="{} of RAM in the card"),
    Criterion("dirty_bytes_max", "dirty pages in RAM", _BYTES),
    Criterion(
        *("waf", "write amplification", number), unit="ratio", told="each byte programmed {} times"
    ),
    Criterion(
        *("lifetime_host_bytes", "life, bytes written", large_size, max, "wear"),
        told="{} written until worn out",
    ),
    Criterion("lifetime_years", "life, this work for ever", years, max),
)
"""The rows in their order; those without a value for any candidate are left out."""


def winners(criterion: Criterion, found: Sequence[Candidate]) -> list[Candidate]:
    """The candidates with the best value, and those that are as good; none if all are alike.

    A sample has no best value: it can show a loss, and not that there is none.
    """
    key = criterion.metric
    known = [one for one in found if key in one.values]
    if len(known) < 2 or criterion.sample:
        return []
    best = criterion.best(one.values[key] for one in known)
    alike = [one for one in known if abs(one.values[key] - best) <= _NEAR * abs(best)]
    return [] if len(alike) == len(known) else alike


def times_better(
    criterion: Criterion, best: Sequence[Candidate], found: Sequence[Candidate]
) -> str:
    """How many times worse the next candidate is than the winners; empty if hardly."""
    key = criterion.metric
    rest = [one.values[key] for one in found if key in one.values and one not in best]
    low, high = sorted((criterion.best(one.values[key] for one in best), criterion.best(rest)))
    factor = high / low if low > 0 else 0.0
    digits = 1 if factor >= 1.95 else 2
    return f" ({factor:.{digits}f} times better than the next)" if factor >= 1.02 else ""


_NAMED_MAX = 3
"""More candidates than these are counted, not named."""


def best_names(best: Sequence[Candidate], of: Sequence[Candidate]) -> str:
    """The best candidates by name, or how many they are; the table marks them."""
    if len(best) > _NAMED_MAX:
        return f"{len(best)} of {len(of)} candidates"
    return joined([one.label for one in best])


def best_told(criterion: Criterion, best: Sequence[Candidate], of: Sequence[Candidate]) -> str:
    """The best candidates, their value, and by how much it is better, as a part of a sentence."""
    value = criterion.best(one.values[criterion.metric] for one in best)
    by = times_better(criterion, best, of)
    return f"{best_names(best, of)}, {criterion.told.format(criterion.show(value))}{by}"
