"""`nandlab script` and `nandlab crash`."""

from collections import Counter
from collections.abc import Mapping

from nandlab.api import scripts as api
from nandlab.cli.action import Given, command
from nandlab.terminal.tables import Column, print_rows, text_column

_PHASE = text_column("phase")
_WRITES = (Column("programs", "programs"), Column("erases", "erases"))
_TIME = Column("simulated time", lambda row: row["duration_ns"] / 1e9, "{:,.3f} s")
_PHASES = (_PHASE, Column("reads", "reads"), *_WRITES, _TIME)
_PHASES_OF_KERNEL = (_PHASE, Column("log lines of reads", "log_reads"), *_WRITES)


@command("script", api.script, separated="csv", names={"place": "--in"})
def script(found: api.Script, given: Given) -> None:
    """Run a script of system calls on a simulated file system.

    The answer holds the reads, programs and erases of the chip and the simulated time of each phase
    of the script. docs/scripts.md describes the language.
    """
    answer, rows = found.answer, list(found.rows)
    title = f"{answer['file_system']}, {answer['profile']}" if answer["file_system"] else ""
    if (unfinished := answer.get("unfinished")) is not None:
        rows.append(unfinished | {"phase": f"{unfinished['phase']} (unfinished)"})
    print_rows(title, _PHASES_OF_KERNEL if "kernel" in answer else _PHASES, rows)


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


def _kinds(torn: Mapping[str, list[Mapping[str, str]]]) -> Mapping[str, int]:
    return dict(sorted(Counter(violation["kind"] for violation in torn["violations"]).items()))


def _passes(violation: Mapping[str, str]) -> str:
    return f", {violation['passes']}" if violation["passes"] else ""


@command("crash", api.crash, separated="csv")
def crash(found: api.Crash, given: Given) -> None:
    """Cut the power at every chip operation of a script and check recovery.

    The script runs once without a cut. Each program and each erase of that run is then cut, in each
    way that tears it. After a cut the file system is mounted and compared with its guarantees. It
    is then written once and mounted again.

    docs/power-cuts.md lists the guarantees and explains a violation. The exit status is 1 if there
    is a violation.
    """
    answer = found.answer
    title = f"{answer['operations']:,} operations change the medium, {answer['erases']:,} erase"
    print_rows(title, _CUTS, answer["torn"])
    if answer["refused_lines"]:
        print(f"refused lines: {answer['refused_lines']} (no space, or no such call)")
    for one in found.rows:
        print(
            f"cut point {one['cut_point']} ({one['operation']}, {one['torn']}), "
            f"line {one['line']}{_passes(one)}: {one['kind']}: {one['path']}: "
            f"expected {one['expected']}; found {one['found']}"
        )
    for first in found.rows[:1]:
        print(f"To repeat the first: --only {first['cut_point']} --torn {first['torn']}")
