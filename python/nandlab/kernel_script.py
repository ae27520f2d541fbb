"""Scripts of system calls, carried out by a real kernel on JFFS2 or UBIFS over nandsim."""

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nandlab.engine import Progress
from nandlab.errors import NandlabError
from nandlab.vm import (
    Contents,
    Drive,
    Machine,
    VmRunError,
    VmUnavailable,
    children,
    find_kernel,
    require_programs,
    run_machine,
)
from nandlab.vm.guest_program import find_guest_program

PART = "nandsim-64MiB"
"""The only chip that stands in the machine."""

SERIES = {"linux-6.1": "6.1", "linux-6.12": "6.12"}
"""Kernels that can be booted, by the names of their profiles."""

COUNTS_HEAD = (
    "workload,phase,reads,programs,erases,run,implementation,full_reads,subpage_reads,oob_reads,"
    "oob_programs,column_changes,nandsim_log_reads"
)

_BLOCK_BYTES = 64 * (2048 + 64)
_CHIP_BLOCKS = 512
_NEVER_CENTISECS = 360_000
_BOOT_DEADLINE_S = 900.0
_MEMORY_MIB = 3072
_ICOUNT_SHIFT = 1
"""The guest's clock counts instructions, 2 ns each: the kernel's timers (UBIFS flushes a write
buffer three seconds after its last write) then fire where they do in every run, and not where a
busy host lets them."""

_OUTPUT_LIMIT_MIB = 2048
_PROGRAMS = ("nanddump", "nandwrite", "ubiattach", "ubidetach", "ubiformat", "ubimkvol")
_MODULES = ("jffs2", "nandsim", "ubi", "ubifs", "lzo", "deflate", "zstd")
"""File systems and what they ask the kernel for by name when they are mounted."""


@dataclass(frozen=True)
class KernelScript:
    """A script and what it runs on; `shown` is what messages call it."""

    shown: str
    text: str
    workload: str
    fs: str | None = None
    profile: str | None = None
    blocks: int | None = None
    vid_hdr_offset: int | None = None
    image: str | None = None
    seed: int = 1
    dirty_writeback_centisecs: int = 500
    keep_going: bool = False


@dataclass(frozen=True)
class KernelFiles:
    """Where to write what a run leaves, or None."""

    dump: Path | None = None
    dump_directory: Path | None = None
    manifest: Path | None = None


def run_kernel_script(
    script: KernelScript, files: KernelFiles, progress: Progress
) -> dict[str, Any]:
    """Boot a kernel, carry the script out in it, and write what it leaves.

    Returns an answer in the form of `engine.run_script`, with the release of the kernel. Phases
    differ: nandsim's log does not tell a read from a change of the column, so that they have
    `log_reads` in place of `reads`; times would be those of an emulated processor, and are not
    told.

    Raises `NandlabError` for a line that is refused or fails, a choice that a kernel does not
    leave, and a machine that cannot be booted or dies.
    """
    profile = script.profile or "linux-6.12"
    if profile not in SERIES:
        raise NandlabError(
            f"--profile {profile}: no such kernel is booted with --in kernel: "
            f"{' or '.join(SERIES)} is"
        )
    try:
        require_programs(_PROGRAMS)
        guest = find_guest_program()
        with tempfile.TemporaryDirectory(prefix="nandlab-script-") as scratch_name:
            scratch = Path(scratch_name)
            (scratch / "script.ops").write_text(script.text, encoding="utf-8")
            needs = _plan(guest, script, scratch / "script.ops")
            machine = _machine(script, SERIES[profile], guest, scratch / "script.ops", needs)
            found = run_machine(machine, scratch / "out", _watch(progress)).files
            if "refused" in found:
                raise _refused(script.shown, found["refused"].read_text(encoding="utf-8"))
            _keep(found, files)
            return _answer(script, profile, machine.kernel.release, found)
    except VmUnavailable as reason:
        raise NandlabError(f"--in kernel: {reason}") from None
    except VmRunError as error:
        raise NandlabError(f"{script.shown}: {' '.join(str(error).splitlines())}") from error


def _plan(guest: Path, script: KernelScript, path: Path) -> dict[str, int]:
    """What the machine must have for the script; a line that it cannot carry out is refused."""
    command = [str(guest), "plan", "--file", str(path)]
    if script.fs is not None:
        command += ["--fs", script.fs]
    done = children.run(command, is_apart=True)
    if done.returncode != 0:
        raise NandlabError(f"{script.shown}: {done.stderr.strip()}")
    if done.stdout.startswith("refused="):
        raise _refused(script.shown, done.stdout.removeprefix("refused="))
    values = (line.split("=", 1) for line in done.stdout.splitlines())
    return {name: int(value) for name, value in values}


