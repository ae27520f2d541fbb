"""Carries out cells on a Dask cluster: batches are tasks, and each result is kept as it comes.

A task whose worker is lost is given to another one by Dask's scheduler. The study and its files are
a task as well, so they too outlive the worker that holds them.
"""

import math
import queue
import time
import uuid
from collections import Counter, deque
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from nandlab.cells.batches import BatchSizes
from nandlab.cells.choice import CellStudy, OpenCluster
from nandlab.cells.dask_clusters import connected
from nandlab.cells.missing import MissingCells
from nandlab.cells.place import place_of
from nandlab.cells.store import CellFolder
from nandlab.cells.work import BEGUN, Bundle, Done, other_engines, run_batch
from nandlab.engine import Progress
from nandlab.errors import MachineError

_LOOKS_EVERY_S = 1.0
"""How often the workers are counted."""
_BATCHES_OF_PLACE = 2
"""Batches under way for each place: one is carried out, one waits so that nobody idles."""


def carry_out_missing(
    study: CellStudy, store: CellFolder, cluster: str | OpenCluster, progress: Progress | None
) -> None:
    """Carries out the cells that `store` lacks; after a signal, those that were done by then.

    Raises `NandlabError` for a cell that fails, and for workers with another engine.
    """
    opened = _opened(cluster)
    missing = MissingCells(study, store, progress)
    if not missing.numbers:
        return
    bundle = missing.bundle()
    with missing.carried_out(), opened as client:
        _Work(missing).carry_out(client, bundle)


def _opened(cluster: str | OpenCluster) -> AbstractContextManager[Any]:
    """The client of a cluster; a name that is none is refused at once."""
    if isinstance(cluster, OpenCluster):
        return nullcontext(cluster.client)
    return connected(place_of(cluster))


class _Work:
    """Cells that are carried out, and how often each was begun."""

    def __init__(self, missing: MissingCells) -> None:
        self._missing = missing
        self._begun: Counter[int] = Counter()

    def carry_out(self, client: Any, bundle: Bundle) -> None:
        """Sends all missing cells in batches, and keeps their results as they come."""
        self._refuse_others(client, bundle.identity)
        # Of this call alone: another client of the scheduler may run the same study.
        call = uuid.uuid4().hex
        topic = f"{BEGUN}-{call}"
        client.subscribe_topic(topic, self._count)
        sent = client.submit(_same, bundle, key=f"nandlab-study-{bundle.digest}-{call}")
        sizes = BatchSizes()
        left = deque(self._missing.numbers)
        done: queue.SimpleQueue[Any] = queue.SimpleQueue()
        waiting: set[Any] = set()
        places = _Places(client)
        if not places.count():
            self._missing.tell("waits for workers")
        try:
            while left or waiting:
                while left and len(waiting) < places.count() * _BATCHES_OF_PLACE:
                    size = min(sizes.cells(len(left), places.count()), len(left))
                    batch = self._missing.batch([left.popleft() for _ in range(size)])
                    # Not pure: a later call of the same study must not find results that were
                    # given up.
                    future = client.submit(run_batch, sent, batch, topic, pure=False)
                    future.add_done_callback(done.put)
                    waiting.add(future)
                try:
                    future = done.get(timeout=_LOOKS_EVERY_S)
                except queue.Empty:
                    # Workers may have come meanwhile, and the caller may have been asked to stop.
                    self._missing.tell()
                    continue
                waiting.discard(future)
                found = _result_of(future)
                future.release()
                sizes.learn(len(found.results), found.seconds)
                self._missing.take(found)
        finally:
            client.unsubscribe_topic(topic)
            client.cancel([*waiting, sent])
        self._missing.count_begun_again(sum(times - 1 for times in self._begun.values()))

    def _refuse_others(self, client: Any, identity: str) -> None:
        """Asks the workers that are there for their engine; those that come later say it."""

        # A function within another one travels by content: a worker may lack the package.
        def ask() -> str:
            try:
                from nandlab.engine_identity import engine_identity
            except ImportError:
                return "no nandlab of this version"
            return engine_identity()

        found = client.run(ask)
        others = [f"{worker} has {other}" for worker, other in found.items() if other != identity]
        if others:
            raise MachineError(other_engines(others, identity))

    def _count(self, event: tuple[float, list[int]]) -> None:
        self._begun.update(event[1])


class _Places:
    """How many cells the workers carry out at once; asked for now and then, as it is a message."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._asked_at = -math.inf
        self._count = 0

    def count(self) -> int:
        """Their number at the last look."""
        now = time.monotonic()
        if now - self._asked_at >= _LOOKS_EVERY_S:
            self._asked_at = now
            self._count = sum(self._client.nthreads().values())
        return self._count


def _result_of(future: Any) -> Done:
    """What became of a batch.

    Raises `MachineError` for a batch that no worker can carry out.
    """
    from distributed.scheduler import KilledWorker

    try:
        done: Done = future.result()
    except KilledWorker as error:
        raise MachineError(
            f"--cluster: {error.allowed_failures + 1} workers ended, one after the other, while "
            f"they carried out the same cells; the last one was {error.last_worker.address}"
        ) from None
    except Exception as error:
        # A worker without the package, a full disk there, a scheduler that is gone.
        said = f"{type(error).__name__}: {error}"
        raise MachineError(f"--cluster: cells cannot be carried out: {said}") from None
    return done


def _same(bundle: Bundle) -> Bundle:
    return bundle
