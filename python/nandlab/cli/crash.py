"""`nandlab crash`."""

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from nandlab.terminal.output import OutputFormat

COLUMNS = ("cut_point", "torn", "kind", "path", "operation", "line", "expected", "found")


def crash(
    file: str,
    /,
    *,
    fs: str,
    part: str = "k9f2g08u0c",
    blocks: int = 64,
    pages_per_block: int | None = None,
    profile: str | None = None,
    every: int = 1,
    only: int | None = None,
    torn: Annotated[list[str] | None, Parameter(negative=())] = None,
    seed: int = 1,
    workers: int | None = None,
    out: Path | None = None,
    output_format: OutputFormat = "table",
) -> int:
    """Cut the power of a script at every operation of the chip, and look at what is left.

    The script runs once without a cut. Then, for each program and erase of that run and each way in
    which it can be torn, the file system is mounted from what the cut leaves, compared with what it
    guarantees, written once, and mounted again. docs/power-cuts.md says what is guaranteed and how
    to read a violation. The exit code is 0 if there is none, else 1.

    Parameters
    ----------
    file
        The script, or - for standard input. docs/scripts.md describes the language.
    fs
        File system (see `nandlab list file-systems`).
    part
        Chip: a name (see `nandlab list parts`) or a part file.
    blocks
        Blocks of the chip, in place of the part's own number.
    pages_per_block
        Pages of a block, in place of the part's own number: small ones are collected sooner.
    profile
        Kernel or library whose habits the file system has, such as linux-6.12.
    every
        Cut at each so many operations only.
    only
        Cut at this operation alone: the cut point that a violation names.
    torn
        nothing, prefix or data-only: what a torn operation leaves; may be repeated; else all.
    seed
        Draws what a kernel takes from its clock.
    workers
        Cut points side by side; as many as there are processors if left out.
    out
        Where all is written: JSON, or the violations as CSV if the name ends in .csv.
    output_format
        How to print the verdict.

    """
    import json
    import sys

    from nandlab import engine
    from nandlab.byte_sizes import natural_number
    from nandlab.cli.script import read_script
    from nandlab.interruption import received
    from nandlab.outputs import check_file
    from nandlab.terminal.progress import progress_bar
    from nandlab.whole_files import keep_text

    shown, text = read_script(file)
    arguments = {
        "fs": fs,
        "part": part,
        "blocks": natural_number("--blocks", blocks),
        "pages_per_block": None
        if pages_per_block is None
        else natural_number("--pages-per-block", pages_per_block),
        "profile": profile,
        "seed": natural_number("--seed", seed, least=0, bits=64),
        "every": natural_number("--every", every),
        "only": None if only is None else natural_number("--only", only, least=0),
        "torn": torn or [],
        "workers": None if workers is None else natural_number("--workers", workers, bits=10),
    }
    if out is not None:
        check_file(out)
    with progress_bar(shown) as progress:
        outcome = engine.cut_script(shown, text, arguments, progress)
    whole = json.dumps(outcome, indent=1) + "\n"
    as_csv = out is not None and out.suffix == ".csv"
    keep_text(out, _csv(outcome) if as_csv else whole)
    _print(outcome, output_format)
    if outcome["interrupted"]:
        print("Interrupted: not all cuts were made.", file=sys.stderr)
        raise received() or KeyboardInterrupt
    return 1 if violations(outcome) else 0


def violations(outcome: dict[str, Any]) -> list[dict[str, Any]]:
    """All violations, in the order of the torn models and cut points."""
    return [violation for torn in outcome["torn"] for violation in torn["violations"]]


def _csv(outcome: dict[str, Any]) -> str:
    import csv
    import io

    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(violations(outcome))
    return text.getvalue()


def _print(outcome: dict[str, Any], output_format: OutputFormat) -> None:
    import sys
    from collections import Counter

    from nandlab.terminal.output import print_json, print_table

    if output_format == "json":
        print_json(outcome)
        return
    if output_format == "csv":
        sys.stdout.write(_csv(outcome))
        return
    rows = []
    for torn in outcome["torn"]:
        kinds = Counter(violation["kind"] for violation in torn["violations"])
        rows.append(
            (
                torn["torn"],
                f"{torn['cuts']:,}",
                f"{torn['recovered']:,}",
                f"{torn['partial_writes']:,}",
                ", ".join(f"{count} {name}" for name, count in torn["hazards"].items()) or "-",
                ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())) or "none",
            )
        )
    print_table(
        f"{outcome['operations']:,} operations change the medium, {outcome['erases']:,} erase",
        ("torn", "cuts", "recovered", "write in part", "known hazards", "violations"),
        rows,
        frozenset({1, 2, 3}),
    )
    if outcome["refused_lines"]:
        print(f"{outcome['refused_lines']} lines were refused: no space, or not offered")
    for violation in violations(outcome):
        print(
            f"cut point {violation['cut_point']} ({violation['operation']}, {violation['torn']}),"
            f" line {violation['line']}: {violation['kind']}: {violation['path']}:"
            f" expected {violation['expected']}; found {violation['found']}"
        )
    if found := violations(outcome):
        first = found[0]
        print(f"The first alone: --only {first['cut_point']} --torn {first['torn']}")
