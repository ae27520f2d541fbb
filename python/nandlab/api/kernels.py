"""Traces captured from real kernels, and the comparison with what kernels recorded."""

import json
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from nandlab.api.answer import Answer
from nandlab.api.interrupted import Interrupted
from nandlab.errors import NandlabError

if TYPE_CHECKING:
    from nandlab.capture import Verification
    from nandlab.validation.comparison import Figure


def capture_trace(
    *,
    out: Path | str | None = None,
    file_system: str = "fat",
    file_set: str = "mp3",
    processes: int = 1,
    operations: int | None = None,
    seed: int = 1,
    writer: str = "synced",
    device: str | None = None,
    seconds: int = 60,
    verify: bool = False,
) -> Answer:
    """Capture a block trace, in a virtual machine or of a disk.

    Without `device` a file workload runs in a virtual machine with a real Linux kernel.

    Raises `NandlabError` for bad input, and if no machine can be booted.

    Args:
        out: Write files with this stem: STEM.blktrace.0 and, for file workloads, STEM.parquet,
            STEM.json and STEM.operations.tsv. Required without --verify.
        file_system: Use this file system: ext4, fat or ntfs.
        file_set: Copy and delete these files: jpg (small) or mp3 (large).
        processes: Set the number of processes that copy and delete at the same time.
        operations: Set the number of file operations after the disk is filled. Without it: the full
            length of the file set.
        seed: Seed the sizes and operations.
        writer: Write copied files back so: synced (fsync after each copy) or lazy (an
            approximation of the lazy writer of Windows).
        device: Record this disk, such as /dev/sdb, instead of a workload. Needs root.
        seconds: Set how long to record the disk.
        verify: Capture the small shipped trace of the file system (fat or ntfs) again and compare
            it. The exit status is 1 if requests or sectors differ by more than 2 %.

    """
    from nandlab.canonical import write_canonical
    from nandlab.capture import CaptureError, capture_device, capture_workload
    from nandlab.outputs import check_file
    from nandlab.terminal.progress import progress_bar
    from nandlab.vm import VmRunError, VmUnavailable
    from nandlab.whole_files import whole_files

    target = None if out is None else Path(out)
    try:
        if verify:
            found = _verification(file_system, target)
            return Answer(asdict(found), asdict(found)["comparisons"], is_clean=found.agrees)
        if target is None:
            raise NandlabError("--out is missing; give --out STEM to name the files")
        check_file(target)
        with whole_files() as files, progress_bar(f"{file_system} {file_set}") as progress:
            scratch = files.folder(target.parent)
            assert scratch is not None
            stem = scratch / target.name
            if device is not None:
                captured = capture_device(device, seconds, stem)
                return Answer({"files": [str(target.parent / path.name) for path in captured]})
            metadata = capture_workload(
                file_system,
                file_set,
                processes,
                seed,
                stem,
                operations=operations,
                writer=writer,
                progress=lambda done, total: progress(done, total, ""),
            )
            write_canonical(Path(f"{stem}.blktrace.0"), metadata, Path(f"{stem}.parquet"))
            return Answer(metadata)
    except (CaptureError, VmRunError, VmUnavailable) as error:
        raise NandlabError(str(error)) from None


def _verification(file_system: str, out: Path | None) -> "Verification":
    """Captures the small shipped trace of a file system again."""
    from nandlab.capture import verify
    from nandlab.data import folder
    from nandlab.terminal.progress import progress_bar

    stored = next((folder("traces") / "small").glob(f"{file_system}-*.json"), None)
    if stored is None:
        raise NandlabError(
            f"--verify: no small trace of {file_system} is shipped; known: fat, ntfs"
        )
    metadata = json.loads(stored.read_text(encoding="utf-8"))
    with TemporaryDirectory() as scratch, progress_bar(f"verify {stored.name}") as progress:
        stem = out or Path(scratch) / "again"
        return verify(metadata, stem, progress=lambda done, total: progress(done, total, ""))


def validate(*, out: Path | str | None = None) -> Answer:
    """Compare operation counts on simulated raw NAND with those of real kernels.

    `text` is the page, unless it was written.

    Raises `NandlabError` if the page cannot be written, and `Interrupted` after Ctrl-C, with the
    finished comparisons.

    Args:
        out: Write the page to this file. Without it: print the page.

    """
    from nandlab.outputs import check_file
    from nandlab.terminal.output import counted
    from nandlab.terminal.progress import progress_bar
    from nandlab.validation.comparison import compare
    from nandlab.validation.page import render
    from nandlab.validation.workloads import find_workloads
    from nandlab.whole_files import keep_text

    target = None if out is None else Path(out)
    if target is not None:
        check_file(target)
    with progress_bar("validate") as progress:
        comparison = compare(find_workloads(), progress)
    page, rows = render(comparison), [_row(figure) for figure in comparison.figures]
    if comparison.unfinished:
        # An incomplete page never replaces a complete one.
        left = counted(comparison.unfinished, "workload")
        raise Interrupted(f"Interrupted: {left} not compared.", Answer(rows, rows, page))
    keep_text(target, page)
    wrong = [one for one in rows if not one["holds"] and one["explanation"] is None]
    complaints = tuple(f"differs: {one['workload']} {one['phase']} {one['kind']}" for one in wrong)
    text = page if target is None else ""
    return Answer(rows, rows, text, complaints, is_clean=not wrong)


def _row(figure: "Figure") -> dict[str, object]:
    return {
        "workload": figure.workload.name,
        "phase": figure.phase,
        "kind": figure.kind,
        "recorded": figure.recorded,
        "simulated": figure.shown,
        "difference": figure.difference,
        "holds": figure.holds,
        "explanation": figure.explanation,
    }
