"""What a run says about its cells: where they are kept, and where they are carried out."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple


class CellStudy(NamedTuple):
    """A study as the engine reads it."""

    path: str
    sets: Sequence[str]
    seed: int | None
    quick: bool


@dataclass(frozen=True)
class OpenCluster:
    """A cluster on which several studies are carried out, side by side or one after the other."""

    client: Any
    """Dask's client."""


@dataclass(frozen=True)
class CellChoice:
    """Where finished cells are kept.

    `folder` holds them. `stays` is true of a folder that outlives the run; another one is removed
    when the run is whole. `is_fresh` runs every cell again.
    """

    folder: Path
    stays: bool = False
    is_fresh: bool = False

    @classmethod
    def beside(cls, out: Path, *, is_fresh: bool = False) -> "CellChoice":
        """The folder beside the results of a run: `OUT.cells`."""
        return cls(out.with_name(f"{out.name}.cells"), is_fresh=is_fresh)


@dataclass
class CellCounts:
    """What became of the cells of a run."""

    total: int = 0
    """Cells of the study."""
    finished_before: int = 0
    """Cells that were found finished."""
    finished_now: int = 0
    """Cells that were carried out and kept."""
    begun_again: int = 0
    """Cells that were begun once more, as a worker was lost."""
    damaged: int = 0
    """Cells that were found damaged, and run again."""
    failure: str | None = None
    """Why cells are not kept any more."""

    def as_data(self) -> dict[str, object]:
        """The counts by name."""
        return dict(vars(self))

    def notes(self) -> list[str]:
        """What is worth a line on the screen."""
        found = []
        if self.finished_before:
            found.append(f"{self.finished_before} of {self.total} cells were finished before")
        if self.damaged:
            found.append(f"{self.damaged} of the finished cells were damaged and were run again")
        if self.begun_again:
            found.append(f"{self.begun_again} cells were begun again, as a worker was lost")
        if self.failure:
            found.append(self.failure)
        return found
