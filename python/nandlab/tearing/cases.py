"""Comparing what a kernel recovers with what is read here, and keeping what differs."""

import csv
import errno
import gzip
import re
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path

from nandlab import engine
from nandlab.errors import NandlabError
from nandlab.tearing.chips import Recovery, bad_messages, rows

_SHOWN_ROWS_MAX = 6


@dataclass
class Verdict:
    """A case: its kernel, its cut, and what was found. `faults` is empty if all agree."""

    case: str
    kernel: str
    direction: str
    script_seed: int
    cut: str
    kind: str
    shape: str
    ls_equal: bool = False
    findings: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    kept: str = ""

    def row(self) -> dict[str, str]:
        """Return the row of the table of results."""
        values = {name: str(value) for name, value in asdict(self).items()}
        values["ls_equal"] = "yes" if self.ls_equal else "no"
        values["findings"] = "; ".join(self.findings)
        values["faults"] = "; ".join(self.faults)
        return values


COLUMNS = tuple(Verdict("", "", "", 0, "", "", "").row())
"""Columns of the table of results."""


def judge(
    verdict: Verdict, image: Path, options: dict[str, object], recovery: Recovery, keep: Path
) -> Verdict:
    """Compare a torn image, as it is read here, with the kernel's recovery; keep what differs.

    All columns must be equal, the second mount must show what the first one did, and a check must
    be silent wherever the kernel recovers. A page with random bits may claim anything to a check.
    """
    if recovery.error:
        verdict.faults.append(f"the kernel: {recovery.error}")
    verdict.faults += [f"dmesg: {line}" for line in bad_messages(recovery.messages)]
    if recovery.first != recovery.second:
        verdict.faults.append("the kernel's second mount shows something else")
    try:
        listing = engine.image_list(str(image), options, hashes=True)
        here = rows(listing["tsv"])
        verdict.ls_equal = here == recovery.first
        if not verdict.ls_equal:
            verdict.faults.append(f"ls: {_difference(here, recovery.first)}")
        verdict.faults += [f"ls tells damage: {damage}" for damage in listing["damage"]]
        verdict.findings = [str(one) for one in engine.image_check(str(image), options)["findings"]]
        if verdict.findings and verdict.shape != "random-bits":
            verdict.faults.append(f"check: {'; '.join(verdict.findings[:3])}")
    except NandlabError as error:
        verdict.faults.append(f"refused: {error}")
    if verdict.faults:
        verdict.kept = str(_keep(verdict, image, recovery, keep))
    return verdict


def _difference(here: list[str], kernel: list[str]) -> str:
    only_here = [f"here {row!r}" for row in here if row not in set(kernel)]
    only_there = [f"kernel {row!r}" for row in kernel if row not in set(here)]
    return " | ".join([*only_here[:_SHOWN_ROWS_MAX], *only_there[:_SHOWN_ROWS_MAX]])


def _keep(verdict: Verdict, image: Path, recovery: Recovery, keep: Path) -> Path:
    """Keep the dump: the seed alone does not bring a kernel to the same place again."""
    folder = keep / f"{verdict.case}-{verdict.kernel}"
    folder.mkdir(parents=True, exist_ok=True)
    with image.open("rb") as source, gzip.open(folder / f"{image.name}.gz", "wb") as target:
        shutil.copyfileobj(source, target)
    for name, listing in (("first", recovery.first), ("second", recovery.second)):
        (folder / f"kernel.{name}.tsv").write_text("\n".join(listing) + "\n", encoding="utf-8")
    (folder / "dmesg").write_text(recovery.messages, encoding="utf-8")
    (folder / "verdict").write_text(
        "".join(f"{name}: {value}\n" for name, value in verdict.row().items()), encoding="utf-8"
    )
    return folder


def write_table(path: Path, verdicts: list[Verdict]) -> None:
    """Write the table of results; it appears when it is whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".unfinished")
    with unfinished.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(verdict.row() for verdict in verdicts)
    unfinished.replace(path)


def failed_calls(failures: list[str]) -> list[tuple[int, str]]:
    """Return line and error of each call that failed, in a kernel or in the simulation."""
    found = []
    for failure in failures:
        if match := re.fullmatch(r"(\d+)\t.*\(os error (\d+)\)", failure):
            # What Linux calls ENOTSUP and EOPNOTSUPP is one number.
            name = errno.errorcode[int(match[2])]
            found.append((int(match[1]), "EOPNOTSUPP" if name == "ENOTSUP" else name))
        elif match := re.fullmatch(r".*?:(\d+): [a-z]+: ([A-Z0-9]+): .*", failure):
            found.append((int(match[1]), match[2]))
        else:
            raise ValueError(f"no call that failed: {failure}")
    return found
