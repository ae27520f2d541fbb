"""Where the metadata of FAT and NTFS lie: read from made-up volumes of a few records."""

import struct
from collections.abc import Callable

import pytest

from nandlab.volume_regions import (
    HEAD_BYTES,
    VolumeError,
    fat_regions,
    ntfs_regions,
    run_list,
    volume_regions,
)

FAT_ROOT = 4 + 2 * 20
"""First sector of the root directory: reserved sectors, then two tables of 20."""


def fat_volume(chain: tuple[int, ...] = (2, 5, 6)) -> bytearray:
    """A FAT16 volume of 4,999 clusters of four sectors; `chain` is the directory FILES."""
    head = bytearray(HEAD_BYTES)
    struct.pack_into("<HBHBHH", head, 11, 512, 4, 4, 2, 512, FAT_ROOT + 32 + 4999 * 4)
    struct.pack_into("<H", head, 22, 20)
    head[510:512] = b"\x55\xaa"
    for cluster, after in zip(chain, (*chain[1:], 0xFFFF), strict=True):
        struct.pack_into("<H", head, 4 * 512 + 2 * cluster, after)
    root = FAT_ROOT * 512
    head[root : root + 12] = b"NANDLAB    \x08"
    head[root + 32 : root + 44] = b"FILES      \x10"
    struct.pack_into("<H", head, root + 32 + 26, chain[0])
    return head


