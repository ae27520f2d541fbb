"""What the study sfq-kernel compares: SFQ against each scheduler of the kernel, disk by disk."""

from dataclasses import dataclass

from nandlab.results import StudyResult
from nandlab.verdicts.confidence import Change, change, geometric_mean
from nandlab.verdicts.job_runs import JobRuns
from nandlab.verdicts.paired import repeat_ratios, typical_change

SFQ = "sfq"
BFQ = "bfq"
NONE = "none"
FLASH_CARD = "flash-card"
PROCESSOR = "processor_ns_per_request"

METRICS = {
    "read_latency_mean_ns": "mean read",
    "read_latency_max_ns": "longest read",
    "write_latency_mean_ns": "mean write",
    "write_latency_max_ns": "longest write",
}
"""The latencies that are published, and how they are called here."""


@dataclass(frozen=True, order=True)
class Place:
    """A kernel, a disk and a kind of writers: what is the same for the schedulers compared."""

    kernel: str
    device: str
    writers: str

    @property
    def label(self) -> str:
        """In words."""
        return f"Linux {self.kernel}, {self.device}, {self.writers} writers"

    @property
    def short(self) -> str:
        """For a narrow column."""
        return f"{self.kernel} {self.device} {self.writers}"


class View:
    """The runs, by what they are compared for."""

    def __init__(self, result: StudyResult) -> None:
        """Indexes `result`."""
        self.runs = JobRuns(result)
        self.published: dict[str, float] = {}
        if result.reference is not None:
            self.published = {
                f"{row['metric']}_ns": float(row["sfq_relative_to_cfq"])
                for row in result.reference.dicts()
            }

    def places(self) -> list[Place]:
        """Where SFQ and at least one other scheduler ran; the flash card comes first."""
        found = [
            Place(kernel, device, writers)
            for kernel in self.runs.axis_values("kernel")
            for device in self.runs.axis_values("device", kernel=kernel)
            for writers in self.runs.axis_values("writers", kernel=kernel, device=device)
        ]
        found = [place for place in found if self.others(place)]
        return sorted(found, key=lambda place: place.device != FLASH_CARD)

    def schedulers(self, place: Place) -> list[str]:
        """Schedulers that ran at a place, in the order of the study."""
        return self.runs.axis_values("scheduler", **self._axes(place))

    def others(self, place: Place) -> list[str]:
        """Schedulers that SFQ can be compared with; the stand-in for CFQ comes first."""
        found = [name for name in self.schedulers(place) if name != SFQ and self.sizes(place, name)]
        return sorted(found, key=lambda name: name != BFQ)

    def sizes(self, place: Place, baseline: str, scheduler: str = SFQ) -> list[str]:
        """Request sizes, in KiB, at which both ran."""
        axes = self._axes(place)
        ours, theirs = (
            self.runs.axis_values("request_kib", **axes, scheduler=name)
            for name in (scheduler, baseline)
        )
        return [size for size in ours if size in theirs]

    def cell(self, place: Place, scheduler: str, size: str) -> dict[str, str]:
        """All axes of a cell."""
        return {**self._axes(place), "request_kib": size, "scheduler": scheduler}

    def change(
        self, metric: str, place: Place, baseline: str, scheduler: str = SFQ
    ) -> Change | None:
        """The change of a scheduler against another at the typical size."""
        return typical_change(
            [
                self._ratios(metric, place, baseline, scheduler, size)
                for size in self.sizes(place, baseline, scheduler)
            ]
        )

    def change_at(
        self, metric: str, place: Place, baseline: str, size: str, scheduler: str = SFQ
    ) -> Change | None:
        """The change at one request size."""
        ratios = self._ratios(metric, place, baseline, scheduler, size)
        return change(list(ratios.values())) if ratios else None

    def typical(self, metric: str, place: Place, scheduler: str) -> float | None:
        """Geometric mean over sizes of the mean over repeats."""
        sizes = self.runs.axis_values("request_kib", **self._axes(place), scheduler=scheduler)
        found = [self.runs.mean(metric, self.cell(place, scheduler, size)) for size in sizes]
        known = [one for one in found if one is not None and one > 0]
        return geometric_mean(known) if known else None

    def _ratios(
        self, metric: str, place: Place, baseline: str, scheduler: str, size: str
    ) -> dict[int, float]:
        ours, theirs = (self.cell(place, name, size) for name in (scheduler, baseline))
        return repeat_ratios(self.runs, metric, ours, theirs)

    def _axes(self, place: Place) -> dict[str, str]:
        return {"kernel": place.kernel, "device": place.device, "writers": place.writers}
