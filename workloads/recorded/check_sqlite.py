"""Looks at the database of the recorded sessions of SQLite after a power cut.

`nandlab crash SCRIPT --fs F --check "python3 $PWD/workloads/recorded/check_sqlite.py"` runs it in a
folder with the files of each cut. It exits with 1 and a reason if the database does not hold.

Transaction N of a session adds three rows, and writes N into the first row of all. So the rows tell
which transactions are there, and whether each is there as a whole.
"""

import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

ROWS = 3
"""Rows that a transaction adds."""

DATABASE = "base.db"

REFUSED = "SQLite refuses the file"
DAMAGED = "the integrity check fails"
IN_PART = "a transaction is there in part"
LOST = "acknowledged transactions are lost"
"""How reasons begin."""


def check(folder: Path, acknowledged: int | None) -> str | None:
    """Why the database of a folder does not hold; None if it does.

    `acknowledged` is the newest transaction whose COMMIT had returned, or None.
    """
    try:
        with closing(sqlite3.connect(folder / DATABASE)) as base:
            return judged(base, acknowledged or 0)
    except sqlite3.Error as error:
        # Without its numbers the message is the same for all pages.
        return f"{REFUSED}: {error}"


def judged(base: sqlite3.Connection, acknowledged: int) -> str | None:
    """Why a database that was opened does not hold."""
    (told,) = base.execute("pragma integrity_check(1)").fetchone()
    if told != "ok":
        return DAMAGED
    if base.execute("select 1 from sqlite_schema where name = 'entry'").fetchone() is None:
        there = 0
    else:
        (rows, newest) = base.execute("select count(*), max(step) from entry").fetchone()
        (first,) = base.execute("select max(step) from entry where id = 1").fetchone()
        there = newest or 0
        if rows != ROWS * there or (first or 0) != there:
            return IN_PART
    lost = acknowledged - there
    return f"{LOST}: {lost}" if lost > 0 else None


def main() -> int:
    """Look at the files of this folder."""
    number = os.environ.get("NANDLAB_ACK", "")
    reason = check(Path(), int(number) if number else None)
    if reason is not None:
        print(reason)
    return int(reason is not None)


if __name__ == "__main__":
    sys.exit(main())
