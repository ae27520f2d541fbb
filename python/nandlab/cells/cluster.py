"""Carries out cells on a Dask cluster: batches are tasks, and each result is kept as it comes.

A task whose worker is lost is given to another one by Dask's scheduler. The study and its files are
a task as well, so they too outlive the worker that holds them.
"""

import hashlib
import json
import math
import os
import queue
import time
import uuid
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from nandlab import engine
from nandlab.cells.batches import BatchSizes
from nandlab.cells.choice import CellStudy, OpenCluster
from nandlab.cells.dask_clusters import connected
from nandlab.cells.place import place_of
from nandlab.cells.store import CellFolder
from nandlab.cells.work import BEGUN, Batch, Bundle, Done, batch_of, run_batch
from nandlab.engine import Progress
from nandlab.engine_identity import engine_identity
from nandlab.errors import NandlabError

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
    here = engine.cell_worker(
        study.path,
        list(study.sets),
        study.seed,
        quick=study.quick,
        moved={},
        identity=engine_identity(),
    )
    here.check_mounts()
    cells = json.loads(here.cells())
    missing = [number for number, cell in enumerate(cells) if not store.has(cell["key"])]
    store.counts.total = len(cells)
    store.counts.finished_before = len(cells) - len(missing)
    if not missing:
        return
    work = _Work(cells, store, progress)
    bundle = bundle_of(study, json.loads(here.files()))
    try:
        with opened as client:
            work.carry_out(client, bundle, missing)
    except KeyboardInterrupt:
        # What is finished is put together; the caller knows of the signal.
        store.is_all = True
    finally:
        store.write()


def bundle_of(study: CellStudy, files: list[tuple[str, str]]) -> Bundle:
    """The study and the content of its files.

    Raises `NandlabError` for a file that cannot be read.
    """
    try:
        text = Path(study.path).read_bytes()
        found = tuple(
            (name, inner, Path(path).read_bytes())
            for (name, path), inner in zip(files, _places_of(files), strict=True)
        )
    except OSError as error:
        raise NandlabError(f"{error.filename}: {error.strerror}") from None
    words = (tuple(study.sets), study.seed, study.quick)
    identity = engine_identity()
    contents = ((name, suffix, hashlib.sha256(one).hexdigest()) for name, suffix, one in found)
    # Contents are hashed as they are: their `repr` is up to four times as long as they.
    told = repr((hashlib.sha256(text).hexdigest(), words, tuple(contents), identity))
    digest = hashlib.sha256(told.encode()).hexdigest()
    return Bundle(text, *words, found, identity, digest=digest)


def _opened(cluster: str | OpenCluster) -> AbstractContextManager[Any]:
    """The client of a cluster; a name that is none is refused at once."""
    if isinstance(cluster, OpenCluster):
        return nullcontext(cluster.client)
    return connected(place_of(cluster))


def _places_of(files: list[tuple[str, str]]) -> Iterator[str]:
    """A place within a folder for each file: a folder for each name.

    Files of the same name come with the first of them, and keep their places beside it.
    """
    ups: Counter[str] = Counter()
    first: dict[str, tuple[int, Path]] = {}
    inner = {}
    for name, path in files:
        _, own = first.setdefault(name, (len(first), Path(path)))
        inner[name, path] = os.path.relpath(path, own.parent)
        ups[name] = max(ups[name], Path(inner[name, path]).parts.count(os.pardir))
    for name, path in files:
        # As deep as the files beside it lie higher: none leaves the folder of the name.
        folder = f"files/{first[name][0]}{'/inner' * ups[name]}"
        yield Path(os.path.normpath(f"{folder}/{inner[name, path]}")).as_posix()


class _Work:
    """Cells that are carried out, and what became of them."""

    def __init__(
        self, cells: list[dict[str, Any]], store: CellFolder, progress: Progress | None
    ) -> None:
        self._cells = cells
        self._store = store
        self._progress = progress
        self._runs = {str(cell["key"]): int(cell["runs"]) for cell in cells}
        self._done = sum(self._runs[key] for key in self._runs if store.has(key))
        self._begun: Counter[int] = Counter()

    def carry_out(self, client: Any, bundle: Bundle, missing: list[int]) -> None:
        """Sends all missing cells in batches, and keeps their results as they come."""
        self._refuse_others(client, bundle.identity)
        # Of this call alone: another client of the scheduler may run the same study.
        call = uuid.uuid4().hex
        topic = f"{BEGUN}-{call}"
        client.subscribe_topic(topic, self._count)
        sent = client.submit(_same, bundle, key=f"nandlab-study-{bundle.digest}-{call}")
        sizes = BatchSizes()
        left = deque(missing)
        done: queue.SimpleQueue[Any] = queue.SimpleQueue()
        waiting: set[Any] = set()
        places = _Places(client)
        if not places.count():
            self._tell("waits for workers")
        try:
            while left or waiting:
                while left and len(waiting) < places.count() * _BATCHES_OF_PLACE:
                    batch = self._next_batch(left, sizes.cells(len(left), places.count()))
                    # Not pure: a later call of the same study must not find results that were
                    # given up.
                    future = client.submit(run_batch, sent, batch, topic, pure=False)
                    future.add_done_callback(done.put)
                    waiting.add(future)
                try:
                    future = done.get(timeout=_LOOKS_EVERY_S)
                except queue.Empty:
                    # Workers may have come meanwhile, and the caller may have been asked to stop.
                    self._tell("")
                    continue
                waiting.discard(future)
                found = _result_of(future)
                future.release()
                sizes.learn(len(found.results), found.seconds)
                self._take(found)
        finally:
            client.unsubscribe_topic(topic)
            client.cancel([*waiting, sent])
        begun_again = sum(times - 1 for times in self._begun.values())
        self._store.counts.begun_again = begun_again

    def _next_batch(self, left: deque[int], size: int) -> Batch:
        numbers = [left.popleft() for _ in range(min(size, len(left)))]
        return batch_of(numbers, [str(self._cells[number]["key"]) for number in numbers])

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
            raise _refusal(others, identity)

    def _count(self, event: tuple[float, list[int]]) -> None:
        self._begun.update(event[1])

    def _take(self, done: Done) -> None:
        for number, result in zip(done.numbers, done.results, strict=False):
            key = str(self._cells[number]["key"])
            self._store.keep(key, result)
            self._done += self._runs[key]
        if done.refused is not None:
            raise _refusal([done.refused], engine_identity())
        total = sum(self._runs.values())
        if done.failed is not None:
            number, reason = done.failed
            label = self._cells[number]["label"]
            raise NandlabError(
                f"run `{label}` failed after {self._done} of {total} runs were done: {reason}"
            )
        if done.results:
            self._tell("")

    def _tell(self, what: str) -> None:
        if self._progress is not None:
            self._progress(self._done, sum(self._runs.values()), what)


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

    Raises `NandlabError` for a batch that no worker can carry out.
    """
    from distributed.scheduler import KilledWorker

    try:
        done: Done = future.result()
    except KilledWorker as error:
        raise NandlabError(
            f"--cluster: cells ended their workers again and again: {error}"
        ) from None
    except Exception as error:
        # A worker without the package, a full disk there, a scheduler that is gone.
        said = f"{type(error).__name__}: {error}"
        raise NandlabError(f"--cluster: cells cannot be carried out: {said}") from None
    return done


def _same(bundle: Bundle) -> Bundle:
    return bundle


def _refusal(others: list[str], identity: str) -> NandlabError:
    return NandlabError(
        f"--cluster: workers have another engine than {identity}: {'; '.join(others)}; "
        "install the same wheel everywhere"
    )
