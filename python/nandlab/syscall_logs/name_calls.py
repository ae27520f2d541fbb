"""Calls that make, move and remove names, and change what a file is besides its bytes."""

from nandlab.syscall_logs.arguments import member, number, parts, string
from nandlab.syscall_logs.state import NO_CHANGE, NO_WORD, OUTSIDE, Given, State
from nandlab.syscall_logs.tree import File

MOUNT_POINT = "the root is the mount point, which stays"
_OWN_NOW = "times are those of the log, in whole seconds"


def two_paths(state: State, given: Given) -> tuple[bytes | None, bytes | None]:
    """The paths of calls such as `rename` and `renameat`, neither followed at its end."""
    if "at" in given.call.name:
        old = state.path(given, 0, 1, follows=False)
        return old, state.path(given, 2, 3, follows=False)
    return state.path(given, None, 0, follows=False), state.path(given, None, 1, follows=False)


_RENAME_MODES = {
    "RENAME_EXCHANGE": "exchange",
    # It says more than that nothing was replaced, which may stand beside it.
    "RENAME_WHITEOUT": "whiteout",
    "RENAME_NOREPLACE": "noreplace",
}


def rename_mode(given: Given) -> list[str]:
    """The word of a line for the flags of `renameat2`; none for a plain rename."""
    flags = given.flags(4) if given.call.name == "renameat2" else frozenset()
    return [word for flag, word in _RENAME_MODES.items() if flag in flags][:1]


def renames(state: State, given: Given) -> None:
    """`rename`, `renameat`, `renameat2`."""
    old, new = two_paths(state, given)
    flags = given.flags(4) if given.call.name == "renameat2" else frozenset()
    if old is None and new is None:
        state.leave_out(given, OUTSIDE)
        return
    if b"" in (old, new):
        state.leave_out(given, MOUNT_POINT)
        return
    if old is None or new is None:
        _crosses(state, given, old, new)
        return
    if "RENAME_EXCHANGE" in flags:
        for one in (old, new):
            state.used(given, state.tree.old(one))
        state.steps.line(given.moment, "rename", old, new, *rename_mode(given))
        state.tree.exchanged(old, new)
        return
    state.used(given, state.tree.old(old))
    state.needs_folder(new)
    if not state.tree.is_same(old, new):
        state.loses_name(given, new)
    state.steps.line(given.moment, "rename", old, new, *rename_mode(given))
    state.tree.renamed(old, new)
    if "RENAME_WHITEOUT" in flags:
        state.tree.made(old, "special", 0)


def _crosses(state: State, given: Given, old: bytes | None, new: bytes | None) -> None:
    """A name that leaves the root or comes into it."""
    if old is not None:
        file = state.tree.old(old)
        state.used(given, file)
        if file.kind == "folder":
            state.leave_out(given, "a folder leaves the root")
        else:
            state.approximate(given, "a file that leaves the root is removed")
            state.loses_name(given, old)
            state.steps.line(given.moment, "unlink", old)
        state.tree.removed(old)
    elif new is not None:
        state.leave_out(given, "it comes from outside of the root, with bytes that the log lacks")
        state.tree.removed(new)
        state.tree.old(new)


def links(state: State, given: Given) -> None:
    """`link`, `linkat`."""
    if given.call.name == "linkat":
        name, _ = string(given.arguments[1])
        if not name or name.startswith(b"/proc/"):
            _links_descriptor(state, given)
            return
    old, new = two_paths(state, given)
    if "AT_SYMLINK_FOLLOW" in given.flags(4) and old is not None:
        old = state.tree.walked(old, follows=True)
    if old is None or new is None:
        state.leave_out(given, OUTSIDE)
        return
    file = state.tree.old(old)
    state.used(given, file)
    state.needs_folder(new)
    state.steps.line(given.moment, "link", old, new)
    state.tree.link(file, new)


def _links_descriptor(state: State, given: Given) -> None:
    """A file that was opened with O_TMPFILE gets its name: only now can a script make it."""
    new = state.path(given, 2, 3, follows=False)
    name, _ = string(given.arguments[1])
    tail = name.rpartition(b"/")[2]
    if name:
        opened = given.process.descriptors.files.get(int(tail)) if tail.isdigit() else None
    else:
        opened = state.opened(given, 0)
    if new is None or opened is None or opened.file is None or opened.file.name is not None:
        state.leave_out(given, NO_WORD)
        return
    file = opened.file
    state.tree.link(file, new)
    file.appears = True
    state.used(given, file)