def attribute(kind: int, runs: bytes, name: str = "") -> bytes:
    """An attribute that lies outside of its record."""
    start = 64 + 2 * len(name)
    length = -(-(start + len(runs)) // 8) * 8
    head = struct.pack("<IIBBHHH", kind, length, 1, len(name), 64, 0, 0)
    head = head.ljust(32, b"\0") + struct.pack("<H", start)
    return (head.ljust(64, b"\0") + name.encode("utf-16-le") + runs).ljust(length, b"\0")


def file_name(name: str) -> bytes:
    """The attribute with the name of a file, which lies in its record."""
    value = bytes(64) + bytes([len(name), 1]) + name.encode("utf-16-le")
    length = -(-(24 + len(value)) // 8) * 8
    head = struct.pack("<IIBBHHHIH", 0x30, length, 0, 0, 24, 0, 0, len(value), 24)
    return (head.ljust(24, b"\0") + value).ljust(length, b"\0")


def record(*attributes: bytes, flags: int = 1) -> bytes:
    """A record of $MFT of 1,024 bytes, with its update sequence array."""
    body = bytearray(1024)
    struct.pack_into("<4sHH", body, 0, b"FILE", 48, 3)
    struct.pack_into("<HH", body, 20, 56, flags)
    rest = b"".join(attributes) + b"\xff\xff\xff\xff"
    body[56 : 56 + len(rest)] = rest
    body[48:50] = b"\x07\x01"
    for number, end in enumerate((510, 1022)):
        body[50 + 2 * number : 52 + 2 * number] = body[end : end + 2]
        body[end : end + 2] = b"\x07\x01"
    return bytes(body)


def ntfs_volume(**records: bytes) -> bytearray:
    """An NTFS volume of 8,000 sectors in clusters of 4 KiB; $MFT has eight of them.

    Names are `record_NUMBER`; the others are as mkfs.ntfs makes them, as far as they matter here.
    """
    head = bytearray(HEAD_BYTES)
    head[3:11] = b"NTFS    "
    struct.pack_into("<HB", head, 11, 512, 8)
    struct.pack_into("<QQQb", head, 40, 8000, 4, 500, -10)
    head[510:512] = b"\x55\xaa"
    made = {
        0: record(attribute(0x80, b"\x11\x07\x04\0"), attribute(0xB0, b"\x11\x01\x02\0")),
        1: record(attribute(0x80, b"\x21\x01\xf4\x01\0")),
        2: record(attribute(0x80, b"\x21\x40\xf5\x01\0")),
        5: record(attribute(0xA0, b"\x11\x01\x20\0", "$I30"), flags=3),
        6: record(attribute(0x80, b"\x11\x01\x21\0")),
        7: record(attribute(0x80, b"\x11\x02\x00\0")),
        8: record(attribute(0x80, b"\x02\xe8\x03\0", "$Bad")),
        9: record(attribute(0x80, b"\x11\x41\x22\0", "$SDS")),
        24: record(file_name("FILES"), attribute(0xA0, b"\x11\x02\x70\0", "$I30"), flags=3),
        25: record(file_name("FILE0001.MP3"), attribute(0x80, b"\x21\x05\xc8\x00\0")),
    }
    made |= {int(name.removeprefix("record_")): one for name, one in records.items()}
    for number, one in made.items():
        head[0x4000 + 1024 * number : 0x4000 + 1024 * (number + 1)] = one
    return head


def test_fat_has_its_tables_and_directories() -> None:
    assert volume_regions("fat", bytes(fat_volume())) == {
        "boot": ((0, 4),),
        "tables": ((4, 40),),
        "root directory": ((44, 32),),
        "directory": ((76, 4), (88, 8)),
    }


def test_ntfs_has_its_files_of_metadata() -> None:
    assert volume_regions("ntfs", bytes(ntfs_volume())) == {
        "$Boot": ((0, 16), (8000, 1)),
        "$MFT": ((16, 8), (32, 56)),
        "$MFTMirr": ((4000, 8),),
        "$LogFile": ((4008, 512),),
        "$Bitmap": ((264, 8),),
        "directory": ((256, 8), (896, 16)),
        "other": ((272, 520),),
    }


def test_bytes_below_the_update_sequence_are_put_back() -> None:
    # The third run of the second attribute begins at the last two bytes of the first sector.
    filler = attribute(0x80, b"\0".ljust(320))
    runs = attribute(0xA0, b"\x11\x01\x20\x11\x01\x10\x11\x01\x08\0")
    changed = record(filler, runs, flags=3)
    assert changed[507:513] == b"\x11\x01\x10\x07\x01\x08"
    found = ntfs_regions(bytes(ntfs_volume(record_5=changed)))
    assert found["directory"][:3] == ((256, 8), (384, 8), (448, 8))


def test_an_ext4_volume_has_no_reader() -> None:
    assert volume_regions("ext4", b"") is None


def test_runs_go_forwards_backwards_and_over_holes() -> None:
    encoded = b"\x21\x18\x34\x56\x11\x08\xfc\x01\x10\x11\x01\x05\0rest"
    assert run_list(encoded) == [(0x5634, 24), (0x5630, 8), (None, 16), (0x5635, 1)]
    assert run_list(b"\0") == []


@pytest.mark.parametrize(
    ("encoded", "reason"),
    [
        (b"", "no end"),
        (b"\x11\x07\x04", "no end"),
        (b"\x21\x07\x04", "cut off"),
        (b"\x11\x00\x04\0", "0 clusters"),
        (b"\x11\x01\xf0\0", "clusters at -16"),
    ],
)
def test_a_run_list_that_cannot_be_is_refused(encoded: bytes, reason: str) -> None:
    with pytest.raises(VolumeError, match=reason):
        run_list(encoded)


def damaged(volume: bytearray, offset: int, new: bytes) -> bytes:
    """A volume with other bytes at one place."""
    volume[offset : offset + len(new)] = new
    return bytes(volume)


@pytest.mark.parametrize(
    ("read", "head", "reason"),
    [
        (fat_regions, b"", "no boot sector"),
        (fat_regions, bytes(1024), "no boot sector"),
        (fat_regions, damaged(fat_volume(), 11, b"\0\x10"), "sectors of 4096 bytes"),
        (fat_regions, damaged(fat_volume(), 22, b"\0\0"), "is zero"),
        (fat_regions, damaged(fat_volume(), 13, b"\x40"), "no tables of FAT16"),
        (fat_regions, damaged(fat_volume(), FAT_ROOT * 512 + 32, b"\xe5"), "no directory FILES"),
        (fat_regions, bytes(fat_volume((2, 6000))), "broken chain"),
        (fat_regions, damaged(fat_volume(), 4 * 512 + 2 * 6, b"\2\0"), "broken chain"),
        (fat_regions, bytes(fat_volume()[:8192]), "first table lies behind the 8192 bytes"),
        (ntfs_regions, bytes(fat_volume()), "does not name NTFS"),
        (ntfs_regions, damaged(ntfs_volume(), 510, b"\0"), "no boot sector"),
        (ntfs_regions, damaged(ntfs_volume(), 64, b"\0"), "is zero"),
        (ntfs_regions, damaged(ntfs_volume(), 48, b"\xff\xff"), "first record of .MFT lies behind"),
        (ntfs_regions, damaged(ntfs_volume(), 0x4000, b"BAAD"), "record 0 of .MFT is damaged"),
        (ntfs_regions, damaged(ntfs_volume(), 0x4000 + 1022, b"\0"), "record 0 .* torn: sector 1"),
        (ntfs_regions, damaged(ntfs_volume(), 0x4000 + 60, b"\0\xff"), "attribute of 65"),
        (ntfs_regions, bytes(ntfs_volume(record_24=bytes(1024))), "no record of a directory FILES"),
        (
            ntfs_regions,
            bytes(ntfs_volume(record_5=record(attribute(0x20, b"\0"), flags=3))),
            "record 5 of .MFT is spread",
        ),
        (
            ntfs_regions,
            bytes(ntfs_volume(record_6=record(attribute(0x80, b"\x11\x02\x21\x11\x01\x01\0")))),
            "overlap",
        ),
    ],
)
def test_a_volume_that_cannot_be_read_is_refused_with_one_reason(
    read: Callable[[bytes], object], head: bytes, reason: str
) -> None:
    with pytest.raises(VolumeError, match=reason) as raised:
        read(head)
    assert len(str(raised.value).splitlines()) == 1
