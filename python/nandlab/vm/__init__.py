"""Boots stock Debian kernels in an emulated machine and runs scripts in them.

No root is needed: the kernel is unpacked, not installed, and the processor is emulated.

- `kernels` finds, downloads and unpacks a kernel of a wanted series.
- `initramfs` packs modules, programs and files into the first root file system.
- `modules` builds modules for it.
- `machine` boots it with drives, runs a script against a deadline and brings files back.
- `children` starts programs that end with this one.
- `programs` finds the programs of the host that all this needs.
"""

from nandlab.vm.initramfs import Contents
from nandlab.vm.kernels import Kernel, find_kernel
from nandlab.vm.machine import (
    Drive,
    Machine,
    MachineResult,
    VmRunError,
    run_machine,
    stop_machines,
)
from nandlab.vm.modules import ModuleBuildError, build_modules, find_build_root
from nandlab.vm.programs import VmUnavailable, require_programs

__all__ = [
    "Contents",
    "Drive",
    "Kernel",
    "Machine",
    "MachineResult",
    "ModuleBuildError",
    "VmRunError",
    "VmUnavailable",
    "build_modules",
    "find_build_root",
    "find_kernel",
    "require_programs",
    "run_machine",
    "stop_machines",
]
