"""`nandlab image`: images of file systems as files."""

import stat
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import App, Parameter

from nandlab.cli.image_options import (
    Nilfs2Making,
    Opening,
    UbiMaking,
    first_given,
    natural,
    size_of,
)
from nandlab.cli.names import json_row, shown_name, shown_text
from nandlab.cli.nilfs2_tables import checkpoint_lines, segment_lines, time_text
from nandlab.cli.output_options import Output, TsvOutput, form_of

EXIT_INCONSISTENT = 1
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


def list_image(
    image: str,
    /,
    *,
    hashes: Annotated[bool, Parameter(name="--hash", negative=())] = False,
    escape: Annotated[bool, Parameter(negative=())] = False,
    output: TsvOutput | None = None,
    opening: Opening | None = None,
) -> int:
    """List the files of an image.

    An unreadable entry has the type ?, is reported on standard error, and makes the exit status 1.
    A static UBI volume is listed as the file that it is extracted to. docs/images.md describes how
    control characters and bytes outside UTF-8 are printed.

    Parameters
    ----------
    image
        Dump with or without spare areas, as written by nanddump, mkfs.jffs2, mkfs.ubifs, ubinize
        or mkyaffs2image; or a copy of a block device with NILFS2.
    hashes
        Read the files and print their SHA-256.
    escape
        Print names as one word, with %XX for spaces, %, control characters and bytes outside
        UTF-8. The form tsv always does.
    output
        How to print the listing.
    opening
        How to read the image.

    """
    from nandlab import engine
    from nandlab.terminal.output import print_json

    form = form_of(output)
    listing = engine.image_list(image, _options(opening), hashes=hashes)
    if form == "tsv":
        sys.stdout.write(listing["tsv"])
    elif form == "json":
        rows = listing["rows"]
        print_json("image ls", rows if escape else [json_row(row) for row in rows])
    else:
        for line in _lines(listing["rows"], str if escape else shown_name):
            print(line)
    for note in listing["notes"]:
        print(f"nandlab: {image}: {note}", file=sys.stderr)
    return _tell(image, listing["damage"])


def extract(
    image: str,
    directory: str,
    /,
    *,
    devices: bool | None = None,
    owners: bool | None = None,
    output: Output | None = None,
    opening: Opening | None = None,
) -> int:
    """Extract the tree of an image into a new directory.

    Nothing is written outside of the directory, which appears when it is complete. An entry that
    cannot be read or made is reported on standard error and makes the exit status 1. A static UBI
    volume becomes the file VOLUME.bin. Extended attributes (user.*) are set if the host has them.

    Parameters
    ----------
    image
        Dump with or without spare areas, or a copy of a block device.
    directory
        Directory to make.
    devices
        Make devices, pipes and sockets. On by default for root.
    owners
        Set the owners of files. On by default for root.
    output
        How to print the answer.
    opening
        How to read the image.

    """
    import os

    from nandlab import engine
    from nandlab.terminal.output import counted, print_json, print_text

    form = form_of(output)
    is_root = os.geteuid() == 0
    done = engine.image_extract(
        image,
        _options(opening),
        directory,
        devices=is_root if devices is None else devices,
        owners=is_root if owners is None else owners,
    )
    if done["replaced"] is not None:
        what = "an interrupted extraction had left it; it was replaced"
        print(f"nandlab: {done['replaced']}: {what}", file=sys.stderr)
    if form == "json":
        print_json("image extract", done)
    else:
        names, size = counted(done["names"], "name"), counted(done["bytes"], "byte")
        print_text(f"{directory}: {names}, {size} of files")
    return _tell(image, done["left_out"])


def check(
    image: str,
    /,
    *,
    output: Output | None = None,
    opening: Opening | None = None,
) -> int:
    """Check an image without writing to it.

    The exit status is 0 if the image is consistent, else 1. Every inconsistency is named with its
    place. Remains of a power cut and corrected bits are notes.

    Parameters
    ----------
    image
        Dump with or without spare areas, or a copy of a block device.
    output
        How to print the answer.
    opening
        How to read the image.

    """
    from nandlab import engine
    from nandlab.terminal.output import counted, print_json

    form = form_of(output)
    report = engine.image_check(image, _options(opening))
    findings = report["findings"]
    if form == "json":
        print_json("image check", report)
        return EXIT_INCONSISTENT if findings else 0
    for remark in findings:
        print(shown_text(f"{remark['place']}: {remark['what']}"))
    for remark in report["notes"]:
        print(shown_text(f"note: {remark['place']}: {remark['what']}"))
    found = counted(len(findings), "inconsistency", "inconsistencies")
    verdict = found if findings else "consistent"
    corrected = report["corrected_bits"]
    # A block device corrects on its own.
    bits = "" if corrected is None else f"; {counted(corrected, 'corrected bit')}"
    print(f"{image}: {report['fs']}, {verdict}{bits}")
    return EXIT_INCONSISTENT if findings else 0


