"""What the processes of a log have open, and where they stand."""

from dataclasses import dataclass, field

from nandlab.syscall_logs.strace import Fork
from nandlab.syscall_logs.tree import File


@dataclass(eq=False)
class OpenFile:
    """An open file, which several descriptors may share."""

    file: File | None
    """None outside of the root, and for pipes and the like."""
    name: bytes | None = None
    """The name of the descriptor when it was last looked at."""
    offset: int | None = 0
    """None if it was open before the log began."""
    appends: bool = False
    is_synchronous: bool = False
    handle: str | None = None
    """The name under which the script has it open."""
    position: int = 0
    """Where the next `write` of the script would go."""
    flags: str = "rw"
    """How a line opens it again, in the words of the language."""
    given_as: int | None = None
    """The number under which it was open before the log began; copies may have others."""


@dataclass(eq=False)
class Descriptors:
    """A table of descriptors, which threads share."""

    files: dict[int, OpenFile] = field(default_factory=dict)
    closed_by_exec: set[int] = field(default_factory=set)

    def put(self, number: int, file: OpenFile, *, closed_by_exec: bool = False) -> None:
        """Makes a descriptor."""
        self.files[number] = file
        self.closed_by_exec.discard(number)
        if closed_by_exec:
            self.closed_by_exec.add(number)

    def close(self, number: int) -> OpenFile | None:
        """Closes a descriptor; what it was, if that is known."""
        self.closed_by_exec.discard(number)
        return self.files.pop(number, None)

    def copy(self) -> "Descriptors":
        """The table of a child."""
        return Descriptors(dict(self.files), set(self.closed_by_exec))

    def execute(self) -> list[OpenFile | None]:
        """Closes what another program does not inherit."""
        return [self.close(number) for number in tuple(self.closed_by_exec)]


@dataclass(eq=False)
class Place:
    """The working folder, the umask and the root, which threads share."""

    folder: bytes | None
    umask: int
    root: bytes = b"/"
    """Where absolute paths begin, which `chroot` changes."""


@dataclass(eq=False)
class Process:
    """A process or a thread."""

    descriptors: Descriptors
    place: Place


class Processes:
    """All processes of a log, as their calls show them."""

    def __init__(self, forks: dict[int, list[Fork]], folder: bytes | None, umask: int) -> None:
        """Begin with none. `folder` is where the first ones stand."""
        self._forks, self._folder, self._umask = forks, folder, umask
        self._known: dict[int, Process] = {}
        self.without_parent = 0
        """Processes whose making is not in the log: the first one, and others if it lacks calls."""

    def of(self, number: int) -> Process:
        """The process of a number. A child begins with what its parent has at this moment.

        It is asked for at the end of the call that makes it, or at its own first call, whichever
        comes first: until then its parent waits in that call.
        """
        found = self._known.get(number)
        if found is None:
            forks = self._forks.get(number)
            found = self._child(forks.pop(0)) if forks else self._new()
            self._known[number] = found
        return found

    def _new(self) -> Process:
        self.without_parent += 1
        return Process(Descriptors(), Place(self._folder, self._umask))

    def _child(self, fork: Fork) -> Process:
        parent = self.of(fork.parent)
        descriptors, place = parent.descriptors, parent.place
        if "CLONE_FILES" not in fork.flags:
            descriptors = descriptors.copy()
        if "CLONE_FS" not in fork.flags:
            place = Place(place.folder, place.umask, place.root)
        return Process(descriptors, place)

    def ends(self, number: int) -> list[OpenFile]:
        """Forgets a process that ended: its number may come again. What it had open."""
        ended = self._known.pop(number, None)
        return [] if ended is None else list(ended.descriptors.files.values())

    def open_files(self) -> list[OpenFile]:
        """What all processes have open, each once, in the order of processes and numbers."""
        tables = {id(one.descriptors): one.descriptors for one in self._known.values()}
        found = [file for table in tables.values() for _, file in sorted(table.files.items())]
        return list({id(file): file for file in found}.values())
