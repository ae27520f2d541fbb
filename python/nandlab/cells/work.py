"""What a worker of a cluster does: a batch of cells of a study that came with its files.

Everything here may run in another process on another machine.
"""

import json
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from nandlab import engine
from nandlab.cells.identity import engine_identity

if TYPE_CHECKING:
    from nandlab._native import CellWorker

BEGUN = "nandlab-cells"
"""Topic of the events that say which cells a worker begins."""


@dataclass(frozen=True)
class Bundle:
    """A study and the content of all files that its cells read."""

    study: bytes
    sets: tuple[str, ...]
    seed: int | None
    quick: bool
    files: tuple[tuple[str, str, bytes], ...]
    """Name in the study, ending and content of each file."""
    identity: str
    """The engine that made the plan; another one is refused."""
    digest: str
    """Equal digests are equal bundles."""


class Batch(NamedTuple):
    """Cells by number and key."""

    cells: tuple[tuple[int, str], ...]


class Done(NamedTuple):
    """What became of a batch: results by key, and why it ended early, if it did."""

    results: list[tuple[str, bytes]]
    failed: tuple[int, str] | None = None
    """Number of a cell that failed, and why."""
    refused: str | None = None
    """Why the worker cannot take part."""


class _Study(NamedTuple):
    """A study that was unpacked."""

    digest: str
    worker: "CellWorker"
    keys: list[str]
    folder: "tempfile.TemporaryDirectory[str]"
    """Cells read parts again when they are carried out: the files stay as long as the study."""


class _Unpacked:
    """The study that was unpacked last; whoever still works on another one holds it."""

    def __init__(self) -> None:
        self._last: _Study | None = None
        # A worker of Dask has a thread for each processor, if it is not told otherwise.
        self._lock = threading.Lock()

    def of(self, bundle: Bundle) -> _Study:
        """The study of a bundle, ready to carry out cells."""
        with self._lock:
            if self._last is None or self._last.digest != bundle.digest:
                folder = tempfile.TemporaryDirectory(prefix="nandlab-cells-")
                worker = self._unpack(bundle, Path(folder.name))
                keys = [cell["key"] for cell in json.loads(worker.cells())]
                self._last = _Study(bundle.digest, worker, keys, folder)
            return self._last

    def _unpack(self, bundle: Bundle, folder: Path) -> "CellWorker":
        study = folder / "study.toml"
        study.write_bytes(bundle.study)
        moved = {}
        for number, (name, ending, content) in enumerate(bundle.files):
            place = folder / f"file-{number}{ending}"
            place.write_bytes(content)
            moved[name] = str(place)
        return engine.cell_worker(
            study,
            list(bundle.sets),
            bundle.seed,
            quick=bundle.quick,
            moved=moved,
            identity=bundle.identity,
        )


_unpacked = _Unpacked()


def run_batch(bundle: Bundle, batch: Batch, topic: str) -> Done:
    """Carries out cells one after the other; those before an error count."""
    from distributed import get_worker

    own = engine_identity()
    if own != bundle.identity:
        return Done([], refused=f"{get_worker().address} has {own}")
    get_worker().log_event(topic, [number for number, _ in batch.cells])
    return carry_out(bundle, batch, get_worker().address)


def carry_out(bundle: Bundle, batch: Batch, place: str) -> Done:
    """Carries out cells one after the other; `place` names this process in messages."""
    study = _unpacked.of(bundle)
    for number, key in batch.cells:
        if study.keys[number] != key:
            return Done([], refused=f"{place} reads the study otherwise")
    found, error = study.worker.run_cells([number for number, _ in batch.cells])
    results = [(key, result) for (_, key), result in zip(batch.cells, found, strict=False)]
    if error is not None:
        return Done(results, failed=(batch.cells[len(found)][0], error))
    return Done(results)
