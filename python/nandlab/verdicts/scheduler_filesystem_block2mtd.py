"""JFFS2 on a block device that block2mtd makes an MTD: the one way for it to meet a scheduler."""

from collections.abc import Mapping
from dataclasses import dataclass

from nandlab.verdicts.scheduler_filesystem_view import MAIN, SCHEDULERS, TESTS, View
from nandlab.verdicts.wording import joined, number, percent

NAME = "jffs2-block2mtd"
LABEL = "JFFS2 over block2mtd"
DEVICE = (
    "JFFS2 over block2mtd is not published. It stands on a card of 2013 with chips of its own, so "
    "its times are not to be compared with those on raw NAND."
)
MEBIBYTE = 1024 * 1024
COUNTS = (
    "device_reads",
    "device_writes",
    "device_reads_before",
    "device_writes_before",
    "dirty_bytes_at_end",
)
NOTICED = 0.01
"""A difference smaller than this, as a part, is called none to speak of."""


@dataclass(frozen=True)
class Meeting:
    """What schedulers did to one test: means over the sizes of the file, but for counts."""

    test: str
    seconds: Mapping[str, float]
    """By scheduler."""
    requests: Mapping[str, float]
    """Requests that went through the scheduler to the card in that time, of all sizes."""
    writes: float
    """How many of them were writes, of all schedulers and sizes."""
    before: Mapping[str, float]
    """Requests while the file system was unmounted, mounted and the file opened before."""
    left_share: float
    """Bytes that were in memory only when the time ended, as a part of the bytes of the files."""

    @property
    def spread(self) -> float:
        """How much longer the slowest scheduler takes than the fastest, as a part of it."""
        return max(self.seconds.values()) / min(self.seconds.values()) - 1


def meetings(view: View) -> list[Meeting]:
    """Each test that ran under more than one published scheduler."""
    return [found for test in TESTS if (found := _meeting(view, test)) is not None]


def _meeting(view: View, test: str) -> Meeting | None:
    sizes = view.sizes(NAME)
    seconds: dict[str, float] = {}
    requests: dict[str, float] = {}
    before: dict[str, float] = {}
    writes = left = 0.0
    for scheduler in SCHEDULERS:
        times = [view.seconds(NAME, test, size, MAIN, scheduler) for size in sizes]
        known = [one for one in times if one is not None]
        if not known or len(known) != len(sizes):
            continue
        seconds[scheduler] = sum(known) / len(known)
        counts = {
            metric: sum(
                view.metric(metric, NAME, test, size, MAIN, scheduler) or 0.0 for size in sizes
            )
            for metric in COUNTS
        }
        requests[scheduler] = counts["device_reads"] + counts["device_writes"]
        before[scheduler] = counts["device_reads_before"] + counts["device_writes_before"]
        writes += counts["device_writes"]
        left += counts["dirty_bytes_at_end"]
    if len(seconds) < 2:
        return None
    files = len(seconds) * sum(map(float, sizes)) * MEBIBYTE
    return Meeting(test, seconds, requests, writes, before, left / files)


def sentences(view: View) -> list[str]:
    """What the verdict says of it."""
    found = meetings(view)
    if not found:
        return []
    apart = joined([f"{one.test}s {percent(one.spread)}" for one in found])
    met = joined([f"{_range(one.requests)} in {one.test}s" for one in found])
    is_noticed = any(one.spread > NOTICED for one in found)
    matters = "it matters" if is_noticed else "still it hardly matters"
    between = _range(
        {one: sum(test.before.get(one, 0.0) for test in found) for one in found[0].before}
    )
    lines = [
        f"{LABEL} on a card does meet the scheduler ({met} passed it, and {between} while the "
        f"file system was unmounted, mounted and the file opened), and {matters}: the slowest "
        f"takes longer than the fastest by {apart}."
    ]
    write = next((one for one in found if one.test == "write"), None)
    if write is not None:
        when = "none was written" if write.writes == 0 else "few were written"
        lines.append(
            "JFFS2's fsync has no write-buffer to flush there, and does not write the card's "
            f"pages in memory: of the files' bytes {when} within the time that IOzone takes, and "
            f"pages of {percent(write.left_share)} of their size were dirty in memory at its end. "
            "Write-back by age and the unmount bring them to the card."
        )
    read = next((one for one in found if one.test == "read"), None)
    if read is not None and not any(read.requests.values()):
        lines.append(
            "Opening a file there reads all of it, to compare it with its CRCs, so the reads of "
            "IOzone find it in the card's pages in memory."
        )
    return lines


def _range(requests: Mapping[str, float]) -> str:
    least, most = min(requests.values()), max(requests.values())
    shown = number(least) if least == most else f"{number(least)} to {number(most)}"
    return f"{shown} requests"
