"""File systems of a real kernel: how the guest makes, mounts, checks and repairs each.

In a command `{disk}` stands for the disk and `{place}` for the folder it is mounted on.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class FileSystem:
    """Commands of the guest, and what it needs for them.

    `check` changes nothing; its status is 0 if the file system is consistent. `repair` changes what
    `check` complained of. `modules` are modules of the kernel, `programs` programs of the host.
    """

    name: str
    make: str
    mount: str
    check: str
    repair: str
    programs: tuple[str, ...]
    modules: tuple[str, ...]


# A guest that has just booted has hardly any randomness: to draw an identifier takes it seconds.
_IDENTIFIER = "6e616e64-6c61-6200-0000-000000000001"

# fsck.vfat complains of the dirty bit, which a cut leaves and Linux never clears by itself, and
# of a code page; these are all lines that it writes for a volume without any other fault.
_FAT_IS_CONSISTENT = (
    "fsck.fat|[Dd]irty bit|not properly unmounted|Leaving filesystem|clusters$|^ *$|conversion"
)

FILE_SYSTEMS = {
    system.name: system
    for system in (
        FileSystem(
            "btrfs",
            f"mkfs.btrfs -q -f -U {_IDENTIFIER} {{disk}}",
            "mount -t btrfs {disk} {place}",
            "btrfs check --readonly {disk}",
            "btrfs check --repair --force {disk}",
            ("mkfs.btrfs", "btrfs"),
            ("btrfs", "crc32c_generic"),
        ),
        FileSystem(
            "ext4",
            f"mkfs.ext4 -q -F -U {_IDENTIFIER} "
            f"-E hash_seed={_IDENTIFIER},lazy_itable_init=0,lazy_journal_init=0 {{disk}}",
            "mount -t ext4 {disk} {place}",
            "fsck.ext4 -fn {disk}",
            "fsck.ext4 -fy {disk}",
            ("mkfs.ext4", "fsck.ext4"),
            ("ext4", "crc32c_generic"),
        ),
        FileSystem(
            "f2fs",
            f"mkfs.f2fs -q -f -U {_IDENTIFIER} {{disk}}",
            "mount -t f2fs {disk} {place}",
            "fsck.f2fs --dry-run {disk}",
            "fsck.f2fs -f -y {disk}",
            ("mkfs.f2fs", "fsck.f2fs"),
            ("f2fs", "crc32_generic"),
        ),
        FileSystem(
            "fat",
            "mkfs.vfat {disk} > /dev/null",
            "mount -t vfat {disk} {place}",
            f"! fsck.vfat -n {{disk}} 2>&1 | grep -Ev '{_FAT_IS_CONSISTENT}'",
            "fsck.vfat -a {disk}",
            ("mkfs.vfat", "fsck.vfat"),
            ("vfat", "nls_cp437", "nls_ascii", "nls_utf8", "nls_iso8859_1"),
        ),
    )
}
