"""Calls that read, write, cut and sync files."""

from dataclasses import dataclass

from nandlab.errors import NandlabError
from nandlab.syscall_logs.arguments import member, number, string, vector, words
from nandlab.syscall_logs.processes import OpenFile
from nandlab.syscall_logs.state import NAMELESS, NO_CHANGE, NO_WORD, OUTSIDE, Given, State
from nandlab.syscall_logs.tree import File

COPIED = "the bytes are drawn: the log does not hold what was copied"

_AT_PLACE = frozenset(("pread64", "pwrite64", "preadv", "pwritev", "preadv2", "pwritev2"))
"""Calls with an offset of their own, their fourth argument."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a call writes."""

    offset: int | None
    """None for the end of the file."""
    is_given: bool
    """The call names it; otherwise it is the position of the open file."""


def _regular(state: State, given: Given, place: int = 0) -> tuple[OpenFile, File] | None:
    """The open regular file of a descriptor; what is none is counted."""
    opened = state.opened(given, place)
    if opened is None or opened.file is None:
        state.leave_out(given, OUTSIDE)
    elif opened.file.kind not in (None, "file"):
        state.leave_out(given, NO_CHANGE)
    else:
        return opened, opened.file
    return None


def reads(state: State, given: Given) -> None:
    """`read`, `pread64`, `readv`, `preadv`, `preadv2`."""
    found = _regular(state, given)
    if found is None:
        return
    opened, file = found
    length = given.value
    name = given.call.name
    is_at_place = name in _AT_PLACE
    # A shell opens what it hands to a program just before: nothing of it has been read.
    offset = number(given.arguments[3]) if is_at_place else opened.offset or 0
    asked = length if "v" in name else number(given.arguments[2])
    if asked > length and "v" not in name:
        # A regular file gives less than was asked for only at its end.
        is_at_end = length > 0 or offset == file.size
        if is_at_end:
            state.has_size(file, offset + length)
    elif length:
        state.has_size(file, offset + length, is_exact=False)
    if not is_at_place:
        opened.offset = offset + length
    if (handle := state.handle(given, opened)) is not None:
        # What was asked for, of which a file gives less at its end.
        state.steps.line(given.moment, "pread", handle, offset, asked)
    elif length and (path := state.named(given, file)) is not None:
        state.steps.read(given.moment, opened, path, offset, asked, length)


def _bytes(given: Given, length: int) -> bytes | None:
    """The bytes that a call wrote; None if the log does not hold all of them."""
    text = given.arguments[1]
    if "v" in given.call.name:
        return vector(text, length)
    try:
        found, is_whole = string(text)
    except ValueError:
        return None
    return found[:length] if is_whole or len(found) >= length else None


def writes(state: State, given: Given) -> None:
    """`write`, `pwrite64`, `writev`, `pwritev`, `pwritev2`."""
    told = _told(state, given)
    if told and not _is_kept(state, given):
        # A pipe or a terminal: nothing is written but the acknowledgement.
        _acknowledged(state, given, told)
        return
    found = _regular(state, given)
    if found is None or not given.value:
        return
    opened, file = found
    length = given.value
    name = given.call.name
    flags = given.flags(4) if name == "pwritev2" else frozenset()
    offset = None
    # Linux appends even where the call names a place (`generic_write_checks`).
    if not opened.appends and "RWF_APPEND" not in flags:
        if name in _AT_PLACE and (place := number(given.arguments[3])) >= 0:
            offset = place
        else:
            offset = file.size if opened.offset is None else opened.offset
    is_at_place = name in _AT_PLACE and given.arguments[3] != "-1"
    where = _Place(offset, is_at_place)
    _written(state, given, (opened, file), where, length, _bytes(given, length))
    if not is_at_place:
        opened.offset = file.size if offset is None else offset + length
    if "RWF_SYNC" in flags:
        _synced(state, given, (opened, file), "fsync")
    elif "RWF_DSYNC" in flags:
        _synced(state, given, (opened, file), "fdatasync")
    if told:
        _acknowledged(state, given, told)


def _told(state: State, given: Given) -> bytes:
    """What the call wrote to where acknowledgements go; nothing if it wrote to another place."""
    acks = state.how.acknowledgements
    if acks is None or not given.value or not acks.are_written_to(state.opened(given, 0)):
        return b""
    told = _bytes(given, given.value)
    if told is None:
        raise NandlabError(
            f"--ack {acks.word}: the log cuts what was written; record it with -s 16777216"
        )
    return told


