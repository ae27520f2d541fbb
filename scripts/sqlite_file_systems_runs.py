"""Cuts the power of the recorded sessions of SQLite on each file system, and keeps the outcome.

The record is docs/sqlite-file-systems.json. `sqlite_file_systems.py` makes the page of it.
"""

import argparse
import importlib.util
import json
import sqlite3
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from generated_page import DOCS
from record_sessions import FOLDER, JOURNAL_MODES, SYNCHRONOUS, TRANSACTIONS

import nandlab
from nandlab.api.entries import entries
from nandlab.errors import NandlabError

RECORD = DOCS / "sqlite-file-systems.json"

PART, SEED = "k9f2g08u0c", 1
CUT_POINTS = 24
"""Cut points of a cell, spread over its operations; each is cut in three ways."""

REST = "sleep 40000\nsync\n"
"""Behind a session: the kernel writes pages back after 30 s (`dirty_expire_centisecs`), by which
nothing that was acknowledged may be lost. Without it what is never synced would never be cut."""


NOTHING_WRITTEN = "changes nothing on the medium"
"""What the engine says of a session that stays in memory: `mtdblock` keeps one erase block there
until it is asked for another one or flushed (`do_cached_write` of drivers/mtd/mtdblock.c)."""


@dataclass(frozen=True)
class Stack:
    """A file system and what it stands on."""

    name: str
    file_system: str
    medium: str
    blocks: int
    block_device: str | None = None


CARD = "emmc-5.1-64gb"
"""A card with a cache: what was not flushed may be lost, or written in another order."""

STACKS = (
    *(Stack(name, name, "raw chip", 64) for name in ("jffs2", "ubifs", "yaffs2")),
    Stack("nilfs2", "nilfs2", "chip by mtdblock", 512),
    Stack("nilfs2-card", "nilfs2", f"card with a cache ({CARD})", 512, CARD),
    Stack("fat", "fat", "chip by mtdblock", 128),
    Stack("fat-card", "fat", f"card with a cache ({CARD})", 128, CARD),
)


@dataclass(frozen=True)
class Cell:
    """What cuts left of a session on a stack."""

    stack: str
    journal_mode: str
    synchronous: str
    operations: int
    cuts: int
    asked: int
    """Different files and acknowledgements, each opened once."""
    lost_cuts: int
    """Cuts after which acknowledged transactions are missing."""
    lost_most: int
    """Transactions that one cut lost, at most."""
    in_part: int
    damaged: int
    refused: int
    """Cuts after which SQLite refuses the file, by its message."""
    unreadable: int
    """Cuts after which the file system does not mount, or cannot be read."""
    violations: int
    """Broken guarantees of the file system."""
    hazards: Mapping[str, int]
    """Known losses of the file system, by the cuts that met them."""

    @property
    def failed(self) -> int:
        """Cuts that break what SQLite says of the setting at its strongest."""
        parts = (self.lost_cuts, self.in_part, self.damaged, self.refused, self.unreadable)
        return sum(parts)

    @property
    def corrupt(self) -> int:
        """Failed cuts that lost more than the newest transactions."""
        return self.failed - self.lost_cuts


