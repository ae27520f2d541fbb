"""Standard streams that are closed, full, or of another encoding than UTF-8."""

import codecs
import io
import os
import sys
from typing import TextIO

_ERRORS = "nandlab-spelled"
_PLAIN = {"─": "-", "–": "-", "…": "...", "→": "->", "≥": ">=", "≤": "<=", "×": "x", "µ": "u"}
"""Signs of tables and sentences, for locales that do not have them."""

_BYTES_OF_NAMES = range(0xDC80, 0xDD00)
"""Stand-ins for bytes of file names that are not text (PEP 383)."""


def prepare_streams() -> None:
    """Makes every text printable, and opens what the caller of the process has closed.

    A file that is opened while standard output is closed would take its number, and be written to
    by whoever prints.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # The lowest free number is this one, for those below it are open.
            os.open(os.devnull, os.O_RDWR)
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: PTH123, SIM115
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
    codecs.register_error(_ERRORS, _spelled)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_ERRORS)


def silence(stream: TextIO) -> None:
    """Nothing that is still to be written to a stream is complained about at the end."""
    try:
        place = os.open(os.devnull, os.O_WRONLY)
        os.dup2(place, stream.fileno())
        os.close(place)
    except (OSError, ValueError):
        # It stands for no file: nothing is left to complain.
        return


def _spelled(error: UnicodeError) -> tuple[bytes, int]:
    """What a stream's encoding does not have: bytes of names as they are, signs in plain ones."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    spelled = bytearray()
    for letter in error.object[error.start : error.end]:
        if ord(letter) in _BYTES_OF_NAMES:
            spelled.append(ord(letter) - 0xDC00)
        else:
            plain = _PLAIN.get(letter, letter)
            spelled += plain.encode("ascii", "backslashreplace")
    return bytes(spelled), error.end
