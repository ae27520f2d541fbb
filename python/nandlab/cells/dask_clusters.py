"""Dask's side of `--cluster`: a client of a scheduler, and the workers that are started for it.

Dask is an extra of the package: https://distributed.dask.org and https://jobqueue.dask.org.
"""

import logging
import signal
import threading
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from typing import Any

from nandlab.cells.place import Place
from nandlab.errors import MachineError, NandlabError
from nandlab.interruption import SIGNALS, leaves_work_behind

_CONNECTS_WITHIN_S = 10
_CLOSES_WITHIN_S = 1


@contextmanager
def connected(place: Place) -> Iterator[Any]:
    """A client of the cluster; what was started for it ends with the block.

    Raises `NandlabError` if Dask is not installed, or no scheduler answers.
    """
    _check_installed()
    from distributed import Client

    # Lost workers are expected, and counted: Dask's own lines would only repeat it.
    for name in ("distributed", "distributed.worker", "distributed.scheduler", "distributed.nanny"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    with ExitStack() as stack, warnings.catch_warnings():
        # Versions of Dask that differ, ports in use, studies of many megabytes.
        warnings.simplefilter("ignore")
        where = place.address if place.address is not None else _started(place, stack)
        try:
            client = Client(where, timeout=_CONNECTS_WITHIN_S, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            raise MachineError(
                f"--cluster: no scheduler answers at {place.given}: {error}"
            ) from None
        stack.callback(_close, client)
        yield client


def job_script(place: Place) -> str:
    """The script that Slurm would get for each job; nothing is submitted."""
    _check_installed()
    with ExitStack() as stack, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return str(_slurm(place, stack).job_script())


def _started(place: Place, stack: ExitStack) -> Any:
    """A cluster that begins now."""
    if place.slurm is not None:
        cluster = _slurm(place, stack)
        cluster.scale(jobs=place.slurm["jobs"])
        return cluster
    from distributed import LocalCluster

    cluster = LocalCluster(
        n_workers=place.workers,
        threads_per_worker=1,
        processes=True,
        dashboard_address=None,
        silence_logs=logging.CRITICAL,
    )
    stack.callback(_close, cluster)
    return cluster


def _slurm(place: Place, stack: ExitStack) -> Any:
    """A cluster of Slurm without a job."""
    with _kept_handlers():
        from dask_jobqueue import SLURMCluster

    keys = {key: value for key, value in (place.slurm or {}).items() if key != "jobs"}
    # A worker carries out one cell at a time.
    keys.setdefault("processes", keys["cores"])
    try:
        cluster = SLURMCluster(
            **keys,
            scheduler_options={"dashboard_address": None},
            silence_logs="critical",
        )
    except (OSError, ValueError, TypeError) as error:
        raise NandlabError(f"--cluster {place.given}: {error}") from None
    stack.callback(_close, cluster)
    return cluster


def _close(one: Any) -> None:
    """Ends a client or a cluster; a worker in the middle of a cell is not waited for."""
    try:
        one.close(timeout=_CLOSES_WITHIN_S)
    except TimeoutError:
        # Workers end when the process is gone that started them.
        leaves_work_behind()


@contextmanager
def _kept_handlers() -> Iterator[None]:
    """Keeps what handles signals: `dask_jobqueue.runner` takes SIGINT when it is imported.

    Its handler ends the process with status 0, and without a word.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _check_installed() -> None:
    for name in ("distributed", "dask_jobqueue"):
        if find_spec(name) is None:
            raise NandlabError(
                f"--cluster: {name} is not installed; get it with `pip install 'nandlab[cluster]'`"
            )
