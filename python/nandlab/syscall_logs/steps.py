"""What a script does, step by step: writes of one open file that follow each other are one step.

A line of a script opens the file, makes its calls and closes it. Calls that came one after the
other on the same open file therefore stand on one line, where the language can say it.
"""

from dataclasses import dataclass, field

from nandlab.syscall_logs.processes import OpenFile
from nandlab.syscall_logs.tree import File

TOGETHER_NS = 10_000_000
"""Calls on one line have no wait between them, so a longer one begins a new line. Under strace a
call takes about 0.1 ms."""

CALL_BYTES_MAX = 1 << 30
"""The largest call of a script."""

LINE_BYTES_MAX = 1 << 20
"""Bytes that stand on a line; more are divided, so that editors can show it."""


@dataclass(kw_only=True, eq=False)
class Step:
    """A line of the script. Times are of the log."""

    time_ns: int
    took_ns: int
    """How long its calls took, as far as the log says."""
    last_ns: int = 0
    """When its last call began."""


@dataclass(kw_only=True, eq=False)
class Line(Step):
    """A line that stands for one call."""

    words: tuple[str | bytes | int, ...]
    """Its words; those that are bytes are paths."""


@dataclass(kw_only=True, eq=False)
class Sent(Step):
    """A call that wrote to a file which the script has open."""

    words: tuple[str | int, ...]
    """The words before the bytes: call, name, and the offset if the call has one."""
    length: int
    piece: bytes | None
    """The bytes; None if the log does not hold them."""


@dataclass(kw_only=True, eq=False)
class Written(Step):
    """Calls that write one after the other, of a file that is made or opened for them."""

    path: bytes
    file: File
    opened: OpenFile
    mode: int | None
    """Mode of a file that is made or emptied first; None if it is only opened."""
    offset: int | None
    """Where the first call writes; None for the end of the file."""
    sizes: list[int] = field(default_factory=list)
    pieces: list[bytes | None] = field(default_factory=list)
    """The bytes of each call; None if the log does not hold them."""
    sync: str = ""
    """`fsync` or `fsynceach`."""

    @property
    def length(self) -> int:
        """Bytes of all calls."""
        return sum(self.sizes)


@dataclass(kw_only=True, eq=False)
class Read(Step):
    """Calls that read one after the other."""

    path: bytes
    opened: OpenFile
    offset: int
    asked: int
    """Bytes that each call asks for."""
    length: int


@dataclass(frozen=True, slots=True)
class Moment:
    """When a call was made."""

    time_ns: int
    took_ns: int


