"""`nandlab index`."""

from pathlib import Path


def index(out: Path, /) -> int:
    """Write a page that leads to the reports of all runs in a folder.

    A folder that is no run of a study is left out, and said to be.

    Parameters
    ----------
    out
        Folder that holds the folders of runs.

    """
    import sys

    from nandlab.report.index import write_index
    from nandlab.terminal.output import print_text

    written = write_index(out)
    for reason in written.left_out:
        print(f"nandlab: left out: {reason}", file=sys.stderr)
    runs = f"{written.runs} run" + ("" if written.runs == 1 else "s")
    print_text(f"{written.path}: {runs}")
    return 0
