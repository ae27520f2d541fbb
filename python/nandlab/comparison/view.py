"""What was measured of each candidate, by the criteria that a person decides by."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nandlab import engine
from nandlab.comparison.cards import layer_of
from nandlab.comparison.conditions import conditions
from nandlab.comparison.request import on_block_device, on_mtdblock
from nandlab.results import Measurements, StudyResult
from nandlab.verdicts.wording import duration, ftl_name, large_size, number

_NEAR = 0.02
"""Values that differ by less are called alike."""

_NAMES = {
    "jffs2": "JFFS2",
    "jffs2-block2mtd": "JFFS2 over block2mtd",
    "nilfs2": "NILFS2",
    "ubifs": "UBIFS",
    "yaffs2": "YAFFS2",
    "fat": "FAT",
}

_GUARANTEE_OF_LAYERS = "every write that returned"
_NO_GUARANTEE = "nothing: no guarantee is known"
_ON_CARD = "not looked at: a card is not cut"
_ON_MTDBLOCK = "nothing: a cut while mtdblock writes an erase block back loses all of it"


@dataclass(frozen=True)
class Criterion:
    """A row of the table; `best` is max or min where one value is better than another."""

    identifier: str
    title: str
    show: Callable[[float], str]
    best: Callable[..., float] | None = None
    in_verdict: str = ""
    """How the last line names it; empty if it is left out there."""


@dataclass(frozen=True)
class Candidate:
    """What stands in a column."""

    label: str
    file_system: str
    scheduler: str
    values: dict[str, float]
    guarantee: str
    safe: str
    is_full: bool = False
    is_on_card: bool = False
    is_on_mtdblock: bool = False
    is_lost: bool = False
    """What the power cut left cannot be mounted."""


def size(value: float) -> str:
    """Bytes with the binary unit that suits them."""
    for unit, factor in (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if value >= factor:
            return f"{number(value / factor)} {unit}"
    return f"{number(value)} B"


def years(value: float) -> str:
    """Years; days below one, as more digits would say nothing."""
    if value < 1:
        return f"{number(value * 365.25)} days"
    return "over 1,000 years" if value > 1000 else f"{number(value)} years"


CRITERIA = (
    Criterion(
        "throughput_kib_per_s",
        "throughput",
        lambda value: f"{number(value)} KiB/s",
        max,
        "throughput",
    ),
    Criterion("call_p99_ns", "99 % of calls within", duration, min, "tail latency"),
    Criterion("write_p99_ns", "99 % of writes within", duration, min),
    Criterion("sync_p99_ns", "99 % of syncs within", duration, min),
    Criterion("call_max_ns", "longest call", duration, min),
    Criterion("mount_ns", "mount", duration, min, "mounting"),
    Criterion("mount_after_cut_ns", "mount after a power cut", duration, min),
    Criterion("memory_bytes", "RAM of its structures", size, min, "memory"),
    Criterion("device_ram_bytes", "RAM in the card", size, min),
    Criterion("dirty_bytes_max", "dirty pages in RAM", size, min),
    Criterion("waf", "write amplification", number, min),
    Criterion("lifetime_host_bytes", "life, bytes written", large_size, max, "wear"),
    Criterion("lifetime_years", "life, this work for ever", years, max),
)
"""The rows in their order; those without a value for any candidate are left out."""


class View:
    """The measurements of a comparison."""

    def __init__(self, result: StudyResult) -> None:
        """Reads what was measured."""
        self.rows = Measurements(result)
        self.study = result.study
        self.conditions = conditions(result.study)
        self._axes = result.axes
        guarantees = engine.listing("guarantees") if "file_system" in result.axes else []
        self._guarantees = {str(row["name"]): row for row in guarantees}
        self.candidates = self._file_systems() if "file_system" in self._axes else self._layers()

    def criteria(self) -> list[Criterion]:
        """The rows that have a value."""
        found = {name for candidate in self.candidates for name in candidate.values}
        return [criterion for criterion in CRITERIA if criterion.identifier in found]

    def winners(self, criterion: Criterion) -> list[Candidate]:
        """The candidates with the best value, and those that are as good; none if all are alike."""
        key = criterion.identifier
        known = [candidate for candidate in self.candidates if key in candidate.values]
        if criterion.best is None or len(known) < 2:
            return []
        best = criterion.best(candidate.values[key] for candidate in known)
        alike = [one for one in known if abs(one.values[key] - best) <= _NEAR * abs(best)]
        return [] if len(alike) == len(known) else alike

    def runner_up(self, criterion: Criterion) -> float | None:
        """How many times worse the next candidate is than the winners."""
        key, winners = criterion.identifier, self.winners(criterion)
        rest = [value for one, value in self._values(key) if one not in winners]
        if not winners or not rest or criterion.best is None:
            return None
        best = criterion.best(one.values[key] for one in winners)
        second = criterion.best(rest)
        low, high = sorted((best, second))
        return high / low if low > 0 else None

    def _values(self, key: str) -> list[tuple[Candidate, float]]:
        known = (one for one in self.candidates if key in one.values)
        return [(one, one.values[key]) for one in known]

    def _file_systems(self) -> list[Candidate]:
        return [
            self._file_system(name, card, scheduler)
            for name in self.rows.axis_values("file_system")
            for card in self._cards(name)
            for scheduler in self._schedulers(name)
        ]

    def _cards(self, file_system: str) -> list[str]:
        # `mtdblock` stands on this axis for what is under no card at all.
        cards = [one for one in self.rows.axis_values("block_device") if one != "mtdblock"]
        return cards if cards and self._meets_scheduler(file_system) else [""]

    def _schedulers(self, file_system: str) -> list[str]:
        schedulers = self.rows.axis_values("scheduler") or [""]
        return schedulers if self._meets_scheduler(file_system) else schedulers[:1]

    def _meets_scheduler(self, file_system: str) -> bool:
        return file_system in on_block_device()

    def _file_system(self, name: str, card: str, scheduler: str) -> Candidate:
        place: dict[str, Any] = {
            "file_system": name,
            "block_device": card or None,
            "scheduler": scheduler or None,
        }
        values = self._phase("work", place)
        for phase, key in (("mount", "mount_ns"), ("mount-after-cut", "mount_after_cut_ns")):
            at = self.rows.mean("mount_ns", phase=phase, **place)
            if at is not None:
                values[key] = at
        if not values.get("dirty_bytes_max"):
            # Written through, or kept by the file system itself: nothing that could be told apart.
            values.pop("dirty_bytes_max", None)
        if "memory_bytes_max" in values:
            values["memory_bytes"] = values["memory_bytes_max"]
        reads = [self.rows.mean(f"{kind}_reads", phase="mount", **place) for kind in _READS]
        values["mount_reads"] = sum(one for one in reads if one is not None)
        known = None if card else self._guarantees.get(name)
        is_on_mtdblock = not card and name in on_mtdblock()
        none = _ON_CARD if card else _ON_MTDBLOCK if is_on_mtdblock else _NO_GUARANTEE
        label = _NAMES.get(name, name)
        is_scheduled = scheduler and self._meets_scheduler(name)
        label = f"{label} {scheduler}" if is_scheduled else label
        is_mounted = self.rows.mean("is_mounted", phase="mount-after-cut", **place)
        return Candidate(
            label=f"{label} on {ftl_name(layer_of(card))}" if card else label,
            file_system=name,
            scheduler=scheduler if is_scheduled else "",
            values=values,
            guarantee=none if known is None else f"after {known['in_short']}",
            safe="" if known is None else str(known["summary"]),
            is_full=bool(values.get("is_full")),
            is_on_card=bool(card),
            is_on_mtdblock=is_on_mtdblock,
            is_lost=is_mounted is not None and is_mounted < 1,
        )

    def _phase(self, phase: str, place: dict[str, Any]) -> dict[str, float]:
        means = {one: self.rows.mean(one, phase=phase, **place) for one in self.rows.metrics()}
        return {name: value for name, value in means.items() if value is not None}

    def _layers(self) -> list[Candidate]:
        found = []
        for name in self.rows.axis_values("ftl"):
            means = {one: self.rows.mean(one, ftl=name) for one in self.rows.metrics()}
            values = {one: value for one, value in means.items() if value is not None}
            if "ram_bytes" in values:
                values["memory_bytes"] = values["ram_bytes"]
            if "rebuild_ns" in values:
                values["mount_after_cut_ns"] = values["rebuild_ns"]
            label = ftl_name(name)
            found.append(Candidate(label, name, "", values, _GUARANTEE_OF_LAYERS, ""))
        return found


_READS = ("page", "spare")
