"""Logs of system calls of real programs, as scripts."""

import os
import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from nandlab.api.answer import Answer, csv_text
from nandlab.api.given import bytes_of
from nandlab.errors import NandlabError

if TYPE_CHECKING:
    from nandlab.syscall_logs.calls import LeftOut
    from nandlab.syscall_logs.script import Lines
    from nandlab.syscall_logs.state import State
    from nandlab.syscall_logs.strace import Log

_COLUMNS = ("call", "calls", "fate", "reason")
_FIRST_FOLDER = re.compile(r'AT_FDCWD<([^<>]*)>|getcwd\("((?:[^"\\]|\\.)*)"')
_CHANGES_FOLDER = re.compile(r"\bf?chdir\([^\n]*\) += 0")
_OTHER_TRACES = ("# tracer:", "sys_enter_", "sys_enter(", "ftrace_events", "TRACE:\n")
_ONE_PROCESS = "A script has one"
_ACKNOWLEDGED = "ack N stands for line N"
_LINE = re.compile(r"^(?:\[pid +\d+\] |\d+ +)?\d+\.\d+ \w+\(", re.MULTILINE)
"""How a line of strace begins, which may also tell of a program that reads traces."""
_HEAD_LETTERS = 1 << 16


class StraceImport(Answer):
    """A script that was made of a log: `rows` has the calls without a line of their own."""

    @property
    def script(self) -> str:
        """The script."""
        return str(self.answer["script"])


def strace_import(
    log: str | Path,
    *,
    root: Path | str | None = None,
    out: Path | str | None = None,
    data: Literal["kept", "drawn"] = "kept",
    join: bool = False,
    failed: Literal["left-out", "try", "fails"] = "left-out",
    ack: str | None = None,
    cwd: Path | str | None = None,
    umask: str = "022",
    skip_bad_lines: bool = False,
) -> StraceImport:
    """Make a script of a log of `strace -f -ttt -y`.

    A `log` that holds a line break is the text of the log. `docs/scripts.md` says how it is
    recorded, and what becomes of each call.

    Raises `NandlabError` for bad input, with the line.

    Args:
        log: Log of strace, or - for standard input.
        root: Keep only what is below this folder, which becomes the mount point. Without it: all
            files.
        out: Write the script to this file. Without it: print it.
        data: Keep the bytes that the log holds whole, or have all drawn.
        join: Write calls on one file that follow each other as one line, which opens the file by
            its path and closes it.
        failed: Leave out calls that failed, write them with try, or with fails and their errors.
        ack: Make an ack line of each line that was written to this: stdout, stderr, the number of
            a descriptor that the program was given, or a path. The numbers count from 1.
        cwd: Set the folder that the log began in, if it does not tell.
        umask: Set the umask that the log began with, in octal.
        skip_bad_lines: Skip lines that cannot be read, and report how many.

    """
    from nandlab.outputs import check_file
    from nandlab.syscall_logs.acknowledgements import acknowledgements
    from nandlab.syscall_logs.calls import carry_out
    from nandlab.syscall_logs.state import How, State
    from nandlab.syscall_logs.strace import read_log
    from nandlab.whole_files import keep_text

    target = None if out is None else Path(out)
    if target is not None:
        check_file(target)
    mask = _octal(umask)
    shown, text = _text(log)
    _refuse_other_traces(shown, text)
    found = read_log(shown, text, skip_bad_lines=skip_bad_lines)
    top = os.fsencode(os.path.abspath(root)) if root is not None else b"/"  # noqa: PTH100
    acks = acknowledgements(ack)
    how = How(joins=join, failed=failed, acknowledgements=acks)
    state = State(found, top, _folder(text, cwd), mask, how)
    carry_out(shown, state, found)
    if acks is not None:
        acks.must_be_there()
    made = _made(shown, found, state, keeps_bytes=data == "kept")
    try:
        keep_text(target, made.script)
    except NandlabError as error:
        error.result = made
        raise
    return made


def _made(shown: str, log: "Log", state: "State", *, keeps_bytes: bool) -> StraceImport:
    """The script of calls that were carried out, and what became of them."""
    from nandlab.syscall_logs.calls import files_before, rows
    from nandlab.syscall_logs.script import Lines

    lines = Lines(keeps_bytes=keeps_bytes)
    lines.before(files_before(state))
    before = len(lines.lines)
    lines.log(state.steps.found)
    left_out = rows(state, log)
    answer = _answer(shown, log, state, lines, before, left_out)
    listed = [asdict(one) for one in left_out]
    return StraceImport(
        answer | {"script": _script(answer, lines, before, left_out)},
        listed,
        csv_text(_COLUMNS, listed),
        tuple(_complaints(answer, left_out)),
    )


def _octal(umask: str) -> int:
    if not re.fullmatch("[0-7]{1,4}", umask) or int(umask, 8) > 0o777:
        raise NandlabError(f"--umask: {umask!r} is no mode in octal; write 022")
    return int(umask, 8)


def _text(log: str | Path) -> tuple[str, str]:
    """The log. Bytes that are no text are refused with their line, as other lines are."""
    if isinstance(log, str) and "\n" in log:
        return "log", log
    shown, whole = bytes_of(log, "log of strace")
    return shown, whole.decode("ascii", "surrogateescape")


