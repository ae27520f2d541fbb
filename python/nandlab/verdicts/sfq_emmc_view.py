"""What the study sfq-emmc compares: a scheduler against another, by size and kind of writer."""

from dataclasses import dataclass

from nandlab.results import StudyResult
from nandlab.verdicts.confidence import Change, change
from nandlab.verdicts.job_runs import JobRuns
from nandlab.verdicts.paired import common_repeats, repeat_ratios, typical_change

SFQ = "sfq"
CFQ = "cfq-3.4"
ROW = "row"
EMMC = "emmc-4.5-64gb"
DISK = "disk-7200"
ALL = "all"
"""The mechanism axis where nothing is switched off."""

FILLS = {"both": SFQ, "writes": "sfq-fill-writes", "none": "sfq-fill-none"}
"""Rows of SFQ's fill modes."""

METRICS = {
    "read_latency_mean": "mean read",
    "read_latency_max": "longest read",
    "write_latency_mean": "mean write",
    "write_latency_max": "longest write",
}
"""The latencies that are published, and how they are called here."""

WAITS = {"reads": "reads", "writes": "writes", "cleaning": "cleaning", "idling": "idling"}
"""What a request can wait behind."""


@dataclass(frozen=True, order=True)
class Load:
    """How the processes ask: kind of writers, and milliseconds between two requests of one."""

    writers: str = "direct"
    thinktime_ms: str = "0"

    @property
    def label(self) -> str:
        """In words."""
        pause = "no pause" if self.thinktime_ms == "0" else f"{self.thinktime_ms} ms pause"
        return f"{self.writers} writers, {pause}"


@dataclass(frozen=True)
class Pair:
    """Two schedulers under the same load; changes are those of the first against the second."""

    scheduler: str = SFQ
    baseline: str = CFQ
    load: Load = Load()
    mechanism: str = ALL


class View:
    """The runs, by what they are compared for."""

    def __init__(self, result: StudyResult) -> None:
        """Indexes `result`."""
        self.runs = JobRuns(result)
        self.published: dict[str, float] = {}
        if result.reference is not None:
            self.published = {
                str(row["metric"]): float(row["sfq_relative_to_cfq"])
                for row in result.reference.dicts()
            }

    def place(
        self,
        scheduler: str,
        size: str,
        load: Load = Load(),
        mechanism: str = ALL,
        device: str = EMMC,
    ) -> dict[str, str]:
        """All axes of a cell."""
        return {
            "device": device,
            "region": "all" if device == DISK else "free",
            "mechanism": mechanism,
            "thinktime_ms": load.thinktime_ms,
            "writers": load.writers,
            "request_kib": size,
            "scheduler": scheduler,
        }

    def loads(self) -> list[Load]:
        """The loads under which both schedulers ran."""
        found = [
            Load(writers, thinktime)
            for thinktime in self.runs.axis_values("thinktime_ms", device=EMMC, mechanism=ALL)
            for writers in self.runs.axis_values("writers", device=EMMC, mechanism=ALL)
        ]
        return [load for load in found if self.sizes(Pair(load=load))]

    def mechanisms(self) -> list[str]:
        """What was switched off, one at a time."""
        return [one for one in self.runs.axis_values("mechanism", device=EMMC) if one != ALL]

    def schedulers(self, device: str = EMMC) -> list[str]:
        """Schedulers that ran on a device."""
        return self.runs.axis_values("scheduler", device=device, mechanism=ALL)

    def sizes(self, pair: Pair) -> list[str]:
        """Request sizes, in KiB, at which both schedulers ran."""
        found = [
            self.runs.axis_values(
                "request_kib",
                device=EMMC,
                mechanism=pair.mechanism,
                thinktime_ms=pair.load.thinktime_ms,
                writers=pair.load.writers,
                scheduler=name,
            )
            for name in (pair.scheduler, pair.baseline)
        ]
        return [size for size in found[0] if size in found[1]]

    def change_at(self, metric: str, pair: Pair, size: str) -> Change | None:
        """The change at one request size, over the repeats."""
        ratios = self._ratios(metric, pair, size)
        return change(list(ratios.values())) if ratios else None

    def change(self, metric: str, pair: Pair) -> Change | None:
        """The change at the typical size: the geometric mean over sizes, for each repeat."""
        return typical_change([self._ratios(metric, pair, size) for size in self.sizes(pair)])

    def pooled_change(self, metric: str, pair: Pair) -> Change | None:
        """The change over the requests of all sizes together, which the largest decide."""
        join = max if metric.endswith("_max") else sum
        sides = []
        for name in (pair.scheduler, pair.baseline):
            by_size = [
                self.runs.repeats(f"{metric}_ns", self._at(pair, name, size))
                for size in self.sizes(pair)
            ]
            repeats = common_repeats(by_size)
            sides.append({repeat: join(one[repeat] for one in by_size) for repeat in repeats})
        shared = [repeat for repeat in sides[0] if sides[1].get(repeat)]
        if not shared:
            return None
        return change([sides[0][repeat] / sides[1][repeat] for repeat in shared])

    def _ratios(self, metric: str, pair: Pair, size: str) -> dict[int, float]:
        ours, theirs = (self._at(pair, name, size) for name in (pair.scheduler, pair.baseline))
        return repeat_ratios(self.runs, f"{metric}_ns", ours, theirs)

    def _at(self, pair: Pair, scheduler: str, size: str) -> dict[str, str]:
        return self.place(scheduler, size, pair.load, pair.mechanism)
