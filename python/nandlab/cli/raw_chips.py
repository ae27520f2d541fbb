"""`nandlab serve-raw`."""

from nandlab.api import raw_chips as api
from nandlab.api.answer import Answer
from nandlab.cli.action import Given, command
from nandlab.terminal.output import print_text
from nandlab.terminal.tables import print_facts


@command("serve-raw", api.serve_raw)
def serve_raw(found: Answer, given: Given) -> None:
    """Run a shell script in a real kernel on a raw chip from an image.

    The chip is given back as another image. The kernel runs in an emulated machine, and the chip
    is nandsim there. With --cut-at the power is cut in an operation of the script.
    docs/raw-nand.md says what works and what cannot.

    The exit status is 1 if the script fails, if it leaves the chip in use, or if nothing is torn.
    """
    answer = found.answer
    if answer["printed"]:
        print_text(answer["printed"].rstrip("\n"))
    facts = {"kernel": answer["kernel"], "part": answer["part"], "blocks": answer["blocks"]}
    if answer["torn_kind"] is not None:
        facts["torn"] = f"operation {answer['cut_at']}: {answer['torn_kind']}"
        facts["page"] = answer["torn_page"]
    if answer["counts"] is not None:
        facts["operations"] = sum(answer["counts"])
    print_facts(answer["image"], facts)
