"""`nandlab list` and `nandlab explain`."""

from collections.abc import Mapping
from typing import Any

from nandlab.api import listings as api
from nandlab.api.answer import Answer
from nandlab.cli.action import Given, command
from nandlab.terminal.listings import print_listing
from nandlab.terminal.output import print_table, print_text


@command("list", api.listing, separated="csv")
def list_command(found: Answer, given: Given) -> None:
    """List available items."""
    print_listing(given["kind"], found.rows)


@command("explain", api.explain)
def explain(found: Answer, given: Given) -> None:
    """Explain an item of any list.

    A name in several lists is explained once for each. A file system, for example, has a summary
    and a list of what it guarantees across a power cut.
    """
    if "ops" in given:
        _print_steps(found.answer)
        return
    for entry in found.answer:
        _print_entry(entry)


def _print_entry(entry: Mapping[str, Any]) -> None:
    print_text(f"{entry['name']}: {entry['summary']} ({entry['list']})")
    for key, value in entry.items():
        if key in ("name", "summary", "list"):
            continue
        title = key.replace("_", " ")
        if isinstance(value, Mapping):
            rows = [(name.replace("_", " "), _shown(cell)) for name, cell in value.items()]
            print_table(title, ("", ""), rows)
        elif isinstance(value, list) and value and isinstance(value[0], Mapping):
            columns = list(value[0])
            print_table(title, columns, [[_shown(row.get(c)) for c in columns] for row in value])
        elif value not in (None, "", []):
            print_text(f"{title}: {_shown(value)}")


def _print_steps(answer: Mapping[str, Any]) -> None:
    print_text(f"{answer['ftl']}: {answer.get('device', '')}")
    for step in answer["steps"]:
        cost = " ".join(f"{name}{count}" for name, count in step["cost"].items() if count)
        print_text(f"\n── {step['operation']}  cost: {cost or 'nothing'}")
        if step["chip_operations"]:
            print_text(f"   chip: {'; '.join(step['chip_operations'])}")
        if blocks := step["blocks"]:
            pages = max(len(block["pages"]) for block in blocks)
            names = [
                " ".join(filter(None, (str(one["block"]), one.get("state")))) for one in blocks
            ]
            rows = [[name, *one["pages"]] for name, one in zip(names, blocks, strict=True)]
            print_table("", ("block", *map(str, range(pages))), rows)
        for table in step["tables"]:
            if table["rows"]:
                print_table(table["title"], table["columns"], table["rows"])
    print_text("L3 holds logical page 3, L3* its newest copy, - is erased, x cannot be read.")
    print_text("RD page reads, RS spare reads, PD page programs, PS spare programs, E erases.")


def _shown(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key.replace('_', ' ')} {_shown(one)}" for key, one in value.items())
    if isinstance(value, list):
        return ", ".join(_shown(one) for one in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "-" if value is None else str(value)
