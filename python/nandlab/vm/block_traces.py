"""Bios of scripts of system calls as a real kernel makes them: blktrace in the machine."""

import re
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from nandlab.vm.guest_program import find_guest_program
from nandlab.vm.initramfs import Contents
from nandlab.vm.kernels import find_kernel
from nandlab.vm.machine import Drive, Machine, run_machine
from nandlab.vm.programs import MACHINE_PROGRAMS, require_programs

_HEAD = "line\tprocess\trwbs\tsector\tsectors\tbios"

_PROGRAMS = ("blktrace", "mkfs.nilfs2", "nilfs-tune")
_DEADLINE_S = 600.0
_SECTOR_BYTES = 512
_RECORD = struct.Struct("<IIQQIIIIIHH")
_MAGIC = 0x65617407
_QUEUE, _PROCESS, _MESSAGE = 1, 0, 2
_HAS_CONTROL_GROUP = 0x100
# Bits of `enum blktrace_cat`, shifted down by 16 as they stand in a record's action.
_WRITE, _FLUSH, _SYNC, _NOTIFY = 0x2, 0x4, 0x8, 0x400
_AHEAD, _META, _DISCARD, _FUA = 0x800, 0x1000, 0x2000, 0x8000


class TraceError(Exception):
    """A trace is not whole."""


@dataclass(frozen=True)
class Bio:
    """A bio as it was queued: the script's line, who asked, blkparse's letters, and the place."""

    line: int
    process: str
    rwbs: str
    sector: int
    sectors: int


@dataclass(frozen=True)
class Disk:
    """The disk of a script, from its first line: `# mebibytes=N segment_blocks=N interval_s=N`.

    `interval_s` is the time from a change to the checkpoint that the timer makes.
    """

    mebibytes: int
    segment_blocks: int
    interval_s: int

    @classmethod
    def of_script(cls, text: str) -> "Disk":
        """Read it from the script."""
        pairs = re.findall(r"(\w+)=(\d+)", text.partition("\n")[0])
        return cls(**{name: int(value) for name, value in pairs})


def require_bio_traces(kernel_series: str = "6.12") -> None:
    """Raise `VmUnavailable` when something that `trace_bios` needs is not installed."""
    require_programs((*MACHINE_PROGRAMS, *_PROGRAMS))
    find_kernel(kernel_series)
    find_guest_program()


def trace_bios(
    scripts: Mapping[str, Path], out: Path, kernel_series: str = "6.12"
) -> dict[str, list[Bio]]:
    """Carry scripts out on NILFS2 over virtio-blk, each on a disk of its own; return the bios.

    The flusher sleeps, and each disk says how often the file system's own timer makes a checkpoint,
    so that a slow host adds none.

    Raises `VmUnavailable`, `VmRunError`, and `TraceError` for a trace with events missing.
    """
    require_bio_traces(kernel_series)
    out.mkdir(parents=True, exist_ok=True)
    drives = []
    commands = ["umask 0", "echo 360000 > /proc/sys/vm/dirty_writeback_centisecs"]
    for number, (name, script) in enumerate(scripts.items()):
        disk = Disk.of_script(script.read_text(encoding="utf-8"))
        image = out / f"{name}.img"
        with image.open("wb") as file:
            file.truncate(disk.mebibytes << 20)
        drives.append(Drive(str(image)))
        commands.append(_guest_commands(name, disk, f"vd{chr(ord('a') + number)}"))
    machine = Machine(
        find_kernel(kernel_series),
        "\n".join(commands),
        _DEADLINE_S,
        Contents(
            available_modules=("nilfs2",),
            programs=_PROGRAMS,
            files={
                "programs/nandlab-guest": find_guest_program(),
                **{f"{name}.ops": script for name, script in scripts.items()},
            },
        ),
        tuple(drives),
        kernel_arguments="no_timer_check",
    )
    files = run_machine(machine, out / "files").files
    for drive in drives:
        Path(drive.url).unlink()
    traces = {}
    for name in scripts:
        report = files[f"{name}.blktrace.txt"].read_text(encoding="utf-8")
        if not re.search(r"Total:.*\(dropped 0\)", report):
            raise TraceError(f"{name}: blktrace lost events: {report.strip()}")
        traces[name] = read_bios(files[f"{name}.blktrace.0"])
    return traces


