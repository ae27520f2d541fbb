"""Places of results: looked at before the work, and replaced if they fail after it."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from nandlab.errors import NandlabError
from nandlab.interruption import held
from nandlab.json_text import is_text

_PROBE_BYTES = 1 << 16
"""A folder that does not take as much will take no results."""


def check_folder(folder: Path) -> None:
    """Refuses a folder that takes no files; of one that is not there, what it would be made in.

    Raises `NandlabError` with the reason: read-only, full, not a folder, a name that is not UTF-8.
    """
    there = folder
    while not there.exists() and there != there.parent:
        there = there.parent
    with scratch_folder(there, "probe"):
        return


def write_whole(target: Path, content: bytes) -> None:
    """Writes a file that appears whole, in place of an earlier one."""
    scratch = target.with_name(f".{target.name}-{os.getpid()}")
    try:
        scratch.write_bytes(content)
        scratch.replace(target)
    finally:
        scratch.unlink(missing_ok=True)


def check_file(target: Path) -> None:
    """Refuses a file that cannot be written, before there is something to write."""
    check_name(target)
    if target.is_dir():
        raise NandlabError(f"{target}: this is a folder; name a file")
    check_folder(target.parent)


def check_name(target: Path) -> None:
    """Refuses a name that reports and results could not be found under again."""
    if not is_text(str(target)):
        raise NandlabError(f"{str(target)!r} is not UTF-8; give another name")


@contextmanager
def scratch_folder(beside: Path, name: str) -> Iterator[Path]:
    """A hidden folder in `beside`, which is removed in the end; room in it is tried out."""
    check_name(beside)
    try:
        beside.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=beside))
    except OSError as error:
        raise NandlabError(f"{beside}: cannot write here: {error.strerror}") from None
    try:
        try:
            _try_out(scratch / "probe")
        except OSError as error:
            raise NandlabError(f"{beside}: cannot write here: {error.strerror}") from None
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _try_out(probe: Path) -> None:
    with probe.open("wb") as file:
        file.write(bytes(_PROBE_BYTES))
        # Some file systems find out only now that there is no room.
        file.flush()
        os.fsync(file.fileno())
    probe.unlink()


def keep(target: Path, write: Callable[[Path], None]) -> None:
    """Calls `write` with `target`, or with a temporary place if that cannot be written any more.

    A signal waits until it is done. Raises `NandlabError` that says where the results are.
    """
    with held():
        try:
            write(target)
        # Libraries have errors of their own for a disk that is full. Nothing is hidden: if it is a
        # defect, it comes again in the other place.
        except Exception as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise NandlabError(_elsewhere(target, write, reason or str(error))) from None


def _elsewhere(target: Path, write: Callable[[Path], None], reason: str) -> str:
    """Writes into the first temporary folder that takes the results; tells of it."""
    for found in other_places(target):
        try:
            write(found)
        except (OSError, NandlabError):
            shutil.rmtree(found.parent, ignore_errors=True)
            continue
        return kept_in(target, reason, found)
    return kept_in(target, reason, None)


def other_places(target: Path) -> Iterator[Path]:
    """Places in new temporary folders for what its target does not take, the best first."""
    for place in (None, "/var/tmp", str(Path.cwd()), str(Path.home())):
        with suppress(OSError):
            folder = Path(tempfile.mkdtemp(prefix="nandlab-results-", dir=place))
            yield folder / (target.name or "results")


def kept_in(target: Path, reason: str, found: Path | None) -> str:
    """Says why results are not at their target, and where they are, if a place took them."""
    if found is None:
        return f"{target}: {reason}; no temporary folder takes the results either: they are lost"
    return f"{target}: {reason}; the results are in {found}"
