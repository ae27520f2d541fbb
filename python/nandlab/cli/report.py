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
    from nandlab.present.page import REPORT
    from nandlab.results.run_directory import read_manifest, read_results
    from nandlab.study_runs import write_report_of
    from nandlab.terminal.output import print_json, print_text

    form = form_of(output)
    result = read_results(run)
    command = str(read_manifest(run).get("command") or f"nandlab run {result.name}")
    verdict = write_report_of(run, result, command)
    if form == "json":
        print_json("report", answer_of(run))
        return 0
    print_text(verdict.headline)
    print_text(f"Report: {run / REPORT}")
    return 0
