"""What a verdict consists of, as data."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Value:
    """A number behind a statement."""

    label: str
    value: float
    unit: str


@dataclass(frozen=True)
class Evaluation:
    """A claim under one way of setting and counting.

    `holds` is None where the results cannot tell. `workloads_hold` of `workloads` says in how many
    single workloads it holds too; both are 0 for a claim that compares workloads.
    """

    variant: str
    holds: bool | None
    detail: str
    values: tuple[Value, ...] = ()
    workloads_hold: int = 0
    workloads: int = 0


@dataclass(frozen=True)
class Claim:
    """A statement of the publication and what the simulation says to it."""

    identifier: str
    text: str
    published: str
    evaluations: tuple[Evaluation, ...]
    mechanism: str = ""
    qualified: bool = False
    """Rests on the file-system drivers of Linux in place of those of Windows."""


@dataclass(frozen=True)
class Distance:
    """One cell of the published table beside the simulated one."""

    variant: str
    reading: str
    ftl: str
    column: str
    statistic: str
    published: float
    simulated: float

    @property
    def ratio(self) -> float:
        """Simulated as a multiple of published."""
        return self.simulated / self.published


@dataclass(frozen=True)
class Nearness:
    """How near one way of setting, counting and reading comes to the published table.

    A factor of 1.2 says that the cells are off by 20 % up or down in the (geometric) mean;
    `means_factor` is over the rows of means, `spreads_factor` over those of standard deviations.
    `shape_factor` is `means_factor` after all cells were multiplied by the one `scale` that suits
    them best: what is left when windows only hold more or less data.
    """

    variant: str
    reading: str
    workload: str
    means_factor: float
    spreads_factor: float | None
    scale: float
    shape_factor: float


@dataclass(frozen=True)
class Verdict:
    """The answer of a study in words and numbers."""

    study: str
    headline: str
    sentences: tuple[str, ...]
    caveats: tuple[str, ...] = ()
    claims: tuple[Claim, ...] = ()
    variants: tuple[str, ...] = ()
    distances: tuple[Distance, ...] = ()
    nearness: tuple[Nearness, ...] = ()
    unexplained: tuple[str, ...] = ()
    main_settings: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Plain data for a JSON file."""
        plain = asdict(self)
        for cell, found in zip(plain["distances"], self.distances, strict=True):
            cell["ratio"] = found.ratio
        return plain

    def claims_holding(self, variant: str) -> tuple[int, int]:
        """Claims that hold under a variant, and claims that could be tested."""
        found = [
            evaluation.holds
            for claim in self.claims
            for evaluation in claim.evaluations
            if evaluation.variant == variant and evaluation.holds is not None
        ]
        return sum(found), len(found)
