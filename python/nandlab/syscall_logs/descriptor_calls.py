"""Calls that make, copy and close descriptors, and those of processes."""

import posixpath

from nandlab.errors import NandlabError
from nandlab.syscall_logs.arguments import descriptor, member, number, string, words
from nandlab.syscall_logs.processes import OpenFile
from nandlab.syscall_logs.state import NO_CHANGE, NO_WORD, OUTSIDE, Given, State
from nandlab.syscall_logs.strace import HOW
from nandlab.syscall_logs.tree import File

_SYNCHRONOUS = frozenset(("O_SYNC", "O_DSYNC"))
_WRITES = frozenset(("O_WRONLY", "O_RDWR"))


def folder_and_path(given: Given) -> tuple[int | None, int]:
    """The arguments that name the folder and the path of a call that opens."""
    return (0, 1) if given.call.name.startswith("openat") else (None, 0)


def how_opened(given: Given) -> tuple[frozenset[str], int]:
    """Flags and mode of a call that opens."""
    name = given.call.name
    if name == "creat":
        return frozenset(("O_CREAT", "O_TRUNC", "O_WRONLY")), number(given.arguments[1])
    if name == "openat2":
        how = given.arguments[2]
        return words(member(how, "flags") or ""), number(member(how, "mode") or "0")
    first = folder_and_path(given)[1] + 1
    mode = given.arguments[first + 1] if len(given.arguments) > first + 1 else "0"
    return words(given.arguments[first]), number(mode)


def failed_to_open(state: State, given: Given) -> None:
    """Notes that nothing is there."""
    flags, _ = how_opened(given)
    if given.result.error == "ENOENT" and "O_CREAT" not in flags:
        path = state.path(given, *folder_and_path(given))
        if path is not None:
            state.tree.is_missing(path)


def opens(state: State, given: Given) -> None:
    """`open`, `openat`, `openat2`, `creat`."""
    returned = given.result.descriptor
    if returned is None or returned.name is None or returned.number is None:
        raise NandlabError(f"the descriptor has no path; record with {HOW}")
    flags, mode = how_opened(given)
    # The working folder is learned even where the name of the descriptor tells all else.
    asked = state.path(given, *folder_and_path(given))
    name = returned.name
    path = state.relative(name) if name.startswith(b"/") and not returned.is_deleted else asked
    opened = OpenFile(None, name)
    opened.appends = "O_APPEND" in flags
    opened.is_synchronous = not _SYNCHRONOUS.isdisjoint(flags)
    table = given.process.descriptors
    # A number that was in use is one whose `close` the log lacks.
    before = table.close(returned.number)
    table.put(returned.number, opened, closed_by_exec="O_CLOEXEC" in flags)
    state.closed(given, [before])
    opened.flags = "" if "O_PATH" in flags else ",".join(_access(flags))
    if any(flag.endswith("O_TMPFILE") for flag in flags):
        opened.file = File("file", is_size_known=True) if asked is not None else None
        state.leave_out(given, NO_WORD)
        return
    if path is None:
        state.leave_out(given, OUTSIDE)
        return
    opened.file = _file(state, given, path, opened, flags, mode)
    if state.how.joins:
        return
    if not opened.flags or opened.file.kind == "special":
        state.leave_out(given, NO_CHANGE)
        return
    state.used(given, opened.file)
    made = [f"{mode & ~given.process.place.umask & 0o7777:o}"] if "O_CREAT" in flags else []
    state.opens(given, opened, ",".join(words_of(flags)), *made)


def _access(flags: frozenset[str]) -> list[str]:
    """Flags of a file that is opened as it is, in the words of the language."""
    reads = "O_WRONLY" not in flags
    writes = not flags.isdisjoint(_WRITES)
    found = ["rw" if reads and writes else "r" if reads else "w"]
    if "O_APPEND" in flags and writes:
        found = ["rw", "a"] if reads else ["a"]
    for name, word in (("O_SYNC", "sync"), ("O_DSYNC", "dsync")):
        if name in flags:
            found.append(word)
    return found


def words_of(flags: frozenset[str]) -> list[str]:
    """Flags of `open`, in the words of the language."""
    found = _access(flags)
    if "O_CREAT" in flags:
        found.append("creat")
        # Without O_CREAT the flag means nothing for files (open(2)).
        found += ["excl"] * ("O_EXCL" in flags)
    # Of a file that is only read Linux leaves the flag to the file system; scripts do not have it.
    found += ["trunc"] * ("O_TRUNC" in flags and not flags.isdisjoint(_WRITES))
    return found


