"""Reads `readings.toml`: what a publication leaves unsaid, and how its cells are predicted."""

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from nandlab.claims.quantity import HOWS, parse
from nandlab.claims.schema import Claim, load_claims
from nandlab.claims.schema import Reader as ClaimReader
from nandlab.claims.statistics import CERTAINTY
from nandlab.errors import NandlabError
from nandlab.frame.reference import Reference, read_reference
from nandlab.study_files import find_study
from nandlab.suggest import unknown

READINGS = "readings.toml"

_KEYS = {
    "file": "board quick set choice runs cells claims contradiction measurement not_tried",
    "choice": "name unsaid why shipped options",
    "option": "board set words",
    "runs": "id at set choices",
    "cells": "id where column axes metric at pool how left right plus hedge order shuffle unit",
    "claims": "ids select pool metrics replicates values",
    "pool": "over how",
    "contradiction": "about sides",
    "side": "says where published metric at how left right unit claim choice option",
    "measurement": "title metric at seconds setup_s",
}
_REQUIRED = {
    "file": "choice runs cells",
    "choice": "name unsaid why shipped options",
    "runs": "id set",
    "cells": "id column metric",
    "contradiction": "about sides",
    "side": "says where",
    "measurement": "title metric at",
}
_WORD = re.compile(r"\{(\w+)\}")

Plain = Mapping[str, Any]


@dataclass(frozen=True)
class Choice:
    """Something unsaid. Choices of the same name in several studies are one.

    An option has keys of the board (`board`), of the study (`set`), and words of cells (`words`).
    """

    name: str
    unsaid: str
    why: str
    shipped: str
    options: Mapping[str, Mapping[str, Plain]]

    @property
    def names(self) -> list[str]:
        """Names of the options."""
        return list(self.options)

    @property
    def words(self) -> frozenset[str]:
        """Words that the options fill in."""
        return frozenset(word for one in self.options.values() for word in one.get("words", {}))


@dataclass(frozen=True)
class Runs:
    """Runs of the study that predict the cells at `at`; only `choices` change them."""

    identifier: str
    at: Plain
    settings: Plain
    choices: tuple[str, ...]


@dataclass(frozen=True)
class Formula:
    """A quantity: `metric`, pooled by `how` over all places of the runs that `at` leaves.

    With a left and a right side it is the ratio of both, or, in seconds, their difference.
    """

    metric: str
    sides: tuple[Plain, ...]
    how: str = "mean"
    is_difference: bool = False

    @property
    def words(self) -> frozenset[str]:
        """Words in braces, which the options of choices fill in."""
        return words_of(
            [self.metric, self.how, *(text for one in self.sides for text in one.values())]
        )


@dataclass(frozen=True)
class Cell:
    """A published number, how it is known, and the formula that predicts it."""

    study: str
    group: str
    name: str
    published: float
    certainty: str
    formula: Formula
    relation: str = ""
    """`at_least` or `at_most`, of a number that may be a bound."""
    hedge: str = ""
    """The word that says whether it is one."""
    order: tuple[str, str] | None = None
    """The order that the cell is part of, and its place there."""
    stratum: str = ""
    """Cells of the same stratum exchange their numbers in a shuffled reference."""

    @property
    def weight(self) -> float:
        """Weight in a score: the inverse of what its certainty allows."""
        return 1 / CERTAINTY[self.certainty]


@dataclass(frozen=True)
class ClaimRule:
    """What a joint reading changes in the claims of its study.

    A rule with `pooled` holds for claims that pool these axes, and pools them by `how`. Values and
    metrics of claims are replaced; words in braces are those of the reading's options. Where
    `replicates` names axes, these are the replicates, and those of the claim are pooled.
    """

    identifiers: tuple[str, ...] = ()
    """Claims that it changes; all if empty."""
    select: Plain = field(default_factory=dict)
    pooled: tuple[str, ...] = ()
    how: str = ""
    metrics: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    replicates: str = ""

    @property
    def words(self) -> frozenset[str]:
        """Words in braces, which the options of choices fill in."""
        replaced = (text for one in self.values.values() for text in one.values())
        own = (self.how, self.replicates)
        return words_of([*own, *self.select.values(), *self.metrics.values(), *replaced])


@dataclass(frozen=True)
class Side:
    """One of the statements of a publication that contradict each other.

    It is a number with the formula that predicts it, a claim, or an option of a choice.
    """

    says: str
    where: str
    published: float | None = None
    formula: Formula | None = None
    claim: Claim | None = None
    option: tuple[str, str] | None = None


@dataclass(frozen=True)
class Contradiction:
    """Statements of a publication that cannot all hold."""

    about: str
    sides: tuple[Side, ...]


@dataclass(frozen=True)
class Measurement:
    """A figure that could be measured on a real board, and the time that the board takes."""

    title: str
    formula: Formula
    seconds: Formula
    setup_s: float


