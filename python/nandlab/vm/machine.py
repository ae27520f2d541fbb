"""Runs one script in an emulated machine, against a deadline."""

import re
import shlex
import tarfile
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from nandlab.vm import children
from nandlab.vm.initramfs import BASE_MODULES, Contents, build_initramfs, loadable_modules
from nandlab.vm.kernels import Kernel
from nandlab.vm.programs import MACHINE_PROGRAMS, require_programs

_RESULT = re.compile(r"^nandlab machine result (\d+)$", re.MULTILINE)
_BEGINS = "nandlab machine begins"
_BOOTS_MAX = 3
_CONSOLE_TAIL_LINES = 12


class VmRunError(Exception):
    """The machine ran but did not end with success; `console` holds all it printed."""

    def __init__(self, message: str, console: str) -> None:
        """Keep the console output beside the message, which ends with its last lines."""
        tail = "\n".join(console.strip().splitlines()[-_CONSOLE_TAIL_LINES:])
        super().__init__(f"{message}; the console ended with:\n{tail}")
        self.console = console


@dataclass(frozen=True)
class Drive:
    """A raw image that the guest sees as a disk; the first drive is /dev/vda.

    `url` may be a path or anything QEMU accepts as a raw image, such as an NBD socket.
    Without `may_discard` the disk knows neither discard nor writing of zeroes without data, as
    a plain disk of its time.
    """

    url: str
    read_only: bool = False
    cache: str = "unsafe"
    may_discard: bool = False


@dataclass(frozen=True)
class Machine:
    """What to boot and what to run in it.

    The script is run by `sh -e` as root. Whatever it leaves in /output is brought back.
    `icount_shift` makes the guest's clock count instructions, 2**shift nanoseconds each, which
    repeats exactly from run to run but costs speed; None leaves the clock to the host.
    More than one processor finds races; it makes nothing faster.
    """

    kernel: Kernel
    script: str
    deadline_s: float
    contents: Contents = field(default_factory=Contents)
    drives: tuple[Drive, ...] = ()
    memory_mib: int = 1024
    output_limit_mib: int = 512
    icount_shift: int | None = None
    time_base: str = "2020-01-01T00:00:00"
    kernel_arguments: str = ""
    processors: int = 1


@dataclass(frozen=True)
class MachineResult:
    """What a successful run left: the console text and the files of /output by name."""

    console: str
    files: dict[str, Path]
    command: tuple[str, ...]


def run_machine(
    machine: Machine, out: Path, on_line: Callable[[str], None] | None = None
) -> MachineResult:
    """Boot the machine, run its script, and bring the files of /output back into `out`.

    `on_line` is called with every line of the console. Only an explicit result line of the
    guest counts as success.

    Raises `VmUnavailable` when programs are missing and `VmRunError` when the script fails, the
    guest dies, or the deadline passes; in the last case the machine is killed.
    """
    require_programs(MACHINE_PROGRAMS)
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="nandlab-vm-") as scratch_name:
        scratch = Path(scratch_name)
        output_image = scratch / "output.tar"
        with output_image.open("wb") as file:
            file.truncate(machine.output_limit_mib << 20)
        initramfs = scratch / "initramfs"
        modules = loadable_modules(machine.kernel, (*BASE_MODULES, *machine.contents.modules))
        init = init_script(modules, _device_name(len(machine.drives)))
        initramfs.write_bytes(
            build_initramfs(machine.kernel, machine.contents, init, machine.script)
        )
        command = qemu_command(machine, initramfs, output_image)
        console = _boot(command, machine.deadline_s, on_line)
        found = _RESULT.search(console)
        if found is None:
            raise VmRunError("the emulated machine stopped without a result", console)
        if found[1] != "0":
            raise VmRunError(f"the script in the emulated machine failed with {found[1]}", console)
        files = _unpack(output_image, out)
    return MachineResult(console, files, tuple(command))


def stop_machines() -> None:
    """Ends all machines that run; what waits for them sees that they stopped without a result."""
    children.end_all()


