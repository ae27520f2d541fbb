"""The rows of a run as one polars frame; an axis of numbers is numeric."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nandlab.errors import NandlabError
from nandlab.results.reference import find_reference
from nandlab.results.run_directory import read_results
from nandlab.results.study_result import StudyResult, Table
from nandlab.suggest import did_you_mean

if TYPE_CHECKING:
    import polars


MEANINGLESS = "-"
"""The value of an axis in runs to which it means nothing; null if its other values are numbers."""


@dataclass(frozen=True)
class RunFrame:
    """The rows of one run.

    `frame` has a column for each axis, then `repeat`, `metric`, `value` and `unit`. `curves` holds
    cumulative counts at several places of each run, with the same axes. `folder` holds the data of
    the study: claims, tables, discussion; None for a study without them.
    """

    study: Mapping[str, Any]
    axes: tuple[str, ...]
    frame: "polars.DataFrame"
    curves: "polars.DataFrame"
    results_digest: str
    reference: Table | None = None
    notes: tuple[str, ...] = ()
    interrupted: bool = False
    folder: Path | None = None
    tables: Mapping[str, str] = field(default_factory=dict)
    """Tables over several runs, by name, as CSV: distributions, time lines."""

    @property
    def name(self) -> str:
        """Name of the study."""
        return str(self.study["name"])

    @property
    def is_quick(self) -> bool:
        """Whether this is the short form, which is never judged."""
        return bool(self.study.get("quick", False))

    @cached_property
    def metrics(self) -> dict[str, "polars.DataFrame"]:
        """The rows of each metric: its axes, `repeat` and `value`, where there is one."""
        known = self.frame.filter(self.frame["value"].is_not_null())
        parts = known.partition_by("metric", as_dict=True, maintain_order=True)
        columns = [*self.axes, "repeat", "value"]
        return {str(key[0]): part.select(columns) for key, part in parts.items()}

    @cached_property
    def units(self) -> dict[str, str]:
        """Unit of each metric."""
        first = self.frame.unique("metric", keep="first", maintain_order=True)
        return {str(row["metric"]): str(row["unit"] or "") for row in first.to_dicts()}

    def values_of(self, axis: str) -> list[Any]:
        """Values of an axis, in the order of the rows."""
        if axis not in self.axes:
            hint = did_you_mean(axis, self.axes)
            raise NandlabError(f"{self.name} has no axis {axis!r}: {hint}{', '.join(self.axes)}")
        return self.frame[axis].unique(maintain_order=True).to_list()

    def wide(self, *metrics: str) -> "polars.DataFrame":
        """One row for each run and a column for each of `metrics`, or for all."""
        wanted = metrics or tuple(self.metrics)
        for metric in wanted:
            if metric not in self.metrics:
                hint = did_you_mean(metric, self.metrics)
                raise NandlabError(f"{self.name} has no metric {metric!r}: {hint}".rstrip(": "))
        keys = [*self.axes, "repeat"]
        rows = self.frame.select(keys).unique(maintain_order=True)
        for metric in wanted:
            column = self.metrics[metric].rename({"value": metric})
            rows = rows.join(column, on=keys, how="left", nulls_equal=True)
        return rows

    def table(self, name: str) -> "polars.DataFrame | None":
        """A table of the run; None if it has none of that name."""
        import polars

        text = self.tables.get(name)
        return polars.read_csv(text.encode(), infer_schema_length=None) if text else None

    @classmethod
    def of(cls, result: StudyResult) -> "RunFrame":
        """The frame of a result that is already read."""
        return cls(
            study=result.study,
            axes=result.axes,
            frame=typed_columns(result.rows, result.axes),
            curves=typed_columns(result.curves, result.axes),
            results_digest=result.results_digest,
            reference=result.reference,
            notes=result.notes,
            interrupted=result.interrupted,
            folder=result.folder,
            tables=result.tables,
        )

    def _repr_html_(self) -> str:
        return str(self.frame._repr_html_())


def from_answer(answer: Mapping[str, Any], study_path: Path | None = None) -> RunFrame:
    """The frame of an answer of the engine; `study_path` is the study file, if there is one."""
    reference = find_reference(answer["study"], study_path)
    folder = study_path.parent if study_path is not None else None
    return RunFrame.of(StudyResult.from_engine(answer, reference, folder))


def read(run: Path) -> RunFrame:
    """Reads the frame of a run back from its folder.

    Raises `NandlabError` if the folder holds no run.
    """
    return RunFrame.of(read_results(run))


def typed_columns(table: Table, axes: Sequence[str]) -> "polars.DataFrame":
    """A table as a frame: axes of numbers become numbers, `repeat` a whole number."""
    import polars

    columns = list(zip(*table.rows, strict=True)) or [()] * len(table.columns)
    words = {"metric", "unit"}
    series = []
    for name, cells in zip(table.columns, columns, strict=True):
        if name in axes:
            series.append(_axis(name, cells))
        elif name in words:
            series.append(polars.Series(name, cells, dtype=polars.String))
        else:
            dtype = polars.Int64 if name == "repeat" else polars.Float64
            series.append(polars.Series(name, cells, dtype=dtype, strict=False))
    return polars.DataFrame(series)


def _axis(name: str, cells: Sequence[Any]) -> "polars.Series":
    import polars

    text = polars.Series(name, [None if cell is None else str(cell) for cell in cells])
    # An axis that means nothing to some of the runs is still one of numbers.
    known = text.cast(polars.String).replace(MEANINGLESS, None)
    for dtype in (polars.Int64, polars.Float64):
        numbers = known.cast(dtype, strict=False)
        if known.null_count() < len(known) and numbers.null_count() == known.null_count():
            return numbers
    return text.cast(polars.String)
