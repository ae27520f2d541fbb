"""Help texts, wrapped once to the terminal.

`main_help` needs the table of commands alone. `command_help` reads the signature and the docstring
of a command through the option parser.
"""

import inspect
import re
import shutil
import sys
import textwrap
import types
import typing
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from nandlab.cli.commands import COMMANDS, EXIT_STATUSES

if TYPE_CHECKING:
    from cyclopts import App

FLAGS = frozenset({"--help", "-h"})
"""What asks for help, anywhere in a command line."""

_HELP = ("--help, -h", "Show this help.")
_WIDTH_MAX = 100
_PIPE_WIDTH = 80
_LABEL_MAX = 26
"""A longer option has a line of its own."""


def main_help() -> str:
    """Help of `nandlab` itself."""
    commands = [(name, summary) for name, (_, summary) in COMMANDS.items()]
    return _text(
        [
            *_wrapped("Usage: nandlab COMMAND [OPTIONS]"),
            "",
            *_wrapped("A laboratory for NAND flash storage stacks."),
            "",
            *_section("Commands", commands),
            *_section("Options", [_HELP, ("--version", "Show the version.")]),
            *_section("Exit statuses", EXIT_STATUSES),
            *_wrapped("`nandlab COMMAND --help` shows the options of a command."),
        ]
    )


def command_help(app: "App", words: Sequence[str]) -> str:
    """Help of a command, or of a group of commands, by its words."""
    for word in words:
        app = app[word]
    called = " ".join(("nandlab", *words))
    if app.default_command is None:
        commands = [(name, _summary(app[name])) for name in app if not name.startswith("-")]
        return _text(
            [
                *_wrapped(f"Usage: {called} COMMAND [OPTIONS]"),
                "",
                *_wrapped(app.help if isinstance(app.help, str) else ""),
                "",
                *_section("Commands", commands),
                *_wrapped(f"`{called} COMMAND --help` shows the options of a command."),
            ]
        )
    arguments = [one for one in app.assemble_argument_collection(parse_docstring=True) if one.show]
    positional = [one for one in arguments if not one.name.startswith("-")]
    named = [one for one in arguments if one.name.startswith("-")]
    usage = [called, *(f"{one.name} {_metavar(one)}" for one in named if one.required)]
    usage += ["[OPTIONS]"] if named else []
    usage += [one.name if one.required else f"[{one.name}]" for one in positional]
    lines = [*_wrapped(f"Usage: {' '.join(usage)}", hanging="       "), ""]
    for paragraph in _description(app.default_command):
        lines += [*_wrapped(paragraph), ""]
    lines += _section("Arguments", [(one.name, _meaning(one)) for one in positional])
    options = [(_label(one), _meaning(one)) for one in named]
    lines += _section("Options", [*options, _HELP])
    return _text(lines)


def _summary(app: "App") -> str:
    if app.default_command is None:
        return app.help if isinstance(app.help, str) else ""
    return _description(app.default_command)[0]


def _description(command: object) -> list[str]:
    """Paragraphs of a docstring before its parameters, each on one line."""
    text = (inspect.getdoc(command) or "").split("\nParameters\n---")[0]
    return [" ".join(part.split()) for part in re.split(r"\n\s*\n", text.strip())]


def _label(argument: Any) -> str:
    label = ", ".join(name for name in argument.names if name not in argument.negatives)
    if argument.negatives:
        label = label.replace("--", "--[no-]", 1)
    metavar = _metavar(argument)
    return f"{label} {metavar}" if metavar else label


def _metavar(argument: Any) -> str:
    """The placeholder of an option's value."""
    if choices := argument.get_choices():
        return "|".join(choices)
    kinds = set(_kinds(argument.hint))
    if bool in kinds:
        return ""
    return "N" if int in kinds else "PATH" if "Path" in {one.__name__ for one in kinds} else "TEXT"


def _kinds(hint: Any) -> Iterable[type]:
    if typing.get_origin(hint) in (typing.Union, types.UnionType, list):
        for part in typing.get_args(hint):
            yield from _kinds(part)
    elif isinstance(hint, type) and hint is not type(None):
        yield hint


def _meaning(argument: Any) -> str:
    """What an argument is, whether it is required, and its default."""
    parts = [" ".join(str(argument.parameter.help or "").split())]
    default = argument.field_info.default
    if not argument.name.startswith("-") and (choices := argument.get_choices()):
        parts.append(f"One of {', '.join(choices)}.")
    if argument.required and argument.name.startswith("-"):
        parts.append("Required.")
    elif isinstance(default, (str, int)) and not isinstance(default, bool):
        parts.append(f"Default: {default}.")
    return " ".join(part for part in parts if part)


def _section(title: str, entries: Sequence[tuple[str, str]]) -> list[str]:
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
        lines += _wrapped(meaning, first, " " * (width + 4))
    return [*lines, ""]


def _wrapped(text: str, first: str = "", hanging: str = "") -> list[str]:
    width = _width()
    return textwrap.wrap(
        text,
        max(width, len(hanging) + 20),
        initial_indent=first,
        subsequent_indent=hanging,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [first.rstrip()]


def _width() -> int:
    columns = shutil.get_terminal_size((80, 24)).columns if sys.stdout.isatty() else _PIPE_WIDTH
    return min(columns, _WIDTH_MAX)


def _text(lines: Iterable[str]) -> str:
    return "\n".join(lines).rstrip()
