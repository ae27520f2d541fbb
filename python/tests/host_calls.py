"""What a log of strace says of the calls below a folder, found apart from the importer.

Only the lines are read with the importer's code. Offsets, names and descriptors are followed here
by themselves, from the names that strace prints behind descriptors.
"""

import os
import posixpath
import re
from collections import Counter
from dataclasses import dataclass, field

from nandlab.syscall_logs.arguments import descriptor, member, number, parts, split, string, words
from nandlab.syscall_logs.strace import Call, read_log

Event = tuple[object, ...]
"""Call, path, and offsets, sizes, flags and modes."""

_FLAGS = frozenset(
    ("O_WRONLY", "O_RDWR", "O_APPEND", "O_CREAT", "O_EXCL", "O_TRUNC", "O_SYNC", "O_DSYNC")
)
_AT_BEGIN = frozenset(("close", "close_range", "fdatasync", "fsync", "sync", "syncfs"))


@dataclass(eq=False)
class _Open:
    name: bytes
    position: int = 0
    appends: bool = False
    is_path: bool = False
    """Opened with O_PATH: it neither reads nor writes, and a script leaves it out."""
    uses: int = 0


@dataclass(eq=False)
class _Process:
    folder: bytes
    umask: int = 0o022
    root: bytes = b"/"
    files: dict[int, _Open] = field(default_factory=dict)
    by_exec: set[int] = field(default_factory=set)
    users: list[int] = field(default_factory=lambda: [1])


