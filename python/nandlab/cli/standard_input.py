"""Standard input as the argument `-`, which the option parser would read as an option."""

import os
import select
import sys
from collections.abc import Iterable
from pathlib import Path

_STAND_IN = "(standard input)"
_PIECE_BYTES = 1 << 20
_LOOK_EVERY_S = 0.2
"""A signal just before a system call begins does not end it, so reading polls for signals."""

_BYTES_MAX = 1 << 28
"""Largest script or table. Without a limit an endless pipe would fill the memory."""


def hide_dashes(tokens: Iterable[str]) -> list[str]:
    """Replaces every argument `-` by a placeholder."""
    return [_STAND_IN if token == "-" else token for token in tokens]


def shown_dash(argument: str) -> str:
    """The argument as it was typed."""
    return "-" if argument == _STAND_IN else argument


def read_whole(given: str) -> bytes:
    """A file, or standard input for `-`, read in pieces.

    A signal ends the reading of a pipe on which nothing comes.
    """
    from nandlab.errors import NandlabError

    pieces: list[bytes] = []
    size_bytes = 0
    with Path(given).open("rb") if given != "-" else sys.stdin.buffer as file:
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
    from nandlab.interruption import received

    while not select.select([file], [], [], _LOOK_EVERY_S)[0]:
        if interrupted := received():
            raise interrupted
    return os.read(file, _PIECE_BYTES)
