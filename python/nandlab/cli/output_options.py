"""`--json` and `--output-format`, which all commands share."""

from dataclasses import dataclass
from typing import Annotated, Literal

from cyclopts import Parameter


@Parameter(name="*")
@dataclass(frozen=True)
class Output:
    """How to print the answer."""

    json: Annotated[bool, Parameter(negative=())] = False
    """Print JSON, as --output-format json does."""
    output_format: Literal["table", "json"] = "table"
    """Print the answer in this form."""


@Parameter(name="*")
@dataclass(frozen=True)
class CsvOutput:
    """How to print an answer that is one table."""

    json: Annotated[bool, Parameter(negative=())] = False
    """Print JSON, as --output-format json does."""
    output_format: Literal["table", "json", "csv"] = "table"
    """Print the answer in this form."""


@Parameter(name="*")
@dataclass(frozen=True)
class TsvOutput:
    """How to print the listing of an image."""

    json: Annotated[bool, Parameter(negative=())] = False
    """Print JSON, as --output-format json does."""
    output_format: Literal["table", "json", "tsv"] = "table"
    """Print a table as ls does, JSON, or the columns of docs/images.md."""


def form_of(output: Output | CsvOutput | TsvOutput | None) -> str:
    """The form that was asked for: `table`, `json`, `csv` or `tsv`.

    Raises `NandlabError` when two forms were asked for.
    """
    from nandlab.errors import NandlabError

    if output is None:
        return "table"
    if output.json and output.output_format not in ("table", "json"):
        raise NandlabError(
            f"--json and --output-format {output.output_format} exclude each other: give one"
        )
    return "json" if output.json else output.output_format
