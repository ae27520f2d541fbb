"""Standard input: a lone `-`, which the option parser would take for an option."""

import os
import select
import sys
from collections.abc import Iterable
from pathlib import Path

_STAND_IN = "(standard input)"
_PIECE_BYTES = 1 << 20
_LOOK_EVERY_S = 0.2
"""A signal that comes just before a call of the system begins does not end that call."""

_BYTES_MAX = 1 << 28
"""Far more than a script or a table has; a pipe that never ends would take all memory."""


def hide_dashes(tokens: Iterable[str]) -> list[str]:
    """Puts a stand-in for every lone `-`."""
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
                    f"{given}: more than {_BYTES_MAX >> 20} MiB; give a shorter text"
                )
    return b"".join(pieces)


def _next_piece(file: int) -> bytes:
    """What there is to read; nothing at the end."""
    from nandlab.interruption import received

    while not select.select([file], [], [], _LOOK_EVERY_S)[0]:
        if interrupted := received():
            raise interrupted
    return os.read(file, _PIECE_BYTES)