@dataclass(frozen=True)
class Readings:
    """The readings of a study."""

    study: str
    path: Path
    plain: Plain
    choices: tuple[Choice, ...]
    runs: tuple[Runs, ...]
    cells: tuple[Cell, ...]
    measurements: tuple[Measurement, ...]
    reference: Reference
    rules: tuple[ClaimRule, ...] = ()
    contradictions: tuple[Contradiction, ...] = ()

    @cached_property
    def chosen_axes(self) -> frozenset[str]:
        """Axes of the study that options set."""
        keys = (key for one in self.choices for own in one.options.values()
                for key in own.get("set", ()))  # fmt: skip
        return frozenset(key.removeprefix("axes.") for key in keys if key.startswith("axes."))

    def runs_at(self, at: Plain) -> list[Runs]:
        """The runs that hold places of `at`."""
        cache: dict[str, list[Runs]] = self.__dict__.setdefault("_runs_at", {})
        if (key := repr(at)) not in cache:
            cache[key] = [one for one in self.runs if _agrees(one.at, at)]
        return cache[key]


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
        own = tomllib.loads(file.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise NandlabError(f"{path}: {error}") from None
    if "reference" not in own:
        raise NandlabError(f"{file}: readings are compared with a `reference`, and it has none")
    reference = read_reference(file.parent / own["reference"])
    return _Reader(path, str(own["name"]), reference).file(plain, file)


class _Reader:
    """Turns plain data into readings; its messages name the file."""

    def __init__(self, path: Path, study: str, reference: Reference) -> None:
        self.path, self.study, self.reference = path, study, reference

    def file(self, plain: Plain, file: Path) -> Readings:
        self.check("file", plain)
        choices = tuple(self.choice(one) for one in plain["choice"])
        runs = tuple(self.runs(one, [choice.name for choice in choices]) for one in plain["runs"])
        cells = tuple(cell for one in plain["cells"] for cell in self.cells(one))
        measured = tuple(self.measurement(one) for one in plain.get("measurement", ()))
        rules = tuple(self.rule(one, file.parent) for one in plain.get("claims", ()))
        opposed = tuple(self.contradiction(one, choices) for one in plain.get("contradiction", ()))
        found = Readings(
            self.study, file, plain, choices, runs, cells, measured, self.reference, rules, opposed
        )
        known = {word for one in choices for word in one.words}
        for word in {word for one in rules for word in one.words} - known:
            raise self.error(f"{{{word}}}: no option of a choice has this word")
        formulas = [one.formula for one in cells] + [one.formula for one in measured]
        formulas += [side.formula for one in opposed for side in one.sides if side.formula]
        for formula in formulas + [one.seconds for one in measured]:
            for word in formula.words - known:
                raise self.error(f"{{{word}}}: no option of a choice has this word")
            for side in formula.sides:
                if not found.runs_at(side):
                    raise self.error(f"no [[runs]] hold {dict(side)}")
        return found

    def choice(self, plain: Plain) -> Choice:
        self.check("choice", plain)
        for one in plain["options"].values():
            self.check("option", one)
        self.known("shipped option", [plain["shipped"]], plain["options"])
        if len({frozenset(one.get("words", ())) for one in plain["options"].values()}) > 1:
            raise self.error(f"choice {plain['name']!r}: every option needs the same words")
        return Choice(**plain)

    def runs(self, plain: Plain, choices: Sequence[str]) -> Runs:
        self.check("runs", plain)
        own = plain.get("choices", ())
        self.known("choice", own, choices)
        taken = tuple(name for name in choices if name in own)
        return Runs(plain["id"], plain.get("at", {}), plain["set"], taken)

    def cells(self, plain: Plain) -> list[Cell]:
        self.check("cells", plain)
        where, axes = plain.get("where", {}), plain.get("axes", ())
        self.known("column", [plain["column"], *axes, *where], self.reference.columns)
        found = []
        for row in self.reference.rows:
            is_meant = all(row[k] in (v if isinstance(v, list) else [v]) for k, v in where.items())
            if is_meant and row[plain["column"]] is not None:
                found.append(self.cell(plain, row, axes))
        if not found:
            raise self.error(f"cells {plain['id']!r}: no row of the reference is chosen")
        return found

    def cell(self, plain: Plain, row: Plain, axes: Sequence[str]) -> Cell:
        # An axis named in `pool` of which the row gives a word, not a value, is pooled.
        pooled = [axis for axis in plain.get("pool", ()) if isinstance(row[axis], str)]
        at = {axis: row[axis] for axis in axes if axis not in pooled} | plain.get("at", {})
        name = ", ".join(_shown(row[axis]) for axis in axes) or plain["id"]
        order, along = None, plain.get("order")
        if along and (pooled or not plain.get("pool")):
            others = [_shown(row[axis]) for axis in axes if axis not in (along, *pooled)]
            order = ", ".join(others) or plain["id"], _shown(row[along])
        published = float(row[plain["column"]]) + plain.get("plus", 0)
        if published <= 0:
            raise self.error(f"cells {plain['id']!r}: {name}: add `plus` to make it positive")
        stratum = [plain.get("unit", ""), *(_shown(row[one]) for one in plain.get("shuffle", ()))]
        return Cell(
            study=self.study,
            group=plain["id"],
            name=name,
            published=published,
            certainty=str(row.get("certainty") or "printed").replace("_", " "),
            formula=self.formula({**plain, "at": at}),
            relation=str(row.get("relation") or ""),
            hedge=plain.get("hedge", ""),
            order=order,
            stratum=" ".join(stratum),
        )

    def rule(self, plain: Plain, folder: Path) -> ClaimRule:
        self.check("claims", plain)
        pool = plain.get("pool", {})
        self.known("key of pool", pool, _KEYS["pool"].split())
        names = [one.identifier for one in load_claims(folder).claims]
        self.known("claim", plain.get("ids", ()), names)
        return ClaimRule(
            tuple(plain.get("ids", ())), plain.get("select", {}), tuple(pool.get("over", ())),
            pool.get("how", ""), plain.get("metrics", {}), plain.get("values", {}),
            plain.get("replicates", ""),
        )  # fmt: skip

    def contradiction(self, plain: Plain, choices: Sequence[Choice]) -> Contradiction:
        self.check("contradiction", plain)
        sides = tuple(self.side(one, choices) for one in plain["sides"])
        if len(sides) < 2:
            raise self.error(f"contradiction {plain['about']!r}: one side contradicts nothing")
        return Contradiction(plain["about"], sides)

    def side(self, plain: Plain, choices: Sequence[Choice]) -> Side:
        self.check("side", plain)
        says, where = plain["says"], plain["where"]
        kinds = [key for key in ("published", "claim", "choice") if key in plain]
        if len(kinds) != 1:
            raise self.error(f"side {says!r}: give one of published, claim and choice")
        if "claim" in plain:
            reader = ClaimReader(self.path, "")
            claim = {"id": says, "text": says, "where": where, **plain["claim"]}
            return Side(says, where, claim=reader.claim(claim, ()))
        if "choice" in plain:
            self.known("choice", [plain["choice"]], [one.name for one in choices])
            (choice,) = (one for one in choices if one.name == plain["choice"])
            self.known("option", [plain.get("option", "")], choice.names)
            return Side(says, where, option=(choice.name, plain["option"]))
        for key in ("metric", "at"):
            if key not in plain:
                raise self.error(f"side {says!r} lacks `{key}`")
        return Side(says, where, float(plain["published"]), self.formula(plain))

    def measurement(self, plain: Plain) -> Measurement:
        self.check("measurement", plain)
        seconds = Formula(plain.get("seconds", plain["metric"]), (plain["at"],), "sum")
        return Measurement(plain["title"], self.formula(plain), seconds, plain.get("setup_s", 0))

    def formula(self, plain: Plain) -> Formula:
        parse(plain["metric"])
        how = plain.get("how", "mean")
        if not _WORD.search(how):
            self.known("how", [how], HOWS)
        sides = [plain[side] for side in ("left", "right") if side in plain]
        places = tuple({**plain["at"], **side} for side in sides) or (plain["at"],)
        return Formula(plain["metric"], places, how, plain.get("unit") == "s")

    def check(self, kind: str, plain: Plain) -> None:
        self.known(f"key of {kind}", plain, _KEYS[kind].split())
        for key in _REQUIRED.get(kind, "").split():
            if not plain.get(key):
                raise self.error(f"{kind} lacks `{key}`")

    def known(self, what: str, names: Iterable[str], known: Iterable[str]) -> None:
        taken = list(known)
        for name in names:
            if name not in taken:
                raise self.error(unknown(what, name, taken))

    def error(self, text: str) -> NandlabError:
        return NandlabError(f"{self.path}: {text}")


def words_of(texts: Iterable[Any]) -> frozenset[str]:
    """Words in braces."""
    return frozenset(word for text in texts for word in _WORD.findall(str(text)))


def alternatives(value: Any) -> list[Any]:
    """The values that a place allows on an axis: `a|b` stands for either."""
    return value.split("|") if isinstance(value, str) else [value]


def filled(text: Any, words: Mapping[str, str]) -> Any:
    """A text with its words in braces filled in; other values as they are."""
    return _WORD.sub(lambda found: words[found[1]], text) if isinstance(text, str) else text


def _agrees(one: Plain, other: Plain) -> bool:
    """Whether no axis that both name differs; a word in braces can stand for anything."""
    for axis in one.keys() & other.keys():
        own, wanted = alternatives(one[axis]), alternatives(other[axis])
        if not any(_WORD.search(str(value)) or value in own for value in wanted):
            return False
    return True


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
