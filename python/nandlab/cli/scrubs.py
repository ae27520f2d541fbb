"""What lines `scrub` found, on a terminal."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from nandlab.api.scripts import Script, is_lost
from nandlab.terminal.output import counted
from nandlab.terminal.tables import Column, print_rows, text_column

_MS_PER_YEAR = 365.25 * 86_400_000

_NAMES_MAX = 3
"""Files that a cell of a table names."""

_ERRORS = (
    Column("corrected bits", "corrected_bits"),
    Column("uncorrectable reads", "uncorrectable_reads"),
)

_SCRUBS = (
    Column("years", "years", "{:.2f}"),
    *_ERRORS,
    Column("files lost", "lost"),
    text_column("lost since the last scrub", "newly_lost"),
)

_FILES = (
    text_column("file", "path"),
    *_ERRORS,
    text_column("lost", "loss"),
    text_column("first lost", "first_lost"),
)


def print_scrubs(found: Script) -> None:
    """A row for each of several scrubs, the files of the last one, and what was lost first."""
    scrubs = found.scrubs
    if not scrubs:
        return
    if len(scrubs) > 1:
        print_rows(_conditions(found.answer, scrubs), _SCRUBS, list(_by_scrub(scrubs)))
    last = scrubs[-1]
    if last["files"]:
        title = f"files at the last scrub, {_years(last)}"
        if len(scrubs) == 1:
            title = f"{_conditions(found.answer, scrubs)}, {_years(last)}"
        print_rows(title, _FILES, list(_by_file(scrubs)))
    if sound := last["count"] - len(last["files"]):
        print(f"no bit error in {counted(sound, 'file or directory', 'files and directories')}")
    if found.lost_first:
        when = next(scrub for scrub in scrubs if any(map(is_lost, scrub["files"])))
        names = ", ".join("all files" if name == "." else name for name in found.lost_first)
        print(f"lost first: {names}, after {_years(when)}")
    else:
        print("no file is lost")


def _by_scrub(scrubs: Iterable[Mapping[str, Any]]) -> Iterable[Mapping[str, Any]]:
    known: set[str] = set()
    for scrub in scrubs:
        lost = {one["path"] for one in scrub["files"] if is_lost(one)}
        yield {
            "years": scrub["aged_ms"] / _MS_PER_YEAR,
            "corrected_bits": sum(one["corrected_bits"] for one in scrub["files"]),
            "uncorrectable_reads": sum(one["uncorrectable_reads"] for one in scrub["files"]),
            "lost": len(lost),
            "newly_lost": _names(sorted(lost - known)),
        }
        known = lost


def _by_file(scrubs: Sequence[Mapping[str, Any]]) -> Iterable[Mapping[str, Any]]:
    first: dict[str, str] = {}
    for scrub in reversed(scrubs):
        first |= {one["path"]: _years(scrub) for one in scrub["files"] if is_lost(one)}
    for one in scrubs[-1]["files"]:
        yield one | {"loss": _loss(one), "first_lost": first.get(one["path"], "-")}


def _names(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_NAMES_MAX])
    more = len(names) - _NAMES_MAX
    return f"{shown} and {more:,} more" if more > 0 else shown or "-"


def _loss(row: Mapping[str, Any]) -> str:
    if row["error"]:
        return str(row["error"])
    return counted(row["wrong_bytes"], "wrong byte") if row["wrong_bytes"] else "-"


def _years(scrub: Mapping[str, Any]) -> str:
    return f"{scrub['aged_ms'] / _MS_PER_YEAR:.2f} years"


def _conditions(answer: Mapping[str, Any], scrubs: Sequence[Mapping[str, Any]]) -> str:
    """The part, its ECC, cycles, temperatures and seed, in a line."""
    least = min(scrub["erase_cycles_min"] for scrub in scrubs)
    most = max(scrub["erase_cycles_max"] for scrub in scrubs)
    cycles = f"{least:,}" if least == most else f"{least:,} to {most:,}"
    heat = ", ".join(f"{celsius} C" for celsius in scrubs[-1]["temperatures_celsius"]) or "40 C"
    ecc = counted(scrubs[-1]["ecc_correctable_bits"], "bit")
    return (
        f"{answer['part']}, ECC of {ecc} in {scrubs[-1]['ecc_codeword_bytes']} bytes, "
        f"{cycles} erase cycles, {heat}, seed {answer['seed']}"
    )
