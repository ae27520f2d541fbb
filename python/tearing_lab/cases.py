"""Comparing what a kernel recovers with what is read here, and keeping what differs."""

import csv
import errno
import gzip
import re
import shutil
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path

from nandlab import engine
from nandlab.errors import NandlabError
from tearing_lab.chips import Recovery, bad_messages, rows

_SHOWN_ROWS_MAX = 6
_SHOWN_FINDINGS_MAX = 3
_PACKED = ".gz"
_LOST_LOG = re.compile(r"segment \d+: the log at block \d+ is not intact: \d+ of \d+ blocks are")

LOSING_KINDS = ("bio-left-out", "blocks-left-out")
"""Cuts that may take a disk from the kernel, too: then it must be refused here as well.

A kernel that meets a torn log goes on at the next segment, and takes a newer super root there
(`strayed` in `nilfs_search_super_root`, fs/nilfs2/recovery.c). Its checkpoint may be what is lost,
or data of files, which no kernel checks: then a check tells of the log, and of nothing else.
"""


@dataclass
class Verdict:
    """A case: its kernel, its cut, and what was found. `faults` is empty if all agree.

    `outcome` is `recovered`, or says in what way kernel and engine alike lost the medium.
    """

    case: str
    kernel: str
    direction: str
    script_seed: int
    cut: str
    kind: str
    shape: str
    outcome: str = ""
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


@dataclass(frozen=True)
class Keeping:
    """Where cases are kept with dump, script and listings: those that differ, or all."""

    folder: Path
    keeps_all: bool = False


def judge(
    verdict: Verdict,
    image: Path,
    options: dict[str, object],
    recovery: Recovery,
    keeping: Keeping,
    script: Path,
) -> Verdict:
    """Compare a torn image, as it is read here, with the kernel's recovery; keep what differs.

    All columns must be equal, the second mount must show what the first one did, and a check must
    be silent wherever the kernel recovers. A page with random bits may claim anything to a check.
    """
    verdict.faults += [f"dmesg: {line}" for line in bad_messages(recovery.messages)]
    if recovery.first != recovery.second:
        verdict.faults.append("the kernel's second mount shows something else")
    try:
        listing = engine.call("image_list", image, options, True)
        damage = listing["damage"]
        if _is_lost_alike(verdict, recovery, has_damage=bool(damage)):
            verdict.outcome = "neither reads all of it"
        else:
            verdict.outcome = "recovered"
            _compare(verdict, rows(listing["tsv"]), recovery)
            verdict.faults += [f"ls tells damage: {one}" for one in damage]
            _check(verdict, image, options)
    except NandlabError as error:
        if (_may_be_lost(verdict) or _has_no_node(error, recovery)) and recovery.is_refused:
            verdict.outcome = "neither mounts it"
        else:
            verdict.faults.append(f"refused: {error}")
            _complain(verdict, recovery)
    if verdict.faults or keeping.keeps_all:
        folder = keeping.folder / f"{verdict.case}-{verdict.kernel}"
        verdict.kept = str(folder)
        _keep(folder, verdict, image, recovery, script)
    return verdict


def judge_again(verdict: Verdict, options: dict[str, object]) -> Verdict:
    """Judge a case that was kept, which needs no kernel: after a change of what reads images.

    The case is as it was, its faults are those of today. Raises `OSError` if it was not kept whole.
    """
    folder = Path(verdict.kept)
    names = ("case", "kernel", "direction", "script_seed", "cut", "kind", "shape")
    fresh = Verdict(**{name: getattr(verdict, name) for name in names})
    packed = next(folder.glob(f"*{_PACKED}"))
    script = next(folder.glob("*.ops"))
    with tempfile.TemporaryDirectory(prefix="nandlab-case-") as unpacked:
        image = Path(unpacked) / packed.name.removesuffix(_PACKED)
        with gzip.open(packed, "rb") as source, image.open("wb") as target:
            shutil.copyfileobj(source, target)
        # What is kept stays as it is.
        nowhere = Keeping(Path(unpacked) / "kept")
        judged = judge(fresh, image, options, _kept_recovery(folder, fresh.case), nowhere, script)
    judged.kept = verdict.kept
    return judged


