"""`nandlab validate`."""

from pathlib import Path
from typing import TYPE_CHECKING

from nandlab.cli.output_options import Output

if TYPE_CHECKING:
    from nandlab.validation.comparison import Figure


def validate(*, out: Path | None = None, output: Output | None = None) -> int:
    """Compare operation counts with those of real kernels.

    The recorded workloads run on simulated raw NAND. The page also shows where the order of
    operations first differs from the recorded order.

    The exit status is 1 if a figure is outside its tolerance without an explanation. After an
    interruption the finished comparisons are printed, and no file is written.

    Parameters
    ----------
    out
        Write the page to this file. Without it: print the page.
    output
        How to print the figures; a table is the page itself.

    """
    import sys

    from nandlab.cli import EXIT_DIFFERENT
    from nandlab.cli.output_options import form_of
    from nandlab.interruption import received
    from nandlab.outputs import check_file
    from nandlab.terminal.output import counted, print_json
    from nandlab.terminal.progress import progress_bar
    from nandlab.validation.comparison import compare
    from nandlab.validation.page import render
    from nandlab.validation.workloads import find_workloads
    from nandlab.whole_files import keep_text

    form = form_of(output)
    if out is not None:
        check_file(out)
    with progress_bar("validate") as progress:
        comparison = compare(find_workloads(), progress)
    page = render(comparison)
    if comparison.unfinished:
        # An incomplete page never replaces a complete one.
        if form == "json":
            print_json("validate", list(map(_row, comparison.figures)))
        else:
            sys.stdout.write(page)
        print(
            f"Interrupted: {counted(comparison.unfinished, 'workload')} not compared.",
            file=sys.stderr,
        )
        raise received() or KeyboardInterrupt
    keep_text(out, page)
    if form == "json":
        print_json("validate", list(map(_row, comparison.figures)))
    elif out is None:
        sys.stdout.write(page)
    wrong = [one for one in comparison.figures if not one.holds and one.explanation is None]
    for figure in wrong:
        print(f"differs: {figure.workload.name} {figure.phase} {figure.kind}", file=sys.stderr)
    return EXIT_DIFFERENT if wrong else 0


def _row(figure: "Figure") -> dict[str, object]:
    return {
        "workload": figure.workload.name,
        "phase": figure.phase,
        "kind": figure.kind,
        "recorded": figure.recorded,
        "simulated": figure.shown,
        "difference": figure.difference,
        "holds": figure.holds,
        "explanation": figure.explanation,
    }
