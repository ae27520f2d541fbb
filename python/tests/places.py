"""Disks of their own for tests: small ones, and such that cannot be written."""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@contextlib.contextmanager
def own_disk(folder: Path, *options: str) -> Iterator[Path]:
    """Puts a file system of its own on a new folder; skips the test where that is not allowed."""
    folder.mkdir(parents=True)
    may = os.geteuid() == 0 and shutil.which("mount") is not None
    words = ["mount", "-t", "tmpfs", *options, "tmpfs", str(folder)]
    if not may or subprocess.run(words, capture_output=True, check=False).returncode != 0:
        pytest.skip("no file system can be mounted: a disk that is full or read-only is left out")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(disk: Path, leave_bytes: int = 0) -> None:
    """Fills a disk, but for so many bytes."""
    filler = disk / "filler"
    with contextlib.suppress(OSError), filler.open("wb", 0) as file:
        while file.write(bytes(4096)):
            pass
    if leave_bytes:
        os.truncate(filler, filler.stat().st_size - leave_bytes)