def _kept_recovery(folder: Path, case: str) -> Recovery:
    def text(name: str) -> str:
        return (folder / name).read_text(encoding="utf-8")

    return Recovery(
        case,
        rows(text("kernel.first.tsv")),
        rows(text("kernel.second.tsv")),
        text("dmesg"),
        text("kernel.error").strip() or None,
    )


def _may_be_lost(verdict: Verdict) -> bool:
    # JFFS2 takes a block whose mark in the spare area is torn for a used one, and refuses a medium
    # without any node then (`jffs2_scan_medium` in fs/jffs2/scan.c: "Cowardly refusing").
    is_torn_mark = (verdict.kind, verdict.shape) == ("spare-program", "random-bits")
    return verdict.kind in LOSING_KINDS or is_torn_mark


def _has_no_node(error: NandlabError, recovery: Recovery) -> bool:
    """Both say that JFFS2 has no node: the first program of the medium was torn."""
    return "no valid node" in str(error) and "no valid JFFS2 nodes" in recovery.messages


def _is_lost_alike(verdict: Verdict, recovery: Recovery, *, has_damage: bool) -> bool:
    """The kernel mounted it and could not list all of it, and it is damaged here."""
    error = recovery.error or ""
    # A page of JFFS2 without ECC may damage the only node of an inode, and leave its name whole.
    is_unread = verdict.kind in LOSING_KINDS or "Input/output error" in error
    return bool(error) and "mount failed" not in error and is_unread and has_damage


def _complain(verdict: Verdict, recovery: Recovery) -> None:
    if recovery.error:
        verdict.faults.append(f"the kernel: {recovery.error}")


def _compare(verdict: Verdict, here: list[str], recovery: Recovery) -> None:
    _complain(verdict, recovery)
    verdict.ls_equal = here == recovery.first
    if not verdict.ls_equal:
        verdict.faults.append(f"ls: {_difference(here, recovery.first)}")


def _check(verdict: Verdict, image: Path, options: dict[str, object]) -> None:
    findings = engine.call("image_check", image, options)["findings"]
    verdict.findings = [str(one) for one in findings]
    if verdict.kind in LOSING_KINDS and findings:
        verdict.outcome = "recovered with a hole"
        findings = [one for one in findings if not _LOST_LOG.fullmatch(one["what"])]
    if findings and verdict.shape != "random-bits":
        shown = "; ".join(str(one) for one in findings[:_SHOWN_FINDINGS_MAX])
        verdict.faults.append(f"check: {shown}")


def _difference(here: list[str], kernel: list[str]) -> str:
    only_here = [f"here {row!r}" for row in here if row not in set(kernel)]
    only_there = [f"kernel {row!r}" for row in kernel if row not in set(here)]
    return " | ".join([*only_here[:_SHOWN_ROWS_MAX], *only_there[:_SHOWN_ROWS_MAX]])


def _keep(folder: Path, verdict: Verdict, image: Path, recovery: Recovery, script: Path) -> None:
    """Keep the dump: the seed alone does not bring a kernel to the same place again."""
    folder.mkdir(parents=True, exist_ok=True)
    with (
        image.open("rb") as source,
        gzip.open(folder / f"{image.name}{_PACKED}", "wb", 6) as target,
    ):
        shutil.copyfileobj(source, target)
    shutil.copyfile(script, folder / script.name)
    for name, listing in (("first", recovery.first), ("second", recovery.second)):
        text = "".join(f"{row}\n" for row in listing)
        (folder / f"kernel.{name}.tsv").write_text(text, encoding="utf-8")
    (folder / "dmesg").write_text(recovery.messages, encoding="utf-8")
    (folder / "kernel.error").write_text(recovery.error or "", encoding="utf-8")
    (folder / "verdict").write_text(
        "".join(f"{name}: {value}\n" for name, value in verdict.row().items()), encoding="utf-8"
    )


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