def info(
    image: str,
    /,
    *,
    output: Output | None = None,
    opening: Opening | None = None,
) -> int:
    """Describe an image: file system, layout, blocks by state, ECC, volumes, use of space.

    For NILFS2 the checkpoints follow as in lscp and the segments as in lssu, with times in UTC.

    Parameters
    ----------
    image
        Dump with or without spare areas, or a copy of a block device.
    output
        How to print the answer.
    opening
        How to read the image.

    """
    from nandlab import engine
    from nandlab.terminal.output import print_json, print_table, print_text

    form = form_of(output)
    answer = engine.image_info(image, _options(opening))
    if form == "json":
        print_json("image info", answer)
        return 0
    remarks: Sequence[str] = answer.pop("remarks")
    tables = [answer.pop(name, None) for name in ("checkpoints", "segments")]
    print_table("", ("", ""), list(_facts("", answer)))
    for rows, lines in zip(tables, (checkpoint_lines, segment_lines), strict=True):
        if rows is not None:
            print("\n".join([*lines(rows), ""]))
    for remark in remarks:
        print_text(remark)
    return 0


def diff(
    left: str,
    right: str,
    /,
    *,
    output: Output | None = None,
    right_checkpoint: int | None = None,
    opening: Opening | None = None,
) -> int:
    """Compare the trees of two images by path.

    The exit status is 0 if they are equal, else 1.

    Parameters
    ----------
    left
        First image.
    right
        Second image; it may hold another file system.
    output
        How to print the answer.
    right_checkpoint
        Read this checkpoint of the second image, instead of that of --checkpoint.
    opening
        How to read both images.

    """
    from nandlab import engine
    from nandlab.terminal.output import print_json

    form = form_of(output)
    options = _options(opening)
    right_options = options
    if right_checkpoint is not None:
        right_options = options | {
            "checkpoint": natural("--right-checkpoint", right_checkpoint, bits=64)
        }
    answer = engine.image_diff(left, right, options, right_options)
    differences = answer["differences"]
    if form == "json":
        print_json("image diff", [json_row(difference) for difference in differences])
    else:
        for difference in differences:
            for column, before, after in difference["columns"]:
                print(f"{shown_name(difference['path'])}: {column} {before} {after}")
    damaged = [
        _tell(image, damage) for image, damage in zip((left, right), answer["damage"], strict=True)
    ]
    return EXIT_INCONSISTENT if differences or any(damaged) else 0


