"""How many bytes a file system of a real kernel writes, and what a layer makes of them.

The same calls run on each file system, on a served device. Three counts follow: the bytes that the
calls write, the bytes that the file system writes to the device, and the pages that the layer
programs. Their quotients are the amplification of the file system and that of the layer.
"""

import random
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nandlab.api.serving import ServedDevice, serve
from nandlab.labs.file_systems import FileSystem
from nandlab.labs.request_logs import Client, requests
from nandlab.vm import Contents, Drive, Kernel, Machine, run_machine
from nandlab.vm.guest_program import find_guest_program

_DEADLINE_S = 3600.0
_LOG_BYTES = 4096
_SMALL_BYTES = (1000, 24_000)
_TEXT = "t"
"""Kind of the bytes: words. No file system here compresses them without being told to."""


@dataclass(frozen=True)
class Calls:
    """Scripts of system calls (docs/scripts.md): what is there before, and what is counted."""

    before: str
    counted: str
    application_bytes: int
    """Bytes that the calls of `counted` write."""


def logger(
    *, appends: int, small_files: int, cold_mebibytes: int, rotate_after: int, seed: int
) -> Calls:
    """A program that logs, keeps small files and deletes some.

    Each append writes 4 KiB and is synced. The log is renamed over the older one after
    `rotate_after` appends. After each second append a small file, drawn at random, is written anew
    and synced. After each eighth one it is deleted first. Cold files are written once before.
    """
    drawn = random.Random(seed)
    before = ["mkdir s 755", f"putn cold 0 {cold_mebibytes} 644 1m 64k {_TEXT} 1"]
    before += [_put(drawn, number)[0] for number in range(small_files)]
    counted = ["put log 644 0 4096 z 0 fsync"]
    application_bytes = 0
    for turn in range(1, appends + 1):
        counted.append(f"append log {_LOG_BYTES} {_LOG_BYTES} {_TEXT} {turn} fsync")
        application_bytes += _LOG_BYTES
        if turn % rotate_after == 0:
            counted += ["rename log log.1", "put log 644 0 4096 z 0 fsync"]
        if turn % 2 == 0:
            number = drawn.randrange(small_files)
            if turn % 8 == 0:
                counted.append(f"unlink s/{number}")
            line, length = _put(drawn, number)
            counted.append(f"{line} fsync")
            application_bytes += length
    return Calls("\n".join(before) + "\n", "\n".join(counted) + "\n", application_bytes)


def _put(drawn: random.Random, number: int) -> tuple[str, int]:
    """The line that writes a small file, and its bytes."""
    length = drawn.randint(*_SMALL_BYTES)
    return f"put s/{number} 644 {length} 4096 {_TEXT} {drawn.randint(1, 1 << 30)}", length


@dataclass(frozen=True)
class Counted:
    """What the calls of one run cost, from before the mount to after the unmount."""

    application_bytes: int
    read_bytes: int
    """Bytes that the file system read from the device."""

    written_bytes: int
    """Bytes that the file system wrote to the device."""

    writes: int
    flushes: int
    page_reads: int
    programs: int
    erases: int

    def file_system_amplification(self) -> float:
        """Bytes written to the device over bytes that the application wrote."""
        return self.written_bytes / self.application_bytes

    def layer_amplification(self, page_bytes: int) -> float:
        """Bytes that were programmed over bytes written to the device."""
        return self.programs * page_bytes / self.written_bytes

    def product(self, page_bytes: int) -> float:
        """Bytes that were programmed over bytes that the application wrote."""
        return self.programs * page_bytes / self.application_bytes


@dataclass(frozen=True)
class Recording:
    """The requests of a file system, as a log of `nandlab serve`."""

    log: Path
    counted_from: int
    """Byte of the log at which the counted calls begin."""


def record(
    system: FileSystem, kernel: Kernel, device: str | Path, calls: Calls, log: Path, **options: Any
) -> tuple[Recording, Counted]:
    """Carry the calls out on a fresh file system on a fresh device; `options` go to `serve`.

    Making the file system and its first files is not counted. The device has no discards, as a
    card without TRIM: what is deleted stays valid for the layer.

    Raises `VmUnavailable` when something for the machine is missing, and `VmRunError` when a call
    fails.
    """
    mount = system.mount.format(disk=_DISK, place="/mnt")
    with tempfile.TemporaryDirectory(prefix="nandlab-lab-") as folder:
        place = Path(folder)
        listen = f"unix:{place}/s"
        with serve(device, listen=listen, time="none", log=log, **options) as served:
            make = f"{system.make.format(disk=_DISK)}\n{mount}\n{_CALLS}"
            _run(system, kernel, served, make, calls.before, place / "make")
            before = served.statistics()
            # A request is in the file before its answer leaves.
            counted_from = log.stat().st_size
            _run(system, kernel, served, f"{mount}\n{_CALLS}", calls.counted, place / "work")
            counted = _difference(calls, before, served.statistics())
    return Recording(log, counted_from), counted


def carry_out(recording: Recording, device: str | Path, calls: Calls, **options: Any) -> Counted:
    """Give a fresh device the requests of a recording, one at a time; `options` go to `serve`.

    The counts are those of the kernel's own run on that device if its layer does nothing while it
    idles: replies that leave at once tell the kernel nothing of the layer.
    """
    with tempfile.TemporaryDirectory(prefix="nandlab-lab-") as folder:
        path = f"{folder}/s"
        with serve(device, listen=f"unix:{path}", time="none", **options) as served:
            client = Client(path)
            for request in requests(recording.log, end=recording.counted_from):
                client.carry_out(request)
            before = served.statistics()
            for request in requests(recording.log, begin=recording.counted_from):
                client.carry_out(request)
            after = served.statistics()
            client.close()
            return _difference(calls, before, after)


_DISK = "/dev/vda"
"""The first drive of a machine."""

_CALLS = """umask 0
nandlab-guest calls --file /calls --directory /mnt --failures /output/failures
if [ -s /output/failures ]; then head -n 3 /output/failures; exit 1; fi
umount /mnt
"""


def _run(
    system: FileSystem, kernel: Kernel, served: ServedDevice, script: str, calls: str, out: Path
) -> None:
    out.mkdir(parents=True)
    file = out / "calls"
    file.write_text(calls, encoding="utf-8")
    (address,) = served.addresses
    contents = Contents(
        modules=system.modules,
        programs=system.programs,
        files={"programs/nandlab-guest": find_guest_program(), "calls": file},
    )
    drive = Drive(f"nbd:{address}", cache="writeback")
    # On a busy host the emulated timer may be late, and the kernel takes it for a broken one.
    machine = Machine(
        kernel, script, _DEADLINE_S, contents, (drive,), kernel_arguments="no_timer_check"
    )
    run_machine(machine, out)


def _difference(calls: Calls, before: Mapping[str, Any], after: Mapping[str, Any]) -> Counted:
    def grown(*keys: str | int) -> int:
        old: Any = before
        new: Any = after
        for key in keys:
            old, new = old[key], new[key]
        return int(new - old)

    return Counted(
        application_bytes=calls.application_bytes,
        read_bytes=grown("totals", "bytes", 0),
        written_bytes=grown("totals", "bytes", 1),
        writes=grown("totals", "requests", 1),
        flushes=grown("totals", "requests", 2),
        page_reads=grown("chip_operations", 0),
        programs=grown("chip_operations", 1),
        erases=grown("chip_operations", 2),
    )
