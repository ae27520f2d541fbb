"""Small kernels that look for faults while they run: built once from Debian's sources."""

import fcntl
import json
import re
import tempfile
from functools import cache
from pathlib import Path

import pytest
from kernel_lab import SOURCE

from nandlab.vm import Kernel, VmUnavailable, find_kernel, require_programs
from nandlab.vm.kernels import cache_directory, call, download, rename_unless_there
from nandlab.vm.modules import BUILD_PROGRAMS, BUILD_ROOT
from nandlab.vm.programs import MACHINE_PROGRAMS

PROGRAMS = (*MACHINE_PROGRAMS, *BUILD_PROGRAMS, "bc", "bison", "fio", "flex", "perl")

MODULE_ARGUMENTS = ("CC=gcc-12",)
"""For a module of these kernels: another name of the same compiler is warned of."""


@cache
def debug_kernel_or_skip(series: str, kind: str) -> Kernel:
    """Return a kernel of a series that looks for faults, built with the first call.

    `kind` is a configuration of kernel/sfq/tests: `kasan` for memory, locks and sleep, `kcsan` for
    data races. A build takes some ten minutes on two processors, and 1 GB of the cache.
    """
    try:
        require_programs(PROGRAMS)
        return _find(find_kernel(series), series, kind)
    except VmUnavailable as reason:
        pytest.skip(str(reason))


def _find(stock: Kernel, series: str, kind: str) -> Kernel:
    # The version that Debian ships now: its source has the fixes that its kernel has.
    cached = cache_directory().parent / "debug-kernels"
    cached.mkdir(parents=True, exist_ok=True)
    target = cached / f"{stock.package_version}-{kind}"
    with (cached / f"{kind}.lock").open("w", encoding="utf-8") as lock:
        # Test processes run side by side.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.is_dir():
            _build(stock, series, kind, target)
    record = json.loads((target / "kernel.json").read_text(encoding="utf-8"))
    return Kernel(record["release"], record["package_version"], target / "image", target)


def _build(stock: Kernel, series: str, kind: str, target: Path) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="build-") as scratch_name:
        scratch = Path(scratch_name)
        archive = download(f"linux-source-{series}={stock.package_version}", scratch)
        call(["dpkg", "-x", archive.name, "package"], scratch)
        source = scratch / "package" / "usr" / "src" / f"linux-source-{series}.tar.xz"
        tree = scratch / "kernel"
        call([str(SOURCE / "tests" / "debug-kernel.sh"), kind, str(source), str(tree)], scratch)
        release = (tree / "release").read_text(encoding="utf-8").strip()
        packages = tree / BUILD_ROOT / "usr" / "src"
        packages.mkdir(parents=True)
        # One tree is both what Debian has in two packages.
        for name in (f"linux-headers-{release}", f"linux-source-{series}"):
            (packages / name).symlink_to("../../../source")
        record = {"release": release, "package_version": stock.package_version}
        (tree / "kernel.json").write_text(json.dumps(record) + "\n", encoding="utf-8")
        rename_unless_there(tree, target)


def complaints(console: str) -> list[str]:
    """Return what the kernel said in the console of a script that its complaints have ended."""
    return re.findall(r"^.*(?:BUG|WARNING|UBSAN|ODEBUG).*$", console, re.MULTILINE)
