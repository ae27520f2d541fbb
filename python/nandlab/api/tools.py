"""Comparisons of candidates as Python calls."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nandlab.api.interrupted import Interrupted
from nandlab.api.runs import Run

if TYPE_CHECKING:
    import polars

    from nandlab.comparison.cuts import Cuts


@dataclass(frozen=True)
class Comparison:
    """Candidates side by side on one workload."""

    run: Run
    """All rows."""
    table: "polars.DataFrame"
    """One row a criterion, one column a candidate; `*` marks the best of a row."""
    headline: str
    """The answer in a sentence."""
    sentences: tuple[str, ...]
    """A sentence for each candidate."""
    cuts: "tuple[Cuts, ...]" = ()
    """What the sample of power cuts left, with `crash=True`."""

    def _repr_html_(self) -> str:
        from html import escape

        return f"<p><strong>{escape(self.headline)}</strong></p>{self.table._repr_html_()}"


def compare(
    *,
    workload: str | Path,
    fs: Iterable[str] | str | None = None,
    ftl: Iterable[str] | str | None = None,
    scheduler: Iterable[str] | str | None = None,
    cleaning: Iterable[str] | str | None = None,
    part: Iterable[str] | str | Path = "k9f2g08u0c",
    blocks: int | None = None,
    board: Iterable[str] | str | Path | None = None,
    kernel: Iterable[str] | str | None = None,
    option: Sequence[str] = (),
    question: Iterable[str] | str | None = None,
    crash: bool = False,
    out: str | Path | None = None,
    jobs: int | None = None,
) -> Comparison:
    """Run a workload file on file systems or translation layers, and put them side by side.

    `fs`, `ftl`, `scheduler`, `cleaning`, `part`, `board`, `kernel` and `question` are names, in a
    list or with commas between them. `option` has mount options such as `ubifs:compr=zlib`, each a
    candidate.
    `crash` also cuts the power of a script at a sample of its operations. The other parameters are
    those of `nandlab compare`.

    Raises `NandlabError` for bad input, and `Interrupted` after Ctrl-C.
    """
    import polars

    from nandlab.comparison.answer import CANDIDATES
    from nandlab.comparison.candidates_run import Asked
    from nandlab.comparison.candidates_run import run as run_candidates
    from nandlab.terminal.progress import progress_bar

    asked = Asked(
        file_systems=_names(fs),
        layers=_names(ftl),
        schedulers=_names(scheduler),
        cleaning=_names(cleaning),
        workload=Path(workload),
        part=_names(part) or "",
        blocks=blocks,
        board=_names(board),
        kernel=_names(kernel),
        options=tuple(option),
        question=_names(question),
        crash=crash,
        out=None if out is None else Path(out),
        jobs=jobs,
    )
    with progress_bar("compare") as progress:
        finished = run_candidates(asked, progress)
    rows = Run(finished.run, finished.folder, asked.command)
    if rows.is_interrupted:
        raise Interrupted("compare: interrupted; `.result` holds the finished rows", rows)
    (shown,) = finished.shown.tables
    columns = ["criterion", *shown.columns[1:]]
    table = polars.DataFrame(shown.rows, schema=columns, orient="row")
    sentences = dict(finished.shown.remarks)[CANDIDATES]
    return Comparison(rows, table, finished.shown.headline, sentences, finished.cuts)


def _names(given: Iterable[str] | str | Path | None) -> str | None:
    if given is None or isinstance(given, str | Path):
        return None if given is None else str(given)
    return ",".join(map(str, given))
