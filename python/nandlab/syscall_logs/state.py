"""What the calls of a log work on: files, processes, and the steps that come of them."""

import posixpath
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count
from typing import Literal

from nandlab.errors import NandlabError
from nandlab.syscall_logs.acknowledgements import Acknowledgements
from nandlab.syscall_logs.arguments import Descriptor, Result, descriptor, split, string, words
from nandlab.syscall_logs.processes import OpenFile, Process, Processes
from nandlab.syscall_logs.steps import Moment, Steps
from nandlab.syscall_logs.strace import HOW, Call, Log
from nandlab.syscall_logs.tree import File, Tree

NO_WORD = "scripts have no word for it"
OUTSIDE = "outside of the root"
NAMELESS = "the file has no name, and scripts open files by name"
NO_CHANGE = "changes no file"

_OF_THE_KERNEL = (b"dev/", b"proc/", b"sys/", b"memfd:", b"SYSV")
"""Paths below `/` that no disk holds."""


@dataclass(frozen=True, slots=True)
class Given:
    """A call with what it was given."""

    call: Call
    process: Process
    arguments: list[str]
    result: Result

    @property
    def moment(self) -> Moment:
        """When it was made."""
        return Moment(self.call.time_ns, self.result.took_ns or 0)

    @property
    def value(self) -> int:
        """What it returned. Raises `ValueError` if the log does not tell."""
        if self.result.value is None:
            raise ValueError("it has no result")
        return self.result.value

    def flags(self, place: int) -> frozenset[str]:
        """Flags of an argument; none if it is not there."""
        return words(self.arguments[place]) if place < len(self.arguments) else frozenset()


@dataclass(frozen=True, slots=True)
class How:
    """What the user wants of the lines."""

    joins: bool = False
    """Calls on one file that follow each other share a line, which opens the file by its path."""
    failed: Literal["left-out", "try", "fails"] = "left-out"
    """What becomes of calls that failed in the log."""
    acknowledgements: Acknowledgements | None = None
    """Lines that become `ack` lines."""