def _guest_commands(name: str, disk: Disk, device: str) -> str:
    trace = f"/sys/kernel/debug/block/{device}"
    return f"""
mkfs.nilfs2 -q -K -b 4096 -B {disk.segment_blocks} /dev/{device}
nilfs-tune -i {disk.interval_s} /dev/{device} > /dev/null
blktrace -d /dev/{device} -a queue -a notify -b 1024 -n 16 -o {name} -D /output \\
    > /output/{name}.blktrace.txt &
tracer=$!
until test -e {trace}/msg; do sleep 0.1; done
sleep 0.2
nandlab-guest block-script --file /{name}.ops --fs nilfs2 --device /dev/{device} \\
    --mount-point /mnt --marker {trace}/msg
kill -INT $tracer
wait $tracer || true
"""


def read_bios(path: Path) -> list[Bio]:
    """Read the queued bios of a binary blktrace file that a guest's script wrote."""
    data = path.read_bytes()
    bios: list[Bio] = []
    processes: dict[int, str] = {}
    pids: list[int] = []
    line, offset = 0, 0
    while offset < len(data):
        magic, _, _, sector, length_bytes, action, pid, _, _, _, extra = _RECORD.unpack_from(
            data, offset
        )
        if magic != _MAGIC:
            raise TraceError(f"{path}: no blktrace record at byte {offset}")
        start = offset + _RECORD.size
        offset = start + extra
        event, category = action & 0xFF, action >> 16
        if category & _NOTIFY:
            start += 8 if action & _HAS_CONTROL_GROUP else 0
            text = data[start:offset].rstrip(b"\0\n").decode("ascii", "replace")
            if event == _PROCESS:
                processes[pid] = text
            elif event == _MESSAGE and (marker := re.fullmatch(r"nandlab line (\d+)", text)):
                line = int(marker[1])
        elif event == _QUEUE:
            sectors = length_bytes // _SECTOR_BYTES
            bios.append(Bio(line, str(pid), letters(category, length_bytes), sector, sectors))
            pids.append(pid)
    return [
        Bio(bio.line, processes.get(pid, "?"), bio.rwbs, bio.sector, bio.sectors)
        for bio, pid in zip(bios, pids, strict=True)
    ]


def letters(category: int, length_bytes: int) -> str:
    """Return what blkparse writes for a record (`fill_rwbs`)."""
    operation = "D" if category & _DISCARD else "W" if category & _WRITE else "R"
    return "".join(
        letter
        for letter, is_set in (
            ("F", category & _FLUSH),
            (operation if length_bytes or category & _WRITE else "N", True),
            ("F", category & _FUA),
            ("A", category & _AHEAD),
            ("S", category & _SYNC),
            ("M", category & _META),
        )
        if is_set
    )


def to_table(bios: Iterable[Bio]) -> str:
    """Return bios as text. Those of one size that stand one behind the other share a row.

    A row has the sectors of all its bios, and how many they are.
    """
    rows: list[tuple[Bio, int]] = []
    for bio in bios:
        if rows and bio.sectors:
            first, count = rows[-1]
            if bio == replace(first, sector=first.sector + count * first.sectors):
                rows[-1] = (first, count + 1)
                continue
        rows.append((bio, 1))
    lines = [
        f"{first.line}\t{first.process}\t{first.rwbs}\t{first.sector}\t"
        f"{first.sectors * count}\t{count}"
        for first, count in rows
    ]
    return "\n".join([_HEAD, *lines]) + "\n"


def from_table(table: str) -> list[Bio]:
    """Return the bios of a text that `to_table` wrote."""
    bios = []
    for row in table.splitlines()[1:]:
        line, process, rwbs, *numbers = row.split("\t")
        first, sectors, count = map(int, numbers)
        each = sectors // count
        bios += [
            Bio(int(line), process, rwbs, first + index * each, each) for index in range(count)
        ]
    return bios
