"""Tests of trace capture: parsing and checks without a boot, and one capture in the machine."""

import struct
import subprocess
from pathlib import Path

import pytest

from nandlab.capture import (
    DISK_SECTORS,
    CaptureError,
    capture_device,
    capture_workload,
    compare_figures,
    guest_script,
    parse_marker,
    summarise_trace,
    trace_records,
    verify,
)
from nandlab.capture_writers import CAPTURE_WRITERS
from nandlab.vm import VmUnavailable, find_kernel, require_programs
from nandlab.vm.file_systems import FILE_SYSTEMS
from nandlab.vm.guest_program import find_guest_program
from nandlab.vm.programs import MACHINE_PROGRAMS

READ, WRITE, FLUSH, NOTIFY, DISCARD = 1 << 16, 1 << 17, 1 << 18, 1 << 26, 1 << 29
ISSUE, COMPLETE, MESSAGE, IN_CONTROL_GROUP = 7, 8, 2, 0x100

SMALL_CAPTURE = {
    "file_system": "fat",
    "file_set": "mp3",
    "processes": 1,
    "seed": 1,
    "operations": 60,
    "versions": {"kernel": "6.12.117+deb12-amd64"},
    "counts": {"requests": 3778, "written_sectors": 432269, "distinct_written_sectors": 204792},
}
"""Figures of a stored capture of this workload."""


def record(action: int, sector: int = 0, length_sectors: int = 0, pdu: bytes = b"") -> bytes:
    """Return one binary record of a trace."""
    numbers = (0x65617407, 0, 0, sector, length_sectors * 512, action, 1, 0, 0, 0, len(pdu))
    return struct.pack("<IIQQIIIIIHH", *numbers) + pdu


def marker(operation: int) -> bytes:
    """Return the record of a marker as a 6.12 kernel writes it."""
    text = f"nandlab operation {operation}".encode()
    return record(NOTIFY | MESSAGE | IN_CONTROL_GROUP, pdu=struct.pack("<Q", 1) + text)


@pytest.mark.parametrize(
    ("message", "operation"),
    [
        (b"nandlab operation 0", 0),
        (b"nandlab operation 28500\n\0", 28500),
        (b"nandlab operation", None),
        (b"nandlab operation -1", None),
        (b"cfq operation 3", None),
        (b"\xff\xfe", None),
    ],
)
def test_marker_is_parsed(message: bytes, operation: int | None) -> None:
    assert parse_marker(message) == operation


def test_summary_counts_only_what_the_driver_was_given(tmp_path: Path) -> None:
    trace = tmp_path / "t.blktrace.0"
    trace.write_bytes(
        marker(0)
        + record(ISSUE | WRITE, 0, 8)
        + record(COMPLETE | WRITE, 0, 8)
        + record(ISSUE | READ, 100, 16)
        + record(ISSUE | READ | FLUSH)
        + marker(1)
        + record(ISSUE | WRITE | FLUSH, 4, 128)
        + record(ISSUE | WRITE | DISCARD, 0, 1000)
        + record(NOTIFY, pdu=b"mount\0\0\0")
    )
    counts = summarise_trace(trace)
    assert (counts.requests, counts.reads, counts.writes) == (3, 1, 2)
    assert (counts.flushes, counts.discards) == (1, 1)
    assert (counts.read_sectors, counts.written_sectors) == (16, 136)
    assert counts.distinct_written_sectors == 132
    assert counts.largest_request_sectors == 128
    assert (counts.last_operation, counts.markers_in_order) == (1, True)


def test_markers_out_of_order_are_seen(tmp_path: Path) -> None:
    trace = tmp_path / "t.blktrace.0"
    trace.write_bytes(marker(0) + marker(2) + marker(1))
    assert not summarise_trace(trace).markers_in_order


@pytest.mark.parametrize(("data", "reason"), [(b"x" * 48, "byte 0"), (b"x" * 10, "cut off")])
def test_a_file_that_is_no_trace_is_refused(tmp_path: Path, data: bytes, reason: str) -> None:
    trace = tmp_path / "t.blktrace.0"
    trace.write_bytes(data)
    with pytest.raises(CaptureError, match=reason):
        summarise_trace(trace)


def test_figures_are_compared_with_a_relative_tolerance() -> None:
    near, far = compare_figures(
        {"requests": 100, "reads": 100}, {"requests": 102, "reads": 97}, 0.02
    )
    assert near.agrees
    assert not far.agrees
    assert far.difference == pytest.approx(0.03)


def test_script_limits_requests_and_marks_the_start() -> None:
    script = guest_script(FILE_SYSTEMS["ntfs"], "jpg", 4, 7, 100)
    assert "echo 64 > /sys/block/nullb0/queue/max_sectors_kb" in script
    assert 'echo -n "nandlab operation 0"' in script
    assert "--set jpg --seed 7 --operations 100" in script
    assert "mount -t ntfs3" in script
    assert "--writer synced\n" in script
    assert "dirty" not in script


