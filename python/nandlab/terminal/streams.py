"""Standard streams that are closed, full, or of another encoding than UTF-8."""

from __future__ import annotations

import codecs
import io
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO

_ERRORS = "nandlab-spelled"
_PLAIN = {"─": "-", "–": "-", "…": "...", "→": "->", "≥": ">=", "≤": "<=", "×": "x", "µ": "u"}
"""ASCII for signs in tables and sentences, for encodings without them."""

_BYTES_OF_NAMES = range(0xDC80, 0xDD00)
"""Stand-ins for bytes of file names that are not text (PEP 383)."""


def prepare_streams() -> None:
    """Makes every text printable, and opens what the caller of the process has closed.

    Otherwise the next file that is opened would take the number of a closed stream, and output
    would be written into it.
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
    """Discards what a stream still holds, so that its last flush raises no error."""
    try:
        place = os.open(os.devnull, os.O_WRONLY)
        os.dup2(place, stream.fileno())
        os.close(place)
    except (OSError, ValueError):
        # The stream has no file descriptor: there is nothing to flush.
        return


def _spelled(error: UnicodeError) -> tuple[bytes, int]:
    """Encodes what the stream's encoding lacks: bytes of names unchanged, signs in ASCII."""
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