def _is_kept(state: State, given: Given) -> bool:
    """True if the call wrote to a file below the root."""
    opened = state.opened(given, 0)
    return opened is not None and opened.file is not None


def _acknowledged(state: State, given: Given, told: bytes) -> None:
    assert state.how.acknowledgements is not None
    for line in state.how.acknowledgements.ended_by(told):
        state.steps.line(given.moment, "ack", line)


def _written(
    state: State,
    given: Given,
    target: tuple[OpenFile, File],
    place: _Place,
    length: int,
    piece: bytes | None,
) -> None:
    opened, file = target
    if (handle := state.handle(given, opened)) is not None:
        state.steps.sent(given.moment, _sent_words(opened, handle, place, length), length, piece)
    elif (path := state.named(given, file)) is not None:
        state.steps.written(given.moment, opened, path, place.offset, length, piece)
    file.is_written(place.offset, length)


def _sent_words(opened: OpenFile, handle: str, place: _Place, length: int) -> tuple[str | int, ...]:
    """A write of a file that the script has open: at its position, if the call was."""
    if place.offset is not None and (place.is_given or place.offset != opened.position):
        # Scripts have no `lseek`.
        return "pwrite", handle, place.offset
    opened.position += length
    return "write", handle


def _copied_to(state: State, given: Given, target: int, place: str | None) -> None:
    """Bytes that the kernel copied, which no log holds."""
    acks = state.how.acknowledgements
    if acks is not None and given.value and acks.are_written_to(state.opened(given, target)):
        raise NandlabError(f"--ack {acks.word}: no log holds what {given.call.name} copies")
    found = _regular(state, given, target)
    if found is None or not given.value:
        return
    opened, file = found
    is_at_place = place not in (None, "NULL")
    if is_at_place:
        offset: int | None = number(str(place).strip("[]"))
    elif opened.appends:
        offset = None
    else:
        offset = file.size if opened.offset is None else opened.offset
    _written(state, given, found, _Place(offset, is_at_place), given.value, None)
    state.approximate(given, COPIED)
    if not is_at_place:
        opened.offset = file.size if offset is None else offset + given.value


def _copied_from(state: State, given: Given, source: int, place: str) -> None:
    """Bytes that were read for a copy: what is read next comes behind them."""
    opened = state.opened(given, source)
    if opened is None or opened.file is None:
        return
    is_at_place = place != "NULL"
    offset = number(place.strip("[]")) if is_at_place else opened.offset or 0
    state.has_size(opened.file, offset + given.value, is_exact=False)
    if not is_at_place:
        opened.offset = offset + given.value
    if given.value and opened.file.kind in (None, "file"):
        if (handle := state.handle(given, opened)) is not None:
            state.steps.line(given.moment, "pread", handle, offset, given.value)
        elif (path := state.used(given, opened.file)) is not None:
            state.steps.read(given.moment, opened, path, offset, given.value, given.value)


def copies_range(state: State, given: Given) -> None:
    """`copy_file_range` and `splice`."""
    _copied_from(state, given, 0, given.arguments[1])
    _copied_to(state, given, 2, given.arguments[3])


def sends_file(state: State, given: Given) -> None:
    """`sendfile`."""
    _copied_from(state, given, 1, given.arguments[2])
    _copied_to(state, given, 0, None)


def seeks(state: State, given: Given) -> None:
    """`lseek`."""
    opened = state.opened(given, 0)
    if opened is None or opened.file is None:
        return
    opened.offset = given.value
    if given.arguments[2] == "SEEK_END":
        state.has_size(opened.file, given.value - number(given.arguments[1]))


def cuts_descriptor(state: State, given: Given) -> None:
    """`ftruncate`."""
    opened, size = state.opened(given, 0), number(given.arguments[1])
    if opened is None or opened.file is None:
        state.leave_out(given, OUTSIDE)
    elif (handle := state.handle(given, opened)) is not None:
        state.steps.line(given.moment, "ftruncate", handle, size)
        opened.file.is_cut_to(size)
    else:
        _cut(state, given, opened.file, size)


def cuts_path(state: State, given: Given) -> None:
    """`truncate`."""
    path = state.path(given, None, 0)
    if path is None:
        state.leave_out(given, OUTSIDE)
    else:
        _cut(state, given, state.tree.old(path, "file"), number(given.arguments[1]))


def _cut(state: State, given: Given, file: File | None, size: int) -> None:
    path = state.named(given, file)
    if file is not None:
        file.is_cut_to(size)
    if path is not None:
        state.steps.line(given.moment, "truncate", path, size)