class State:
    """Files, processes and steps."""

    def __init__(self, log: Log, root: bytes, folder: bytes | None, umask: int, how: How) -> None:
        """Begin where the log does. `folder` is where its first process stands."""
        self.how = how
        self.root = posixpath.normpath(root)
        self.tree = Tree()
        self.processes = Processes(log.forks, folder, umask)
        self.steps = Steps()
        self.left_out: Counter[tuple[str, str]] = Counter()
        self.approximated: Counter[tuple[str, str]] = Counter()
        self.unexplained: set[bytes] = set()
        """Files whose size the log's calls do not explain."""
        self.mapped: set[bytes] = set()
        """Files that were mapped to be written."""
        self._handles: set[int] = set()
        """Numbers of the names under which the script has files open."""
        self._tried = 0

    def leave_out(self, given: Given, reason: str) -> None:
        """Counts a call that no line stands for."""
        self.left_out[given.call.name, reason] += 1

    def approximate(self, given: Given, how: str) -> None:
        """Counts a call that its line stands for only nearly."""
        self.approximated[given.call.name, how] += 1

    # Paths.

    def relative(self, path: bytes, *, follows: bool = True) -> bytes | None:
        """A path of the log, relative to the root; None if it is outside."""
        inside = self._inside(path)
        if inside is None:
            inside = self._inside(posixpath.normpath(path))
        if inside is None or (self.root == b"/" and inside.startswith(_OF_THE_KERNEL)):
            return None
        return self.tree.walked(inside, follows=follows)

    def _inside(self, path: bytes) -> bytes | None:
        # POSIX leaves two slashes at the beginning to the system; Linux takes them for one.
        path = b"/" + path.lstrip(b"/")
        above = b"/" if self.root == b"/" else self.root + b"/"
        if path == self.root:
            return b""
        return path[len(above) :] if path.startswith(above) else None

    def path(
        self, given: Given, folder: int | None, place: int, *, follows: bool = True
    ) -> bytes | None:
        """The path that an argument names, from the folder that another one is.

        Without a `folder` it is from the working folder. None if it is outside of the root.
        """
        base = given.process.place.folder
        if folder is not None:
            opened = descriptor(given.arguments[folder])
            if opened.number is None:
                base = given.process.place.folder = opened.name or base
            else:
                base = opened.name
        name, _ = string(given.arguments[place])
        whole = self.absolute(name, base, given.process.place.root)
        return self.relative(whole, follows=follows)

    def absolute(self, name: bytes, base: bytes | None, root: bytes = b"/") -> bytes:
        """A path from the root of the system on. `root` is that of the process."""
        if name.startswith(b"/"):
            return name if root == b"/" else root + name
        if base is None:
            raise NandlabError(
                f"the log does not tell the folder that {name.decode('latin-1')!a} is "
                f"relative to; name it with --cwd, or record with {HOW}"
            )
        return posixpath.join(base, name)

    def outer(self, path: bytes) -> bytes:
        """The path in the system that traced, of one relative to the root."""
        return posixpath.join(self.root, path) if path else self.root

    def target(self, name: bytes, root: bytes = b"/") -> bytes:
        """Where a symbolic link leads, from the root of the mount on."""
        if name.startswith(b"/") and root != b"/":
            name = root + name
        inside = self._inside(posixpath.normpath(name)) if name.startswith(b"/") else None
        return name if inside is None else b"/" + inside

    # Files.

    def used(self, given: Given, file: File) -> bytes | None:
        """The name of a file that a line needs; None if it has none."""
        name = file.name
        if name is None:
            return None
        self.needs_folder(name)
        if file.appears:
            file.appears = False
            self.approximate(given, "the file appears without a call that makes it")
            opened = OpenFile(file)
            mode = 0o644 if file.mode is None else file.mode
            if file.kind == "folder":
                self.steps.line(given.moment, "mkdir", name, f"{mode:o}")
            else:
                self.steps.made(given.moment, file, name, opened, mode)
                if file.size:
                    self.steps.written(given.moment, opened, name, 0, file.size, None)
        file.is_needed = True
        return name

    def needs_folder(self, path: bytes) -> None:
        """Notes that the folders above a path are needed."""
        while path:
            path = path.rpartition(b"/")[0]
            if (above := self.tree.at(path)) is not None:
                above.is_needed = True

    def has_size(self, file: File, size: int, *, is_exact: bool = True) -> None:
        """Notes what the log shows of a size."""
        if not file.reaches(size, is_exact=is_exact) and file.name is not None:
            self.unexplained.add(file.name)

    # Descriptors.

    def opened(self, given: Given, place: int) -> OpenFile | None:
        """The open file of an argument; None if no descriptor is given."""
        found = descriptor(given.arguments[place])
        if found.number is None or found.number < 0:
            return None
        table = given.process.descriptors
        file = table.files.get(found.number)
        if file is None:
            # Open before the log began, or made by a call that the log does not show.
            file = OpenFile(None, None, None, given_as=found.number)
            table.put(found.number, file)
        if found.name != file.name:
            self._looked_at(file, found)
        return file

    def _looked_at(self, opened: OpenFile, found: Descriptor) -> None:
        """Follows the name of a descriptor, which is the one that its file has now."""
        if found.name is None:
            raise NandlabError(f"descriptor {found.number} has no path; record with {HOW}")
        opened.name = found.name
        if found.is_deleted:
            return
        path = self.relative(found.name) if found.name.startswith(b"/") else None
        if path is None:
            opened.file = None
        elif opened.file is None or path not in opened.file.names:
            opened.file = self.tree.old(path)

    def file_of(self, given: Given, place: int) -> File | None:
        """The file of a descriptor; None if it is outside of the root, which is counted."""
        opened = self.opened(given, place)
        if opened is None or opened.file is None:
            self.leave_out(given, OUTSIDE)
            return None
        return opened.file

    # Files that the script has open.

    def handle(self, given: Given, opened: OpenFile) -> str | None:
        """The name under which the script has a file open, where its lines use such names.

        It is opened now if no line opened it before. None if lines name the file by its path, and
        if it has no path any more.
        """
        if opened.handle is not None:
            return opened.handle
        if self.how.joins or opened.file is None or not opened.flags:
            return None
        if self.used(given, opened.file) is None:
            return None
        return self.opens(given, opened, opened.flags)

    def opens(self, given: Given, opened: OpenFile, flags: str, *more: str) -> str:
        """Writes the line that opens a file, which has a path; the name that it gives."""
        assert opened.file is not None
        path = opened.file.name
        assert path is not None
        # The lowest number, as a kernel gives descriptors: a script has few names then.
        number = next(one for one in count() if one not in self._handles)
        self._handles.add(number)
        opened.handle, opened.position = f"f{number}", 0
        if opened.file.kind == "folder":
            flags = "r"
        self.steps.line(given.moment, "open", opened.handle, path, flags, *more)
        return opened.handle

    def not_open(self, path: bytes) -> bytes:
        """A path for `fsync` and `fdatasync`, which take names of open files first."""
        is_name = path[:1] == b"f" and path[1:].isdigit() and int(path[1:]) in self._handles
        return b"./" + path if is_name else path or b"."

    def spare_handle(self) -> str:
        """A name for a call that opens nothing, unless it succeeds in the script."""
        self._tried += 1
        return f"t{self._tried}"

    def closed(self, given: Given | None, files: Iterable[OpenFile | None]) -> None:
        """Closes what no process has open any more."""
        candidates = [one for one in files if one is not None and one.handle is not None]
        if not candidates:
            return
        is_open = {id(one) for one in self.processes.open_files()}
        for one in candidates:
            if id(one) not in is_open and one.handle is not None:
                moment = self.steps.last if given is None else given.moment
                self.steps.line(moment, "close", one.handle)
                self._handles.discard(int(one.handle[1:]))
                one.handle = None

    def loses_name(self, given: Given, path: bytes) -> None:
        """Opens a file that is still in use when its last name goes: later lines need it so."""
        file = self.tree.at(path)
        if file is None or file.kind not in (None, "file") or len(file.names) > 1:
            return
        for opened in self.processes.open_files():
            if opened.file is file and opened.handle is None and opened.flags:
                self.opens(given, opened, opened.flags)

    def named(self, given: Given, file: File | None) -> bytes | None:
        """The name of a file for a line; what has none is counted."""
        if file is None:
            return None
        name = self.used(given, file)
        if name is None:
            self.leave_out(given, NAMELESS)
        return name


def given_by(state: State, call: Call) -> Given:
    """A call with its arguments. Raises `ValueError` if they cannot be read."""
    arguments, result = split(call.text)
    return Given(call, state.processes.of(call.process), arguments, result)
