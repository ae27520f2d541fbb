"""Options of `nandlab image`: how an image is read, and how one is made."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

from cyclopts import Parameter


@Parameter(name="*")
@dataclass(frozen=True)
class Opening:
    """How to read an image, instead of detecting it."""

    fs: str | None = None
    """Read the image as jffs2, nilfs2, ubifs or yaffs2."""
    oob_layout: str | None = None
    """Use this layout of spare areas (see `nandlab list oob-layouts`)."""
    ecc: Literal["hamming", "none"] | None = None
    """Correct the data of a page with this code."""
    oob: bool | None = None
    """Expect spare areas, as written by nanddump --oob. Without it: detect them."""
    page_size: str | None = None
    """Set the data bytes of a page: 512 or 2KiB."""
    block_size: str | None = None
    """Set the data bytes of an erase block. Without it: 64 pages, or 32 pages of 512 bytes."""
    vid_hdr_offset: int | None = None
    """Set the offset of UBI's volume identifier header. Without it: read it from the image."""
    volume: str | None = None
    """Read this UBI volume, by name. Without it: the only volume."""
    profile: str | None = None
    """Follow the code of this kernel or library (see `nandlab list file-systems`)."""
    checkpoint: int | None = None
    """Read this checkpoint of NILFS2. Without it: the newest."""

    def for_engine(self) -> dict[str, Any]:
        """The options as the engine takes them."""
        sizes = {
            "page_size": size_of("--page-size", self.page_size),
            "block_size": size_of("--block-size", self.block_size),
            "vid_hdr_offset": natural("--vid-hdr-offset", self.vid_hdr_offset),
            "checkpoint": natural("--checkpoint", self.checkpoint, bits=64),
        }
        return {**asdict(self), **sizes}


@Parameter(name="*")
@dataclass(frozen=True)
class UbiMaking:
    """UBI and UBIFS, in the words of mkfs.ubifs and ubinize."""

    bare: Annotated[bool, Parameter(negative=())] = False
    """Write UBIFS without UBI, as mkfs.ubifs does."""
    leb_size: str | None = None
    """Set the bytes of a logical erase block, with --bare."""
    max_leb_cnt: int | None = None
    """Set the largest number of erase blocks. Without it: the number of the chip."""
    jrn_size: str | None = None
    """Set the size of the journal."""
    reserved: str | None = None
    """Reserve this space for root."""
    space_fixup: Annotated[bool, Parameter(negative=())] = False
    """Make the first mount repair free space that a flasher may have programmed."""
    vid_hdr_offset: int | None = None
    """Set the offset of UBI's volume identifier header: a sub-page, or 2048 without sub-pages."""
    volume: str | None = None
    """Name the volume. Without it: rootfs. With --ubinize: fill this volume from --from."""
    ubinize: str | None = None
    """Make all volumes of this configuration of ubinize."""
    image_seq: int | None = None
    """Set the sequence number of the image. Without it: derive it from the contents."""
    erase_counter: int | None = None
    """Set the erase counter of all blocks. Without it: 0."""

    def given(self) -> str | None:
        """The first option that was given."""
        return first_given(asdict(self))

    def for_engine(self) -> dict[str, Any]:
        """The options as the engine takes them."""
        return {
            **asdict(self),
            "leb_size": size_of("--leb-size", self.leb_size),
            "max_leb_cnt": natural("--max-leb-cnt", self.max_leb_cnt),
            "jrn_size": size_of("--jrn-size", self.jrn_size),
            "reserved": size_of("--reserved", self.reserved),
            "vid_hdr_offset": natural("--vid-hdr-offset", self.vid_hdr_offset),
            "image_seq": natural("--image-seq", self.image_seq),
            "erase_counter": natural("--erase-counter", self.erase_counter) or 0,
        }


@Parameter(name="*")
@dataclass(frozen=True)
class Nilfs2Making:
    """NILFS2, in the words of mkfs.nilfs2."""

    size: str | None = None
    """Set the bytes of the device. Without it: twice the tree, plus the reserved segments."""
    blocks_per_segment: Annotated[int | None, Parameter(alias="-B")] = None
    """Set the blocks of 4 KiB of a segment. Without it: 2048."""
    label: Annotated[str | None, Parameter(alias="-L")] = None
    """Set the label of the file system."""
    reserved_percent: Annotated[int | None, Parameter(alias="-m")] = None
    """Reserve this percentage of segments for the cleaner. Without it: 5."""

    def given(self) -> str | None:
        """The first option that was given."""
        return first_given(asdict(self))

    def for_engine(self) -> dict[str, Any]:
        """The options as the engine takes them."""
        return {
            "size": size_of("--size", self.size, bits=48),
            "blocks_per_segment": natural("--blocks-per-segment", self.blocks_per_segment),
            "label": self.label,
            "reserved_percent": natural("--reserved-percent", self.reserved_percent),
        }


def first_given(options: Mapping[str, object]) -> str | None:
    """The first option that was given, as it is written."""
    names = (name for name, value in options.items() if value not in (None, False))
    return next((f"--{name.replace('_', '-')}" for name in names), None)


def size_of(option: str, text: str | None, *, bits: int = 32) -> int | None:
    """A size with its unit, in bytes."""
    from nandlab.byte_sizes import parse_bytes

    return None if text is None else natural(option, parse_bytes(text, option), bits=bits)


def natural(option: str, value: int | None, *, bits: int = 32) -> int | None:
    """A number of at least 1 that fits in so many bits."""
    from nandlab.byte_sizes import natural_number

    return None if value is None else natural_number(option, value, bits=bits)
