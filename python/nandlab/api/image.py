"""Images of file systems as files: made, listed, extracted, checked, described and compared."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

from nandlab.api.answer import Answer, frame_of
from nandlab.api.given import Size, checked
from nandlab.api.names import json_row, shown_name
from nandlab.errors import NandlabError

if TYPE_CHECKING:
    import polars


class Entries(Answer):
    """Entries of images: `rows` have names as one word, `answer` and `frame` as they are."""

    @property
    def frame(self) -> "polars.DataFrame":
        """The rows as a frame. A name that is not UTF-8 is escaped, and has `is_escaped`."""
        return frame_of(self.answer)


class Opening(TypedDict, total=False):
    """How to read an image, instead of detecting it.

    Args:
        fs: Read the image as jffs2, nilfs2, ubifs or yaffs2.
        oob_layout: Use this layout of spare areas (see `nandlab list oob-layouts`).
        ecc: Correct the data of a page with this code.
        oob: Expect spare areas, as written by nanddump --oob. Without it: detect them.
        page_size: Set the data bytes of a page: 512 or 2KiB.
        block_size: Set the data bytes of an erase block. Without it: 64 pages, or 32 pages of 512
            bytes.
        vid_hdr_offset: Set the offset of UBI's volume identifier header. Without it: read it from
            the image.
        volume: Read this UBI volume, by name. Without it: the only volume.
        profile: Follow the code of this kernel or library (see `nandlab list file-systems`).
        checkpoint: Read this checkpoint of NILFS2. Without it: the newest.

    """

    fs: str | None
    oob_layout: str | None
    ecc: Literal["hamming", "none"] | None
    oob: bool | None
    page_size: Size | None
    block_size: Size | None
    vid_hdr_offset: int | None
    volume: str | None
    profile: str | None
    checkpoint: int | None


class Making(TypedDict, total=False):
    """UBI and UBIFS in the words of mkfs.ubifs and ubinize, NILFS2 in those of mkfs.nilfs2.

    Args:
        bare: Write UBIFS without UBI, as mkfs.ubifs does.
        leb_size: Set the bytes of a logical erase block, with --bare.
        max_leb_cnt: Set the largest number of erase blocks. Without it: the number of the chip.
        jrn_size: Set the size of the journal.
        reserved: Reserve this space for root.
        space_fixup: Make the first mount repair free space that a flasher may have programmed.
        vid_hdr_offset: Set the offset of UBI's volume identifier header: a sub-page, or 2048
            without sub-pages.
        volume: Name the volume. Without it: rootfs. With --ubinize: fill this volume from --from.
        ubinize: Make all volumes of this configuration of ubinize.
        image_seq: Set the sequence number of the image. Without it: derive it from the contents.
        erase_counter: Set the erase counter of all blocks. Without it: 0.
        size: Set the bytes of the device. Without it: twice the tree, plus the reserved segments.
        blocks_per_segment: Set the blocks of 4 KiB of a segment. Without it: 2048.
        label: Set the label of the file system.
        reserved_percent: Reserve this percentage of segments for the cleaner. Without it: 5.

    """

    bare: bool
    leb_size: Size | None
    max_leb_cnt: int | None
    jrn_size: Size | None
    reserved: Size | None
    space_fixup: bool
    vid_hdr_offset: int | None
    volume: str | None
    ubinize: str | None
    image_seq: int | None
    erase_counter: int | None
    size: Size | None
    blocks_per_segment: int | None
    label: str | None
    reserved_percent: int | None


_OF_NILFS2 = ("size", "blocks_per_segment", "label", "reserved_percent")
_OF_UBIFS = tuple(name for name in Making.__annotations__ if name not in _OF_NILFS2)


def ls(
    image: str | Path, *, hashes: bool = False, escape: bool = False, **opening: Unpack[Opening]
) -> Entries:
    """List the files of an image.

    An entry that cannot be read has the type ? and is among the complaints. `text` has the columns
    of docs/images.md.

    Raises `NandlabError` for bad input, `UncertainError` for a format that is not certain.

    Args:
        image: Dump with or without spare areas, as written by nanddump, mkfs.jffs2, mkfs.ubifs,
            ubinize or mkyaffs2image; or a copy of a block device with NILFS2.
        hashes: Read the files and print their SHA-256.
        escape: Print names as one word, with %XX for spaces, %, control characters and bytes
            outside UTF-8. The form tsv always does.

    """
    from nandlab import engine

    listing = engine.call("image_list", str(image), checked(opening), hashes)
    rows = listing["rows"] if escape else [json_row(row) for row in listing["rows"]]
    damage = _complaints(image, listing["damage"])
    complaints = (*(f"{image}: {note}" for note in listing["notes"]), *damage)
    return Entries(rows, listing["rows"], listing["tsv"], complaints, is_clean=not damage)


def extract(
    image: str | Path,
    directory: str | Path,
    *,
    devices: bool | None = None,
    owners: bool | None = None,
    **opening: Unpack[Opening],
) -> Answer:
    """Extract the tree of an image into a new directory, which appears when it is complete.

    An entry that cannot be read or made is among the complaints.

    Raises `NandlabError` as `ls` does, and for a directory that exists.

    Args:
        image: Dump with or without spare areas, or a copy of a block device.
        directory: Directory to make.
        devices: Make devices, pipes and sockets. On by default for root.
        owners: Set the owners of files. On by default for root.

    """
    from nandlab import engine

    is_root = os.geteuid() == 0
    may = [is_root if choice is None else choice for choice in (devices, owners)]
    done = engine.call("image_extract", str(image), checked(opening), str(directory), *may)
    left_out = complaints = _complaints(image, done["left_out"])
    if (replaced := done["replaced"]) is not None:
        what = "an interrupted extraction had left it; it was replaced"
        complaints = (f"{replaced}: {what}", *left_out)
    return Answer(done, complaints=complaints, is_clean=not left_out)


def check(image: str | Path, **opening: Unpack[Opening]) -> Answer:
    """Check an image without writing to it: a row for each inconsistency, with its place.

    Remains of a power cut and corrected bits are notes of the answer.

    Raises `NandlabError` as `ls` does.

    Args:
        image: Dump with or without spare areas, or a copy of a block device.

    """
    from nandlab import engine

    report = engine.call("image_check", str(image), checked(opening))
    return Answer(report, report["findings"], is_clean=not report["findings"])


def info(image: str | Path, **opening: Unpack[Opening]) -> Answer:
    """Describe an image: file system, layout, blocks by state, ECC, volumes, use of space.

    Raises `NandlabError` as `ls` does.

    Args:
        image: Dump with or without spare areas, or a copy of a block device.

    """
    from nandlab import engine

    return Answer(engine.call("image_info", str(image), checked(opening)))


def diff(
    left: str | Path,
    right: str | Path,
    *,
    right_checkpoint: int | None = None,
    **opening: Unpack[Opening],
) -> Entries:
    """Compare the trees of two images by path: a row for each path that differs.

    Raises `NandlabError` as `ls` does.

    Args:
        left: First image.
        right: Second image; it may hold another file system.
        right_checkpoint: Read this checkpoint of the second image, instead of that of --checkpoint.

    """
    from nandlab import engine

    options = checked(opening)
    given = checked({"right_checkpoint": right_checkpoint})
    checkpoint = given["right_checkpoint"] or options.get("checkpoint")
    right_options = options | {"checkpoint": checkpoint}
    answer = engine.call("image_diff", str(left), str(right), options, right_options)
    differences = answer["differences"]
    complaints = [
        complaint
        for image, damage in zip((left, right), answer["damage"], strict=True)
        for complaint in _complaints(image, damage)
    ]
    return Entries(
        [json_row(one) for one in differences],
        differences,
        complaints=tuple(complaints),
        is_clean=not differences and not complaints,
    )


def make(
    image: str | Path,
    *,
    fs: str,
    source: str | Path | None = None,
    device_table: str | Path | None = None,
    squash_uids: bool = False,
    squash_perms: bool = False,
    squash: bool = False,
    pad: Size | None = None,
    size_limit: Size | None = None,
    oob: bool | None = None,
    part: str | Path | None = None,
    blocks: int | None = None,
    page_size: Size | None = None,
    profile: str | None = None,
    option: Sequence[str] = (),
    compr: Literal["none", "lzo", "zlib", "zstd"] | None = None,
    **making: Unpack[Making],
) -> Answer:
    """Make an image of a directory.

    The same tree makes the same image. No time in it is later than SOURCE_DATE_EPOCH, if that is
    set.

    Raises `NandlabError` for bad input.

    Args:
        image: File to write.
        fs: Write this file system: jffs2, nilfs2, ubifs or yaffs2.
        source: Read the tree from this directory. Optional with --ubinize.
        device_table: Set owners and devices from this file, in the format of mkfs.jffs2.
        squash_uids: Set the owner of everything to root.
        squash_perms: Clear write permission of group and others, set-uid and set-gid.
        squash: Do both --squash-uids and --squash-perms.
        pad: Fill with 0xFF to the end of a block (block), or to a size such as 16MiB.
        size_limit: Refuse to make an image with more data bytes, such as 16MiB.
        oob: Write spare areas with Linux's ECC. On by default except for ubifs, where it dumps a
            whole flashed chip.
        part: Use this chip: a name (see `nandlab list parts`) or a part file. Without it:
            nandsim-64MiB.
        blocks: Replace the number of blocks of the part.
        page_size: Replace the data bytes of a page of the part: 512 or 2KiB.
        profile: Follow the code of this kernel or library (see `nandlab list file-systems`).
        option: Set a mount option, such as compr=zlib. May be repeated.
        compr: Use this compressor. Without it: lzo for ubifs.

    """
    from nandlab import engine
    from nandlab.outputs import check_file

    chip: dict[str, Any] = {
        "pad": pad,
        "size_limit": size_limit,
        "oob": oob,
        "part": part,
        "blocks": blocks,
    }
    chip |= {"page_size": page_size, "option": option or None, "compr": compr}
    if fs != "ubifs":
        _refuse(making, _OF_UBIFS, "for --fs ubifs only")
    if fs != "nilfs2":
        _refuse(making, _OF_NILFS2, "for --fs nilfs2 only")
    else:
        _refuse(chip, chip, "for raw NAND, not for --fs nilfs2")
    if source is None and making.get("ubinize") is None:
        raise NandlabError("--from is missing; name a directory, or volumes with --ubinize")
    check_file(Path(image))
    is_padded = pad == "block"
    numbers = {"pad": None if is_padded else pad, "size_limit": size_limit, "blocks": blocks}
    numbers = checked({**numbers, "page_size": page_size})
    made = engine.call(
        "image_make",
        None if source is None else str(source),
        str(image),
        {
            **dict.fromkeys(Making.__annotations__),
            **checked(making),
            **checked({"device_table": device_table, "part": part or "nandsim-64MiB"}),
            "fs": fs,
            "squash_uids": squash or squash_uids,
            "squash_perms": squash or squash_perms,
            "pad_to_block": is_padded,
            "pad_bytes": numbers["pad"],
            "size_limit_bytes": numbers["size_limit"],
            "oob": fs != "ubifs" if oob is None else oob,
            "blocks": numbers["blocks"],
            "page_size": numbers["page_size"],
            "profile": profile,
            "options": [*option, *([f"compr={compr}"] if compr else [])],
            "source_date_epoch": _epoch(os.environ.get("SOURCE_DATE_EPOCH")),
            "bare": making.get("bare", False),
            "space_fixup": making.get("space_fixup", False),
            "erase_counter": making.get("erase_counter") or 0,
        },
    )
    return Answer({"image": str(image), **made})


def _complaints(image: str | Path, damage: Sequence[Mapping[str, str]]) -> tuple[str, ...]:
    return tuple(f"{image}: {shown_name(one['path'])}: {one['what']}" for one in damage)


def _refuse(given: Mapping[str, object], names: Iterable[str], why: str) -> None:
    """Refuses the first of some options that was given."""
    for name in names:
        if given.get(name) not in (None, False):
            raise NandlabError(f"--{name.replace('_', '-')}: the option is {why}; omit it")


def _epoch(text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isdigit() or int(text) >= 2**32:
        raise NandlabError(
            f"SOURCE_DATE_EPOCH: {text!r} is not a number of seconds; give the seconds since 1970"
        )
    return int(text)
