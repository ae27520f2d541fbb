"""Writes docs/write-amplification-by-file-system.md from the record of its runs.

`write_amplification_runs.py` makes the record, which takes an emulated machine and an hour.
"""

import sys
from collections.abc import Callable
from typing import Any

from generated_page import DOCS, write_or_check
from write_amplification_found import Found, figure
from write_amplification_runs import (
    APPENDS,
    COLD_MEBIBYTES,
    DIRECT,
    FILE_SYSTEMS,
    LAYERS,
    PACKAGES,
    PAGE,
    PAGE_BYTES,
    PRECONDITION,
    ROTATE_AFTER,
    SEED,
    SMALL_FILES,
    load,
    rows,
)

from nandlab.present.drawing import picture

PAGE_FILE = DOCS / "write-amplification-by-file-system.md"
PICTURE = DOCS / "images" / "write-amplification-by-file-system.png"
TITLE = "Bytes programmed for each byte that the application writes"
NAMES = {"fat": "FAT", "ext4": "ext4", "f2fs": "F2FS", "btrfs": "btrfs"}

HEAD = """# Write amplification by file system and layer

Made by `make docs` from `write-amplification-by-file-system.json`: do not edit.

A program logs {log_bytes} bytes at a time with fsync, rewrites small files and deletes some. How
many bytes does the flash of a card program for each byte that the program writes? That is a
product: what the file system adds, times what the translation layer adds.

- **The least programs** come from {least}.
- **FAT writes least by itself**, {fat_own:.2f} bytes for a byte, and ext4 {ext4_own:.2f}. But the
  writes of FAT have {fat_request:,.0f} bytes on average, and each takes a page of {page_bytes:,}
  at least. So on the layer `page` the product of FAT is {fat_page:.1f}, and that of ext4
  {ext4_page:.1f}.
- **"Use FAT"**, and not ext4, pays on some layers: on `hybrid` ext4 programs
  {ext4_over_fat_hybrid:.1f} times as much as FAT, on `fast` {ext4_over_fat_fast:.1f} times. The
  tables of FAT lie in the first units, which `hybrid` maps by pages. On `bast` it is
  {ext4_over_fat_bast:.1f} times, on `page` {ext4_over_fat_page:.2f} times.
- **btrfs** writes {btrfs_own:.0f} bytes for a byte. Its writes are long, {btrfs_request:,.0f}
  bytes on average, so that layers add {btrfs_least:.1f} to {btrfs_most:.1f} times. On `hybrid`
  its product is {btrfs_hybrid:.0f}, that of ext4 {ext4_hybrid:.0f}.
- **Layer and file system decide together.** From the best to the worst layer the product of ext4
  grows {over_layers:.0f} times, without `hybrid` {over_others:.1f} times. From the best to the
  worst file system on `page` it grows {over_systems:.1f} times.

![Bars of the product by layer and file system](images/write-amplification-by-file-system.png)

## What the file systems write

The calls write {application:.1f} MB (10^6 bytes). n is {runs} runs of a real kernel for each file
system. Figures are means. The spread is the least and the most.

| file system | written to the card, MB | amplification | spread | writes | mean write, bytes \
| flushes |
|---|---:|---:|---:|---:|---:|---:|
"""

CONDITIONS = """
## Conditions

- **Card**: `scripts/small_card.toml`, 256 MiB. One MLC die (`k9gag08u0m`), pages of
  {page_bytes:,} bytes over both planes, blocks of 1 MiB. 40 of 296 blocks are spare. No cache,
  and no cleaning while idle.
- **Precondition**: `{precondition}`: the card was written once, in order. It has no TRIM: what is
  deleted stays valid for the layer.
- **Layers**: with their settings by default (16 log blocks where there are such), but `dftl` with
  a cache of 512 entries for 32,768 pages. `hybrid` maps its first two units by pages and keeps
  five others open.
- **Kernel**: Debian {kernel} in the emulated machine. Options of mkfs and mount are those of
  `python/nandlab/labs/file_systems.py`, all by default. btrfs keeps its metadata twice then.
  Packages: {packages}.
- **Calls**: {appends:,} appends to a log, each with fsync. The log is renamed after {rotate} of
  them. After each second one a file of 1,000 to 24,000 bytes, of {small}, is written anew with
  fsync. Every fourth of those is deleted first. Before, {cold} MiB of cold files are written,
  which are not counted. Seed {seed}.
- **Counted**: from before the mount to after the unmount.

The kernel ran with the layer `{recorded}` behind the socket, and its requests were carried out on
the other layers in the same order. Answers leave at once, so the kernel cannot tell the layers
apart. On `{recorded}` itself the counts are those of the kernel's own run, in each run. Runs of
one file system differ because the kernel writes back when its timers say so, and the host is not
always equally fast. One more run of each file system had `{direct}` behind the socket:

| file system | product on `{direct}`, carried out | product of the run on it |
|---|---:|---:|
"""

