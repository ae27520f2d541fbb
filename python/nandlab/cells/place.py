"""The places that `--cluster` names: a scheduler that runs, workers on this machine, Slurm."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nandlab.errors import NandlabError
from nandlab.suggest import unknown

FORMS = "dask://HOST:PORT, local:WORKERS or slurm:FILE"
"""What `--cluster` takes."""

_WORKERS_MAX = 1024
_SLURM_KEYS = {
    "jobs": int,
    "cores": int,
    "processes": int,
    "memory": str,
    "walltime": str,
    "queue": str,
    "account": str,
    "interface": str,
    "python": str,
    "local_directory": str,
    "log_directory": str,
    "job_script_prologue": list,
    "job_extra_directives": list,
}
"""Keys of a file for Slurm; those of `SLURMCluster` of dask-jobqueue, and `jobs`."""
_NEEDED = ("jobs", "cores", "memory")


@dataclass(frozen=True)
class Place:
    """Where cells are carried out; one of the three is set."""

    given: str
    address: str | None = None
    """Address of a scheduler, as Dask writes it."""
    workers: int | None = None
    """Workers to start on this machine."""
    slurm: dict[str, Any] | None = None
    """Keys of the file for Slurm."""


def place_of(given: str) -> Place:
    """The place that a word of the command line names.

    Raises `NandlabError` for a word, a number or a file that is none.
    """
    kind, colon, rest = given.partition(":")
    if kind == "dask" and rest.startswith("//"):
        host, _, port = rest.removeprefix("//").rpartition(":")
        if host and port.isdecimal() and 0 < int(port) < 1 << 16:
            return Place(given, address=f"tcp://{host}:{port}")
    elif kind == "local" and colon and rest.isdecimal() and 0 < int(rest) <= _WORKERS_MAX:
        return Place(given, workers=int(rest))
    elif kind == "slurm" and rest:
        return Place(given, slurm=_slurm_of(Path(rest)))
    raise NandlabError(f"--cluster: `{given}` is none of {FORMS}")


def _slurm_of(path: Path) -> dict[str, Any]:
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise NandlabError(f"{path}: {error.strerror}; --cluster slurm:FILE needs it") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise NandlabError(f"{path}: {error}") from None
    for key, value in found.items():
        if key not in _SLURM_KEYS:
            raise NandlabError(f"{path}: {unknown('key', key, _SLURM_KEYS)}")
        kind = _SLURM_KEYS[key]
        if not isinstance(value, kind) or isinstance(value, bool):
            words = {int: "a whole number", str: "a text", list: "a list of texts"}
            raise NandlabError(f"{path}: {key}: `{value}` is not {words[kind]}")
    missing = [key for key in _NEEDED if key not in found]
    if missing:
        raise NandlabError(f"{path}: lacks {', '.join(missing)}")
    return found