def _refused(shown: str, text: str) -> NandlabError:
    place, reason = text.strip().split("\t", 1)
    return NandlabError(f"{shown}: {reason}" if place == "0" else f"{shown}:{place}: {reason}")


def _machine(
    script: KernelScript, series: str, guest: Path, path: Path, needs: dict[str, int]
) -> Machine:
    blocks = script.blocks or needs["blocks"]
    drives: tuple[Drive, ...] = ()
    if script.image is not None:
        image = Path(script.image)
        blocks = script.blocks or _blocks_of(image)
        drives = (Drive(str(image.resolve()), read_only=True),)
        if (held := _blocks_of(image)) != blocks:
            raise NandlabError(f"{script.image}: a dump of {held} blocks, but {blocks} are wanted")
    if blocks > _CHIP_BLOCKS:
        raise NandlabError(f"--blocks {blocks}: the chip of --in kernel has {_CHIP_BLOCKS} blocks")
    options = ["--file", "/script.ops", "--blocks", str(blocks), "--mount-point", "/mnt"]
    options += ["--output", "/output", "--dump", "yes"]
    options += ["--keep-going", "yes" if script.keep_going else "no"]
    if script.fs is not None:
        options += ["--fs", script.fs]
    if script.vid_hdr_offset:
        options += ["--header-offset", str(script.vid_hdr_offset)]
    if drives:
        options += ["--image", "/tmp/image.oob"]
    # The kernel takes 0 for at once where it flushes JFFS2's write buffer; here it means never.
    write_back = script.dirty_writeback_centisecs or _NEVER_CENTISECS
    text = f"""umask 0
echo {write_back} > /proc/sys/vm/dirty_writeback_centisecs
{"cat /dev/vda > /tmp/image.oob" if drives else ""}
nandlab-guest script {" ".join(options)}
"""
    return Machine(
        find_kernel(series),
        text,
        _BOOT_DEADLINE_S + 3 * needs["wait_milliseconds"] / 1000,
        Contents(
            available_modules=_MODULES,
            programs=_PROGRAMS,
            files={"programs/nandlab-guest": guest, "script.ops": path},
        ),
        drives,
        memory_mib=_MEMORY_MIB,
        output_limit_mib=_OUTPUT_LIMIT_MIB,
        icount_shift=_ICOUNT_SHIFT,
        # On a busy host the emulated timer may be late, and the kernel takes it for a broken one.
        # Every operation of the chip is a line of the kernel's log.
        kernel_arguments="no_timer_check log_buf_len=64M",
    )


def _blocks_of(image: Path) -> int:
    try:
        length = image.stat().st_size
    except OSError as error:
        raise NandlabError(f"{image}: {error.strerror}") from None
    if length == 0 or length % _BLOCK_BYTES:
        raise NandlabError(
            f"{image}: {length} bytes are no whole number of blocks of {_BLOCK_BYTES} bytes: a "
            "dump holds data and spare area of every page, as `nanddump --oob` writes them"
        )
    return length // _BLOCK_BYTES


def _watch(progress: Progress) -> Any:
    def on_line(line: str) -> None:
        if line.startswith("nandlab script "):
            done, total = line.split()[2:4]
            progress(int(done), int(total), "")

    return on_line


def _keep(found: dict[str, Path], files: KernelFiles) -> None:
    for name, target in (("end.oob", files.dump), ("manifest.tsv", files.manifest)):
        if target is not None:
            if name not in found:
                raise NandlabError(
                    "the script ends without a chip, or mounts nothing: nothing can be dumped or "
                    "listed"
                )
            shutil.move(found[name], target)
    if files.dump_directory is not None:
        for name, path in found.items():
            if name.startswith("kept/"):
                shutil.move(path, files.dump_directory / path.name)


def _answer(
    script: KernelScript, profile: str, release: str, found: dict[str, Path]
) -> dict[str, Any]:
    _, *lines = found["phases.tsv"].read_text(encoding="utf-8").splitlines()
    phases = []
    rows = [COUNTS_HEAD]
    for line in lines:
        name, reads, programs, erases = line.split("\t")
        phases.append(
            {
                "phase": name,
                "log_reads": int(reads),
                "programs": int(programs),
                "erases": int(erases),
            }
        )
        known = f"{script.workload},{name},,{programs},{erases},{script.seed},{profile}"
        rows.append(f"{known},,,,,,{reads}")
    failures = found["failures.tsv"].read_text(encoding="utf-8").replace("\t", ": ").splitlines()
    kept = sorted(path.name for name, path in found.items() if name.startswith("kept/"))
    mounted = found.get("file-system")
    return {
        "phases": phases,
        "counts_csv": "\n".join(rows) + "\n",
        "failures": [f"{script.shown}:{failure}" for failure in failures],
        "kernel": release,
        "file_system": mounted.read_text(encoding="utf-8") if mounted else None,
        "profile": profile,
        "findings": [],
        "kept": kept,
    }