class Calls:
    """The calls of a log below a folder, in their order."""

    def __init__(self, log: str, root: str, folder: str) -> None:
        """Read a log whose first process stands in `folder`."""
        self.events: list[Event] = []
        self.not_kept: Counter[str] = Counter()
        """Calls that no script has, by name."""
        self._links: set[bytes] = set()
        self._root = os.fsencode(os.path.realpath(root))
        found = read_log("log", log)
        self._forks, self._folder = found.forks, os.fsencode(folder)
        self._processes: dict[int, _Process] = {}
        order = [
            (one.line if one.name in _AT_BEGIN else one.last_line, 0, one.process, one)
            for one in found.calls
        ]
        order += [(line, 1, process, None) for line, process in found.exits]  # type: ignore[misc]
        for _, _, process, call in sorted(order, key=lambda one: one[:2]):
            if call is None:
                self._ends(process)
            else:
                self._call(self._process(process), call)

    def _process(self, number: int) -> _Process:
        if number not in self._processes:
            forks = self._forks.get(number)
            self._processes[number] = (
                self._child(forks.pop(0).parent, forks) if forks else _Process(self._folder)
            )
        return self._processes[number]

    def _child(self, parent: int, _: object) -> _Process:
        # Programs of these tests have no threads that write: a child has copies.
        one = self._process(parent)
        for opened in one.files.values():
            opened.uses += 1
        return _Process(one.folder, one.umask, one.root, dict(one.files), set(one.by_exec))

    def _ends(self, number: int) -> None:
        process = self._processes.pop(number, None)
        for opened in [] if process is None else process.files.values():
            self._released(opened)

    def _released(self, opened: _Open | None) -> None:
        if opened is not None:
            opened.uses -= 1
            inside = self._inside(opened.name)
            if opened.uses == 0 and inside is not None and not opened.is_path:
                self.events.append(("close", inside))

    def _inside(self, name: bytes) -> bytes | None:
        if name == self._root:
            return b"."
        return name[len(self._root) + 1 :] if name.startswith(self._root + b"/") else None

    def _path(self, process: _Process, arguments: list[str], folder: int | None, at: int) -> bytes:
        base = process.folder
        if folder is not None:
            given = descriptor(arguments[folder])
            base = given.name or base
        name = string(arguments[at])[0]
        if name.startswith(b"/") and process.root != b"/":
            name = process.root + name
        return posixpath.normpath(posixpath.join(base, name))

    def _call(self, process: _Process, call: Call) -> None:
        arguments, result = split(call.text)
        if result.error is not None or result.value is None:
            return
        # A descriptor has the name that its file has now.
        first = arguments[0] if arguments else ""
        known = descriptor(first) if re.match(r"\d+<", first) else None
        if known is not None and known.number in process.files and known.name is not None:
            process.files[known.number].name = known.name + b" (deleted)" * known.is_deleted
        name = (
            call.name.removesuffix("64").removesuffix("at2") if call.name != "openat2" else "open"
        )
        maker = getattr(self, f"_{name}", None)
        if maker is not None:
            maker(process, arguments, result)
        elif name in _TOLD:
            self._told(process, name, arguments)

    def _told(self, process: _Process, name: str, arguments: list[str]) -> None:
        """Calls whose event is their name, the paths, and what stands behind them."""
        kind, is_at, is_of_descriptor = _TOLD[name]
        if is_of_descriptor or (is_at and arguments[1] in ("NULL", '""')):
            given = descriptor(arguments[0])
            whole = (given.name or b"") + b" (deleted)" * given.is_deleted
            rest = arguments[2:] if is_at else arguments[1:]
        else:
            whole = self._path(process, arguments, 0 if is_at else None, 1 if is_at else 0)
            rest = arguments[2:] if is_at else arguments[1:]
        inside = self._inside(whole)
        if inside is None:
            return
        if kind in ("mkdir", "chmod"):
            mask = process.umask if kind == "mkdir" else 0
            self.events.append((kind, inside, number(rest[0]) & ~mask & 0o7777))
        elif kind == "chown":
            self.events.append((kind, inside, *map(number, rest[:2])))
        elif kind == "truncate":
            self.events.append((kind, inside, number(rest[0])))
        elif kind == "unlink":
            is_folder = name == "rmdir" or "AT_REMOVEDIR" in "".join(rest)
            self.events.append(("rmdir" if is_folder else "unlink", inside))
        elif kind == "fallocate":
            self.events.append((kind, inside, rest[0], *map(number, rest[1:3])))
        elif kind == "utime" and "NOFOLLOW" in rest[-1] and inside in self._links:
            self.not_kept["utimensat"] += 1
        elif kind == "utime":
            modified = member(parts(rest[0])[1], "tv_sec") if rest[0] != "NULL" else None
            self.events.append((kind, inside, None if modified is None else int(modified)))
        elif kind == "setxattr":
            self.events.append((kind, inside, string(rest[0])[0], string(rest[1])[0]))
        else:
            self.events.append((kind, inside))

    # Calls with rules of their own: names are those of the calls without `64` and `at2`.

    def _openat(self, process: _Process, arguments: list[str], result: object) -> None:
        self._opened(process, arguments[2], arguments[3:], result)

    def _open(self, process: _Process, arguments: list[str], result: object) -> None:
        self._opened(process, arguments[1], arguments[2:], result)

    def _creat(self, process: _Process, arguments: list[str], result: object) -> None:
        self._opened(process, "O_CREAT|O_TRUNC|O_WRONLY", arguments[1:], result)

    def _opened(self, process: _Process, flags: str, mode: list[str], result: object) -> None:
        given = result.descriptor  # type: ignore[attr-defined]
        found = words(flags)
        opened = _Open(given.name, appends="O_APPEND" in found)
        self._put(process, given.number, opened, by_exec="O_CLOEXEC" in found)
        inside = self._inside(given.name)
        if inside is None:
            return
        if "O_PATH" in found:
            opened.is_path = True
            return
        made = number(mode[0]) & ~process.umask & 0o7777 if "O_CREAT" in found else None
        self.events.append(("open", inside, tuple(sorted(found & _FLAGS)), made))

    def _put(self, process: _Process, at: int, opened: _Open, *, by_exec: bool) -> None:
        before = process.files.pop(at, None)
        process.files[at] = opened
        opened.uses += 1
        (process.by_exec.add if by_exec else process.by_exec.discard)(at)
        self._released(before)

    def _close(self, process: _Process, arguments: list[str], result: object) -> None:
        given = descriptor(arguments[0]).number
        process.by_exec.discard(given)  # type: ignore[arg-type]
        self._released(process.files.pop(given, None))  # type: ignore[arg-type]

    def _close_range(self, process: _Process, arguments: list[str], result: object) -> None:
        first, last = number(arguments[0]), number(arguments[1])
        for one in [one for one in process.files if first <= one <= last]:
            if "CLOEXEC" in arguments[2]:
                process.by_exec.add(one)
            else:
                self._released(process.files.pop(one))

    def _dup(self, process: _Process, arguments: list[str], result: object) -> None:
        source = process.files.get(descriptor(arguments[0]).number or 0)
        target = result.value  # type: ignore[attr-defined]
        if source is not None and process.files.get(target) is not source:
            self._put(process, target, source, by_exec="O_CLOEXEC" in "".join(arguments[2:]))
        elif source is None and target in process.files:
            self._released(process.files.pop(target))

    _dup2 = _dup3 = _dup

    def _fcntl(self, process: _Process, arguments: list[str], result: object) -> None:
        if arguments[1].startswith("F_DUPFD"):
            source = process.files.get(descriptor(arguments[0]).number or 0)
            if source is not None:
                by_exec = arguments[1] == "F_DUPFD_CLOEXEC"
                self._put(process, result.value, source, by_exec=by_exec)  # type: ignore[attr-defined]
        elif arguments[1] == "F_SETFD":
            at = descriptor(arguments[0]).number
            if at in process.files and "FD_CLOEXEC" in arguments[2]:
                process.by_exec.add(at)
            else:
                process.by_exec.discard(at or 0)

    def _execve(self, process: _Process, arguments: list[str], result: object) -> None:
        for one in sorted(process.by_exec & set(process.files)):
            self._released(process.files.pop(one))
        process.by_exec.clear()

    def _lseek(self, process: _Process, arguments: list[str], result: object) -> None:
        opened = process.files.get(descriptor(arguments[0]).number or 0)
        if opened is not None:
            opened.position = result.value  # type: ignore[attr-defined]

    def _moved(self, process: _Process, arguments: list[str], result: object, kind: str) -> None:
        """A call that reads or writes at the position."""
        given = descriptor(arguments[0])
        opened = process.files.get(given.number or 0)
        count = result.value  # type: ignore[attr-defined]
        if opened is None:
            return
        offset: object = "end" if opened.appends and kind == "write" else opened.position
        self._transferred(given, kind, offset, self._asked(arguments, count, kind))
        opened.position += count

    @staticmethod
    def _asked(arguments: list[str], count: int, kind: str) -> int:
        # Of a read the script keeps what was asked for, of a write what was written.
        return number(arguments[2]) if kind == "read" and '"' in arguments[1][:1] else count

    def _transferred(self, given: object, kind: str, offset: object, length: int) -> None:
        whole = given.name + b" (deleted)" * given.is_deleted  # type: ignore[attr-defined]
        inside = self._inside(whole)
        if inside is not None and (length or kind == "read"):
            self.events.append((kind, inside, offset, length))

    def _read(self, process: _Process, arguments: list[str], result: object) -> None:
        self._moved(process, arguments, result, "read")

    def _write(self, process: _Process, arguments: list[str], result: object) -> None:
        self._moved(process, arguments, result, "write")

    _readv, _writev = _read, _write

    def _placed(self, process: _Process, arguments: list[str], result: object, kind: str) -> None:
        given = descriptor(arguments[0])
        opened = process.files.get(given.number or 0)
        if opened is not None:
            appends = opened.appends and kind == "write"
            offset = "end" if appends else number(arguments[3])
            self._transferred(
                given,
                kind,
                offset,
                self._asked(arguments, result.value, kind),  # type: ignore[attr-defined]
            )

    def _pread(self, process: _Process, arguments: list[str], result: object) -> None:
        self._placed(process, arguments, result, "read")

    def _pwrite(self, process: _Process, arguments: list[str], result: object) -> None:
        self._placed(process, arguments, result, "write")

    _preadv, _pwritev = _pread, _pwrite

    def _copy_file_range(self, process: _Process, arguments: list[str], result: object) -> None:
        # A script reads and writes what the kernel copied.
        self.not_kept["copy_file_range"] += 1
        for place, kind in ((0, "read"), (2, "write")):
            given = descriptor(arguments[place])
            opened = process.files.get(given.number or 0)
            if opened is None:
                continue
            at_place = arguments[place + 1] != "NULL"
            offset = number(arguments[place + 1].strip("[]")) if at_place else opened.position
            count = result.value  # type: ignore[attr-defined]
            if count:
                self._transferred(given, kind, offset, count)
            opened.position += 0 if at_place else count

    def _mmap(self, process: _Process, arguments: list[str], result: object) -> None:
        if "PROT_WRITE" in arguments[2] and "MAP_SHARED" in arguments[3] and arguments[4] != "-1":
            given = descriptor(arguments[4])
            if given.name is not None and self._inside(given.name) is not None:
                self.not_kept["mmap"] += 1

    def _sync_file_range(self, process: _Process, arguments: list[str], result: object) -> None:
        given = descriptor(arguments[0])
        if given.name is not None and self._inside(given.name) is not None:
            self.not_kept["sync_file_range"] += 1

    def _rename(self, process: _Process, arguments: list[str], result: object) -> None:
        is_at = len(arguments) > 2
        old = self._path(process, arguments, 0 if is_at else None, 1 if is_at else 0)
        new = self._path(process, arguments, 2 if is_at else None, 3 if is_at else 1)
        inside = self._inside(old), self._inside(new)
        mode = arguments[4] if len(arguments) > 4 else "0"
        if None not in inside:
            self.events.append(("rename", *inside, mode))

    _renameat = _rename

    def _link(self, process: _Process, arguments: list[str], result: object) -> None:
        is_at = len(arguments) > 2
        old = self._path(process, arguments, 0 if is_at else None, 1 if is_at else 0)
        new = self._path(process, arguments, 2 if is_at else None, 3 if is_at else 1)
        inside = self._inside(old), self._inside(new)
        if None not in inside:
            self.events.append(("link", *inside))

    _linkat = _link

    def _symlink(self, process: _Process, arguments: list[str], result: object) -> None:
        is_at = len(arguments) > 2
        path = self._path(process, arguments, 1 if is_at else None, 2 if is_at else 1)
        inside = self._inside(path)
        if inside is not None:
            self.events.append(("symlink", string(arguments[0])[0], inside))
            self._links.add(inside)

    _symlinkat = _symlink

    def _sync(self, process: _Process, arguments: list[str], result: object) -> None:
        self.events.append(("sync",))

    def _chdir(self, process: _Process, arguments: list[str], result: object) -> None:
        process.folder = self._path(process, arguments, None, 0)

    def _fchdir(self, process: _Process, arguments: list[str], result: object) -> None:
        process.folder = descriptor(arguments[0]).name or process.folder

    def _chroot(self, process: _Process, arguments: list[str], result: object) -> None:
        process.root = self._path(process, arguments, None, 0)

    def _umask(self, process: _Process, arguments: list[str], result: object) -> None:
        process.umask = number(arguments[0])


