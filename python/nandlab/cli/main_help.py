"""The help of `nandlab` itself, and how help is laid out: wrapped once to the terminal.

It is written from the table of commands alone, without the option parser.
"""

import sys
import textwrap
from collections.abc import Iterable, Sequence

from nandlab.cli.commands import COMMANDS, EXIT_STATUSES

FLAGS = frozenset({"--help", "-h"})
"""What asks for help, anywhere in a command line."""

HELP = ("--help, -h", "Show this help.")
"""The option that every command has."""

_WIDTH_MAX = 100
_PIPE_WIDTH = 80
_LABEL_MAX = 26
"""A longer option has a line of its own."""


def main_help() -> str:
    """Help of `nandlab` itself."""
    commands = [(name, summary) for name, (_, summary) in COMMANDS.items()]
    return help_text(
        [
            *wrapped("Usage: nandlab COMMAND [OPTIONS]"),
            "",
            *wrapped("A laboratory for NAND flash storage stacks."),
            "",
            *section("Commands", commands),
            *section("Options", [HELP, ("--version", "Show the version.")]),
            *section("Exit statuses", EXIT_STATUSES),
            *wrapped("`nandlab COMMAND --help` shows the options of a command."),
        ]
    )


def section(title: str, entries: Sequence[tuple[str, str]]) -> list[str]:
    """A heading and its entries: what they are called on the left, what they mean on the right."""
    if not entries:
        return []
    width = min(max(len(label) for label, _ in entries), _LABEL_MAX)
    lines = [f"{title}:"]
    for label, meaning in entries:
        first = f"  {label.ljust(width)}  "
        if len(label) > width:
            lines.append(f"  {label}")
            first = " " * (width + 4)
        lines += wrapped(meaning, first, " " * (width + 4))
    return [*lines, ""]


def wrapped(paragraph: str, first: str = "", hanging: str = "") -> list[str]:
    """The lines of a paragraph, with what stands before the first line and before the others."""
    width = _width()
    return textwrap.wrap(
        paragraph,
        max(width, len(hanging) + 20),
        initial_indent=first,
        subsequent_indent=hanging,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [first.rstrip()]


def _width() -> int:
    if not sys.stdout.isatty():
        return _PIPE_WIDTH
    from shutil import get_terminal_size

    return min(get_terminal_size((80, 24)).columns, _WIDTH_MAX)


def help_text(lines: Iterable[str]) -> str:
    """Lines as one text."""
    return "\n".join(lines).rstrip()
