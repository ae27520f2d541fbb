"""`nandlab compare`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from nandlab.cli.output_options import Output

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nandlab.comparison.candidates_run import Asked, FinishedComparison
    from nandlab.comparison.cuts import Cuts

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
    from nandlab.comparison.conditions import conditions, in_words
    from nandlab.interruption import received
    from nandlab.terminal.output import print_json, print_text
    from nandlab.terminal.progress import progress_bar

    with progress_bar("compare") as progress:
        finished = run(asked, progress)
    found = finished.run
    if form == "json":
        print_json("compare", _side_by_side_data(finished))
    elif found.interrupted:
        print_text("Interrupted: some candidates were not run, so there is no table.")
        print_text(f"Asked for: {in_words(conditions(found.study))}")
        if finished.folder is not None:
            print_text(f"The results of the finished runs are in {finished.folder}.")
    else:
        if finished.cuts:
            _print_cuts(finished.cuts)
        print_text(f"Conditions: {in_words(conditions(found.study))}")
        finished.shown.print()
        if finished.folder is not None:
            print_text(f"\nReport: {finished.folder / 'report.html'}")
        print_text(f"Digest: {found.results_digest}")
    if found.interrupted:
        raise received() or KeyboardInterrupt
    return EXIT_DIFFERENT if any(one.violations for one in finished.cuts) else 0


def _print_cuts(cuts: "Sequence[Cuts]") -> None:
    from nandlab.comparison.cuts import BLOCKS
    from nandlab.terminal.output import print_table

    rows = [
        (one.file_system, f"{one.cuts:,}", f"{one.hazards:,}", f"{one.violations:,}", one.note)
        for one in cuts
    ]
    columns = ("file system", "power cuts", "known hazards", "violations", "")
    title = f"A sample of power cuts in the script, on {BLOCKS} blocks of the part"
    print_table(title, columns, rows, frozenset({1, 2, 3}))


def _side_by_side_data(finished: "FinishedComparison") -> dict[str, object]:
    """The comparison as data; without candidates after an interruption."""
    from dataclasses import asdict

    from nandlab.comparison.candidates import candidates
    from nandlab.comparison.conditions import conditions, in_words

    run = finished.run
    found = [] if run.interrupted else candidates(run)
    return {
        "conditions": in_words(conditions(run.study)),
        "headline": finished.shown.headline,
        "candidates": [{"name": one.label, **asdict(one)} for one in found],
        "power_cuts": [asdict(one) for one in finished.cuts],
        "folder": None if finished.folder is None else str(finished.folder),
        "results_digest": run.results_digest,
        "interrupted": run.interrupted,
    }


def _compare_runs(first: Path, second: Path, form: str) -> int:
    from nandlab.cli import EXIT_DIFFERENT
    from nandlab.frame.difference import compare_runs
    from nandlab.terminal.output import print_json, print_table, print_text

    found = compare_runs(first, second)
    exit_code = 0 if found.equal_digest else EXIT_DIFFERENT
    if form == "json":
        differences = [
            {
                "run": dict(one.place),
                "metric": one.metric,
                "first": one.first,
                "second": one.second,
                "relative_change": one.relative,
            }
            for one in found.rows
        ]
        told = {"digests_are_equal": found.equal_digest, "rows": found.rows_compared}
        print_json("compare", told | {"differences": differences, "notes": found.notes})
        return exit_code
    for note in found.notes:
        print_text(f"Note: {note}")
    if found.rows:
        rows = [
            (
                " ".join(f"{axis}={value}" for axis, value in one.place),
                one.metric,
                _shown(one.first),
                _shown(one.second),
                f"{one.relative:+.2%}" if one.relative is not None else "-",
            )
            for one in found.rows[:_SHOWN_MAX]
        ]
        columns = ("run", "metric", "first", "second", "change")
        print_table("", columns, rows, frozenset({2, 3, 4}))
        if len(found.rows) > _SHOWN_MAX:
            print_text(f"... and {len(found.rows) - _SHOWN_MAX} more")
    print_text(
        f"Different rows: {len(found.rows)} of {found.rows_compared}. "
        f"The digests are {'equal' if found.equal_digest else 'different'}."
    )
    return exit_code


def _shown(value: float | None) -> str:
    return "missing" if value is None else f"{value:,.6g}"
