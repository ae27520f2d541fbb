"""`nandlab image`: images of file systems as files."""

import stat
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

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

if TYPE_CHECKING:
    from cyclopts import App

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


def application() -> "App":
    """The commands below `nandlab image`."""
    from cyclopts import App

    app = App(name="image", help="Make, list, extract, check and compare images of file systems.")
    app.command(make)
    app.command(list_image, name="ls")
    app.command(extract)
    app.command(check)
    app.command(info)
    app.command(diff)
    return app


def list_image(
    image: str,
    /,
    *,
    hashes: Annotated[bool, Parameter(name="--hash", negative=())] = False,
    escape: Annotated[bool, Parameter(negative=())] = False,
    output_format: Annotated[Literal["text", "json", "tsv"], Parameter(name="--format")] = "text",
    opening: Opening | None = None,
) -> int:
    """List everything that an image holds.

    What cannot be read is listed with the type ? and told on standard error; the exit code is 1
    then. A static volume of UBI is listed as the file that it is extracted to. Names are printed as
    they are; docs/images.md says what becomes of control characters and of bytes that are no UTF-8.

    Parameters
    ----------
    image
        Dump with or without spare areas, as nanddump, mkfs.jffs2, mkfs.ubifs, ubinize or
        mkyaffs2image write it; or a block device with NILFS2, as dd copies it.
    hashes
        Read the files, and show their SHA-256.
    escape
        Write names as one word: %XX for spaces, %, control characters and what is no UTF-8. The
        table of tsv always has them so.
    output_format
        text, as ls shows it; json; tsv, with the columns of docs/images.md.
    opening
        How to read the image.

    """
    from nandlab import engine
    from nandlab.terminal.output import print_json

    listing = engine.image_list(image, _options(opening), hashes=hashes)
    if output_format == "tsv":
        sys.stdout.write(listing["tsv"])
    elif output_format == "json":
        print_json(listing["rows"] if escape else [json_row(row) for row in listing["rows"]])
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
    opening: Opening | None = None,
) -> int:
    """Extract the tree of an image into a new directory.

    Nothing is written outside of the directory, which appears when it is complete. What cannot be
    read or made is told on standard error; the exit code is 1 then. A static volume of UBI becomes
    the file VOLUME.bin. Attributes of users (user.*) are set where the host has such.

    Parameters
    ----------
    image
        Dump with or without spare areas, or a copy of a block device.
    directory
        Directory to make.
    devices
        Make devices, pipes and sockets: the default of root.
    owners
        Give files their owners: the default of root.
    opening
        How to read the image.

    """
    import os

    from nandlab import engine
    from nandlab.terminal.output import print_text

    is_root = os.geteuid() == 0
    done = engine.image_extract(
        image,
        _options(opening),
        directory,
        devices=is_root if devices is None else devices,
        owners=is_root if owners is None else owners,
    )
    if done["replaced"] is not None:
        what = "an extraction that was stopped had left it; it was replaced"
        print(f"nandlab: {done['replaced']}: {what}", file=sys.stderr)
    print_text(f"{directory}: {done['names']:,} names, {done['bytes']:,} bytes of files")
    return _tell(image, done["left_out"])


def check(
    image: str,
    /,
    *,
    output_format: Annotated[Literal["text", "json"], Parameter(name="--format")] = "text",
    opening: Opening | None = None,
) -> int:
    """Check an image, without writing to it.

    Exit codes: 0 consistent, 1 inconsistent, with every place named. What a power cut leaves, and
    what the ECC corrects, is a note.

    Parameters
    ----------
    image
        Dump with or without spare areas, or a copy of a block device.
    output_format
        text or json.
    opening
        How to read the image.

    """
    from nandlab import engine
    from nandlab.terminal.output import print_json

    report = engine.image_check(image, _options(opening))
    findings = report["findings"]
    if output_format == "json":
        print_json(report)
        return EXIT_INCONSISTENT if findings else 0
    for remark in findings:
        print(shown_text(f"{remark['place']}: {remark['what']}"))
    for remark in report["notes"]:
        print(shown_text(f"note: {remark['place']}: {remark['what']}"))
    verdict = f"{len(findings)} inconsistencies" if findings else "consistent"
    corrected = report["corrected_bits"]
    # A block device corrects on its own.
    bits = "" if corrected is None else f"; {corrected} bits corrected"
    print(f"{image}: {report['fs']}, {verdict}{bits}")
    return EXIT_INCONSISTENT if findings else 0


