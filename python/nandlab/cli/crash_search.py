"""`nandlab crash-search`."""

from nandlab.api import crash_search as api
from nandlab.cli.action import Given, command
from nandlab.terminal.output import print_text
from nandlab.terminal.tables import Column, print_rows, text_column

_COUNTS = (
    Column("runs", "runs"),
    Column("calls", "calls"),
    Column("cuts", "cuts"),
    Column("in recoveries", "recovery_cuts"),
    Column("in second recoveries", "second_recovery_cuts"),
    Column("signals", "signals"),
    Column("kept", "kept"),
    Column("failures", "failures"),
)
_FAILURES = (
    Column("run", "run"),
    text_column("kind"),
    Column("lines", "lines"),
    text_column("file", lambda row: row["file"] or "-"),
)


@command("crash-search", api.crash_search)
def crash_search(found: api.CrashSearch, given: Given) -> None:
    """Search random scripts of system calls for those whose power cuts break a guarantee.

    Scripts are drawn, run and cut at operations of the medium, also while the mount after a cut
    writes. Those that reach something new are kept and changed. A script that fails is made smaller
    and written to a file with the command that shows the failure.

    docs/crash-search.md says what is drawn and what counts as new. The exit status is 1 if
    something fails.
    """
    answer = found.answer
    print_rows(given["fs"], _COUNTS, [answer["counts"]])
    if found.rows:
        print_rows("failures", _FAILURES, found.rows)
    for row in found.rows:
        print_text(f"run {row['run']} shows {row['shows']}")
    for reason, count in answer["refusals"].items():
        print_text(f"runs that could not be cut: {count}, {reason}")
    print(f"digest: {answer['digest']}")
    if answer["timed_out"]:
        print(f"To repeat this search: --runs {found.runs} in place of --max-total-time")
