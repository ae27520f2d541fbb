"""Reads the rows of the study ftl-windows under one way of setting and counting."""

from dataclasses import dataclass

from nandlab.results import Measurements

PUBLISHED_FTLS = ("fast", "bast", "m-systems", "lexar", "mitsubishi")
"""The layers of the published table, best mean time first."""

DOUBLE_CHARGED = ("bast", "fast", "lexar")
"""Layers whose published rows fit only with 2 reads and 1 write more for each host page write."""

SETTINGS = ("default", "published-fit")
CHARGINGS = ("honest", "published")
READINGS = {"100 device requests": "", "100 file operations": "operation_window_"}
"""What `per 100 I/O` may mean, and the prefix of its metrics."""

COLUMNS = {
    "reads": "reads",
    "writes": "writes",
    "erases": "erases",
    "time_units": "weighted_time",
}
"""Columns of the published table, and the names of the simulated ones."""

READ_UNITS, WRITE_UNITS, ERASE_UNITS = 1, 7, 63
"""Weights of the published time."""


@dataclass(frozen=True)
class Variant:
    """A way of setting the layers and of counting their work."""

    settings: str
    charging: str

    @property
    def label(self) -> str:
        """As it is shown."""
        return f"{self.settings}, {self.charging} counting"


@dataclass(frozen=True)
class Work:
    """Operations of some runs together."""

    host_pages: float
    reads: float
    writes: float
    erases: float

    @property
    def time(self) -> float:
        """In the units of the publication."""
        return READ_UNITS * self.reads + WRITE_UNITS * self.writes + ERASE_UNITS * self.erases


class View:
    """The rows under one variant."""

    def __init__(
        self, measurements: Measurements, variant: Variant, reading: str = "100 device requests"
    ) -> None:
        """Looks at `measurements` under `variant`, with windows of `reading`."""
        self.rows = measurements
        self.variant = variant
        self.reading = reading

    def ftls(self) -> list[str]:
        """Published layers that were simulated, in published order of time."""
        present = self.rows.axis_values("ftl")
        return [ftl for ftl in PUBLISHED_FTLS if ftl in present]

    def window(self, column: str, statistic: str, ftl: str, **place: str | None) -> float | None:
        """Mean over runs of a window statistic: column of `COLUMNS`, `mean` or `stddev`."""
        base = READINGS[self.reading]
        name = f"{COLUMNS[column]}_{statistic}"
        at = {"ftl": ftl, "settings": self.variant.settings, **place}
        if self.variant.charging == "published":
            charged = self.rows.mean(f"{base}published_charging_{name}", **at)
            if charged is not None or ftl in DOUBLE_CHARGED:
                return charged
        return self.rows.mean(f"{base}{name}", **at)

    def work(self, ftl: str, **place: str | None) -> Work | None:
        """Operations of all runs at a place, in the counting of the variant."""
        at = {"ftl": ftl, "settings": self.variant.settings, **place}
        sums = [
            self.rows.total(metric, **at)
            for metric in ("host_write_pages", "page_reads", "page_programs", "erases")
        ]
        host_pages, reads, writes, erases = sums
        if host_pages is None or reads is None or writes is None or erases is None:
            return None
        reads += self.rows.total("spare_reads", **at) or 0
        writes += self.rows.total("spare_programs", **at) or 0
        if self.variant.charging == "published" and ftl in DOUBLE_CHARGED:
            reads += 2 * host_pages
            writes += host_pages
        if host_pages == 0:
            return None
        return Work(host_pages, reads, writes, erases)

    def total(self, metric: str, ftl: str | None = None, **place: str | None) -> float | None:
        """Sum of a metric that does not depend on the counting."""
        return self.rows.total(metric, ftl=ftl, settings=self.variant.settings, **place)

    def mean(self, metric: str, ftl: str | None = None, **place: str | None) -> float | None:
        """Mean of a metric that does not depend on the counting."""
        return self.rows.mean(metric, ftl=ftl, settings=self.variant.settings, **place)

    def workloads(self) -> list[dict[str, str]]:
        """Every workload that was simulated."""
        return [
            {"file_system": file_system, "file_set": file_set, "processes": processes}
            for file_system in self.rows.axis_values("file_system")
            for file_set in self.rows.axis_values("file_set")
            for processes in self.rows.axis_values("processes")
        ]


def variants(measurements: Measurements) -> list[Variant]:
    """Variants the rows can tell about."""
    present = measurements.axis_values("settings")
    chargings = [
        charging
        for charging in CHARGINGS
        if charging == "honest" or measurements.has("published_charging_weighted_time_mean")
    ]
    ordered = [name for name in SETTINGS if name in present]
    ordered += [name for name in present if name not in SETTINGS]
    return [Variant(settings, charging) for settings in ordered for charging in chargings]
