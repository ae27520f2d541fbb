"""Writes docs/slc-cache.md: what a long write shows of the SLC cache of an NVMe drive.

`slc_cache_runs.py` measures, `slc_cache_times.py` has what follows from the device's times.
"""

import sys
from collections.abc import Iterator

from generated_page import DOCS, write_or_check
from slc_cache_runs import (
    CASES,
    DEVICE,
    EMPTY,
    FILLED,
    FOLDING,
    LOG_MS,
    OVERWRITTEN,
    Case,
    Run,
    measured,
    threshold,
)
from slc_cache_times import Times, cache_bytes, times

from nandlab.present.drawing import picture

PAGE = DOCS / "slc-cache.md"
PICTURE = DOCS / "images" / "slc-cache.png"
TITLE = "1 MiB writes in order, depth 32: throughput over the gigabytes written"

PUBLISHED_MB_PER_S = 600
"""Past the cache: a bit above 600 (techpowerup, review of the 970 EVO 500 GB, page 6)."""

STEP_GB = 0.5
"""A point of the chart is the mean of so many gigabytes."""

MEAN_MS = 500
"""As the review has it: two points a second."""

ZOOM_MS = (-200, 800)
"""What the lower chart shows, from the first fall on."""

HEAD = """# The SLC cache of an NVMe drive

Made by `make docs`: do not edit.

How long does a drive with an SLC cache write fast, and how fast is it then?

- **An empty drive** writes {empty_gb:.1f} GB at {cache:,.0f} MB/s, and then {bypass:,.0f} MB/s. Its
  throughput falls once.
- **A drive that was overwritten before** has its static cache alone: it falls after
  {overwritten_gb:.1f} GB, to {overwritten:,.0f} MB/s.
- **A cache that folds when it is full** makes a saw-tooth, with a mean of {fold:,.0f} MB/s.
- The real drive falls after 22 GB, too, but to a bit above {published} MB/s. Folding
  [would explain it](#the-real-drive), and so would a slower program.

![Throughput over the gigabytes written: a cliff at the size of the cache](images/slc-cache.png)

`{device}` stands for a Samsung 970 EVO of 500 GB. Its SLC cache has {static_gb:.1f} GB that are
static, and up to {dynamic_gb:.1f} GB that are dynamic: blocks that are free. One job of fio writes
in order, 1 MiB each, 32 outstanding. MB/s are 10^6 bytes a second, GB 10^9 bytes.
A point of the upper chart is the mean of {step:g} GB, one of the lower chart that of {log} ms. n is
1: only the places of the overwrites before the job are drawn.

| drive before the job | `when_full` | written, GB | first fall, GB | before it, MB/s \
| after it, MB/s | falls | longest write, ms |
|---|---|---:|---:|---:|---:|---:|---:|
"""

