"""What was measured of each candidate, and what a power cut leaves on it."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from nandlab import engine
from nandlab.claims.quantity import selected
from nandlab.comparison.cards import layer_of
from nandlab.comparison.request import on_block_device, on_mtdblock
from nandlab.frame import RunFrame

_NAMES = {
    "jffs2": "JFFS2",
    "jffs2-block2mtd": "JFFS2 over block2mtd",
    "nilfs2": "NILFS2",
    "ubifs": "UBIFS",
    "yaffs2": "YAFFS2",
    "fat": "FAT",
    "bast": "BAST",
    "dftl": "DFTL",
    "fast": "FAST",
    "hybrid": "hybrid card",
    "kast": "KAST",
    "last": "LAST",
    "lexar": "Lexar",
    "m-systems": "M-Systems",
    "m-systems-anand": "M-Systems ANAND",
    "mitsubishi": "Mitsubishi",
    "page": "page mapping",
    "sast": "SAST",
    "superblock": "Superblock",
}
"""File systems and layers as their publications write them."""

_GUARANTEE_OF_LAYERS = "every write that returned"
_NO_GUARANTEE = "nothing: no guarantee is known"
_ON_CARD = "not looked at: a card is not cut"
_ON_MTDBLOCK = "nothing: a cut while mtdblock writes an erase block back loses all of it"


@dataclass(frozen=True)
class Candidate:
    """What stands in a column: means over the repeats, by metric."""

    label: str
    file_system: str
    scheduler: str
    values: Mapping[str, float]
    guarantee: str
    safe: str = ""
    is_full: bool = False
    is_on_card: bool = False
    is_on_mtdblock: bool = False
    is_lost: bool = False
    """What the power cut left cannot be mounted."""


def candidates(run: RunFrame) -> list[Candidate]:
    """The candidates of a comparison, in the order of its study."""
    if "file_system" not in run.axes:
        return [_layer(run, str(name)) for name in run.values_of("ftl")]
    known = {str(row["name"]): row for row in engine.listing("guarantees")}
    schedulers = run.values_of("scheduler") if "scheduler" in run.axes else [None]
    devices = run.values_of("block_device") if "block_device" in run.axes else []
    # `mtdblock` stands on this axis for what is under no card at all.
    cards = [one for one in devices if one != "mtdblock"] or [None]
    found = []
    for name in map(str, run.values_of("file_system")):
        # Others submit no block request: neither card nor scheduler changes anything for them.
        is_block = name in on_block_device()
        stacks = product(cards, schedulers) if is_block else [(None, schedulers[0])]
        found += [
            _file_system(run, name, card, scheduler if is_block else None, known)
            for card, scheduler in stacks
        ]
    return found


def _file_system(
    run: RunFrame,
    name: str,
    card: str | None,
    scheduler: str | None,
    known: Mapping[str, Mapping[str, Any]],
) -> Candidate:
    place = {"file_system": name, "block_device": card, "scheduler": scheduler}
    values = _means(run, phase="work", **place)
    mount = _means(run, phase="mount", **place)
    after_cut = _means(run, phase="mount-after-cut", **place)
    for key, phase in (("mount_ns", mount), ("mount_after_cut_ns", after_cut)):
        if "mount_ns" in phase:
            values[key] = phase["mount_ns"]
    if not values.get("dirty_bytes_max"):
        # Written through, or kept by the file system itself: nothing that could be told apart.
        values.pop("dirty_bytes_max", None)
    if "memory_bytes_max" in values:
        values["memory_bytes"] = values["memory_bytes_max"]
    is_on_mtdblock = card is None and name in on_mtdblock()
    none = _ON_CARD if card else _ON_MTDBLOCK if is_on_mtdblock else _NO_GUARANTEE
    guarantee = None if card else known.get(name)
    words = [_NAMES.get(name, name), *([str(scheduler)] if scheduler else [])]
    words += ["on", named(layer_of(card))] if card else []
    return Candidate(
        label=" ".join(words),
        file_system=name,
        scheduler=scheduler or "",
        values=values,
        guarantee=none if guarantee is None else f"after {guarantee['in_short']}",
        safe="" if guarantee is None else str(guarantee["summary"]),
        is_full=bool(values.get("is_full")),
        is_on_card=card is not None,
        is_on_mtdblock=is_on_mtdblock,
        is_lost=after_cut.get("is_mounted", 1.0) < 1,
    )


def _layer(run: RunFrame, name: str) -> Candidate:
    values = _means(run, ftl=name)
    for key, metric in (("memory_bytes", "ram_bytes"), ("mount_after_cut_ns", "rebuild_ns")):
        if metric in values:
            values[key] = values[metric]
    return Candidate(named(name), name, "", values, _GUARANTEE_OF_LAYERS)


def named(name: str) -> str:
    """A file system or layer as its publication writes it."""
    return _NAMES.get(name, name)


def _means(run: RunFrame, **place: str | None) -> dict[str, float]:
    """Every metric at a place; an axis that is None is any."""
    import polars

    select = {axis: value for axis, value in place.items() if value is not None}
    rows = selected(run, run.frame, select).group_by("metric").agg(polars.col("value").mean())
    return {metric: value for metric, value in rows.iter_rows() if value is not None}
