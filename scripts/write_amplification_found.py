"""What the runs of docs/write-amplification-by-file-system.md have in common: means and spreads."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from write_amplification_runs import DIRECT_RUN, FILE_SYSTEMS, PAGE, PAGE_BYTES, Row

from nandlab.labs.amplification import Counted


@dataclass(frozen=True)
class Spread:
    """Mean, least and most of some runs."""

    mean: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Iterable[float]) -> "Spread":
        """Of the values of runs."""
        known = list(values)
        return cls(sum(known) / len(known), min(known), max(known))

    @property
    def span(self) -> str:
        """From the least to the most, or one figure if they read alike."""
        least, most = figure(self.least), figure(self.most)
        return least if least == most else f"{least} to {most}"


def figure(value: float) -> str:
    """A figure with three digits, or all before the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


@dataclass(frozen=True)
class Found:
    """The runs of the record."""

    known: list[Row]

    def spread(self, file_system: str, layer: str, value: Callable[[Counted], float]) -> Spread:
        """A figure of the runs that were carried out on a layer."""
        wanted = (file_system, layer)
        return Spread.of(
            value(row.counted)
            for row in self.known
            if (row.file_system, row.layer) == wanted and row.run != DIRECT_RUN
        )

    def product(self, file_system: str, layer: str) -> Spread:
        """Bytes that were programmed for each byte of the application."""
        return self.spread(file_system, layer, lambda one: one.product(PAGE_BYTES))

    def by_layer(self, file_system: str, layer: str) -> Spread:
        """Bytes that were programmed for each byte of the file system."""
        return self.spread(file_system, layer, lambda one: one.layer_amplification(PAGE_BYTES))

    def own(self, file_system: str) -> Spread:
        """Bytes of the file system for each byte of the application."""
        return self.spread(file_system, PAGE.name, Counted.file_system_amplification)

    def request_bytes(self, file_system: str) -> float:
        """Mean length of a write."""
        return self.spread(file_system, PAGE.name, lambda one: one.written_bytes / one.writes).mean

    def direct(self, file_system: str) -> Counted:
        """The run with a layer of its own behind the socket."""
        (row,) = (
            row for row in self.known if row.run == DIRECT_RUN and row.file_system == file_system
        )
        return row.counted

    def runs(self) -> int:
        """Runs of a kernel for each file system."""
        return len({row.run for row in self.known if row.run != DIRECT_RUN})

    def least(self, layer: str) -> tuple[str, ...]:
        """File systems with the least product on a layer: the runs of several may overlap."""
        products = {name: self.product(name, layer) for name in FILE_SYSTEMS}
        best = min(products.values(), key=lambda product: product.mean)
        return tuple(name for name, product in products.items() if product.least <= best.most)
