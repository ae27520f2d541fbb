"""Reads `claims.toml`; docs/studies.md describes every key."""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nandlab.claims.predicates import PREDICATES
from nandlab.claims.quantity import HOWS, Quantity, parse
from nandlab.errors import NandlabError
from nandlab.suggest import did_you_mean, unknown
from nandlab.toml_text import TomlLines

CLAIMS = "claims.toml"

WINDOWS = "windows"
"""The word for `replicates` that are windows of one run."""

_FILE_KEYS = {"main", "defaults", "reading", "claim"}
_QUANTITY_KEYS = {"metric", "select", "relative_to", "pool", "replicates", "unit"}
_CLAIM_KEYS = {"id", "text", "where", "predicate", "published", "tolerance", "tolerance_why"}
_OTHER_KEYS = {"readings", "note", "says"}


@dataclass(frozen=True)
class Reading:
    """A way to set the study and to count, where the publication does not say."""

    name: str
    select: Mapping[str, Any] = field(default_factory=dict)
    parts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Claim:
    """One statement of a publication; `keys` are those of its predicate."""

    identifier: str
    text: str
    where: str
    predicate: str
    quantity: Quantity
    keys: Mapping[str, Any] = field(default_factory=dict)
    published: Mapping[str, Any] | None = None
    tolerance: float = 0.0
    tolerance_why: str = ""
    unit: str = ""
    readings: tuple[str, ...] = ()
    note: str = ""
    says: str = ""
    """The publication's words, where it has no number."""
    children: tuple["Claim", ...] = ()


@dataclass(frozen=True)
class ClaimFile:
    """All claims of a study; the first reading is the one that is counted."""

    main: str
    readings: tuple[Reading, ...]
    claims: tuple[Claim, ...]


def has_claims(folder: Path | None) -> bool:
    """Whether a study's folder holds claims."""
    return folder is not None and (folder / CLAIMS).is_file()


def load_claims(folder: Path) -> ClaimFile:
    """The claims of a study's folder.

    Raises `NandlabError` that names file, line, key, and the nearest key that is known.
    """
    path = folder / CLAIMS
    text = path.read_text(encoding="utf-8")
    try:
        plain = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise NandlabError(f"{path}: {error}") from None
    return Reader(path, text).file(plain)


def merged(outer: Mapping[str, Any], inner: Mapping[str, Any]) -> dict[str, Any]:
    """Keys of `inner` over those of `outer`; selections are joined."""
    joined = {**outer, **inner}
    if "select" in outer and "select" in inner:
        joined["select"] = {**outer["select"], **inner["select"]}
    return joined