def make(
    image: str,
    /,
    *,
    fs: str,
    source: Annotated[str | None, Parameter(name="--from")] = None,
    device_table: str | None = None,
    squash_uids: Annotated[bool, Parameter(negative=())] = False,
    squash_perms: Annotated[bool, Parameter(negative=())] = False,
    squash: Annotated[bool, Parameter(negative=())] = False,
    pad: str | None = None,
    size_limit: str | None = None,
    oob: bool | None = None,
    part: str | None = None,
    blocks: int | None = None,
    page_size: str | None = None,
    profile: str | None = None,
    options: Annotated[list[str] | None, Parameter(name="--option", negative=())] = None,
    compr: Literal["none", "lzo", "zlib", "zstd"] | None = None,
    output: Output | None = None,
    making: UbiMaking | None = None,
    device: Nilfs2Making | None = None,
) -> int:
    """Make an image of a directory.

    The file system writes the image on a blank chip. Trailing blocks without data are left out.
    The same tree makes the same image. No time in it is later than SOURCE_DATE_EPOCH, if that is
    set.

    UBIFS is put on UBI: on one volume, or on the volumes of a configuration of ubinize. NILFS2 is
    put on a block device.

    Parameters
    ----------
    image
        File to write.
    fs
        Write this file system: jffs2, nilfs2, ubifs or yaffs2.
    source
        Read the tree from this directory. Optional with --ubinize.
    device_table
        Set owners and devices from this file, in the format of mkfs.jffs2.
    squash_uids
        Set the owner of everything to root.
    squash_perms
        Clear write permission of group and others, set-uid and set-gid.
    squash
        Do both --squash-uids and --squash-perms.
    pad
        Fill with 0xFF to the end of a block (block), or to a size such as 16MiB.
    size_limit
        Refuse to make an image with more data bytes, such as 16MiB.
    oob
        Write spare areas with Linux's ECC. On by default except for ubifs, where it dumps a whole
        flashed chip.
    part
        Use this chip: a name (see `nandlab list parts`) or a part file. Without it: nandsim-64MiB.
    blocks
        Replace the number of blocks of the part.
    page_size
        Replace the data bytes of a page of the part: 512 or 2KiB.
    profile
        Follow the code of this kernel or library (see `nandlab list file-systems`).
    options
        Set a mount option, such as compr=zlib. May be repeated.
    compr
        Use this compressor. Without it: lzo for ubifs.
    output
        How to print the answer.
    making
        UBI and UBIFS.
    device
        NILFS2.

    """
    import os

    from nandlab import engine
    from nandlab.errors import NandlabError
    from nandlab.outputs import check_file
    from nandlab.terminal.output import counted, print_json, print_text

    form = form_of(output)
    of_ubi, of_device = making or UbiMaking(), device or Nilfs2Making()
    of_chip = {
        "pad": pad,
        "size_limit": size_limit,
        "oob": oob,
        "part": part,
        "blocks": blocks,
        "page_size": page_size,
        "option": options,
        "compr": compr,
    }
    if fs != "ubifs" and (option := of_ubi.given()):
        raise NandlabError(f"{option}: the option is for --fs ubifs only; omit it")
    if fs != "nilfs2" and (option := of_device.given()):
        raise NandlabError(f"{option}: the option is for --fs nilfs2 only; omit it")
    if fs == "nilfs2" and (option := first_given(of_chip)):
        raise NandlabError(f"{option}: the option is for raw NAND, not for --fs nilfs2; omit it")
    if source is None and of_ubi.ubinize is None:
        raise NandlabError("--from is missing; name a directory, or volumes with --ubinize")

    check_file(Path(image))
    made = engine.image_make(
        source,
        image,
        {
            "fs": fs,
            "device_table": device_table,
            "squash_uids": squash or squash_uids,
            "squash_perms": squash or squash_perms,
            "pad_to_block": pad == "block",
            "pad_bytes": None if pad == "block" else size_of("--pad", pad),
            "size_limit_bytes": size_of("--size-limit", size_limit),
            "oob": fs != "ubifs" if oob is None else oob,
            "part": part or "nandsim-64MiB",
            "blocks": natural("--blocks", blocks),
            "page_size": size_of("--page-size", page_size),
            "profile": profile,
            "options": (options or []) + ([f"compr={compr}"] if compr else []),
            "source_date_epoch": _epoch(os.environ.get("SOURCE_DATE_EPOCH")),
            **of_ubi.for_engine(),
            **of_device.for_engine(),
        },
    )
    if form == "json":
        print_json("image make", {"image": image, **made})
        return 0
    pages = counted(made["pages"], "block" if fs == "nilfs2" else "page")
    names, size = counted(made["names"], "name"), counted(made["bytes"], "byte")
    print_text(f"{image}: {names}, {pages}, {size}")
    return 0


def _options(opening: Opening | None) -> dict[str, Any]:
    return (opening or Opening()).for_engine()


def _epoch(text: str | None) -> int | None:
    from nandlab.errors import NandlabError

    if text is None:
        return None
    if not text.isdigit() or int(text) >= 2**32:
        raise NandlabError(
            f"SOURCE_DATE_EPOCH: {text!r} is not a number of seconds; give the seconds since 1970"
        )
    return int(text)


def _tell(image: str, damage: Sequence[Mapping[str, str]]) -> int:
    """Reports what could not be read; returns the exit status."""
    for one in damage:
        print(f"nandlab: {image}: {shown_name(one['path'])}: {one['what']}", file=sys.stderr)
    return EXIT_INCONSISTENT if damage else 0


def _lines(rows: Sequence[Mapping[str, Any]], shown: Callable[[str], str]) -> list[str]:
    """Rows as `ls -l` has them, with times in UTC."""
    cells = [
        (
            _mode(row),
            str(row["nlink"]),
            str(row["uid"]),
            str(row["gid"]),
            row["rdev"] or str(row["size"]),
            time_text(row["mtime"]),
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


def _words(name: str) -> str:
    return name.replace("_", " ")


def _facts(prefix: str, values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """All values of an object of objects, each under its path."""
    for name, value in values.items():
        if name == "blocks_by_erase_counter":
            for counters, blocks in _histogram(value):
                yield f"{prefix}blocks with erase counter {counters}", _shown(blocks)
        elif isinstance(value, Mapping):
            yield from _facts(f"{prefix}{_words(name)}: ", value)
        elif isinstance(value, list):
            for number, one in enumerate(value):
                yield from _facts(
                    f"{prefix}{_words(name).removesuffix('s')} {one.get('id', number)}: ", one
                )
        elif name.endswith("_at"):
            yield f"{prefix}{_words(name)}", time_text(value) if value else "-"
        else:
            yield f"{prefix}{_words(name)}", "-" if value is None else _shown(value)


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


def _shown(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


image = App(name="image", help="Make, list, extract, check and compare images of file systems.")
"""The commands below `nandlab image`."""
image.command(make)
image.command(list_image, name="ls")
image.command(extract)
image.command(check)
image.command(info)
image.command(diff)
