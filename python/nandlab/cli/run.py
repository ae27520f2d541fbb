"""`nandlab run`."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from nandlab.cli.output_options import Output

_NOTES_MAX = 8
"""Notes that are printed; the report has all of them."""

_STACK = ("file_system", "kernel", "profile", "board", "part", "blocks")
"""What a plan shows of the stack of a file system."""


def run(
    study: str,
    /,
    *,
    out: Path | None = None,
    jobs: int | None = None,
    sets: Annotated[list[str] | None, Parameter(name="--set", negative=())] = None,
    seed: int | None = None,
    quick: Annotated[bool, Parameter(negative=())] = False,
    timeline: Path | None = None,
    cluster: str | None = None,
    cells: Path | None = None,
    fresh: Annotated[bool, Parameter(negative=())] = False,
    dry_run: Annotated[bool, Parameter(negative=())] = False,
    output: Output | None = None,
) -> int:
    """Run a study: every combination of its axes, then verdict and report.

    Parameters
    ----------
    study
        Name of a shipped study (see `nandlab list studies`), or path of a study file.
    out
        Write results and report into this folder. Without it: out/STUDY. An earlier run there is
        replaced when the new one is complete.
    jobs
        Run this many combinations at the same time. Without it: one for each processor. Results do
        not depend on it.
    sets
        Change a value of the study file, as KEY=VALUE with dots between levels. May be repeated.
    seed
        Replace the seed of the study.
    quick
        Run the short form: a part of each trace, or fewer requests.
    timeline
        Write what happened when in the first run into this file, which Perfetto opens. Name one
        value of each axis with --set to choose another run. Needs a study of kind `jobs`, `ioping`,
        `iozone` or `raw-nand`.
    cluster
        Run the combinations on a Dask cluster: dask://HOST:PORT, local:WORKERS or slurm:FILE. The
        digest stays the same. Needs `pip install 'nandlab[cluster]'`.
    cells
        Keep finished combinations in this folder, and take from it what any study has finished
        there. Without it: OUT.cells, until the run is whole; a later call goes on from there.
    fresh
        Run all combinations again, also those that are finished.
    dry_run
        Check the study, print its plan and stop. With --cluster slurm:FILE, print the script of a
        job as well.
    output
        How to print the answer.

    """
    from nandlab.cells import CellChoice
    from nandlab.cli.output_options import form_of
    from nandlab.interruption import received
    from nandlab.study_files import find_study
    from nandlab.study_runs import RunRequest
    from nandlab.study_runs import run as run_study
    from nandlab.terminal.output import counted, print_json, print_text
    from nandlab.terminal.progress import progress_bar

    form = form_of(output)
    request = RunRequest(
        study=study,
        path=find_study(study),
        out=out or Path(),
        sets=sets or [],
        seed=seed,
        quick=quick,
        jobs=jobs,
        timeline=timeline,
        cluster=cluster,
    )
    resolved = request.plan()
    if dry_run:
        script = None if cluster is None else _job_script(cluster)
        if form == "json":
            of_job = {} if script is None else {"job_script": script}
            print_json("run", {"plan": resolved, **of_job})
        else:
            _print_plan(resolved)
            if script is not None:
                print_text(f"\nScript of a job:\n{script}")
        return 0
    target = Path("out") / str(resolved["name"]) if out is None else out
    choice = CellChoice.beside(target, is_fresh=fresh)
    if cells is not None:
        choice = CellChoice(cells, stays=True, is_fresh=fresh)
    request = replace(request, out=target, cells=choice)
    with progress_bar(str(resolved["name"])) as progress:
        finished = run_study(request, progress)
    if form == "json":
        counts = {} if finished.cells is None else {"cells": finished.cells.as_data()}
        print_json("run", {**answer_of(finished.folder), **counts})
        if finished.run.interrupted:
            raise received() or KeyboardInterrupt
        return 0
    finished.shown.print()
    for line in () if finished.cells is None else finished.cells.notes():
        print_text(f"Cells: {line}.")
    for note in finished.run.notes[:_NOTES_MAX]:
        print_text(f"Note: {note}")
    if (more := len(finished.run.notes) - _NOTES_MAX) > 0:
        print_text(f"Note: the report has {counted(more, 'more note')}")
    if finished.run.interrupted:
        print_text(f"\nInterrupted: only the finished runs are in {finished.folder}.")
        print_text(f"`nandlab report {finished.folder}` renders their report.")
        if choice.folder.is_dir() and not (finished.cells and finished.cells.failure):
            print_text("The same command goes on from there.")
    else:
        print_text(f"\nReport: {finished.folder / 'report.html'}")
    print_text(f"Digest: {finished.run.results_digest}")
    if finished.run.interrupted:
        raise received() or KeyboardInterrupt
    return 0


def _job_script(cluster: str) -> str | None:
    """The script of a job, where a batch system starts the workers."""
    from nandlab.cells.place import place_of

    place = place_of(cluster)
    if place.slurm is None:
        return None
    from nandlab.cells.dask_clusters import job_script

    return job_script(place)


def answer_of(folder: Path) -> dict[str, object]:
    """What a finished run is, as data: the verdict is null after an interruption."""
    import json

    from nandlab.frame.run_directory import read_manifest
    from nandlab.present.page import REPORT

    manifest = read_manifest(folder)
    verdict = folder / "verdict.json"
    report = folder / REPORT
    return {
        "study": manifest["study"].get("name"),
        "folder": str(folder),
        "report": str(report) if report.is_file() else None,
        "results_digest": manifest["results_digest"],
        "interrupted": bool(manifest.get("interrupted")),
        "verdict": json.loads(verdict.read_text(encoding="utf-8")) if verdict.is_file() else None,
    }


def _print_plan(resolved: dict[str, object]) -> None:
    from nandlab.terminal.output import counted, print_table, print_text

    print_text(f"{resolved['name']}: {resolved.get('title', '')}")
    print_text(str(resolved.get("question", "")))
    axes = resolved.get("axes")
    if isinstance(axes, dict):
        order = resolved.get("columns")
        shown = [name for name in order if name in axes] if isinstance(order, list) else []
        # The column of an axis may have another name than the axis.
        names = [*shown, *(name for name in axes if name not in shown)]
        print_table(
            "Axes", ("axis", "values"), [(name, ", ".join(map(str, axes[name]))) for name in names]
        )
    facts = [
        (name, str(resolved[name]))
        for name in ("part", "seed", "repeats", "quick", "reference", "runs")
        if resolved.get(name) is not None
    ]
    print_table("Settings", ("key", "value"), facts)
    stacks = resolved.get("stacks")
    if isinstance(stacks, list) and stacks:
        # Several lines of the study differ in what is not shown here.
        rows = dict.fromkeys(tuple(str(stack[key]) for key in _STACK) for stack in stacks)
        print_table("Stacks", [key.replace("_", " ") for key in _STACK], list(rows))
    print_text(
        f"Planned: {counted(int(str(resolved['runs'])), 'run')}; nothing was run (--dry-run)."
    )
