"""The rows of each metric, read from disk when they are asked for."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars


class StoredMetrics(Mapping[str, "polars.DataFrame"]):
    """Metrics by name, in the order of the rows; only the one that was read last is held."""

    def __init__(self, rows: "polars.LazyFrame", columns: Sequence[str]) -> None:
        """`columns` are those of each frame; the values among them are never null."""
        import polars

        self._rows = rows.filter(polars.col("value").is_not_null())
        self._columns = list(columns)
        names = self._rows.select(polars.col("metric").unique(maintain_order=True))
        self._names = dict.fromkeys(names.collect(engine="streaming")["metric"].to_list())
        self._last: tuple[str, polars.DataFrame] | None = None

    def __getitem__(self, name: str) -> "polars.DataFrame":
        """The rows of a metric."""
        import polars

        if name not in self._names:
            raise KeyError(name)
        if self._last is None or self._last[0] != name:
            rows = self._rows.filter(polars.col("metric") == name).select(self._columns)
            self._last = name, rows.collect(engine="streaming")
        return self._last[1]

    def __iter__(self) -> Iterator[str]:
        """Names of the metrics; nothing is read for them."""
        return iter(self._names)

    def __len__(self) -> int:
        """Number of metrics."""
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        """Whether there is a metric of that name; nothing is read for it."""
        return name in self._names
