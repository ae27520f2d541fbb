"""The cells that a run lacks, and what becomes of them, wherever they are carried out."""

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from nandlab import engine
from nandlab.cells.bundles import bundle_of
from nandlab.cells.choice import CellStudy
from nandlab.cells.store import CellFolder
from nandlab.cells.work import Batch, Bundle, Done, batch_of
from nandlab.engine import Progress
from nandlab.engine_identity import engine_identity
from nandlab.errors import MachineError, NandlabError


class MissingCells:
    """The plan of a study, less the cells that a store has; answers of workers go into the store.

    `numbers` are those of the missing cells, in the order of the plan.
    """

    def __init__(self, study: CellStudy, store: CellFolder, progress: Progress | None) -> None:
        """Plans the study.

        Raises `NandlabError` for a study that cannot be run.
        """
        self._study, self._store, self._progress = study, store, progress
        self._worker = engine.cell_worker(
            study.path,
            list(study.sets),
            study.seed,
            quick=study.quick,
            moved={},
            identity=engine_identity(),
        )
        self._cells = json.loads(self._worker.cells())
        self._runs = {str(cell["key"]): int(cell["runs"]) for cell in self._cells}
        self._done = sum(runs for key, runs in self._runs.items() if store.has(key))
        self.numbers = [at for at, cell in enumerate(self._cells) if not store.has(cell["key"])]
        store.counts.total = len(self._cells)
        store.counts.finished_before = len(self._cells) - len(self.numbers)

    def bundle(self) -> Bundle:
        """What workers need.

        Raises `NandlabError` for what cannot be mounted, and for a file that cannot be read.
        """
        self._worker.check_mounts()
        return bundle_of(self._study, json.loads(self._worker.files()))

    def batch(self, numbers: Iterable[int]) -> Batch:
        """A batch of the cells of these numbers."""
        found = tuple(numbers)
        return batch_of(found, [str(self._cells[number]["key"]) for number in found])

    @contextmanager
    def carried_out(self) -> Iterator[None]:
        """The block carries cells out: after a signal, those that were done by then stay."""
        try:
            yield
        except KeyboardInterrupt:
            # What is finished is put together; the caller knows of the signal.
            self._store.is_all = True
        finally:
            self._store.write()

    def take(self, done: Done) -> None:
        """Keeps the results of a batch.

        Raises `NandlabError` for a cell that failed, `MachineError` for a worker that cannot go on.
        """
        for number, result in zip(done.numbers, done.results, strict=False):
            key = str(self._cells[number]["key"])
            self._store.keep(key, result)
            self._done += self._runs[key]
        if done.refused is not None:
            raise MachineError(done.refused)
        if done.failed is not None:
            number, reason = done.failed
            raise NandlabError(
                f"run `{self._cells[number]['label']}` failed after {self._done} of {self._total} "
                f"runs were done: {reason}"
            )
        if done.results:
            self.tell()

    def count_begun_again(self, cells: int) -> None:
        """So many cells were begun once more, as a worker was lost."""
        self._store.counts.begun_again = cells

    def tell(self, what: str = "") -> None:
        """Tells how many runs are done; the caller may raise `KeyboardInterrupt` by that."""
        if self._progress is not None:
            self._progress(self._done, self._total, what)

    @property
    def _total(self) -> int:
        return sum(self._runs.values())
