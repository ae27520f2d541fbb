"""Files that appear whole or not at all."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nandlab.errors import NandlabError


class WholeFiles:
    """Scratch places beside the files that are to be written."""

    def __init__(self) -> None:
        """Begin with none."""
        self._files: list[tuple[Path, Path]] = []
        self._folders: list[tuple[Path, Path]] = []

    def file(self, target: Path | None) -> Path | None:
        """A place to write a file at that takes the place of `target` in the end."""
        if target is None:
            return None
        if target.is_dir():
            raise NandlabError(f"{target}: this is a folder; name a file")
        scratch = self._scratch(target.parent) / target.name
        self._files.append((scratch, target))
        return scratch

    def folder(self, target: Path | None) -> Path | None:
        """A folder to write files in that are moved to `target` in the end."""
        if target is None:
            return None
        if target.exists() and not target.is_dir():
            raise NandlabError(f"{target}: this is a file; name a folder")
        scratch = self._scratch(target.parent)
        self._folders.append((scratch, target))
        return scratch

    def _scratch(self, beside: Path) -> Path:
        try:
            beside.mkdir(parents=True, exist_ok=True)
            return Path(tempfile.mkdtemp(prefix=".nandlab-", dir=beside))
        except OSError as error:
            raise NandlabError(f"{beside}: cannot write here: {error.strerror}") from None

    def _keep(self) -> None:
        for scratch, target in self._files:
            scratch.replace(target)
        for scratch, target in self._folders:
            target.mkdir(exist_ok=True)
            for path in sorted(scratch.iterdir()):
                path.replace(target / path.name)

    def _remove_scratch(self) -> None:
        for scratch, _ in self._files:
            shutil.rmtree(scratch.parent, ignore_errors=True)
        for scratch, _ in self._folders:
            shutil.rmtree(scratch, ignore_errors=True)


@contextmanager
def whole_files() -> Iterator[WholeFiles]:
    """Files that replace those of their name when the block ends without an error."""
    files = WholeFiles()
    try:
        yield files
        files._keep()
    finally:
        files._remove_scratch()
