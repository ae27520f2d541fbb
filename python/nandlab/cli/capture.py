"""`nandlab capture`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from nandlab.cli.output_options import Output

if TYPE_CHECKING:
    from nandlab.capture import Verification


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
    output: Output | None = None,
) -> int:
    """Capture a block trace, in a virtual machine or of a disk.

    Without --device a file workload runs in a virtual machine with a real Linux kernel.

    Parameters
    ----------
    out
        Write files with this stem: STEM.blktrace.0 and, for file workloads, STEM.parquet,
        STEM.json and STEM.operations.tsv. Required without --verify.
    file_system
        Use this file system: ext4, fat or ntfs.
    file_set
        Copy and delete these files: jpg (small) or mp3 (large).
    processes
        Set the number of processes that copy and delete at the same time.
    operations
        Set the number of file operations after the disk is filled. Without it: the full length of
        the file set.
    seed
        Seed the sizes and operations.
    device
        Record this disk, such as /dev/sdb, instead of a workload. Needs root.
    seconds
        Set how long to record the disk.
    verify
        Capture the small shipped trace of the file system (fat or ntfs) again and compare it. The
        exit status is 1 if requests or sectors differ by more than 2 %.
    output
        How to print the answer.

    """
    from nandlab.canonical import write_canonical
    from nandlab.capture import CaptureError, capture_device, capture_workload
    from nandlab.cli.output_options import form_of
    from nandlab.errors import NandlabError
    from nandlab.outputs import check_file
    from nandlab.terminal.output import print_json, print_table, print_text
    from nandlab.terminal.progress import progress_bar
    from nandlab.vm import VmRunError, VmUnavailable
    from nandlab.whole_files import whole_files

    form = form_of(output)
    try:
        if verify:
            return _verify(_small_trace(file_system), out, form)
        if out is None:
            raise NandlabError("--out is missing; give --out STEM to name the files")
        check_file(out)
        with whole_files() as files, progress_bar(f"{file_system} {file_set}") as progress:
            scratch = files.folder(out.parent)
            assert scratch is not None
            stem = scratch / out.name
            if device is not None:
                captured = capture_device(device, seconds, stem)
                places = [str(out.parent / path.name) for path in captured]
                if form == "json":
                    print_json("capture", {"files": places})
                else:
                    print_text("\n".join(places))
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
    if form == "json":
        print_json("capture", metadata)
        return 0
    counts: dict[str, Any] = metadata["counts"]
    print_table(
        f"{out}.parquet",
        ("", ""),
        [(name.replace("_", " "), str(value)) for name, value in counts.items()],
    )
    return 0


def _small_trace(file_system: str) -> Path:
    from nandlab.data import folder
    from nandlab.errors import NandlabError

    found = sorted((folder("traces") / "small").glob(f"{file_system}-*.json"))
    if not found:
        raise NandlabError(
            f"--verify: no small trace of {file_system} is shipped; known: fat, ntfs"
        )
    return found[0]


def _verify(stored: Path, out: Path | None, form: str) -> int:
    import json
    from dataclasses import asdict
    from tempfile import TemporaryDirectory

    from nandlab.capture import verify
    from nandlab.cli import EXIT_DIFFERENT
    from nandlab.errors import NandlabError
    from nandlab.terminal.output import print_json
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
    if form == "json":
        print_json("capture", asdict(verification))
    else:
        _print_verification(verification)
    return 0 if verification.agrees else EXIT_DIFFERENT


def _print_verification(verification: "Verification") -> None:
    from nandlab.terminal.output import print_table, print_text

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
        print_text("The kernel differs from that of the stored trace.")
