"""The predicates that claims are made of, a row each.

A predicate measures samples and returns the interval that decides, and the region claimed.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from nandlab.claims.quantity import MissingError, Sample, combined
from nandlab.claims.statistics import Interval, Region, Status, share_interval, status_of
from nandlab.errors import NandlabError

if TYPE_CHECKING:
    from nandlab.claims.schema import Claim

Place = Mapping[str, Any]

PUBLISHED = "published"
"""The word for a bound that is the published value."""

EVERYTHING = Region()
"""The region of a finding without bounds."""


@dataclass(frozen=True)
class Finding:
    """The interval that decides and what the claim allows; `status` only where no interval does."""

    interval: Interval | None
    region: Region = EVERYTHING
    unit: str = ""
    reason: str = ""
    fixed: Status | None = None

    @property
    def status(self) -> Status:
        """What the interval says."""
        if self.fixed is not None or self.interval is None:
            return self.fixed or Status.NOT_RUN
        return status_of(self.interval, self.region)

    @property
    def margin(self) -> float:
        """How far the estimate lies inside the region; negative outside."""
        if self.interval is None:
            return 0.0
        estimate = self.interval.estimate
        return min(estimate - self.region.above, self.region.below - estimate)


@dataclass(frozen=True)
class Asked:
    """A claim to evaluate, with the ways to measure it and to look up what was published."""

    claim: "Claim"
    measure: Callable[[Place, str | None], Sample]
    """Measures at a place; a metric replaces the claim's own."""
    cell: Callable[[Place], float | None]
    """The published cell at a place; None if the claim names none."""
    tolerance: float
    """The claim's tolerance, widened by the certainty of its published cells."""
    child: Callable[["Claim"], Finding]
    is_quick: bool = False
    """A quick form estimates from what it ran; what it left out is no reason to say nothing."""

    def values(self) -> list[Any]:
        """Values of the axis that are measured."""
        values = list(self.keys("values"))
        if self.is_quick:
            values = [value for value in values if self._is_run({self.keys("axis"): value})]
        if len(values) < 2:
            raise MissingError(f"fewer than two values of {self.keys('axis')} were run")
        return values

    def children(self) -> list[Finding]:
        """Findings of the claims inside this one."""
        found = [self.child(one) for one in self.claim.children]
        run = [one for one in found if one.status is not Status.NOT_RUN]
        return run if self.is_quick and run else found

    def _is_run(self, place: Place) -> bool:
        try:
            self.measure(place, None)
        except MissingError:
            return False
        return True

    def keys(self, name: str, default: Any = None) -> Any:
        """A key of the predicate."""
        return self.claim.keys.get(name, default)

    def region(self, published: float | None, *, is_ratio: bool) -> Region:
        """The bounds that the claim names, or the published value with its tolerance."""
        above, below = self.keys("above"), self.keys("below")
        if above is not None or below is not None:
            near = self.tolerance
            return Region(
                -math.inf if above is None else self._bound(above, published, -near, is_ratio),
                math.inf if below is None else self._bound(below, published, near, is_ratio),
            )
        if published is None:
            name = self.claim.identifier
            raise NandlabError(f"claim {name!r}: needs above, below, or published with a tolerance")
        if is_ratio:
            low, high = published / (1 + self.tolerance), published * (1 + self.tolerance)
            return Region(min(low, high), max(low, high))
        return Region(published - self.tolerance, published + self.tolerance)

    def _bound(
        self, bound: float | str, published: float | None, near: float, is_ratio: bool
    ) -> float:
        """A bound of the claim; `published` is the published value, moved by the tolerance."""
        if bound != PUBLISHED:
            return float(bound)
        if published is None:
            name = self.claim.identifier
            raise NandlabError(f"claim {name!r}: a published bound needs a published cell")
        if not is_ratio:
            return published + near
        return published * (1 + near) if near >= 0 else published / (1 - near)


