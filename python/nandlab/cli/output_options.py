"""`--json` and `--output-format`, which all commands share."""

from dataclasses import dataclass
from typing import Annotated, Literal

from cyclopts import Parameter

from nandlab.errors import NandlabError


@Parameter(name="*")
@dataclass(frozen=True)
class Output:
    """How to print the answer."""

    json: Annotated[bool, Parameter(negative=())] = False
    """Print JSON, as --output-format json does."""
    output_format: Literal["table", "json"] = "table"
    """Print the answer in this form."""


def form_of(output: Output | None) -> str:
    """The form that was asked for: `table` or `json`."""
    return "table" if output is None else chosen_form(output.output_format, is_json=output.json)


def chosen_form(output_format: str, *, is_json: bool) -> str:
    """The form of an answer; raises `NandlabError` when two were asked for."""
    if is_json and output_format not in ("table", "json"):
        raise NandlabError(
            f"--json and --output-format {output_format} exclude each other: give one"
        )
    return "json" if is_json else output_format
