"""Lines that a program of a log wrote to its user: each acknowledges what was done before it."""

import os
import re
from dataclasses import dataclass

from nandlab.errors import NandlabError
from nandlab.syscall_logs.processes import OpenFile

_STANDARD = {"stdout": 1, "stderr": 2}


@dataclass
class Acknowledgements:
    """Where the lines go, and how many were written."""

    word: str
    """As the user names it."""
    target: int | bytes
    """A descriptor that the programs were given, or a path of the system that traced."""
    lines: int = 0
    is_in_line: bool = False
    """The last line that was written has no end yet."""

    def are_written_to(self, opened: OpenFile | None) -> bool:
        """True of the open file that takes the lines, whatever number a copy of it has."""
        if opened is None:
            return False
        if isinstance(self.target, int):
            return opened.given_as == self.target
        return opened.name == self.target

    def ended_by(self, written: bytes) -> range:
        """The numbers of the lines that come to their end with these bytes."""
        before = self.lines
        self.lines += written.count(b"\n")
        self.is_in_line = not written.endswith(b"\n")
        return range(before + 1, self.lines + 1)

    def must_be_there(self) -> None:
        """Raises `NandlabError` if no line was written."""
        if self.lines:
            return
        where = f"descriptor {self.target}" if isinstance(self.target, int) else self.word
        found = "a text without a line break" if self.is_in_line else "nothing"
        raise NandlabError(
            f"--ack {self.word}: the log has {found} for {where}. Name what the program writes "
            "its answers to: stdout, stderr, the number of a descriptor that it was given, or a "
            "path as strace shows it"
        )


def acknowledgements(word: str | None) -> Acknowledgements | None:
    """What an option names. Raises `NandlabError` for an empty word."""
    if word is None:
        return None
    if not word.strip():
        raise NandlabError("--ack: it names nothing; write stdout, stderr, a number or a path")
    if re.fullmatch("[0-9]{1,9}", word):
        return Acknowledgements(word, int(word))
    if (standard := _STANDARD.get(word)) is not None:
        return Acknowledgements(word, standard)
    return Acknowledgements(word, os.fsencode(os.path.abspath(word)))  # noqa: PTH100