def _file(
    state: State, given: Given, path: bytes, opened: OpenFile, flags: frozenset[str], mode: int
) -> File:
    """The file that is opened, which may be made or emptied. Joined lines say so at once."""
    known = state.tree.at(path)
    if "O_CREAT" in flags and (known is None or "O_EXCL" in flags):
        # Without O_EXCL and O_TRUNC the file may have been there, with bytes that stay.
        before = None if flags & {"O_EXCL", "O_TRUNC"} else state.tree.before(path)
        file = state.tree.made(path, "file", mode & ~given.process.place.umask & 0o7777)
        file.before, file.may_be_old = before, before is not None
        file.is_size_known = before is None
        state.needs_folder(path)
        file.is_needed = True
        if state.how.joins:
            state.steps.made(given.moment, file, path, opened, file.mode)
        return file
    file = state.tree.old(path, "folder" if "O_DIRECTORY" in flags else None)
    if "O_TRUNC" in flags and flags & _WRITES and file.kind in (None, "file"):
        used = state.used(given, file)
        file.is_cut_to(0)
        if not state.how.joins:
            return file
        if used is not None and "O_CREAT" in flags:
            state.steps.made(given.moment, file, used, opened, mode & ~given.process.place.umask)
        elif used is not None:
            state.steps.line(given.moment, "truncate", used, 0)
    return file


def closes(state: State, given: Given) -> None:
    """`close`."""
    found = descriptor(given.arguments[0])
    if found.number is not None:
        state.closed(given, [given.process.descriptors.close(found.number)])


def closes_range(state: State, given: Given) -> None:
    """`close_range`."""
    first, last = number(given.arguments[0]), number(given.arguments[1])
    table, flags = given.process.descriptors, given.flags(2)
    for one in [one for one in table.files if first <= one <= last]:
        if "CLOSE_RANGE_CLOEXEC" in flags:
            table.closed_by_exec.add(one)
        else:
            state.closed(given, [table.close(one)])


def copies(state: State, given: Given) -> None:
    """`dup`, `dup2`, `dup3`: both numbers share the place in the file."""
    _copied(state, given, is_closed_by_exec="O_CLOEXEC" in given.flags(2))


def _copied(state: State, given: Given, *, is_closed_by_exec: bool) -> None:
    opened, table = state.opened(given, 0), given.process.descriptors
    source = descriptor(given.arguments[0]).number
    if opened is not None and given.value != source:
        before = table.close(given.value)
        table.put(given.value, opened, closed_by_exec=is_closed_by_exec)
        state.closed(given, [before])


def controls(state: State, given: Given) -> None:
    """`fcntl`."""
    command = given.arguments[1]
    if command in ("F_DUPFD", "F_DUPFD_CLOEXEC"):
        _copied(state, given, is_closed_by_exec=command == "F_DUPFD_CLOEXEC")
        return
    opened, table = state.opened(given, 0), given.process.descriptors
    found = descriptor(given.arguments[0]).number
    if opened is None or found is None:
        return
    if command == "F_SETFL":
        opened.appends = "O_APPEND" in given.flags(2)
    elif command == "F_GETFL":
        opened.appends = "O_APPEND" in given.call.text
    elif command == "F_SETFD":
        table.put(found, opened, closed_by_exec="FD_CLOEXEC" in given.flags(2))


def controls_device(state: State, given: Given) -> None:
    """`ioctl`: of those that matter, `FIOCLEX` and clones of files."""
    command = given.arguments[1]
    opened = state.opened(given, 0)
    found = descriptor(given.arguments[0]).number
    if opened is None or found is None:
        return
    if command in ("FIOCLEX", "FIONCLEX"):
        table = given.process.descriptors
        table.put(found, opened, closed_by_exec=command == "FIOCLEX")
    is_clone = any(name in command for name in ("FICLONE", "CLONE", "FIDEDUPERANGE"))
    state.leave_out(given, NO_WORD if is_clone and opened.file else NO_CHANGE)


def forks(state: State, given: Given) -> None:
    """`clone`, `clone3`, `fork`, `vfork`: the child has what the parent has now."""
    if given.value > 0:
        state.processes.of(given.value)


def executes(state: State, given: Given) -> None:
    """`execve`, `execveat`."""
    state.closed(given, given.process.descriptors.execute())


def changes_folder(state: State, given: Given) -> None:
    """`chdir`."""
    place = given.process.place
    name, _ = string(given.arguments[0])
    whole = state.absolute(name, place.folder, place.root)
    inside = state.relative(whole)
    # Inside of the root known symbolic links have been followed.
    place.folder = whole if inside is None else state.outer(inside)


def changes_root(state: State, given: Given) -> None:
    """`chroot`: absolute paths begin there from now on."""
    place = given.process.place
    name, _ = string(given.arguments[0])
    place.root = posixpath.normpath(state.absolute(name, place.folder, place.root))


def changes_folder_to_descriptor(state: State, given: Given) -> None:
    """`fchdir`."""
    found = descriptor(given.arguments[0])
    given.process.place.folder = found.name or given.process.place.folder


def tells_folder(state: State, given: Given) -> None:
    """`getcwd`."""
    place = given.process.place
    # Outside of a root that `chroot` set, the kernel says so in front of the path.
    name = string(given.arguments[0])[0]
    if name.startswith(b"/"):
        place.folder = state.absolute(name, None, place.root)


def sets_umask(state: State, given: Given) -> None:
    """`umask`."""
    given.process.place.umask = number(given.arguments[0])
