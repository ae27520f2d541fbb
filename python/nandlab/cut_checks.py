"""What a program or a function of the user's own says of the files that power cuts left."""

import os
import subprocess
import tempfile
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from types import TracebackType

from nandlab import engine
from nandlab.engine import CutFiles, FileOfCut
from nandlab.errors import NandlabError
from nandlab.host_script import remove_folder
from nandlab.vm import children

CheckFunction = Callable[[Path, int | None], str | None]
"""Takes the folder of the files and the newest acknowledgement; why they do not hold, or None."""

PREFIX = "nandlab-check-"
"""How the name of the folder begins, within the folder for temporary files."""

HOLDS, BROKEN = 0, 1
"""Exit statuses of a command that looked at the files."""

_LOOK_EVERY_S = 0.02
_REASON_LETTERS_MAX = 300
"""A reason stands on a line of its own, and groups cuts: a page of text does neither."""

_MODE_OF_FILES, _MODE_OF_FOLDERS = 0o600, 0o700
"""What the owner may do, whatever the mode says: scripts run as root, and FAT keeps no mode."""


class CutCheck:
    """A command or a function that looks at the files of cuts, in folders that are removed."""

    def __init__(self, check: str | CheckFunction, jobs: int | None) -> None:
        """Keep the check. A command runs `jobs` times side by side, a function never."""
        self.name = check if isinstance(check, str) else getattr(check, "__name__", repr(check))
        self._command = check if isinstance(check, str) else None
        self._function = None if isinstance(check, str) else check
        self._jobs = jobs or len(os.sched_getaffinity(0))
        self._numbers = count()
        self._is_closed = threading.Event()
        self._top: Path | None = None

    def __enter__(self) -> "CutCheck":
        """Make the folder."""
        try:
            self._top = Path(tempfile.mkdtemp(prefix=PREFIX))
        except OSError as error:
            raise NandlabError(f"--check: no folder can be made: {error.strerror}") from None
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End what still runs, and remove the folder."""
        self._is_closed.set()
        if kind is not None:
            children.end_all()
        if self._top is not None:
            remove_folder(self._top)

    def __call__(self, cuts: list[CutFiles]) -> list[str | None] | None:
        """Look at the files of cuts, for the engine: a verdict for each, or None to stop."""
        if self._function is not None:
            return self._each(cuts, self._called)
        with ThreadPoolExecutor(self._jobs) as pool:
            verdicts = list(pool.map(self._ran, cuts))
        return None if self._stops() else verdicts

    def _each(
        self, cuts: Sequence[CutFiles], look: Callable[[CutFiles], str | None]
    ) -> list[str | None] | None:
        verdicts = []
        for cut in cuts:
            if self._stops():
                return None
            verdicts.append(look(cut))
        return verdicts

    def _stops(self) -> bool:
        return self._is_closed.is_set() or engine.is_stopping()

    def _called(self, cut: CutFiles) -> str | None:
        assert self._function is not None
        folder = self._extracted(cut)
        try:
            said = self._function(folder, cut[2])
        finally:
            remove_folder(folder)
        return None if said is None else _reason(str(said))

    def _ran(self, cut: CutFiles) -> str | None:
        if self._stops():
            return None
        folder = self._extracted(cut)
        try:
            return self._verdict(cut, folder)
        finally:
            remove_folder(folder)

    def _verdict(self, cut: CutFiles, folder: Path) -> str | None:
        assert self._command is not None
        point, torn, acknowledged, _ = cut
        environment = os.environ | {
            "NANDLAB_ACK": "" if acknowledged is None else str(acknowledged),
            "NANDLAB_CUT": str(point),
            "NANDLAB_TORN": torn,
            "PWD": str(folder),
        }
        words = ("/bin/sh", "-c", self._command)
        with children.started(words, directory=folder, environment=environment) as process:
            output = self._output(process)
            status = process.returncode
        if self._stops() or status == HOLDS:
            return None
        last = next((line for line in reversed(output.splitlines()) if line.strip()), "")
        if status == BROKEN:
            return _reason(last or f"exit status {BROKEN}")
        ended = f"signal {-status}" if status < 0 else f"exit status {status}"
        told = f": {_reason(last)}" if last else ""
        raise NandlabError(
            f"--check {self._command}: {ended} at cut point {point} ({torn}){told}. Exit with "
            f"{HOLDS} if the files hold and with {BROKEN} if not; name the program by its whole "
            "path, because it runs in the folder of the files"
        )

    def _output(self, process: "subprocess.Popen[str]") -> str:
        """What a command printed; it is ended if the call shall stop."""
        while True:
            try:
                output, _ = process.communicate(timeout=_LOOK_EVERY_S)
            except subprocess.TimeoutExpired:
                if self._stops():
                    children.end(process)
            else:
                return output

    def _extracted(self, cut: CutFiles) -> Path:
        """The files of a cut in a folder of their own."""
        assert self._top is not None
        folder = self._top / str(next(self._numbers))
        try:
            _extract(cut[3], folder)
        except OSError as error:
            raise NandlabError(f"--check: {folder}: {error.strerror}") from None
        return folder


def _reason(text: str) -> str:
    """A reason on one line."""
    return " ".join(text.split())[:_REASON_LETTERS_MAX]


def _extract(files: Sequence[FileOfCut], folder: Path) -> None:
    """Writes files below a folder, which is made.

    Owners, times, extended attributes and devices are left out. A name that cannot be read becomes
    a symbolic link to itself, which no program can open either.
    """
    top = os.fsencode(folder)
    modes: dict[bytes, int] = {}
    for path, kind, permissions, content, first in files:
        place = os.path.join(top, path) if path else top  # noqa: PTH118
        if kind == "d":
            os.mkdir(place, 0o700)  # noqa: PTH102
            modes[place] = permissions | _MODE_OF_FOLDERS
        elif kind == "l":
            os.symlink(content, place)  # noqa: PTH211
        elif kind == "?":
            _closed_name(place)
            modes.pop(place, None)
        elif kind == "f" and first != path:
            os.link(os.path.join(top, first), place)  # noqa: PTH118
        elif kind == "f":
            with open(place, "xb") as file:  # noqa: PTH123
                file.write(content)
            modes[place] = permissions | _MODE_OF_FILES
        elif kind == "p":
            os.mkfifo(place)
            modes[place] = permissions
    for place, mode in modes.items():
        os.chmod(place, mode & 0o777)  # noqa: PTH101


def _closed_name(place: bytes) -> None:
    """Makes a name that cannot be opened, also in place of a folder that lists nothing."""
    if os.path.isdir(place):  # noqa: PTH112
        os.rmdir(place)  # noqa: PTH106
    if os.path.isdir(os.path.dirname(place)):  # noqa: PTH112, PTH120
        os.symlink(os.path.basename(place), place)  # noqa: PTH119, PTH211