def _refuse_other_traces(shown: str, text: str) -> None:
    head = text[:_HEAD_LETTERS]
    if any(sign in head for sign in _OTHER_TRACES) and not _LINE.search(head):
        raise NandlabError(
            f"{shown}: events of ftrace and Perfetto hold pointers in place of paths and bytes, so "
            "no script can be made of them; record with strace -f -ttt -y. A probe of bpftrace "
            "would have to print str(args.filename) at sys_enter_openat, and what "
            "sys_exit_openat returns"
        )


def _folder(text: str, cwd: Path | str | None) -> bytes | None:
    """The folder that the log began in: the first that it tells, if none was changed before."""
    from nandlab.syscall_logs.arguments import unescaped

    if cwd is not None:
        return os.fsencode(os.path.abspath(cwd))  # noqa: PTH100
    told, changed = _FIRST_FOLDER.search(text), _CHANGES_FOLDER.search(text)
    if told is None or (changed is not None and changed.start() < told.start()):
        return None
    return unescaped(told[1] if told[1] is not None else told[2])


def _answer(
    shown: str,
    log: "Log",
    state: "State",
    lines: "Lines",
    before: int,
    left_out: Sequence["LeftOut"],
) -> dict[str, Any]:
    from nandlab.syscall_logs.script import word

    acks = state.how.acknowledgements
    return {
        "log": shown,
        "root": word(state.root),
        "calls": len(log.calls),
        "processes": len(log.processes),
        "without_parent": state.processes.without_parent - 1,
        "bad_lines": log.bad_lines,
        "files_before": before,
        "lines": len(lines.lines),
        "acknowledgements": 0 if acks is None else acks.lines,
        "acknowledged_by": None if acks is None else acks.word,
        "has_unended_line": acks is not None and acks.is_in_line,
        "data": "kept" if lines.keeps_bytes else "drawn",
        "bytes_kept": lines.bytes_by_fate["kept"],
        "bytes_drawn": lines.bytes_by_fate["drawn"],
        "mapped": [word(one) for one in sorted(state.mapped)],
        "unexplained": [word(one) for one in sorted(state.unexplained)],
        "left_out": [asdict(one) for one in left_out],
    }


def _notes(answer: dict[str, Any]) -> list[str]:
    """What a reader of the script has to know."""
    found = []
    if not answer["lines"]:
        # strace names files by their real paths, where a root may be given by a symbolic link.
        found.append(
            f"No line was made: no call wrote, read or named a file below {answer['root']}. The "
            "root must be the real path in the system that was traced."
        )
    if answer["processes"] > 1:
        found.append(
            f"{answer['processes']} processes and threads made the calls. {_ONE_PROCESS}: the "
            "calls stand in the order of the log."
        )
    if answer["without_parent"] > 0:
        found.append(
            f"Processes whose making is not in the log: {answer['without_parent']}. What they had "
            "open is taken from names of descriptors, at the ends of the files. Record %process."
        )
    if answer["bytes_drawn"]:
        lacks = answer["data"] == "kept"
        why = ": the log does not hold them" if lacks else ", as --data drawn asks"
        found.append(f"{answer['bytes_drawn']} bytes are drawn{why}.")
    if answer["acknowledgements"]:
        found.append(
            f"{_ACKNOWLEDGED} of {answer['acknowledgements']} that were written to "
            f"{answer['acknowledged_by']}."
        )
    if answer["has_unended_line"]:
        found.append(f"What was written last to {answer['acknowledged_by']} ends no line.")
    if answer["mapped"]:
        names = ", ".join(answer["mapped"])
        found.append(f"Mapped to be written, which no log shows: {names}.")
    if answer["unexplained"]:
        names = ", ".join(answer["unexplained"])
        found.append(f"Their sizes changed by what the log does not show: {names}.")
    if answer["bad_lines"]:
        found.append(f"Lines that could not be read: {answer['bad_lines']}.")
    return found


def _counted(one: "LeftOut") -> str:
    times = "once" if one.calls == 1 else f"{one.calls} times"
    return f"{one.call} {one.fate} {times}: {one.reason}"


def _complaints(answer: dict[str, Any], left_out: Sequence["LeftOut"]) -> list[str]:
    told = [_counted(one) for one in left_out if one.fate == "left out"]
    plain = (_ONE_PROCESS, _ACKNOWLEDGED)
    return [one for one in _notes(answer) if not any(said in one for said in plain)] + told


def _script(
    answer: dict[str, Any], lines: "Lines", before: int, left_out: Sequence["LeftOut"]
) -> str:
    """The script with its head."""
    told = [
        f"Made by nandlab strace-import of {answer['log']!a}: {answer['calls']} calls.",
        f"The mount point stands for {answer['root']!a}.",
        *_notes(answer),
        *(_counted(one) for one in left_out if one.fate in ("left out", "approximated")),
    ]
    text = [f"# {one}" for one in told]
    if before:
        text += [
            "# What was there before the log began, in the sizes that the log shows.",
            "phase before",
            *lines.lines[:before],
            "sync",
        ]
    text += ["phase log", *lines.lines[before:], "end"]
    return "".join(f"{line}\n" for line in text)
