"""Carries out cells in processes of this machine, for policies in Python.

The interpreter runs one thread at a time, so policies in one process take turns. A worker is a new
interpreter, and no copy of this process: the threads of the engine do not outlive a copy.
"""

import os
import pickle
import queue
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from nandlab.cells.batches import BatchSizes
from nandlab.cells.choice import CellStudy
from nandlab.cells.missing import MissingCells
from nandlab.cells.store import CellFolder
from nandlab.cells.work import Batch, Bundle, Done
from nandlab.engine import Progress
from nandlab.errors import MachineError

_LOOKS_EVERY_S = 0.1
"""Short beside the time within which Ctrl-C has to show what is finished."""


def carry_out_in_processes(
    study: CellStudy, store: CellFolder, jobs: int, progress: Progress | None
) -> None:
    """Carries out the cells that `store` lacks; after a signal, those that were done by then.

    Raises `NandlabError` for a cell that fails, and for a worker that ends.
    """
    missing = MissingCells(study, store, progress)
    # One cell alone is carried out by this process.
    if len(missing.numbers) < 2:
        return
    bundle = missing.bundle()
    with missing.carried_out(), _Workers(missing, bundle, jobs) as workers:
        for answer in workers.answers():
            if answer is None:
                missing.tell()
            else:
                missing.take(answer)


class _Workers:
    """Processes that carry out batches; they end with the block."""

    def __init__(self, missing: MissingCells, bundle: Bundle, jobs: int) -> None:
        """For the missing cells; with at most `jobs` processes."""
        self._missing = missing
        self._waiting = deque(missing.numbers)
        self._open = len(missing.numbers)
        self._sizes = BatchSizes()
        # Of what the threads share: cells that wait, and the sizes of batches.
        self._lock = threading.Lock()
        self._answers: queue.Queue[Done] = queue.Queue()
        self._study = pickle.dumps(bundle)
        self._count = min(jobs, len(missing.numbers))
        self._processes: list[subprocess.Popen[bytes]] = []
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> "_Workers":
        """Starts the processes, and a thread for each.

        Raises `MachineError` for a process that cannot be started.
        """
        try:
            for _ in range(self._count):
                process = _started()
                self._processes.append(process)
                thread = threading.Thread(target=self._serve, args=(process,), daemon=True)
                thread.start()
                self._threads.append(thread)
        except BaseException as error:
            self.__exit__()
            if not isinstance(error, OSError):
                raise
            raise MachineError(
                f"--jobs: a worker process cannot be started: {error.strerror}; give fewer jobs"
            ) from None
        return self

    def __exit__(self, *_error: object) -> None:
        for process in self._processes:
            process.kill()
        for thread in self._threads:
            thread.join()
        for process in self._processes:
            process.wait()

    def answers(self) -> Iterator[Done | None]:
        """The answers as they come; None where none came for a while."""
        while self._open:
            try:
                answer = self._answers.get(timeout=_LOOKS_EVERY_S)
            except queue.Empty:
                yield None
                continue
            self._open -= len(answer.numbers)
            yield answer

    def _next(self) -> Batch | None:
        with self._lock:
            if not self._waiting:
                return None
            size = self._sizes.cells(len(self._waiting), self._count)
            numbers = [self._waiting.popleft() for _ in range(min(size, len(self._waiting)))]
        return self._missing.batch(numbers)

    def _serve(self, process: "subprocess.Popen[bytes]") -> None:
        """Gives batch after batch to a process, until there is none."""
        requests, results = process.stdin, process.stdout
        assert requests is not None
        assert results is not None
        with results:
            try:
                requests.write(self._study)
                while (batch := self._next()) is not None:
                    requests.write(pickle.dumps(batch))
                    requests.flush()
                    done: Done = pickle.load(results)
                    with self._lock:
                        self._sizes.learn(len(done.results), done.seconds)
                    self._answers.put(done)
            except (EOFError, OSError):
                status = process.wait()
                how = f"with status {status}" if status >= 0 else f"by signal {-status}"
                self._answers.put(_lost(f"ended {how}; if memory is short, give fewer jobs"))
            except Exception as error:
                # Whatever it is, the caller waits for an answer.
                said = f"{type(error).__name__}: {error}"
                self._answers.put(_lost(f"gave an answer that cannot be read: {said}"))
            finally:
                # Closing writes what waits, to a process that may be gone.
                with suppress(BrokenPipeError):
                    requests.close()


def _lost(what: str) -> Done:
    return Done((), [], refused=f"--jobs: a worker process {what}")


def _started() -> "subprocess.Popen[bytes]":
    # Modules are found where this process finds them, whatever its own folder is.
    folders = os.pathsep.join(folder or str(Path.cwd()) for folder in sys.path)
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "nandlab.cells.worker_process"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": folders},
    )