LIMITS = """
{outside}

## What does not follow

- It is one program, and nearly all it does is synced. A program that seldom syncs is another
  case.
- The counts say nothing of times, and nothing of what a power cut leaves. FAT has no journal.
- Real cards do not tell their layer. `nandlab list ftls` says what each of these stands for.
- There is one card: other blocks, other shares of spare blocks and TRIM were not tried.

`scripts/write_amplification_runs.py --again` repeats the runs, with what is in
`python/nandlab/labs/amplification.py`.
"""


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _least(found: Found) -> str:
    """Which file system has the least product, and on which layers."""
    layers: dict[tuple[str, ...], list[str]] = {}
    for layer in LAYERS:
        layers.setdefault(found.least(layer.name), []).append(f"`{layer.name}`")
    parts = []
    for names, on in layers.items():
        shown = _listed([NAMES[name] for name in names])
        apart = "" if len(names) == 1 else ", whose runs overlap,"
        parts.append(f"{shown}{apart} on {_listed(on)}")
    return ", and from ".join(parts)


def _outside(found: Found) -> str:
    """What the runs on `DIRECT` itself say of the spread of the others."""
    far = {}
    for name in FILE_SYSTEMS:
        product = found.product(name, DIRECT.name)
        direct = found.direct(name).product(PAGE_BYTES)
        if not product.least <= direct <= product.most:
            far[name] = max(product.least / direct, direct / product.most) - 1
    if not far:
        return "All lie within what the other runs span."
    shown = _listed([NAMES[name] for name in far])
    return (
        f"Outside of what the other runs span: {shown}, by up to {100 * max(far.values()):.0f} %. "
        f"So a spread of\n{found.runs()} runs is too narrow: differences of that size need more "
        "runs."
    )


def _facts(found: Found, kept: dict[str, Any]) -> dict[str, Any]:
    """What the sentences say."""
    product = {
        (name, layer.name): found.product(name, layer.name).mean
        for name in FILE_SYSTEMS
        for layer in LAYERS
    }
    of_btrfs = [found.by_layer("btrfs", layer.name).mean for layer in LAYERS]
    of_ext4 = [product["ext4", layer.name] for layer in LAYERS]
    on_page = [product[name, "page"] for name in FILE_SYSTEMS]
    return {
        "log_bytes": "4,096",
        "page_bytes": PAGE_BYTES,
        "least": _least(found),
        "fat_own": found.own("fat").mean,
        "ext4_own": found.own("ext4").mean,
        "btrfs_own": found.own("btrfs").mean,
        "fat_request": found.request_bytes("fat"),
        "btrfs_request": found.request_bytes("btrfs"),
        "fat_page": product["fat", "page"],
        "ext4_page": product["ext4", "page"],
        "ext4_over_fat_page": product["ext4", "page"] / product["fat", "page"],
        "ext4_over_fat_bast": product["ext4", "bast"] / product["fat", "bast"],
        "ext4_over_fat_fast": product["ext4", "fast"] / product["fat", "fast"],
        "ext4_over_fat_hybrid": product["ext4", "hybrid"] / product["fat", "hybrid"],
        "btrfs_least": min(of_btrfs),
        "btrfs_most": max(of_btrfs),
        "btrfs_hybrid": product["btrfs", "hybrid"],
        "ext4_hybrid": product["ext4", "hybrid"],
        "over_layers": max(of_ext4) / min(of_ext4),
        "over_others": max(of_ext4[:-1]) / min(of_ext4),
        "over_systems": max(on_page) / min(on_page),
        "application": found.known[0].counted.application_bytes / 1e6,
        "runs": found.runs(),
        "outside": _outside(found),
        "precondition": PRECONDITION,
        "kernel": kept["kernel"],
        "packages": _listed([f"{name} {kept['packages'][name]}" for name in PACKAGES.values()]),
        "appends": APPENDS,
        "rotate": ROTATE_AFTER,
        "small": SMALL_FILES,
        "cold": COLD_MEBIBYTES,
        "seed": SEED,
        "recorded": PAGE.name,
        "direct": DIRECT.name,
    }


