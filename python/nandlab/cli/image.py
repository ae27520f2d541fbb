"""`nandlab image`: images of file systems as files."""

import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from cyclopts import App

from nandlab.api import image as api
from nandlab.api.answer import Answer
from nandlab.api.names import shown_name, shown_text
from nandlab.cli.action import Given, Names, command
from nandlab.terminal.output import counted, print_table, print_text
from nandlab.terminal.tables import shown

_BARS_MAX = 10

_KINDS = {
    "d": stat.S_IFDIR,
    "f": stat.S_IFREG,
    "l": stat.S_IFLNK,
    "c": stat.S_IFCHR,
    "b": stat.S_IFBLK,
    "p": stat.S_IFIFO,
    "s": stat.S_IFSOCK,
}
_CHECKPOINTS = "                 CNO        DATE     TIME  MODE  FLG      BLKCNT       ICNT"
_SEGMENTS = "              SEGNUM        DATE     TIME STAT     NBLOCKS"
"""Headings of lscp and lssu of nilfs-utils 2.2."""

_NEVER = "---------- --:--:--"


@command("image ls", api.ls, separated="tsv", names={"hashes": "--hash"}, prefix="nandlab: ")
def ls(found: Answer, given: Given) -> None:
    """List the files of an image.

    An unreadable entry has the type ?, is reported on standard error, and makes the exit status 1.
    A static UBI volume is listed as the file that it is extracted to. docs/images.md describes how
    control characters and bytes outside UTF-8 are printed, and the columns of the form tsv.
    """
    for line in _lines(found.rows, str if given.get("escape") else shown_name):
        print(line)


@command("image extract", api.extract, prefix="nandlab: ")
def extract(found: Answer, given: Given) -> None:
    """Extract the tree of an image into a new directory.

    Nothing is written outside of the directory, which appears when it is complete. An entry that
    cannot be read or made is reported on standard error and makes the exit status 1. A static UBI
    volume becomes the file VOLUME.bin. Extended attributes (user.*) are set if the host has them.
    """
    names, size = counted(found.answer["names"], "name"), counted(found.answer["bytes"], "byte")
    print_text(f"{given['directory']}: {names}, {size} of files")


@command("image check", api.check)
def check(found: Answer, given: Given) -> None:
    """Check an image without writing to it.

    The exit status is 0 if the image is consistent, else 1. Every inconsistency is named with its
    place. Remains of a power cut and corrected bits are notes.
    """
    report = found.answer
    for before, remarks in (("", found.rows), ("note: ", report["notes"])):
        for remark in remarks:
            print(shown_text(f"{before}{remark['place']}: {remark['what']}"))
    wrong = counted(len(found.rows), "inconsistency", "inconsistencies")
    corrected = report["corrected_bits"]
    # A block device corrects on its own.
    bits = "" if corrected is None else f"; {counted(corrected, 'corrected bit')}"
    verdict = "consistent" if found.is_clean else wrong
    print(f"{given['image']}: {report['fs']}, {verdict}{bits}")


@command("image info", api.info)
def info(found: Answer, given: Given) -> None:
    """Describe an image: file system, layout, blocks by state, ECC, volumes, use of space.

    For NILFS2 the checkpoints follow as in lscp and the segments as in lssu, with times in UTC.
    """
    answer = dict(found.answer)
    remarks = answer.pop("remarks")
    checkpoints, segments = answer.pop("checkpoints", None), answer.pop("segments", None)
    print_table("", ("", ""), list(_facts("", answer)))
    if checkpoints is not None:
        print("\n".join([_CHECKPOINTS, *map(_checkpoint_line, checkpoints), ""]))
    if segments is not None:
        print("\n".join([_SEGMENTS, *map(_segment_line, segments), ""]))
    for remark in remarks:
        print_text(remark)


@command("image diff", api.diff, prefix="nandlab: ")
def diff(found: Answer, given: Given) -> None:
    """Compare the trees of two images by path.

    The exit status is 0 if they are equal, else 1.
    """
    for difference in found.rows:
        for column, before, after in difference["columns"]:
            print(f"{shown_name(difference['path'])}: {column} {before} {after}")


_MAKE_NAMES: Names = {
    "source": "--from",
    "blocks_per_segment": ("--blocks-per-segment", "-B"),
    "label": ("--label", "-L"),
    "reserved_percent": ("--reserved-percent", "-m"),
}