class Reader(TomlLines):
    """Turns plain data into claims; knows the lines for its messages."""

    def file(self, plain: Mapping[str, Any]) -> ClaimFile:
        """The whole file."""
        self.check_keys(plain, _FILE_KEYS, "")
        defaults = plain.get("defaults", {})
        self.check_keys(defaults, _QUANTITY_KEYS | {"tolerance", "tolerance_why"}, "")
        readings = tuple(self.reading(one) for one in plain.get("reading", ())) or (
            Reading("as run"),
        )
        names = [one.name for one in readings]
        claims = [self.claim(merged(defaults, one), names) for one in plain.get("claim", ())]
        found = [one.identifier for one in claims]
        for name in found:
            if found.count(name) > 1:
                raise self.error(f"two claims have the id {name!r}; give each its own", name)
        if not claims:
            raise self.error("holds no [[claim]]; add one", "")
        main = plain.get("main", found[0])
        if main not in found:
            raise self.error(
                f"main = {main!r}: {did_you_mean(main, found)}no claim has this id", ""
            )
        return ClaimFile(main, readings, tuple(claims))

    def reading(self, plain: Mapping[str, Any]) -> Reading:
        """One `[[reading]]`."""
        self.check_keys(plain, {"name", "select", "parts"}, "")
        self.require(plain, ("name",), "a reading")
        return Reading(plain["name"], plain.get("select", {}), plain.get("parts", {}))

    def claim(
        self, plain: Mapping[str, Any], readings: Sequence[str], parent: str | None = None
    ) -> Claim:
        """One `[[claim]]`, or a claim inside the claim `parent`."""
        name = str(plain.get("id", parent or ""))
        self.require(plain, ("predicate",), f"claim {name!r}")
        predicate = PREDICATES.get(plain["predicate"])
        if predicate is None:
            raise self.error(unknown("predicate", str(plain["predicate"]), PREDICATES), name)
        own = {*predicate.required, *predicate.optional}
        self.check_keys(plain, _QUANTITY_KEYS | _CLAIM_KEYS | _OTHER_KEYS | own, name)
        if not parent:
            self.require(plain, ("id", "text", "where"), f"claim {name!r}")
        self.require(plain, predicate.required, f"claim {name!r}, predicate {predicate.name},")
        if plain.get("tolerance") and not plain.get("tolerance_why"):
            raise self.error("tolerance without tolerance_why; say why it is as wide", name)
        for one in plain.get("readings", ()):
            if one not in readings:
                raise self.error(unknown("reading", one, readings), name)
        inherited = {
            key: plain[key]
            for key in (*_QUANTITY_KEYS, "tolerance", "tolerance_why")
            if key in plain
        }
        children = tuple(
            self.claim(merged(inherited, one), readings, name) for one in plain.get("of", ())
        )
        return Claim(
            identifier=name,
            text=str(plain.get("text", "")),
            where=str(plain.get("where", "")),
            predicate=predicate.name,
            quantity=self.quantity(plain, name, needs_metric=predicate.needs_metric),
            keys={key: plain[key] for key in own if key in plain},
            published=plain.get("published"),
            tolerance=float(plain.get("tolerance", 0.0)),
            tolerance_why=str(plain.get("tolerance_why", "")),
            unit=str(plain.get("unit", "")),
            readings=tuple(plain.get("readings", ())),
            note=str(plain.get("note", "")),
            says=str(plain.get("says", "")),
            children=children,
        )

    def quantity(self, plain: Mapping[str, Any], name: str, *, needs_metric: bool) -> Quantity:
        """The quantity of a claim, a table or a figure."""
        if needs_metric:
            self.require(plain, ("metric",), f"claim {name!r}")
        metric = str(plain.get("metric", "0"))
        try:
            parse(metric)
        except NandlabError as error:
            raise self.error(str(error), name) from None
        pool = plain.get("pool", {})
        self.check_keys(pool, {"over", "how"}, name)
        how = pool.get("how", "mean")
        if how not in HOWS:
            raise self.error(unknown("pool.how", how, HOWS), name)
        replicates = plain.get("replicates", [])
        windows = replicates == WINDOWS
        if not windows and not isinstance(replicates, list):
            raise self.error(f'replicates is "{WINDOWS}" or a list of axes', name)
        return Quantity(
            metric=metric,
            select=plain.get("select", {}),
            relative_to=plain.get("relative_to"),
            pooled=tuple(pool.get("over", ())),
            how=how,
            replicates=() if windows else tuple(replicates),
            windows=windows,
        )

    def check_keys(self, plain: Mapping[str, Any], known: Iterable[str], name: str) -> None:
        """Refuses keys that are not known."""
        names = set(known)
        for key in plain:
            if key not in names:
                raise self.error(unknown("key", key, names), name, key)

    def require(self, plain: Mapping[str, Any], keys: Iterable[str], what: str) -> None:
        """Refuses a table that lacks one of `keys`."""
        for key in keys:
            if key not in plain:
                raise self.error(f"{what} lacks the key {key!r}; add it", str(plain.get("id", "")))

    def error(self, message: str, identifier: str = "", key: str = "") -> NandlabError:
        """A message with the line of the key behind the line of the claim's id."""
        starts = (line.lstrip("[ \t") for line in self.lines)
        of_claim = (
            number
            for number, line in enumerate(starts)
            if identifier and f'"{identifier}"' in line and line.startswith("id")
        )
        at = next(of_claim, None)
        if key and (at is not None or not identifier):
            of_key = self.line_of(key, at or 0)
            at = at if of_key is None else of_key
        return self.at(at, message)
