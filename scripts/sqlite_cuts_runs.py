"""Cuts the power under sqlite3, setting by setting, and keeps the outcome in docs/sqlite-cuts.json.

A setting that is on record is not run again: remove it there to have it anew. Each takes some
minutes, so that they are no part of `make docs`.
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from generated_page import DOCS

import nandlab as nl
from nandlab.labs.sqlite import JOURNAL_MODES, SYNCHRONOUS

RECORD = DOCS / "sqlite-cuts.json"
DEVICE = "emmc-5.1-64gb"
CAPACITY = "64MiB"
KERNEL = "6.1"
SEED = 1
CUTS = 20
FEWER_CUTS = 10
"""Where the comparison of settings is not the point, or is made already."""

_KEPT = ("at", "acknowledged", "recovered", "lost", "older_lost", "damaged", "is_repaired",
         "refusals", "torn_operations", "lost_cached_sectors")  # fmt: skip


@dataclass(frozen=True)
class Setting:
    """A recipe of SQLite, and what its cut points count."""

    system: str
    journal_mode: str
    synchronous: str
    by: str
    cuts: int

    @property
    def recipe(self) -> str:
        """Its name in `nandlab serve-crash`."""
        return f"{self.system}-sqlite-{self.journal_mode}-{self.synchronous}"

    @property
    def key(self) -> str:
        """Its name in the record."""
        return f"{self.recipe} by {self.by}"


def settings() -> Iterator[Setting]:
    """All settings, in the order in which they are run."""
    places = (
        ("ext4", "acknowledgements", CUTS),
        ("ext4", "programs", FEWER_CUTS),
        ("f2fs", "acknowledgements", FEWER_CUTS),
        ("fat", "acknowledgements", FEWER_CUTS),
    )
    for system, by, cuts in places:
        for mode in JOURNAL_MODES:
            for level in SYNCHRONOUS:
                # EXTRA adds a sync of the rollback journal's folder (pragma.html, synchronous): a
                # write-ahead log has FULL.
                if (mode, level) != ("wal", "extra"):
                    yield Setting(system, mode, level, by, cuts)


def recorded() -> dict[str, Any]:
    """What is on record, by the keys of the settings."""
    return dict(json.loads(RECORD.read_text(encoding="utf-8"))) if RECORD.is_file() else {}


def _write(record: dict[str, Any], place: Path) -> None:
    """A line for each setting and each cut, so that changes can be read."""
    parts = []
    for key, one in sorted(record.items()):
        rows = ",\n  ".join(json.dumps(row) for row in one["cuts"])
        head = json.dumps({name: value for name, value in one.items() if name != "cuts"})
        parts.append(f'{json.dumps(key)}: {head[:-1]}, "cuts": [\n  {rows}\n ]}}')
    place.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")


def run(*words: str) -> None:
    """Runs what is not on record and has all words in its key, and keeps each outcome at once."""
    for setting in settings():
        if setting.key in recorded() or any(one not in setting.key for one in words):
            continue
        options: dict[str, Any] = {"by": setting.by, "kernel": KERNEL}
        found = nl.serve_crash(
            setting.recipe,
            cuts=setting.cuts,
            device=DEVICE,
            capacity=CAPACITY,
            seed=SEED,
            **options,
        )
        answer = dict(found.answer)
        answer["cuts"] = [{key: row[key] for key in _KEPT} for row in answer["cuts"]]
        _write(recorded() | {setting.key: answer}, RECORD)
        print(setting.key, answer["totals"], flush=True)


if __name__ == "__main__":
    run(*sys.argv[1:])