def qemu_command(machine: Machine, initramfs: Path, output_image: Path) -> list[str]:
    """Return the command line that boots the machine.

    One processor and one emulating thread unless more are asked for: two are slower here. String
    instructions without the `erms` feature are copied by eights, which is far faster to emulate
    than by ones.
    """
    arguments = f"console=ttyS0 quiet panic=-1 mitigations=off {machine.kernel_arguments}".strip()
    threads = "single" if machine.processors == 1 else "multi"
    command = ["qemu-system-x86_64", "-machine", "q35", "-accel", f"tcg,thread={threads}"]
    command += ["-cpu", "max,-erms,-rdrand,-rdseed", "-smp", str(machine.processors)]
    command += ["-m", str(machine.memory_mib)]
    command += ["-nodefaults", "-no-user-config", "-nographic", "-no-reboot", "-serial", "stdio"]
    command += ["-rtc", f"base={machine.time_base},clock=vm", "-seed", "1"]
    if machine.icount_shift is not None:
        command += ["-icount", f"shift={machine.icount_shift},sleep=off"]
    command += ["-kernel", str(machine.kernel.vmlinux), "-initrd", str(initramfs)]
    command += ["-append", arguments]
    drives = [*machine.drives, Drive(str(output_image))]
    for number, drive in enumerate(drives):
        read_only = "on" if drive.read_only else "off"
        discard = "on" if drive.may_discard else "off"
        command += [
            "-drive",
            f"file={drive.url},if=none,format=raw,id=drive{number},cache={drive.cache},"
            f"aio=threads,read-only={read_only}",
            "-device",
            f"virtio-blk-pci,drive=drive{number},num-queues=1,"
            f"discard={discard},write-zeroes={discard}",
        ]
    return command


def init_script(modules: tuple[str, ...], output_device: str) -> str:
    """Return the guest's first process: mounts, modules, the script, its output, power off."""
    loads = "\n".join(f"modprobe {shlex.quote(module)} || finish 98" for module in modules)
    return f"""#!/bin/busybox sh
export PATH=/programs:/bin:/sbin HOME=/root
finish() {{
    sync
    dmesg -n 1
    echo
    echo "nandlab machine result $1"
    poweroff -f
}}
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t tmpfs -o size=80% tmpfs /tmp
mount -t tmpfs -o size=80% tmpfs /output
mount -t debugfs debugfs /sys/kernel/debug
echo
{loads}
echo "{_BEGINS}"
cd /root
sh -e /nandlab/script
result=$?
tar -C /output -cf {output_device} . || finish 99
finish $result
"""


def _device_name(index: int) -> str:
    return f"/dev/vd{chr(ord('a') + index)}"


def _boot(command: list[str], deadline_s: float, on_line: Callable[[str], None] | None) -> str:
    """Run the machine; once more if its kernel died before the first line of the script.

    An emulated processor may run code that another one is just patching (jump labels), and the
    kernel then dies while it boots. What the script does afterwards is never tried twice.
    """
    for _ in range(_BOOTS_MAX):
        console = _run_process(command, deadline_s, on_line)
        if _BEGINS in console or _RESULT.search(console):
            break
    return console


def _run_process(
    command: list[str], deadline_s: float, on_line: Callable[[str], None] | None
) -> str:
    lines: list[str] = []
    with children.started(command) as process:
        late = threading.Event()

        def stop() -> None:
            late.set()
            children.end(process)

        timer = threading.Timer(deadline_s, stop)
        timer.start()
        try:
            assert process.stdout is not None
            for raw_line in process.stdout:
                line = raw_line.rstrip("\r\n")
                lines.append(line)
                if on_line is not None:
                    on_line(line)
        finally:
            timer.cancel()
    console = "\n".join(lines) + "\n"
    if late.is_set():
        raise VmRunError(f"the emulated machine missed its deadline of {deadline_s:g} s", console)
    return console


def _unpack(image: Path, out: Path) -> dict[str, Path]:
    with tarfile.open(image, "r:") as archive:
        archive.extractall(out, filter="data")
        names = [member.name for member in archive.getmembers() if member.isfile()]
    return {name.removeprefix("./"): out / name for name in names}
