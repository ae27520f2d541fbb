"""Builds kernel modules for the kernels of the machine, from packages that are only unpacked."""

import fcntl
import re
import tarfile
import tempfile
from pathlib import Path

from nandlab.vm import children
from nandlab.vm.kernels import Kernel, call, download, rename_unless_there
from nandlab.vm.programs import VmUnavailable, require_programs

BUILD_PROGRAMS = ("gcc-12", "make")
"""What a build needs, besides the packages it downloads."""

_NEEDED_PACKAGE = re.compile(
    r"^(?P<name>linux-headers-\S+|linux-kbuild-\S+)(?: \((?P<relation>\S+) (?P<version>\S+)\))?$"
)


class ModuleBuildError(Exception):
    """The module does not build; `output` holds all the build printed."""

    def __init__(self, message: str, output: str) -> None:
        """Keep the output beside the message, which ends with its last lines."""
        tail = "\n".join(output.strip().splitlines()[-12:])
        super().__init__(f"{message}; the build ended with:\n{tail}")
        self.output = output


BUILD_ROOT = "build-root-2"
"""Where a kernel's build root is kept. The number goes up when more of the source is taken."""


def find_build_root(kernel: Kernel, *, may_download: bool = True) -> Path:
    """Return a directory that holds, under usr/src, what modules of a kernel are built with.

    That is the headers, the build programs they point to, and of linux-source the top Makefile, the
    headers of `block`, the style checker and what a patch that adds a scheduler changes. They are
    downloaded with apt once and kept beside the kernel.

    Raises `VmUnavailable` when apt cannot give the packages in a version that fits the kernel.
    """
    root = kernel.tree / BUILD_ROOT
    with (kernel.tree / "build-root.lock").open("w", encoding="utf-8") as lock:
        # Test processes run side by side.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not root.is_dir():
            if not may_download:
                raise VmUnavailable(f"no headers for kernel {kernel.release} in {kernel.tree}")
            _fetch(kernel, root)
    return root


def build_modules(
    kernel: Kernel, source: Path, out: Path, arguments: tuple[str, ...] = ()
) -> dict[str, Path]:
    """Build the modules in the folder `source`, such as kernel/sfq; return the files by name.

    The folder's Makefile takes KVER, ROOT and BUILD as that of kernel/sfq does, and `arguments`
    besides; nothing is written into it.

    Raises `VmUnavailable` when something to build with is missing, and `ModuleBuildError` when the
    build fails or prints a warning.
    """
    programs = require_programs(BUILD_PROGRAMS)
    root = find_build_root(kernel)
    command = [str(programs["make"]), "--no-print-directory", "-C", str(source)]
    command += [f"KVER={kernel.release}", f"ROOT={root}", f"BUILD={out.resolve()}", *arguments]
    done = children.run(command)
    if done.returncode != 0:
        raise ModuleBuildError(f"no module for kernel {kernel.release}", done.stdout)
    if re.search(r"\bwarning\b", done.stdout, re.IGNORECASE):
        raise ModuleBuildError(f"a warning for kernel {kernel.release}", done.stdout)
    built = {path.stem: path for path in sorted((out / kernel.release).glob("*.ko"))}
    if not built:
        raise ModuleBuildError(f"no module for kernel {kernel.release}", done.stdout)
    return built


def needed_packages(depends: str) -> list[str]:
    """Return what to build modules with, as apt names it, from the field Depends of the headers.

    A package that the headers need in one version gets that version behind `=`; any other comes in
    the newest one. The headers of 6.1 ask for build programs (linux-kbuild) of their version or a
    newer one. Mirrors keep the newest alone, so a kernel that was kept for weeks finds no other.
    """
    matches = (_NEEDED_PACKAGE.match(part.strip()) for part in depends.split(","))
    return [
        f"{match['name']}={match['version']}" if match["relation"] == "=" else match["name"]
        for match in matches
        if match
    ]


def _fetch(kernel: Kernel, root: Path) -> None:
    version = kernel.package_version
    series = ".".join(version.split(".")[:2])
    with tempfile.TemporaryDirectory(dir=kernel.tree, prefix="unpack-") as scratch_name:
        scratch = Path(scratch_name)
        headers = download(f"linux-headers-{kernel.release}={version}", scratch)
        depends = call(["dpkg-deb", "-f", headers.name, "Depends"], scratch)
        archives = [headers]
        archives += [download(package, scratch) for package in needed_packages(depends)]
        archives.append(download(f"linux-source-{series}={version}", scratch))
        tree = scratch / "tree"
        for archive in archives:
            call(["dpkg", "-x", archive.name, tree.name], scratch)
        tarball = tree / "usr" / "src" / f"linux-source-{series}.tar.xz"
        with tarfile.open(tarball) as source:
            wanted = re.compile(
                rf"linux-source-{re.escape(series)}/(Makefile|block/([^/]+\.h|Kconfig\.iosched|Makefile)"
                r"|Documentation/block/index\.rst"
                r"|scripts/(checkpatch\.pl|spelling\.txt|const_structs\.checkpatch))$"
            )
            members = (member for member in source if wanted.match(member.name))
            source.extractall(tarball.parent, members, filter="data")
        tarball.unlink()
        rename_unless_there(tree, root)
