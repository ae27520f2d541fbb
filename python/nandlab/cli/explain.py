"""`nandlab explain`."""

from collections.abc import Mapping
from typing import Annotated, Any

from cyclopts import Parameter

from nandlab.cli.output_options import Output


def explain(
    name: str,
    /,
    *,
    ops: str | None = None,
    pages_per_block: int = 4,
    logical_pages: int | None = None,
    blocks: int | None = None,
    sets: Annotated[list[str] | None, Parameter(name="--set", negative=())] = None,
    output: Output | None = None,
) -> int:
    """Explain an item of any list.

    A name in several lists is explained once for each. A file system, for example, has a summary
    and a list of what it guarantees across a power cut.

    Parameters
    ----------
    name
        Name of the item, as `nandlab list KIND` shows it. Case does not matter.
    ops
        Run these operations on logical pages, such as 'W0 W1 R0 T1', and show every step.
    pages_per_block
        Set the pages of a block of the small chip that --ops uses.
    logical_pages
        Set the logical pages of the small device. Without it: as many as the operations touch.
    blocks
        Set the blocks of the small chip. Without it: a few more than the layer needs.
    sets
        Set a parameter of the layer, as NAME=VALUE. May be repeated.
    output
        How to print the answer.

    """
    from nandlab import engine
    from nandlab.byte_sizes import natural_number
    from nandlab.cli.output_options import form_of
    from nandlab.cli.settings import parse_settings
    from nandlab.errors import NandlabError
    from nandlab.terminal.output import print_json

    form = form_of(output)
    if ops is not None:
        for option, value in (
            ("--pages-per-block", pages_per_block),
            ("--logical-pages", logical_pages),
            ("--blocks", blocks),
        ):
            if value is not None:
                natural_number(option, value)
        options = {
            "pages_per_block": pages_per_block,
            "logical_pages": logical_pages,
            "blocks": blocks,
            "settings": parse_settings(sets),
        }
        if not ops.split():
            raise NandlabError(
                "--ops: no operation is given; write W5, R5 or T5, separated by spaces"
            )
        answer = engine.explain(name, ops, options)
        if form == "json":
            print_json("explain", answer)
        else:
            _print_steps(answer)
        return 0
    entries = _find(name)
    if form == "json":
        print_json("explain", entries)
    else:
        for entry in entries:
            _print_entry(entry)
    return 0


def _find(name: str) -> list[dict[str, Any]]:
    """The entries of that name, each with the name of its list."""
    from nandlab.cli.listing import KINDS, entries_of
    from nandlab.errors import NandlabError
    from nandlab.suggest import did_you_mean

    found: list[dict[str, Any]] = []
    known: set[str] = set()
    for kind in KINDS:
        for entry in entries_of(kind):
            names = (str(entry["name"]), *entry.get("aliases", ()))
            if name.lower() in (one.lower() for one in names):
                found.append({"list": kind, **entry})
            known.update(names)
    if found:
        return found
    if name in KINDS:
        raise NandlabError(f"{name} is a list, not an item; `nandlab list {name}` shows its items")
    raise NandlabError(
        f"unknown name {name!r}: {did_you_mean(name, known)}"
        f"`nandlab list KIND` shows the names of {', '.join(KINDS)}"
    )


def _print_entry(entry: Mapping[str, Any]) -> None:
    from nandlab.terminal.output import print_table, print_text

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
    from nandlab.terminal.output import print_table, print_text

    print_text(f"{answer['ftl']}: {answer.get('device', '')}")
    for step in answer["steps"]:
        cost = " ".join(f"{name}{count}" for name, count in step["cost"].items() if count)
        print_text(f"\n── {step['operation']}  cost: {cost or 'nothing'}")
        if step["chip_operations"]:
            print_text(f"   chip: {'; '.join(step['chip_operations'])}")
        if step["blocks"]:
            pages = max(len(view["pages"]) for view in step["blocks"])
            print_table(
                "",
                ("block", *map(str, range(pages))),
                [
                    [
                        " ".join(filter(None, (str(view["block"]), view.get("state")))),
                        *view["pages"],
                    ]
                    for view in step["blocks"]
                ],
            )
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
