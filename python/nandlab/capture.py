"""Captures block traces: of real file systems in an emulated machine, or of one's own disk.

`capture_workload` formats a small disk in a machine running a stock Linux kernel, fills it, copies
and deletes files at random, and records every request the driver was given. `capture_device`
records a disk of the host. `verify` makes a stored small trace again and compares the figures.

A capture is three files: STEM.blktrace.0 (the binary trace), STEM.operations.tsv (what each file
operation did) and STEM.json (the settings, versions and figures, and what was written where on the
volume).
"""

import json
import os
import re
import shutil
import stat
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from nandlab.capture_metadata import written_by_phase
from nandlab.capture_writers import CAPTURE_WRITERS, CaptureWriter
from nandlab.vm import (
    Contents,
    Kernel,
    Machine,
    VmRunError,
    children,
    find_kernel,
    require_programs,
    run_machine,
)
from nandlab.vm.file_systems import FILE_SYSTEMS, FileSystem
from nandlab.vm.guest_program import find_guest_program
from nandlab.vm.programs import find_program
from nandlab.volume_regions import HEAD_BYTES, SECTOR_BYTES, VolumeError, volume_regions

DISK_SECTORS = 204_800
LARGEST_REQUEST_SECTORS = 128
MARKER = "nandlab operation"
"""Text of the messages that tell which file operation the next requests belong to."""

OPERATIONS = {"jpg": 28_500, "mp3": 1_500}
"""Length of a full capture, by file set."""

COMPARED_FIGURES = ("requests", "written_sectors", "distinct_written_sectors")
"""What `verify` compares."""

_ICOUNT_SHIFT = 2
_DEADLINE_S = 1_800.0
_RESERVED_BYTES = 1 << 20
_LATENCY_NS = 100_000
_QUEUE_DEPTH = 32

Value = TypeVar("Value")

Progress = Callable[[int, int], None]
"""Called with the number of file operations done and the number in all."""


class CaptureError(Exception):
    """A trace could not be captured; the message says where, why and what to do."""


@dataclass(frozen=True)
class TraceCounts:
    """Figures of one trace, over the records of requests given to the driver.

    `requests` are reads and writes with data; flushes and discards are counted apart.
    `markers_in_order` is true when the operation numbers of the markers are 0, 1, 2 and so on.
    """

    requests: int
    reads: int
    writes: int
    flushes: int
    discards: int
    read_sectors: int
    written_sectors: int
    distinct_written_sectors: int
    largest_request_sectors: int
    last_operation: int
    markers_in_order: bool


def parse_marker(message: bytes) -> int | None:
    """Return the operation number in a message of a trace, or None when it is another message."""
    match = re.fullmatch(rf"{MARKER} (\d+)", message.rstrip(b"\0\n").decode("ascii", "replace"))
    return int(match[1]) if match else None


class TraceRecord(NamedTuple):
    """One record of a trace: a request given to the driver, or a marker.

    `kind` is `reads`, `writes`, `flushes`, `discards` or `marker`. `operation` is the number of the
    last marker, which is its own for a marker, and 0 before the first.
    """

    kind: str
    first_sector: int
    sectors: int
    operation: int


