"""`nandlab explain`."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from cyclopts import Parameter


def explain(
    name: str,
    /,
    *,
    ops: str | None = None,
    pages_per_block: int = 4,
    logical_pages: int | None = None,
    blocks: int | None = None,
    sets: Annotated[list[str] | None, Parameter(name="--set", negative=())] = None,
    output_format: Literal["table", "json"] = "table",
) -> int:
    """Explain anything that `nandlab list` shows: a file system, layer, scheduler, part, study.

    A name that stands in several lists is explained once for each: a file system has a summary,
    and what it guarantees across a power cut.

    Parameters
    ----------
    name
        Its name, as `nandlab list` shows it, in capitals or not.
    ops
        Operations on logical pages, such as 'W0 W1 R0 T1': shows what a layer does on each.
    pages_per_block
        Pages of a block of the small chip the operations run on.
    logical_pages
        Logical pages of the small device; as many as the operations touch if left out.
    blocks
        Blocks of the small chip; a few more than the layer needs if left out.
    sets
        name=value, a setting of the layer; may be repeated.
    output_format
        How to print it.

    """
    from nandlab import engine
    from nandlab.byte_sizes import natural_number
    from nandlab.cli.settings import parse_settings
    from nandlab.errors import NandlabError
    from nandlab.terminal.output import print_json

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
            raise NandlabError("--ops: no operations; write W5, R5 or T5, separated by spaces")
        answer = engine.explain(name, ops, options)
        if output_format == "json":
            print_json(answer)
        else:
            _print_steps(answer)
        return 0
    entries = _find(name)
    if output_format == "json":
        print_json(entries[0] if len(entries) == 1 else entries)
    else:
        for entry in entries:
            _print_entry(entry)
    return 0


def _find(name: str) -> list[dict[str, Any]]:
    """The entries of that name, each with the list that it stands in."""
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
        raise NandlabError(f"{name} is a list: `nandlab list {name}` shows it")
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
