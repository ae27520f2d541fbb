"""`nandlab capture` and `nandlab validate`."""

import sys

from nandlab.api import kernels as api
from nandlab.api.answer import Answer
from nandlab.cli.action import Given, command
from nandlab.terminal.output import print_table, print_text
from nandlab.terminal.tables import Column, print_rows, text_column

_VERIFIED = (
    text_column("figure"),
    Column("stored", "stored"),
    Column("made again", "remade"),
    Column("difference", "difference", "{:.2%}"),
    text_column("agrees", lambda row: "yes" if row["agrees"] else "no"),
)


@command("capture", api.capture_trace)
def capture(found: Answer, given: Given) -> None:
    """Capture a block trace, in a virtual machine or of a disk.

    Without --device a file workload runs in a virtual machine with a real Linux kernel.
    """
    answer = found.answer
    if given.get("verify"):
        print_rows("", _VERIFIED, found.rows)
        if answer["kernel_differs"]:
            print_text("The kernel differs from that of the stored trace.")
    elif "files" in answer:
        print_text("\n".join(answer["files"]))
    else:
        counts = [(name.replace("_", " "), str(one)) for name, one in answer["counts"].items()]
        print_table(f"{given['out']}.parquet", ("", ""), counts)


@command("validate", api.validate)
def validate(found: Answer, given: Given) -> None:
    """Compare operation counts with those of real kernels.

    The recorded workloads run on simulated raw NAND. The page also shows where the order of
    operations first differs from the recorded order.

    The exit status is 1 if a figure is outside its tolerance without an explanation. After an
    interruption the finished comparisons are printed, and no file is written.
    """
    sys.stdout.write(found.text)
