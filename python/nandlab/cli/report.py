"""`nandlab report`."""

from pathlib import Path

from nandlab.cli.output_options import Output


def report(run: Path, /, *, output: Output | None = None) -> int:
    """Render the report of a run again, from its results.

    Parameters
    ----------
    run
        Folder of the run.
    output
        How to print the answer.

    """
    from nandlab.cli.output_options import form_of
    from nandlab.cli.run import answer_of
    from nandlab.frame import read
    from nandlab.frame.run_directory import read_manifest
    from nandlab.present import write_report
    from nandlab.present.page import REPORT
    from nandlab.terminal.output import print_json, print_text

    form = form_of(output)
    found = read(run)
    command = str(read_manifest(run).get("command") or f"nandlab run {found.name}")
    shown = write_report(run, found, command)
    if form == "json":
        print_json("report", answer_of(run))
        return 0
    print_text(shown.headline)
    print_text(f"Report: {run / REPORT}")
    return 0
