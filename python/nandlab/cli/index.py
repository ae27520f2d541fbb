"""`nandlab index`."""

from pathlib import Path


def index(out: Path, /) -> int:
    """Write a page that leads to the reports of all runs in a folder.

    Parameters
    ----------
    out
        Folder that holds the folders of runs.

    """
    from nandlab.report.index import write_index
    from nandlab.terminal.output import print_text

    path, count = write_index(out)
    print_text(f"{path}: {count} runs")
    return 0
