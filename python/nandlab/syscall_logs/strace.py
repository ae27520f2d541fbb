"""The lines of a log of `strace -f -ttt -y`.

Layouts are those that strace 6.1 prints (`src/strace.c`: `printleader`, `syscall_exiting_finish`,
`print_signalled`, `print_exited`). A call that another process interrupts stands on two lines, as
`<unfinished ...>` and `<... NAME resumed>`; here it is one call again.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from nandlab.errors import NandlabError

HOW = "strace -f -ttt -y -e trace=%file,%desc,%process,sync,syncfs,msync"
"""The command that makes such a log, for messages."""

_HEAD = re.compile(r"(?:\[pid +(\d+)\] +|(\d+) +)?(\d+)\.(\d{1,9}) +")
_TIME_OF_DAY = re.compile(r"(?:\[pid +\d+\] +|\d+ +)?\d\d:\d\d:\d\d[. ]")
_BEGINS = re.compile(r"([a-z_][a-z0-9_]*|\?+)\(")
_RESUMED = re.compile(r"<\.\.\. (\S+) resumed>")
_ENDS = re.compile(r"\) += ")
_UNFINISHED = "<unfinished ...>"
_NOTES = ("+++ ", "--- ", "[ Process PID=", "<detached ...>")
# strace names itself as it was called.
_SAID = r"(?:\.?(?:/[\w.+-]+)*/)?strace: "
_ATTACHED = re.compile(rf"{_SAID}Process (\d+) attached$")
_OWN_MESSAGE = re.compile(_SAID)
_CHILD = re.compile(r"= (\d+)")
_FLAGS = re.compile(r"\bflags=([A-Z0-9_|x]+)")
_MAKES_PROCESSES = frozenset(("clone", "clone3", "fork", "vfork"))

SINCE_1970_S = 100_000_000
"""Times below this are no dates: `strace -r` prints the time since the call before."""

SHOWN_LETTERS = 60
"""How much of a wrong line a message shows."""


@dataclass(slots=True)
class Call:
    """A system call that ended."""

    line: int
    """Number of the line on which it began."""
    last_line: int
    """Number of the line on which it ended."""
    process: int
    time_ns: int
    """When it began."""
    name: str
    text: str
    """Arguments and result, as they stand behind the opening parenthesis."""


@dataclass(frozen=True, slots=True)
class Fork:
    """How a process or a thread came to be."""

    parent: int
    flags: frozenset[str]


@dataclass
class Log:
    """What a log holds."""

    calls: list[Call] = field(default_factory=list)
    """In the order of their ends."""
    exits: list[tuple[int, int]] = field(default_factory=list)
    """Lines on which processes ended, with the process."""
    forks: dict[int, list[Fork]] = field(default_factory=dict)
    """By the number of the child, which may come again."""
    processes: set[int] = field(default_factory=set)
    """Processes and threads that made calls."""
    unfinished: list[str] = field(default_factory=list)
    """Names of calls that had no end when the log ended."""
    bad_lines: int = 0


class LineError(NandlabError):
    """A line that is none of a log of strace."""


@dataclass
class _Begun:
    line: int
    time_ns: int
    name: str
    text: str


class _Reader:
    """Puts lines together to calls."""

    def __init__(self) -> None:
        """Begin with an empty log."""
        self.log = Log()
        self._begun: dict[int, _Begun] = {}
        # Processes that live, for lines without a number; 0 is the one that strace began with.
        self._living: set[int] = {0}
        self._first: int | None = None
        self._attached: set[int] = set()
        self._broken: tuple[int, str] | None = None

    def line(self, number: int, text: str) -> None:
        """Takes the next line. Raises `LineError` if it is none of a log."""
        # On a terminal this message comes into the middle of a line, which goes on behind it.
        broken, self._broken = self._broken, None
        if broken is not None and _HEAD.match(text) is None:
            number, text = broken[0], broken[1] + text
        elif broken is not None:
            self.line(broken[0], broken[1] + _UNFINISHED)
        if attached := _ATTACHED.search(text):
            self._attached.add(int(attached[1]))
            if attached.start() > 0:
                self._broken = number, text[: attached.start()]
                return
        head = _HEAD.match(text)
        if head is None:
            if text.startswith(_NOTES) or _OWN_MESSAGE.match(text):
                return
            if _TIME_OF_DAY.match(text):
                raise LineError(f"the time has no date; record with {HOW}")
            if _BEGINS.match(text) or re.match(r"\d+ +[a-z]", text):
                raise LineError(f"the line has no time; record with {HOW}")
            raise LineError(f"{_shown(text)} is no line of strace; record with {HOW}")
        seconds = int(head[3])
        if seconds < SINCE_1970_S:
            raise LineError(f"{head[3]}.{head[4]} is no time since 1970; record with {HOW}")
        time_ns = seconds * 10**9 + int(head[4].ljust(9, "0"))
        process = self._process(head[1], head[2])
        body = text[head.end() :]
        if body.startswith(_NOTES):
            if not body.endswith(("+++", "---", "...>", "attached", "mode. ]")):
                raise LineError(f"{_shown(body)} is cut off")
            if body.startswith("+++ ") and "superseded" not in body:
                self._living.discard(process)
                self.log.exits.append((number, process))
            return
        self._body(number, process, time_ns, body)

    def _process(self, bracketed: str | None, plain: str | None) -> int:
        if plain is not None:
            return int(plain)
        if bracketed is None:
            # On a terminal a process has a number only while there are others.
            return next(iter(self._living)) if len(self._living) == 1 else 0
        number = int(bracketed)
        is_child = number in self._attached or number in self.log.forks
        if self._first is None and not is_child:
            self._first = number
        if number == self._first:
            number = 0
        self._living.add(number)
        return number

    def _body(self, number: int, process: int, time_ns: int, body: str) -> None:
        begins, resumed = _BEGINS.match(body), _RESUMED.match(body)
        if begins is not None:
            begun = _Begun(number, time_ns, begins[1], body[begins.end() :])
        elif resumed is not None:
            before = self._begun.pop(process, None)
            if before is None or before.name != resumed[1]:
                raise LineError(f"no line begins the `{resumed[1]}` that is resumed here")
            begun = before
            begun.text += body[resumed.end() :]
        else:
            raise LineError(f"{_shown(body)} is no call of strace; record with {HOW}")
        self.log.processes.add(process)
        if begun.text.endswith(_UNFINISHED):
            begun.text = begun.text[: -len(_UNFINISHED)].rstrip()
            self._begun[process] = begun
            return
        # `exit_group(0 <unfinished ...>) = ?`: no other line ends it.
        text = begun.text.replace(f" {_UNFINISHED})", ")")
        if _ENDS.search(text) is None:
            raise LineError(f"the call `{begun.name}` is cut off: it has no result")
        call = Call(begun.line, number, process, begun.time_ns, begun.name, text)
        self.log.calls.append(call)
        if call.name in _MAKES_PROCESSES:
            self._forked(call)

    def _forked(self, call: Call) -> None:
        *_, end = _ENDS.finditer(call.text)
        child = _CHILD.match(call.text, end.end() - 2)
        if child is None:
            return
        flags = _FLAGS.search(call.text)
        found = frozenset(flags[1].split("|")) if flags else frozenset()
        self.log.forks.setdefault(int(child[1]), []).append(Fork(call.process, found))
        self._living.add(int(child[1]))

    def finish(self) -> Log:
        self.log.unfinished = sorted(begun.name for begun in self._begun.values())
        return self.log


def read_log(shown: str, text: str, *, skip_bad_lines: bool = False) -> Log:
    """Reads a log.

    Raises `NandlabError` with the first line that is none; with `skip_bad_lines` they are counted.
    """
    reader = _Reader()
    for number, line, is_whole in _lines(text):
        if not line.strip():
            continue
        try:
            if not is_whole:
                raise LineError("the last line is cut off: it has no line break")
            if not line.isascii():
                raise LineError(f"{_shown(line)} is no line of strace, which prints ASCII alone")
            reader.line(number, line)
        except LineError as error:
            if not skip_bad_lines:
                raise NandlabError(f"{shown}:{number}: {error}") from None
            reader.log.bad_lines += 1
    if not reader.log.calls:
        raise NandlabError(f"{shown}: no system call is in it; record with {HOW}")
    return reader.finish()


def _lines(text: str) -> Iterator[tuple[int, str, bool]]:
    """Lines with their numbers. `splitlines` would end a line at bytes that strace leaves in."""
    begin, number = 0, 1
    while begin < len(text):
        end = text.find("\n", begin)
        if end < 0:
            yield number, text[begin:], False
            return
        yield number, text[begin:end].rstrip("\r"), True
        begin, number = end + 1, number + 1


def _shown(text: str) -> str:
    cut = text if len(text) <= SHOWN_LETTERS else f"{text[:SHOWN_LETTERS]}..."
    return ascii(cut)
