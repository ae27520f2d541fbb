"""Options of `nandlab image`: how an image is read, and what one is made like."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

from cyclopts import Parameter


@Parameter(name="*")
@dataclass(frozen=True)
class Opening:
    """How to read an image, where its bytes are not to be asked."""

    fs: str | None = None
    """jffs2, nilfs2, ubifs or yaffs2."""
    oob_layout: str | None = None
    """A name from `nandlab list oob-layouts`."""
    ecc: Literal["hamming", "none"] | None = None
    """Code over the data of a page."""
    oob: bool | None = None
    """The image has spare areas, as nanddump --oob writes it; found out if left out."""
    page_size: str | None = None
    """Data bytes of a page: 512 or 2KiB."""
    block_size: str | None = None
    """Data bytes of an erase block; 64 pages if left out, 32 small ones."""
    vid_hdr_offset: int | None = None
    """Where UBI keeps its second header, if not where the first ones say."""
    volume: str | None = None
    """Name of a volume of UBI; the only one if left out."""
    profile: str | None = None
    """Generation of the code that reads it, from `nandlab list file-systems`."""
    checkpoint: int | None = None
    """Checkpoint of NILFS2 to show; the newest if left out."""

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
    """Bytes of a logical erase block, with --bare."""
    max_leb_cnt: int | None = None
    """Erase blocks that the file system may grow to; as many as the chip has if left out."""
    jrn_size: str | None = None
    """Size of the journal."""
    reserved: str | None = None
    """Space kept for root."""
    space_fixup: Annotated[bool, Parameter(negative=())] = False
    """Have the first mount fix up space that a flasher may have programmed."""
    vid_hdr_offset: int | None = None
    """Where UBI's second header stands: a sub-page, or 2048 for chips without them."""
    volume: str | None = None
    """Name of the volume: rootfs if left out; with --ubinize, the one that --from fills."""
    ubinize: str | None = None
    """Configuration of ubinize, with all volumes."""
    image_seq: int | None = None
    """Number that tells images apart; it follows from the contents if left out."""
    erase_counter: int | None = None
    """Erase counter of all blocks; 0 if left out."""

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
    """Bytes of the device; if left out, twice what the tree takes, and the segments kept free."""
    blocks_per_segment: Annotated[int | None, Parameter(alias="-B")] = None
    """Blocks of 4 KiB of a segment: 2048 if left out."""
    label: Annotated[str | None, Parameter(alias="-L")] = None
    """Label of the file system."""
    reserved_percent: Annotated[int | None, Parameter(alias="-m")] = None
    """Segments that only the cleaner may use, percent: 5 if left out."""

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
