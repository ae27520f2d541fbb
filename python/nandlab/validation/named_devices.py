"""The part of docs/validation.md on devices: four cells each, against those of a named device.

The devices state what is published of them (`[published]` of devices/*.toml), and under which
conditions. Each cell is a job file of fio. The measured figures are on record in
`named_devices.json`: `python -m nandlab.validation.named_devices` measures them anew, then
`nandlab validate` writes the page. A test measures them and compares.
"""

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nandlab.validation import prose
from nandlab.whole_files import keep_text

RECORD = Path(__file__).with_name("named_devices.json")

TOLERANCE = 0.25
"""Farthest that a cell may lie from what is published, as a part of it."""

CELLS = {
    "sequential_read_mb_per_s": "sequential read, MB/s",
    "sequential_write_mb_per_s": "sequential write, MB/s",
    "random_read_per_s": "random reads a second",
    "random_write_per_s": "random writes a second",
}

_SEQUENTIAL_BYTES = 128 << 20
_READS = 20_000
_WRITES_MIN = 4_000
_ONE_AT_A_TIME = 2_000


def devices() -> list[dict[str, Any]]:
    """The devices that are named for another one, as `nandlab list devices` has them."""
    from nandlab.api.entries import entries

    return [row for row in entries("devices") if row.get("published")]


def job_files(published: Mapping[str, Any]) -> list[str]:
    """The cells of a device, a job file of fio each: every cell begins on a fresh device."""
    span = published["random_span_bytes"] // 4096 * 4096
    depth = published["random_depth"]
    # Two seconds of writes, so that what the cache takes at once does not count.
    writes = max(int(2 * published["random_write_per_s"]), _WRITES_MIN)
    sequential = (
        f"bs={published['sequential_bytes']}\niodepth={published['sequential_depth']}\n"
        f"size={_SEQUENTIAL_BYTES}\n"
    )
    random = f"bs=4k\nsize={span}\nnorandommap\n"
    jobs = (
        f"[sequential_read_mb_per_s]\nrw=read\n{sequential}",
        f"[sequential_write_mb_per_s]\nrw=write\n{sequential}",
        f"[random_read_per_s]\nrw=randread\niodepth={depth}\nnumber_ios={_READS}\n{random}",
        f"[random_write_per_s]\nrw=randwrite\niodepth={depth}\nnumber_ios={writes}\n{random}",
        f"[one_read]\nrw=randread\niodepth=1\nnumber_ios={_ONE_AT_A_TIME}\n{random}",
        f"[one_write]\nrw=randwrite\niodepth=1\nnumber_ios={_ONE_AT_A_TIME}\n{random}",
        f"[mix]\nrw=randrw\nrwmixread=70\niodepth={depth}\nnumber_ios={_WRITES_MIN}\n{random}",
    )
    return [f"[global]\nioengine=libaio\ndirect=1\n{job}" for job in jobs]


def measure(device: Mapping[str, Any]) -> dict[str, Any]:
    """Figures of a device, by cell and prediction: rates of 10^6 bytes or requests a second."""
    from nandlab.api.fio import fio

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cells.fio"
        jobs = {}
        for text in job_files(device["published"]):
            path.write_text(text, encoding="utf-8")
            (job,) = fio(path, device=device["name"]).fio["jobs"]
            jobs[job["jobname"]] = job
    figures: dict[str, Any] = {}
    for cell in CELLS:
        side = jobs[cell]["read" if "read" in cell else "write"]
        rate = side["bw_bytes"] / 1e6 if cell.startswith("sequential") else side["iops"]
        figures[cell] = round(rate, 1)
    for name, side in (("one_read", "read"), ("one_write", "write")):
        figures[f"{name}_us"] = round(jobs[name][side]["clat_ns"]["mean"] / 1e3, 1)
    figures["mix_per_s"] = round(sum(jobs["mix"][side]["iops"] for side in ("read", "write")), 0)
    return figures


def section() -> str:
    """The part of the page, from the figures on record."""
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    lines = [
        prose("named-devices"),
        "| device | named for | cell | published | here | difference | |",
        "|---|---|---|---:|---:|---:|---|",
    ]
    for device in devices():
        published, here = device["published"], record[device["name"]]
        for cell, words in CELLS.items():
            off = here[cell] / published[cell] - 1
            fitted = "fitted" if cell in published["fitted"] else "predicted"
            lines.append(
                f"| `{device['name']}` | {published['device']} | {words} | {published[cell]:,g} "
                f"| {here[cell]:,g} | {off:+.1%} | {fitted} |"
            )
    lines += [
        "",
        "| device | a random read, one at a time | a random write, one at a time "
        "| requests a second, 70 % reads |",
        "|---|---:|---:|---:|",
    ]
    for device in devices():
        here = record[device["name"]]
        lines.append(
            f"| `{device['name']}` | {here['one_read_us']:,g} µs | {here['one_write_us']:,g} µs "
            f"| {here['mix_per_s']:,.0f} |"
        )
    lines.append("\nWhere the published figures stand:\n")
    lines += [
        f"- `{device['name']}`: {device['published']['source']}. Measured here over "
        f"{device['published']['random_span_bytes']:,} bytes, "
        f"{device['published']['random_depth']} at a time."
        for device in devices()
    ]
    return "\n".join([*lines, ""])


def main() -> None:
    """Measures all devices and keeps the figures."""
    found = {device["name"]: measure(device) for device in devices()}
    text = json.dumps(found, indent=1, sort_keys=True) + "\n"
    keep_text(RECORD, text)


if __name__ == "__main__":
    main()
