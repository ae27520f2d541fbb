"""Finds what lies where on a captured volume: metadata of FAT and of NTFS, by kind.

The regions are read from the volume as it is at the end of a capture. FAT16 is read by its boot
sector, its root directory and its first table (Microsoft, "FAT32 File System Specification", 2000).
NTFS is read by its boot sector and the run lists of the first records of `$MFT` (the layout is
that of the documentation of the Linux-NTFS project).

A region that moved or shrank before the end of the capture is not seen. The files of metadata only
grow, apart from the index of a directory, which shrinks when many entries are deleted.
"""

import struct
from collections.abc import Iterator
from itertools import pairwise

SECTOR_BYTES = 512
HEAD_BYTES = 1 << 20
"""Bytes from the beginning of a volume that are enough for the disk of a capture (100 MiB)."""

DIRECTORY = "FILES"
"""The directory that holds the files of the workload."""

DATA = "data"
"""Everything outside of the regions: the bytes of files, and clusters that are free."""

Run = tuple[int, int]
"""First sector and number of sectors."""

Regions = dict[str, tuple[Run, ...]]
"""The sectors of each kind of metadata, by its name."""

_ATTRIBUTE_LIST, _FILE_NAME, _DATA, _END = 0x20, 0x30, 0x80, 0xFFFFFFFF
_NTFS_FILES = {0: "$MFT", 1: "$MFTMirr", 2: "$LogFile", 5: "directory", 6: "$Bitmap", 7: "$Boot"}
_NTFS_OTHER = "other"
_NTFS_NAMES = ("$Boot", "$MFT", "$MFTMirr", "$LogFile", "$Bitmap", "directory", _NTFS_OTHER)
_NTFS_RESERVED_RECORDS = 16


class VolumeError(Exception):
    """The beginning of a volume does not say where its metadata lie; the message says why."""


def volume_regions(file_system: str, head: bytes) -> Regions | None:
    """The regions of a volume, from its first bytes; None for a file system without a reader.

    `file_system` is a name of a capture's file system: `fat` and `ntfs` have readers.

    Raises `VolumeError` when the bytes are no such volume, or too few of it.
    """
    reader = {"fat": fat_regions, "ntfs": ntfs_regions}.get(file_system)
    return None if reader is None else reader(head)


