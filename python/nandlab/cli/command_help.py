"""The help of a command, from its signature and its docstring, read through the option parser."""

import inspect
import re
import types
import typing
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from nandlab.cli.main_help import HELP, help_text, section, wrapped

if TYPE_CHECKING:
    from cyclopts import App


def command_help(app: "App", words: Sequence[str]) -> str:
    """Help of a command, or of a group of commands, by its words."""
    for word in words:
        app = app[word]
    called = " ".join(("nandlab", *words))
    if app.default_command is None:
        commands = [(name, _summary(app[name])) for name in app if not name.startswith("-")]
        return help_text(
            [
                *wrapped(f"Usage: {called} COMMAND [OPTIONS]"),
                "",
                *wrapped(app.help if isinstance(app.help, str) else ""),
                "",
                *section("Commands", commands),
                *wrapped(f"`{called} COMMAND --help` shows the options of a command."),
            ]
        )
    arguments = [one for one in app.assemble_argument_collection(parse_docstring=True) if one.show]
    positional = [one for one in arguments if not one.name.startswith("-")]
    named = [one for one in arguments if one.name.startswith("-")]
    usage = [called, *(f"{one.name} {_metavar(one)}" for one in named if one.required)]
    usage += ["[OPTIONS]"] if named else []
    usage += [one.name if one.required else f"[{one.name}]" for one in positional]
    lines = [*wrapped(f"Usage: {' '.join(usage)}", hanging="       "), ""]
    for paragraph in _description(app.default_command):
        lines += [*wrapped(paragraph), ""]
    lines += section("Arguments", [(one.name, _meaning(one)) for one in positional])
    options = [(_label(one), _meaning(one)) for one in named]
    lines += section("Options", [*options, HELP])
    return help_text(lines)


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
