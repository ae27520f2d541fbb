"""What the tests of the kernel module share: kernels, builds, and scripts run in the machine."""

import atexit
import shutil
import subprocess
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import pytest

from nandlab.vm import (
    Contents,
    Kernel,
    Machine,
    MachineResult,
    VmUnavailable,
    build_modules,
    find_build_root,
    find_kernel,
    require_programs,
    run_machine,
)
from nandlab.vm.programs import MACHINE_PROGRAMS

SOURCE = Path(__file__).parents[2] / "kernel" / "sfq"
SERIES = ("6.1", "6.12")
MODULES = ("bfq", "configfs", "kyber-iosched", "null_blk")
ICOUNT_SHIFT = 1
"""The guest's clock counts instructions, 2 ns each: nothing that a scheduler decides, and no limit
in a script, then depends on how busy the host is."""


@cache
def _kernel(series: str) -> Kernel | VmUnavailable:
    try:
        require_programs((*MACHINE_PROGRAMS, "fio", "ioping"))
        return find_kernel(series)
    except VmUnavailable as reason:
        return reason


def kernel_or_skip(series: str) -> Kernel:
    """Return a kernel to boot, or leave the test out, saying what is missing."""
    kernel = _kernel(series)
    if isinstance(kernel, VmUnavailable):
        pytest.skip(str(kernel))
    return kernel


def laboratory_or_skip() -> None:
    """Leave the test out where a study cannot be carried out in a kernel."""
    try:
        require_programs((*MACHINE_PROGRAMS, "gcc-12", "make"))
        find_build_root(find_kernel("6.12"))
    except VmUnavailable as reason:
        pytest.skip(str(reason))


def build_root_or_skip(kernel: Kernel) -> Path:
    """Return what modules are built with, or leave the test out."""
    try:
        return find_build_root(kernel)
    except VmUnavailable as reason:
        pytest.skip(str(reason))


@cache
def _unpatched_modules(kernel: Kernel) -> dict[str, Path] | VmUnavailable:
    """The modules as they are shipped: one build a kernel for all tests of a worker."""
    scratch = Path(mkdtemp(prefix="nandlab-modules-"))
    atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    try:
        return build_modules(kernel, SOURCE, scratch / "build", ("SFQ_TESTS=m",))
    except VmUnavailable as reason:
        return reason


def modules_or_skip(kernel: Kernel) -> dict[str, Path]:
    """The scheduler and the disk of its tests as they are shipped; left out where none builds."""
    modules = _unpatched_modules(kernel)
    if isinstance(modules, VmUnavailable):
        pytest.skip(str(modules))
    return modules


def build_or_skip(
    kernel: Kernel, out: Path, source: Path = SOURCE, arguments: tuple[str, ...] = ()
) -> dict[str, Path]:
    """Build the scheduler and the disk of its tests, or leave the test out."""
    try:
        return build_modules(kernel, source, out, ("SFQ_TESTS=m", *arguments))
    except VmUnavailable as reason:
        pytest.skip(str(reason))


def program_or_skip(name: str, out: Path) -> Path:
    """Build a program of the module's tests, such as `load`, or leave the test out."""
    try:
        compiler = require_programs(["gcc-12"])["gcc-12"]
    except VmUnavailable as reason:
        pytest.skip(str(reason))
    source = SOURCE / "tests" / f"{name}.c"
    command = [str(compiler), "-static", "-O2", "-Wall", "-Werror", "-o", str(out), str(source)]
    subprocess.run(command, check=True, capture_output=True)
    return out


def patched_source(patch: str, out: Path) -> Path:
    """Copy the module's source and apply one of its test patches, which must fit exactly."""
    out.mkdir()
    for path in SOURCE.iterdir():
        if path.is_file():
            (out / path.name).write_bytes(path.read_bytes())
            (out / path.name).chmod(path.stat().st_mode)
    (out / "tests").mkdir()
    for path in (SOURCE / "tests").glob("*.[ch]"):
        (out / "tests" / path.name).write_bytes(path.read_bytes())
    try:
        program = require_programs(["patch"])["patch"]
    except VmUnavailable as reason:
        pytest.skip(str(reason))
    command = [str(program), "-p1", "--fuzz=0", "-i", str(SOURCE / "tests" / patch)]
    subprocess.run(command, cwd=out, check=True, capture_output=True)
    return out


def run_script(
    kernel: Kernel,
    script: str,
    modules: dict[str, Path],
    out: Path,
    *,
    files: dict[str, Path] | None = None,
    programs: tuple[str, ...] = ("fio", "ioping"),
    processors: int = 1,
    deadline_s: float = 1800.0,
    counts_instructions: bool = True,
    kernel_arguments: str = "",
    more_modules: tuple[str, ...] = (),
    memory_mib: int = 1024,
) -> MachineResult:
    """Run a script with the module's files at hand; what it wants of them is in tests/common.sh.

    The clock counts instructions, which QEMU can do for one processor only; with more, and where
    `counts_instructions` is not wanted, it is the host's. The deadline is the host's in any case:
    far longer than a run takes, for a machine that hangs must end, and a busy host must not matter.
    """
    shared = [*(SOURCE / "tests").glob("*.sh"), *(SOURCE / "tests").glob("*.fio")]
    contents = Contents(
        available_modules=(*MODULES, *more_modules),
        programs=programs,
        files={f"/{name}.ko": path for name, path in modules.items()}
        | {f"/tests/{path.name}": path for path in shared}
        | (files or {}),
    )
    # A slab of its own for each kind of object, or their counts say nothing. On a busy host the
    # emulated timer may be late, and the kernel takes it for a broken one.
    machine = Machine(
        kernel,
        script,
        deadline_s,
        contents,
        kernel_arguments=f"slab_nomerge no_timer_check {kernel_arguments}".strip(),
        processors=processors,
        memory_mib=memory_mib,
        icount_shift=ICOUNT_SHIFT if counts_instructions and processors == 1 else None,
    )
    return run_machine(machine, out)
