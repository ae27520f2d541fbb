"""`nandlab validate`."""

from pathlib import Path


def validate(*, out: Path | None = None) -> int:
    """Replay the recorded workloads on raw NAND and compare operation counts with real code.

    The page also tells where the order of operations first departs from the recorded one.
    Exit code 1 if a figure is not as near as asked and nothing explains that. If it is stopped, the
    comparisons that are done are printed, and no file is written.

    Parameters
    ----------
    out
        Where the page is written, as docs/validation.md; it is printed if left out.

    """
    import sys

    from nandlab.cli import EXIT_DIFFERENT
    from nandlab.interruption import received
    from nandlab.outputs import check_file
    from nandlab.terminal.progress import progress_bar
    from nandlab.validation.comparison import compare
    from nandlab.validation.page import render
    from nandlab.validation.workloads import find_workloads
    from nandlab.whole_files import keep_text

    if out is not None:
        check_file(out)
    with progress_bar("validate") as progress:
        comparison = compare(find_workloads(), progress)
    page = render(comparison)
    if comparison.unfinished:
        # What there is of it takes the place of no whole page.
        sys.stdout.write(page)
        print(f"Interrupted: {comparison.unfinished} workloads were not compared.", file=sys.stderr)
        raise received() or KeyboardInterrupt
    keep_text(out, page)
    if out is None:
        sys.stdout.write(page)
    wrong = [one for one in comparison.figures if not one.holds and one.explanation is None]
    for figure in wrong:
        print(f"differs: {figure.workload.name} {figure.phase} {figure.kind}", file=sys.stderr)
    return EXIT_DIFFERENT if wrong else 0
