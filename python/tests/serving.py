"""Devices that are served, and their clients, for tests."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import nandlab as nl

DEVICE = "emmc-5.1-64gb"
MIB = 1 << 20


def needs(program: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(
        shutil.which(program) is None, reason=f"{program} is not installed (make system-packages)"
    )


@contextmanager
def served(place: Path, **options: Any) -> Iterator[nl.ServedDevice]:
    given: dict[str, Any] = {"capacity": "64MiB", "precondition": "none", "time": "none"}
    with nl.serve(DEVICE, listen=f"unix:{place}", **(given | options)) as device:
        yield device


def uri(place: Path, export: str = "") -> str:
    return f"nbd+unix:///{export}?socket={place}"


def ran(*words: object, folder: Path | None = None) -> str:
    done = subprocess.run(
        [str(word) for word in words],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=folder,
    )
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def noise(size: int) -> bytes:
    import random

    return random.Random(size).randbytes(size)


@contextmanager
def command(
    place: Path,
    *options: str,
    capacity: str = "16MiB",
    before: Callable[[], None] | None = None,
) -> Iterator["subprocess.Popen[str]"]:
    words = [sys.executable, "-m", "nandlab", "serve", "--device", DEVICE, "--capacity", capacity]
    words += ["--precondition", "none", "--listen", f"unix:{place}", *options]
    process = subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ,
        preexec_fn=before,
    )
    try:
        for _ in range(600):
            if place.exists() or process.poll() is not None:
                break
            time.sleep(0.05)
        yield process
    finally:
        process.kill()
        process.communicate()