TAIL = """
*falls* counts how often the throughput of {log} ms comes from above {threshold:,.0f} MB/s to less,
the middle between the cache and three bits a cell.

- **Empty**: the cliff is at the size of the whole cache, {whole_gb:.1f} GB.
- **Filled once**: {filled_gb:.1f} GB, more than the static cache. The blocks beyond the capacity
  are still free, so the layer lends some of them. It needs them back as the job goes on. Each is
  folded first: the mean is {giving:,.0f} MB/s until 12 GB, and {given:,.0f} MB/s from 14 GB on.
- **Filled, then overwritten**: no block is free beyond what cleaning keeps. Only the static cache
  is left, and past it cleaning moves pages beside the writes.
- **Folds**: a die writes on when it has folded a block, which takes {fold_block_ms:.0f} ms. Then
  the block lasts for {fill_block_ms:.0f} ms. The mean over half a second is {least_mean:,.0f} to
  {most_mean:,.0f} MB/s.

## The real drive

Published: well over 2 GB/s for around 22 GB, then a bit above 600 MB/s (techpowerup, review of the
970 EVO 500 GB, page 6: blocks of 1 MB, one thread, two points a second, drive erased before). The
size of the cache is the maker's, and its throughput follows from a program time that is assumed. So
only the throughput past the cache is a check: it is {ratio:.1f} times the published one. It follows
from the times of the device. For a page of all planes of a die, {page_kib} KiB:

| assumption | time of a page, µs | MB/s of {dies} dies |
|---|---:|---:|
| `bypass`: transfer, then program of both planes at once | {bypass_us:,.0f} | {bypass_known:,.0f} |
| the same, one plane after the other | {one_plane_us:,.0f} | {one_plane:,.0f} |
| the same as the first, a program of {program_us:,.0f} µs instead of {part_us:,.0f} \
| {wanted_us:,.0f} | {published:,.0f} |
| `fold`: write to the cache, read there, write again, a part of an erase \
| {fold_us:,.0f} | {fold_known:,.0f} |

Here nothing is folded while `bypass` writes. To fold each block before the next write explains
the difference alone: with `fold` the same times give {fold:,.0f} MB/s, {fold_off:.0f} % below the
published rate. The review supposes that the drive moves data out of its cache meanwhile. Its curve
has one fall. With two points a second this one has one, too: a fold and the writes after it take
less than half a second.

A program time of {program_us:,.0f} µs explains it as well, but {part_us:,.0f} µs is the maker's for
such dies. One curve cannot tell the two apart. The device keeps `bypass`, since the review has
writes to three bits a cell past the cache.
"""


