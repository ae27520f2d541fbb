"""What a power cut takes of a script's work, in seconds of its own time.

A log of records is gathered while the script pauses, and written by the line after the pause. So
what a cut takes is told by the pauses: the time from the last state that is safe, or that was
found after a cut, to the cut. Two numbers are told apart: what the guarantee of a file system
allows, and what was found after cuts at some of the lines.
"""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nandlab import engine
from nandlab.comparison.script_lines import Step, length_s, sizes_after, steps, without_sync
from nandlab.engine import Progress
from nandlab.errors import NandlabError
from nandlab.interruption import received

_SAFE_AT_CLOSE = ("yaffs2",)
"""Their bytes are safe when a file is closed, and their names when a call returns."""
_SAFE_WITH_ALL_BEFORE = ("jffs2",)
"""An fsync makes all safe that came before it."""
_SAFE_BY_FILE = ("ubifs",)
"""An fsync makes its file safe, and all names that were changed before."""

MEASURED = (*_SAFE_AT_CLOSE, *_SAFE_WITH_ALL_BEFORE, *_SAFE_BY_FILE)
"""File systems whose chips are looked at after a cut."""

_CUTS = 8
"""Lines of the script that are cut."""

_BLOCKS_LEAST = 128

_PLAIN: Mapping[str, Any] = {
    **dict.fromkeys(("image", "block_device", "dump", "sequence", "timeline", "vid_hdr_offset")),
    "dirty_writeback_centisecs": 500,
    "keep_going": False,
    "workload": "cuts",
}
"""The other arguments of a script: those of `nandlab script` without options."""


def allowed_s(file_system: str, script: str) -> float | None:
    """The most that the guarantee lets a cut take, in seconds; None of a script without pauses.

    A file system without a guarantee may lose all.
    """
    whole_s = length_s(script)
    if whole_s == 0:
        return None
    if file_system not in MEASURED:
        return whole_s
    # What is not safe yet, by path: since when its bytes were gathered; names are one entry.
    waiting: dict[str, float] = {}
    written: dict[str, float] = {}
    most_s = 0.0
    for step in steps(script):
        for path in step.paths if not step.changes_names else ("",):
            since_s = written.get(path, step.at_s) if step.goes_on else step.at_s
            if step.word not in ("fsync", "fdatasync"):
                waiting.setdefault(path, since_s)
                written[path] = step.at_s
        for path in _made_safe(file_system, step, tuple(waiting)):
            most_s = max(most_s, step.at_s - waiting.pop(path))
    return max([most_s, *(whole_s - since_s for since_s in waiting.values())])


def _made_safe(file_system: str, step: Step, waiting: Sequence[str]) -> Sequence[str]:
    """What is safe when a line has ended."""
    if step.syncs == "all" or (step.syncs and file_system in _SAFE_WITH_ALL_BEFORE):
        return waiting
    if file_system in _SAFE_AT_CLOSE:
        # An open, a write and a close are one line, and a call on names is safe at once.
        return [one for one in waiting if one in (*step.paths, "")]
    return [one for one in waiting if one in (*step.paths, "")] if step.syncs else []


@dataclass(frozen=True)
class FoundLoss:
    """What cuts at some lines took: seconds at most, and the line of that cut."""

    cuts: int
    loss_s: float
    line: int
    note: str = ""


def found_losses(
    script: Path, stack: Mapping[str, Any], progress: Progress | None = None
) -> FoundLoss:
    """Cuts the power at some lines of a script, before what the line syncs, and after it.

    `stack` has `fs`, `profile`, `part`, `board` and `seed`. The chip is fresh, and a piece of the
    part that the script fits on. Files are told by their sizes.

    Raises `NandlabError` if the script fails there.
    """
    text = script.read_text(encoding="utf-8")
    chosen = _chosen(steps(text))
    changed = _with_snapshots(text, {step.line for step in chosen})
    after = sizes_after(text)
    with tempfile.TemporaryDirectory(prefix="nandlab-cuts-") as folder:
        asked = {**_PLAIN, **stack, "blocks": _blocks_for(after), "dump_directory": folder}
        answer = engine.run_script(str(script), changed, asked, progress)
        if answer["interrupted"]:
            raise received() or KeyboardInterrupt
        worst, count, notes = (0.0, 0), 0, []
        for step in chosen:
            for name in (f"before{step.line}", f"after{step.line}"):
                image = Path(folder) / name
                if not image.is_file():
                    continue
                count += 1
                try:
                    found = engine.call("image_list", str(image), {"fs": stack["fs"]}, False)
                except NandlabError as error:
                    notes.append(f"after a cut at line {step.line}: {error}")
                    continue
                sizes = {row["path"]: int(row["size"]) for row in found["rows"]}
                worst = max(worst, (_lost_s(step, after, sizes), step.line))
    return FoundLoss(count, *worst, note="; ".join(notes[:1]))


def _chosen(found: Sequence[Step]) -> list[Step]:
    """Steps that write, spread over the script, the last one included."""
    writing = [one for one in found if one.word in ("put", "append", "write", "rwrite")]
    if len(writing) <= _CUTS:
        return writing
    places = (round(one * (len(writing) - 1) / (_CUTS - 1)) for one in range(_CUTS))
    return [writing[place] for place in places]


def _with_snapshots(text: str, lines: set[int]) -> str:
    """The script, with a copy of the chip before each of these lines is synced, and after it."""
    told = []
    for number, line in enumerate(text.splitlines(), 1):
        plain, path = without_sync(line)
        if number not in lines:
            told.append(line)
        elif path is None:
            told += [line, f"snap after{number}"]
        else:
            told += [plain, f"snap before{number}", f"fsync {path}", f"snap after{number}"]
    return "\n".join(told) + "\n"


def _blocks_for(after: Sequence[tuple[float, int, Mapping[str, int]]]) -> int:
    """Blocks of 128 KiB that hold what the script leaves eight times over."""
    most = max((sum(sizes.values()) for _, _, sizes in after), default=0)
    return max(_BLOCKS_LEAST, -(-8 * most // (128 << 10)))


def _lost_s(
    cut: Step, after: Sequence[tuple[float, int, Mapping[str, int]]], found: Mapping[str, int]
) -> float:
    """How long before the cut the files were as they are found."""
    known = [one for one in after if one[1] <= cut.line]
    lost_s = 0.0
    for path, length in known[-1][2].items():
        if found.get(path, -1) >= length:
            continue
        # Walked back to the line after which the file was no longer than what is there.
        alike = (
            at for at, _, sizes in reversed(known) if sizes.get(path, -1) <= found.get(path, -1)
        )
        first_s = next((at for at, _, sizes in known if path in sizes), cut.at_s)
        lost_s = max(lost_s, cut.at_s - next(alike, first_s))
    return lost_s
