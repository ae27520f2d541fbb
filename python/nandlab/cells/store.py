"""Finished cells on disk, found by key.

A file holds the cells that were finished within some seconds: ten thousand small files would take
longer than the cells. It is called by the hash of its content. It is written under another name
first, so it is there as a whole or not at all. The engine looks at the checksum of each result.
"""

import hashlib
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, NamedTuple, Self

from nandlab.cells.choice import CellCounts
from nandlab.errors import NandlabError
from nandlab.outputs import check_folder, write_whole

_HEAD = b"nandlab cells 1\n"
_KEY_CHARACTERS = 64
_LENGTH_BYTES = 8
_ENDING = ".cells"
_WRITTEN_AFTER_S = 2.0
"""What was finished in this time may be lost if the process is killed."""
_WRITTEN_AFTER_BYTES = 16 << 20
_DIGITS = frozenset(b"0123456789abcdef")


class _Place(NamedTuple):
    """Where a result lies."""

    file: Path
    offset: int
    length: int


class CellFolder:
    """The finished cells of a run; the engine takes them from here and gives them back.

    `engine` names the engine and is part of each key. Of a store that `is_all`, nothing is carried
    out but what it holds.
    """

    def __init__(self, folder: Path, engine: str, *, is_fresh: bool = False) -> None:
        """Look at what is there.

        Raises `NandlabError` for a folder that takes no files, or that holds anything else.
        """
        self.folder = folder
        self.engine = engine
        self.is_all = False
        self.counts = CellCounts()
        self.asked = 0
        """Times that the engine asked for a cell."""
        self.found = 0
        """Times that it got one."""
        self._pending: dict[str, bytes] = {}
        self._pending_bytes = 0
        self._written_at = time.monotonic()
        _check_content(folder)
        check_folder(folder)
        self._places: dict[str, _Place] = {} if is_fresh else dict(_places(folder))

    def has(self, key: str) -> bool:
        """Whether the cell is finished."""
        return key in self._pending or key in self._places

    def take(self, key: str) -> bytes | None:
        """The result of a cell; none if it is not finished, or cannot be read."""
        self.asked += 1
        result = self._read(key)
        self.found += result is not None
        return result

    def _read(self, key: str) -> bytes | None:
        if key in self._pending:
            return self._pending[key]
        place = self._places.get(key)
        if place is None:
            return None
        try:
            with place.file.open("rb") as file:
                file.seek(place.offset)
                return file.read(place.length)
        except OSError:
            return None

    def refuse(self, key: str) -> None:
        """The result is damaged: forget it."""
        self._pending.pop(key, None)
        self._places.pop(key, None)
        self.counts.damaged += 1

    def keep(self, key: str, result: bytes) -> None:
        """Keeps a result that was found just now; it is on disk after some seconds."""
        self.counts.finished_now += 1
        self._pending[key] = result
        self._pending_bytes += len(result)
        self.write_if_due()

    def write_if_due(self) -> None:
        """Writes what waits, if it has waited long enough."""
        is_due = time.monotonic() - self._written_at >= _WRITTEN_AFTER_S
        if is_due or self._pending_bytes >= _WRITTEN_AFTER_BYTES:
            self.write()

    def write(self) -> None:
        """Writes what waits; a disk that takes nothing more takes nothing from the run."""
        self._written_at = time.monotonic()
        if not self._pending or self.counts.failure is not None:
            return
        content = bytearray(_HEAD)
        offsets = {}
        for key, result in self._pending.items():
            content += key.encode() + len(result).to_bytes(_LENGTH_BYTES, "little")
            offsets[key] = len(content)
            content += result
        file = self.folder / f"{hashlib.sha256(content).hexdigest()[:32]}{_ENDING}"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_whole(file, bytes(content))
        except OSError as error:
            self.counts.failure = (
                f"{self.folder}: {error.strerror}; finished cells are not kept any more"
            )
            return
        for key, offset in offsets.items():
            self._places[key] = _Place(file, offset, len(self._pending[key]))
        self._pending.clear()
        self._pending_bytes = 0

    def finished(self) -> int:
        """Cells that a later call finds."""
        return len(self._places)

    def remove(self) -> None:
        """Removes the files of cells, and the folder if nothing else is in it."""
        self._pending.clear()
        self._places.clear()
        with suppress(OSError):
            for file in self.folder.glob(f"*{_ENDING}"):
                file.unlink()
            self.folder.rmdir()

    def __enter__(self) -> Self:
        """Nothing to open."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Whatever ended the run, what was finished is kept."""
        self.write()


def _check_content(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise NandlabError(f"{folder}: this is a file; name a folder for cells")
    if folder.is_dir():
        others = (one for one in folder.iterdir() if not one.name.startswith("."))
        other = next((one for one in others if one.suffix != _ENDING), None)
        if other is not None:
            raise NandlabError(
                f"{folder}: holds {other.name}, which is no file of cells; name another folder"
            )


def _places(folder: Path) -> Iterator[tuple[str, _Place]]:
    """Key and place of each result; a file is left where it is damaged."""
    for path in sorted(folder.glob(f"*{_ENDING}")):
        with suppress(OSError), path.open("rb") as file:
            if file.read(len(_HEAD)) == _HEAD:
                yield from _places_in(file, path)


def _places_in(file: BinaryIO, path: Path) -> Iterator[tuple[str, _Place]]:
    size = path.stat().st_size
    offset = len(_HEAD)
    while True:
        head = file.read(_KEY_CHARACTERS + _LENGTH_BYTES)
        key, length = head[:_KEY_CHARACTERS], int.from_bytes(head[_KEY_CHARACTERS:], "little")
        offset += len(head)
        is_whole = len(head) == _KEY_CHARACTERS + _LENGTH_BYTES and _DIGITS.issuperset(key)
        if not is_whole or offset + length > size:
            return
        yield key.decode(), _Place(path, offset, length)
        offset += length
        file.seek(offset)
