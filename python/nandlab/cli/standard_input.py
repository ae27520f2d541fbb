"""Standard input: a lone `-`, which the option parser would take for an option."""

import sys
from collections.abc import Iterable
from pathlib import Path

_STAND_IN = "(standard input)"
_PIECE_BYTES = 1 << 20
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

    Python looks for signals between two of them only, and a pipe may never end.
    """
    from nandlab.errors import NandlabError

    pieces: list[bytes] = []
    with Path(given).open("rb") if given != "-" else sys.stdin.buffer as file:
        while piece := file.read(_PIECE_BYTES):
            pieces.append(piece)
            if len(pieces) * _PIECE_BYTES > _BYTES_MAX:
                raise NandlabError(
                    f"{given}: more than {_BYTES_MAX >> 20} MiB; give a shorter text"
                )
    return b"".join(pieces)