def fat_regions(head: bytes) -> Regions:
    """Boot sector, tables, root directory and the directory `FILES` of a FAT16 volume.

    Raises `VolumeError` when the bytes are no such volume, or too few of it.
    """
    _check_boot_sector(head, "FAT16")
    sector_bytes, cluster_sectors, reserved, tables, root_entries, small_total = struct.unpack_from(
        "<HBHBHH", head, 11
    )
    (table_sectors,) = struct.unpack_from("<H", head, 22)
    (large_total,) = struct.unpack_from("<I", head, 32)
    _check_sector_size(sector_bytes)
    if not (cluster_sectors and reserved and tables and root_entries and table_sectors):
        raise VolumeError("no FAT16 volume: a size in its boot sector is zero")
    root_first = reserved + tables * table_sectors
    root_sectors = -(-root_entries * 32 // SECTOR_BYTES)
    data_first = root_first + root_sectors
    clusters = ((small_total or large_total) - data_first) // cluster_sectors
    if not 4085 <= clusters < 65525:
        raise VolumeError(f"a FAT volume of {clusters} clusters has no tables of FAT16")
    table = _part(head, reserved * SECTOR_BYTES, table_sectors * SECTOR_BYTES, "its first table")
    root = _part(head, root_first * SECTOR_BYTES, root_entries * 32, "its root directory")
    directory: list[Run] = []
    cluster = _fat_directory(root)
    while cluster < 0xFFF8:
        if not 2 <= cluster < clusters + 2 or len(directory) > clusters:
            raise VolumeError(f"the directory {DIRECTORY} has a broken chain of clusters")
        directory.append((data_first + (cluster - 2) * cluster_sectors, cluster_sectors))
        (cluster,) = struct.unpack_from("<H", table, 2 * cluster)
    return {
        "boot": ((0, reserved),),
        "tables": ((reserved, tables * table_sectors),),
        "root directory": ((root_first, root_sectors),),
        "directory": _joined(directory),
    }


def _fat_directory(root: bytes) -> int:
    """First cluster of the directory of the workload."""
    for offset in range(0, len(root), 32):
        name, attributes = root[offset : offset + 11], root[offset + 11]
        if name == DIRECTORY.ljust(11).encode() and attributes & 0x10:
            (cluster,) = struct.unpack_from("<H", root, offset + 26)
            return int(cluster)
    raise VolumeError(f"the root directory has no directory {DIRECTORY}")


def ntfs_regions(head: bytes) -> Regions:
    """The files of metadata of an NTFS volume, by what their records in `$MFT` say.

    All attributes of a file that lie outside of its record count, so `$MFT` holds its own bitmap.
    `directory` is the index of the root directory and of `FILES`. `other` are the remaining files
    of metadata, `$Volume` to `$UpCase`.

    Raises `VolumeError` when the bytes are no such volume, or too few of it.
    """
    if head[3:11] != b"NTFS    ":
        raise VolumeError("no NTFS volume: its boot sector does not name NTFS")
    _check_boot_sector(head, "NTFS")
    sector_bytes, cluster_sectors = struct.unpack_from("<HB", head, 11)
    total_sectors, mft_cluster = struct.unpack_from("<QQ", head, 40)
    (record_size,) = struct.unpack_from("<b", head, 64)
    _check_sector_size(sector_bytes)
    if cluster_sectors == 0 or record_size == 0:
        raise VolumeError("no NTFS volume: a size in its boot sector is zero")
    cluster_bytes = cluster_sectors * SECTOR_BYTES
    record_bytes = 2**-record_size if record_size < 0 else record_size * cluster_bytes
    found: dict[str, list[Run]] = {name: [] for name in _NTFS_NAMES}
    # The copy of the boot sector lies behind the last sector that the volume counts.
    found["$Boot"].append((total_sectors, 1))
    record = _part(head, mft_cluster * cluster_bytes, record_bytes, "the first record of $MFT")
    mft = _attributes(_mended(record, 0), 0)
    offsets = _record_offsets(mft.get((_DATA, ""), []), cluster_bytes, record_bytes)
    has_directory = False
    for number, offset in offsets:
        record = head[offset : offset + record_bytes]
        # Records behind those that the head holds belong to files of the workload.
        if len(record) < record_bytes:
            break
        if not record.startswith(b"FILE"):
            continue
        (flags,) = struct.unpack_from("<H", record, 22)
        if not flags & 1:
            continue
        record = _mended(record, number)
        if number < _NTFS_RESERVED_RECORDS:
            name = _NTFS_FILES.get(number, _NTFS_OTHER)
        elif flags & 2 and _has_name(record, DIRECTORY):
            name, has_directory = "directory", True
        else:
            continue
        for runs in _attributes(record, number).values():
            found[name] += [
                (cluster * cluster_sectors, count * cluster_sectors)
                for cluster, count in runs
                if cluster is not None
            ]
    if not has_directory:
        raise VolumeError(f"$MFT has no record of a directory {DIRECTORY} within the bytes given")
    return {name: _joined(runs) for name, runs in found.items()}


def run_list(encoded: bytes) -> list[tuple[int | None, int]]:
    """Decode the runs of an attribute: first cluster, or None for a hole, and clusters.

    A run is a byte that holds the sizes of two numbers, then the number of clusters and the signed
    distance of its first cluster from that of the run before. A zero ends the list.

    Raises `VolumeError` when the list is not whole or leaves the volume.
    """
    runs: list[tuple[int | None, int]] = []
    offset, cluster = 0, 0
    while True:
        if offset >= len(encoded):
            raise VolumeError("a run list of NTFS has no end")
        count_bytes, distance_bytes = encoded[offset] & 15, encoded[offset] >> 4
        if encoded[offset] == 0:
            return runs
        middle = offset + 1 + count_bytes
        offset = middle + distance_bytes
        if offset > len(encoded):
            raise VolumeError("a run list of NTFS is cut off")
        count = int.from_bytes(encoded[middle - count_bytes : middle], "little")
        distance = int.from_bytes(encoded[middle:offset], "little", signed=True)
        cluster += distance
        if count == 0 or cluster < 0:
            raise VolumeError(f"a run list of NTFS has a run of {count} clusters at {cluster}")
        runs.append((cluster if distance_bytes else None, count))


def _attributes(record: bytes, number: int) -> dict[tuple[int, str], list[tuple[int | None, int]]]:
    """The runs of the attributes that lie outside of a record, by type and name."""
    found = {}
    for kind, attribute in _raw_attributes(record, number):
        if kind == _ATTRIBUTE_LIST:
            raise VolumeError(f"record {number} of $MFT is spread over several: it is not read")
        if not attribute[8]:
            continue
        name_length, name_offset = attribute[9], attribute[10] | attribute[11] << 8
        (runs_offset,) = struct.unpack_from("<H", attribute, 32)
        name = attribute[name_offset : name_offset + 2 * name_length].decode("utf-16-le", "replace")
        found[kind, name] = run_list(attribute[runs_offset:])
    return found


def _raw_attributes(record: bytes, number: int) -> Iterator[tuple[int, bytes]]:
    """Type and bytes of each attribute of a record."""
    (offset,) = struct.unpack_from("<H", record, 20)
    while True:
        if offset + 4 > len(record):
            raise VolumeError(f"record {number} of $MFT has no end")
        (kind,) = struct.unpack_from("<I", record, offset)
        if kind == _END:
            return
        if offset + 24 > len(record):
            raise VolumeError(f"record {number} of $MFT has no end")
        (length,) = struct.unpack_from("<I", record, offset + 4)
        if length < 24 or offset + length > len(record):
            raise VolumeError(f"record {number} of $MFT has an attribute of {length} bytes")
        yield kind, record[offset : offset + length]
        offset += length


def _has_name(record: bytes, name: str) -> bool:
    """True when one of the names of a file is this one."""
    for kind, attribute in _raw_attributes(record, -1):
        if kind == _FILE_NAME:
            (start,) = struct.unpack_from("<H", attribute, 20)
            length = attribute[start + 64]
            if attribute[start + 66 : start + 66 + 2 * length].decode("utf-16-le") == name:
                return True
    return False


def _mended(record: bytes, number: int) -> bytes:
    """A record with the last two bytes of its sectors, which lie in its update sequence array."""
    offset, entries = struct.unpack_from("<HH", record, 4)
    sectors = len(record) // SECTOR_BYTES
    if not record.startswith(b"FILE") or entries != sectors + 1:
        raise VolumeError(f"record {number} of $MFT is damaged")
    whole = bytearray(record)
    for sector in range(sectors):
        end = (sector + 1) * SECTOR_BYTES
        if whole[end - 2 : end] != record[offset : offset + 2]:
            raise VolumeError(f"record {number} of $MFT was torn: sector {sector} is another one")
        start = offset + 2 * (sector + 1)
        whole[end - 2 : end] = record[start : start + 2]
    return bytes(whole)


def _record_offsets(
    runs: list[tuple[int | None, int]], cluster_bytes: int, record_bytes: int
) -> Iterator[tuple[int, int]]:
    """Number and first byte on the volume of each record of `$MFT`."""
    number = 0
    for cluster, count in runs:
        if cluster is None:
            raise VolumeError("$MFT has a hole")
        for start in range(0, count * cluster_bytes, record_bytes):
            yield number, cluster * cluster_bytes + start
            number += 1


def _part(head: bytes, offset: int, length: int, what: str) -> bytes:
    if offset + length > len(head):
        raise VolumeError(f"{what} lies behind the {len(head)} bytes given of the volume")
    return head[offset : offset + length]


def _check_boot_sector(head: bytes, what: str) -> None:
    if len(head) < SECTOR_BYTES or head[510:512] != b"\x55\xaa":
        raise VolumeError(f"no {what} volume: its first sector is no boot sector")


def _check_sector_size(sector_bytes: int) -> None:
    if sector_bytes != SECTOR_BYTES:
        raise VolumeError(f"sectors of {sector_bytes} bytes: only those of {SECTOR_BYTES} are read")


def _joined(runs: list[Run]) -> tuple[Run, ...]:
    """Runs in order of their sectors, neighbours joined.

    Raises `VolumeError` when two overlap.
    """
    joined: list[Run] = []
    for first, count in sorted(runs):
        if joined and sum(joined[-1]) == first:
            joined[-1] = (joined[-1][0], joined[-1][1] + count)
        else:
            joined.append((first, count))
    if any(sum(one) > next_first for one, (next_first, _) in pairwise(joined)):
        raise VolumeError("two runs of one kind of metadata overlap")
    return tuple(joined)
