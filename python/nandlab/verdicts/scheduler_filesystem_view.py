"""What the study scheduler-filesystem compares: cells of IOzone, published and simulated."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from nandlab.results import StudyResult
from nandlab.verdicts.job_runs import JobRuns

CALIBRATED = "s5pv210-calibrated"
DATASHEET = "s5pv210-datasheet"
FILE_SYSTEMS = {"jffs2": "JFFS2", "nilfs2": "NILFS2", "yaffs2": "YAFFS2"}
ON_BLOCK_DEVICE = ("nilfs2",)
"""File systems whose requests meet a scheduler."""
SCHEDULERS = ("noop", "anticipatory", "deadline", "cfq")
TESTS = ("write", "read")
"""Tests that are published."""

PARTS = {
    "array_program_ns": "chip programs",
    "array_read_ns": "chip reads",
    "array_erase_ns": "chip erases",
    "transfer_ns": "bytes moved by the processor",
    "driver_ns": "driver",
    "software_ns": "file system, page cache, compression",
}
"""Metrics that the time of a test is made of."""

BASE = "noop"
"""The scheduler under which cells that differ in other axes are run."""


@dataclass(frozen=True)
class Setting:
    """Everything of a cell but file system, test, size and scheduler."""

    board: str = CALIBRATED
    flash: str = "fresh"
    data: str = "random"
    cache: str = "cold"
    passes: str = "1"
    cleaner: str = "on"

    @property
    def label(self) -> str:
        """In words."""
        board = self.board.removeprefix("s5pv210-")
        words = f"{board} board, {self.flash} flash, {DATA_WORDS.get(self.data, self.data)}"
        if self.cache != "cold":
            words += f", {self.cache} cache"
        if self.cleaner == "off":
            words += ", cleaner off"
        return words if self.passes == "1" else f"{words}, {self.passes} passes"


DATA_WORDS = {"random": "random bytes", "pattern": "IOzone's old pattern"}
MAIN = Setting()


class View:
    """The runs, and the published cells."""

    def __init__(self, result: StudyResult) -> None:
        """Indexes `result`."""
        self.runs = JobRuns(result)
        self.published: dict[tuple[str, str, str, str], float] = {}
        for row in result.reference.dicts() if result.reference else ():
            size = row["file_mib"]
            size = size if isinstance(size, str) else f"{size:g}"
            key = (str(row["file_system"]), str(row["test"]), str(row["scheduler"]), size)
            self.published[key] = float(row["seconds"])

    def file_systems(self) -> list[str]:
        """Published file systems that ran in the main setting."""
        found = self.runs.axis_values("file_system")
        return [one for one in found if one in FILE_SYSTEMS and self.sizes(one)]

    def raw_file_systems(self) -> list[str]:
        """Those of them that call the NAND driver themselves."""
        return [one for one in self.file_systems() if one not in ON_BLOCK_DEVICE]

    def sizes(self, file_system: str, setting: Setting = MAIN) -> list[str]:
        """Sizes of the file in MiB at which a file system ran, least first."""
        found = self.runs.axis_values(
            "file_mib", file_system=file_system, scheduler=BASE, **_axes(setting)
        )
        return sorted(found, key=float)

    def settings(self) -> list[Setting]:
        """All settings that ran, in the order of the rows."""
        found = [
            Setting(board, flash, data, cache, passes, cleaner)
            for board in self.runs.axis_values("board")
            for flash in self.runs.axis_values("flash")
            for data in self.runs.axis_values("data")
            for cache in self.runs.axis_values("cache")
            for passes in self.runs.axis_values("passes")
            for cleaner in self.runs.axis_values("cleaner")
        ]
        return [one for one in found if any(self.sizes(name, one) for name in FILE_SYSTEMS)]

    def schedulers(self) -> list[str]:
        """Published schedulers that ran in the main setting."""
        found = self.runs.axis_values("scheduler", **_axes(MAIN))
        return [one for one in SCHEDULERS if one in found]

    def other_schedulers(self) -> list[str]:
        """Schedulers that are not published, and published ones with a part switched off."""
        found = self.runs.axis_values("scheduler", **_axes(MAIN))
        return [one for one in found if one not in SCHEDULERS]

    def place(
        self, file_system: str, test: str, size: str, setting: Setting, scheduler: str = BASE
    ) -> dict[str, str]:
        """All axes of a cell."""
        own = {"file_system": file_system, "test": test, "file_mib": size, "scheduler": scheduler}
        return _axes(setting) | own

    def seconds(
        self,
        file_system: str,
        test: str,
        size: str,
        setting: Setting = MAIN,
        scheduler: str = BASE,
    ) -> float | None:
        """Mean time of a test over the repeats."""
        found = self.runs.mean(
            "elapsed_ns", self.place(file_system, test, size, setting, scheduler)
        )
        return None if found is None else found / 1e9

    def repeats(self, file_system: str, test: str, size: str, setting: Setting) -> list[float]:
        """Times of a test, one for each repeat, in seconds."""
        place = self.place(file_system, test, size, setting)
        return [value / 1e9 for value in self.runs.repeats("elapsed_ns", place).values()]

    def metric(
        self,
        name: str,
        file_system: str,
        test: str,
        size: str,
        setting: Setting,
        scheduler: str = BASE,
    ) -> float | None:
        """Mean of a metric of a test over the repeats."""
        return self.runs.mean(name, self.place(file_system, test, size, setting, scheduler))

    def published_seconds(
        self, file_system: str, test: str, size: str, scheduler: str = BASE
    ) -> float | None:
        """The published time of a cell."""
        return self.published.get((file_system, test, scheduler, size))

    def published_cells(self, file_system: str, test: str, size: str) -> Mapping[str, float]:
        """The published times of all schedulers."""
        return {
            scheduler: seconds
            for scheduler in SCHEDULERS
            if (seconds := self.published_seconds(file_system, test, size, scheduler)) is not None
        }

    def are_tied(self, file_system: str) -> bool:
        """Whether every metric is the same under every scheduler, run by run."""
        schedulers = self.schedulers()
        for size in self.sizes(file_system):
            for test in self.runs.axis_values("test"):
                found = [
                    self.runs.repeats("elapsed_ns", self.place(file_system, test, size, MAIN, name))
                    for name in schedulers
                ]
                if any(one != found[0] for one in found):
                    return False
        return True


def setting_of(board: str, name: str) -> Setting:
    """The main setting of a board with its flash or data changed to what `name` says."""
    base = replace(MAIN, board=board)
    return {"aged": replace(base, flash="aged"), "pattern": replace(base, data="pattern")}.get(
        name, base
    )


def _axes(setting: Setting) -> dict[str, str]:
    return {
        "board": setting.board,
        "flash": setting.flash,
        "data": setting.data,
        "cache": setting.cache,
        "passes": setting.passes,
        "cleaner": setting.cleaner,
    }