def _matrix(title: str, cell: Callable[[str, str], str]) -> str:
    """A table of a row for each file system and a column for each layer."""
    heads = " | ".join(f"`{layer.name}`" for layer in LAYERS)
    lines = [f"\n## {title}\n", f"| file system | {heads} |", "|---|" + "---:|" * len(LAYERS)]
    for name in FILE_SYSTEMS:
        cells = " | ".join(cell(name, layer.name) for layer in LAYERS)
        lines.append(f"| {NAMES[name]} | {cells} |")
    return "\n".join(lines) + "\n"


def page(kept: dict[str, Any]) -> str:
    """The page."""
    found = Found(rows(kept))
    facts = _facts(found, kept)
    own = []
    for name in FILE_SYSTEMS:
        written, writes, flushes = (
            found.spread(name, PAGE.name, value).mean
            for value in (
                lambda one: one.written_bytes / 1e6,
                lambda one: one.writes,
                lambda one: one.flushes,
            )
        )
        spread = found.own(name)
        own.append(
            f"| {NAMES[name]} | {written:,.1f} | {spread.mean:.2f} | {spread.span} | {writes:,.0f} "
            f"| {found.request_bytes(name):,.0f} | {flushes:,.0f} |"
        )
    tables = _matrix(
        "What the layers add", lambda name, layer: figure(found.by_layer(name, layer).mean)
    )
    tables += _matrix(
        "The product, from the least to the most run",
        lambda name, layer: found.product(name, layer).span,
    )
    tables += _matrix(
        "Erases of the card",
        lambda name, layer: f"{found.spread(name, layer, lambda one: one.erases).mean:,.0f}",
    )
    direct = [
        f"| {NAMES[name]} | {found.product(name, DIRECT.name).span} "
        f"| {figure(found.direct(name).product(PAGE_BYTES))} |"
        for name in FILE_SYSTEMS
    ]
    return "".join(
        (
            HEAD.format(**facts),
            "\n".join(own) + "\n",
            tables,
            CONDITIONS.format(**facts),
            "\n".join(direct) + "\n",
            LIMITS.format(**facts),
        )
    )


def chart(kept: dict[str, Any]) -> dict[str, object]:
    """A group of bars for each layer, with the runs as lines over them."""
    found = Found(rows(kept))
    values = []
    for layer in LAYERS:
        for name in FILE_SYSTEMS:
            spread = found.product(name, layer.name)
            figures = {"mean": spread.mean, "least": spread.least, "most": spread.most}
            rounded = {key: float(f"{value:.4g}") for key, value in figures.items()}
            values.append({"layer": layer.name, "system": NAMES[name], **rounded})
    order = [NAMES[name] for name in FILE_SYSTEMS]
    place = {
        "x": {
            "field": "layer",
            "type": "nominal",
            "sort": [layer.name for layer in LAYERS],
            "title": "translation layer",
            "axis": {"labelAngle": 0},
        },
        "xOffset": {"field": "system", "type": "nominal", "sort": order},
    }
    scale = {"type": "log", "domain": [1, 1000]}
    title = "bytes programmed for a byte written"
    bars = {
        "mark": {"type": "bar"},
        "encoding": place
        | {
            "y": {"field": "mean", "type": "quantitative", "scale": scale, "title": title},
            "y2": {"datum": 1},
            "color": {
                "field": "system",
                "type": "nominal",
                "sort": order,
                "title": "file system",
                "legend": {"orient": "top"},
            },
        },
    }
    spans = {
        "mark": {"type": "rule"},
        "encoding": place
        | {
            "y": {"field": "least", "type": "quantitative", "scale": scale, "title": title},
            "y2": {"field": "most"},
        },
    }
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "data": {"values": values},
        "layer": [bars, spans],
        "width": 640,
        "height": 300,
    }


def main(arguments: list[str] | None = None) -> int:
    """Write the page; with --check only tell whether it is up to date."""
    kept = load()
    drawn = PICTURE.read_bytes() if PICTURE.is_file() else b""
    state = write_or_check(PAGE_FILE, lambda: page(kept), __doc__, arguments)
    made = picture(chart(kept), TITLE, PICTURE)
    given = sys.argv[1:] if arguments is None else arguments
    if "--check" in given:
        return int(state != 0 or made != drawn)
    PICTURE.write_bytes(made)
    return state


if __name__ == "__main__":
    sys.exit(main())