_RESERVES: dict[frozenset[str], tuple[str, ...]] = {
    frozenset(["0"]): (),
    frozenset(["FALLOC_FL_KEEP_SIZE"]): ("keep-size",),
    frozenset(["FALLOC_FL_KEEP_SIZE", "FALLOC_FL_PUNCH_HOLE"]): ("punch-hole",),
}
"""Modes of `fallocate` that scripts have, and their words."""


def reserves(state: State, given: Given) -> None:
    """`fallocate`, whose line names the file by its path."""
    found = _regular(state, given)
    if found is None:
        return
    mode = _RESERVES.get(given.flags(1))
    begin, length = (number(one) for one in given.arguments[2:4])
    _, file = found
    if mode is None:
        state.leave_out(given, NO_WORD)
        return
    path = state.named(given, file)
    if path is not None:
        state.steps.line(given.moment, "fallocate", path, begin, length, *mode)
        if not mode:
            file.is_written(begin, length)


def syncs_file(state: State, given: Given) -> None:
    """`fsync`, `fdatasync`."""
    opened = state.opened(given, 0)
    if opened is None or opened.file is None:
        state.leave_out(given, OUTSIDE)
    elif opened.file.kind in (None, "file", "folder"):
        _synced(state, given, (opened, opened.file), given.call.name)


def _synced(state: State, given: Given, target: tuple[OpenFile, File], call: str) -> None:
    opened, file = target
    if (handle := state.handle(given, opened)) is not None:
        state.steps.line(given.moment, call, handle)
    elif (path := state.named(given, file)) is None:
        return
    elif file.kind == "folder" or state.not_open(path) != path:
        state.steps.line(given.moment, call, state.not_open(path))
    else:
        state.steps.synced(given.moment, opened, path, call)


def syncs_all(state: State, given: Given) -> None:
    """`sync`, and `syncfs` below the root."""
    if given.call.name == "syncfs" and state.file_of(given, 0) is None:
        return
    state.steps.line(given.moment, "sync")


def maps(state: State, given: Given) -> None:
    """`mmap`: what is stored into shared memory is in no log."""
    if len(given.arguments) < 6 or given.arguments[4].startswith("-1"):
        state.leave_out(given, NO_CHANGE)
        return
    file = state.file_of(given, 4)
    if file is None:
        return
    flags = words(given.arguments[3])
    if "PROT_WRITE" in given.arguments[2] and not flags.isdisjoint(
        ("MAP_SHARED", "MAP_SHARED_VALIDATE")
    ):
        state.leave_out(given, "what is stored into mapped memory is in no log")
        state.mapped.add(file.name or NAMELESS.encode())
    else:
        state.leave_out(given, NO_CHANGE)


def tells_status(state: State, given: Given) -> None:
    """`fstat`, `stat`, `lstat`, `newfstatat`, `statx`: kind, mode and size of a file."""
    name = given.call.name
    is_at = name in ("newfstatat", "fstatat64", "statx")
    structure = given.arguments[{"statx": 4, "newfstatat": 2, "fstatat64": 2}.get(name, 1)]
    if name in ("fstat", "fstat64") or (is_at and string(given.arguments[1])[0] == b""):
        opened = state.opened(given, 0)
        file = None if opened is None else opened.file
    else:
        flags = given.flags(3) if name == "newfstatat" else given.flags(2)
        follows = name not in ("lstat", "lstat64") and "AT_SYMLINK_NOFOLLOW" not in flags
        path = state.path(given, 0 if is_at else None, 1 if is_at else 0, follows=follows)
        file = None if path is None else state.tree.old(path)
    if file is not None:
        _status(state, file, structure)
    state.leave_out(given, NO_CHANGE)


def _status(state: State, file: File, structure: str) -> None:
    mode, size = member(structure, "st_mode", "stx_mode"), member(structure, "st_size", "stx_size")
    if mode is None:
        return
    kind, _, bits = mode.partition("|")
    kinds = {"S_IFREG": "file", "S_IFDIR": "folder", "S_IFLNK": "link"}
    if file.kind is None:
        file.kind = kinds.get(kind, "special")  # type: ignore[assignment]
    # Where it has a mode already, calls of the log gave it.
    if file.mode is None:
        file.mode = sum(number(bit) for bit in bits.split("|") if bit.startswith("0"))
        file.mode |= 0o4000 * ("S_ISUID" in bits) | 0o2000 * ("S_ISGID" in bits)
        file.mode |= 0o1000 * ("S_ISVTX" in bits)
    if kind == "S_IFREG" and size is not None:
        state.has_size(file, number(size))
