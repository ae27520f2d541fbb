"""`nandlab compare`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from nandlab.cli.output_options import Output

if TYPE_CHECKING:
    from nandlab.comparison.candidates_run import Asked, FinishedComparison

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
    output: Output | None = None,
) -> int:
    """Compare two runs, or candidates on a workload of your own.

    `nandlab compare FIRST SECOND` lists the rows of two runs that differ. The exit status is 0 if
    their digests are equal, else 1.

    `nandlab compare --fs NAMES --workload FILE` runs the workload on each file system, and --ftl
    NAMES on each translation layer. The table compares throughput, latency, mounts, memory, wear
    and power cuts. With both options, each file system runs on a card with each layer.

    docs/compare.md describes workload files.

    Parameters
    ----------
    first
        Folder of a run.
    second
        Folder of the other run.
    fs
        Compare these file systems, separated by commas (see `nandlab list file-systems`).
    ftl
        Compare these translation layers, separated by commas (see `nandlab list ftls`).
    scheduler
        Use these I/O schedulers under file systems on a block device. Without it: noop.
    workload
        Run this workload file: a script of system calls, IOzone, or a block trace for --ftl.
    part
        Use this chip: a name (see `nandlab list parts`) or a part file.
    blocks
        Replace the number of blocks of the part.
    board
        Use this host: a name (see `nandlab list boards`) or a board file. Without it: the host of
        the workload file, or s5pv210-datasheet.
    kernel
        Use this kernel of the host, such as 6.12. Without it: the kernel of the workload file, or
        of the board.
    crash
        Also cut the power at a sample of the script's operations and check recovery.
    out
        Write results and report into this folder. Without it: print the table only.
    jobs
        Run this many candidates at the same time. Without it: one for each processor. Results do
        not depend on it.
    output
        How to print the answer.

    """
    from nandlab.cli.output_options import form_of
    from nandlab.errors import NandlabError

    form = form_of(output)
    given: dict[str, object] = {"--fs": fs, "--ftl": ftl, "--scheduler": scheduler}
    given |= {"--workload": workload, "--board": board, "--kernel": kernel, "--blocks": blocks}
    asked = [option for option, value in given.items() if value is not None]
    if first is not None:
        if asked:
            raise NandlabError(
                f"{asked[0]}: the option does not go with the run {first}; "
                "give either two runs or options"
            )
        if second is None:
            raise NandlabError(f"{first}: the second run is missing; name two runs")
        return _compare_runs(first, second, form)
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
        ),
        form,
    )


def _side_by_side(asked: "Asked", form: str) -> int:
    from nandlab.cli import EXIT_DIFFERENT
    from nandlab.comparison.candidates_run import run
    from nandlab.comparison.conditions import conditions
    from nandlab.comparison.view import View
    from nandlab.interruption import received
    from nandlab.terminal.comparison_table import print_comparison, print_cuts
    from nandlab.terminal.output import print_json, print_text
    from nandlab.terminal.progress import progress_bar

    with progress_bar("compare") as progress:
        finished = run(asked, progress)
    result = finished.result
    if form == "json":
        print_json("compare", _side_by_side_data(finished))
        if result.interrupted:
            raise received() or KeyboardInterrupt
        return EXIT_DIFFERENT if any(one.violations for one in finished.cuts) else 0
    if result.interrupted:
        print_text("Interrupted: some candidates were not run, so there is no table.")
        print_text(f"Asked for: {conditions(result.study)}")
        if result.rows.rows:
            print_text(f"The results of the finished runs are in {finished.folder}.")
        raise received() or KeyboardInterrupt
    if finished.cuts:
        print_cuts(finished.cuts)
    print_comparison(View(result), finished.verdict)
    if finished.folder is not None:
        print_text(f"\nReport: {finished.folder / 'report.html'}")
    print_text(f"Digest: {result.results_digest}")
    return EXIT_DIFFERENT if any(one.violations for one in finished.cuts) else 0


def _side_by_side_data(finished: "FinishedComparison") -> dict[str, object]:
    """The comparison as data; without candidates after an interruption."""
    from dataclasses import asdict

    from nandlab.comparison.conditions import conditions
    from nandlab.comparison.view import View

    result = finished.result
    candidates = () if result.interrupted else View(result).candidates
    return {
        "conditions": conditions(result.study),
        "candidates": [{"name": one.label, **asdict(one)} for one in candidates],
        "power_cuts": [asdict(one) for one in finished.cuts],
        "folder": None if finished.folder is None else str(finished.folder),
        "results_digest": result.results_digest,
        "interrupted": result.interrupted,
    }


def _compare_runs(first: Path, second: Path, form: str) -> int:
    from nandlab.cli import EXIT_DIFFERENT
    from nandlab.results.comparison import compare_runs
    from nandlab.terminal.output import print_json, print_table, print_text

    comparison = compare_runs(first, second)
    if form == "json":
        differences = [
            {
                "run": dict(one.place),
                "metric": one.metric,
                "first": one.first,
                "second": one.second,
                "relative_change": one.relative,
            }
            for one in comparison.differences
        ]
        found = {"digests_are_equal": comparison.equal_digest, "rows": comparison.rows_compared}
        print_json("compare", found | {"differences": differences, "notes": comparison.notes})
        return 0 if comparison.equal_digest else EXIT_DIFFERENT
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
        f"Different rows: {len(comparison.differences)} of {comparison.rows_compared}. "
        f"The digests are {'equal' if comparison.equal_digest else 'different'}."
    )
    return 0 if comparison.equal_digest else EXIT_DIFFERENT


def _shown(value: float | None) -> str:
    return "missing" if value is None else f"{value:,.6g}"
