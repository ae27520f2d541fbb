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
    cleaning: str | None = None,
    workload: Path | None = None,
    part: str = "k9f2g08u0c",
    blocks: int | None = None,
    board: str | None = None,
    kernel: str | None = None,
    option: Annotated[list[str] | None, Parameter(negative=())] = None,
    question: str | None = None,
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
    and power cuts. With both options, each file system runs on a card with each layer. Layers,
    schedulers and cleaning policies may be your own: FILE.py:CLASS.

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
    cleaning
        Use these cleaning policies in layers with a choice of them, separated by commas (see
        `nandlab list policies`). Without it: greedy.
    workload
        Run this workload file: a script of system calls, IOzone, or a block trace for --ftl.
    part
        Use these chips, separated by commas: names (see `nandlab list parts`) or part files.
    blocks
        Replace the number of blocks of the part.
    board
        Use these hosts, separated by commas: names (see `nandlab list boards`) or board files.
        Without it: the host of the workload file, or s5pv210-datasheet.
    kernel
        Use these kernels of the host, separated by commas, such as 2.6.29,6.12. Without it: the
        kernel of the workload file, or of the board.
    option
        Set mount options of a file system, such as ubifs:compr=zlib, or ubifs:- for none. May be
        repeated, and each is a candidate.
    question
        Choose what the answer is about, separated by commas: speed, latency, life, power-cuts,
        memory, mounting. Without it: the answer weighs what was measured.
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
    given["--cleaning"] = cleaning
    given |= {"--workload": workload, "--board": board, "--kernel": kernel, "--blocks": blocks}
    given |= {"--option": option, "--question": question}
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
            cleaning=cleaning,
            workload=workload,
            part=part,
            blocks=blocks,
            board=board,
            kernel=kernel,
            options=option or (),
            question=question,
            crash=crash,
            out=out,
            jobs=jobs,
        ),
        form,
    )


def _side_by_side(asked: "Asked", form: str) -> int:
    from nandlab.cli import EXIT_DIFFERENT
    from nandlab.comparison.candidates_run import run
    from nandlab.interruption import received
    from nandlab.terminal.output import print_json, print_text
    from nandlab.terminal.progress import progress_bar

    try:
        with progress_bar("compare") as progress:
            finished = run(asked, progress)
    except KeyboardInterrupt:
        # Power cuts are made before the first candidate runs.
        if form != "json":
            print_text("Interrupted: no candidate had finished, so there is no table.")
        raise
    found = finished.run
    if form == "json":
        print_json("compare", _side_by_side_data(finished))
    elif found.interrupted:
        finished.shown.print()
        if finished.folder is not None:
            print_text(f"The results of the finished runs are in {finished.folder}.")
    else:
        finished.shown.print()
        if finished.cuts:
            _print_cuts(finished.cuts)
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
    """The comparison as data; after an interruption with the finished candidates."""
    from dataclasses import asdict

    from nandlab.comparison.candidates import candidates, unfinished
    from nandlab.present.page import in_words

    run = finished.run
    found = candidates(run)
    return {
        "conditions": in_words(finished.shown.conditions),
        "headline": finished.shown.headline,
        "candidates": [{"name": one.label, **asdict(one)} for one in found],
        "power_cuts": [asdict(one) for one in finished.cuts],
        "folder": None if finished.folder is None else str(finished.folder),
        "results_digest": run.results_digest,
        "interrupted": run.interrupted,
        "unfinished": unfinished(run) if run.interrupted else [],
    }


def _compare_runs(first: Path, second: Path, form: str) -> int:
    from nandlab.cli import EXIT_DIFFERENT
    from nandlab.frame import read
    from nandlab.frame.difference import compare_runs
    from nandlab.present.page import conditions_of, in_words
    from nandlab.terminal.output import print_json, print_table, print_text

    found = compare_runs(first, second)
    held = [in_words(conditions_of(read(one))) for one in (first, second)]
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
        told: dict[str, object] = {
            "digests_are_equal": found.equal_digest,
            "rows": found.rows_compared,
        }
        told |= {"conditions": held, "differences": differences, "notes": found.notes}
        print_json("compare", told)
        return exit_code
    if held[0] == held[1]:
        print_text(f"Conditions of both: {held[0]}")
    else:
        for run, words in zip((first, second), held, strict=True):
            print_text(f"Conditions of {run}: {words}")
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
