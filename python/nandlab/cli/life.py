"""`nandlab life`."""

from collections.abc import Mapping
from typing import Any

from nandlab.api import life as api
from nandlab.cli.action import Given, command
from nandlab.lifetime.verdict import Span, bytes_text, years_text
from nandlab.terminal.output import print_text
from nandlab.terminal.tables import print_rows, text_column


@command("life", api.life, separated="csv")
def life(found: api.Life, given: Given) -> None:
    """Say how many years flash lasts if a workload goes on without end.

    A workload file of kind script goes with --fs, a trace with --ftl or --device. The work is
    repeated, and wear is extrapolated block by block until blocks reach their rated cycles.
    Retention and read disturb follow the part's error model.

    The low end of the range is a device full of old data, the high end one that holds nothing
    else. docs/life.md says what is modelled.
    """
    print_text(f"{found.answer['question']} {found.verdict[:1].upper()}{found.verdict[1:]}.")
    print_rows("", _COLUMNS, found.answer["candidates"])
    print_text(f"Conditions: {found.conditions}")


def _span(row: Mapping[str, Any], name: str) -> Span:
    return Span(**row[name])


def _estimate(row: Mapping[str, Any]) -> str:
    from nandlab.present.units import large_size

    estimate = row["lifetime_host_bytes"]
    return "not estimated" if estimate is None else large_size(estimate)


_COLUMNS = (
    text_column("", "name"),
    text_column("life", lambda row: years_text(_span(row, "life"))),
    text_column("first block worn out", lambda row: bytes_text(_span(row, "first_block"))),
    text_column("1 % worn out", lambda row: bytes_text(_span(row, "one_percent"))),
    text_column("estimate for even wear", _estimate),
)
