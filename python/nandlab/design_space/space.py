"""Reads SPACE.toml: a base study, and the axes that are searched."""

import itertools
import json
import random
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nandlab.errors import NandlabError
from nandlab.study_files import find_study
from nandlab.suggest import did_you_mean, unknown
from nandlab.toml_text import TomlLines, read_toml

_TOP_KEYS = ("base", "study", "card", "space", "title")
_RANGE_KEYS = ("low", "high", "step", "log", "when")
_CHOICE_KEYS = ("choices", "when")

COUNTED_MAX = 1_000_000
"""A larger space is not counted."""

CARD = "card."
"""What keys of the card begin with."""

Choices = Mapping[str, Any]
"""A value for each axis that takes part in a point, by its key."""


@dataclass(frozen=True)
class Axis:
    """A key of the study with the values it may take; `when` says beside which other values."""

    key: str
    values: tuple[Any, ...]
    line: int
    is_range: bool = False
    is_log: bool = False
    when: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The key as tables show it."""
        return self.key.removeprefix("axes.").removeprefix("card.flash.")

    @property
    def is_ordered(self) -> bool:
        """Numbers in their order: what is near tells of what is next to it."""
        numbers = [one for one in self.values if is_number(one)]
        return len(numbers) == len(self.values) and numbers == sorted(numbers)

    def takes_part(self, choices: Choices) -> bool:
        """Whether the axis means something beside these choices."""
        return all(key in choices and choices[key] in ones for key, ones in self.when.items())

    def near(self, value: Any) -> list[Any]:
        """Values to try next: those nearest in an order, or all others."""
        if not self.is_ordered:
            return [one for one in self.values if one != value]
        place = self.values.index(value)
        steps = (place - 1, place + 1, place - 2, place + 2)
        return [self.values[one] for one in steps if 0 <= one < len(self.values)]


@dataclass(frozen=True)
class Space:
    """What is searched: `study` is the base as a table, `folder` what its files are named from."""

    path: Path
    title: str
    base: str
    study: Mapping[str, Any]
    folder: Path
    axes: tuple[Axis, ...]
    card: Mapping[str, Any] = field(default_factory=dict)
    """A block device whose keys axes may vary; empty if there is none."""

    def completed(self, choices: Choices, generator: random.Random) -> Choices:
        """Choices of the axes that take part; those that miss are drawn."""
        found: dict[str, Any] = {}
        for axis in self.axes:
            if axis.takes_part(found):
                kept = choices.get(axis.key)
                found[axis.key] = kept if axis.key in choices else generator.choice(axis.values)
        return found

    def points(self) -> Iterator[Choices]:
        """Every point once, in the order of the file."""
        yield from self._points({}, self.axes)

    def _points(self, found: Choices, axes: Sequence[Axis]) -> Iterator[Choices]:
        if not axes:
            yield found
            return
        first, rest = axes[0], axes[1:]
        if not first.takes_part(found):
            yield from self._points(found, rest)
            return
        for value in first.values:
            yield from self._points({**found, first.key: value}, rest)

    def count(self) -> int | None:
        """The number of points; None if there are more than `COUNTED_MAX`."""
        if not any(axis.when for axis in self.axes):
            number = 1
            for axis in self.axes:
                number *= len(axis.values)
            return number if number <= COUNTED_MAX else None
        counted = sum(1 for _ in itertools.islice(self.points(), COUNTED_MAX + 1))
        return counted if counted <= COUNTED_MAX else None

    def error(self, axis: Axis, message: str) -> NandlabError:
        """A message with file and line of an axis."""
        return NandlabError(f"{self.path}:{axis.line}: {axis.key}: {message}")

    def label(self, choices: Choices) -> str:
        """The choices in words."""
        names = {axis.key: axis.name for axis in self.axes}
        return " ".join(f"{names[key]}={shown(value)}" for key, value in choices.items())


def is_number(value: object) -> bool:
    """Whole numbers and decimals; switches are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def shown(value: Any) -> str:
    """A value as tables show it."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def read_space(path: Path) -> Space:
    """Reads and checks a file; its messages name file, line and key."""
    text, plain = read_toml(path, "a file of a space", "docs/search.md shows a whole file")
    reader = _Reader(path, text)
    for key in plain:
        if key not in _TOP_KEYS:
            raise reader.error(key, unknown("key", key, _TOP_KEYS))
    if ("base" in plain) == ("study" in plain):
        raise NandlabError(
            f"{path}: give either base = the name or path of a study, or a table [study]"
        )
    base, study, folder = reader.base(plain)
    axes = reader.axes(plain.get("space"))
    card = reader.card(plain.get("card", {}), axes)
    return Space(path, str(plain.get("title", "")), base, study, folder, axes, card)


class _Reader(TomlLines):
    """Turns plain data into axes; knows the lines for its messages."""

    def line(self, key: str) -> int:
        """The line of a key, counted from 1; that of [space] if it stands in an inline table."""
        found = self.line_of(key)
        return (self.line_of("space") or 0) + 1 if found is None else found + 1

    def error(self, key: str, message: str) -> NandlabError:
        return self.at(self.line(key) - 1, f"{key}: {message}")

    def base(self, plain: Mapping[str, Any]) -> tuple[str, Mapping[str, Any], Path]:
        """Name, table and folder of the base study."""
        if "study" in plain:
            study = plain["study"]
            if not isinstance(study, dict):
                raise self.error("study", "must be a table: write [study]")
            return str(study.get("name", self.path.stem)), study, self.path.parent
        name = plain["base"]
        if not isinstance(name, str) or not name:
            raise self.error("base", "must be the name or the path of a study")
        beside = self.path.parent / name
        try:
            found = Path(find_study(str(beside) if beside.exists() else name))
            study = tomllib.loads(found.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise self.error("base", str(error)) from None
        except NandlabError as error:
            raise self.error("base", str(error)) from None
        return name, study, found.parent

    def card(self, plain: object, axes: Sequence[Axis]) -> Mapping[str, Any]:
        """The device file that axes of `card.` vary."""
        if not isinstance(plain, dict):
            raise self.error("card", "must be a table: write [card]")
        for axis in axes:
            if axis.key.startswith(CARD) and not plain:
                raise self.error(axis.key, "there is no [card] that the axis could vary")
        return plain

    def axes(self, plain: object) -> tuple[Axis, ...]:
        """The axes of [space], each after those that its condition names."""
        if not isinstance(plain, dict) or not plain:
            raise NandlabError(
                f"{self.path}: [space] is missing; give at least one axis, such as "
                '"axes.ftl" = ["page", "fast"]'
            )
        found: dict[str, Axis] = {}
        for key, given in _flat(plain, ""):
            found[key] = self.axis(key, given)
        for axis in found.values():
            self.check_when(axis, found)
        return self.ordered(found)

    def axis(self, key: str, given: object) -> Axis:
        """A list of choices, a table with choices, or a range."""
        table = given if isinstance(given, dict) else {"choices": given}
        known = _CHOICE_KEYS if "choices" in table else _RANGE_KEYS
        for one in table:
            if one not in known:
                raise self.error(key, unknown("key", str(one), (*_CHOICE_KEYS, *_RANGE_KEYS[:-1])))
        when = self.when(key, table.get("when", {}))
        if "choices" in table:
            values = table["choices"]
            if not isinstance(values, list) or not values:
                raise self.error(key, "must be a list of choices, or a range {low = 1, high = 8}")
            for number, one in enumerate(values):
                if one in values[:number]:
                    raise self.error(key, f"the choice {shown(one)} is there twice")
            return Axis(key, tuple(values), self.line(key), when=when)
        values, is_log = self.range(key, table)
        return Axis(key, values, self.line(key), is_range=True, is_log=is_log, when=when)

    def range(self, key: str, table: Mapping[str, Any]) -> tuple[tuple[int, ...], bool]:
        """Whole numbers from `low` to `high`: every `step`, or doubling if `log` is true."""
        is_log = table.get("log", False)
        if not isinstance(is_log, bool):
            raise self.error(key, "log must be true or false")
        for one in ("low", "high", "step"):
            value = table.get(one, 1 if one == "step" else None)
            if isinstance(value, bool) or not isinstance(value, int):
                raise self.error(key, f"{one} must be a whole number")
        low, high, step = table["low"], table["high"], table.get("step", 1)
        if low > high:
            raise self.error(key, f"low {low} is above high {high}")
        if is_log:
            if "step" in table:
                raise self.error(key, "step does not go with log, which doubles; take one out")
            if low < 1:
                raise self.error(key, "low must be at least 1 where log is true")
            values = []
            while low <= high:
                values.append(low)
                low *= 2
            return tuple(values), True
        if step < 1:
            raise self.error(key, "step must be at least 1")
        count = (high - low) // step + 1
        if count > COUNTED_MAX:
            raise self.error(key, f"the range has {count:,} values; give a larger step")
        return tuple(range(low, high + 1, step)), False

    def when(self, key: str, given: object) -> Mapping[str, tuple[Any, ...]]:
        """The values of other axes beside which an axis takes part."""
        if not isinstance(given, dict):
            raise self.error(key, 'when must be a table, such as when = {"axes.ftl" = ["page"]}')
        flat = _flat(given, "")
        return {one: tuple(ones) if isinstance(ones, list) else (ones,) for one, ones in flat}

    def check_when(self, axis: Axis, found: Mapping[str, Axis]) -> None:
        for key, ones in axis.when.items():
            if key not in found:
                hint = did_you_mean(key, found)
                raise self.error(axis.key, f"when: {hint}there is no axis {key!r} in [space]")
            for one in ones:
                if one not in found[key].values:
                    hint = did_you_mean(shown(one), map(shown, found[key].values))
                    told = f"when: {hint}{key} has no choice {shown(one)}"
                    raise self.error(axis.key, told)

    def ordered(self, found: Mapping[str, Axis]) -> tuple[Axis, ...]:
        order: dict[str, Axis] = {}
        left = dict(found)
        while left:
            ready = [key for key, axis in left.items() if all(one in order for one in axis.when)]
            if not ready:
                circle = ", ".join(left)
                raise self.error(next(iter(left)), f"when: the conditions form a circle: {circle}")
            for key in ready:
                order[key] = left.pop(key)
        return tuple(order.values())


def _flat(plain: Mapping[str, Any], head: str) -> list[tuple[str, Any]]:
    """Keys with dots between levels; a table of choices, of a range, or a value is a leaf."""
    found: list[tuple[str, Any]] = []
    for key, value in plain.items():
        is_leaf = not isinstance(value, dict) or {"choices", "low", "high"} & set(value)
        found += [(f"{head}{key}", value)] if is_leaf else _flat(value, f"{head}{key}.")
    return found
