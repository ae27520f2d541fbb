"""`nandlab crash`."""

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from nandlab.cli.output_options import CsvOutput

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
    jobs: int | None = None,
    out: Path | None = None,
    output: CsvOutput | None = None,
) -> int:
    """Cut the power at every chip operation of a script and check recovery.

    The script runs once without a cut. Each program and each erase of that run is then cut, in each
    way that tears it. After a cut the file system is mounted and compared with its guarantees. It
    is then written once and mounted again.

    docs/power-cuts.md lists the guarantees and explains a violation. The exit status is 1 if there
    is a violation.

    Parameters
    ----------
    file
        Script, or - for standard input. docs/scripts.md describes the language.
    fs
        Use this file system (see `nandlab list file-systems`).
    part
        Use this chip: a name (see `nandlab list parts`) or a part file.
    blocks
        Replace the number of blocks of the part.
    pages_per_block
        Replace the pages of a block of the part. Smaller blocks are collected sooner.
    profile
        Follow the code of this kernel or library, such as linux-6.12.
    every
        Cut at every Nth operation.
    only
        Cut only at this operation: the cut point of a violation.
    torn
        Leave this of a torn operation: nothing, prefix or data-only. May be repeated. Without it:
        all three.
    seed
        Seed the values that a kernel takes from its clock.
    jobs
        Check this many cuts at the same time. Without it: one for each processor.
    out
        Write everything to this file: JSON, or the violations as CSV if the name ends in .csv.
    output
        How to print the verdict.

    """
    import json
    import sys

    from nandlab import engine
    from nandlab.byte_sizes import natural_number
    from nandlab.cli.output_options import form_of
    from nandlab.cli.script import read_script
    from nandlab.interruption import received
    from nandlab.outputs import check_file
    from nandlab.terminal.progress import progress_bar
    from nandlab.whole_files import keep_text

    form = form_of(output)
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
        "workers": None if jobs is None else natural_number("--jobs", jobs, bits=10),
    }
    if out is not None:
        check_file(out)
    with progress_bar(shown) as progress:
        outcome = engine.cut_script(shown, text, arguments, progress)
    whole = json.dumps(outcome, indent=1) + "\n"
    as_csv = out is not None and out.suffix == ".csv"
    keep_text(out, _csv(outcome) if as_csv else whole)
    _print(outcome, form)
    if outcome["interrupted"]:
        print("Interrupted: some cuts were not made.", file=sys.stderr)
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


def _print(outcome: dict[str, Any], form: str) -> None:
    import sys
    from collections import Counter

    from nandlab.terminal.output import print_json, print_table

    if form == "json":
        print_json("crash", outcome)
        return
    if form == "csv":
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
        ("torn", "cuts", "recovered", "partial write", "known hazards", "violations"),
        rows,
        frozenset({1, 2, 3}),
    )
    if outcome["refused_lines"]:
        print(f"refused lines: {outcome['refused_lines']} (no space, or no such call)")
    for violation in violations(outcome):
        print(
            f"cut point {violation['cut_point']} ({violation['operation']}, {violation['torn']}),"
            f" line {violation['line']}: {violation['kind']}: {violation['path']}:"
            f" expected {violation['expected']}; found {violation['found']}"
        )
    if found := violations(outcome):
        first = found[0]
        print(f"To repeat the first: --only {first['cut_point']} --torn {first['torn']}")
