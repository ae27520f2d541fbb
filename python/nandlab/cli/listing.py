"""`nandlab list`."""

from typing import Any, Literal, get_args

from nandlab.terminal.output import OutputFormat

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


def list_command(kind: Kind, /, *, output_format: OutputFormat = "table") -> int:
    """List what there is of one kind, each with its name and what it is.

    Parameters
    ----------
    kind
        What to list.
    output_format
        How to print it.

    """
    from nandlab.terminal.output import print_csv, print_json, print_table

    entries = entries_of(kind)
    if output_format == "json":
        print_json(entries)
        return 0
    rows = [(str(entry["name"]), str(entry["summary"])) for entry in entries]
    if output_format == "csv":
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
    from nandlab.studies import shipped_studies

    entries = []
    for name, path in shipped_studies().items():
        study = engine.describe_study(path, [], None, quick=False)
        entries.append(
            {**study, "name": name, "summary": study.get("title", ""), "file": str(path)}
        )
    return entries
