"""`nandlab report`."""

from pathlib import Path


def report(run: Path, /) -> int:
    """Render the report of a run again, from its results.

    Parameters
    ----------
    run
        Folder of the run.

    """
    from nandlab.report.page import REPORT
    from nandlab.results.run_directory import read_manifest, read_results
    from nandlab.study_runs import write_report_of
    from nandlab.terminal.output import print_text

    result = read_results(run)
    command = str(read_manifest(run).get("command") or f"nandlab run {result.name}")
    verdict = write_report_of(run, result, command)
    print_text(verdict.headline)
    print_text(f"Report: {run / REPORT}")
    return 0