def trace_records(path: Path) -> Iterator[TraceRecord]:
    """The requests given to the driver and the markers of one binary blktrace file.

    The file was written on a little-endian machine. Raises `CaptureError` when it is no such trace.
    """
    data = path.read_bytes()
    offset, operation = 0, 0
    header = struct.Struct("<IIQQIIIIIHH")
    while offset < len(data):
        if len(data) - offset < header.size:
            raise CaptureError(f"{path}: the record at byte {offset} is cut off")
        magic, _, _, sector, length_bytes, action, *_, pdu_bytes = header.unpack_from(data, offset)
        if magic != 0x65617407:
            raise CaptureError(f"{path}: no blktrace record at byte {offset}")
        start = offset + header.size
        offset = start + pdu_bytes
        event, category = action & 0xFF, action >> 16
        if category & 0x400:
            # Event bit 8 says that eight bytes naming a control group stand before the message.
            message = data[start + 8 if action & 0x100 else start : offset]
            marker = parse_marker(message) if event == 2 else None
            if marker is not None:
                operation = marker
                yield TraceRecord("marker", 0, 0, operation)
            continue
        if event != 7:
            continue
        # A flush without data carries the read bit, so it is told by its length.
        if length_bytes == 0:
            yield TraceRecord("flushes", 0, 0, operation)
            continue
        kind = "discards" if category & 0x2000 else "writes" if category & 2 else "reads"
        yield TraceRecord(kind, sector, length_bytes // SECTOR_BYTES, operation)


def summarise_trace(path: Path) -> TraceCounts:
    """Count the requests of one binary blktrace file written on a little-endian machine.

    Raises `CaptureError` when the file is not such a trace.
    """
    counts = dict.fromkeys(("reads", "writes", "flushes", "discards"), 0)
    sectors = dict.fromkeys(("reads", "writes", "flushes", "discards"), 0)
    written = bytearray(DISK_SECTORS)
    markers: list[int] = []
    largest_sectors = 0
    for record in trace_records(path):
        if record.kind == "marker":
            markers.append(record.operation)
            continue
        counts[record.kind] += 1
        sectors[record.kind] += record.sectors
        if record.kind == "writes":
            end = record.first_sector + record.sectors
            written.extend(bytes(max(0, end - len(written))))
            written[record.first_sector : end] = b"\1" * record.sectors
        if record.kind != "discards":
            largest_sectors = max(largest_sectors, record.sectors)
    return TraceCounts(
        requests=counts["reads"] + counts["writes"],
        **counts,
        read_sectors=sectors["reads"],
        written_sectors=sectors["writes"],
        distinct_written_sectors=written.count(1),
        largest_request_sectors=largest_sectors,
        last_operation=markers[-1] if markers else -1,
        markers_in_order=markers == list(range(len(markers))),
    )


def capture_workload(
    file_system: str,
    file_set: str,
    processes: int,
    seed: int,
    out: Path,
    *,
    operations: int | None = None,
    writer: str = "synced",
    kernel_series: str = "6.12",
    deadline_s: float = _DEADLINE_S,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Capture the file workload on one file system and return its metadata.

    `file_system` is `ext4`, `fat` or `ntfs`; `file_set` is `jpg` or `mp3`. `processes` threads
    share `operations` file operations, by default the full length of the file set. `writer` is
    `synced` or `lazy` (see `capture_writers`). `out` is the stem of the three files that are
    written (see this module). `deadline_s` is wall-clock time.

    Raises `VmUnavailable` when something is not installed, and `CaptureError` when an argument
    is unknown, the guest fails, or the trace is not whole.
    """
    system = _named(FILE_SYSTEMS, file_system, "file system")
    full = _named(OPERATIONS, file_set, "file set")
    written_by = _named(CAPTURE_WRITERS, writer, "writer")
    total = full if operations is None else operations
    if processes < 1 or total < 1:
        raise CaptureError("processes and operations must be at least 1")
    require_programs((system.make_program, "blktrace"))
    guest_program = find_guest_program()
    kernel = find_kernel(kernel_series)
    script = guest_script(system, file_set, processes, seed, total, written_by)
    started_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="nandlab-capture-") as scratch:
        machine = Machine(
            kernel=kernel,
            script=script,
            deadline_s=deadline_s,
            contents=Contents(
                available_modules=("null_blk", *system.modules),
                programs=("blktrace", system.make_program),
                files={"programs/nandlab-guest": guest_program},
            ),
            icount_shift=_ICOUNT_SHIFT,
        )
        try:
            result = run_machine(machine, Path(scratch), _progress_lines(progress, total))
        except VmRunError as error:
            raise CaptureError(f"capture of {file_set} files on {file_system}: {error}") from error
        counts = summarise_trace(result.files["trace.blktrace.0"])
        _check_whole(counts, result.files["blktrace.txt"].read_text(encoding="utf-8"), total)
        regions = _regions_written(
            file_system, result.files["volume-head"], result.files["trace.blktrace.0"]
        )
        out.parent.mkdir(parents=True, exist_ok=True)
        for source, suffix in (
            ("trace.blktrace.0", ".blktrace.0"),
            ("operations.tsv", ".operations.tsv"),
        ):
            shutil.copyfile(result.files[source], f"{out}{suffix}")
    metadata: dict[str, Any] = {
        "file_system": file_system,
        "file_set": file_set,
        "processes": processes,
        "seed": seed,
        "operations": total,
        "writer": {"name": writer, **written_by.settings, **written_by.limits},
        "disk_sectors": DISK_SECTORS,
        "script": script,
        "machine_command": _anonymous(result.command),
        "versions": _versions(kernel, system),
        "counts": asdict(counts),
        "workload": _workload_figures(result.console),
        **regions,
        "wall_time_s": round(time.monotonic() - started_s, 1),
    }
    Path(f"{out}.json").write_text(json.dumps(metadata, indent=2) + "\n", encoding="utf-8")
    return metadata


def guest_script(
    system: FileSystem,
    file_set: str,
    processes: int,
    seed: int,
    operations: int,
    writer: CaptureWriter = CAPTURE_WRITERS["synced"],
) -> str:
    """Return what the guest runs: set up the disk, trace on, make, mount, work, trace off.

    At the end it copies the beginning of the volume, which says where the metadata lie.

    The disk lies in the guest's own memory and answers after a fixed time of the guest's clock.
    A disk outside would answer at times that depend on the load of the host, and with them the
    number of metadata writes.
    """
    return f"""modprobe null_blk nr_devices=0
mount -t configfs configfs /sys/kernel/config
disk=/sys/kernel/config/nullb/nullb0
mkdir $disk
echo {DISK_SECTORS * SECTOR_BYTES >> 20} > $disk/size
echo {SECTOR_BYTES} > $disk/blocksize
echo 1 > $disk/memory_backed
echo 4 > $disk/cache_size
echo 2 > $disk/irqmode
echo {_LATENCY_NS} > $disk/completion_nsec
echo {_QUEUE_DEPTH} > $disk/hw_queue_depth
echo 1 > $disk/power
echo {LARGEST_REQUEST_SECTORS * SECTOR_BYTES // 1024} > /sys/block/nullb0/queue/max_sectors_kb
echo mq-deadline > /sys/block/nullb0/queue/scheduler
{writer.commands}trace=/sys/kernel/debug/block/nullb0
blktrace -d /dev/nullb0 -a issue -a notify -b 1024 -n 16 -o trace -D /output \\
    > /output/blktrace.txt &
tracer=$!
tries=0
until test -e $trace/msg; do sleep 0.1; tries=$((tries + 1)); test $tries -lt 100; done
sleep 1
echo -n "{MARKER} 0" > $trace/msg
{system.make} > /dev/null
{system.mount}
mkdir /mnt/FILES
sync
cluster_bytes=$(stat -f -c %S /mnt)
capacity_bytes=$(($(stat -f -c %a /mnt) * cluster_bytes - {_RESERVED_BYTES}))
nandlab-guest run --set {file_set} --seed {seed} --operations {operations} \\
    --processes {processes} --directory /mnt/FILES --capacity-bytes $capacity_bytes \\
    --cluster-bytes $cluster_bytes --marker $trace/msg --log /output/operations.tsv \\
    --writer {writer.name}{writer.options}
sync
kill -INT $tracer
wait $tracer || true
umount /mnt
dd if=/dev/nullb0 of=/output/volume-head bs=65536 count={HEAD_BYTES // 65536} 2> /dev/null
"""


def capture_device(device: str, seconds: int, out: Path) -> tuple[Path, ...]:
    """Record the requests given to a disk of this host and return the trace files.

    `device` is a block device such as /dev/sda, `seconds` how long to record, `out` the stem of
    the files: STEM.blktrace.N, one for each processor that gave requests.

    Raises `CaptureError` when the device, the rights, the program or the kernel's debugfs is
    missing, or when events were lost.
    """
    if seconds < 1:
        raise CaptureError(f"seconds is {seconds}: record for at least 1 second")
    try:
        is_block = stat.S_ISBLK(Path(device).stat().st_mode)
    except OSError as error:
        raise CaptureError(f"{device}: {error.strerror}; name a disk such as /dev/sda") from error
    if not is_block:
        raise CaptureError(f"{device}: not a block device; name a disk such as /dev/sda")
    blktrace = find_program("blktrace")
    if blktrace is None:
        raise CaptureError("blktrace is not installed: install the Debian package blktrace")
    if os.geteuid() != 0:
        raise CaptureError(f"{device}: recording a disk needs root; run this with sudo")
    if not Path("/sys/kernel/debug/block").is_dir():
        raise CaptureError(
            "/sys/kernel/debug/block is missing: mount -t debugfs debugfs /sys/kernel/debug, "
            "on a kernel built with CONFIG_BLK_DEV_IO_TRACE"
        )
    out.parent.mkdir(parents=True, exist_ok=True)
    command = [str(blktrace), "-d", device, "-w", str(seconds), "-a", "issue", "-a", "notify"]
    command += ["-b", "1024", "-n", "16", "-o", out.name, "-D", str(out.parent)]
    done = children.run(command)
    report = done.stdout
    if done.returncode != 0 or "Total:" not in report:
        lines = report.strip().splitlines() or [f"exit status {done.returncode}"]
        raise CaptureError(f"{device}: blktrace failed: {lines[-1]}")
    _check_nothing_dropped(report)
    return tuple(sorted(out.parent.glob(f"{out.name}.blktrace.*")))


@dataclass(frozen=True)
class Comparison:
    """One figure of a stored trace and of the one made again; `difference` is relative."""

    figure: str
    stored: int
    remade: int
    difference: float
    agrees: bool


@dataclass(frozen=True)
class Verification:
    """What `verify` found; `kernel_differs` explains a difference that is nobody's fault."""

    comparisons: tuple[Comparison, ...]
    kernel_differs: bool

    @property
    def agrees(self) -> bool:
        """True when every figure agrees."""
        return all(comparison.agrees for comparison in self.comparisons)


def verify(
    stored: Mapping[str, Any],
    out: Path,
    *,
    tolerance: float = 0.02,
    kernel_series: str = "6.12",
    progress: Progress | None = None,
) -> Verification:
    """Make a stored trace again with its own settings and compare the figures.

    `stored` is the metadata of the stored trace, `out` the stem of the new one, `tolerance` the
    largest relative difference that still agrees.

    Raises what `capture_workload` raises, and `CaptureError` when `stored` lacks a setting.
    """
    try:
        names = ("file_system", "file_set", "processes", "seed", "operations")
        settings = {name: stored[name] for name in names}
        # Captures that do not name a writer were made when `synced` was the only one.
        settings["writer"] = stored["writer"]["name"] if "writer" in stored else "synced"
        release = stored["versions"]["kernel"]
        figures = {name: int(stored["counts"][name]) for name in COMPARED_FIGURES}
    except KeyError as error:
        raise CaptureError(f"the metadata of the stored trace lacks {error}") from error
    remade = capture_workload(**settings, out=out, kernel_series=kernel_series, progress=progress)
    comparisons = compare_figures(figures, remade["counts"], tolerance)
    return Verification(comparisons, remade["versions"]["kernel"] != release)


def compare_figures(
    stored: Mapping[str, int], remade: Mapping[str, int], tolerance: float
) -> tuple[Comparison, ...]:
    """Compare every figure of `stored` with the same one of `remade`."""
    comparisons = []
    for figure, expected in stored.items():
        difference = abs(remade[figure] - expected) / max(expected, 1)
        agrees = difference <= tolerance
        comparisons.append(Comparison(figure, expected, remade[figure], difference, agrees))
    return tuple(comparisons)


def _named(table: Mapping[str, Value], name: str, what: str) -> Value:
    if name not in table:
        raise CaptureError(f"unknown {what} {name}: use {' or '.join(sorted(table))}")
    return table[name]


def _progress_lines(progress: Progress | None, total: int) -> Callable[[str], None] | None:
    if progress is None:
        return None

    def on_line(line: str) -> None:
        match = re.fullmatch(r"nandlab progress (\d+)", line)
        if match:
            progress(int(match[1]), total)

    return on_line


def _check_whole(counts: TraceCounts, report: str, operations: int) -> None:
    _check_nothing_dropped(report)
    if not counts.markers_in_order or counts.last_operation != operations:
        raise CaptureError(
            f"the markers of the trace end at operation {counts.last_operation} of {operations} "
            "or are out of order: the trace is not whole; capture it again"
        )
    if counts.largest_request_sectors > LARGEST_REQUEST_SECTORS:
        raise CaptureError(
            f"a request of {counts.largest_request_sectors} sectors is in the trace, more than "
            f"{LARGEST_REQUEST_SECTORS}: this kernel ignores the limit on request size"
        )


def _regions_written(file_system: str, head: Path, trace: Path) -> dict[str, Any]:
    """Where the metadata of the volume lie, and what was written there, for the metadata file."""
    try:
        regions = volume_regions(file_system, head.read_bytes())
    except VolumeError as error:
        raise CaptureError(f"the volume of the capture: {error}") from error
    if regions is None:
        return {}
    writes = [
        (record.first_sector, record.sectors, record.operation)
        for record in trace_records(trace)
        if record.kind == "writes"
    ]
    return {"regions": regions, "written": written_by_phase(regions, writes)}


def _check_nothing_dropped(report: str) -> None:
    dropped = re.search(r"Total:.*\(dropped (\d+)\)", report)
    if dropped is None or dropped[1] != "0":
        count = dropped[1] if dropped else "an unknown number of"
        raise CaptureError(f"blktrace lost {count} events: the trace is not whole; try again")


def _workload_figures(console: str) -> dict[str, int]:
    return {name: int(value) for name, value in re.findall(r"^(\w+)=(\d+)$", console, re.M)}


def _anonymous(command: tuple[str, ...]) -> str:
    """Paths of this host say nothing about the trace."""
    return " ".join(re.sub(r"/\S*/", "", word) for word in command)


def _versions(kernel: Kernel, system: FileSystem) -> dict[str, str]:
    packages = (system.package, "blktrace", "qemu-system-x86")
    return {
        "kernel": kernel.release,
        "kernel_package": kernel.package_version,
        **{package: _package_version(package) for package in packages},
    }


def _package_version(package: str) -> str:
    query = find_program("dpkg-query")
    if query is None:
        return "unknown"
    done = subprocess.run(
        [query, "-W", "-f", "${Version}", package],
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    return done.stdout or "unknown"
