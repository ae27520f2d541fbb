"""Writes docs/sqlite-file-systems.md: settings of SQLite on each file system under power cuts.

`sqlite_file_systems_runs.py` makes the record of which this is the page.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from generated_page import DOCS, write_or_check
from record_sessions import JOURNAL_MODES, SYNCHRONOUS
from sqlite_file_systems_runs import RECORD, STACKS, Cell, kept

from nandlab.terminal.output import counted

PAGE = DOCS / "sqlite-file-systems.md"

HEAD = """# SQLite on each file system

Made by `make docs` from `sqlite-file-systems.json`: do not edit.
`scripts/sqlite_file_systems_runs.py` makes the record.

Which settings of SQLite keep every transaction whose COMMIT has returned, and on which file system?
Which keep the file whole?

The calls of a real `sqlite3` were [recorded](../workloads/recorded/README.md) for each
`journal_mode` and `synchronous`: {transactions} transactions, with a line to the user behind each
COMMIT. [`nandlab crash`](power-cuts.md) cuts the power at many operations of the medium. Then a
real SQLite opens the files that the file system shows
([`--check`](power-cuts.md#a-program-of-your-own)). [SQLite and power cuts](sqlite-cuts.md) has
ext4, F2FS and FAT of a real kernel.

"""

TABLE = """
| `journal_mode` | `synchronous` | operations | cuts | opened | lost | most lost | in part \
| damaged | refused | nothing read | violations |
|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|
"""

COLUMNS = """
| column | counts |
|---|---|
| operations | of the session, those that change the chip (programs, erases) or the card (writes) |
| cuts | of them every Nth one in three ways, N for about {cut_points} cut points |
| opened | different files and acknowledgements among the cuts: each was opened once |
| lost | cuts after which acknowledged transactions are missing, and nothing else is wrong |
| most lost | acknowledged transactions that one of them lost, at most |
| in part | cuts after which a transaction is there in part, though the integrity check says `ok` |
| damaged | cuts after which `PRAGMA integrity_check` complains |
| refused | cuts after which SQLite cannot open or read the file |
| nothing read | cuts after which the file system does not mount |
| violations | cuts that break the guarantee of the file system itself |
"""

CONDITIONS = """
## Conditions

| condition | value |
|---|---|
| chip | `{part}`: 64 blocks for JFFS2, UBIFS and YAFFS2, 128 for FAT, 512 for NILFS2 |
| card | a partition as large, with a cache that keeps, loses or reorders what was not flushed |
| profiles | {profile} |
| seed | {seed} |
| SQLite | {recorded} was recorded, {opened} opened the files; pages of 4,096 bytes |
| transactions | {transactions} of three rows of 300 bytes with an index, without a pause |
| behind them | 40 s and `sync`: what is never synced is written back then, and is cut, too |
"""

SAFE = (
    ("delete", "extra"),
    ("truncate", "full"),
    ("truncate", "extra"),
    ("persist", "full"),
    ("persist", "extra"),
    ("wal", "full"),
    ("wal", "extra"),
)
"""Settings whose last call before COMMIT returns is a sync of all that the commit needs."""


def findings(cells: Sequence[Cell]) -> Iterator[str]:
    """What the cells show, one sentence for each medium."""
    for stack in STACKS:
        ours = [cell for cell in cells if cell.stack == stack.name]
        if not ours:
            continue
        safe = [cell for cell in ours if (cell.journal_mode, cell.synchronous) in SAFE]
        broken = [cell for cell in safe if cell.failed]
        total = sum(cell.cuts for cell in safe)
        name = f"**{stack.file_system}** on a {stack.medium}"
        losing = [cell for cell in broken if cell.lost_cuts]
        if not broken:
            yield f"{name}: the settings that sync last lose nothing in {counted(total, 'cut')}."
        else:
            failed = sum(cell.failed for cell in broken)
            yield (
                f"{name}: {counted(len(broken), 'setting')} of {len(safe)} that sync last fail, in "
                f"{failed:,} of {counted(total, 'cut')}{_of_them(losing)}."
            )
        corrupt = [cell for cell in ours if cell.corrupt and cell.synchronous != "off"]
        synced = [cell for cell in ours if cell.synchronous != "off"]
        if corrupt and len(corrupt) == len(synced):
            yield "On it the file is not whole with any setting."
        elif corrupt:
            named = ", ".join(f"`{one.journal_mode}` with `{one.synchronous}`" for one in corrupt)
            yield f"On it the file is not whole with {named}."


def _of_them(losing: Sequence[Cell]) -> str:
    """How many cuts lost transactions and nothing else, if not all failures are of that kind."""
    lost = sum(cell.lost_cuts for cell in losing)
    return f"; {lost:,} of them lost transactions alone" if lost else "; none lost a transaction"


def rows(cells: Sequence[Cell], stack: str) -> Iterator[str]:
    """The rows of a medium."""
    for cell in cells:
        if cell.stack != stack:
            continue
        figures = (
            cell.operations,
            cell.cuts,
            cell.asked,
            cell.lost_cuts,
            cell.lost_most,
            cell.in_part,
            cell.damaged,
            cell.refused,
            cell.unreadable,
            cell.violations,
        )
        shown = " | ".join(f"{one:,}" for one in figures)
        yield f"| `{cell.journal_mode}` | `{cell.synchronous}` | {shown} |"


def page(record: Mapping[str, Any], cells: Sequence[Cell]) -> str:
    """The page."""
    text = HEAD.format(**record)
    text += "".join(f"- {finding}\n" for finding in findings(cells))
    text += COLUMNS.format(**record)
    for stack in STACKS:
        shown = list(rows(cells, stack.name))
        if shown:
            text += f"\n## {stack.file_system} on a {stack.medium}\n{TABLE}"
            text += "".join(f"{row}\n" for row in shown)
            text += EXPLANATIONS.get(stack.name, "")
    return text + CONDITIONS.format(**record, **record["sqlite"])


EXPLANATIONS: Mapping[str, str] = {
    "jffs2": """
JFFS2 keeps the order of calls. What was done last waits in its write buffer until a page is full
or a file is synced (`fs/jffs2/wbuf.c`). So a commit that ends with `unlink` or `ftruncate` without
a sync may be taken back, and the journal rolls it back. A rollback journal with `off` is behind by
one transaction most of the time.

With `normal` files are refused after torn pages alone (`prefix`, `data-only`), before the first
acknowledgement. Software ECC damages nodes that were whole, so each file by itself is old or new.
The [guarantee](power-cuts.md#what-is-guaranteed) permits it.
""",
    "ubifs": """
UBIFS makes a changed name durable when its directory or its file is synced, and a shorter size
when the file is. `delete` with `normal` or `full`, and `truncate` with `normal`, return from COMMIT
before that: the journal comes back, and rolls the last transaction back. `extra` syncs the folder,
and `truncate` with `full` syncs the journal: they lose nothing. Bytes that
were never synced are written back after 30 s, page by page in no order that SQLite knows: `off`
damages the file.
""",
    "yaffs2": """
YAFFS2 makes each change of a name durable when its call returns. So `delete` loses nothing even
with `normal`, where UBIFS loses the last transaction. Bytes are durable at `fsync`, `close` and
write-back. With `off` database and journal are of different times then. `wal` with `normal` syncs
at the checkpoint alone.
""",
    "nilfs2": """
`mtdblock` erases a block of the chip before it writes the block back (`erase_write` of
drivers/mtd/mtdblock.c). So each cut falls between an erase and the last program behind it, and what
stood in that block is gone: the newest logs, or all of the volume. No setting of SQLite changes
that.
""",
    "nilfs2-card": """
NILFS2 shows the state of one checkpoint, so the file is always whole. `delete` with `normal` or
`full`, and `truncate` with `normal`, return from COMMIT before a sync of the name or of the new
size, and the last transaction is rolled back. `extra`, and `full` with the other modes, lose
nothing.
""",
    "fat": """
FAT keeps no order between its sectors, and `mtdblock` erases a block before it writes it back. No
setting of SQLite keeps the file. `persist` with `off` changes nothing on the chip: all its writes
are in one erase block, which `mtdblock` keeps in memory until a flush. All transactions of that
session are lost with the power.
""",
    "fat-card": """
Settings that sync last lose no transaction. Some cuts leave a journal or log whose size in the
directory is ahead of its chain of clusters (hazard `read-only`). Reading it to its end fails with
EIO, and the kernel makes the volume read-only (`fat_get_cluster` of fs/fat/cache.c). The check
gives SQLite no part of such a file, so the database counts as refused.
""",
}
"""Why settings fail on a medium, behind its table."""


def made() -> str:
    """The page of the record."""
    return page(json.loads(RECORD.read_text(encoding="utf-8")), kept())


def is_whole(cells: Sequence[Cell]) -> bool:
    """True if the record has every setting on every medium once."""
    keys = [(cell.stack, cell.journal_mode, cell.synchronous) for cell in cells]
    wanted = [
        (stack.name, mode, level)
        for stack in STACKS
        for mode in JOURNAL_MODES
        for level in SYNCHRONOUS
    ]
    return keys == wanted


if __name__ == "__main__":
    sys.exit(write_or_check(PAGE, made, __doc__, None))
