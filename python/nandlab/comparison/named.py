"""Parts and boards that a comparison names, and the boards that run several kernels."""

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from nandlab import data, engine
from nandlab.errors import NandlabError
from nandlab.suggest import unknown

_KERNEL_MARK = "-kernel-"
"""Stands between board and kernel in the name of a board that runs another kernel."""

_KERNEL_LINE = re.compile(r'^kernel\s*=\s*(".*?"|\'.*?\')', re.MULTILINE)

_KERNEL_WORD = re.compile(r"[0-9A-Za-z.]+")


@dataclass(frozen=True)
class Named:
    """A part or a board: one of a catalogue, or a file that goes into the folder of the study."""

    name: str
    """In the catalogue, or of the copy beside the study."""
    file: Path | None = None
    """The user's file."""
    text: str | None = None
    """Of a file that is made for the study: a board with another kernel."""


def find_part(given: str) -> Named:
    """A part's name as its catalogue writes it, or a part file."""
    return _find("--part", "part", "parts", given, Path())


def find_board(option: str, given: str, folder: Path) -> Named:
    """A board's name as its catalogue writes it, or a board file, relative to a folder."""
    return _find(option, "board", "boards", given, folder)


def kernel_of(board: Named) -> str:
    """The kernel of a board."""
    if board.file is None:
        rows = (row for row in engine.listing("boards") if row["name"] == board.name)
        return str(next(rows)["kernel"])
    try:
        return str(tomllib.loads(board.file.read_text(encoding="utf-8"))["kernel"])
    except (OSError, ValueError, KeyError) as error:
        raise NandlabError(
            f"{board.file}: `kernel` cannot be read ({error}); docs/own-board.md shows a board file"
        ) from None


_SIZES = ("blocks", "pages_per_block", "page_data_bytes", "planes")


def geometry_of(part: Named) -> dict[str, int]:
    """Numbers of blocks, pages and planes of a part, and the data bytes of a page."""
    if part.file is None:
        rows = (row for row in engine.listing("parts") if row["name"] == part.name)
        geometry = next(rows)["geometry"]
        return {key: int(geometry[key]) for key in _SIZES}
    try:
        geometry = tomllib.loads(part.file.read_text(encoding="utf-8"))["geometry"]
        return {key: int(geometry[key]) for key in _SIZES}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise NandlabError(
            f"{part.file}: [geometry] cannot be read ({error}); docs/chips.md shows a part file"
        ) from None


def block_bytes_of(part: Named) -> int:
    """Data bytes of a block of a part."""
    geometry = geometry_of(part)
    return geometry["pages_per_block"] * geometry["page_data_bytes"]


def _find(option: str, what: str, listing: str, given: str, folder: Path) -> Named:
    known = {str(row["name"]).lower(): str(row["name"]) for row in engine.listing(listing)}
    if given.lower() in known:
        return Named(known[given.lower()])
    file = folder / given
    if file.is_file():
        # A name of its own: the workload's script may be called the same.
        return Named(f"{what}-{file.name}", file)
    if file.suffix == ".toml" or len(file.parts) > 1:
        raise NandlabError(f"{option}: there is no {what} file {file}")
    raise NandlabError(
        f"{option}: {unknown(what, given.lower(), known.values())}, or name a {what} file"
    )


def find_parts(given: str) -> tuple[Named, ...]:
    """The parts that --part lists with commas."""
    return _apart("--part", (find_part(word) for word in words("--part", given)))


def find_boards(option: str, given: str, folder: Path) -> tuple[Named, ...]:
    """The boards that an option lists with commas, relative to a folder."""
    return _apart(option, (find_board(option, word, folder) for word in words(option, given)))


def words(option: str, given: str) -> list[str]:
    """What an option lists with commas; each once, none empty."""
    found = [word.strip() for word in given.split(",")]
    for word in found:
        if not word:
            raise NandlabError(f"{option} {given}: a name is missing between commas")
        if found.count(word) > 1:
            raise NandlabError(f"{option}: {word} is there twice")
    return found


def _apart(option: str, found: Iterable[Named]) -> tuple[Named, ...]:
    """Each with a name of its own: files of two folders may be called the same."""
    kept: list[Named] = []
    for one in found:
        if any(one.name == other.name and one.file == other.file for other in kept):
            raise NandlabError(f"{option}: {one.name} is there twice")
        alike = sum(other.file is not None and one.name in other.name for other in kept)
        kept.append(replace(one, name=f"{alike + 1}-{one.name}") if alike else one)
    return tuple(kept)


def with_kernel(board: Named, kernel: str) -> Named:
    """The board with another kernel, as a file that goes beside the study."""
    if not _KERNEL_WORD.fullmatch(kernel):
        raise NandlabError(f"--kernel {kernel}: no version of a kernel; write one like 6.12")
    file = board.file or data.folder("boards") / f"{board.name}.toml"
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise NandlabError(f"{file}: {error}; docs/own-board.md shows a board file") from None
    changed, count = _KERNEL_LINE.subn(f'kernel = "{kernel}"', text, count=1)
    if count != 1:
        raise NandlabError(f"{file}: `kernel` is missing; docs/own-board.md shows a board file")
    stem = board.name.removesuffix(".toml")
    return Named(f"{stem}{_KERNEL_MARK}{kernel}.toml", text=changed)


def board_and_kernel(value: str) -> tuple[str, str]:
    """Board and kernel of a value on the axis `board`; the kernel is empty if it is the board's."""
    board, mark, kernel = value.rpartition(_KERNEL_MARK)
    return (board, kernel.removesuffix(".toml")) if mark else (value.removesuffix(".toml"), "")