def info(
    image: str,
    /,
    *,
    output_format: Annotated[Literal["text", "json"], Parameter(name="--format")] = "text",
    opening: Opening | None = None,
) -> int:
    """Tell what an image is: file system, layout, blocks by state, ECC, volumes, use of space.

    Of NILFS2 the checkpoints follow as lscp lists them, and the segments as lssu does; times are
    in UTC.

    Parameters
    ----------
    image
        Dump with or without spare areas, or a copy of a block device.
    output_format
        text or json.
    opening
        How to read the image.

    """
    from nandlab import engine
    from nandlab.terminal.output import print_json, print_table, print_text

    answer = engine.image_info(image, _options(opening))
    if output_format == "json":
        print_json(answer)
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
    output_format: Annotated[Literal["text", "json"], Parameter(name="--format")] = "text",
    right_checkpoint: int | None = None,
    opening: Opening | None = None,
) -> int:
    """Compare the trees of two images by path.

    Exit codes: 0 the same, 1 different.

    Parameters
    ----------
    left
        Image.
    right
        Other image; it may be of another file system.
    output_format
        text or json.
    right_checkpoint
        Checkpoint of the other image, if not that of --checkpoint.
    opening
        How to read both images.

    """
    from nandlab import engine
    from nandlab.terminal.output import print_json

    options = _options(opening)
    right_options = options
    if right_checkpoint is not None:
        right_options = options | {
            "checkpoint": natural("--right-checkpoint", right_checkpoint, bits=64)
        }
    answer = engine.image_diff(left, right, options, right_options)
    differences = answer["differences"]
    if output_format == "json":
        print_json([json_row(difference) for difference in differences])
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
    making: UbiMaking | None = None,
    device: Nilfs2Making | None = None,
) -> int:
    """Make an image of a directory.

    The file system itself writes the image, on a blank chip; blocks without data at its end are
    left out. No time in it is later than SOURCE_DATE_EPOCH, if that is set. The same tree makes the
    same image. UBIFS is put on UBI, on one volume or on those of a configuration of ubinize; NILFS2
    on a block device.

    Parameters
    ----------
    image
        File to write.
    fs
        jffs2, nilfs2, ubifs or yaffs2.
    source
        Directory with the tree; with --ubinize it may be left out.
    device_table
        Owners and devices, a line each, as mkfs.jffs2 takes them.
    squash_uids
        Everything belongs to root.
    squash_perms
        Group and others cannot write; no set-uid, no set-gid.
    squash
        Both.
    pad
        Fill up with 0xFF: block, or data bytes such as 16MiB.
    size_limit
        Refuse to make an image with more data bytes.
    oob
        Write spare areas, with Linux's ECC: the default but for ubifs, where it makes a dump of a
        whole chip that was flashed; --no-oob writes data alone.
    part
        A name from `nandlab list parts`, or a file; nandsim-64MiB if left out.
    blocks
        Blocks of the chip, if not the part's.
    page_size
        Data bytes of a page, if not the part's: 512 or 2KiB.
    profile
        Generation of the code, from `nandlab list file-systems`.
    options
        A mount option, such as compr=zlib; may be repeated.
    compr
        Compressor; lzo for ubifs if left out.
    making
        UBI and UBIFS.
    device
        NILFS2.

    """
    import os

    from nandlab import engine
    from nandlab.errors import NandlabError
    from nandlab.outputs import check_file
    from nandlab.terminal.output import print_text

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
        raise NandlabError(f"{option}: it goes with --fs ubifs alone; leave it out")
    if fs != "nilfs2" and (option := of_device.given()):
        raise NandlabError(f"{option}: it goes with --fs nilfs2 alone; leave it out")
    if fs == "nilfs2" and (option := first_given(of_chip)):
        raise NandlabError(f"{option}: it goes with chips, not with --fs nilfs2; leave it out")
    if source is None and of_ubi.ubinize is None:
        raise NandlabError("--from: name a directory with the tree; or volumes, with --ubinize")

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
    unit = "blocks" if fs == "nilfs2" else "pages"
    print_text(
        f"{image}: {made['names']:,} names, {made['pages']:,} {unit}, {made['bytes']:,} bytes"
    )
    return 0


def _options(opening: Opening | None) -> dict[str, Any]:
    return (opening or Opening()).for_engine()


def _epoch(text: str | None) -> int | None:
    from nandlab.errors import NandlabError

    if text is None:
        return None
    if not text.isdigit() or int(text) >= 2**32:
        raise NandlabError(f"SOURCE_DATE_EPOCH: {text!r} is no number of seconds since 1970")
    return int(text)


def _tell(image: str, damage: Sequence[Mapping[str, str]]) -> int:
    """Names what could not be read, and says so in the exit code."""
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
