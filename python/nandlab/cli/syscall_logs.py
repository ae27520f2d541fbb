"""`nandlab strace-import`."""

from nandlab.api import syscall_logs as api
from nandlab.cli.action import Given, command
from nandlab.terminal.output import counted, print_text
from nandlab.terminal.tables import Column, print_rows, text_column

_LEFT_OUT = (text_column("call"), Column("calls", "calls"), *map(text_column, ("fate", "reason")))


@command("strace-import", api.strace_import, separated="csv")
def strace_import(found: api.StraceImport, given: Given) -> None:
    """Make a script of system calls of a log of strace.

    Record the log with `strace -f -ttt -y -e trace=%file,%desc,%process,sync,syncfs,msync`. Add
    `-xx -s 16777216` to keep the bytes that are written. docs/scripts.md says what becomes of each
    call.

    Without --out the script is printed. Calls that it has no line for are counted.
    """
    if "out" not in given:
        print(found.script, end="")
        return
    answer = found.answer
    processes = counted(answer["processes"], "process", "processes")
    print_text(
        f"{counted(answer['calls'], 'call')} of {processes} became "
        f"{counted(answer['lines'], 'line')}; {answer['files_before']:,} of them make what was "
        "there before"
    )
    print_text(
        f"bytes written: {answer['bytes_kept']:,} as in the log, {answer['bytes_drawn']:,} drawn"
    )
    print_rows("Calls without a line of their own", _LEFT_OUT, found.rows)
