"""What a guest does before the power fails: items that it writes, makes durable, acknowledges.

The scripts of a workload stand in a function of the guest's shell, one for each disk. They tell
what they find in lines of the console, where `D` is the number of the disk:

- `ack D N`: item N is durable, as far as an application can know;
- `kept D FIRST LAST`: these items are there, with the right bytes;
- `damaged D N`: item N is there with other bytes;
- `refused D WORD`: what holds the items cannot be opened, or is inconsistent.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

RANGES = (
    "awk -v d={disk_number} 'NR == 1 {{ a = b = $1; next }} $1 == b + 1 {{ b = $1; next }} "
    '{{ print "kept", d, a, b; a = b = $1 }} END {{ if (NR) print "kept", d, a, b }}\''
)
"""Turns sorted numbers, one a line, into lines of `kept`."""


@dataclass(frozen=True)
class Workload:
    """Scripts of the guest's shell, by the number of the disk and the folder it is mounted on.

    `write` ends when the disk fails, or after `items`. `check` runs after the recovery. `texts` are
    files of the guest by their paths.
    """

    name: str
    item: str
    """What is acknowledged, in the singular."""

    items: int
    write: Callable[[int, str], str]
    check: Callable[[int, str], str]
    programs: tuple[str, ...] = ()
    texts: Mapping[str, str] = field(default_factory=dict)
    condition: str = ""
    """What is set in the guest before the workload, as a command of its shell."""


_FILE_BYTES = 20_000
"""Bytes of a file: some pages, and no whole number of them."""

_FILES = 40


def _content(number: str) -> str:
    """The bytes of a file, by its number."""
    return f'yes "file {number}" | head -c {_FILE_BYTES}'


def _write_files(disk_number: int, place: str) -> str:
    return f"""i=0
while [ $i -lt {_FILES} ]; do
    i=$((i + 1))
    {_content("$i")} > /tmp/data
    dd if=/tmp/data of={place}/f$i bs=4k conv=fsync 2> /dev/null || break
    echo "ack {disk_number} $i"
done
"""


def _check_files(disk_number: int, place: str) -> str:
    return f"""i=0
while [ $i -lt {_FILES} ]; do
    i=$((i + 1))
    [ -f {place}/f$i ] || continue
    {_content("$i")} > /tmp/data
    if cmp -s /tmp/data {place}/f$i; then echo $i; else echo "damaged {disk_number} $i" >&2; fi
done | {RANGES.format(disk_number=disk_number)}
"""


FILES = Workload("files", "file", _FILES, _write_files, _check_files)
"""Files written one after the other, each with fsync before it is acknowledged."""
