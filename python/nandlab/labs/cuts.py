"""Power cuts of a served device under a real kernel, and what its recovery finds.

The kernel runs in an emulated machine whose disk is the socket of `nandlab serve`. The power of the
device fails once the guest has acknowledged so many files; the guest sees its disk die. Then the
device recovers, another machine boots, and the kernel's own recovery is compared with what was
acknowledged.
"""

import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nandlab.api.serving import ServedDevice, serve
from nandlab.labs.recipes import Recipe
from nandlab.vm import Contents, Drive, Kernel, Machine, VmRunError, run_machine

_ACK = re.compile(r"^ack (\d+)$", re.MULTILINE)
_DEADLINE_S = 300.0
_FILES_MAX = 100_000


@dataclass(frozen=True)
class CutFound:
    """What one power cut left."""

    acknowledged: int
    """Files that the guest had acknowledged when its disk died."""

    lost: tuple[int, ...]
    """Acknowledged files that are not there."""

    damaged: tuple[int, ...]
    """Acknowledged files with other bytes."""

    files: int
    """Files that are there; one may have been on its way."""

    check_status: int
    """Exit status of the checker."""

    lost_cached_sectors: int
    """Sectors that were in the device's cache, and are lost."""

    torn_operations: int
    """Dies that were in the middle of an operation."""

    recovery: Mapping[str, Any]
    """What the device's own recovery took."""

    console: str

    @property
    def is_sound(self) -> bool:
        """Nothing that was acknowledged is lost, and the checker has nothing to say."""
        return not self.lost and not self.damaged and self.check_status == 0


def cut_once(
    recipe: Recipe, kernel: Kernel, device: ServedDevice, *, after_files: int, out: Path
) -> CutFound:
    """Makes a file system on the device, cuts its power and lets the kernel recover.

    Raises `VmRunError` if the recovery itself does not come to an end.
    """
    (address,) = device.addresses
    socket = address.removeprefix("unix:")
    drive = Drive(f"nbd:unix:{socket}", cache="writeback", may_discard=True)

    def machine(script: str) -> Machine:
        contents = Contents(
            modules=recipe.modules,
            available_modules=recipe.available_modules,
            programs=recipe.programs,
        )
        return Machine(kernel, script, _DEADLINE_S, contents, (drive,))

    def watch(line: str) -> None:
        if line == f"ack {after_files}":
            device.cut()

    try:
        run_machine(machine(recipe.write_script(_FILES_MAX)), out / "write", watch)
    except VmRunError as died:
        console = died.console
    else:
        raise VmRunError("the guest never lost its disk", "")
    acknowledged = max((int(number) for number in _ACK.findall(console)), default=0)
    status = device.status()
    if status["outage"] is None:
        raise VmRunError("the guest failed before the power did", console)
    recovery = device.restore()
    found = run_machine(machine(recipe.check_script(acknowledged)), out / "check").console

    def numbers(word: str) -> tuple[int, ...]:
        return tuple(int(one) for one in re.findall(rf"^{word} (\d+)$", found, re.MULTILINE))

    return CutFound(
        acknowledged=acknowledged,
        lost=numbers("lost"),
        damaged=numbers("damaged"),
        files=sum(numbers("files")),
        check_status=max(numbers("check"), default=255),
        lost_cached_sectors=status["outage"]["lost_cached_sectors"],
        torn_operations=status["outage"]["torn_operations"],
        recovery=recovery,
        console=found,
    )


def cut_many(
    recipe: Recipe, kernel: Kernel, device: str, cuts: tuple[int, ...], **options: Any
) -> list[CutFound]:
    """A fresh device and a cut for each number of files."""
    found = []
    for after_files in cuts:
        with tempfile.TemporaryDirectory(prefix="nandlab-lab-") as folder:
            place = Path(folder)
            with serve(device, listen=f"unix:{place}/s", time="none", **options) as served:
                found.append(
                    cut_once(recipe, kernel, served, after_files=after_files, out=place / "out")
                )
    return found