class Steps:
    """The steps of a script, as they come."""

    def __init__(self) -> None:
        """Begin with none."""
        self.found: list[Step] = []

    def _add(self, step: Step) -> None:
        step.last_ns = step.time_ns
        self.found.append(step)

    def _goes_on(self, moment: Moment) -> Step | None:
        """The last step, if a call of this moment may still belong to it."""
        last = self.found[-1] if self.found else None
        return last if last and moment.time_ns - last.last_ns <= TOGETHER_NS else None

    @staticmethod
    def _joined(last: Step, moment: Moment) -> None:
        last.last_ns = moment.time_ns
        last.took_ns += moment.took_ns

    def line(self, moment: Moment, *words: str | bytes | int) -> None:
        """A call that is a line of its own."""
        self._add(Line(time_ns=moment.time_ns, took_ns=moment.took_ns, words=words))

    def sent(
        self, moment: Moment, words: tuple[str | int, ...], length: int, piece: bytes | None
    ) -> None:
        """A call that wrote so many bytes to a file which the script has open."""
        took_ns = moment.took_ns
        step = Sent(
            time_ns=moment.time_ns, took_ns=took_ns, words=words, length=length, piece=piece
        )
        self._add(step)

    @property
    def last(self) -> Moment:
        """When the last call was made."""
        return Moment(self.found[-1].last_ns if self.found else 0, 0)

    def made(
        self, moment: Moment, file: File, path: bytes, opened: OpenFile, mode: int | None
    ) -> None:
        """A file that is made, or emptied, and open now."""
        step = Written(
            time_ns=moment.time_ns,
            took_ns=moment.took_ns,
            path=path,
            file=file,
            opened=opened,
            mode=mode,
            offset=None if opened.appends else 0,
        )
        self._add(step)

    def written(
        self,
        moment: Moment,
        opened: OpenFile,
        path: bytes,
        offset: int | None,
        length: int,
        piece: bytes | None,
    ) -> None:
        """A call that wrote so many bytes."""
        assert opened.file is not None
        last = self._goes_on(moment)
        if isinstance(last, Written) and _takes(last, opened, path, offset, length, piece):
            self._joined(last, moment)
        else:
            last = Written(
                time_ns=moment.time_ns,
                took_ns=moment.took_ns,
                path=path,
                file=opened.file,
                opened=opened,
                mode=None,
                offset=offset,
            )
            self._add(last)
        last.sizes.append(length)
        last.pieces.append(piece)
        if opened.is_synchronous:
            last.sync = "fsynceach"

    def synced(self, moment: Moment, opened: OpenFile, path: bytes, call: str) -> None:
        """A call that made a file durable."""
        last = self._goes_on(moment)
        if not isinstance(last, Written) or last.opened is not opened or last.path != path:
            self.line(moment, call, path)
            return
        if last.sync or not last.sizes:
            self.line(moment, call, path)
            return
        last.sync = "fsync"
        self._joined(last, moment)
        before = self.found[-2] if len(self.found) > 1 else None
        if isinstance(before, Written) and _goes_on_each(before, last):
            before.sizes += last.sizes
            before.pieces += last.pieces
            before.sync, before.last_ns = "fsynceach", last.last_ns
            before.took_ns += last.took_ns
            self.found.pop()

    def read(
        self, moment: Moment, opened: OpenFile, path: bytes, offset: int, asked: int, length: int
    ) -> None:
        """A call that read so many bytes."""
        last = self._goes_on(moment)
        if (
            isinstance(last, Read)
            and (last.opened is opened and last.path == path and last.asked == asked)
            and last.offset + last.length == offset
            and last.length % asked == 0
        ):
            last.length += length
            self._joined(last, moment)
            return
        step = Read(
            time_ns=moment.time_ns,
            took_ns=moment.took_ns,
            path=path,
            opened=opened,
            offset=offset,
            asked=asked,
            length=length,
        )
        self._add(step)


def _takes(
    last: Written,
    opened: OpenFile,
    path: bytes,
    offset: int | None,
    length: int,
    piece: bytes | None,
) -> bool:
    """True if a line takes one more write: at the place behind, and no larger than those before."""
    if last.opened is not opened or last.path != path:
        return False
    if last.sync and not (last.sync == "fsynceach" and opened.is_synchronous):
        return False
    if not last.sizes:
        # Just made: the first write may be anywhere but elsewhere than at the beginning.
        return offset in (None, 0)
    return _follows(last, offset, length, piece)


def _follows(last: Written, offset: int | None, length: int, piece: bytes | None) -> bool:
    expected = None if last.offset is None else last.offset + last.length
    return (
        offset == expected
        and last.sizes[-1] == last.sizes[0]
        and length <= last.sizes[0] <= CALL_BYTES_MAX
        and (piece is None) == (last.pieces[-1] is None)
        and last.length + length <= max(LINE_BYTES_MAX, last.sizes[0])
    )


def _goes_on_each(before: Written, last: Written) -> bool:
    """True if each of the writes of both was followed by a call that made it durable."""
    return (
        before.opened is last.opened
        and before.path == last.path
        and last.mode is None
        and last.time_ns - before.last_ns <= TOGETHER_NS
        and len(last.sizes) == 1
        and (before.sync == "fsynceach" or (before.sync == "fsync" and len(before.sizes) == 1))
        and _follows(before, last.offset, last.sizes[0], last.pieces[0])
    )
