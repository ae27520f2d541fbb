"""A run of a study: its rows, claims, tables and figures."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from nandlab.api.interrupted import Interrupted
from nandlab.errors import NandlabError
from nandlab.suggest import unknown

if TYPE_CHECKING:
    import polars

    from nandlab.frame import RunFrame
    from nandlab.present import Chart, Presented, ShownTable

Shown = TypeVar("Shown", "Chart", "ShownTable")


class Run:
    """The results of one run of a study.

    A run comes from `nandlab.run`, `Study.run` or `open_run`. A notebook shows the answer, the
    claims and the first table.
    """

    def __init__(self, rows: "RunFrame", folder: Path | None = None, command: str = "") -> None:
        """Take the rows of a run; `folder` is where they are kept, if anywhere."""
        self._rows = rows
        self._command = command
        self.folder = folder
        """Folder of the run; None if it was not written."""

    @property
    def name(self) -> str:
        """Name of the study."""
        return self._rows.name

    @property
    def frame(self) -> "polars.DataFrame":
        """All rows: one column an axis, then `repeat`, `metric`, `value` and `unit`."""
        return self._rows.frame

    @property
    def digest(self) -> str:
        """Digest of the results: equal digests mean equal results."""
        return self._rows.results_digest

    @property
    def is_quick(self) -> bool:
        """True of the short form, whose claims are never judged."""
        return self._rows.is_quick

    @property
    def is_interrupted(self) -> bool:
        """True if some combinations were not run."""
        return self._rows.interrupted

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks of the engine on the run."""
        return self._rows.notes

    @cached_property
    def conditions(self) -> dict[str, str]:
        """Part, board, kernel, device, fill, seed, repeats and form of the run."""
        from nandlab.present.page import conditions

        return dict(conditions(self._rows))

    def wide(self, *metrics: str) -> "polars.DataFrame":
        """One row a combination and repeat, with a column for each of `metrics`, or for all.

        Raises `NandlabError` for a metric that the run does not have.
        """
        return self._rows.wide(*metrics)

    @cached_property
    def claims(self) -> "polars.DataFrame":
        """The claims of the study: `id`, `estimate`, `low`, `high`, `n`, `status` and more.

        The frame is empty if the study has no claims.
        """
        return self._presented.claims

    @property
    def headline(self) -> str:
        """The answer in one sentence."""
        return self._presented.headline

    @property
    def charts(self) -> tuple[str, ...]:
        """Names of the figures."""
        return tuple(one.identifier for one in self._presented.charts)

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of the tables."""
        return tuple(one.identifier for one in self._presented.tables)

    def chart(self, name: str) -> "Chart":
        """The figure of that name, which a notebook draws.

        Raises `NandlabError` if there is none.
        """
        return self._named("figure", name, self._presented.charts)

    def table(self, name: str) -> "ShownTable":
        """The table of that name, which a notebook shows.

        Raises `NandlabError` if there is none.
        """
        return self._named("table", name, self._presented.tables)

    def _named(self, what: str, name: str, shown: "Sequence[Shown]") -> "Shown":
        by_name = {one.identifier: one for one in shown}
        if name not in by_name:
            raise NandlabError(f"{self.name}: {unknown(what, name, by_name)}")
        return by_name[name]

    def report(self, path: str | Path) -> Path:
        """Write the report into the folder `path`; return the path of its page.

        Raises `NandlabError` if the folder cannot be written.
        """
        from nandlab.present import write_report
        from nandlab.present.page import REPORT

        folder = Path(path)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            write_report(folder, self._rows, self._command)
        except OSError as error:
            raise NandlabError(f"{folder}: {error.strerror}; name another folder") from None
        return folder / REPORT

    def to_pandas(self) -> Any:
        """All rows as a pandas frame.

        Raises `ModuleNotFoundError` where pandas is not installed.
        """
        return self.frame.to_pandas()

    @cached_property
    def _presented(self) -> "Presented":
        from nandlab.present import present

        return present(self._rows)

    def __repr__(self) -> str:
        """Name, form and digest."""
        form = "quick" if self.is_quick else "whole"
        ending = ", interrupted" if self.is_interrupted else ""
        return f"<Run of {self.name}: {form}, {self.frame.height} rows, {self.digest[:12]}{ending}>"

    def _repr_html_(self) -> str:
        return self._presented._repr_html_()


def run(
    study: str | Path,
    *,
    quick: bool = False,
    set: Mapping[str, Any] | None = None,  # noqa: A002 (as the option --set)
    seed: int | None = None,
    jobs: int | None = None,
    out: str | Path | None = None,
    timeline: str | Path | None = None,
    cluster: str | None = None,
    cells: str | Path | None = None,
    fresh: bool = False,
) -> Run:
    """Run a study: every combination of its axes.

    `study` is the name of a shipped study, its folder, or a study file. `quick` runs the short
    form. `set` changes values of the study file, with dots between levels:
    `{"axes.ftl": ["bast", "fast"], "workload.window": 50}`. `jobs` combinations run at the same
    time, by default one for each processor; results do not depend on it. `out` is a folder for
    results and report; without it nothing is written. `timeline` takes what happened when in the
    first run, as a trace that Perfetto opens; the study must be of kind `jobs`, `ioping`, `iozone`
    or `raw-nand`.

    `cluster` names a Dask cluster that carries the combinations out: `dask://HOST:PORT`,
    `local:WORKERS` or `slurm:FILE`. `cells` is a folder that keeps finished combinations; without
    it, those of an unfinished run are kept beside `out`, and a later call goes on from there.
    `fresh` runs all of them again.

    Raises `NandlabError` for bad input, before anything runs, and `Interrupted` after Ctrl-C, with
    what was finished.
    """
    from nandlab.cells import CellChoice
    from nandlab.study_files import find_study
    from nandlab.study_runs import RunRequest, frame_of
    from nandlab.study_runs import run as run_and_write
    from nandlab.terminal.progress import progress_bar

    choice = None if out is None else CellChoice.beside(Path(out), is_fresh=fresh)
    if cells is not None:
        choice = CellChoice(Path(cells), stays=True, is_fresh=fresh)
    request = RunRequest(
        study=str(study),
        path=find_study(str(study)),
        out=Path(out) if out is not None else Path(),
        sets=[f"{key}={setting_text(value)}" for key, value in (set or {}).items()],
        seed=seed,
        quick=quick,
        jobs=jobs,
        timeline=None if timeline is None else Path(timeline),
        cells=choice,
        cluster=cluster,
    )
    with progress_bar(str(study)) as progress:
        if out is None:
            found = Run(frame_of(request, progress), None, request.command)
        else:
            finished = run_and_write(request, progress)
            found = Run(finished.run, finished.folder, request.command)
    if found.is_interrupted:
        raise Interrupted(f"{study}: interrupted; `.result` holds the finished part", found)
    return found


def open_run(path: str | Path) -> Run:
    """Read a run back from its folder.

    Raises `NandlabError` if the folder holds no run.
    """
    from nandlab.frame import read

    folder = Path(path)
    return Run(read(folder), folder, f"nandlab report {folder}")


def setting_text(value: object) -> str:
    """A value as the option `--set` takes it: a list becomes words with commas between them."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        quoted = {key: f'"{one}"' if isinstance(one, str) else one for key, one in value.items()}
        return f"{{ {', '.join(f'{key} = {setting_text(one)}' for key, one in quoted.items())} }}"
    if isinstance(value, list | tuple):
        return ",".join(setting_text(one) for one in value)
    return str(value)
