"""Evaluates points: each is a study that is run and kept, once."""

import errno
import os
import shlex
import threading
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

from nandlab import engine
from nandlab.cells import OpenCluster
from nandlab.design_space.points import REFUSED, Point, Points, keep_refusal, reason, write_texts
from nandlab.engine import Progress
from nandlab.errors import MachineError, NandlabError
from nandlab.frame import RunFrame
from nandlab.frame.run_directory import read, whole_folder, write_results
from nandlab.study_files import STUDY_FILE
from nandlab.study_runs import RunRequest, frame_of

_LOOK_S = 0.05

_OF_THE_MACHINE = tuple(
    os.strerror(one) for one in (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENOMEM)
)
"""Reasons in messages of the engine that say nothing of a point: a later call tries it again."""


@dataclass(frozen=True)
class Evaluated:
    """A point with its results, or the reason why it has none."""

    point: Point
    run: RunFrame | None
    refusal: str = ""


def evaluate(
    points: Sequence[Point],
    kept: Points,
    jobs: int,
    progress: Progress | None = None,
    cluster: OpenCluster | None = None,
) -> list[Evaluated]:
    """Runs the studies of points that are not there yet, and reads those that are.

    The answers stand in the order of `points`, whatever ended first. Ctrl-C and SIGTERM stop the
    runs under way; what finished stays. This is the one place that runs studies of a search.
    `cluster` carries out their cells, if it is given.
    """
    missing = [one for one in points if not _is_known(one, kept)]
    if missing:
        _carry_out(missing, kept, jobs, progress, cluster)
    return [_read(one, kept) for one in points]


def _is_known(point: Point, kept: Points) -> bool:
    return kept.is_finished(point.key) or (kept.place(point.key) / REFUSED).is_file()


def _carry_out(
    points: Sequence[Point],
    kept: Points,
    jobs: int,
    progress: Progress | None,
    cluster: OpenCluster | None,
) -> None:
    stopped = threading.Event()
    done = 0
    # A point alone takes all processors; of several each takes one.
    each = jobs if len(points) == 1 else 1
    # The cluster has work for all: here a thread only waits for it.
    threads = len(points) if cluster is not None else min(jobs, len(points))
    with ThreadPoolExecutor(max_workers=threads) as workers:
        left: set[Future[None]] = {
            workers.submit(_run, one, kept, each, stopped, cluster) for one in points
        }
        try:
            while left:
                # A wait without an end would keep the handlers of signals from running.
                ended, left = wait(left, timeout=_LOOK_S, return_when=FIRST_COMPLETED)
                for one in ended:
                    one.result()
                done += len(ended)
                if progress is not None and ended:
                    progress(done, len(points), "")
        except BaseException:
            stopped.set()
            for one in left:
                one.cancel()
            engine.stop()
            raise


def _run(
    point: Point,
    kept: Points,
    jobs: int,
    stopped: threading.Event,
    cluster: OpenCluster | None,
) -> None:
    """Runs the study of a point and writes its folder."""
    if stopped.is_set():
        return
    place = kept.place(point.key)

    def watch(_done: int, _total: int, _label: str) -> None:
        # What waits for a cluster hears of Ctrl-C by this alone.
        if stopped.is_set():
            raise KeyboardInterrupt

    with kept.written(point) as path:
        try:
            request = RunRequest(str(path), str(path), place, jobs=jobs, cluster=cluster)
            found = frame_of(request, watch)
        except NandlabError as error:
            # What the plan or a run says of the point holds for ever; a full disk does not, nor
            # does a worker that is gone.
            if isinstance(error, MachineError) or any(one in str(error) for one in _OF_THE_MACHINE):
                raise
            if not stopped.is_set():
                keep_refusal(place, point, reason(error, path))
            return
    if not found.interrupted and not stopped.is_set():
        command = shlex.join(["nandlab", "run", str(place / STUDY_FILE)])
        _write(place, point, found, command)


def _write(place: Path, point: Point, found: RunFrame, command: str) -> None:
    """Writes study and results together: a folder that is there is finished."""
    with whole_folder(place) as folder:
        write_texts(folder, point)
        write_results(folder, found, command, keeps_inputs=False)


def _read(point: Point, kept: Points) -> Evaluated:
    place = kept.place(point.key)
    if (place / REFUSED).is_file():
        return Evaluated(point, None, (place / REFUSED).read_text(encoding="utf-8"))
    return Evaluated(point, read(place))
