"""Reads `readings.toml`: what a publication leaves unsaid, and how its cells are predicted."""

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nandlab.claims.quantity import HOWS, parse
from nandlab.claims.statistics import CERTAINTY
from nandlab.errors import NandlabError
from nandlab.frame.reference import Reference, read_reference
from nandlab.study_files import find_study
from nandlab.suggest import unknown

READINGS = "readings.toml"

_FILE = {"board", "quick", "set", "choice", "runs", "cells", "measurement", "not_tried"}
_CHOICE = {"name", "unsaid", "why", "shipped", "options"}
_OPTION = {"board", "set", "words"}
_RUNS = {"id", "at", "set", "choices"}
_CELLS = {"id", "where", "column", "axes", "metric", "at", "pool", "how", "left", "right", "plus"}
_CELLS |= {"hedge", "order", "shuffle", "unit"}
_MEASUREMENT = {"title", "metric", "at", "seconds", "setup_s"}

_WORD = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class Option:
    """One choice for what is unsaid: keys of the board, keys of the study, and words of cells."""

    name: str
    board: Mapping[str, Any]
    settings: Mapping[str, Any]
    words: Mapping[str, str]


@dataclass(frozen=True)
class Choice:
    """Something unsaid. Choices of the same name in several studies are one."""

    name: str
    unsaid: str
    why: str
    shipped: str
    options: tuple[Option, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the options."""
        return tuple(one.name for one in self.options)

    @property
    def words(self) -> frozenset[str]:
        """Words that the options fill in."""
        return frozenset(word for one in self.options for word in one.words)


@dataclass(frozen=True)
class Runs:
    """Runs of the study that predict the cells at `at`; only `choices` change them."""

    identifier: str
    at: Mapping[str, Any]
    settings: Mapping[str, Any]
    choices: tuple[str, ...]


@dataclass(frozen=True)
class Formula:
    """A quantity: `metric`, pooled by `how` over all places of the runs that `at` leaves.

    Words in braces come from the options of choices. With `left` and `right` it is the ratio of
    two such quantities, and with `is_difference` their difference.
    """

    metric: str
    at: Mapping[str, Any]
    how: str = "mean"
    left: Mapping[str, Any] | None = None
    right: Mapping[str, Any] | None = None
    is_difference: bool = False

    @property
    def words(self) -> frozenset[str]:
        """Words in braces."""
        return frozenset(_words(self.metric, self.how, self.at, self.left, self.right))


@dataclass(frozen=True)
class Cell:
    """A published number, how it is known, and the formula that predicts it.

    Numbers are ratios or times: `published` holds what `plus` of the file made positive.
    """

    study: str
    group: str
    name: str
    published: float
    certainty: str
    formula: Formula
    relation: str = ""
    hedge: str = ""
    order: tuple[str, str] | None = None
    """The order that the cell is part of, and its place there."""
    stratum: str = ""
    """Cells of the same stratum are shuffled among each other."""
    unit: str = ""

    @property
    def weight(self) -> float:
        """Weight in a score: the inverse of what its certainty allows."""
        return 1 / CERTAINTY[self.certainty]


@dataclass(frozen=True)
class Measurement:
    """Something that could be measured on a real board: `formula` is the measured figure.

    `seconds` is the time that the board takes for it, beside `setup_s` for preparing it.
    """

    title: str
    formula: Formula
    seconds: Formula
    setup_s: float


@dataclass(frozen=True)
class Readings:
    """The readings of a study."""

    study: str
    path: Path
    board: str | None
    quick: bool
    settings: Mapping[str, Any]
    choices: tuple[Choice, ...]
    runs: tuple[Runs, ...]
    cells: tuple[Cell, ...]
    measurements: tuple[Measurement, ...]
    not_tried: tuple[str, ...]

    def runs_at(self, at: Mapping[str, Any]) -> tuple[Runs, ...]:
        """The runs that hold places of `at`."""
        return tuple(one for one in self.runs if _agrees(one.at, at))


def load_readings(study: str) -> Readings:
    """The readings of a study given by its name, folder or file.

    Raises `NandlabError` with the file and the key if it has none, or if they hold an error.
    """
    file = Path(find_study(study))
    path = file.parent / READINGS
    if not path.is_file():
        raise NandlabError(f"{study}: it has no {READINGS}; see docs/readings.md")
    try:
        plain = tomllib.loads(path.read_text(encoding="utf-8"))
        name = tomllib.loads(file.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise NandlabError(f"{path}: {error}") from None
    if "reference" not in name:
        raise NandlabError(f"{file}: readings are compared with a `reference`, and it has none")
    reader = _Reader(path, str(name["name"]))
    return reader.file(plain, file, read_reference(file.parent / name["reference"]))


class _Reader:
    """Turns plain data into readings; its messages name the file."""

    def __init__(self, path: Path, study: str) -> None:
        self.path, self.study = path, study

    def file(self, plain: Mapping[str, Any], file: Path, reference: Reference) -> Readings:
        self.check("the file", plain, _FILE)
        choices = tuple(self.choice(one) for one in plain.get("choice", ()))
        names = [one.name for one in choices]
        runs = tuple(self.runs(one, names) for one in plain.get("runs", ()))
        cells = [cell for one in plain.get("cells", ()) for cell in self.cells(one, reference)]
        found = tuple(self.measurement(one) for one in plain.get("measurement", ()))
        if not (choices and runs and cells):
            raise self.error("it needs at least one [[choice]], [[runs]] and [[cells]]")
        known = frozenset(word for one in choices for word in one.words)
        formulas = [one.formula for one in cells]
        formulas += [formula for one in found for formula in (one.formula, one.seconds)]
        for word in {word for one in formulas for word in one.words} - known:
            raise self.error(f"{{{word}}}: no option of a choice has this word")
        readings = Readings(
            self.study, file, plain.get("board"), bool(plain.get("quick", False)),
            plain.get("set", {}), choices, runs, tuple(cells), found,
            tuple(plain.get("not_tried", ())),
        )  # fmt: skip
        for cell in cells:
            for side in sides(cell.formula):
                if not readings.runs_at(side):
                    raise self.error(f"cells {cell.group!r}: no [[runs]] hold {dict(side)}")
        return readings

    def choice(self, plain: Mapping[str, Any]) -> Choice:
        self.check("choice", plain, _CHOICE, required=_CHOICE)
        options = []
        for name, one in plain["options"].items():
            self.check(f"option {name!r}", one, _OPTION)
            words = {key: str(word) for key, word in one.get("words", {}).items()}
            options.append(Option(name, one.get("board", {}), one.get("set", {}), words))
        if plain["shipped"] not in plain["options"]:
            raise self.error(unknown("shipped option", plain["shipped"], plain["options"]))
        if len({frozenset(one.words) for one in options}) > 1:
            raise self.error(f"choice {plain['name']!r}: every option needs the same words")
        name, unsaid, why, shipped = (plain[key] for key in ("name", "unsaid", "why", "shipped"))
        return Choice(name, unsaid, why, shipped, tuple(options))

    def runs(self, plain: Mapping[str, Any], choices: Sequence[str]) -> Runs:
        self.check("runs", plain, _RUNS, required={"id", "set"})
        for name in plain.get("choices", ()):
            if name not in choices:
                raise self.error(unknown("choice", name, choices))
        taken = tuple(name for name in choices if name in plain.get("choices", ()))
        return Runs(plain["id"], plain.get("at", {}), plain["set"], taken)

    def cells(self, plain: Mapping[str, Any], reference: Reference) -> list[Cell]:
        self.check("cells", plain, _CELLS, required={"id", "column", "metric"})
        parse(plain["metric"])
        column, axes = plain["column"], plain.get("axes", ())
        for name in (column, *axes, *plain.get("where", ())):
            if name not in reference.columns:
                raise self.error(unknown("column", name, reference.columns))
        found = []
        for row in reference.rows:
            where = plain.get("where", {})
            if any(not _is_one_of(row[key], value) for key, value in where.items()):
                continue
            if row[column] is None:
                continue
            # An axis named in `pool` of which the row gives a word, not a value, is pooled.
            pooled = [axis for axis in plain.get("pool", ()) if isinstance(row.get(axis), str)]
            at = {axis: row[axis] for axis in axes if axis not in pooled} | plain.get("at", {})
            formula = self.formula({**plain, "at": at})
            name = ", ".join(_shown(row[axis]) for axis in axes) or plain["id"]
            order = None
            if (along := plain.get("order")) and (pooled or not plain.get("pool")):
                others = [_shown(row[axis]) for axis in axes if axis not in (along, *pooled)]
                order = ", ".join(others) or plain["id"], _shown(row[along])
            published = float(str(row[column])) + float(plain.get("plus", 0))
            if published <= 0:
                told = f"cells {plain['id']!r}: {name}: add `plus` to make it positive"
                raise self.error(told)
            certainty = str(row.get("certainty") or "printed").replace("_", " ")
            shuffled = [_shown(row[axis]) for axis in plain.get("shuffle", ())]
            cell = Cell(
                self.study, plain["id"], name, published, certainty, formula,
                relation=str(row.get("relation") or ""), hedge=plain.get("hedge", ""), order=order,
                stratum=" ".join([plain.get("unit", ""), *shuffled]), unit=plain.get("unit", ""),
            )  # fmt: skip
            found.append(cell)
        if not found:
            raise self.error(f"cells {plain['id']!r}: no row of the reference is chosen")
        return found

    def measurement(self, plain: Mapping[str, Any]) -> Measurement:
        self.check("measurement", plain, _MEASUREMENT, required={"title", "metric", "at"})
        seconds = plain.get("seconds", plain["metric"])
        cost = Formula(seconds, plain["at"], "sum")
        return Measurement(plain["title"], self.formula(plain), cost, plain.get("setup_s", 0))

    def formula(self, plain: Mapping[str, Any]) -> Formula:
        how = plain.get("how", "mean")
        if how not in HOWS and not _WORD.search(how):
            raise self.error(unknown("how", how, HOWS))
        left, right = plain.get("left"), plain.get("right")
        is_difference = plain.get("unit") == "s" and left is not None
        return Formula(plain["metric"], plain["at"], how, left, right, is_difference)

    def check(
        self, what: str, plain: Mapping[str, Any], known: Iterable[str],
        *, required: Iterable[str] = (),
    ) -> None:  # fmt: skip
        for key in plain:
            if key not in known:
                raise self.error(f"{what}: {unknown('key', key, sorted(known))}")
        for key in sorted(required):
            if key not in plain:
                raise self.error(f"{what} lacks `{key}`")

    def error(self, text: str) -> NandlabError:
        return NandlabError(f"{self.path}: {text}")


def sides(formula: Formula) -> tuple[Mapping[str, Any], ...]:
    """The places of a formula: one, or those of its left and its right side."""
    if formula.left is None or formula.right is None:
        return (formula.at,)
    return ({**formula.at, **formula.left}, {**formula.at, **formula.right})


def alternatives(value: Any) -> list[Any]:
    """The values that a place allows on an axis: `a|b` stands for either."""
    return value.split("|") if isinstance(value, str) else [value]


def _agrees(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether no axis that both name differs; a word in braces can stand for anything."""
    for axis in one.keys() & other.keys():
        left, right = alternatives(one[axis]), alternatives(other[axis])
        is_open = any(isinstance(value, str) and _WORD.search(value) for value in right)
        if not is_open and not {str(value) for value in left} & {str(value) for value in right}:
            return False
    return True


def _words(*texts: Any) -> Iterable[str]:
    for text in texts:
        if isinstance(text, Mapping):
            yield from _words(*text.values())
        elif isinstance(text, str):
            yield from _WORD.findall(text)


def filled(text: Any, words: Mapping[str, str]) -> Any:
    """A text with its words in braces filled in; other values as they are."""
    return _WORD.sub(lambda found: words[found[1]], text) if isinstance(text, str) else text


def _is_one_of(cell: Any, wanted: Any) -> bool:
    return cell in (wanted if isinstance(wanted, list) else [wanted])


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
