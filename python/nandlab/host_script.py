"""Scripts of system calls, carried out by this machine in a directory that is made for them."""

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nandlab.errors import NandlabError
from nandlab.vm import VmUnavailable, children
from nandlab.vm.guest_program import find_guest_program

COUNTS_HEAD = "phase,calls,duration_ns"

PREFIX = "nandlab-host-"
"""How the name of the directory begins, within the folder for temporary files."""


@dataclass(frozen=True)
class HostScript:
    """A script and how it is carried out; `shown` is what messages call it."""

    shown: str
    text: str
    keep: bool = False
    """The directory is kept."""
    waits: bool = True
    """`sleep` and `every` wait."""
    keep_going: bool = False
    manifest: Path | None = None
    """Where to write the tree that the script leaves."""


def run_host_script(script: HostScript) -> dict[str, Any]:
    """Carry a script out with system calls of this machine.

    A program makes them (`crates/front/guest`), one for each call that the script means. It makes
    them below a new directory, which is removed afterwards. With the right to do so
    (CAP_SYS_CHROOT) the directory is its root. Otherwise it refuses what could lead out: `..`, and
    symbolic links with absolute targets.

    Returns an answer in the form of `engine.run_script`, with the directory. Phases differ: they
    have the number of calls and the time on this machine.

    Raises `NandlabError` for a line that is refused or fails, and without the program.
    """
    try:
        guest = find_guest_program()
    except VmUnavailable as reason:
        raise NandlabError(f"--in host: {reason}") from None
    try:
        directory = Path(tempfile.mkdtemp(prefix=PREFIX))
    except OSError as error:
        raise NandlabError(f"--in host: no directory can be made: {error.strerror}") from None
    try:
        found = _carried_out(guest, script, directory)
        if script.manifest is not None:
            listed = ["list", "--mount-point", str(directory), "--file", str(script.manifest)]
            _run(script, [str(guest), *listed])
    finally:
        if not script.keep:
            remove_folder(directory)
    return found


def _carried_out(guest: Path, script: HostScript, directory: Path) -> dict[str, Any]:
    # Outside of the directory, where the script would find it.
    with tempfile.NamedTemporaryFile("w", prefix=PREFIX, suffix=".ops", encoding="utf-8") as file:
        file.write(script.text)
        file.flush()
        options = ["--file", file.name, "--directory", str(directory)]
        options += ["--keep-going", "yes" if script.keep_going else "no"]
        options += ["--waits", "yes" if script.waits else "no"]
        output = _run(script, [str(guest), "host-script", *options])
    phases, failures = [], []
    for line in output.splitlines():
        kind, place, *rest = line.split("\t")
        if kind == "phase":
            calls, duration_ns = map(int, rest)
            phases.append({"phase": place, "calls": calls, "duration_ns": duration_ns})
        elif kind == "failed":
            failures.append(f"{script.shown}:{place}: {rest[0]}")
        elif kind == "refused":
            where = script.shown if place == "0" else f"{script.shown}:{place}"
            kept = f"; the directory is {directory}" if script.keep else ""
            raise NandlabError(f"{where}: {rest[0]}{kept}")
    rows = [f"{one['phase']},{one['calls']},{one['duration_ns']}" for one in phases]
    return {
        "phases": phases,
        "counts_csv": "".join(f"{row}\n" for row in (COUNTS_HEAD, *rows)),
        "failures": failures,
        "host": os.uname().release,
        "file_system": None,
        "profile": None,
        "findings": [],
        "kept": [],
        "directory": str(directory) if script.keep else None,
    }


def _run(script: HostScript, command: list[str]) -> str:
    done = children.run(command, is_apart=True)
    if done.returncode != 0:
        reason = done.stderr.strip() or f"the program ended with {done.returncode}"
        raise NandlabError(f"{script.shown}: {reason}")
    return done.stdout


def remove_folder(directory: Path) -> None:
    """Removes the directory, with folders whose modes keep their owner out.

    `rmtree` follows no symbolic link.
    """
    for place, folders, _ in os.walk(directory):
        for name in folders:
            folder = Path(place) / name
            if not folder.is_symlink():
                folder.chmod(0o700)
    shutil.rmtree(directory)
