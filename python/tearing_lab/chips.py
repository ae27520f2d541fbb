"""Power cuts of JFFS2 and UBIFS on nandsim, within the machine or before it."""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from nandlab.vm import Contents, Drive, Machine, build_modules, find_kernel, run_machine
from nandlab.vm.guest_program import find_guest_program
from nandlab.vm.programs import MACHINE_PROGRAMS, require_programs

SOURCE = Path(__file__).resolve().parents[2] / "kernel" / "tear"
"""The module that tears an operation of the chip."""

KINDS = ("program", "spare-program", "erase", "ubi-header", "ubifs-master", "last-page")
"""Kinds of operations, in the order of the module's counts and of its bits."""

ALL_KINDS = (1 << len(KINDS)) - 1
SHAPES = ("nothing", "first-half", "without-spare", "random-bits")
"""What a torn operation leaves, in the order of the module's numbers."""

BLOCKS = {"jffs2": 40, "ubifs": 64}
HEADER_OFFSETS = (2048, 512)
_BLOCK_BYTES = 64 * (2048 + 64)
_PROGRAMS = ("flash_erase", "nanddump", "nandwrite", "ubiattach", "ubidetach", "ubiformat")
_MODULES = ("jffs2", "ubi", "ubifs", "lzo", "deflate", "zstd")
_CASE_DEADLINE_S = 60.0
_BOOT_DEADLINE_S = 300.0
_WRITE_BACK_CENTISECS = 200


@dataclass(frozen=True)
class Cut:
    """A script and the operation of it that is torn; `number` of the kinds by their bits, or none.

    `formats` has JFFS2's clean markers written before the mount, which otherwise erases every block
    and writes them behind the script's back.
    """

    name: str
    script: Path
    number: int | None
    kinds: int = ALL_KINDS
    shape: int = 0
    seed: int = 1
    formats: bool = True

    def plan(self) -> str:
        """Return the line of the guest's plan."""
        number = -1 if self.number is None else self.number
        formats = "yes" if self.formats else "no"
        return (
            f"tear {self.name} /scripts/{self.script.name} {formats} {number} {self.kinds} "
            f"{self.shape} {self.seed}"
        )


@dataclass(frozen=True)
class Recovery:
    """What the kernel made of a torn chip.

    `first` and `second` are the rows of its listings after two mounts, `dump` the chip before them,
    where the kernel was cut. `error` says which step went wrong that must not.
    """

    name: str
    first: list[str]
    second: list[str]
    messages: str
    error: str | None = None
    dump: Path | None = None
    failures: list[str] = field(default_factory=list)
    result: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_refused(self) -> bool:
        """The kernel did not mount it, and a disk not at a second try, either."""
        error = self.error or ""
        is_chip = error.startswith("mount failed: ")
        return is_chip or error == "the first mount failed\nthe second mount failed"

    @property
    def counts(self) -> list[int]:
        """Operations by kind, of a script that was cut there."""
        return [int(number) for number in self.result["counts"].split(",")]

    @property
    def torn_kind(self) -> str:
        """The kind of the torn operation; `end` if the script ended before."""
        number = int(self.result["torn_kind"])
        return KINDS[number] if number >= 0 else "end"


@dataclass(frozen=True)
class Bench:
    """A kernel with the module, and a file system on a chip."""

    series: str
    file_system: str
    header_offset: int
    module: Path
    guest: Path
    blocks: int

    @classmethod
    def of(cls, series: str, file_system: str, out: Path, header_offset: int = 2048) -> "Bench":
        """Build the module for a kernel.

        Raises `VmUnavailable` when something for the machine or the build is missing.
        """
        require_programs((*MACHINE_PROGRAMS, *_PROGRAMS, *_volume_program(file_system)))
        out.mkdir(parents=True, exist_ok=True)
        module = out / "tear.ko"
        module.write_bytes(_module(series))
        blocks = BLOCKS[file_system]
        return cls(series, file_system, header_offset, module, find_guest_program(), blocks)

    def cut(self, cuts: Sequence[Cut], out: Path) -> dict[str, Recovery]:
        """Cut scripts within the kernel, which recovers each chip; by the names of the cuts."""
        scripts = {f"scripts/{cut.script.name}": cut.script for cut in cuts}
        return self._run([cut.plan() for cut in cuts], scripts, (), out)

    def recover(self, images: Mapping[str, Path], out: Path) -> dict[str, Recovery]:
        """Have the kernel recover chips that were cut elsewhere; by their names."""
        out.mkdir(parents=True, exist_ok=True)
        drive = out / "images.drive"
        with drive.open("wb") as file:
            for image in images.values():
                with image.open("rb") as source:
                    shutil.copyfileobj(source, file)
        plan = [
            f"recover {name} /dev/vda {number * self.blocks}" for number, name in enumerate(images)
        ]
        try:
            return self._run(plan, {}, (Drive(str(drive), read_only=True),), out)
        finally:
            drive.unlink()

    def _run(
        self,
        plan: list[str],
        scripts: Mapping[str, Path],
        drives: tuple[Drive, ...],
        out: Path,
    ) -> dict[str, Recovery]:
        out.mkdir(parents=True, exist_ok=True)
        plan_file = out / "plan"
        plan_file.write_text("\n".join(plan) + "\n", encoding="utf-8")
        files = {"programs/nandlab-guest": self.guest, "tear.ko": self.module, "plan": plan_file}
        machine = Machine(
            find_kernel(self.series),
            self._script(),
            _BOOT_DEADLINE_S + _CASE_DEADLINE_S * len(plan),
            Contents(
                modules=("nandsim", *_MODULES),
                programs=(*_PROGRAMS, *_volume_program(self.file_system)),
                files={**files, **scripts},
            ),
            drives,
            memory_mib=3072,
            output_limit_mib=1024,
            # Timers fire at the same instruction of every run, so that counts nearly repeat.
            icount_shift=1,
            # On a busy host the emulated timer may be late, as if it were broken.
            kernel_arguments="no_timer_check",
        )
        found = run_machine(machine, out / "files").files
        names = [line.split(" ")[1] for line in plan]
        return {name: _recovery(name, found) for name in names}

    def _script(self) -> str:
        return f"""umask 0
echo {_WRITE_BACK_CENTISECS} > /proc/sys/vm/dirty_writeback_centisecs
rmmod nandsim
dmesg -n 1
dmesg -c > /dev/null
nandlab-guest tear --plan /plan --fs {self.file_system} --blocks {self.blocks} \\
    --header-offset {self.header_offset} --module /tear.ko --mount-point /mnt --output /output
"""


