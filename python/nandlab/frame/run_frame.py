"""The rows of a run as one polars frame; an axis of numbers is numeric."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nandlab.errors import NandlabError
from nandlab.frame.reference import Reference, read_reference
from nandlab.frame.stored_metrics import StoredMetrics
from nandlab.suggest import did_you_mean

if TYPE_CHECKING:
    import polars


MEANINGLESS = "-"
"""The value of an axis in runs to which it means nothing; null if its other values are numbers."""

ROW_COLUMNS = ("repeat", "metric", "value", "unit")
"""Columns of the rows after those of the axes."""


@dataclass(frozen=True)
class RunFrame:
    """The results of one run, as far as it came.

    `rows` has a column for each axis, then `repeat`, `metric`, `value` and `unit`. `curves` holds
    cumulative counts at several places of each run, with the same axes. `folder` holds the data of
    the study: claims, tables, discussion.
    """

    study: Mapping[str, Any]
    axes: tuple[str, ...]
    rows: "polars.DataFrame | polars.LazyFrame"
    """Rows in memory, or on disk where they are many."""
    curves: "polars.DataFrame"
    results_digest: str
    reference: Reference | None = None
    notes: tuple[str, ...] = ()
    interrupted: bool = False
    folder: Path | None = None
    tables: Mapping[str, "polars.DataFrame"] = field(default_factory=dict)
    """Tables beside the rows, by name: distributions, time lines, derived metrics."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """Rows and tables as the digest was taken over them, by name; none of a run that was read."""
    inputs: tuple[Mapping[str, str], ...] = ()
    """Files of the user's own that the study names: what each is, its name there, and its path."""
    beside: Mapping[str, Any] = field(default_factory=dict)
    """What else is known of a comparison: its power cuts and its workload."""

    @classmethod
    def from_answer(cls, answer: Mapping[str, Any], study_path: Path | None = None) -> "RunFrame":
        """The results that the engine answered; `study_path` is the study file, if there is one.

        Raises `NandlabError` if the reference of the study cannot be read.
        """
        study, frames = dict(answer["study"]), answer["frames"]
        folder = study_path.parent if study_path is not None else None
        name = study.get("reference")
        axes = tuple(column for column in answer["columns"] if column not in ROW_COLUMNS)
        tables = {table["name"]: table["csv"] for table in answer.get("tables", ())}
        if "derived" in frames and frames["derived"].height:
            tables["derived"] = _plain(frames["derived"]).select(*axes, *ROW_COLUMNS).write_csv()
        return cls(
            # Where the user's files lie is a matter of this machine, and no part of the study.
            study={key: value for key, value in study.items() if key != "own_files"},
            axes=axes,
            rows=stated(frames["rows"].select(*axes, *ROW_COLUMNS), study),
            curves=stated(frames["curves"], study),
            results_digest=str(answer["results_digest"]),
            reference=read_reference((folder or Path()) / str(name)) if name else None,
            notes=tuple(answer.get("notes", ())),
            interrupted=bool(answer.get("interrupted", False)),
            folder=folder,
            tables={table: stated(frames[table], study) for table in tables},
            texts={"results": answer["results_csv"], **tables},
            inputs=tuple(study.get("own_files", ())),
        )

    @property
    def name(self) -> str:
        """Name of the study."""
        return str(self.study["name"])

    @property
    def is_quick(self) -> bool:
        """Whether this is the short form, which is never judged."""
        return bool(self.study.get("quick", False))

    @cached_property
    def frame(self) -> "polars.DataFrame":
        """All rows in memory; reports do without it where rows are on disk."""
        import polars

        return self.rows if isinstance(self.rows, polars.DataFrame) else self.rows.collect()

    @cached_property
    def metrics(self) -> Mapping[str, "polars.DataFrame"]:
        """The rows of each metric: its axes, `repeat` and `value`, where there is one."""
        import polars

        if isinstance(self.rows, polars.LazyFrame):
            return StoredMetrics(self.rows, [*self.axes, "repeat", "value"])
        known = self.frame.filter(self.frame["value"].is_not_null())
        parts = known.partition_by("metric", as_dict=True, maintain_order=True)
        columns = [*self.axes, "repeat", "value"]
        return {str(key[0]): part.select(columns) for key, part in parts.items()}

    @cached_property
    def units(self) -> dict[str, str]:
        """Unit of each metric."""
        pairs = self.rows.lazy().select("metric", "unit")
        first = pairs.unique("metric", keep="first", maintain_order=True).collect()
        return {str(row["metric"]): str(row["unit"] or "") for row in first.to_dicts()}

    @cached_property
    def text_axes(self) -> frozenset[str]:
        """Axes whose values are words; those of the others are numbers."""
        import polars

        schema = self.rows.lazy().collect_schema()
        return frozenset(axis for axis in self.axes if schema[axis] == polars.String)

    @property
    def varied(self) -> list[str]:
        """Axes with more than one value."""
        import polars

        if not self.axes:
            return []
        counts = self.rows.lazy().select(polars.col(self.axes).n_unique()).collect().row(0)
        return [axis for axis, count in zip(self.axes, counts, strict=True) if count > 1]

    def values_of(self, axis: str) -> list[Any]:
        """Values of an axis, in the order of the rows."""
        if axis not in self.axes:
            hint = did_you_mean(axis, self.axes)
            raise NandlabError(f"{self.name} has no axis {axis!r}: {hint}{', '.join(self.axes)}")
        import polars

        values = self.rows.lazy().select(polars.col(axis).unique(maintain_order=True))
        return values.collect()[axis].to_list()

    def wide(self, *metrics: str) -> "polars.DataFrame":
        """One row for each run and a column for each of `metrics`, or for all."""
        wanted = metrics or tuple(self.metrics)
        for metric in wanted:
            if metric not in self.metrics:
                hint = did_you_mean(metric, self.metrics)
                raise NandlabError(f"{self.name} has no metric {metric!r}: {hint}".rstrip(": "))
        keys = [*self.axes, "repeat"]
        rows = self.rows.lazy().select(keys).unique(maintain_order=True).collect()
        for metric in wanted:
            column = self.metrics[metric].rename({"value": metric})
            rows = rows.join(column, on=keys, how="left", nulls_equal=True)
        return rows

    def _repr_html_(self) -> str:
        return str(self.frame._repr_html_())


def _plain(rows: "polars.DataFrame") -> "polars.DataFrame":
    """Rows whose values are text as the engine writes them: a count has no fraction."""
    import polars

    texts = [polars.col(name).cast(polars.String) for name in ("count", "value")]
    return rows.with_columns(value=polars.coalesce(texts))


def stated(frame: "polars.DataFrame", study: Mapping[str, Any]) -> "polars.DataFrame":
    """The frame with each axis of the type in which the study states its values.

    The engine types an axis by all its values; `-`, which stands for none, makes it one of words.
    """
    import polars

    plain: list[Mapping[str, Any]] = [study, *(study.get("extra_runs") or ())]
    numbers = []
    for axis in frame.columns:
        values = [value for part in plain for value in (part.get("axes") or {}).get(axis, ())]
        kinds = {type(value) for value in values if value != MEANINGLESS}
        if frame[axis].dtype == polars.String and kinds and kinds <= {int, float}:
            dtype = polars.Float64 if float in kinds else polars.Int64
            numbers.append(polars.col(axis).replace(MEANINGLESS, None).cast(dtype))
    return frame.with_columns(numbers)
