"""Runs a study in cells: takes what is finished, carries out the rest here or on a cluster."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from nandlab import engine
from nandlab.cells.choice import CellChoice, CellStudy, OpenCluster
from nandlab.cells.store import CellFolder
from nandlab.engine import Progress
from nandlab.engine_identity import engine_identity
from nandlab.errors import NandlabError


@contextmanager
def opened(cluster: str | None) -> Iterator[OpenCluster | None]:
    """The cluster that `--cluster` names, for several studies; none if none is named.

    Raises `NandlabError` for a cluster that cannot be used.
    """
    if cluster is None:
        yield None
        return
    from nandlab.cells.dask_clusters import connected
    from nandlab.cells.place import place_of

    with connected(place_of(cluster)) as client:
        yield OpenCluster(client)


@contextmanager
def cells_of(choice: CellChoice | None, *, is_needed: bool) -> Iterator[CellFolder | None]:
    """The finished cells of a run; in a temporary folder where cells are only passed on.

    An error says that what was finished is kept, and where.
    """
    if choice is None and not is_needed:
        yield None
        return
    if choice is None:
        with TemporaryDirectory(prefix="nandlab-cells-") as folder:
            yield CellFolder(Path(folder), engine_identity())
        return
    with CellFolder(choice.folder, engine_identity(), is_fresh=choice.is_fresh) as store:
        try:
            yield store
        except NandlabError as error:
            store.write()
            if not store.finished():
                raise
            # Of the same class: who calls may have to know whether the input is wrong.
            raise type(error)(
                f"{error}; {store.finished()} finished cells are kept in {choice.folder}, and the "
                "same command goes on from there"
            ) from None


def answer_of_cells(
    study: CellStudy,
    store: CellFolder,
    *,
    jobs: int,
    progress: Progress | None,
    timeline: Path | None,
    cluster: str | OpenCluster | None,
    in_processes: bool = False,
) -> dict[str, Any]:
    """What the study yields; the digest does not depend on where its cells are carried out.

    With `in_processes` cells are carried out by `jobs` processes of this machine.

    Raises `NandlabError` for a cluster that cannot be used, and for a cell that fails.
    """
    if cluster is not None:
        from nandlab.cells.cluster import carry_out_missing

        carry_out_missing(study, store, cluster, progress)
    elif in_processes:
        from nandlab.cells.processes import carry_out_in_processes

        carry_out_in_processes(study, store, jobs, progress)

    def watch(done: int, total: int, label: str) -> None:
        store.write_if_due()
        if progress is not None:
            progress(done, total, label)

    asked, found = store.asked, store.found
    answer = engine.run_study(
        study.path,
        list(study.sets),
        study.seed,
        quick=study.quick,
        jobs=jobs,
        progress=watch,
        timeline=timeline,
        cells=store,
    )
    if cluster is None and not in_processes:
        # The run that writes the timeline is carried out whatever is finished.
        store.counts.total = store.asked - asked + (timeline is not None)
        store.counts.finished_before = store.found - found - store.counts.damaged
    return answer
