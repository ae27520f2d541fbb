"""`nandlab list`."""

from typing import Any, Literal, get_args

from nandlab.cli.output_options import CsvOutput

Kind = Literal[
    "boards",
    "devices",
    "file-systems",
    "formats",
    "ftls",
    "guarantees",
    "oob-layouts",
    "parts",
    "policies",
    "schedulers",
    "studies",
    "tests",
    "workloads",
]

KINDS: tuple[str, ...] = get_args(Kind)
"""Names of the lists."""


def list_command(kind: Kind, /, *, output: CsvOutput | None = None) -> int:
    """List available items.

    Parameters
    ----------
    kind
        List to print.
    output
        How to print it.

    """
    from nandlab.cli.output_options import form_of
    from nandlab.terminal.output import print_csv, print_json, print_table

    form = form_of(output)
    entries = entries_of(kind)
    if form == "json":
        print_json("list", entries)
        return 0
    rows = [(str(entry["name"]), str(entry["summary"])) for entry in entries]
    if form == "csv":
        print_csv(("name", "summary"), rows)
    else:
        print_table("", (kind, "what it is"), rows)
    return 0


def entries_of(kind: str) -> list[dict[str, Any]]:
    """Everything in a list, each with its name and a summary of one line."""
    from nandlab import engine

    return _studies() if kind == "studies" else engine.listing(kind)


def _studies() -> list[dict[str, Any]]:
    from nandlab import engine
    from nandlab.study_files import shipped_studies

    entries = []
    for name, path in shipped_studies().items():
        study = engine.describe_study(path, [], None, quick=False)
        entries.append(
            {**study, "name": name, "summary": study.get("title", ""), "file": str(path)}
        )
    return entries
