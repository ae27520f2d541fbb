"""Writes docs/open-au.md: what a card does whose layer keeps few allocation units open.

Writes go to several allocation units (AU) in turn, a segment to each, as `flashbench --open-au`
does. The segment is halved from row to row.
"""

import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from generated_page import DOCS, write_or_check

import nandlab
from nandlab.present.drawing import picture

PICTURE = DOCS / "images" / "open-au.png"
DEVICE = "sd-c10-16gb"
AU_BYTES = 4 << 20
PAGE_BYTES = 16 << 10
REQUEST_BYTES = 512 << 10
"""Largest request of the block layer (`BLK_DEF_MAX_SECTORS` of Linux before 4.3)."""

FIRST_AU, AU_STEP = 100, 7
"""Where the AUs lie: apart from each other, and from the beginning of the card."""

_TICKS_1970 = 116_444_736_000_000_000
"""1970 in ticks of 100 ns since 1601, the clock of MSR's traces."""


@dataclass(frozen=True)
class Case:
    """A layer and a number of open AUs."""

    layer: str
    units: int
    settings: tuple[tuple[str, int], ...]
    is_over: bool
    """More AUs than the layer keeps open."""

    @property
    def name(self) -> str:
        """Name in the table and in the figure."""
        return f"{self.layer}, {self.units} AU"


_LOGS = (("flash.settings.log_blocks", 3),)
_MOVED = (("flash.settings.moved_blocks", 3),)

CASES = (
    Case("bast", 3, _LOGS, is_over=False),
    Case("bast", 4, _LOGS, is_over=True),
    Case("lexar", 3, _MOVED, is_over=False),
    Case("lexar", 4, _MOVED, is_over=True),
    Case("fast", 1, _LOGS, is_over=False),
    Case("fast", 8, _LOGS, is_over=True),
    Case("fast", 32, _LOGS, is_over=True),
)


def segments() -> list[int]:
    """Bytes of the segments: from an AU down to a page."""
    found = [AU_BYTES]
    while found[-1] > PAGE_BYTES:
        found.append(found[-1] // 2)
    return found


def _writes(units: int, segment: int) -> Iterator[tuple[int, int]]:
    """Place and length of each write."""
    for offset in range(0, AU_BYTES, segment):
        for unit in range(units):
            begin = (FIRST_AU + AU_STEP * unit) * AU_BYTES + offset
            for place in range(begin, begin + segment, REQUEST_BYTES):
                yield place, min(REQUEST_BYTES, begin + segment - place)


def rate(case: Case, segment: int) -> float:
    """MB/s of 10^6 bytes, one request at a time, on a card every page of which was written once."""
    lines = [
        f"{_TICKS_1970 + number},card,0,Write,{place},{length},0\n"
        for number, (place, length) in enumerate(_writes(case.units, segment))
    ]
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "segments.csv"
        trace.write_text("".join(lines), encoding="utf-8")
        found = nandlab.replay(
            trace,
            device=DEVICE,
            ftl=case.layer,
            settings=dict(case.settings),
            closed_loop=True,
            queue_depth=1,
            precondition="fill",
        )
    return case.units * AU_BYTES * 1e3 / found.answer["runs"][0]["elapsed_ns"]


def rates(case: Case) -> list[float]:
    """The rate at each of [`segments`]."""
    return [rate(case, segment) for segment in segments()]


HEAD = f"""# Open allocation units

Made by `make docs`: do not edit.

Cards with a block-mapped layer keep few allocation units (AU) open for writing. `flashbench
--open-au` finds how many: it writes to several AUs in turn, a segment to each, and halves the
segment from row to row. Over the limit each change of the AU costs a merge, so the throughput
halves with the segment.

Here `{DEVICE}` is written so, one request at a time, on a card every page of which was written
once. Its AU has 4 MiB. BAST has three log blocks, Lexar three moved blocks, and FAST three log
blocks, two of which take pages of any AU. MB/s are 10^6 bytes a second. n is 1: nothing is drawn.

![Throughput over the segment: over the limit BAST and Lexar halve with it](images/open-au.png)

"""

TAIL = """
- **BAST and Lexar** show the signature. One AU more than they keep open, and each halving of the
  segment from 128 KiB down to the page halves the throughput. Within the limit a halving costs less
  than 1.3 times.
- The time for a segment is nearly constant then: {merge_s:.2f} s with BAST, which is one merge of
  an AU. OLPC's table and flashbench's own card show 0.2 to 0.35 s for AUs of 4 MiB, and 0.7 s for
  another card.
- **FAST** shows it in part. Its log blocks take pages of any AU, so one merge serves many segments:
  the throughput halves until a log block holds pages of every AU, and is level below that. With
  eight AUs that is at 512 KiB, with 32 at 128 KiB. So a card whose rows halve down to the page
  keeps its log blocks for one AU each.

The cards of the field differ: of two cards with the same label one is eight times as fast as the
other at 32 KiB (OLPC, SDCard_Testing). This page shows what a mechanism does, and not what a card
has.
"""


def page() -> str:
    """The page, and the picture beside it."""
    found = {case: rates(case) for case in CASES}
    sizes = segments()
    lines = [
        "| segment | " + " | ".join(case.name for case in CASES) + " |",
        "|---:|" + "---:|" * len(CASES),
    ]
    for row, size in enumerate(sizes):
        cells = " | ".join(f"{found[case][row]:.3g}" for case in CASES)
        lines.append(f"| {size // 1024} KiB | {cells} |")
    over = next(case for case in CASES if case.is_over)
    tail = TAIL.format(merge_s=sizes[-1] / found[over][-1] / 1e6)
    PICTURE.write_bytes(picture(_chart(found), "Open allocation units", PICTURE))
    return HEAD + "\n".join(lines) + "\n" + tail


def _limit(case: Case) -> str:
    return "over the limit" if case.is_over else "within the limit"


def _chart(found: dict[Case, list[float]]) -> dict[str, object]:
    rows = [
        {"segment": size // 1024, "rate": round(value, 4), "case": case.name, "limit": _limit(case)}
        for case, values in found.items()
        for size, value in zip(segments(), values, strict=True)
    ]
    log = {"type": "log", "base": 2}
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "data": {"values": rows},
        "mark": {"type": "line", "point": True},
        "encoding": {
            "x": {
                "field": "segment",
                "type": "quantitative",
                "scale": log,
                "title": "segment, KiB",
            },
            "y": {"field": "rate", "type": "quantitative", "scale": log, "title": "MB/s"},
            "color": {
                "field": "case",
                "type": "nominal",
                "sort": [case.name for case in CASES],
                "title": "layer, open AUs",
            },
            "strokeDash": {"field": "limit", "type": "nominal", "title": "of the layer"},
        },
        "height": 320,
    }


def main(arguments: list[str] | None = None) -> int:
    """Write the page; with --check only tell whether it is up to date."""
    return write_or_check(DOCS / "open-au.md", page, __doc__, arguments)


if __name__ == "__main__":
    sys.exit(main())
