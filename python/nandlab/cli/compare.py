"""`nandlab compare`."""

from pathlib import Path

_SHOWN_MAX = 40


def compare(first: Path, second: Path, /) -> int:
    """Compare two runs row by row. Exit code 0 if their digests are equal, else 1.

    Parameters
    ----------
    first
        Folder of a run.
    second
        Folder of the other run.

    """
    from nandlab.cli import EXIT_DIFFERENT
    from nandlab.results.comparison import compare_runs
    from nandlab.terminal.output import print_table, print_text

    comparison = compare_runs(first, second)
    for note in comparison.notes:
        print_text(f"Note: {note}")
    if comparison.differences:
        print_table(
            "",
            ("run", "metric", "first", "second", "change"),
            [
                (
                    " ".join(f"{axis}={value}" for axis, value in one.place),
                    one.metric,
                    _shown(one.first),
                    _shown(one.second),
                    f"{one.relative:+.2%}" if one.relative is not None else "-",
                )
                for one in comparison.differences[:_SHOWN_MAX]
            ],
            frozenset({2, 3, 4}),
        )
        if len(comparison.differences) > _SHOWN_MAX:
            print_text(f"... and {len(comparison.differences) - _SHOWN_MAX} more")
    print_text(
        f"{len(comparison.differences)} of {comparison.rows_compared} rows differ; digests are "
        f"{'equal' if comparison.equal_digest else 'different'}."
    )
    return 0 if comparison.equal_digest else EXIT_DIFFERENT


def _shown(value: float | None) -> str:
    return "missing" if value is None else f"{value:,.6g}"
