"""The file systems the machine can make and mount, with every identifier and time fixed."""

from dataclasses import dataclass


@dataclass(frozen=True)
class FileSystem:
    """How the guest makes and mounts one file system.

    `make` and `mount` are commands of the guest with every identifier and time fixed;
    the disk is the `null_blk` device that a capture sets up.
    """

    name: str
    make: str
    mount: str
    make_program: str
    package: str
    modules: tuple[str, ...]


FILE_SYSTEMS = {
    system.name: system
    for system in (
        FileSystem(
            "ext4",
            "mkfs.ext4 -q -F -m 0 -U 6e616e64-6c61-6200-0000-000000000001 "
            "-E hash_seed=6e616e64-6c61-6200-0000-000000000002,"
            "lazy_itable_init=0,lazy_journal_init=0 /dev/nullb0",
            "mount -t ext4 /dev/nullb0 /mnt",
            "mkfs.ext4",
            "e2fsprogs",
            ("ext4", "crc32c_generic"),
        ),
        FileSystem(
            "fat",
            "mkfs.vfat --invariant -n NANDLAB /dev/nullb0",
            "mount -t vfat /dev/nullb0 /mnt",
            "mkfs.vfat",
            "dosfstools",
            ("vfat", "nls_cp437", "nls_ascii", "nls_utf8", "nls_iso8859_1"),
        ),
        FileSystem(
            "ntfs",
            "mkfs.ntfs -q -Q -F -T -L NANDLAB /dev/nullb0",
            "mount -t ntfs3 /dev/nullb0 /mnt",
            "mkfs.ntfs",
            "ntfs-3g",
            ("ntfs3", "nls_utf8"),
        ),
    )
}
