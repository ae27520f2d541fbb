"""What the study android compares: cells of its tests, by file system, board, fill and size."""

from nandlab.results import Measurements, StudyResult

DATASHEET = "s5pv210-datasheet"
CALIBRATED = "s5pv210-calibrated"
BOARDS = {DATASHEET: "datasheet board", CALIBRATED: "calibrated board"}
FILE_SYSTEMS = {"yaffs2": "YAFFS2", "ubifs": "UBIFS", "jffs2": "JFFS2"}
"""In the order of the tables: the two of the publication, and a third."""

CLEAN, CUT = "mount", "mount-after-cut"
MOUNTS = {CLEAN: "after an orderly shutdown", CUT: "after a power cut"}
READS = ("read", "reread", "random-read")
WRITES = ("write", "rewrite", "random-write", "random-rewrite")
WHOLE = "whole"
ROOMS = {
    WHOLE: "the whole chip and all of the RAM",
    "partition-40mib": "a partition of 40 MiB",
    "free-40mib": "40 MiB left on a filled chip",
    "ram-40mib": "40 MiB of free RAM",
}
PATTERN, RANDOM = "pattern", "random"
"""What IOzone writes: its own words and zeros, or bytes that do not compress."""

WRITTEN_MIB = "1"
"""Mebibytes being written at the cut, as published."""

JOURNAL_FLASH = "used-50"
"""State of the flash at which more was being written, too."""

PHASES = {
    "created": "all files made",
    "mounted": "mounted anew",
    "touched": "all files read",
}
PARTS = {
    "array_read_ns": "chip reads",
    "array_program_ns": "chip programs",
    "array_erase_ns": "chip erases",
    "transfer_ns": "bytes moved by the processor",
    "driver_ns": "driver",
    "software_ns": "file system, UBI, page cache",
}
"""Metrics that the time of a mount or test is made of."""

STRUCTURES = "structure_"
SAME = {"inode_info": "inode"}
"""One thing by two names: JFFS2's inode holds the kernel's, as UBIFS's does."""


class View:
    """The runs, and the published claims."""

    def __init__(self, result: StudyResult) -> None:
        """Indexes `result`."""
        self.rows = Measurements(result)
        self.published: dict[str, float | None] = {}
        for row in result.reference.dicts() if result.reference else ():
            value = row["value"]
            self.published[str(row["claim"])] = None if value is None else float(value)

    def _numbers(self, axis: str, **place: str) -> list[str]:
        """Values of an axis that ran at a place, least first."""
        found = {
            value
            for value in self.rows.axis_values(axis)
            if value != "-"
            and any(
                self.rows.values(metric, **{**place, axis: value})
                for metric in ("mount_ns", "elapsed_ns", "drop_bytes", "written_bytes")
            )
        }
        return sorted(found, key=number_of)

    def file_systems(self, test: str) -> list[str]:
        """File systems that ran in a test."""
        return [one for one in FILE_SYSTEMS if self.rows_of(test, one)]

    def rows_of(self, test: str, file_system: str) -> bool:
        """Whether a file system ran in a test."""
        metrics = ("mount_ns", "elapsed_ns", "drop_bytes", "written_bytes")
        return any(self.rows.values(one, test=test, file_system=file_system) for one in metrics)

    def fills(self, test: str, board: str = DATASHEET) -> list[str]:
        """States of the flash at which mounts ran, least filled first."""
        return self._numbers("flash", test=test, board=board, phase="mount")

    def mount(
        self, metric: str, test: str, file_system: str, flash: str, board: str = DATASHEET
    ) -> float | None:
        """Mean of a metric of a mount."""
        written = WRITTEN_MIB if test == CUT else None
        return self.rows.mean(
            metric,
            test=test,
            file_system=file_system,
            flash=flash,
            board=board,
            written_mib=written,
        )

    def journal(self) -> list[tuple[str, float]]:
        """Mebibytes being written at the cut, and the seconds of UBIFS's mount after it."""
        found = []
        flash = JOURNAL_FLASH
        for written in self._numbers("written_mib", test=CUT, file_system="ubifs", flash=flash):
            seconds = self.rows.mean(
                "mount_ns",
                test=CUT,
                file_system="ubifs",
                flash=flash,
                written_mib=written,
                board=DATASHEET,
            )
            if seconds is not None:
                found.append((written, seconds / 1e9))
        return found

    def sizes(self, board: str = DATASHEET, room: str = WHOLE, data: str = PATTERN) -> list[str]:
        """Sizes of IOzone's file in MiB, least first."""
        return self._numbers("file_mib", test="iozone", board=board, room=room, data=data)

    def rooms(self) -> list[str]:
        """Rooms in which IOzone ran with the pattern."""
        return [one for one in ROOMS if self.sizes(room=one)]

    def iozone(
        self,
        metric: str,
        phase: str,
        file_system: str,
        size: str,
        board: str = DATASHEET,
        room: str = WHOLE,
        data: str = PATTERN,
    ) -> float | None:
        """Mean of a metric of a test of IOzone."""
        return self.rows.mean(
            metric,
            test="iozone",
            phase=phase,
            file_system=file_system,
            file_mib=size,
            board=board,
            room=room,
            data=data,
        )

    def rate(
        self,
        phase: str,
        file_system: str,
        size: str,
        board: str = DATASHEET,
        room: str = WHOLE,
        data: str = PATTERN,
    ) -> float | None:
        """Mean throughput of a test of IOzone in MiB/s."""
        found = self.iozone("throughput_kib_per_s", phase, file_system, size, board, room, data)
        return None if found is None else found / 1024

    def counts(self) -> list[str]:
        """Numbers of files, least first."""
        return self._numbers("files", test="files")

    def memory(self, metric: str, phase: str, file_system: str, files: str) -> float | None:
        """A metric of memory."""
        return self.rows.mean(
            metric, test="files", phase=phase, file_system=file_system, files=files
        )

    def structures(self, phase: str, file_system: str, files: str) -> dict[str, float]:
        """Bytes of each kind of structure."""
        found = {}
        for metric in self.rows.metrics():
            if metric.startswith(STRUCTURES):
                value = self.memory(metric, phase, file_system, files)
                if value:
                    name = metric.removeprefix(STRUCTURES).removesuffix("_bytes")
                    found[SAME.get(name, name.replace("_", " "))] = value
        return found

    def rates(self) -> list[str]:
        """Rates of the bursts in KiB/s, least first."""
        return self._numbers("rate_kib_per_s", test="burst")

    def burst(self, metric: str, file_system: str, rate: str) -> list[float]:
        """A metric of every power cut at a rate."""
        return self.rows.values(
            metric, test="burst", file_system=file_system, rate_kib_per_s=rate, board=DATASHEET
        )

    def limits(self) -> list[str]:
        """Rooms in which UBIFS's memory was weighed against its throughput."""
        known = [one for one in self.rows.axis_values("room") if one not in ROOMS]
        return [WHOLE, *known] if known else []


def number_of(text: str) -> float:
    """The number in the value of an axis."""
    return float("".join(letter for letter in text if letter.isdigit() or letter == ".") or 0)


def fill_percent(flash: str) -> float:
    """How far a state of the flash is filled, as its name says."""
    return number_of(flash)
