"""Files and folders below the root of a log: their names, what they were before, their sizes.

The log tells little of what was there before it began. A file is taken to have been there if a call
used it that makes none, and to have had the size that reads, `stat` and `lseek` show.
"""

from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["file", "folder", "link", "special"]

LINKS_MAX = 40
"""Symbolic links that Linux follows in a path (`MAXSYMLINKS`)."""

USUAL_FILE_MODE, USUAL_FOLDER_MODE = 0o644, 0o755
"""Modes of what was there before, if no `stat` shows them."""


@dataclass(eq=False)
class File:
    """An inode."""

    kind: Kind | None = None
    """None if nothing tells yet: it is a regular file then."""
    names: dict[bytes, None] = field(default_factory=dict)
    """Paths relative to the root, the oldest first."""
    size: int = 0
    """Bytes, as far as the log tells."""
    mode: int | None = None
    owner: tuple[int, int] = (0, 0)
    """In the simulation, where root makes every file."""
    target: bytes | None = None
    """Where a symbolic link leads, as the script has it."""
    before: bytes | None = None
    """Its path before the log began; None if the log made it."""
    size_before: int = 0
    is_needed: bool = False
    """A line of the script needs it."""
    may_be_old: bool = False
    """Opened with O_CREAT alone: what comes tells whether it was there before."""
    appears: bool = False
    """In a folder that the log made, but no call made it."""
    is_size_known: bool = False
    """Its size is no guess: the log made it, emptied it or showed it."""
    appended: int = 0
    """Bytes that were appended to a size that is not known."""

    @property
    def name(self) -> bytes | None:
        """A path; None if it has none any more."""
        return next(iter(self.names), None)

    @property
    def was_there(self) -> bool:
        """True if it was there before the log began."""
        return self.before is not None and (not self.may_be_old or self.size_before > 0)

    def reaches(self, size: int, *, is_exact: bool) -> bool:
        """Notes a size that the log shows; false if calls that it lacks must have changed it."""
        if self.is_size_known or self.kind not in (None, "file"):
            is_explained = size == self.size if is_exact else size <= self.size
            self.size = size if is_exact else max(size, self.size)
            return is_explained or self.kind not in (None, "file")
        if size > self.size:
            self.size_before = max(self.size_before, size - self.appended)
            self.size = size
        self.is_size_known |= is_exact and self.size == size
        return True

    def is_cut_to(self, size: int) -> None:
        """Notes that a call set its size."""
        self.size, self.is_size_known, self.appended = size, True, 0

    def is_written(self, offset: int | None, length: int) -> None:
        """Notes bytes that were written at a place, or for None at the end."""
        if offset is None:
            self.size += length
            self.appended += 0 if self.is_size_known else length
        else:
            self.size = max(self.size, offset + length)


class Tree:
    """Files by path."""

    def __init__(self) -> None:
        """Begin with the root alone."""
        self.files: dict[bytes, File] = {b"": File("folder", {b"": None})}
        self.every: list[File] = []
        """All files that there ever were, also those without a name."""
        self._absent: set[bytes] = set()

    def at(self, path: bytes) -> File | None:
        """What is known under a path."""
        return self.files.get(path)

    def old(self, path: bytes, kind: Kind | None = None) -> File:
        """What is under a path. Something must be: if nothing is known, it was there before."""
        found = self.files.get(path)
        if found is None:
            before = self.before(path)
            found = File(kind, before=before, appears=before is None)
            self.every.append(found)
            self._name(path, found)
        if kind is not None and found.kind is None:
            found.kind = kind
        return found

    def before(self, path: bytes) -> bytes | None:
        """The path that it had before the log began, below a folder that may have had another.

        None where the log has shown that nothing was, and below a folder that the log made.
        """
        if path in self._absent:
            return None
        head, slash, tail = path.rpartition(b"/")
        if not slash:
            return path
        folder = self.files.get(head)
        above = self.before(head) if folder is None else folder.before
        return None if above is None else above + slash + tail

    def is_absent(self, path: bytes) -> bool:
        """True if the log has shown that nothing is there."""
        return path in self._absent and path not in self.files

    def is_missing(self, path: bytes) -> None:
        """Notes that a call found nothing under a path."""
        if path not in self.files:
            self._absent.add(path)

    def made(self, path: bytes, kind: Kind, mode: int | None) -> File:
        """A new file under a path."""
        file = File(kind, mode=mode, is_size_known=True)
        self.every.append(file)
        self._name(path, file)
        return file

    def link(self, file: File, path: bytes) -> None:
        """Gives a file another name."""
        self._name(path, file)

    def _name(self, path: bytes, file: File) -> None:
        self.removed(path)
        self._absent.discard(path)
        self.files[path] = file
        file.names[path] = None
        head, _, _ = path.rpartition(b"/")
        # Whatever has something below it is a folder.
        if path and (above := self.old(head, "folder")).kind is None:
            above.kind = "folder"

    def removed(self, path: bytes) -> None:
        """Takes a name away."""
        file = self.files.pop(path, None)
        if file is not None:
            file.names.pop(path, None)
            self._absent.add(path)

    def renamed(self, old: bytes, new: bytes) -> None:
        """Moves a name, of a folder with all that is below it."""
        moved = self.files[old]
        if moved is self.files.get(new):
            return
        below = [one for one in self.files if one.startswith(old + b"/")]
        pairs = [(one, new + one[len(old) :]) for one in (old, *below)]
        files = [(self.files[one], other) for one, other in pairs]
        for one, _ in pairs:
            self.removed(one)
        for file, other in files:
            self._name(other, file)

    def is_same(self, one: bytes, other: bytes) -> bool:
        """True if both are names of one file."""
        file = self.files.get(one)
        return file is not None and file is self.files.get(other)

    def exchanged(self, old: bytes, new: bytes) -> None:
        """Two names change places, of folders with all that is below them."""
        if self.is_same(old, new):
            return
        # No path has this name: it holds a zero.
        spare = new + b"\0"
        for one, other in ((new, spare), (old, new), (spare, old)):
            self.renamed(one, other)

    def walked(self, path: bytes, *, follows: bool) -> bytes | None:
        """A path with known symbolic links followed; None if it leads out of the root."""
        found: list[bytes] = []
        left = path.split(b"/")[::-1]
        followed = 0
        while left:
            name = left.pop()
            if name in (b"", b"."):
                continue
            if name == b"..":
                if not found:
                    return None
                found.pop()
                continue
            found.append(name)
            file = self.files.get(b"/".join(found))
            if file is None or file.target is None or not (left or follows):
                continue
            followed += 1
            if followed > LINKS_MAX:
                return None
            if file.target.startswith(b"/"):
                found.clear()
            else:
                found.pop()
            left += file.target.split(b"/")[::-1]
        return b"/".join(found)
