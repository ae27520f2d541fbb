"""`nandlab fio`."""

from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter


def fio(
    job_file: Path,
    /,
    *,
    device: str | None = None,
    scheduler: str = "noop",
    board: str | None = None,
    precondition: str = "fill",
    seed: int = 1,
    most_requests: int | None = None,
    logs: Path | None = None,
    timeline: Path | None = None,
    parse_only: Annotated[bool, Parameter(negative=())] = False,
    showcmd: Annotated[bool, Parameter(negative=())] = False,
    out: Annotated[Path | None, Parameter(name="--output")] = None,
    json: Annotated[bool, Parameter(negative=())] = False,
    output_format: Literal["normal", "json", "json+"] = "normal",
) -> int:
    """Run a job file of fio on a simulated device and print fio's report.

    Requests go through a scheduler to the device in simulated time. docs/fio.md lists the keys that
    are honoured, ignored and refused. Conditions and notes go to standard error.

    Parameters
    ----------
    job_file
        Job file of fio.
    device
        Use this device (see `nandlab list devices`), or the device of this .toml file.
    scheduler
        Use this scheduler (see `nandlab list schedulers`).
    board
        Use this host (see `nandlab list boards`). Without it: emulated-pc, whose calls take no
        time, or odroid-xu if a job uses the page cache.
    precondition
        Write this before the jobs: none, fill (every page once), random:PERCENT (fill, then so many
        percent of the pages at random) or steady (see docs/commands.md).
    seed
        Set the seed of the preconditioning and of the jobs.
    most_requests
        Stop each group of jobs after this many requests. Without it: refuse a group that makes more
        than 2,000,000.
    logs
        Write the logs that the job file asks for into this folder. Without it: write none.
    timeline
        Write what requests, dies and processes did when into this file, which Perfetto opens.
    parse_only
        Check the job file only.
    showcmd
        Show the job file as a command line of fio.
    out
        Write the report into this file. Without it: print it.
    json
        Print JSON with the conditions, in the shape of all commands.
    output_format
        Print the report in this form of fio.

    """
    import sys

    from nandlab.api.fio import fio as run
    from nandlab.api.interrupted import Interrupted
    from nandlab.errors import NandlabError
    from nandlab.interruption import received
    from nandlab.outputs import check_file
    from nandlab.terminal.output import print_json

    if json and output_format != "normal":
        raise NandlabError(
            f"--json and --output-format {output_format} exclude each other: give one"
        )
    if out is not None:
        check_file(out)
    try:
        found = run(
            job_file,
            device=device,
            scheduler=scheduler,
            board=board,
            precondition=precondition,
            seed=seed,
            most_requests=most_requests,
            form=output_format,
            logs=logs,
            timeline=timeline,
            parse_only=parse_only,
            showcmd=showcmd,
        )
    except Interrupted:
        # The status is that of the signal, and half a report would be taken for a whole one.
        raise received() or KeyboardInterrupt from None
    for line in _told(found.answer):
        print(f"nandlab: {line}", file=sys.stderr)
    if json:
        print_json("fio", found.answer)
    elif out is None:
        sys.stdout.write(found.text)
    else:
        _keep(out, found)
    return 0


def _state_before(precondition: str) -> str:
    """What the device held before the jobs."""
    if precondition == "none":
        return "device erased before"
    state = "every page written once before"
    if precondition == "steady":
        return f"{state}, then at random until write amplification is steady"
    share = precondition.removeprefix("random:")
    return state if precondition == "fill" else f"{state}, then {share} % of them again at random"


def _told(answer: dict[str, Any]) -> list[str]:
    """Conditions and notes, a line each."""
    told = [f"note: {note}" for note in answer["notes"]]
    conditions = answer.get("conditions")
    if conditions is None:
        return told
    state = _state_before(conditions["precondition"])
    words = (
        f"{conditions['device']}, scheduler {conditions['scheduler']}, "
        f"board {conditions['board']}; {state}; seed {conditions['seed']}, n = {conditions['n']}"
    )
    return [words, *told]


def _keep(out: Path, found: Any) -> None:
    from nandlab.errors import NandlabError
    from nandlab.outputs import keep, write_whole

    def write(target: Path) -> None:
        write_whole(target, found.text.encode())

    try:
        keep(out, write)
    except NandlabError as error:
        error.result = found
        raise
