"""A raw chip in a real kernel."""

import shutil
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from nandlab.api.answer import Answer
from nandlab.byte_sizes import natural_number
from nandlab.errors import NandlabError

_PART = "nandsim-64MiB"
_ERASED_BLOCKS = 64
_CUT_MAX_BITS = 31


def serve_raw(
    image: str | Path | None = None,
    *,
    script: str | Path,
    output: str | Path,
    part: str = _PART,
    blocks: int | None = None,
    kernel: Literal["6.12", "6.1"] = "6.12",
    cut_at: int | None = None,
    torn: Literal["first-half", "nothing", "without-spare", "random-bits"] = "first-half",
    seed: int = 1,
    seconds: int = 600,
) -> Answer:
    """Run a shell script in a real kernel on a raw chip from an image.

    The chip is given back as another image. The kernel runs in an emulated machine. The chip is
    nandsim there, as /dev/mtd0. docs/raw-nand.md says what works and what cannot.

    Raises `NandlabError` for bad input, and for a machine that cannot be booted or dies.

    Args:
        image: Load this dump with spare areas into the chip. Without it: an erased chip.
        script: Run this shell script as root. It finds the chip as /dev/mtd0 and an empty folder
            /mnt.
        output: Write the chip to this file at the end, with data and spare area of every page.
        part: Use this part: k9f1g08u0a, k9f2g08u0b, k9f2g08u0c, mt29f2g08aab or
            nandsim-64MiB.
        blocks: Make a partition of so many blocks. Without it: those of the image, or 64.
        kernel: Use this kernel.
        cut_at: Cut the power in the operation of this number that changes the chip; the first one
            of the script is number 1.
        torn: Leave this of the torn operation: nothing, its first half, all but the spare area, or
            random bits.
        seed: Set the seed of the random bits.
        seconds: Set the longest time of the machine, in seconds of the host.

    """
    from nandlab.labs.raw_chip import PARTS, Chip, Cut, use
    from nandlab.suggest import unknown
    from nandlab.vm import VmRunError, VmUnavailable, find_kernel
    from nandlab.whole_files import whole_files

    if part not in PARTS:
        raise NandlabError(f"--part: {unknown('part of nandsim', part, PARTS)}")
    text = _script(Path(script))
    source = None if image is None else Path(image)
    chip = Chip(part, source, _blocks(source, blocks, part, PARTS[part].blocks))
    cut = None
    if cut_at is not None:
        number = natural_number("--cut-at", cut_at, least=1, bits=_CUT_MAX_BITS)
        cut = Cut(number, torn, natural_number("--seed", seed, least=0, bits=_CUT_MAX_BITS))
    natural_number("--seconds", seconds, least=1, bits=_CUT_MAX_BITS)
    try:
        with whole_files() as files:
            target = files.file(Path(output))
            assert target is not None
            booted = find_kernel(kernel)
            with tempfile.TemporaryDirectory(prefix="nandlab-raw-") as folder:
                found = use(chip, text, booted, cut=cut, seconds=seconds, out=Path(folder))
                shutil.move(found.image, target)
    except (VmRunError, VmUnavailable) as error:
        raise NandlabError(str(error)) from None
    answer: dict[str, Any] = asdict(found) | {"image": str(output), "kernel": booted.release}
    answer |= {"part": part, "blocks": chip.blocks, "cut_at": cut_at}
    complaints = _complaints(str(script), answer)
    return Answer(answer, complaints=complaints, is_clean=not complaints)


def _script(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise NandlabError(f"{path}: the script is not text in UTF-8") from None
    except OSError as error:
        raise NandlabError(f"{path}: {error.strerror}: name a shell script") from None


def _blocks(image: Path | None, blocks: int | None, part: str, most: int) -> int:
    """Blocks of the partition; an image fits into it."""
    from nandlab.labs.raw_chip import blocks_of

    held = 0
    if image is not None:
        try:
            held = blocks_of(image)
        except OSError as error:
            raise NandlabError(f"{image}: {error.strerror}: name a dump of a chip") from None
        except ValueError as error:
            raise NandlabError(f"{image}: {error}") from None
    if blocks is not None:
        natural_number("--blocks", blocks, least=1, bits=_CUT_MAX_BITS)
    wanted = blocks or held or _ERASED_BLOCKS
    if wanted < held:
        raise NandlabError(
            f"--blocks {wanted}: the image has {held} blocks; leave the option out, or name more"
        )
    if wanted > most:
        raise NandlabError(
            f"{image or f'--blocks {wanted}'}: {wanted} blocks are too many: {part} has {most}; "
            "choose another --part"
        )
    return wanted


def _complaints(script: str, answer: dict[str, Any]) -> tuple[str, ...]:
    """What did not go as it was asked for."""
    found = []
    if answer["status"]:
        found.append(f"{script}: the script ended with status {answer['status']}")
    if answer["still_used"]:
        found.append(
            f"{script}: the chip was read while it was in use by "
            f"{', '.join(answer['still_used'])}: unmount and detach at the end of the script"
        )
    if answer["cut_at"] is not None and answer["torn_kind"] is None:
        found.append(
            f"--cut-at {answer['cut_at']}: the script changed the chip {sum(answer['counts'])} "
            "times, so that nothing was torn"
        )
    return tuple(found)
