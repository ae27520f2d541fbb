"""`nandlab script` and `nandlab crash`."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from nandlab.api import scripts as api
from nandlab.cli.action import Given, command
from nandlab.cli.scrubs import print_scrubs
from nandlab.terminal.output import counted, print_text
from nandlab.terminal.tables import Column, print_rows, text_column

_PHASE = text_column("phase")
_WRITES = (Column("programs", "programs"), Column("erases", "erases"))
_TIME = Column("simulated time", lambda row: row["duration_ns"] / 1e9, "{:,.3f} s")
_PHASES = (_PHASE, Column("reads", "reads"), *_WRITES, _TIME)
_PHASES_OF_KERNEL = (_PHASE, Column("log lines of reads", "log_reads"), *_WRITES)
_TIME_OF_HOST = Column("time", lambda row: row["duration_ns"] / 1e9, "{:,.3f} s")
_PHASES_OF_HOST = (_PHASE, Column("calls", "calls"), _TIME_OF_HOST)


@command("script", api.script, separated="csv", names={"place": "--in"})
def script(found: api.Script, given: Given) -> None:
    """Run a script of system calls on a simulated file system.

    The answer holds the reads, programs and erases of the chip and the simulated time of each phase
    of the script. With --in it runs in a kernel or on this machine. docs/scripts.md describes the
    language.
    """
    answer, rows = found.answer, list(found.rows)
    title = f"{answer['file_system']}, {answer['profile']}" if answer["file_system"] else ""
    if (unfinished := answer.get("unfinished")) is not None:
        rows.append(unfinished | {"phase": f"{unfinished['phase']} (unfinished)"})
    if "host" in answer:
        print_rows(title, _PHASES_OF_HOST, rows)
        if answer["directory"] is not None:
            print(f"directory: {answer['directory']}")
        return
    print_rows(title, _PHASES_OF_KERNEL if "kernel" in answer else _PHASES, rows)
    print_scrubs(found)


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items())


_CUTS = (
    text_column("torn"),
    Column("cuts", "cuts"),
    Column("recovered", "recovered"),
    Column("partial write", "partial_writes"),
    text_column("known hazards", lambda row: _counted(row["hazards"]) or "-"),
    text_column("violations", lambda row: _counted(_kinds(row)) or "none"),
)
_IN_RECOVERIES = Column("in recoveries", "recovery_cuts")
_BROKEN = text_column("expectations", lambda row: _counted(row["broken_expectations"]) or "kept")


def _kinds(torn: Mapping[str, list[Mapping[str, str]]]) -> Mapping[str, int]:
    return dict(sorted(Counter(violation["kind"] for violation in torn["violations"]).items()))


def _then(cut: Mapping[str, str]) -> str:
    """The options that name the cuts of recoveries behind a cut."""
    return "".join(f" --then {one}" for one in cut.get("then", "").split())


def _passes(violation: Mapping[str, str]) -> str:
    return f", {violation['passes']}" if violation["passes"] else ""


@command("crash", api.crash, separated="csv")
def crash(found: api.Crash, given: Given) -> None:
    """Cut the power at every chip operation of a script and check recovery.

    The script runs once without a cut. Each program and each erase of that run is then cut, in each
    way that tears it. After a cut the file system is mounted and compared with its guarantees. It
    is then written once and mounted again.

    Lines `expect` of the script say what the application needs after a cut. With --check a program
    of your own looks at the files that each cut left.

    docs/power-cuts.md lists the guarantees and explains a violation and a broken expectation. The
    exit status is 1 if there is one. --minimise makes the script smaller that shows it.
    """
    answer = found.answer
    title = f"{answer['operations']:,} operations change the medium, {answer['erases']:,} erase"
    columns = (*_CUTS, _BROKEN) if found.has_expectations else _CUTS
    if any(torn["recovery_cuts"] for torn in answer["torn"]):
        columns = (*columns[:2], _IN_RECOVERIES, *columns[2:])
    print_rows(title, columns, answer["torn"])
    if answer["refused_lines"]:
        print(f"refused lines: {answer['refused_lines']} (no space, or no such call)")
    _print_expectations(found)
    for shown in answer["shown"]:
        _print_shown(shown)
    violations = [row for row in found.rows if api.is_violation(row)]
    for one in violations:
        print(
            f"cut point {one['cut_point']} ({one['operation']}, {one['torn']}), "
            f"line {one['line']}{_passes(one)}: {one['kind']}: {one['path']}: "
            f"expected {one['expected']}; found {one['found']}"
        )
    for first in violations[:1]:
        cut = f"--only {first['cut_point']} --torn {first['torn']}{_then(first)}"
        print(f"To repeat the first: {cut}")
    if smallest := answer.get("minimised"):
        lines = counted(smallest["lines"], "line")
        print(f"{smallest['file']}: {lines}, of {smallest['tried']:,} scripts that were tried")
        print_text(f"shows {smallest['shows']}")
        print(smallest["command"])


def _print_expectations(found: api.Crash) -> None:
    check = found.answer["check"]
    if not found.has_expectations and check is None:
        print("No `expect` line: only the file system's contract was tested.")
    for line in found.answer["expectations"]:
        print(expectation_sentence(line))
        _print_groups(line["groups"])
    if check is not None:
        print(check_sentence(check))
        _print_groups(check["groups"])


def _print_groups(groups: Sequence[Mapping[str, Any]]) -> None:
    for group in groups:
        first = group["first"]
        print(f"  {group['sentence']}")
        cut = f"--only {first['cut_point']} --torn {first['torn']}{_then(first)}"
        print(f"    the first: {cut}")


def check_sentence(check: Mapping[str, Any]) -> str:
    """Whether the files kept what a command or function looks for, and how often it was asked."""
    failed, cuts = check["failed"], counted(check["cuts"], "cut")
    kept = f"broken at {failed:,} of {cuts}" if failed else f"holds at {cuts}"
    asked = counted(check["asked"], "time")
    return f"check {check['command']}: {kept}; run {asked}, once for equal files"


def expectation_sentence(line: Mapping[str, Any]) -> str:
    """Whether the expectation of a line was kept, and how often it was judged."""
    cuts, failed = line["cuts"], line["failed"]
    others = line["expectations"] - 1
    more = f" and {others} more of its passes" if others else ""
    said = f"{line['expectation']}{more} (line {line['line']['line']})"
    if not cuts:
        return f"{said}: no cut came behind it"
    counted = f"{cuts:,} cut" if cuts == 1 else f"{cuts:,} cuts"
    return f"{said}: broken at {failed:,} of {counted}" if failed else f"{said}: kept at {counted}"


_TREES = (
    text_column("path"),
    text_column("before"),
    text_column("found"),
    text_column("after"),
    text_column("is", lambda row: "" if row["is"] == "same" else row["is"]),
)


def _print_shown(shown: Mapping[str, Any]) -> None:
    """The tree after a cut beside those before and after it."""
    before, after = shown["before"], shown["after"]
    begin = f"before: line {before['line']}{_passes(before)}" if before else "before: the begin"
    end = f"after: the end of line {after['line']}{_passes(after)}" if after else "after: the end"
    title = (
        f"cut point {shown['cut_point']} ({shown['operation']}, {shown['torn']}); {begin}; {end}"
    )
    if shown["failure"]:
        print(f"{title}: nothing can be read: {shown['failure']}")
        return
    print_rows(title, _TREES, shown["rows"])
