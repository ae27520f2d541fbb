"""`nandlab compare`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

if TYPE_CHECKING:
    from nandlab.comparison.candidates_run import Asked

_SHOWN_MAX = 40


def compare(
    first: Path | None = None,
    second: Path | None = None,
    /,
    *,
    fs: str | None = None,
    ftl: str | None = None,
    scheduler: str | None = None,
    workload: Path | None = None,
    part: str = "k9f2g08u0c",
    blocks: int | None = None,
    board: str | None = None,
    kernel: str | None = None,
    crash: Annotated[bool, Parameter(negative=())] = False,
    out: Path | None = None,
    jobs: int | None = None,
) -> int:
    """Compare two runs, or file systems or translation layers on a workload of your own.

    nandlab compare RUN RUN lists the rows of two runs that differ. Exit code 0 if their digests are
    equal, else 1.

    nandlab compare --fs NAMES --workload FILE, or --ftl NAMES, runs the workload on each candidate
    and ends in a table to decide from: throughput, latency, mounts, memory, wear, power cuts; with
    a sentence on each. With both, file systems on a block device stand on a card with each of the
    layers. docs/compare.md describes workload files.

    Parameters
    ----------
    first
        Folder of a run.
    second
        Folder of the other run.
    fs
        File systems, with commas between them (see `nandlab list file-systems`).
    ftl
        Translation layers, alone or in cards under file systems (see `nandlab list ftls`).
    scheduler
        I/O schedulers under file systems on a block device; noop if left out.
    workload
        Workload file: a script of system calls, IOzone, or a block trace for --ftl.
    part
        Chip: a name (see `nandlab list parts`), in capitals or not, or a part file.
    blocks
        Blocks of the device, in place of the part's own number.
    board
        Host of file systems: a name (see `nandlab list boards`) or a board file, in place of the
        workload file's; s5pv210-datasheet if neither names one.
    kernel
        Kernel of the host, such as 6.12, in place of the workload file's; the board's own if
        neither says one, which is 2.6.29 of s5pv210-datasheet.
    crash
        Cut the power of the script at a sample of its operations, too, and look at what is left.
    out
        Folder for results and report; without it only the table is shown.
    jobs
        Runs at the same time; as many as there are processors if left out. Does not change results.

    """
    from nandlab.errors import NandlabError

    given: dict[str, object] = {"--fs": fs, "--ftl": ftl, "--scheduler": scheduler}
    given |= {"--workload": workload, "--board": board, "--kernel": kernel, "--blocks": blocks}
    asked = [option for option, value in given.items() if value is not None]
    if first is not None:
        if asked:
            raise NandlabError(
                f"{asked[0]}: {first} is a run, and two runs are compared as they are; "
                "leave out either the runs or the options"
            )
        if second is None:
            raise NandlabError(f"{first}: name the second run, too")
        return _compare_runs(first, second)
    from nandlab.comparison.candidates_run import Asked

    return _side_by_side(
        Asked(
            file_systems=fs,
            layers=ftl,
            schedulers=scheduler,
            workload=workload,
            part=part,
            blocks=blocks,
            board=board,
            kernel=kernel,
            crash=crash,
            out=out,
            jobs=jobs,
        )
    )


def _side_by_side(asked: "Asked") -> int:
    from nandlab.cli import EXIT_DIFFERENT
    from nandlab.comparison.candidates_run import run
    from nandlab.comparison.conditions import conditions
    from nandlab.comparison.view import View
    from nandlab.interruption import received
    from nandlab.terminal.comparison_table import print_comparison, print_cuts
    from nandlab.terminal.output import print_text
    from nandlab.terminal.progress import progress_bar

    with progress_bar("compare") as progress:
        finished = run(asked, progress)
    result = finished.result
    if result.interrupted:
        print_text("Interrupted: not every candidate was run, so there is no table.")
        print_text(f"Asked for: {conditions(result.study)}")
        if result.rows.rows:
            print_text(f"The results of the runs that finished are in {finished.folder}.")
        raise received() or KeyboardInterrupt
    if finished.cuts:
        print_cuts(finished.cuts)
    print_comparison(View(result), finished.verdict)
    if finished.folder is not None:
        print_text(f"\nReport: {finished.folder / 'report.html'}")
    print_text(f"Digest: {result.results_digest}")
    return EXIT_DIFFERENT if any(one.violations for one in finished.cuts) else 0


def _compare_runs(first: Path, second: Path) -> int:
    from nandlab.cli import EXIT_DIFFERENT
    from nandlab.results.comparison import compare_runs
    from nandlab.terminal.output import print_table, print_text

    comparison = compare_runs(first, second)
    for note in comparison.notes:
        print_text(f"Note: {note}")
    if comparison.differences:
        print_table(
            "",
            ("run", "metric", "first", "second", "change"),
            [
                (
                    " ".join(f"{axis}={value}" for axis, value in one.place),
                    one.metric,
                    _shown(one.first),
                    _shown(one.second),
                    f"{one.relative:+.2%}" if one.relative is not None else "-",
                )
                for one in comparison.differences[:_SHOWN_MAX]
            ],
            frozenset({2, 3, 4}),
        )
        if len(comparison.differences) > _SHOWN_MAX:
            print_text(f"... and {len(comparison.differences) - _SHOWN_MAX} more")
    print_text(
        f"{len(comparison.differences)} of {comparison.rows_compared} rows differ; digests are "
        f"{'equal' if comparison.equal_digest else 'different'}."
    )
    return 0 if comparison.equal_digest else EXIT_DIFFERENT


def _shown(value: float | None) -> str:
    return "missing" if value is None else f"{value:,.6g}"
