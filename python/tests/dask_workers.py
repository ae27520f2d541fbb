"""A scheduler and workers of Dask as processes of their own, which tests may kill."""

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

ROOT = Path(__file__).parents[2]
PATIENCE_S = 60.0


class Workers:
    """A scheduler, and the workers that a test starts and kills."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stack = ExitStack()
        self.workers: list[subprocess.Popen[str]] = []
        log = folder / "scheduler.txt"
        self._start("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", log=log)
        self.address = self._found(log, r"tcp://(127\.0\.0\.1:\d+)")

    def _found(self, log: Path, pattern: str) -> str:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            if found := re.search(pattern, log.read_text(encoding="utf-8")):
                return found.group(1)
            time.sleep(0.05)
        raise AssertionError(log.read_text(encoding="utf-8"))

    def _start(self, *words: str, log: Path) -> subprocess.Popen[str]:
        output = self._stack.enter_context(log.open("w", encoding="utf-8"))
        process = subprocess.Popen(
            [sys.executable, "-m", "dask", *words],
            stdout=output,
            stderr=output,
            encoding="utf-8",
            cwd=self._folder,
            env=os.environ | {"PYTHONPATH": os.environ.get("PYTHONPATH", str(ROOT / "python"))},
        )
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        return process

    def add(self, *more: str) -> None:
        """Starts a worker and waits until the scheduler has it."""
        log = self._folder / f"worker-{len(self.workers)}.txt"
        words = ("worker", f"tcp://{self.address}", "--no-nanny", "--nthreads", "1")
        self.workers.append(self._start(*words, "--no-dashboard", *more, log=log))
        self._found(log, r"(Registered to)")

    def kill(self, number: int) -> None:
        """Ends a worker without a word."""
        self.workers[number].send_signal(signal.SIGKILL)
        self.workers[number].wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()
