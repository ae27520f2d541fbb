"""What was measured of each candidate, and what a power cut leaves on it."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from nandlab import engine
from nandlab.claims.quantity import selected
from nandlab.comparison.beside import ALLOWED, COUNTED, FOUND
from nandlab.comparison.cards import layer_of
from nandlab.comparison.named import board_and_kernel
from nandlab.comparison.request import on_block_device, on_mtdblock, with_cleaning
from nandlab.comparison.study import WHOLE
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

_COLUMNS = {
    "ftl": "ftl",
    "cleaning": "cleaning",
    "file_system": "file_system",
    "block_device": "block_device",
    "scheduler": "scheduler",
    "limits": "room",
    "board": "board",
    "part": "part",
}
"""Axes that make a candidate, outermost first, and their columns in the rows."""

_MTDBLOCK = "mtdblock"
"""Value of the axis `block_device` for what is under no card."""

_GUARANTEE_OF_LAYERS = "every write that returned"
_NO_GUARANTEE = "nothing: no guarantee is known"
_ON_CARD = "not looked at: a card is not cut"
_ON_MTDBLOCK = "nothing: a cut while mtdblock writes an erase block back loses all of it"


@dataclass(frozen=True)
class Varied:
    """What is different between candidates, so that their names have to say it."""

    boards: bool
    kernels: bool


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
    guarantee_is_known: bool = False
    """False if it guarantees nothing, or nobody knows what."""


def candidates(run: RunFrame) -> list[Candidate]:
    """The candidates of a comparison, in the order of its study; of a partial run those it has."""
    places, varied = planned(run), _varied(run)
    known = {str(row["name"]): row for row in engine.listing("guarantees")}
    found = []
    for place in (one for one in places if _is_whole(run, one)):
        label = label_of(place, varied)
        if "ftl" in place:
            found.append(_layer(run, place, label))
        else:
            found.append(_file_system(run, place, label, known))
    return found


def unfinished(run: RunFrame) -> list[str]:
    """Names of the candidates that a partial run has not finished."""
    varied = _varied(run)
    return [label_of(one, varied) for one in planned(run) if not _is_whole(run, one)]


Place = dict[str, str]
"""Values of the axes that make a candidate, by column."""


def planned(run: RunFrame) -> list[Place]:
    """The places of all candidates, each once, in the order in which they are run."""
    axes = run.study.get("axes")
    if not axes:
        columns = [one for one in _COLUMNS.values() if one in run.axes]
        rows = run.frame.select(columns).unique(maintain_order=True).to_dicts()
        return [{column: str(value) for column, value in row.items()} for row in rows]
    found: list[Place] = []
    groups = [axes, *(axes | one["axes"] for one in run.study.get("extra_runs") or ())]
    first_scheduler = next(map(str, axes.get("scheduler", ())), "")
    first_cleaning = next(map(str, axes.get("cleaning", ())), "")
    for group in groups:
        names = [axis for axis in _COLUMNS if axis in group]
        for values in product(*(group[axis] for axis in names)):
            place = {_COLUMNS[a]: str(value) for a, value in zip(names, values, strict=True)}
            # Others submit no block request: no scheduler changes anything for them.
            if "scheduler" in place and place["file_system"] not in on_block_device():
                place["scheduler"] = first_scheduler
            # Others have no choice of it.
            if "cleaning" in place and place["ftl"] not in with_cleaning():
                place["cleaning"] = first_cleaning
            if place not in found:
                found.append(place)
    return found


def _varied(run: RunFrame) -> Varied:
    boards = [board_and_kernel(one["board"]) for one in planned(run) if "board" in one]
    return Varied(
        boards=len({board for board, _ in boards}) > 1,
        kernels=len({kernel for _, kernel in boards}) > 1,
    )


def _is_whole(run: RunFrame, place: Place) -> bool:
    """Whether all repeats are there: a row is kept of runs that have ended."""
    rows = selected(run, run.frame, place)
    return bool(rows["repeat"].n_unique() >= int(run.study.get("repeats") or 1))


def label_of(place: Place, varied: Varied) -> str:
    """A candidate in words: its name, then what tells it from others of the same name."""
    told = [named(place["ftl"] if "ftl" in place else place["file_system"])]
    told += (
        [place["cleaning"]] if place.get("ftl") in with_cleaning() and "cleaning" in place else []
    )
    if place.get("file_system") in on_block_device():
        told += [place["scheduler"]] if "scheduler" in place else []
    told += [place["room"]] if place.get("room", WHOLE) != WHOLE else []
    card = place.get("block_device", _MTDBLOCK)
    told += ["on", named(layer_of(card))] if card != _MTDBLOCK else []
    if "board" in place:
        board, kernel = board_and_kernel(place["board"])
        told += [kernel] if varied.kernels else []
        told += [board.removeprefix("board-")] if varied.boards else []
    told += [place["part"].removesuffix(".toml").removeprefix("part-")] if "part" in place else []
    return " ".join(told)


def _file_system(
    run: RunFrame, place: Place, label: str, known: Mapping[str, Mapping[str, Any]]
) -> Candidate:
    name, card = place["file_system"], place.get("block_device", _MTDBLOCK)
    is_on_card = card != _MTDBLOCK
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
    for key, seconds in _losses(run, name, place).items():
        values[key] = seconds
    is_on_mtdblock = not is_on_card and name in on_mtdblock()
    none = _ON_CARD if is_on_card else _ON_MTDBLOCK if is_on_mtdblock else _NO_GUARANTEE
    # What mtdblock loses, it loses under every file system.
    guarantee = None if is_on_card or is_on_mtdblock else known.get(name)
    return Candidate(
        label=label,
        file_system=name,
        scheduler=place.get("scheduler", "") if name in on_block_device() else "",
        values=values,
        guarantee=none if guarantee is None else f"after {guarantee['in_short']}",
        safe="" if guarantee is None else str(guarantee["summary"]),
        is_full=bool(values.get("is_full")),
        is_on_card=is_on_card,
        is_on_mtdblock=is_on_mtdblock,
        is_lost=after_cut.get("is_mounted", 1.0) < 1,
        guarantee_is_known=guarantee is not None,
    )


def _losses(run: RunFrame, name: str, place: Place) -> dict[str, float]:
    """What a power cut takes of the script, in seconds: what may be lost, and what was found."""
    allowed = run.beside.get(ALLOWED, {}).get(name)
    found = run.beside.get(FOUND, {}).get(name, {})
    told = {} if allowed is None else {"cut_loss_s": float(allowed)}
    _, kernel = board_and_kernel(place.get("board", ""))
    # Without kernels on an axis there is one; where boards have their own, none can be told here.
    counted = run.beside.get(COUNTED, {}).get(name, {})
    of_kernel, cuts = (
        one.get(kernel) if kernel else next(iter(one.values()), None) for one in (found, counted)
    )
    is_known = place.get("room", WHOLE) == WHOLE and (kernel or "board" not in place)
    if of_kernel is not None and is_known:
        told["cut_found_s"] = float(of_kernel)
        if cuts is not None:
            told["cut_found_cuts"] = float(cuts)
    return told


def _layer(run: RunFrame, place: Place, label: str) -> Candidate:
    values = _means(run, **place)
    for key, metric in (("memory_bytes", "ram_bytes"), ("mount_after_cut_ns", "rebuild_ns")):
        if metric in values:
            values[key] = values[metric]
    return Candidate(label, place["ftl"], "", values, _GUARANTEE_OF_LAYERS, guarantee_is_known=True)


def named(name: str) -> str:
    """A file system or layer as its publication writes it."""
    return _NAMES.get(name, name)


def _means(run: RunFrame, **place: str) -> dict[str, float]:
    """Every metric at a place."""
    import polars

    rows = selected(run, run.frame, place).group_by("metric").agg(polars.col("value").mean())
    return {metric: value for metric, value in rows.iter_rows() if value is not None}