@dataclass(frozen=True)
class Predicate:
    """A kind of claim: the keys it takes beside the common ones, and its evaluation."""

    name: str
    evaluate: Callable[[Asked], Finding]
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    needs_metric: bool = True


def weakest(findings: Sequence[Finding], *, needs_all: bool = True) -> Finding:
    """The finding that decides over several: all must hold, or any."""
    missing = [one for one in findings if one.status is Status.NOT_RUN]
    order = (Status.CONTRADICTED, Status.UNDECIDED, Status.SUPPORTED, Status.BY_CONSTRUCTION)
    for wanted in order if needs_all else (order[2], order[1], order[0], order[3]):
        if missing and wanted is not (Status.CONTRADICTED if needs_all else Status.SUPPORTED):
            return missing[0]
        found = [one for one in findings if one.status is wanted]
        if found:
            return (min if needs_all else max)(found, key=lambda one: one.margin)
    return findings[0]


def _all(asked: Asked) -> Finding:
    return weakest(asked.children())


def _any(asked: Asked) -> Finding:
    return weakest(asked.children(), needs_all=False)


def _by_construction(asked: Asked) -> Finding:
    return Finding(None, fixed=Status.BY_CONSTRUCTION, reason=str(asked.keys("why")))


def _sides(asked: Asked) -> tuple[Sample, Sample]:
    left = asked.measure(asked.keys("left", {}), None)
    return left, asked.measure(asked.keys("right", {}), asked.keys("right_metric"))


def _published_ratio(asked: Asked) -> float | None:
    published = asked.claim.published or {}
    if published.get("direct"):
        return asked.cell({})
    left, right = (asked.cell(asked.keys(side, {})) for side in ("left", "right"))
    return left / right if left is not None and right else None


def _ratio(asked: Asked) -> Finding:
    left, right = _sides(asked)
    region = asked.region(_published_ratio(asked), is_ratio=True)
    return Finding(left.divided_by(right).ratio(), region, "×", _sides_in_words(asked))


def _change(asked: Asked) -> Finding:
    left, right = _sides(asked)
    ratio = _published_ratio(asked)
    is_direct = bool((asked.claim.published or {}).get("direct"))
    published = ratio - 1 if ratio is not None and not is_direct else ratio
    region = asked.region(published, is_ratio=False)
    found = left.divided_by(right).ratio().mapped(lambda ratio: ratio - 1)
    return Finding(found, region, "change", _sides_in_words(asked))


def _sides_in_words(asked: Asked) -> str:
    left, right = (
        " ".join(str(value) for value in asked.keys(side, {}).values())
        for side in ("left", "right")
    )
    kept = [str(value) for value in asked.claim.quantity.select.values() if isinstance(value, str)]
    return f"{left} over {right}" + (f", {' '.join(kept)}" if kept else "")


def _difference(asked: Asked) -> Finding:
    left, right = _sides(asked)
    region = asked.region(asked.cell({}), is_ratio=False)
    return Finding(left.minus(right).value(), region, asked.claim.unit)


def _value(asked: Asked) -> Finding:
    region = asked.region(asked.cell({}), is_ratio=True)
    return Finding(asked.measure({}, None).value(), region, asked.claim.unit)


def _order(asked: Asked) -> Finding:
    axis, values = asked.keys("axis"), asked.values()
    extreme, which = asked.keys("most"), "most"
    if extreme is None:
        extreme, which = asked.keys("least"), "least"
    if extreme is None:
        steps = list(pairwise(values))
    else:
        if extreme not in values:
            raise MissingError(f"{axis} {extreme} was not run")
        others = [value for value in values if value != extreme]
        steps = [(one, extreme) if which == "most" else (extreme, one) for one in others]
    plain = [1.0] * len(steps)
    is_whole = len(values) == len(asked.keys("values"))
    factors = asked.keys("factors", plain) if is_whole else plain
    if len(factors) != len(steps):
        raise NandlabError(
            f"claim {asked.claim.identifier!r}: {len(factors)} factors for {len(steps)} steps"
        )
    samples = {value: asked.measure({axis: value}, None) for value in values}
    return weakest(
        [
            Finding(
                samples[high].divided_by(samples[low]).ratio(),
                Region(float(factor) / (1 + asked.tolerance)),
                "×",
                f"weakest step: {high} over {low}",
            )
            for (low, high), factor in zip(steps, factors, strict=True)
        ]
    )


