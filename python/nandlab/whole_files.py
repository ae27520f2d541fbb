"""Files that appear whole or not at all."""

import errno
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

from nandlab.errors import NandlabError
from nandlab.outputs import (
    check_name,
    keep,
    kept_in,
    other_places,
    scratch_folder,
    write_whole,
)


class _Moved:
    """A file that goes elsewhere, for its target does not take it."""

    def __init__(self, target: Path, reason: str, places: Iterator[Path]) -> None:
        """Begin before the first of other places."""
        self._target, self._reason, self._places = target, reason, places
        self._found: Path | None = None
        self._is_told = False

    def next_place(self) -> str | None:
        """The next place, in exchange for the one before."""
        self.give_up()
        self._found = next(self._places, None)
        return None if self._found is None else str(self._found)

    def told(self) -> str:
        """Says where the file is; from now on it stays there."""
        self._is_told = True
        return kept_in(self._target, self._reason, self._found)

    def give_up(self) -> None:
        """Removes a place that nobody was told of."""
        if self._found is not None and not self._is_told:
            shutil.rmtree(self._found.parent, ignore_errors=True)


class WholeFiles:
    """Scratch places beside the files that are to be written."""

    def __init__(self) -> None:
        """Begin with none."""
        self._files: list[tuple[Path, Path]] = []
        self._folders: list[tuple[Path, Path]] = []
        self._stack = ExitStack()
        self._moved: dict[Path, _Moved] = {}

    def file(self, target: Path | None) -> Path | None:
        """A place to write a file at that takes the place of `target` in the end."""
        if target is None:
            return None
        check_name(target)
        if target.is_dir():
            raise NandlabError(f"{target}: this is a folder; name a file")
        scratch = self._scratch(target.parent) / target.name
        self._files.append((scratch, target))
        return scratch

    def folder(self, target: Path | None) -> Path | None:
        """A folder to write files in that are moved to `target` in the end."""
        if target is None:
            return None
        check_name(target)
        if target.exists() and not target.is_dir():
            raise NandlabError(f"{target}: this is a file; name a folder")
        scratch = self._scratch(target.parent)
        self._folders.append((scratch, target))
        return scratch

    def _scratch(self, beside: Path) -> Path:
        return self._stack.enter_context(scratch_folder(beside, "nandlab"))

    def elsewhere(self, scratch: str, reason: str) -> str | None:
        """Another place for a file whose scratch place does not take it; none if no place does.

        Called again when that place takes the file no more than the first.
        """
        place = Path(scratch)
        # What was written of it takes room that other files may need.
        with suppress(OSError):
            place.unlink()
        if place not in self._moved:
            target = self._target(place)
            self._moved[place] = _Moved(target, reason, other_places(target))
        return self._moved[place].next_place()

    def _target(self, place: Path) -> Path:
        """Where a scratch place is moved in the end."""
        for scratch, target in self._files:
            if scratch == place:
                return target
        folder = next(target for scratch, target in self._folders if scratch == place.parent)
        return folder / place.name

    def _keep(self) -> None:
        """Moves the files to their targets; an error tells of all that are elsewhere."""
        told = [moved.told() for moved in self._moved.values()]
        files = [pair for pair in self._files if pair[0] not in self._moved]
        for folder, target in self._folders:
            files += [(path, target / path.name) for path in sorted(folder.iterdir())]
        for scratch, target in files:
            try:
                keep(target, partial(_move, scratch))
            except NandlabError as error:
                told.append(str(error))
        if told:
            raise NandlabError("; ".join(told))

    def close(self) -> None:
        """Removes the scratch places and what is left in them."""
        for moved in self._moved.values():
            moved.give_up()
        self._stack.close()


def keep_text(target: Path | None, text: str) -> None:
    """Writes a text that is asked for; if that fails, elsewhere, with an error that tells where."""
    if target is not None:
        keep(target, partial(_write, text))


def _write(text: str, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    write_whole(place, text.encode())


def _move(scratch: Path, target: Path) -> None:
    """Moves a file that is whole; to another disk it is copied."""
    target.parent.mkdir(exist_ok=True)
    try:
        scratch.replace(target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        shutil.copyfile(scratch, target)


@contextmanager
def whole_files() -> Iterator[WholeFiles]:
    """Files that replace those of their name when the block ends without an error."""
    files = WholeFiles()
    try:
        yield files
        files._keep()
    finally:
        files.close()
