"""What a worker of a cluster does: a batch of cells of a study that came with its files.

Everything here may run in another process on another machine.
"""

import json
import tempfile
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


class _Unpacked:
    """The bundle that was unpacked last; another study takes its place."""

    def __init__(self) -> None:
        self.digest: str | None = None
        self.worker: CellWorker | None = None
        self.folder: tempfile.TemporaryDirectory[str] | None = None
        self.keys: list[str] = []

    def of(self, bundle: Bundle) -> "CellWorker":
        """The study of a bundle, ready to carry out cells."""
        if self.worker is None or self.digest != bundle.digest:
            # Cells read parts again when they are carried out: the files stay as long.
            folder = tempfile.TemporaryDirectory(prefix="nandlab-cells-")
            self.worker = self._unpack(bundle, Path(folder.name))
            self.folder = folder
            self.digest = bundle.digest
            self.keys = [cell["key"] for cell in json.loads(self.worker.cells())]
        return self.worker

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


def run_batch(bundle: Bundle, batch: Batch) -> Done:
    """Carries out cells one after the other; those before an error count."""
    from distributed import get_worker

    own = engine_identity()
    if own != bundle.identity:
        return Done([], refused=f"{get_worker().address} has {own}")
    get_worker().log_event(BEGUN, [number for number, _ in batch.cells])
    worker = _unpacked.of(bundle)
    for number, key in batch.cells:
        if _unpacked.keys[number] != key:
            return Done([], refused=f"{get_worker().address} reads the study otherwise")
    found, error = worker.run_cells([number for number, _ in batch.cells])
    results = [(key, result) for (_, key), result in zip(batch.cells, found, strict=False)]
    if error is not None:
        return Done(results, failed=(batch.cells[len(found)][0], error))
    return Done(results)
