"""Writes docs/slc-cache.md: what a drive does whose SLC cache fills up.

A drive is written from its beginning to more than its cache holds, 1 MiB at a time, as reviews do.
The throughput is told over the bytes written.
"""

import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from generated_page import DOCS, write_or_check

import nandlab
from nandlab.present.drawing import picture

PICTURE = DOCS / "images" / "slc-cache.png"
DEVICE = "nvme-ssd-tlc"
STATIC_GB = 4.13
"""Static blocks: 82 of 9 MiB on each of 16 dies, a third of their bytes."""

WHOLE_GB = 22.14
"""With 358 dynamic blocks on each die."""

WRITTEN_GIB = 30
WINDOW_MS = 100
PUBLISHED = (2_000, 600)
"""MB/s before and after the cache is full: techpowerup, review of the Samsung 970 EVO 500 GB."""

_REQUEST_BYTES = 1 << 20

_JOB = f"""[global]
ioengine=libaio
direct=1
[write]
rw=write
bs=1m
iodepth=32
size={WRITTEN_GIB}g
write_lat_log=write
"""


@dataclass(frozen=True)
class Case:
    """A drive before it is written."""

    name: str
    precondition: str
    folds: bool = False
    """A write that finds the cache full waits until a block is folded."""


CASES = (
    Case("empty drive", "none"),
    Case("full drive", "fill"),
    Case("empty drive that folds first", "none", folds=True),
)


def rates(case: Case) -> list[tuple[float, float]]:
    """Bytes written so far in GB, and MB/s in the window that ends there."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        job = place / "write.fio"
        job.write_text(_JOB, encoding="utf-8")
        device = DEVICE
        if case.folds:
            own = (DOCS.parent / "devices" / f"{DEVICE}.toml").read_text(encoding="utf-8")
            device = str(place / "folds.toml")
            text = own.replace('when_full = "bypass"', 'when_full = "fold"')
            Path(device).write_text(text, encoding="utf-8")
        nandlab.fio(job, device=device, precondition=case.precondition, logs=place / "logs")
        # A line for each request, with the millisecond in which it ended.
        text = (place / "logs" / "write_lat.1.log").read_text(encoding="utf-8")
    ended = [int(line.partition(",")[0]) // WINDOW_MS for line in text.splitlines()]
    counts = Counter(ended)
    found, written = [], 0
    # The last window is not whole.
    for window in range(ended[-1]):
        written += counts[window]
        rate = counts[window] * _REQUEST_BYTES / 1e3 / WINDOW_MS
        found.append((written * _REQUEST_BYTES / 1e9, rate))
    return found


def plateaus(found: list[tuple[float, float]]) -> tuple[float, float, float]:
    """MB/s at first, GB written when it first falls below 0.8 of that, mean MB/s at the end."""
    first = sorted(rate for _, rate in found[:10])[5]
    end = [rate for _, rate in found[-30:]]
    last = sum(end) / len(end)
    falls = next((written for written, rate in found if rate < 0.8 * first), found[-1][0])
    return first, falls, last


def swings(found: list[tuple[float, float]]) -> int:
    """How often the rate changes by a fifth and more from a window to the next."""
    return sum(
        max(before, after) > 1.2 * min(before, after) for (_, before), (_, after) in pairwise(found)
    )


HEAD = f"""# A full SLC cache

Made by `make docs`: do not edit.

Drives with three bits a cell keep some blocks with one bit a cell, and write there first. How fast
is such a drive once they are full? `{DEVICE}` is named for a Samsung 970 EVO of 500 GB: 4 GB
always have one bit a cell, and 18 GB more while the drive has free blocks. It is written from its
beginning, 1 MiB at a time, 32 requests outstanding, scheduler noop. MB/s are 10^6 bytes a second,
in windows of {WINDOW_MS} ms. n is 1: nothing is drawn.

![Throughput over the bytes written: falls of three drives](images/slc-cache.png)

| drive | at first, MB/s | falls after, GB | at the end, MB/s | changes of a fifth |
|---|---:|---:|---:|---:|
"""

TAIL = """
- **An empty drive** has one fall, where the cache is full: after {empty:.1f} GB. A review of
  the real drive (techpowerup, 1 MB blocks, erased before) shows more than {before:,} MB/s for
  about 22 GB, then a bit above {after:,}. Before the fall the simulation agrees. After it, it
  is {ratio:.1f} times as fast.
- That rate is decided by the program time of the part, 500 µs for a page of both planes, on
  sixteen dies, and by nothing else: past the cache the simulated drive folds nothing while it
  is written. The review supposes that the real one moves data out of its cache at the same
  time. No source states how much.
- **A full drive** has the static blocks, and of its spare blocks those that the layer lends: it
  falls after {full:.1f} GB. Then the layer needs the lent blocks back. Each of them is folded
  first, which is the saw-tooth after the fall.
- **A drive that folds first** makes a write that finds the cache full wait until a block is
  moved: a saw-tooth around {fold:,.0f} MB/s, where one that goes past the cache keeps
  {past:,.0f} MB/s. The review's rate lies between the two."""


def page() -> str:
    """The page, and the picture beside it."""
    found = {case: rates(case) for case in CASES}
    lines = []
    for case, rows in found.items():
        first, falls, last = plateaus(rows)
        lines.append(f"| {case.name} | {first:,.0f} | {falls:.1f} | {last:,.0f} | {swings(rows)} |")
    empty, full, folds = (plateaus(found[case]) for case in CASES)
    before, after = PUBLISHED
    tail = TAIL.format(
        empty=empty[1],
        full=full[1],
        before=before,
        after=after,
        ratio=empty[2] / after,
        fold=folds[2],
        past=empty[2],
    )
    PICTURE.write_bytes(picture(_chart(found), "A full SLC cache", PICTURE))
    return HEAD + "\n".join(lines) + "\n" + tail


def _chart(found: dict[Case, list[tuple[float, float]]]) -> dict[str, object]:
    rows = [
        {"written": round(written, 3), "rate": round(rate, 1), "drive": case.name}
        for case, values in found.items()
        for written, rate in values
    ]
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "data": {"values": rows},
        "mark": {"type": "line", "strokeWidth": 1.5},
        "encoding": {
            "x": {"field": "written", "type": "quantitative", "title": "written, GB"},
            "y": {"field": "rate", "type": "quantitative", "title": "MB/s"},
            "color": {
                "field": "drive",
                "type": "nominal",
                "sort": [case.name for case in CASES],
                "title": "drive",
            },
        },
        "width": 520,
        "height": 300,
    }


def main(arguments: list[str] | None = None) -> int:
    """Write the page; with --check only tell whether it is up to date."""
    return write_or_check(DOCS / "slc-cache.md", page, __doc__, arguments)


if __name__ == "__main__":
    sys.exit(main())