@cache
def _module(series: str) -> bytes:
    """Build the module once for all series of cuts."""
    with tempfile.TemporaryDirectory(prefix="nandlab-tear-") as folder:
        return build_modules(find_kernel(series), SOURCE, Path(folder))["tear"].read_bytes()


def _volume_program(file_system: str) -> tuple[str, ...]:
    return ("ubimkvol",) if file_system == "ubifs" else ()


def _recovery(name: str, found: Mapping[str, Path]) -> Recovery:
    def text(ending: str) -> str:
        path = found.get(f"{name}.{ending}")
        return path.read_text(encoding="utf-8", errors="replace") if path else ""

    result = dict(line.split("=", 1) for line in text("result").splitlines())
    return Recovery(
        name=name,
        first=rows(text("first")),
        second=rows(text("second")),
        messages=text("messages"),
        error=text("error").strip() or None,
        dump=found.get(f"{name}.oob"),
        failures=text("failures").splitlines(),
        result=result,
    )


def rows(listing: str) -> list[str]:
    """Return the rows of a listing in tsv, without its head."""
    return [line for line in listing.splitlines() if not line.startswith("#")]


def tear_here(
    program: Path,
    file_system: str,
    script: Path,
    header_offset: int,
    cuts: int,
    seed: int,
    out: Path,
) -> dict[str, str]:
    """Carry a script out here and cut it so many times; the images, and what was cut, by name.

    `program` is the example `tear_images` of the crate `script_runner`.
    """
    out.mkdir(parents=True, exist_ok=True)
    command = [str(program), file_system, str(script), str(BLOCKS[file_system])]
    command += [str(header_offset), str(cuts), str(seed), str(out)]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=True)
    told = (line.split(" ", 1) for line in done.stdout.splitlines())
    return dict(told)


def bad_messages(messages: str) -> list[str]:
    """Lines of the kernel's log that no cut explains."""
    # Torn pages make noise: nandsim warns, JFFS2 has a notice for each torn node, and UBI prints
    # its stack for a page that the ECC does not mend (`dump_stack` in `ubi_io_read`).
    # A frame of that stack may be left of a check that ended well: `? dbg_check_heap+0x9c/0x180`.
    complaint = re.compile(
        r"BUG: |WARNING: CPU|Oops|assert failed|dbg_check(?!\w*\+0x)|inconsistent"
    )
    return [line for line in messages.splitlines() if complaint.search(line)]


def choose_cuts(
    counts: Sequence[int], script: Path, name: str, number: int, shape: int, seed: int
) -> Cut:
    """Choose the cut of one case among the operations that its script makes.

    Uniform choice hits programs of data pages almost always. So of five cuts two are uniform, and
    three are of one rarer kind each, in turn, where the script has any.
    """
    rare = [kind for kind in range(1, len(KINDS)) if counts[kind]]
    turn = number % 5
    if turn < 2 or not rare:
        kinds, total = ALL_KINDS, sum(counts)
    else:
        kind = rare[(number // 5 * 3 + turn - 2) % len(rare)]
        kinds, total = 1 << kind, counts[kind]
    chosen = seed % max(1, total)
    return Cut(name, script, chosen, kinds, shape, seed)


def kinds_of(recoveries: Iterable[Recovery]) -> dict[str, int]:
    """How many cuts fell into each kind."""
    counts: dict[str, int] = {}
    for recovery in recoveries:
        counts[recovery.torn_kind] = counts.get(recovery.torn_kind, 0) + 1
    return counts