@cache
def checker() -> ModuleType:
    """The shipped program that looks at the database."""
    found = importlib.util.spec_from_file_location("check_sqlite", FOLDER / "check_sqlite.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def measured(
    stack: Stack,
    journal_mode: str,
    synchronous: str,
    check: Callable[[Path, int | None], str | None] | None = None,
) -> Cell:
    """A session on a stack; `check` stands in for the shipped checker."""
    whole = (FOLDER / f"sqlite-{journal_mode}-{synchronous}.ops").read_text(encoding="utf-8")
    session = whole.removesuffix("end\n") + f"{REST}end\n"
    asked: dict[str, Any] = {
        "fs": stack.file_system,
        "block_device": stack.block_device,
        "part": PART,
        "blocks": stack.blocks,
        "seed": SEED,
    }
    try:
        operations = int(nandlab.crash(session, only=0, torn=(), **asked).answer["operations"])
    except NandlabError as error:
        if NOTHING_WRITTEN not in str(error):
            raise
        return untouched(stack.name, journal_mode, synchronous)
    every = max(operations // CUT_POINTS, 1)
    outcome = nandlab.crash(session, every=every, check=check or checker().check, **asked)
    return cell(stack.name, journal_mode, synchronous, outcome.answer)


def untouched(stack: str, journal_mode: str, synchronous: str) -> Cell:
    """A session that changes nothing on the medium: there is nothing to cut."""
    return Cell(
        stack=stack,
        journal_mode=journal_mode,
        synchronous=synchronous,
        operations=0,
        cuts=0,
        asked=0,
        lost_cuts=0,
        lost_most=0,
        in_part=0,
        damaged=0,
        refused=0,
        unreadable=0,
        violations=0,
        hazards={},
    )


def cell(stack: str, journal_mode: str, synchronous: str, answer: Mapping[str, Any]) -> Cell:
    """The outcome of the cuts in the columns of the page."""
    program = checker()
    check = answer["check"]
    hazards: Counter[str] = Counter()
    for torn in answer["torn"]:
        hazards.update(torn["hazards"])
    kinds: Counter[str] = Counter()
    lost_most = 0
    for group in check["groups"]:
        reason = group["first"]["reason"]
        kind = reason.partition(":")[0]
        kinds[kind] += group["cuts"]
        if kind == program.LOST:
            lost_most = max(lost_most, int(reason.rpartition(" ")[2]))
    return Cell(
        stack=stack,
        journal_mode=journal_mode,
        synchronous=synchronous,
        operations=answer["operations"],
        cuts=check["cuts"],
        asked=check["asked"],
        lost_cuts=kinds.pop(program.LOST, 0),
        lost_most=lost_most,
        in_part=kinds.pop(program.IN_PART, 0),
        damaged=kinds.pop(program.DAMAGED, 0),
        refused=kinds.pop(program.REFUSED, 0),
        unreadable=sum(kinds.values()),
        violations=sum(len(torn["violations"]) for torn in answer["torn"]),
        hazards=dict(sorted(hazards.items())),
    )


def settings() -> Iterator[tuple[Stack, str, str]]:
    """All cells of the table."""
    for stack in STACKS:
        for journal_mode in JOURNAL_MODES:
            for synchronous in SYNCHRONOUS:
                yield stack, journal_mode, synchronous


def record(cells: Sequence[Cell]) -> dict[str, Any]:
    """The record with its conditions."""
    return {
        "part": PART,
        "seed": SEED,
        "cut_points": CUT_POINTS,
        "transactions": TRANSACTIONS,
        "profile": profile(),
        "sqlite": {"recorded": recorded_version(), "opened": sqlite3.sqlite_version},
        "cells": [asdict(one) for one in cells],
    }


def profile() -> str:
    """The profile of each file system, which is its first one without --profile."""
    known = {str(row["name"]): row["profiles"][0] for row in entries("file-systems")}
    return ", ".join(f"{stack.file_system} {known[stack.file_system]}" for stack in STACKS)


def recorded_version() -> str:
    """The version in the head of the scripts."""
    first = (FOLDER / "sqlite-delete-full.ops").read_text(encoding="utf-8").split()
    return first[2].rstrip(":")


def kept() -> Sequence[Cell]:
    """The cells of the record."""
    found = json.loads(RECORD.read_text(encoding="utf-8"))
    return [Cell(**one) for one in found["cells"]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stack", choices=[one.name for one in STACKS], action="append")
    given = parser.parse_args(arguments)
    cells = {(one.stack, one.journal_mode, one.synchronous): one for one in _kept_or_none()}
    for stack, journal_mode, synchronous in settings():
        if given.stack and stack.name not in given.stack:
            continue
        found = measured(stack, journal_mode, synchronous)
        cells[stack.name, journal_mode, synchronous] = found
        print(found, flush=True)
    order = [(stack.name, mode, level) for stack, mode, level in settings()]
    whole = record([cells[key] for key in order if key in cells])
    RECORD.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
    return 0


def _kept_or_none() -> Sequence[Cell]:
    return kept() if RECORD.exists() else ()


if __name__ == "__main__":
    sys.exit(main())