@command("image make", api.make, names=_MAKE_NAMES)
def make(found: Answer, given: Given) -> None:
    """Make an image of a directory.

    The file system writes the image on a blank chip. Trailing blocks without data are left out.
    The same tree makes the same image. No time in it is later than SOURCE_DATE_EPOCH, if that is
    set.

    UBIFS is put on UBI: on one volume, or on the volumes of a configuration of ubinize. NILFS2 is
    put on a block device.
    """
    made = found.answer
    pages = counted(made["pages"], "block" if given["fs"] == "nilfs2" else "page")
    names, size = counted(made["names"], "name"), counted(made["bytes"], "byte")
    print_text(f"{made['image']}: {names}, {pages}, {size}")


def _lines(rows: Sequence[Mapping[str, Any]], shown: Callable[[str], str]) -> list[str]:
    """Rows as `ls -l` has them, with times in UTC."""
    cells = [
        (
            _mode(row),
            str(row["nlink"]),
            str(row["uid"]),
            str(row["gid"]),
            row["rdev"] or str(row["size"]),
            _time(row["mtime"]),
            *([row["sha256"] or "-"] if "sha256" in row else []),
            shown(row["path"])
            + (f" -> {shown(row['target'])}" if row["target"] is not None else ""),
        )
        for row in rows
    ]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)][:-1]
    right = {1, 2, 3, 4}
    return [
        " ".join(
            [
                cell.rjust(width) if index in right else cell.ljust(width)
                for index, (cell, width) in enumerate(zip(row, widths, strict=False))
            ]
            + [row[-1]]
        )
        for row in cells
    ]


def _mode(row: Mapping[str, Any]) -> str:
    kind = _KINDS.get(row["type"])
    return "??????????" if kind is None else stat.filemode(kind | int(row["mode"], 8))


def _facts(prefix: str, values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """All values of an object of objects, each under its path."""
    for key, value in values.items():
        name = f"{prefix}{key.replace('_', ' ')}"
        if key == "blocks_by_erase_counter":
            for counters, blocks in _histogram(value):
                yield f"{prefix}blocks with erase counter {counters}", shown(blocks)
        elif isinstance(value, Mapping):
            yield from _facts(f"{name}: ", value)
        elif isinstance(value, list):
            for number, one in enumerate(value):
                yield from _facts(f"{name.removesuffix('s')} {one.get('id', number)}: ", one)
        elif key.endswith("_at"):
            yield name, _time(value) if value else "-"
        elif isinstance(value, int):
            yield name, shown(value)
        else:
            yield name, "-" if value is None else str(value)


def _histogram(blocks: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """Blocks by their erase counter; in ranges of one width, where there are many counters."""
    counters = {int(counter): count for counter, count in blocks.items()}
    if not counters:
        return
    least, most = min(counters), max(counters)
    width = -(-(most - least + 1) // _BARS_MAX)
    for start in range(least, most + 1, width):
        end = start + width - 1
        count = sum(count for counter, count in counters.items() if start <= counter <= end)
        if count:
            yield (str(start) if width == 1 else f"{start} to {min(end, most)}"), count


def _time(seconds: int) -> str:
    """Seconds since 1970 as date and time, or the number if it is outside the calendar."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return str(seconds)


def _checkpoint_line(row: Mapping[str, Any]) -> str:
    if "not_read" in row:
        return f"checkpoints cannot be read: {row['not_read']}"
    flag = "i" if row["is_minor"] else "-"
    return (
        f"{row['number']:>20}  {_time(row['created_at'])}   {row['mode']}    {flag} "
        f"{row['blocks']:>12} {row['inodes']:>10}"
    )


def _segment_line(row: Mapping[str, Any]) -> str:
    if "not_read" in row:
        return f"segments cannot be read: {row['not_read']}"
    modified = _time(row["modified_at"]) if row["modified_at"] else _NEVER
    return f"{row['number']:>20}  {modified}  {row['status']}  {row['blocks']:>10}"


image = App(name="image", help="Make, list, extract, check and compare images of file systems.")
"""The commands below `nandlab image`."""
for _command in (make, ls, extract, check, info, diff):
    image.command(_command)
