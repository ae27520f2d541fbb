"""Power cuts of served devices under a real kernel, and what its recovery finds.

The kernel runs in an emulated machine whose disks are sockets of `nandlab serve`. The power of each
device fails while the guest writes to it; the guest sees its disk die. Then the devices recover,
another machine boots, and the kernel's own recovery is compared with what was acknowledged.
"""

import re
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nandlab.api.serving import ServedDevice, serve
from nandlab.labs.found import Cut, CutFound, Written, read_console, stopped, unmade
from nandlab.labs.recipes import Recipe
from nandlab.vm import Contents, Drive, Kernel, Machine, MachineResult, VmRunError, run_machine

_TOLD = re.compile(r"^(ready|ack|end) (\d+)(?: (\d+))?$")
_CHECKED = re.compile(r"^checked \d+$")
_BOOT_DEADLINE_S, _DISK_DEADLINE_S = 300.0, 120.0
"""A boot and a disk take seconds; on a host that is busy with other work they take far longer."""

Progress = Callable[[str, int], None]
"""Takes what the machine does, and the number of disks for which that is done."""


@dataclass(frozen=True)
class Bench:
    """What all cuts have in common.

    `options` are those of `nandlab.serve`.
    """

    recipe: Recipe
    kernel: Kernel
    device: str | Path
    options: dict[str, Any] = field(default_factory=dict)

    def serve(self, place: Path, **more: Any) -> ServedDevice:
        """A fresh device at a socket file; it takes no time of the host."""
        return serve(self.device, listen=f"unix:{place}", time="none", **self.options, **more)

    def run(
        self,
        script: str,
        devices: Sequence[ServedDevice],
        folder: Path,
        watch: Callable[[str], None] | None = None,
    ) -> MachineResult:
        """Boots a machine whose disks are the devices, and runs a script in it."""
        files = {}
        for number, (path, text) in enumerate(self.recipe.workload.texts.items()):
            files[path] = folder / f"text-{number}"
            files[path].write_text(text, encoding="utf-8")
        contents = Contents(
            modules=self.recipe.system.modules, programs=self.recipe.programs, files=files
        )
        addresses = [device.addresses[0].removeprefix("unix:") for device in devices]
        drives = tuple(
            Drive(f"nbd:unix:{one}", cache="writeback", may_discard=True) for one in addresses
        )
        deadline_s = _BOOT_DEADLINE_S + _DISK_DEADLINE_S * len(devices)
        machine = Machine(self.kernel, script, deadline_s, contents, drives)
        return run_machine(machine, folder / "out", watch)


class InterruptedBatch(KeyboardInterrupt):
    """Ctrl-C while disks were checked; `found` has those that were checked to the end."""

    def __init__(self, found: list[CutFound]) -> None:
        """Keep what is known."""
        super().__init__("some disks were not checked")
        self.found = found


@dataclass
class _Disk:
    """What the console told of a disk so far."""

    device: ServedDevice
    cut_at_item: int | None
    is_ready: bool = False
    acknowledged: int = 0

    def told(self, word: str, item: int) -> None:
        """Takes a line. What the guest prints after the power has failed does not count."""
        if not self.device.status()["is_on"]:
            return
        self.is_ready |= word == "ready"
        if word == "ack":
            self.acknowledged = item
        if word == "end" or (word == "ack" and item == self.cut_at_item):
            self.device.cut()


def program_range(bench: Bench) -> tuple[int, int]:
    """Page programs from mkfs on, of a run without a cut: when it is mounted, and at its end."""
    counts: dict[str, int] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="nandlab-lab-")))
        device = stack.enter_context(bench.serve(folder / "1"))

        def watch(line: str) -> None:
            if match := _TOLD.match(line):
                _, programs, _ = device.statistics()["chip_operations"]
                counts[match[1]] = int(programs)

        console = bench.run(bench.recipe.write_script([1]), [device], folder, watch).console
    if not {"ready", "end"} <= counts.keys():
        raise VmRunError("the guest failed without a power cut", console)
    return counts["ready"], counts["end"]


def cut_batch(
    bench: Bench, cuts: Sequence[Cut], progress: Progress = lambda doing, done: None
) -> tuple[list[CutFound], dict[str, str]]:
    """Makes a disk for each cut, all in one machine, and lets another machine recover them.

    Returns what each cut left, and what the machines printed by what they did.

    Raises `VmRunError` if the guest fails before a power cut.
    """
    numbers = range(1, len(cuts) + 1)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="nandlab-lab-")))
        devices = {}
        for number, cut in zip(numbers, cuts, strict=True):
            by_chip = (cut.at, "programs") if cut.counted == "programs" else None
            device = bench.serve(folder / str(number), cut_after=by_chip)
            devices[number] = stack.enter_context(device)
        asked = dict(zip(numbers, cuts, strict=True))
        written, write_console = _write(bench, asked, devices, folder, progress)
        found, check_console = _check(bench, written, devices, folder, progress)
    consoles = {"write": write_console, "check": check_console}
    return [found[number] for number in numbers], consoles


def _write(
    bench: Bench,
    cuts: dict[int, Cut],
    devices: dict[int, ServedDevice],
    folder: Path,
    progress: Progress,
) -> tuple[dict[int, Written], str]:
    """Runs the workload until the power of all devices has failed, and gives it back."""
    disks = {
        number: _Disk(device, cuts[number].at if cuts[number].counted != "programs" else None)
        for number, device in devices.items()
    }

    def watch(line: str) -> None:
        if match := _TOLD.match(line):
            progress("write", int(match[2]) - 1)
            disks[int(match[2])].told(match[1], int(match[3] or 0))

    script = bench.recipe.write_script(list(devices))
    result = bench.run(script, list(devices.values()), folder, watch)
    written = {}
    for number, disk in disks.items():
        outage = disk.device.status()["outage"]
        if outage is None:
            raise VmRunError("the guest failed before the power did", result.console)
        written[number] = Written(
            cut=cuts[number],
            is_ready=disk.is_ready,
            acknowledged=disk.acknowledged,
            torn_operations=outage["torn_operations"],
            lost_cached_sectors=outage["lost_cached_sectors"],
            recovery=disk.device.restore(),
        )
    return written, result.console


def _check(
    bench: Bench,
    written: dict[int, Written],
    devices: dict[int, ServedDevice],
    folder: Path,
    progress: Progress,
) -> tuple[dict[int, CutFound], str]:
    """Lets a machine recover the disks; if it stops in one of them, another takes the rest."""
    found = {number: unmade(one) for number, one in written.items() if not one.is_ready}
    consoles = ""

    lines: list[str] = []

    def watch(line: str) -> None:
        lines.append(line)
        if _CHECKED.match(line):
            progress("recover", int(line.split()[1]))

    while left := [number for number in devices if number not in found]:
        # A disk has the same name in both machines, so those that are done stay connected.
        script = bench.recipe.check_script(left)
        lines.clear()
        failure: VmRunError | None = None
        try:
            console = bench.run(script, list(devices.values()), folder, watch).console
        except VmRunError as error:
            console, failure = error.console, error
        except KeyboardInterrupt:
            found |= read_console(written, "\n".join(lines))
            raise InterruptedBatch(
                [found[number] for number in devices if number in found]
            ) from None
        consoles += console
        found |= read_console({number: written[number] for number in left}, console)
        first_left = next((number for number in left if number not in found), None)
        if first_left is not None:
            # A machine that never came to the disk says nothing of it.
            if failure is not None and f"checking {first_left}" not in console.splitlines():
                raise failure
            found[first_left] = stopped(written[first_left])
    return found, consoles
