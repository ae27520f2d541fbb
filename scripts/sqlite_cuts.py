"""Writes docs/sqlite-cuts.md: the acknowledged transactions that each setting of SQLite loses.

`sqlite_cuts_runs.py` cuts the power and keeps the record that this page is made from.
"""

import sys
from collections.abc import Iterable, Mapping
from typing import Any

from generated_page import DOCS, write_or_check
from sqlite_cuts_runs import Setting, recorded, settings

from nandlab.api.entries import entries
from nandlab.byte_sizes import format_bytes
from nandlab.claims.statistics import share_interval
from nandlab.labs.sqlite import CHECKPOINT_PAGES
from nandlab.terminal.output import counted

PAGE = DOCS / "sqlite-cuts.md"

HEAD = """# SQLite and power cuts

Made by `make docs` from `sqlite-cuts.json`: do not edit. `scripts/sqlite_cuts_runs.py` makes the
record.

Which settings of SQLite keep every transaction whose COMMIT has returned, when the power of a
card fails?

The real `sqlite3` inserts rows, a transaction each, and an acknowledgement follows each COMMIT.
Then the power fails, device and kernel recover, and sqlite3 opens the file again. [Cut the power
under real software](serve-crash.md) describes the procedure and its limits.
"""

AT_ACKNOWLEDGEMENTS = """
## Cuts right after a COMMIT

The power fails as soon as an acknowledgement arrives, one of 1 to {items}, drawn from the seed.
The guest goes on for some milliseconds until then, and waits for nothing but its next
COMMIT. An application that pauses after a commit stays at this moment until the file system
writes by itself. For ext4 that is up to
5 s (Documentation/admin-guide/ext4.rst, `commit`).
"""

AT_PROGRAMS = """
## Cuts in a page program

The power fails in the middle of a page program, drawn from all between the mount and the unmount.
The page is torn, and with it perhaps a transaction. A setting that syncs rarely programs most
pages as the file system is unmounted. Cuts that tore nothing came after that, and are left out.
"""

TABLE = """
| file system | `journal_mode` | `synchronous` | cuts | acknowledged | lost | cuts with a loss \
| most lost | older lost | integrity failures | repaired |
|---|---|---|---:|---:|---:|---|---:|---:|---:|---:|
"""

TAIL = """
*Lost* are transactions that were acknowledged and are not there. *Cuts with a loss* is their
share with Wilson's 95 % interval. *Most lost* is the largest number that one cut lost. *Older
lost* counts those before a transaction that was kept. *Integrity failures* are cuts after which
`PRAGMA integrity_check` complains, the file cannot be read, or the file system does not mount or
stays inconsistent. *Repaired* are cuts after which the checker of the file system had something
to repair.

## Why

- **`delete`**: COMMIT ends as the rollback journal is removed. Only `extra` syncs the folder
  after that (SQLite, pragma.html, `synchronous`). Without it the journal may come back, and rolls
  the last transaction back.
- **`wal` with `full`**: the log is synced at each COMMIT. `extra` does the same there, and is
  left out.
- **`wal` with `normal`**: the log is synced before a checkpoint alone, here every {checkpoint}
  pages. What came since is in the page cache (wal.html, "Performance Considerations").
- **`off`**: nothing is ever synced. It is the control: a laboratory that lost nothing here would
  find nothing.

## Conditions

| condition | value |
|---|---|
| device | `{device}`, {capacity}, with its cache of {cache}, filled once |
| kernel | {kernel}, write-back every 50 ms, of pages older than 100 ms |
| SQLite | {sqlite}, pages of 4 KiB, a row of 200 bytes and an index entry a transaction |
| transactions | {items} a cut, one after the other, without a pause |
| places | seed {seed}: the same acknowledgements for each setting |

The cuts of a setting are independent devices. The emulated machine has the speed of its host, so
the requests of two runs differ.
"""


def rows(record: Mapping[str, Any], by: str) -> list[tuple[Setting, dict[str, Any]]]:
    """Settings on record that count cut points so, in the order in which they are run."""
    found = [(one, record[one.key]) for one in settings() if one.by == by and one.key in record]
    if by != "programs":
        return found
    # Behind the last program there is nothing to tear.
    return [
        (one, {**answer, "cuts": [cut for cut in answer["cuts"] if cut["torn_operations"]]})
        for one, answer in found
    ]


