"""Media that `nandlab crash` leaves after its cuts, mounted by a real kernel.

The disk after a cut is written with `--dump` and handed to a kernel, which mounts it and reads all
files. What both show is compared name by name.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nandlab.api.scripts import crash
from tearing_lab.disks import MountedFiles, mounted_files

PAGE_BYTES, SPARE_BYTES = 2048, 64
"""A page of the chips that are cut here."""

KERNEL_NAMES = {"fat": "vfat", "nilfs2": "nilfs2"}
"""File systems by their name here, as mount(8) calls them."""

_UNREADABLE = "cannot be read"
_NO_FILE = "a directory, a link or a special file"


@dataclass(frozen=True)
class Stack:
    """A file system, and the block device under it; without one it is mtdblock on the chip."""

    fs: str
    block_device: str | None = None
    part: str = "k9f2g08u0c"
    blocks: int = 64
    pages_per_block: int = 64

    def arguments(self) -> dict[str, Any]:
        """Return what `crash` takes."""
        return {
            "fs": self.fs,
            "block_device": self.block_device,
            "part": self.part,
            "blocks": self.blocks,
            "pages_per_block": self.pages_per_block,
        }


@dataclass(frozen=True)
class Medium:
    """The disk after a cut, and what is found on it here."""

    cut_point: int
    torn: str
    image: Path
    digest: str
    found: Mapping[str, str]
    """What stands at each path, in the words of `--show`."""
    failure: str | None
    """Why nothing is found: the mount failed."""


def broken_cuts(script: Path | str, stack: Stack, every: int = 1) -> list[tuple[int, str]]:
    """Return the cuts at which a line `expect` of a script does not hold: point and torn model."""
    arguments = stack.arguments()
    if stack.block_device is None:
        # A page that was torn in part fails its code on the chip. A disk has no such code.
        arguments["torn"] = ["nothing"]
    answer = crash(script, every=every, **arguments).answer
    failures = (failure for line in answer["expectations"] for failure in line["failures"])
    return sorted({(failure["cut_point"], failure["torn"]) for failure in failures})


def medium(script: Path | str, stack: Stack, cut_point: int, torn: str, folder: Path) -> Medium:
    """Cut a script once and keep the disk."""
    image = folder / f"{stack.fs}-{cut_point}-{torn}.img"
    dump = (cut_point, image)
    cut = crash(script, show=cut_point, dump=dump, torn=[torn], **stack.arguments())
    if stack.block_device is None:
        # mtdblock shows the data of the pages, one after the other.
        chip, page = image.read_bytes(), PAGE_BYTES + SPARE_BYTES
        image.write_bytes(b"".join(chip[at : at + PAGE_BYTES] for at in range(0, len(chip), page)))
    (shown,) = cut.answer["shown"]
    found = {row["path"]: row["found"] for row in shown["rows"] if row["found"] != "nothing"}
    digest = hashlib.sha256(image.read_bytes()).hexdigest()
    return Medium(cut_point, torn, image, digest, found, shown["failure"])


def mount_all(series: str, stack: Stack, media: Sequence[Medium], out: Path) -> list[MountedFiles]:
    """Have a kernel mount each of them; equal disks are mounted once."""
    images = {medium.digest: medium.image for medium in media}
    mounted = mounted_files(series, images, KERNEL_NAMES[stack.fs], out)
    return [mounted[medium.digest] for medium in media]


def difference(ours: Medium, theirs: MountedFiles) -> str | None:
    """Where a kernel shows something else than is found here; None if nowhere."""
    if (ours.failure is None) != theirs.is_mounted:
        said = "mounts it" if theirs.is_mounted else "does not mount it"
        return f"the kernel {said}; here: {ours.failure or 'mounted'}"
    if ours.failure is not None:
        return None
    for path in sorted(ours.found.keys() | theirs.names | theirs.unreadable):
        here = ours.found.get(path, "nothing")
        # What is no file has no bytes to compare.
        here = _NO_FILE if here.startswith("a ") else here
        there = _described(path, theirs)
        if here != there:
            return f"{path}: {here}; the kernel: {there}"
    return None


def _described(path: str, mounted: MountedFiles) -> str:
    """What the kernel shows at a path, in the words of `--show`."""
    if path in mounted.unreadable:
        return _UNREADABLE
    if path not in mounted.files:
        return _NO_FILE if path in mounted.names else "nothing"
    content = mounted.files[path]
    if content is None:
        return _UNREADABLE
    size = "1 byte" if len(content) == 1 else f"{len(content)} bytes"
    return f"{size}, {check_sum(content):08x}" if content else size


def check_sum(content: bytes) -> int:
    """FNV-1a of 32 bits, as `--show` prints it."""
    number = 0x811C9DC5
    for byte in content:
        number = (number ^ byte) * 0x01000193 % (1 << 32)
    return number
