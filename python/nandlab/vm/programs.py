"""Finds programs of the host, and names the Debian packages of those that are missing."""

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

PACKAGES = {
    "apt-cache": "apt",
    "apt-get": "apt",
    "bc": "bc",
    "bison": "bison",
    "blktrace": "blktrace",
    "btrfs": "btrfs-progs",
    "busybox": "busybox-static",
    "depmod": "kmod",
    "dmsetup": "dmsetup",
    "dpkg": "dpkg",
    "dpkg-deb": "dpkg",
    "fio": "fio",
    "flash_erase": "mtd-utils",
    "flex": "flex",
    "fsck.ext4": "e2fsprogs",
    "fsck.f2fs": "f2fs-tools",
    "fsck.vfat": "dosfstools",
    "gcc-12": "gcc-12",
    "ioping": "ioping",
    "ldd": "libc-bin",
    "lscp": "nilfs-tools",
    "lssu": "nilfs-tools",
    "make": "make",
    "mkfs.btrfs": "btrfs-progs",
    "mkfs.ext4": "e2fsprogs",
    "mkfs.f2fs": "f2fs-tools",
    "mkfs.nilfs2": "nilfs-tools",
    "mkfs.ntfs": "ntfs-3g",
    "mkfs.vfat": "dosfstools",
    "modprobe": "kmod",
    "nanddump": "mtd-utils",
    "nandwrite": "mtd-utils",
    "nilfs-tune": "nilfs-tools",
    "perl": "perl",
    "qemu-system-x86_64": "qemu-system-x86",
    "sqlite3": "sqlite3",
    "ubiattach": "mtd-utils",
    "ubidetach": "mtd-utils",
    "ubiformat": "mtd-utils",
    "ubimkvol": "mtd-utils",
    "udevadm": "udev",
    "zstd": "zstd",
}

MACHINE_PROGRAMS = ("busybox", "depmod", "ldd", "modprobe", "qemu-system-x86_64")
"""What every boot needs, besides a kernel."""


class VmUnavailable(Exception):  # noqa: N818
    """The emulated machine cannot be used here; the message says what is missing."""


def find_program(name: str) -> Path | None:
    """Return where a program of the host lies, or None.

    The system directories are searched too: file-system tools lie there, and an ordinary user's
    search path often lacks them.
    """
    search = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
    found = shutil.which(name, path=search)
    return Path(found) if found else None


def require_programs(names: Iterable[str]) -> dict[str, Path]:
    """Return where each named program lies.

    Raises `VmUnavailable`, naming every missing program and the Debian package that holds it.
    """
    found = {name: find_program(name) for name in names}
    missing = sorted(name for name, path in found.items() if path is None)
    if missing:
        packages = sorted({PACKAGES.get(name, name) for name in missing})
        raise VmUnavailable(
            f"the emulated machine needs programs that are not installed: {', '.join(missing)}; "
            f"install the Debian packages with: apt-get install {' '.join(packages)}"
        )
    return {name: path for name, path in found.items() if path is not None}
