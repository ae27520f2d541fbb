"""The lists of what nandlab has, as frames: one row an item, one column a property."""

import json
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Literal, get_args

from nandlab.api.answer import Answer, csv_text, frame_of
from nandlab.api.entries import entries, names_in, resolved_studies
from nandlab.api.given import checked
from nandlab.errors import NandlabError

if TYPE_CHECKING:
    import polars

Kind = Literal[
    "boards", "devices", "file-systems", "formats", "ftls", "guarantees", "oob-layouts", "parts",
    "policies", "schedulers", "script-commands", "studies", "tests", "workloads",
]  # fmt: skip

KINDS: tuple[str, ...] = get_args(Kind)
"""Names of the lists."""


def _frames(
    kind: str, summary: str, columns: Collection[str] | None = None
) -> "Callable[[], polars.DataFrame]":
    """A function that gives a list as a frame, with some of its columns or all."""

    def frame() -> "polars.DataFrame":
        rows = [_flat(row) for row in entries(kind)]
        return frame_of([{key: row.get(key) for key in columns or row} for row in rows])

    frame.__name__, frame.__doc__ = kind.replace("-", "_"), summary
    return frame


_OF_STUDIES = ("name", "title", "question", "runs", "file")

boards = _frames("boards", "Boards: kernel, memory and processor costs of each.")
devices = _frames("devices", "Block devices: eMMC, SSDs and a disk.")
file_systems = _frames("file-systems", "File systems with their aliases and profiles.")
formats = _frames("formats", "Trace formats that are read.")
ftls = _frames("ftls", "Translation layers with their features, settings and sources.")
guarantees = _frames("guarantees", "What each file system guarantees across a power cut.")
oob_layouts = _frames("oob-layouts", "Layouts of the spare area of a page.")
parts = _frames(
    "parts", "Chips of the catalogue: geometry, timing (ns) and errors, each with its source."
)
policies = _frames("policies", "Cleaning policies of page mapping.")
schedulers = _frames("schedulers", "I/O schedulers with their tunables and sources.")
script_commands = _frames(
    "script-commands", "Commands of scripts of system calls, with the forms of their lines."
)
studies = _frames(
    "studies", "Shipped studies: name, title, question and file.", columns=_OF_STUDIES
)
tests = _frames("tests", "Tests of IOzone that are carried out.")
workloads = _frames("workloads", "Kinds of workload that a study may name.")


def listing(kind: Kind) -> Answer:
    """List available items with all that is known of each; `boards` and the like give frames.

    Args:
        kind: List to print.

    """
    rows = entries(kind)
    return Answer(rows, rows, csv_text(("name", "summary"), rows))


def explain(
    name: str,
    *,
    ops: str | None = None,
    pages_per_block: int = 4,
    logical_pages: int | None = None,
    blocks: int | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Answer:
    """Explain an item of any list, or what a translation layer does with a few operations.

    Raises `NandlabError` for an unknown name and for bad operations.

    Args:
        name: Name of the item, as `nandlab list KIND` shows it. Case does not matter.
        ops: Run these operations on logical pages, such as 'W0 W1 R0 T1', and show every step.
        pages_per_block: Set the pages of a block of the small chip that --ops uses.
        logical_pages: Set the logical pages of the small device. Without it: as many as the
            operations touch.
        blocks: Set the blocks of the small chip. Without it: a few more than the layer needs.
        settings: Set a parameter of the layer, as NAME=VALUE. May be repeated.

    """
    from nandlab import engine

    if ops is None:
        found = _entries_called(name)
        return Answer(found, [_flat(entry) for entry in found])
    if not ops.split():
        raise NandlabError("--ops: no operation is given; write W5, R5 or T5, separated by spaces")
    chip = {"pages_per_block": pages_per_block, "logical_pages": logical_pages, "blocks": blocks}
    answer = engine.call("explain", name, ops, checked({**chip, "settings": settings}))
    return Answer(answer, answer["steps"])


def _entries_called(name: str) -> list[dict[str, Any]]:
    """The entries of that name, each with the name of its list."""
    from nandlab.suggest import did_you_mean

    found: list[dict[str, Any]] = []
    known: set[str] = set()
    for kind in KINDS:
        known.update(names_in(kind))
        if kind == "studies":
            # Only those that are asked for are resolved.
            rows = resolved_studies(one for one in names_in(kind) if one.lower() == name.lower())
        else:
            rows = entries(kind)
        for entry in rows:
            names = (str(entry["name"]), *entry.get("aliases", ()))
            if name.lower() in (one.lower() for one in names):
                found.append({"list": kind, **entry})
    if found:
        return found
    if name in KINDS:
        raise NandlabError(f"{name} is a list, not an item; `nandlab list {name}` shows its items")
    raise NandlabError(
        f"unknown name {name!r}: {did_you_mean(name, known)}"
        f"`nandlab list KIND` shows the names of {', '.join(KINDS)}"
    )


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """A table inside a row becomes columns `table.key`, and a list becomes text."""
    found: dict[str, Any] = {}
    for key, value in row.items():
        if isinstance(value, Mapping):
            found |= {f"{key}.{inner}": one for inner, one in _flat(value).items()}
        elif isinstance(value, list):
            is_of_tables = any(isinstance(one, Mapping | list) for one in value)
            found[key] = json.dumps(value) if is_of_tables else ", ".join(map(str, value))
        else:
            found[key] = value
    return found
