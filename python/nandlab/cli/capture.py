"""`nandlab capture`."""

from pathlib import Path
from typing import Any


def capture(
    *,
    out: Path | None = None,
    file_system: str = "fat",
    file_set: str = "mp3",
    processes: int = 1,
    operations: int | None = None,
    seed: int = 1,
    device: str | None = None,
    seconds: int = 60,
    verify: bool = False,
) -> int:
    """Capture a block trace: of a file workload in a virtual machine, or of a disk of this host.

    Parameters
    ----------
    out
        Stem of the files to write: STEM.blktrace.0 and, for file workloads, STEM.parquet (what
        studies read), STEM.json and STEM.operations.tsv. Not needed with --verify.
    file_system
        File system of the workload: ext4, fat or ntfs.
    file_set
        File set of the workload: jpg (small files) or mp3 (large files).
    processes
        Processes that copy and delete at the same time.
    operations
        File operations after the disk is filled; the full length of the file set if left out.
    seed
        Draws sizes and operations.
    device
        Record this disk, such as /dev/sdb, in place of a workload. Needs root.
    seconds
        How long to record the disk.
    verify
        Make the small shipped trace of the file system (fat or ntfs) again and compare requests,
        sectors and distinct sectors; exit code 1 if they differ by more than 2 %.

    """
    from nandlab.canonical import write_canonical
    from nandlab.capture import CaptureError, capture_device, capture_workload
    from nandlab.errors import NandlabError
    from nandlab.outputs import check_file
    from nandlab.terminal.output import print_table, print_text
    from nandlab.terminal.progress import progress_bar
    from nandlab.vm import VmRunError, VmUnavailable
    from nandlab.whole_files import whole_files

    try:
        if verify:
            return _verify(_small_trace(file_system), out)
        if out is None:
            raise NandlabError("--out STEM is missing: it names the files to write")
        check_file(out)
        with whole_files() as files, progress_bar(f"{file_system} {file_set}") as progress:
            scratch = files.folder(out.parent)
            assert scratch is not None
            stem = scratch / out.name
            if device is not None:
                for path in capture_device(device, seconds, stem):
                    print_text(str(out.parent / path.name))
                return 0
            metadata = capture_workload(
                file_system,
                file_set,
                processes,
                seed,
                stem,
                operations=operations,
                progress=lambda done, total: progress(done, total, ""),
            )
            write_canonical(Path(f"{stem}.blktrace.0"), metadata, Path(f"{stem}.parquet"))
    except (CaptureError, VmRunError, VmUnavailable) as error:
        raise NandlabError(str(error)) from None
    counts: dict[str, Any] = metadata["counts"]
    print_table(
        f"{out}.parquet",
        ("", ""),
        [(name.replace("_", " "), str(value)) for name, value in counts.items()],
    )
    return 0


def _small_trace(file_system: str) -> Path:
    from nandlab.errors import NandlabError
    from nandlab.studies import studies_directory

    studies = studies_directory()
    traces = studies.parent / "traces" / "small" if studies else Path("traces/small")
    found = sorted(traces.glob(f"{file_system}-*.json"))
    if not found:
        raise NandlabError(
            f"--verify: no small trace of {file_system} is shipped; known: fat, ntfs"
        )
    return found[0]


def _verify(stored: Path, out: Path | None) -> int:
    import json
    from tempfile import TemporaryDirectory

    from nandlab.capture import verify
    from nandlab.cli import EXIT_DIFFERENT
    from nandlab.errors import NandlabError
    from nandlab.terminal.output import print_table, print_text
    from nandlab.terminal.progress import progress_bar

    try:
        metadata = json.loads(stored.read_text(encoding="utf-8"))
    except OSError as error:
        raise NandlabError(f"{stored}: {error.strerror}; name the JSON file of a trace") from None
    except ValueError as error:
        raise NandlabError(f"{stored}: not the JSON file of a trace: {error}") from None
    with TemporaryDirectory() as folder, progress_bar(f"verify {stored.name}") as progress:
        verification = verify(
            metadata,
            out or Path(folder) / "again",
            progress=lambda done, total: progress(done, total, ""),
        )
    print_table(
        "",
        ("figure", "stored", "made again", "difference", "agrees"),
        [
            (
                one.figure,
                f"{one.stored:,}",
                f"{one.remade:,}",
                f"{one.difference:.2%}",
                "yes" if one.agrees else "no",
            )
            for one in verification.comparisons
        ],
        frozenset({1, 2, 3}),
    )
    if verification.kernel_differs:
        print_text("The kernel is another one than that of the stored trace.")
    return 0 if verification.agrees else EXIT_DIFFERENT
