"""What `nandlab compare --fs` or `--ftl` is asked for: candidates, a part, a workload file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nandlab import data, engine
from nandlab.claims.schema import Reader
from nandlab.comparison.own_policies import OwnPolicies
from nandlab.errors import NandlabError
from nandlab.suggest import unknown
from nandlab.toml_text import read_toml

FILE_SYSTEM_KINDS = ("iozone", "script")
"""Kinds of workload that file systems carry out."""

LAYER_KINDS = ("trace",)
"""Kinds of workload that translation layers carry out."""

_TABLES = ("workload", "flash", "host")
_TOP_KEYS = ("repeats", "seed", *_TABLES)
_KEYS = {
    "workload": ("kind", "file", "options", "capacity_bytes", "preconditioning"),
    "flash": (
        "fill_percent",
        "free_mib",
        "rewritten_percent",
        "percent_of",
        "file_kib_max",
        "random_percent",
    ),
    "host": ("board", "hz", "kernel"),
}
_OF_KIND = {
    "script": ({"file"}, {"file"}),
    "iozone": ({"options"}, {"options"}),
    "trace": ({"file"}, {"file", "capacity_bytes", "preconditioning"}),
}
"""Keys that a kind of workload needs, and those that it may have."""


@dataclass(frozen=True)
class WorkloadFile:
    """A workload as its file states it; `shown` is the name that the user gave."""

    shown: str
    kind: str
    workload: dict[str, Any]
    file: Path | None
    repeats: int
    seed: int
    flash: dict[str, Any] = field(default_factory=dict)
    host: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Candidates:
    """What stands side by side: file systems, perhaps with schedulers, or translation layers.

    Both together: file systems on a block device stand on a card with each of the layers.
    """

    file_systems: tuple[str, ...] = ()
    layers: tuple[str, ...] = ()
    schedulers: tuple[str, ...] = ()
    cleaning: tuple[str, ...] = ()
    """Cleaning policies of the layers that have a choice of them."""
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Mount options by file system, each a candidate; `-` stands for none."""

    @property
    def on_chip(self) -> tuple[str, ...]:
        """File systems that work on the chip itself, beside those on cards."""
        return tuple(one for one in self.file_systems if one not in on_block_device())

    @property
    def on_cards(self) -> tuple[str, ...]:
        """File systems that stand on a card with each of the layers."""
        return tuple(one for one in self.file_systems if self.layers and one in on_block_device())

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of workload that they can carry out."""
        return FILE_SYSTEM_KINDS if self.file_systems else LAYER_KINDS


def on_block_device() -> frozenset[str]:
    """File systems that stand on a block device; requests of the others meet no scheduler."""
    rows = engine.listing("file-systems")
    return frozenset(str(row["name"]) for row in rows if row.get("is_on_block_device"))


def on_mtdblock() -> frozenset[str]:
    """Those of them that stand on the chip through mtdblock where no other device is named."""
    rows = engine.listing("file-systems")
    usual = {str(row["name"]) for row in rows if row.get("usual_block_device") == "mtdblock"}
    return on_block_device() & usual


def names(
    option: str, given: str, listing: str, what: str, own: OwnPolicies | None = None
) -> tuple[str, ...]:
    """The names that an option lists with commas, each once, in small letters.

    `own` takes the policies of the user's own among them.
    """
    known = {str(row["name"]): str(row["name"]) for row in engine.listing(listing)}
    for row in engine.listing(listing):
        known.update({str(alias): str(row["name"]) for alias in row.get("aliases", ())})
    found: list[str] = []
    for word in given.split(","):
        name = word.strip().lower()
        if name not in known:
            taken = None if own is None else own.take(option, word.strip(), listing)
            if taken is None:
                raise NandlabError(f"{option}: {unknown(what, word.strip(), known)}")
            name = known[taken] = taken
        if known[name] in (known[other] for other in found):
            raise NandlabError(f"{option}: {word.strip()} is there twice")
        found.append(name)
    return tuple(found)


def with_cleaning() -> frozenset[str]:
    """Layers that have a choice of cleaning policies."""
    rows = engine.listing("ftls")
    return frozenset(
        str(row["name"])
        for row in rows
        if any(one["name"] == "cleaning" for one in row.get("parameters", ()))
    )


NO_OPTIONS = "-"
"""Stands for a mount without options, as in a line of `mount` in a script."""


def mount_options(given: Sequence[str], file_systems: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Mount options by file system, from words such as `ubifs:compr=zlib`."""
    found: dict[str, list[str]] = {}
    for word in given:
        name, colon, options = word.partition(":")
        if not colon or not options:
            raise NandlabError(
                f"--option {word}: write FILE-SYSTEM:OPTIONS, such as ubifs:compr=zlib, "
                f"or {name or 'ubifs'}:{NO_OPTIONS} for none"
            )
        if name.lower() not in file_systems:
            raise NandlabError(f"--option {word}: {unknown('candidate', name, file_systems)}")
        of_name = found.setdefault(name.lower(), [])
        if options in of_name:
            raise NandlabError(f"--option {word}: it is there twice")
        of_name.append(options)
    return {name: tuple(options) for name, options in found.items()}


def read_workload(path: Path) -> WorkloadFile:
    """Reads and checks a workload file; its messages name file, line and key."""
    examples = f"{data.folder('workloads')}/compare has examples, docs/compare.md a whole file"
    text, table = read_toml(path, "a workload file", examples)
    place = Reader(path, text)
    place.check_keys(table, _TOP_KEYS, "")
    for name in _TABLES:
        if not isinstance(table.get(name, {}), dict):
            raise place.error(f"{name}: must be a table: write [{name}]", key=name)
        place.check_keys(table.get(name, {}), _KEYS[name], "")
    workload = table.get("workload", {})
    kind = workload.get("kind")
    if kind is None:
        raise NandlabError(
            f'{path}: [workload] with kind = "script", "iozone" or "trace" is missing'
        )
    if kind not in _OF_KIND:
        raise place.error(f"kind: {unknown('kind of workload', str(kind), _OF_KIND)}", key="kind")
    needed, allowed = _OF_KIND[kind]
    for key in sorted(needed - set(workload)):
        raise NandlabError(f"{path}: [workload] of kind {kind} needs `{key}`")
    for key in workload:
        if key not in allowed | {"kind"}:
            takes = f"{key}: kind {kind} takes {', '.join(sorted(allowed))}, not `{key}`"
            raise place.error(takes, key=key)
    for key, least in (("repeats", 1), ("seed", 0)):
        value = table.get(key, 1)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise place.error(f"{key}: must be a whole number from {least} on", key=key)
    return WorkloadFile(
        shown=str(path),
        kind=kind,
        workload=workload,
        file=_file_of(place, path, workload) if "file" in needed else None,
        repeats=table.get("repeats", 1),
        seed=table.get("seed", 1),
        flash=table.get("flash", {}),
        host=table.get("host", {}),
    )


def _file_of(place: Reader, path: Path, workload: dict[str, Any]) -> Path:
    file = workload["file"]
    if not isinstance(file, str) or not file:
        raise place.error("file: must be the name of a file, relative to this one", key="file")
    found = path.parent / file
    if not found.is_file():
        told = f"file: there is no {found}; the name is relative to this file"
        raise place.error(told, key="file")
    return found
