"""`nandlab search`."""

from nandlab.api import search as api
from nandlab.cli.action import Given, command
from nandlab.present.page import REPORT
from nandlab.terminal.output import counted, print_text


@command("search", api.search)
def search(found: api.Search, given: Given) -> None:
    """Search a space of parts, layers and options, down to one recommendation.

    The file names a base study, and axes with the values that they may take. Every point is a study
    of its own, kept in the folder. The answer is a figure, a table and one recommendation. A
    stopped search goes on where it ended. The exit status is 1 if no point could be run.

    The search needs Optuna: pip install "nandlab[search]".
    """
    shown = found.shown
    front = next((one for one in shown.tables if one.identifier == "front"), None)
    if front is not None:
        front.print()
        print_text(front.caption)
    for title, sentences in shown.remarks:
        print_text(f"\n{title}")
        print_text("\n".join(sentences))
    for one in found.answer["refused"]:
        print_text(f"Not possible, {counted(one['points'], 'point')}: {one['reason']}")
    print_text(f"\n{found.headline}")
    print_text(f"Report: {found.folder / REPORT}")
    print_text(f"Digest: {found.answer['digest']}")