def _facts(found: dict[Case, Run], known: Times) -> dict[str, float | str]:
    """What the sentences say."""
    limit = threshold(known)
    static, dynamic = cache_bytes(DEVICE)
    filled, folding = found[FILLED], found[FOLDING]
    bypass = found[EMPTY].tail(limit)
    fold = folding.tail(limit)
    means = folding.means(limit, MEAN_MS)
    return {
        "device": DEVICE,
        "published": PUBLISHED_MB_PER_S,
        "log": LOG_MS,
        "step": STEP_GB,
        "threshold": limit,
        "static_gb": static / 1e9,
        "dynamic_gb": dynamic / 1e9,
        "whole_gb": (static + dynamic) / 1e9,
        "empty_gb": found[EMPTY].fall_gb(limit),
        "filled_gb": filled.fall_gb(limit),
        "overwritten_gb": found[OVERWRITTEN].fall_gb(limit),
        "cache": found[EMPTY].before(limit),
        "bypass": bypass,
        "overwritten": found[OVERWRITTEN].tail(limit),
        "fold": fold,
        "fold_off": 100 * (1 - fold / PUBLISHED_MB_PER_S),
        "giving": filled.between_gb(filled.fall_gb(limit), 12),
        "given": filled.between_gb(14, 31),
        "fold_block_ms": known.fold_block_ns / 1e6,
        "fill_block_ms": known.fill_block_ns / 1e6,
        "least_mean": min(means),
        "most_mean": max(means),
        "ratio": bypass / PUBLISHED_MB_PER_S,
        "page_kib": str(known.page_bytes // 1024),
        "dies": known.dies,
        "bypass_us": known.bypass_ns / 1e3,
        "bypass_known": known.bypass_mb_per_s,
        "one_plane_us": known.planes * known.one_plane_ns / 1e3,
        "one_plane": known.one_plane_mb_per_s,
        "part_us": known.program_ns / 1e3,
        "program_us": known.program_ns_for(PUBLISHED_MB_PER_S) / 1e3,
        "wanted_us": (known.program_ns_for(PUBLISHED_MB_PER_S) + known.transfer_ns) / 1e3,
        "fold_us": known.fold_ns / 1e3,
        "fold_known": known.fold_mb_per_s,
    }


def page(found: dict[Case, Run]) -> str:
    """The page."""
    known = times(DEVICE)
    limit = threshold(known)
    facts = _facts(found, known)
    lines = [
        f"| {case.name} | `{case.when_full}` | {case.written_mib * 2**20 / 1e9:.1f} "
        f"| {run.fall_gb(limit):.1f} | {run.before(limit):,.0f} | {run.tail(limit):,.0f} "
        f"| {run.falls(limit)} | {run.longest_write_ns / 1e6:,.0f} |"
        for case, run in found.items()
    ]
    lines.append(
        "| the real drive, erased | | | around 22 | well over 2,000 "
        f"| a bit above {PUBLISHED_MB_PER_S} | | |"
    )
    return HEAD.format(**facts) + "\n".join(lines) + "\n" + TAIL.format(**facts)


def _upper(found: dict[Case, Run]) -> Iterator[dict[str, object]]:
    for case, run in found.items():
        steps = int(run.written_gb(run.whole) / STEP_GB)
        for step in range(steps):
            begin = step * STEP_GB
            rate = run.between_gb(begin, begin + STEP_GB)
            yield {"gb": begin + STEP_GB / 2, "rate": round(rate, 1), "case": case.name}


def _lower(found: dict[Case, Run], limit: float) -> Iterator[dict[str, object]]:
    for case in (EMPTY, FOLDING):
        run = found[case]
        fall = run.fall(limit)
        for ms in range(ZOOM_MS[0], ZOOM_MS[1], LOG_MS):
            rate = run.rates[fall + ms // LOG_MS]
            yield {"s": ms / 1e3, "rate": round(rate, 1), "case": case.name}


def chart(found: dict[Case, Run]) -> dict[str, object]:
    """All of the job above, the moment of the first fall below."""
    color = {
        "field": "case",
        "type": "nominal",
        "sort": [case.name for case in CASES],
        "title": "drive",
        "legend": {"orient": "top"},
    }
    rate = {"field": "rate", "type": "quantitative", "title": "MB/s"}
    published_at = {
        "gb": 17.5,
        "rate": PUBLISHED_MB_PER_S,
        "text": f"published past the cache: a bit above {PUBLISHED_MB_PER_S}",
    }
    published = {
        "data": {"values": [published_at]},
        "layer": [
            {"mark": {"type": "rule", "strokeDash": [4, 4]}, "encoding": {"y": rate}},
            {
                "mark": {"type": "text", "dy": 10},
                "encoding": {
                    "x": {"field": "gb", "type": "quantitative"},
                    "y": rate,
                    "text": {"field": "text"},
                },
            },
        ],
    }
    upper = {
        "data": {"values": list(_upper(found))},
        "mark": {"type": "line", "clip": True},
        "encoding": {
            "x": {
                "field": "gb",
                "type": "quantitative",
                "scale": {"domain": [0, 32], "nice": False},
                "title": "written, GB",
            },
            "y": rate,
            "color": color,
        },
    }
    lower = {
        "data": {"values": list(_lower(found, threshold(times(DEVICE))))},
        "mark": {"type": "line", "interpolate": "step-after"},
        "encoding": {
            "x": {
                "field": "s",
                "type": "quantitative",
                "scale": {"nice": False},
                "title": "since the first fall of each drive, s",
            },
            "y": rate,
            "color": color,
        },
        "width": 640,
        "height": 150,
    }
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "vconcat": [{"layer": [upper, published], "width": 640, "height": 300}, lower],
    }


def main(arguments: list[str] | None = None) -> int:
    """Write the page; with --check only tell whether it is up to date."""
    kept: list[dict[Case, Run]] = []

    def text() -> str:
        kept.append(measured())
        return page(kept[0])

    before = PAGE.read_bytes() if PAGE.is_file() else b""
    drawn = PICTURE.read_bytes() if PICTURE.is_file() else b""
    state = write_or_check(PAGE, text, __doc__, arguments)
    made = picture(chart(kept[0]), TITLE, PICTURE)
    given = sys.argv[1:] if arguments is None else arguments
    if "--check" in given:
        return int(state != 0 or made != drawn)
    if (before, drawn) != (PAGE.read_bytes(), made):
        PICTURE.write_bytes(made)
    return state


if __name__ == "__main__":
    sys.exit(main())