def links_symbolically(state: State, given: Given) -> None:
    """`symlink`, `symlinkat`."""
    target, _ = string(given.arguments[0])
    is_at = given.call.name == "symlinkat"
    path = state.path(given, 1 if is_at else None, 2 if is_at else 1, follows=False)
    if path is None:
        state.leave_out(given, OUTSIDE)
        return
    state.needs_folder(path)
    leads = state.target(target, given.process.place.root)
    state.tree.made(path, "link", 0o777).target = leads
    state.steps.line(given.moment, "symlink", leads, path)


def unlinks(state: State, given: Given) -> None:
    """`unlink`, `unlinkat`, `rmdir`."""
    is_at = given.call.name == "unlinkat"
    path = state.path(given, 0 if is_at else None, 1 if is_at else 0, follows=False)
    if path is None:
        state.leave_out(given, OUTSIDE)
        return
    if not path:
        state.leave_out(given, MOUNT_POINT)
        return
    is_folder = given.call.name == "rmdir" or "AT_REMOVEDIR" in given.flags(2)
    state.used(given, state.tree.old(path, "folder" if is_folder else None))
    state.loses_name(given, path)
    state.steps.line(given.moment, "rmdir" if is_folder else "unlink", path)
    state.tree.removed(path)


def makes_folder(state: State, given: Given) -> None:
    """`mkdir`, `mkdirat`."""
    is_at = given.call.name == "mkdirat"
    path = state.path(given, 0 if is_at else None, 1 if is_at else 0, follows=False)
    if path is None:
        state.leave_out(given, OUTSIDE)
        return
    if not path:
        # The mount point is there already.
        state.leave_out(given, NO_CHANGE)
        return
    mode = number(given.arguments[2 if is_at else 1]) & ~given.process.place.umask & 0o7777
    state.needs_folder(path)
    state.tree.made(path, "folder", mode)
    state.steps.line(given.moment, "mkdir", path, f"{mode:o}")


def makes_node(state: State, given: Given) -> None:
    """`mknod`, `mknodat`."""
    first = 1 if given.call.name == "mknodat" else 0
    path = state.path(given, 0 if first else None, first, follows=False)
    if path is None:
        state.leave_out(given, OUTSIDE)
        return
    kind, _, bits = given.arguments[first + 1].partition("|")
    mode = number(bits or "0") & ~given.process.place.umask & 0o7777
    state.needs_folder(path)
    letters = {"S_IFCHR": "c", "S_IFBLK": "b", "S_IFIFO": "p", "S_IFSOCK": "s"}
    if kind not in letters:
        state.tree.made(path, "file", mode)
        state.steps.line(given.moment, "put", path, f"{mode:o}", 0, 4096, "z", 0)
        return
    state.tree.made(path, "special", mode)
    device: tuple[int, ...] = ()
    if letters[kind] in "cb":
        inside = given.arguments[first + 2].partition("(")[2].rstrip(")")
        device = tuple(number(one) for one in inside.split(","))
    state.steps.line(given.moment, "mknod", path, f"{mode:o}", letters[kind], *device)


def _changed(state: State, given: Given) -> tuple[File | None, bytes | None, int]:
    """What calls such as `chmod`, `fchmod` and `fchmodat` change, and the argument behind it.

    The name is that of the line; what is outside of the root or has no name is counted.
    """
    name = given.call.name
    path: bytes | None = None
    if name in ("fchmod", "fchown", "fsetxattr"):
        file, behind = state.file_of(given, 0), 1
    elif "at" in name.removesuffix("xattr"):
        text = given.arguments[1]
        if text == "NULL" or string(text)[0] == b"":
            file, behind = state.file_of(given, 0), 2
        else:
            is_itself = "AT_SYMLINK_NOFOLLOW" in given.arguments[-1]
            path = state.path(given, 0, 1, follows=not is_itself)
            file, behind = _at(state, given, path), 2
    else:
        path = state.path(given, None, 0, follows=not name.startswith("l"))
        file, behind = _at(state, given, path), 1
    found = state.named(given, file)
    # Of several names the line has the one that the call had.
    return file, found if path is None else path, behind