def test_the_lazy_writer_alone_sets_the_kernel_limits() -> None:
    lazy = CAPTURE_WRITERS["lazy"]
    script = guest_script(FILE_SYSTEMS["fat"], "jpg", 1, 1, 100, lazy)
    assert "--writer lazy --source-bytes-per-second 25000000" in script
    limits = script.index("echo 536870912 > /proc/sys/vm/dirty_bytes\n")
    assert limits < script.index("blktrace -d"), "they hold before anything is written"
    # A limit below what the disk holds would start write-out by itself.
    assert lazy.limits["dirty_background_bytes"] > 2 * DISK_SECTORS * 512


def test_unknown_names_are_refused_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="unknown file system xfs: use ext4 or fat or ntfs"):
        capture_workload("xfs", "mp3", 1, 1, tmp_path / "x")
    with pytest.raises(CaptureError, match="unknown file set wav: use jpg or mp3"):
        capture_workload("fat", "wav", 1, 1, tmp_path / "x")
    with pytest.raises(CaptureError, match="unknown writer late: use lazy or synced"):
        capture_workload("fat", "mp3", 1, 1, tmp_path / "x", writer="late")
    with pytest.raises(CaptureError, match="at least 1"):
        capture_workload("fat", "mp3", 0, 1, tmp_path / "x")


def test_recording_a_disk_refuses_what_is_no_disk(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="No such file"):
        capture_device(str(tmp_path / "none"), 1, tmp_path / "out")
    with pytest.raises(CaptureError, match="not a block device"):
        capture_device(__file__, 1, tmp_path / "out")


def test_verify_refuses_metadata_without_settings(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="lacks 'operations'"):
        verify({**dict.fromkeys(("file_system", "file_set", "processes", "seed"))}, tmp_path / "x")


def test_file_set_depends_on_its_seed_alone() -> None:
    try:
        program = find_guest_program()
    except VmUnavailable as reason:
        pytest.skip(str(reason))

    def sizes_bytes(file_set: str, seed: int) -> list[int]:
        command = [str(program), "sizes", "--set", file_set, "--seed", str(seed)]
        listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        return [int(line) for line in listing.split()]

    assert sizes_bytes("mp3", 1) == sizes_bytes("mp3", 1)
    assert sizes_bytes("mp3", 1) != sizes_bytes("mp3", 2)
    assert sum(sizes_bytes("jpg", 1)) == pytest.approx(150 << 20, rel=0.01)


def machine_or_skip(make_program: str) -> None:
    """Leave the test out if no capture can be made here, saying what is missing."""
    try:
        require_programs((*MACHINE_PROGRAMS, "blktrace", make_program))
        find_guest_program()
        find_kernel("6.12")
    except VmUnavailable as reason:
        pytest.skip(str(reason))


def test_a_small_capture_agrees_with_the_stored_one(tmp_path: Path) -> None:
    machine_or_skip("mkfs.vfat")
    seen: list[tuple[int, int]] = []
    found = verify(SMALL_CAPTURE, tmp_path / "fat", progress=lambda *done: seen.append(done))
    assert found.agrees, found
    assert seen[-1] == (60, 60)
    operations = (tmp_path / "fat.operations.tsv").read_text().splitlines()
    assert operations[0].startswith("operation\tprocess\tkind")
    assert operations[-1].startswith("60\t0\t")


@pytest.mark.parametrize(
    ("file_system", "make_program"), [("fat", "mkfs.vfat"), ("ntfs", "mkfs.ntfs")]
)
def test_a_small_lazy_capture_writes_late_and_less(
    file_system: str, make_program: str, tmp_path: Path
) -> None:
    machine_or_skip(make_program)
    metadata = capture_workload(
        file_system, "mp3", 1, 1, tmp_path / "lazy", operations=60, writer="lazy"
    )
    assert metadata["writer"]["name"] == "lazy"
    did, written = metadata["workload"], metadata["written"]["operations"]
    parts = ("lazily_written_bytes", "unwritten_bytes", "finally_synced_bytes")
    assert sum(did[part] for part in parts) == did["copied_bytes"]
    assert min(did[part] for part in parts) > 0
    # The lazy writer and the final sync write all data: the kernel's limits start nothing.
    reached_bytes = did["copied_bytes"] - did["unwritten_bytes"]
    assert written["data"]["sectors"] * 512 == pytest.approx(reached_bytes, rel=0.01)
    finally_bytes = sum(
        record.sectors * 512
        for record in trace_records(tmp_path / "lazy.blktrace.0")
        if record.kind == "writes" and record.operation == 60
    )
    assert finally_bytes >= did["finally_synced_bytes"]
    where = "tables" if file_system == "fat" else "$MFT"
    assert written[where]["requests"] > 0