def _equal(asked: Asked) -> Finding:
    axis, values = asked.keys("axis"), asked.values()
    samples = [asked.measure({axis: value}, None) for value in values]
    region = Region(1 / (1 + asked.tolerance), 1 + asked.tolerance)
    return weakest(
        [
            Finding(
                samples[right].divided_by(samples[left]).ratio(),
                region,
                "×",
                f"largest difference: {values[right]} over {values[left]}",
            )
            for left in range(len(values))
            for right in range(left + 1, len(values))
        ]
    )


def _trend(asked: Asked) -> Finding:
    axis, values = asked.keys("axis"), asked.values()
    samples = [asked.measure({axis: value}, None) for value in values]
    places = [float(value) for value in values]
    is_log = min(places) > 0
    at = [math.log(value) if is_log else value for value in places]
    middle = math.fsum(at) / len(at)
    spread = math.fsum((one - middle) ** 2 for one in at)
    if not spread:
        raise NandlabError(f"claim {asked.claim.identifier!r}: a trend needs two values")

    def slope(*found: Any) -> Any:
        import numpy

        if min(float(numpy.min(one)) for one in found) <= 0:
            raise MissingError("a trend needs positive values")
        parts = ((x - middle) / spread * numpy.log(y) for x, y in zip(at, found, strict=True))
        total = sum(parts)
        return float(total) if numpy.ndim(total) == 0 else total

    direction = asked.keys("direction")
    bounds = {
        "down": Region(below=-asked.tolerance),
        "flat": Region(-asked.tolerance, asked.tolerance),
        "up": Region(asked.tolerance),
    }
    if direction not in bounds:
        name = asked.claim.identifier
        raise NandlabError(f"claim {name!r}: direction {direction!r}: known are down, flat, up")
    return Finding(combined(samples, slope).value(), bounds[direction], "slope")


def _share(asked: Asked) -> Finding:
    successes, trials = (
        sum(asked.measure({}, asked.keys(key)).by_key.values()) for key in ("successes", "trials")
    )
    if not trials:
        raise MissingError("there were no trials")
    region = asked.region(asked.cell({}), is_ratio=False)
    return Finding(share_interval(round(successes), round(trials)), region, "share")


_BOUNDS = ("above", "below")
_SIDES, _SIDED = ("left", "right"), (*_BOUNDS, "right_metric")
_AXIS = ("axis", "values")

# docs/studies.md says when each of them holds.
_ROWS = (
    Predicate("all", _all, ("of",), needs_metric=False),
    Predicate("any", _any, ("of",), needs_metric=False),
    Predicate("by_construction", _by_construction, ("why",), needs_metric=False),
    Predicate("change", _change, _SIDES, _SIDED),
    Predicate("difference", _difference, _SIDES, _SIDED),
    Predicate("equal", _equal, (*_AXIS, "tolerance")),
    Predicate("order", _order, _AXIS, ("factors", "most", "least")),
    Predicate("ratio", _ratio, _SIDES, _SIDED),
    Predicate("share", _share, ("successes", "trials"), _BOUNDS, needs_metric=False),
    Predicate("trend", _trend, (*_AXIS, "direction")),
    Predicate("value", _value, (), _BOUNDS),
)

PREDICATES: Mapping[str, Predicate] = {row.name: row for row in _ROWS}
"""Every predicate by name, sorted."""
