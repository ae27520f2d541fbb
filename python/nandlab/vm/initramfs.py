"""Packs the first root file system of the emulated machine."""

import lzma
import re
import stat
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from nandlab.vm.kernels import Kernel
from nandlab.vm.programs import VmUnavailable, require_programs

BASE_MODULES = ("virtio_pci", "virtio_blk")
"""Modules that every machine loads: without them it has no drives."""

_DIRECTORY = stat.S_IFDIR | 0o755
_PROGRAM = stat.S_IFREG | 0o755
_SYMLINK = stat.S_IFLNK | 0o777
_MOUNT_POINTS = ("dev", "etc", "mnt", "output", "proc", "root", "run", "sys", "tmp")


@dataclass(frozen=True)
class Contents:
    """What goes into the first root file system, besides busybox.

    `modules` are kernel modules to load before the script; `available_modules` are only packed,
    for those the kernel asks for by itself. `programs` are names of programs of the host, packed
    with the libraries they need. `files` maps a path in the guest to a file of the host; a kernel
    module of one's own goes here.
    """

    modules: tuple[str, ...] = ()
    available_modules: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    files: Mapping[str, Path] = field(default_factory=dict)


class Archive:
    """A cpio archive in the `newc` form, with fixed owners and times."""

    def __init__(self) -> None:
        """Start an empty archive."""
        self._entries: dict[str, tuple[int, bytes]] = {}

    def add(self, path: str, mode: int, data: bytes = b"") -> None:
        """Add one entry, and the directories above it; a later entry replaces an earlier one."""
        pure = PurePosixPath(path.lstrip("/"))
        for parent in reversed(pure.parents[:-1]):
            self._entries.setdefault(str(parent), (_DIRECTORY, b""))
        self._entries[str(pure)] = (mode, data)

    def add_file(self, path: str, source: Path) -> None:
        """Add a file of the host, executable."""
        self.add(path, _PROGRAM, source.read_bytes())

    def add_link(self, path: str, target: str) -> None:
        """Add a symbolic link."""
        self.add(path, _SYMLINK, target.encode())

    def to_bytes(self) -> bytes:
        """Return the archive."""
        blocks = [
            _cpio_entry(number, path, mode, data)
            for number, (path, (mode, data)) in enumerate(sorted(self._entries.items()), start=1)
        ]
        return b"".join([*blocks, _cpio_entry(0, "TRAILER!!!", 0, b"")])


def _cpio_entry(number: int, path: str, mode: int, data: bytes) -> bytes:
    name = path.encode() + b"\0"
    fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name), 0)
    head = b"070701" + b"".join(b"%08X" % value for value in fields) + name
    return _pad(head) + _pad(data)


def _pad(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def build_initramfs(kernel: Kernel, contents: Contents, init: str, script: str) -> bytes:
    """Return an uncompressed initramfs that starts `init` and holds `script` as /nandlab/script.

    Raises `VmUnavailable` when a program or a module is missing.
    """
    programs = require_programs(["busybox", "depmod", "ldd", "modprobe", *contents.programs])
    archive = Archive()
    for directory in _MOUNT_POINTS:
        archive.add(directory, _DIRECTORY)
    archive.add_file("bin/busybox", programs["busybox"])
    for path in ("bin/sh", "sbin/modprobe"):
        archive.add_link(path, "/bin/busybox")
    archive.add_link("etc/mtab", "/proc/mounts")
    modules = (*BASE_MODULES, *contents.modules, *contents.available_modules)
    _add_modules(archive, kernel, modules)
    for name in contents.programs:
        archive.add_file(f"programs/{name}", programs[name])
        for library in shared_libraries(programs[name]):
            archive.add_file(str(library), library)
    for path, source in contents.files.items():
        archive.add_file(path, source)
    archive.add("nandlab/script", _PROGRAM, script.encode())
    archive.add("init", _PROGRAM, init.encode())
    return archive.to_bytes()


def shared_libraries(program: Path) -> list[Path]:
    """Return the libraries a program is linked with, the loader included."""
    listing = subprocess.run(
        ["ldd", str(program)], capture_output=True, encoding="utf-8", check=False
    )
    paths = re.findall(r"(?:=> )?(/\S+) \(0x", listing.stdout)
    return [Path(path) for path in sorted(set(paths))]


def module_files(kernel: Kernel, modules: tuple[str, ...]) -> list[Path]:
    """Return the files of modules and of all they depend on; built-in modules need none.

    Raises `VmUnavailable` when the kernel has no such module.
    """
    listings = (_dependencies(kernel, module) for module in modules)
    paths = {path for text in listings for path in re.findall(r"^insmod (\S+)", text, re.MULTILINE)}
    return [Path(path) for path in sorted(paths)]


def loadable_modules(kernel: Kernel, modules: tuple[str, ...]) -> tuple[str, ...]:
    """Return those of the modules that must be loaded, because they are not built in.

    Raises `VmUnavailable` when the kernel has no such module.
    """
    return tuple(module for module in modules if "insmod " in _dependencies(kernel, module))


def _dependencies(kernel: Kernel, module: str) -> str:
    modprobe = require_programs(["modprobe"])["modprobe"]
    done = subprocess.run(
        [modprobe, "-d", kernel.tree, "-S", kernel.release, "--show-depends", module],
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    if done.returncode != 0:
        raise VmUnavailable(f"kernel {kernel.release} has no module {module}")
    return done.stdout


def _add_modules(archive: Archive, kernel: Kernel, modules: tuple[str, ...]) -> None:
    target = f"lib/modules/{kernel.release}"
    with tempfile.TemporaryDirectory(prefix="nandlab-modules-") as scratch_name:
        scratch = Path(scratch_name)
        directory = scratch / target
        directory.mkdir(parents=True)
        for source in module_files(kernel, modules):
            data = source.read_bytes()
            if source.suffix == ".xz":
                data = lzma.decompress(data)
            (directory / source.name.removesuffix(".xz")).write_bytes(data)
        depmod = require_programs(["depmod"])["depmod"]
        subprocess.run([depmod, "-b", scratch, kernel.release], capture_output=True, check=True)
        for path in sorted(directory.iterdir()):
            archive.add_file(f"{target}/{path.name}", path)