_TOLD = {
    "chmod": ("chmod", False, False),
    "chown": ("chown", False, False),
    "fallocate": ("fallocate", False, True),
    "fchmod": ("chmod", False, True),
    "fchmodat": ("chmod", True, False),
    "fchown": ("chown", False, True),
    "fchownat": ("chown", True, False),
    "fdatasync": ("fdatasync", False, True),
    "fsetxattr": ("setxattr", False, True),
    "fsync": ("fsync", False, True),
    "ftruncate": ("ftruncate", False, True),
    "lchown": ("chown", False, False),
    "mkdir": ("mkdir", False, False),
    "mkdirat": ("mkdir", True, False),
    "rmdir": ("unlink", False, False),
    "setxattr": ("setxattr", False, False),
    "truncate": ("truncate", False, False),
    "unlink": ("unlink", False, False),
    "unlinkat": ("unlink", True, False),
    "utimensat": ("utime", True, False),
}
"""Event, whether the folder is the first argument, and whether a descriptor is."""


def with_times_of(events: list[Event], script: list[Event]) -> list[Event]:
    """The calls of a program, those that set a time to now with the time of the script's line."""
    found = list(events)
    for at, (one, other) in enumerate(zip(events, script, strict=False)):
        if one[0] == "utime" and one[2] is None and one[:2] == other[:2]:
            found[at] = other
    return found


def folded(events: list[Event]) -> list[Event]:
    """A file that is opened for one `ftruncate` or `fallocate` alone: the line names its path."""
    found: list[Event] = []
    for event in events:
        found.append(event)
        if event[0] != "close" or len(found) < 3:
            continue
        opened, call, _ = found[-3:]
        kinds = {"ftruncate": "truncate", "fallocate": "fallocate"}
        is_plain = opened[0] == "open" and opened[2:] == (("O_WRONLY",), None)
        if is_plain and call[0] in kinds and opened[1] == call[1] == event[1]:
            found[-3:] = [(kinds[str(call[0])], *call[1:])]
    return found
