"""Evaluates the claims of a study on a run."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from nandlab.claims.predicates import PREDICATES, Asked, Finding
from nandlab.claims.quantity import MissingError, Quantity, Sample, sample
from nandlab.claims.schema import Claim, ClaimFile, Reading
from nandlab.claims.statistics import CERTAINTY, LEAST_REPLICATES, Interval, Status
from nandlab.errors import NandlabError
from nandlab.frame import RunFrame

if TYPE_CHECKING:
    import polars

COLUMNS = (
    "id",
    "reading",
    "text",
    "place",
    "estimate",
    "low",
    "high",
    "n",
    "unit",
    "published",
    "status",
    "reason",
)
"""Columns of the frame of claims, in order."""

_NUMBERS = ("estimate", "low", "high")

Measured = Callable[[Quantity], Sample]


def evaluate(run: RunFrame, claims: ClaimFile) -> "polars.DataFrame":
    """A row for each claim under each of its readings, with the columns `COLUMNS`.

    A quick form is never judged: its rows hold estimates only. Raises `NandlabError` where a claim
    names an axis or a published cell that does not exist.
    """
    import polars

    rows = [
        _row(run, claim, reading)
        for claim in claims.claims
        for reading in claims.readings
        if not claim.readings or reading.name in claim.readings
    ]
    types = {
        name: polars.Float64 if name in _NUMBERS else polars.Int64 if name == "n" else polars.String
        for name in COLUMNS
    }
    return polars.DataFrame(rows, schema=types)


def counted(frame: "polars.DataFrame") -> "polars.DataFrame":
    """The row that counts of each claim: that of its first reading."""
    return frame.unique("id", keep="first", maintain_order=True)


def counts(frame: "polars.DataFrame") -> dict[Status, int]:
    """Claims by status, each under its first reading."""
    found = counted(frame)["status"].to_list()
    return {status: found.count(status) for status in Status if status in found}


def finding_of(
    run: RunFrame, claim: Claim, reading: Reading, measured: Measured | None = None
) -> Finding:
    """What a run says to a claim; not run if a cell that it needs is missing.

    `measured` replaces the rows of the run: it measures a quantity under the reading.
    """
    try:
        return _finding(run, claim, reading, measured)
    except MissingError as error:
        return Finding(None, reason=str(error))
    except NandlabError as error:
        raise NandlabError(f"claim {claim.identifier!r}: {error}") from None


def few_replicates(interval: Interval | None) -> str:
    """Why an interval decides nothing; empty if it rests on enough replicates."""
    if interval is None or interval.n >= LEAST_REPLICATES:
        return ""
    few = f"{interval.n} independent replicate{'s' if interval.n != 1 else ''}"
    return f"{few}; at least {LEAST_REPLICATES} are needed"


def _row(run: RunFrame, claim: Claim, reading: Reading) -> dict[str, Any]:
    finding = finding_of(run, claim, reading)
    interval = finding.interval
    status, reason = finding.status, finding.reason
    if run.is_quick and status not in (Status.BY_CONSTRUCTION, Status.NOT_RUN):
        status, reason = Status.NOT_JUDGED, ""
        interval = replace(interval, low=None, high=None) if interval is not None else None
    elif run.is_quick:
        status, reason = Status.NOT_JUDGED, ""
    else:
        reason = few_replicates(interval) or reason
    return {
        "id": claim.identifier,
        "reading": reading.name,
        "text": claim.text,
        "place": claim.where,
        "estimate": interval.estimate if interval is not None else None,
        "low": interval.low if interval is not None else None,
        "high": interval.high if interval is not None else None,
        "n": interval.n if interval is not None else None,
        "unit": finding.unit,
        "published": _published_text(run, claim),
        "status": status.value,
        "reason": reason,
    }


def _finding(run: RunFrame, claim: Claim, reading: Reading, measured: Measured | None) -> Finding:
    quantity = replace(claim.quantity, select={**reading.select, **claim.quantity.select})

    def measure(place: Mapping[str, Any], metric: str | None) -> Sample:
        at = quantity.at(place)
        if run.is_quick:
            at = replace(at, windows=False)
        at = replace(at, metric=metric) if metric else at
        return measured(at) if measured is not None else sample(run, at, reading.parts)

    def cell(place: Mapping[str, Any]) -> float | None:
        return published_cell(run, claim.published, place)

    factor = max(
        (CERTAINTY[name] for name in _certainties(run, claim)), default=CERTAINTY["printed"]
    )
    asked = Asked(
        claim,
        measure,
        cell,
        claim.tolerance * factor,
        lambda one: _child(run, one, reading, measured),
        run.is_quick,
    )
    return PREDICATES[claim.predicate].evaluate(asked)


def _child(run: RunFrame, claim: Claim, reading: Reading, measured: Measured | None) -> Finding:
    try:
        return _finding(run, claim, reading, measured)
    except MissingError as error:
        return Finding(None, reason=str(error))


class NoCellError(NandlabError):
    """The publication has no number at a place."""


def published_cell(
    run: RunFrame, published: Mapping[str, Any] | None, place: Mapping[str, Any]
) -> float | None:
    """The published value at a place; None if none is named.

    `published` names the `column` of the reference; its other keys, and those of `place` that are
    columns of the reference, choose the row. Raises `NoCellError` where no row with a number fits,
    and `NandlabError` where several do.
    """
    if published is None or run.reference is None:
        return None
    rows = _reference_rows(run, published, place)
    column = str(published.get("column", "value"))
    if len(rows) != 1 or not isinstance(rows[0].get(column), float):
        wanted = {**published, **place}
        kind = NandlabError if len(rows) > 1 else NoCellError
        raise kind(f"{len(rows)} published cells fit {wanted}; one number is needed")
    return float(rows[0][column])


def _reference_rows(
    run: RunFrame, published: Mapping[str, Any], place: Mapping[str, Any]
) -> list[Mapping[str, Any]]:
    assert run.reference is not None
    columns = set(run.reference.columns)
    wanted = {key: value for key, value in place.items() if key in columns}
    wanted |= {key: value for key, value in published.items() if key not in ("column", "direct")}
    return [
        row
        for row in run.reference.rows
        if all(_same(row.get(key), value) for key, value in wanted.items())
    ]


def _same(cell: Any, wanted: Any) -> bool:
    if isinstance(cell, float) and isinstance(wanted, int | float):
        return math.isclose(cell, wanted)
    return str(cell) == str(wanted)


def _places(claim: Claim) -> list[Mapping[str, Any]]:
    keys = claim.keys
    if "axis" in keys:
        return [{keys["axis"]: value} for value in keys["values"]]
    if (
        "left" in keys
        and not (claim.published or {}).get("direct")
        and claim.predicate != "difference"
    ):
        return [keys["left"], keys["right"]]
    return [{}]


def _certainties(run: RunFrame, claim: Claim) -> list[str]:
    """Certainties of the published cells of a claim; a reference without the column is printed."""
    if claim.published is None or run.reference is None:
        return []
    if "certainty" not in run.reference.columns:
        return ["printed"]
    found = []
    for place in _places(claim):
        for row in _reference_rows(run, claim.published, place):
            name = str(row["certainty"] or "printed").replace("_", " ")
            if name not in CERTAINTY:
                known = ", ".join(CERTAINTY)
                raise NandlabError(f"certainty {name!r} of the reference: known are {known}")
            found.append(name)
    return found


def _published_text(run: RunFrame, claim: Claim) -> str:
    """The published cells of a claim, as a table shows them."""
    parts: Sequence[Claim] = (claim, *claim.children)
    texts = []
    for one in parts:
        if one.says:
            texts.append(one.says)
            continue
        if one.published is None or run.reference is None:
            continue
        values = [published_cell(run, one.published, place) for place in _places(one)]
        shown = [f"{value:,.6g}" for value in values if value is not None]
        if one.predicate == "change" and len(shown) == 1:
            shown = [f"{value * 100:+.0f} %" for value in values if value is not None]
        if one.unit and len(shown) == 1:
            shown = [f"{shown[0]} {one.unit}"]
        joint = " < " if one.predicate == "order" and "values" in one.keys else " : "
        if one.predicate == "order" and ("most" in one.keys or "least" in one.keys):
            joint = ", "
        texts.append(joint.join(shown))
    return "; ".join(dict.fromkeys(texts))