def _at(state: State, given: Given, path: bytes | None) -> File | None:
    if path is None:
        state.leave_out(given, OUTSIDE)
        return None
    return state.tree.old(path)


def changes_mode(state: State, given: Given) -> None:
    """`chmod`, `fchmod`, `fchmodat`."""
    file, path, behind = _changed(state, given)
    if file is None or path is None:
        return
    mode = number(given.arguments[behind])
    state.steps.line(given.moment, "chmod", path, f"{mode & 0o7777:o}")
    # Before the log it had another, which a `stat` may have shown.
    if not file.was_there:
        file.mode = mode


def changes_owner(state: State, given: Given) -> None:
    """`chown`, `lchown`, `fchown`, `fchownat`; -1 leaves an owner as it is."""
    file, path, behind = _changed(state, given)
    if file is None or path is None:
        return
    asked = [number(one) for one in given.arguments[behind : behind + 2]]
    user, group = (
        kept if one in (-1, 0xFFFF_FFFF) else one
        for one, kept in zip(asked, file.owner, strict=True)
    )
    file.owner = user, group
    state.steps.line(given.moment, "chown", path, user, group)


def _seconds(text: str, now_s: int) -> int | None:
    """A time in seconds since 1970; None for one that stays."""
    if "UTIME_OMIT" in text:
        return None
    if "UTIME_NOW" in text:
        return now_s
    whole = member(text, "tv_sec")
    return number((whole or "0").split()[0])


def changes_times(state: State, given: Given) -> None:
    """`utime`, `utimes`, `futimesat`, `utimensat`."""
    file, path, behind = _changed(state, given)
    if file is None or path is None:
        return
    now_s = given.call.time_ns // 10**9
    text = given.arguments[behind]
    times: list[int | None]
    if text == "NULL":
        times = [now_s, now_s]
    elif given.call.name == "utime":
        # Seconds, with the date in a comment behind them.
        found = [member(text, one) or "0" for one in ("actime", "modtime")]
        times = [number(one.split()[0]) for one in found]
    else:
        times = [_seconds(one, now_s) for one in parts(text)]
        # A line sets both. `tar` leaves the time of the last access as it is, which is about now.
        times[:1] = [now_s if times[0] is None else times[0]]
    if file.kind == "link" or None in times or len(times) != 2:
        state.leave_out(given, NO_WORD)
        return
    state.approximate(given, _OWN_NOW)
    state.steps.line(given.moment, "utime", path, *(one for one in times if one is not None))


def sets_attribute(state: State, given: Given) -> None:
    """`setxattr`, `lsetxattr`, `fsetxattr`."""
    file, path, behind = _changed(state, given)
    if file is None or path is None:
        return
    name, _ = string(given.arguments[behind])
    length = number(given.arguments[behind + 2])
    try:
        value, is_whole = string(given.arguments[behind + 1])
    except ValueError:
        value, is_whole = b"", length == 0
    if not is_whole or len(value) != length or not value:
        state.leave_out(given, "the log does not hold the value" if length else NO_WORD)
        return
    state.steps.line(given.moment, "setxattr", path, name, value.hex())


def reads_link(state: State, given: Given) -> None:
    """`readlink`, `readlinkat`: where a link leads that was there before."""
    first = 1 if given.call.name == "readlinkat" else 0
    path = state.path(given, 0 if first else None, first, follows=False)
    state.leave_out(given, NO_CHANGE)
    if path is None:
        return
    file = state.tree.old(path, "link")
    target, is_whole = string(given.arguments[first + 1])
    if file.target is None and is_whole:
        file.target = state.target(target[: given.value], given.process.place.root)


def failed_on_path(state: State, given: Given) -> None:
    """Notes that a call found nothing under a path."""
    is_at = not given.arguments[0].startswith('"')
    if given.result.error != "ENOENT":
        return
    path = state.path(given, 0 if is_at else None, 1 if is_at else 0, follows=False)
    if path is not None:
        state.tree.is_missing(path)


def lists_folder(state: State, given: Given) -> None:
    """`getdents64`: what it lists is a folder."""
    state.leave_out(given, NO_CHANGE)
    opened = state.opened(given, 0)
    if opened is not None and opened.file is not None and opened.file.kind is None:
        opened.file.kind = "folder"
