"""A lone `-` on the command line, which the option parser would take for an option."""

from collections.abc import Iterable

_STAND_IN = "(standard input)"


def hide_dashes(tokens: Iterable[str]) -> list[str]:
    """Puts a stand-in for every lone `-`."""
    return [_STAND_IN if token == "-" else token for token in tokens]


def shown_dash(argument: str) -> str:
    """The argument as it was typed."""
    return "-" if argument == _STAND_IN else argument
