"""Files that appear whole or not at all."""

import errno
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from nandlab.errors import NandlabError
from nandlab.outputs import check_name, keep, scratch_folder, write_whole


class WholeFiles:
    """Scratch places beside the files that are to be written."""

    def __init__(self) -> None:
        """Begin with none."""
        self._files: list[tuple[Path, Path]] = []
        self._folders: list[tuple[Path, Path]] = []
        self._stack = ExitStack()

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

    def _keep(self) -> None:
        for scratch, target in self._files:
            keep(target, partial(_move, scratch))
        for scratch, target in self._folders:
            for path in sorted(scratch.iterdir()):
                keep(target / path.name, partial(_move, path))

    def close(self) -> None:
        """Removes the scratch places and what is left in them."""
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
