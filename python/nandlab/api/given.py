"""What callers give: the rules of options, and files or texts to read.

Messages name an option as the command line writes it.
"""

import os
import select
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Literal, TypedDict

from nandlab.api.runs import setting_text
from nandlab.byte_sizes import natural_number, parse_bytes
from nandlab.errors import NandlabError
from nandlab.interruption import received

Size = str | int
"""Bytes, as a number or with a unit, such as 100MiB."""

STANDARD_INPUT = "-"

_SIZES = frozenset(
    {"block_size", "jrn_size", "leb_size", "logical_size", "pad", "page_size", "reserved"}
    | {"size", "size_limit"}
)
_FROM_ZERO = frozenset({"trace_device", "dirty_writeback_centisecs", "only", "seed"})
_BITS = {
    "checkpoint": 64,
    "jobs": 10,
    "logical_size": 64,
    "right_checkpoint": 64,
    "seed": 64,
    "size": 48,
}
"""Bits of the largest number; 32 for all others."""

_PIECE_BYTES = 1 << 20
_LOOK_EVERY_S = 0.2
"""A signal just before a system call begins does not end it, so reading polls for signals."""

_BYTES_MAX = 1 << 28
"""Largest script or table. Without a limit an endless pipe would fill the memory."""


class TraceReading(TypedDict, total=False):
    """How to read a trace.

    Args:
        format: Read the trace in this format (see `nandlab list formats`). Without it: recognise
            the format.
        time_unit: Set the unit of times, for formats that do not state it.
        event: Count this blktrace event as a request: D issued to the driver (default), Q queued.
        trace_device: Read only this device of a trace with several.
        skip_bad_lines: Skip lines that cannot be read, and report how many.

    """

    format: str | None
    time_unit: Literal["ps", "ns", "us"] | None
    event: Literal["D", "Q"] | None
    trace_device: int | None
    skip_bad_lines: bool


def checked(given: Mapping[str, Any], *, from_zero: Collection[str] = ()) -> dict[str, Any]:
    """Options by name as the engine takes them: sizes in bytes, paths and settings as text.

    Whole numbers begin at 1, those in `from_zero` and a few others at 0. Raises `NandlabError` for
    a number or size that does not fit.
    """
    found = {}
    for name, value in given.items():
        option = f"--{name.replace('_', '-')}"
        if name in _SIZES and isinstance(value, str):
            value = parse_bytes(value, option)
        if isinstance(value, int) and not isinstance(value, bool):
            least = 0 if name in _FROM_ZERO or name in from_zero else 1
            natural_number(option, value, least=least, bits=_BITS.get(name, 32))
        elif isinstance(value, Path):
            value = str(value)
        elif name == "settings":
            value = {key: setting_text(one) for key, one in (value or {}).items()}
        found[name] = value
    return found


def text_of(given: str | Path, kind: str, name: str) -> tuple[str, str]:
    """The name of a text in messages, and the text.

    `given` is a file, - for standard input, or the text itself if it holds a line break. `kind`
    says in messages what is read; `name` is the name of a text without a file.
    """
    if isinstance(given, str) and "\n" in given:
        return name, given
    shown, whole = bytes_of(given, kind)
    try:
        return shown, whole.decode()
    except UnicodeDecodeError:
        raise NandlabError(f"{given} is not text; give a {kind} in UTF-8") from None


def bytes_of(given: str | Path, kind: str) -> tuple[str, bytes]:
    """The name of a file in messages, or of standard input for -, and its bytes.

    `kind` says in messages what is read.
    """
    shown = str(given)
    try:
        whole = _read_whole(shown)
    except OSError as error:
        raise NandlabError(f"{shown}: {error.strerror}; name a {kind}") from None
    return ("standard input" if shown == STANDARD_INPUT else shown), whole


def _read_whole(given: str) -> bytes:
    """A file or standard input in pieces; a signal ends the reading of a silent pipe."""
    pieces: list[bytes] = []
    size_bytes = 0
    with Path(given).open("rb") if given != STANDARD_INPUT else sys.stdin.buffer as file:
        while piece := _next_piece(file.fileno()):
            pieces.append(piece)
            size_bytes += len(piece)
            if size_bytes > _BYTES_MAX:
                raise NandlabError(
                    f"{given}: larger than {_BYTES_MAX >> 20} MiB; give a shorter text"
                )
    return b"".join(pieces)


def _next_piece(file: int) -> bytes:
    """The next bytes; none at the end."""
    while not select.select([file], [], [], _LOOK_EVERY_S)[0]:
        if interrupted := received():
            raise interrupted
    return os.read(file, _PIECE_BYTES)
