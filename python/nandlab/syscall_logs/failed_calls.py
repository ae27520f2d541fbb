"""Calls that failed in the log, as lines that fail too."""

from collections.abc import Callable

from nandlab.syscall_logs import descriptor_calls, name_calls
from nandlab.syscall_logs.arguments import number, string
from nandlab.syscall_logs.state import Given, State

_ERRORS = """
    EPERM ENOENT EIO ENXIO EBADF ENOMEM EBUSY EEXIST EXDEV ENOTDIR EISDIR EINVAL EFBIG ENOSPC EROFS
    EMLINK ERANGE ENAMETOOLONG ENOSYS ENOTEMPTY ELOOP ENODATA EOPNOTSUPP
"""
ERRORS = frozenset(_ERRORS.split())
"""Errors that may stand behind `fails`: `Errno::ALL` of `crates/host/fs_api/src/errno.rs`."""

Words = tuple[str | bytes | int, ...]


def line(state: State, given: Given) -> bool:
    """Writes the line of a call that failed; false if scripts have none for it."""
    error, maker = given.result.error, _LINES.get(given.call.name)
    if maker is None or error is None or error not in ERRORS:
        return False
    words = maker(state, given)
    if words is None:
        return False
    if error in ("EEXIST", "EISDIR"):
        _must_be_there(state, given, words)
    head = ("try",) if state.how.failed == "try" else ("fails", error)
    state.steps.line(given.moment, *head, *words)
    return True


def _must_be_there(state: State, given: Given, words: Words) -> None:
    """Notes what the error says: something has the name that a call wanted to have."""
    paths = [one for one in words if isinstance(one, bytes)]
    is_folder = words[0] == "mkdir" or given.result.error == "EISDIR"
    state.used(given, state.tree.old(paths[-1], "folder" if is_folder else None))


def _opened(state: State, given: Given) -> Words | None:
    flags, mode = descriptor_calls.how_opened(given)
    path = state.path(given, *descriptor_calls.folder_and_path(given))
    if path is None or "O_PATH" in flags or any(one.endswith("O_TMPFILE") for one in flags):
        return None
    made = (f"{mode & ~given.process.place.umask & 0o7777:o}",) if "O_CREAT" in flags else ()
    words = ",".join(descriptor_calls.words_of(flags))
    return "open", state.spare_handle(), path, words, *made


def _one_path(state: State, given: Given) -> bytes | None:
    is_at = given.call.name.endswith("at")
    return state.path(given, 0 if is_at else None, 1 if is_at else 0, follows=False)


def _unlinked(state: State, given: Given) -> Words | None:
    path = _one_path(state, given)
    is_folder = given.call.name == "rmdir" or "AT_REMOVEDIR" in given.flags(2)
    return ("rmdir" if is_folder else "unlink", path) if path else None


def _made(state: State, given: Given) -> Words | None:
    path = _one_path(state, given)
    mode = number(given.arguments[2 if given.call.name == "mkdirat" else 1])
    return ("mkdir", path, f"{mode & ~given.process.place.umask & 0o7777:o}") if path else None


def _renamed(state: State, given: Given) -> Words | None:
    old, new = name_calls.two_paths(state, given)
    mode = name_calls.rename_mode(given)
    return ("rename", old, new, *mode) if old and new else None


def _linked(state: State, given: Given) -> Words | None:
    old, new = name_calls.two_paths(state, given)
    return ("link", old, new) if old and new else None


def _linked_symbolically(state: State, given: Given) -> Words | None:
    is_at = given.call.name == "symlinkat"
    path = state.path(given, 1 if is_at else None, 2 if is_at else 1, follows=False)
    target = state.target(string(given.arguments[0])[0], given.process.place.root)
    return ("symlink", target, path) if path else None


def _wrote(state: State, given: Given) -> Words | None:
    opened = state.opened(given, 0)
    handle = None if opened is None else state.handle(given, opened)
    if handle is None:
        return None
    length = number(given.arguments[2])
    if given.call.name == "pwrite64":
        return "pwrite", handle, number(given.arguments[3]), length, "z", 0
    return "write", handle, length, "z", 0


def _synced(state: State, given: Given) -> Words | None:
    opened = state.opened(given, 0)
    handle = None if opened is None else state.handle(given, opened)
    return None if handle is None else (given.call.name, handle)


_MAKERS: dict[Callable[[State, Given], Words | None], str] = {
    _linked: "link linkat",
    _linked_symbolically: "symlink symlinkat",
    _made: "mkdir mkdirat",
    _opened: "open openat openat2 creat",
    _renamed: "rename renameat renameat2",
    _synced: "fdatasync fsync",
    _unlinked: "rmdir unlink unlinkat",
    _wrote: "pwrite64 write",
}
_LINES = {name: maker for maker, names in _MAKERS.items() for name in names.split()}
