"""What a worker of a cluster does: a batch of cells of a study that came with its files.

Everything here may run in another process on another machine.
"""

import hashlib
import json
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from nandlab import engine
from nandlab.engine_identity import engine_identity

if TYPE_CHECKING:
    from nandlab._native import CellWorker

BEGUN = "nandlab-cells"
"""Topic of the events that say which cells a worker begins."""


_STUDIES_MAX = 8
"""Studies that a worker keeps: the points of a search come side by side."""


@dataclass(frozen=True)
class Bundle:
    """A study and the content of all files that its cells read."""

    study: bytes
    sets: tuple[str, ...]
    seed: int | None
    quick: bool
    files: tuple[tuple[str, str, bytes], ...]
    """Name in the study, place in the worker's folder, and content of each file.

    A policy has several files of its name. The first is its own; the others are the modules that it
    imports, and keep their places beside it.
    """
    identity: str
    """The engine that made the plan; another one is refused."""
    digest: str
    """Equal digests are equal bundles."""


class Batch(NamedTuple):
    """Cells by number; the worker has the plan, and `check` tells whether it is the same."""

    numbers: tuple[int, ...]
    check: str


class Done(NamedTuple):
    """What became of a batch: the results of its first cells, and why it ended early, if it did."""

    numbers: tuple[int, ...]
    results: list[bytes]
    seconds: float = 0.0
    """How long the cells took."""
    failed: tuple[int, str] | None = None
    """Number of a cell that failed, and why."""
    refused: str | None = None
    """Why the worker cannot take part."""


def batch_of(numbers: Iterable[int], keys: Iterable[str]) -> Batch:
    """The cells of these numbers, which have these keys."""
    return Batch(tuple(numbers), hashlib.sha256("".join(keys).encode()).hexdigest())


def other_engines(found: Iterable[str], identity: str) -> str:
    """Why workers with other engines are refused; `found` says which one each has."""
    return (
        f"--cluster: workers have another engine than {identity}: {'; '.join(found)}; "
        "install the same wheel everywhere"
    )


class _Study(NamedTuple):
    """A study that was unpacked."""

    worker: "CellWorker"
    keys: list[str]
    folder: "tempfile.TemporaryDirectory[str]"
    """Cells read parts again when they are carried out: the files stay as long as the study."""


class Unpacked:
    """The studies that were asked for last; whoever still works on another one holds it."""

    def __init__(self) -> None:
        self._studies: OrderedDict[str, _Study] = OrderedDict()
        # A worker of Dask has a thread for each processor, if it is not told otherwise.
        self._lock = threading.Lock()

    def of(self, bundle: Bundle) -> _Study:
        """The study of a bundle, ready to carry out cells."""
        with self._lock:
            study = self._studies.get(bundle.digest)
            if study is None:
                folder = tempfile.TemporaryDirectory(prefix="nandlab-cells-")
                worker = self._unpack(bundle, Path(folder.name))
                keys = [cell["key"] for cell in json.loads(worker.cells())]
                study = self._studies[bundle.digest] = _Study(worker, keys, folder)
            self._studies.move_to_end(bundle.digest)
            while len(self._studies) > _STUDIES_MAX:
                self._studies.popitem(last=False)
            return study

    def _unpack(self, bundle: Bundle, folder: Path) -> "CellWorker":
        study = folder / "study.toml"
        study.write_bytes(bundle.study)
        moved: dict[str, str] = {}
        for name, inner, content in bundle.files:
            place = folder / inner
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
            moved.setdefault(name, str(place))
        return engine.cell_worker(
            study,
            list(bundle.sets),
            bundle.seed,
            quick=bundle.quick,
            moved=moved,
            identity=bundle.identity,
        )


_unpacked = Unpacked()


def run_batch(bundle: Bundle, batch: Batch, topic: str) -> Done:
    """Carries out cells one after the other; those before an error count."""
    from distributed import get_worker

    own = engine_identity()
    if own != bundle.identity:
        return Done(
            (), [], refused=other_engines([f"{get_worker().address} has {own}"], bundle.identity)
        )
    get_worker().log_event(topic, list(batch.numbers))
    return carry_out(bundle, batch, get_worker().address)


def carry_out(bundle: Bundle, batch: Batch, place: str) -> Done:
    """Carries out cells one after the other; `place` names this process in messages."""
    study = _unpacked.of(bundle)
    if batch_of(batch.numbers, [study.keys[number] for number in batch.numbers]) != batch:
        return Done(
            (), [], refused=f"{place} plans other cells: a file of the study changed; run it again"
        )
    began = time.monotonic()
    found, error = study.worker.run_cells(list(batch.numbers))
    seconds = time.monotonic() - began
    failed = None if error is None else (batch.numbers[len(found)], error)
    return Done(batch.numbers, found, seconds, failed)
