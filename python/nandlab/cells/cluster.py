"""Carries out cells on a Dask cluster: batches are tasks, and each result is kept as it comes.

A task whose worker is lost is given to another one by Dask's scheduler. The study and its files are
a task as well, so they too outlive the worker that holds them.
"""

import hashlib
import json
import uuid
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from nandlab import engine
from nandlab.cells.choice import CellStudy
from nandlab.cells.dask_clusters import connected
from nandlab.cells.identity import engine_identity
from nandlab.cells.place import place_of
from nandlab.cells.store import CellFolder
from nandlab.cells.work import BEGUN, Batch, Bundle, Done, run_batch
from nandlab.engine import Progress
from nandlab.errors import NandlabError

_BATCH_MAX = 50
"""Cells of a task: a task costs some milliseconds, and so do small cells."""
_BATCHES = 200
"""Tasks of a small study, so that its last ones do not wait for each other."""


def carry_out_missing(
    study: CellStudy, store: CellFolder, cluster: str, progress: Progress | None
) -> None:
    """Carries out the cells that `store` lacks; after a signal, those that were done by then.

    Raises `NandlabError` for a cell that fails, and for workers with another engine.
    """
    place = place_of(cluster)
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
        with connected(place) as client:
            work.carry_out(client, bundle, list(batches_of(missing, cells)))
    except KeyboardInterrupt:
        # What is finished is put together; the caller knows of the signal.
        store.is_all = True
    finally:
        store.write()


def batches_of(missing: list[int], cells: list[dict[str, Any]]) -> Iterable[Batch]:
    """The cells in batches, in the order of the plan."""
    size = min(_BATCH_MAX, 1 + len(missing) // _BATCHES)
    for first in range(0, len(missing), size):
        numbers = missing[first : first + size]
        yield Batch(tuple((number, str(cells[number]["key"])) for number in numbers))


def bundle_of(study: CellStudy, files: list[tuple[str, str]]) -> Bundle:
    """The study and the content of its files.

    Raises `NandlabError` for a file that cannot be read.
    """
    try:
        text = Path(study.path).read_bytes()
        found = tuple((name, Path(path).suffix, Path(path).read_bytes()) for name, path in files)
    except OSError as error:
        raise NandlabError(f"{error.filename}: {error.strerror}") from None
    words = (tuple(study.sets), study.seed, study.quick)
    identity = engine_identity()
    contents = ((name, suffix, hashlib.sha256(one).hexdigest()) for name, suffix, one in found)
    # Contents are hashed as they are: their `repr` is up to four times as long as they.
    told = repr((hashlib.sha256(text).hexdigest(), words, tuple(contents), identity))
    digest = hashlib.sha256(told.encode()).hexdigest()
    return Bundle(text, *words, found, identity, digest=digest)


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

    def carry_out(self, client: Any, bundle: Bundle, batches: list[Batch]) -> None:
        """Sends all batches, and keeps their results as they come."""
        from distributed import as_completed
        from distributed.scheduler import KilledWorker

        self._refuse_others(client, bundle.identity)
        # Of this call alone: another client of the scheduler may run the same study.
        call = uuid.uuid4().hex
        topic = f"{BEGUN}-{call}"
        client.subscribe_topic(topic, self._count)
        sent = client.submit(_same, bundle, key=f"nandlab-study-{bundle.digest}-{call}")
        if self._progress is not None and not client.nthreads():
            self._progress(self._done, sum(self._runs.values()), "waits for workers")
        # Not pure: a later call of the same study must not find results that were given up.
        futures = client.map(
            lambda batch, bundle: run_batch(bundle, batch, topic),
            batches,
            bundle=sent,
            pure=False,
        )
        try:
            waiting = as_completed(futures, loop=client.loop)
            for future in waiting:
                try:
                    done = future.result()
                except KilledWorker as error:
                    raise NandlabError(
                        f"--cluster: cells ended their workers again and again: {error}"
                    ) from None
                except Exception as error:
                    # A worker without the package, a full disk there, a scheduler that is gone.
                    said = f"{type(error).__name__}: {error}"
                    raise NandlabError(f"--cluster: cells cannot be carried out: {said}") from None
                future.release()
                self._take(done)
        finally:
            client.unsubscribe_topic(topic)
            client.cancel([*futures, sent])
        begun_again = sum(times - 1 for times in self._begun.values())
        self._store.counts.begun_again = begun_again

    def _refuse_others(self, client: Any, identity: str) -> None:
        """Asks the workers that are there for their engine; those that come later say it."""

        # A function within another one travels by content: a worker may lack the package.
        def ask() -> str:
            try:
                from nandlab.cells.identity import engine_identity
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
        for key, result in done.results:
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
        if self._progress is not None and done.results:
            self._progress(self._done, total, "")


def _same(bundle: Bundle) -> Bundle:
    return bundle


def _refusal(others: list[str], identity: str) -> NandlabError:
    return NandlabError(
        f"--cluster: workers have another engine than {identity}: {'; '.join(others)}; "
        "install the same wheel everywhere"
    )
