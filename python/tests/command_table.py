"""The commands of the CLI and their options, as the CLI itself tells them."""

import types
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from nandlab.cli import application


@dataclass(frozen=True)
class Option:
    """An option; `kinds` are the types that its value may have."""

    name: str
    kinds: tuple[type, ...]

    @property
    def takes_number(self) -> bool:
        """True of whole numbers, and of words that may be sizes or names."""
        return int in self.kinds or str in self.kinds


def commands() -> dict[tuple[str, ...], tuple[Option, ...]]:
    """Every command by its words, with its options."""
    return dict(_walk(application(), ()))


def _walk(app: Any, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], tuple[Option, ...]]]:
    for name in app:
        if name.startswith("-"):
            continue
        command = app[name]
        if command.default_command is None:
            yield from _walk(command, (*words, name))
        else:
            yield (*words, name), tuple(_options(command))


def _options(command: Any) -> Iterator[Option]:
    for argument in command.assemble_argument_collection():
        if argument.name.startswith("--"):
            yield Option(argument.name, tuple(_kinds(argument.hint)))


def _kinds(hint: Any) -> Iterator[type]:
    """The types of a hint: of `int | None` the one that is a type of values."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType, list):
        for part in typing.get_args(hint):
            yield from _kinds(part)
    elif isinstance(hint, type) and hint is not type(None):
        yield hint
