"""Carries out cells in processes of this machine, for policies in Python.

The interpreter runs one thread at a time, so policies in one process take turns. A worker is a new
interpreter, and no copy of this process: the threads of the engine do not outlive a copy.
"""

import json
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
from typing import Any

from nandlab import engine
from nandlab.cells.batches import BatchSizes
from nandlab.cells.choice import CellStudy
from nandlab.cells.cluster import bundle_of
from nandlab.cells.store import CellFolder
from nandlab.cells.work import Batch, Bundle, Done, batch_of
from nandlab.engine import Progress
from nandlab.engine_identity import engine_identity
from nandlab.errors import NandlabError

_LOOKS_EVERY_S = 0.1
"""Short beside the time within which Ctrl-C has to show what is finished."""


def carry_out_in_processes(
    study: CellStudy, store: CellFolder, jobs: int, progress: Progress | None
) -> None:
    """Carries out the cells that `store` lacks; after a signal, those that were done by then.

    Raises `NandlabError` for a cell that fails, and for a worker that ends.
    """
    here = engine.cell_worker(
        study.path,
        list(study.sets),
        study.seed,
        quick=study.quick,
        moved={},
        identity=engine_identity(),
    )
    cells = json.loads(here.cells())
    missing = [number for number, cell in enumerate(cells) if not store.has(cell["key"])]
    store.counts.total = len(cells)
    store.counts.finished_before = len(cells) - len(missing)
    # One cell alone is carried out by this process.
    if len(missing) < 2:
        return
    here.check_mounts()
    bundle = bundle_of(study, json.loads(here.files()))
    keys = {number: str(cells[number]["key"]) for number in missing}
    try:
        with _Workers(bundle, keys, min(jobs, len(missing))) as workers:
            _take_all(workers, cells, store, progress)
    except KeyboardInterrupt:
        # What is finished is put together; the caller knows of the signal.
        store.is_all = True
    finally:
        store.write()


def _take_all(
    workers: "_Workers",
    cells: list[dict[str, Any]],
    store: CellFolder,
    progress: Progress | None,
) -> None:
    runs = {str(cell["key"]): int(cell["runs"]) for cell in cells}
    done, total = sum(runs[key] for key in runs if store.has(key)), sum(runs.values())
    for answer in workers.answers():
        if answer is not None:
            for number, result in zip(answer.numbers, answer.results, strict=False):
                key = str(cells[number]["key"])
                store.keep(key, result)
                done += runs[key]
            if answer.refused is not None:
                raise NandlabError(answer.refused)
            if answer.failed is not None:
                number, reason = answer.failed
                label = cells[number]["label"]
                raise NandlabError(
                    f"run `{label}` failed after {done} of {total} runs were done: {reason}"
                )
        if progress is not None:
            progress(done, total, "")


class _Workers:
    """Processes that carry out batches; they end with the block."""

    def __init__(self, bundle: Bundle, keys: dict[int, str], count: int) -> None:
        """Start `count` processes for the cells of these numbers, each of which has a key."""
        self._keys = keys
        self._waiting = deque(keys)
        self._open = len(keys)
        self._sizes = BatchSizes()
        # Of what the threads share: cells that wait, and the sizes of batches.
        self._lock = threading.Lock()
        self._answers: queue.Queue[Done] = queue.Queue()
        self._processes = [_started() for _ in range(count)]
        study = pickle.dumps(bundle)
        self._threads = [
            threading.Thread(target=self._serve, args=(process, study), daemon=True)
            for process in self._processes
        ]

    def __enter__(self) -> "_Workers":
        for thread in self._threads:
            thread.start()
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
            size = self._sizes.cells(len(self._waiting), len(self._processes))
            numbers = [self._waiting.popleft() for _ in range(min(size, len(self._waiting)))]
        return batch_of(numbers, [self._keys[number] for number in numbers])

    def _serve(self, process: "subprocess.Popen[bytes]", study: bytes) -> None:
        """Gives batch after batch to a process, until there is none."""
        requests, results = process.stdin, process.stdout
        assert requests is not None
        assert results is not None
        with requests, results:
            try:
                requests.write(study)
                while (batch := self._next()) is not None:
                    requests.write(pickle.dumps(batch))
                    requests.flush()
                    done: Done = pickle.load(results)
                    with self._lock:
                        self._sizes.learn(len(done.results), done.seconds)
                    self._answers.put(done)
            except (EOFError, OSError, pickle.UnpicklingError):
                status = process.wait()
                self._answers.put(
                    Done((), [], refused=f"--jobs: a worker process ended with status {status}")
                )
            finally:
                # Closing writes what waits, to a process that may be gone.
                with suppress(OSError):
                    requests.close()


def _started() -> "subprocess.Popen[bytes]":
    # Modules are found where this process finds them, whatever its own folder is.
    folders = os.pathsep.join(folder or str(Path.cwd()) for folder in sys.path)
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "nandlab.cells.worker_process"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": folders},
    )
