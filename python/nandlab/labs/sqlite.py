"""The real sqlite3 in the guest: a row a transaction, acknowledged once its COMMIT has returned.

The program reads one script, so that it is started once. With `-bail` it ends at the first error,
and nothing behind a COMMIT that failed is acknowledged. A second index, in an order of its own,
makes a transaction change several pages: a part of one is then found by `PRAGMA integrity_check`.

The pragmas are those of https://www.sqlite.org/pragma.html: `journal_mode`, `synchronous`.
"""

from nandlab.labs.workloads import RANGES, Workload

JOURNAL_MODES = ("delete", "wal")
SYNCHRONOUS = ("extra", "full", "normal", "off")

TRANSACTIONS = 100
_NAME = "rows.db"
_SCRIPT = "nandlab/rows.sql"
_CHECK = "nandlab/check.sql"

_KEY_FACTOR, _KEYS = 7_919, 100_003
"""Both are prime, so each row has a key of its own and neighbours lie far apart."""

_VALUE_FACTOR = 2_654_435_761
_REPEATS = 25
"""A value is eight hexadecimal digits so many times: 200 bytes."""

# The kernel writes dirty pages back after 30 s, and looks for them every 5 s
# (mm/page-writeback.c, `dirty_expire_interval` and `dirty_writeback_interval`). A run of the guest
# takes a second or two, and the settings that do not sync would never write anything.
_WRITE_BACK = (
    "echo 5 > /proc/sys/vm/dirty_writeback_centisecs; echo 10 > /proc/sys/vm/dirty_expire_centisecs"
)

CHECKPOINT_PAGES = 100
"""SQLite's default is 1000: a run would end before the first checkpoint."""


def _value(number: str) -> str:
    """The value of a row as an expression of SQL; `zeroblob` stands for a missing `repeat`."""
    digits = f"printf('%08x', ({number} * {_VALUE_FACTOR}) % 4294967296)"
    return f"replace(hex(zeroblob({_REPEATS})), '00', {digits})"


def _script(journal_mode: str, synchronous: str) -> str:
    """All that sqlite3 is told; `@` stands for the number of the disk."""
    lines = [
        f"PRAGMA journal_mode = {journal_mode};",
        "PRAGMA synchronous = full;",
        "CREATE TABLE rows (id INTEGER PRIMARY KEY, key INTEGER UNIQUE, value TEXT);",
        ".system sync",
        f"PRAGMA synchronous = {synchronous};",
        f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES};",
    ]
    for number in range(1, TRANSACTIONS + 1):
        key = number * _KEY_FACTOR % _KEYS
        lines += [
            f"INSERT INTO rows VALUES ({number}, {key}, {_value(str(number))});",
            f".print ack @ {number}",
        ]
    return "\n".join(lines) + "\n"


def _write(disk_number: int, place: str) -> str:
    return f"sed 's/@/{disk_number}/' /{_SCRIPT} | sqlite3 -bail {place}/{_NAME}\n"


def _check(disk_number: int, place: str) -> str:
    """The recovery is sqlite3's own, as it opens the file.

    Without a table its CREATE was not committed: the file is whole, and has no row.
    """
    return f"""sqlite3 {place}/{_NAME} < /{_CHECK} > /tmp/told 2> /tmp/errors
sed '/^rows$/,$d' /tmp/told > /tmp/integrity
if [ "$(cat /tmp/integrity)" != ok ]; then
    head -n 5 /tmp/integrity
    echo "refused {disk_number} integrity"
fi
grep -v 'no such table: rows' /tmp/errors && echo "refused {disk_number} unreadable"
sed '1,/^rows$/d; /^wrong$/,$d' /tmp/told | {RANGES.format(disk_number=disk_number)}
sed '1,/^wrong$/d; s/^/damaged {disk_number} /' /tmp/told
"""


def _check_script() -> str:
    """The rows come from the table itself: a damaged index hides none."""
    rows = "SELECT id FROM rows NOT INDEXED WHERE value"
    return f"""PRAGMA integrity_check;
.print rows
{rows} = {_value("id")} ORDER BY id;
.print wrong
{rows} <> {_value("id")} ORDER BY id;
"""


def _workload(journal_mode: str, synchronous: str) -> Workload:
    return Workload(
        name=f"sqlite-{journal_mode}-{synchronous}",
        item="transaction",
        items=TRANSACTIONS,
        write=_write,
        check=_check,
        programs=("sqlite3",),
        texts={_SCRIPT: _script(journal_mode, synchronous), _CHECK: _check_script()},
        condition=_WRITE_BACK,
    )


SQLITE = tuple(_workload(mode, level) for mode in JOURNAL_MODES for level in SYNCHRONOUS)
"""A workload for each journal mode and each synchronous setting."""