def summary(answer: Mapping[str, Any]) -> dict[str, int]:
    """Sums over the cuts of a setting."""
    cuts = answer["cuts"]
    return {
        "cuts": len(cuts),
        "acknowledged": sum(one["acknowledged"] for one in cuts),
        "recovered": sum(one["recovered"] for one in cuts),
        "lost": sum(one["lost"] for one in cuts),
        "with_loss": sum(one["lost"] > 0 for one in cuts),
        "most": max((one["lost"] for one in cuts), default=0),
        "older": sum(one["older_lost"] for one in cuts),
        "refused": sum(bool(one["refusals"]) or one["damaged"] > 0 for one in cuts),
        "repaired": sum(one["is_repaired"] for one in cuts),
    }


def share(part: int, whole: int) -> str:
    """A count of cuts, its share and the interval of that."""
    found = share_interval(part, whole)
    if found.low is None or found.high is None:
        return f"{part} of {whole}"
    return f"{part}: {found.estimate:.0%} ({found.low:.0%} to {found.high:.0%})"


def table(found: Iterable[tuple[Setting, Mapping[str, Any]]]) -> str:
    """A row for each setting."""
    lines = []
    for setting, answer in found:
        sums = summary(answer)
        lines.append(
            f"| {setting.system} | `{setting.journal_mode}` | `{setting.synchronous}` "
            f"| {sums['cuts']} | {sums['acknowledged']:,} | {sums['lost']:,} "
            f"| {share(sums['with_loss'], sums['cuts'])} | {sums['most']} | {sums['older']} "
            f"| {sums['refused']} | {sums['repaired']} |"
        )
    return TABLE + "\n".join(lines) + "\n"


def findings(record: Mapping[str, Any], by: str) -> list[str]:
    """What the figures say of each kind of setting; nothing of what is not on record."""
    found = [(setting, summary(answer)) for setting, answer in rows(record, by)]
    told = []
    groups: dict[tuple[str, str], list[dict[str, int]]] = {}
    for setting, sums in found:
        groups.setdefault((setting.journal_mode, setting.synchronous), []).append(sums)
    safe = [key for key, all_sums in groups.items() if _total(all_sums, "lost", "refused") == 0]
    if safe:
        cuts = counted(sum(_total(groups[key], "cuts") for key in safe), "cut")
        told.append(f"**Nothing lost** in {cuts}: {_listed(safe)}.")
    for key, all_sums in groups.items():
        if key not in safe:
            told.append(_loss(key, all_sums))
    return told


def _loss(key: tuple[str, str], all_sums: list[dict[str, int]]) -> str:
    """What a setting that is not safe has lost."""
    cuts = counted(_total(all_sums, "cuts"), "cut")
    lost, refused = _total(all_sums, "lost"), _total(all_sums, "refused")
    most = max(one["most"] for one in all_sums)
    parts = []
    if lost:
        where = f"in {_total(all_sums, 'with_loss')} of {cuts}"
        limit = f"at most {most} in one" if most > 1 else "never more than one"
        parts.append(f"lost {counted(lost, 'acknowledged transaction')} {where}, {limit}")
    if lost and not _total(all_sums, "recovered"):
        parts.append("nothing was left")
    elif lost and not _total(all_sums, "older"):
        parts.append("only the newest were lost")
    if refused:
        parts.append(f"integrity failed in {refused} of {cuts}")
    return f"**{_named(key)}**: {'; '.join(parts)}."


def _total(all_sums: Iterable[Mapping[str, int]], *keys: str) -> int:
    return sum(one[key] for one in all_sums for key in keys)


def _named(key: tuple[str, str]) -> str:
    return f"`{key[0]}` with `{key[1]}`"


def _listed(keys: Iterable[tuple[str, str]]) -> str:
    *first, last = [_named(key) for key in keys]
    return f"{', '.join(first)} and {last}" if first else last


def page(record: Mapping[str, Any]) -> str:
    """The page."""
    conditions = next(iter(record.values()))
    (device,) = (one for one in entries("devices") if one["name"] == conditions["device"])
    facts = {
        "items": conditions["items"],
        "device": conditions["device"],
        "capacity": conditions["capacity"],
        "cache": format_bytes(device["cache"]["bytes"]),
        "kernel": f"Linux {conditions['kernel']}",
        "sqlite": conditions["programs"]["sqlite3"],
        "seed": conditions["seed"],
        "checkpoint": CHECKPOINT_PAGES,
    }
    text = HEAD.format(**facts)
    for title, by in ((AT_ACKNOWLEDGEMENTS, "acknowledgements"), (AT_PROGRAMS, "programs")):
        if found := rows(record, by):
            listed = "\n".join(f"- {one}" for one in findings(record, by))
            text += f"{title.format(**facts)}\n{listed}\n{table(found)}"
    return text + TAIL.format(**facts)


if __name__ == "__main__":
    sys.exit(write_or_check(PAGE, lambda: page(recorded()), __doc__, None))
