"""`nandlab serve-crash`."""

from collections.abc import Mapping
from typing import Any

from nandlab.api import served_cuts as api
from nandlab.cli.action import Given, command
from nandlab.terminal.output import counted, print_text
from nandlab.terminal.tables import Column, print_rows, text_column

_UNITS = {"acknowledgements": "ack", "programs": "program"}

_CUTS = (
    Column("cut", "cut"),
    Column("at", "at"),
    Column("acknowledged", "acknowledged"),
    Column("recovered", "recovered"),
    Column("lost", "lost"),
    Column("damaged", "damaged"),
    text_column("repaired", lambda row: "yes" if row["is_repaired"] else "-"),
    text_column("refused", lambda row: row["refusals"] or "-"),
    Column("torn", "torn_operations"),
)


@command("serve-crash", api.serve_crash, separated="csv")
def serve_crash(found: api.ServeCrash, given: Given) -> None:
    """Fail the power of a served device under a real kernel, and compare what is left.

    A machine with a real Linux kernel makes a file system on a simulated device and writes files or
    rows of a database. It acknowledges each once its call has returned. The power fails, the device
    and the kernel recover, and what is there is compared with what was acknowledged.

    docs/serve-crash.md lists the recipes and explains the table. The exit status is 1 if something
    acknowledged is lost, something is damaged, or a mount or a checker fails.
    """
    answer = found.answer
    title = f"{answer['recipe']} on {answer['device']}, Linux {answer['kernel']}"
    unit = f"at {_UNITS[answer['by']]}"
    columns = [Column(unit, "at") if one.heading == "at" else one for one in _CUTS]
    if found.rows:
        print_rows(title, columns, found.rows)
    for line in sentences(answer):
        print_text(line)


def sentences(answer: Mapping[str, Any]) -> list[str]:
    """What the table says in sum; nothing of what did not happen."""
    totals, item = answer["totals"], answer["item"]
    if not totals["cuts"]:
        return ["No cut was made."]
    told = [
        f"{counted(totals['cuts'], 'cut')}, {counted(totals['acknowledged'], item)} acknowledged."
    ]
    if totals["lost"]:
        where = counted(totals["cuts_with_loss"], "cut")
        told.append(f"{counted(totals['lost'], f'acknowledged {item}')} lost, in {where}.")
        older = totals["older_lost"]
        if not totals["recovered"]:
            told.append("Nothing is left.")
        elif older:
            is_older = "is older than one that was" if older == 1 else "are older than one that was"
            told.append(f"{older:,} of them {is_older} kept.")
        else:
            told.append("Only the newest are lost: nothing older than what was kept.")
    elif totals["acknowledged"] and not totals["damaged"]:
        told.append("Nothing that was acknowledged is lost.")
    if totals["damaged"]:
        told.append(f"{counted(totals['damaged'], item)} damaged.")
    if totals["cuts_repaired"]:
        cuts = counted(totals["cuts_repaired"], "cut")
        told.append(f"The checker had something to repair after {cuts}.")
    if totals["cuts_refused"]:
        cuts = counted(totals["cuts_refused"], "cut")
        told.append(f"A mount or a check failed after {cuts}.")
    if totals["cuts_before_ready"]:
        cuts = counted(totals["cuts_before_ready"], "cut")
        told.append(f"{cuts} came before the file system was mounted, and promised nothing.")
    return told
