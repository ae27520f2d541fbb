"""`nandlab index`."""

from pathlib import Path

from nandlab.cli.output_options import Output


def index(out: Path, /, *, output: Output | None = None) -> int:
    """Write a page that links the reports of all runs in a folder.

    Other folders are left out and reported.

    Parameters
    ----------
    out
        Folder that holds the folders of runs.
    output
        How to print the answer.

    """
    import sys

    from nandlab.cli.output_options import form_of
    from nandlab.present.front import write_index
    from nandlab.terminal.output import counted, print_json, print_text

    form = form_of(output)
    written = write_index(out)
    if form == "json":
        left_out = list(written.left_out)
        page = str(written.path)
        print_json("index", {"page": page, "runs": written.runs, "left_out": left_out})
        return 0
    for reason in written.left_out:
        print(f"nandlab: left out: {reason}", file=sys.stderr)
    print_text(f"{written.path}: {counted(written.runs, 'run')}")
    return 0
