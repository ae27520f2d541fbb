"""`nandlab script`."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from nandlab.cli.output_options import CsvOutput

_COLUMNS: dict[str, Callable[[dict[str, Any]], str]] = {
    "phase": lambda row: str(row["phase"]),
    "reads": lambda row: f"{row['reads']:,}",
    "programs": lambda row: f"{row['programs']:,}",
    "erases": lambda row: f"{row['erases']:,}",
    "simulated time": lambda row: f"{row['duration_ns'] / 1e9:,.3f} s",
}
_KERNEL_COLUMNS: dict[str, Callable[[dict[str, Any]], str]] = {
    "phase": _COLUMNS["phase"],
    "log lines of reads": lambda row: f"{row['log_reads']:,}",
    "programs": _COLUMNS["programs"],
    "erases": _COLUMNS["erases"],
}


def script(
    file: str,
    /,
    *,
    fs: str | None = None,
    part: str | None = None,
    blocks: int | None = None,
    profile: str | None = None,
    block_device: str | None = None,
    board: str | None = None,
    image: Path | None = None,
    dump: Path | None = None,
    dump_dir: Path | None = None,
    seed: int = 1,
    dirty_writeback_centisecs: int = 500,
    vid_hdr_offset: int | None = None,
    keep_going: Annotated[bool, Parameter(negative=())] = False,
    counts: Path | None = None,
    workload: str | None = None,
    seq: Path | None = None,
    place: Annotated[Literal["simulation", "kernel"], Parameter(name="--in")] = "simulation",
    manifest: Path | None = None,
    output: CsvOutput | None = None,
) -> int:
    """Run a script of system calls on a simulated file system.

    The answer holds the reads, programs and erases of the chip and the simulated time of each phase
    of the script. docs/scripts.md describes the language.

    Parameters
    ----------
    file
        Script, or - for standard input.
    fs
        Use this file system (see `nandlab list file-systems`), if the script names none.
    part
        Use this chip: a name (see `nandlab list parts`) or a part file. Without it: nandsim-64MiB.
    blocks
        Replace the number of blocks of the part. Fewer blocks are a partition of the chip.
    profile
        Follow the code of this kernel or library, such as linux-6.12.
    block_device
        Put FAT or NILFS2 on this device: a name (see `nandlab list devices`) or a device file.
        Without it: mtdblock on the chip.
    board
        Use this host: a name (see `nandlab list boards`) or a board file. Without it: a host that
        takes no time.
    image
        Load this dump with spare areas into the chip first. Without it: an erased chip.
    dump
        Write the chip to this file at the end, with data and spare area of every page.
    dump_dir
        Write the chips that the script keeps with snap and save into this folder.
    seed
        Seed the values that a kernel takes from its clock.
    dirty_writeback_centisecs
        Set the interval of the periodic write-back. 0 or at least 360000 means never.
    vid_hdr_offset
        Set the offset in bytes of UBI's volume identifier header, if the script sets none. Without
        it: the first sub-page after the erase counter header.
    keep_going
        Report failed calls and continue.
    counts
        Write the counts by phase to this CSV file.
    workload
        Name the workload in the counts. Without it: the file's stem, with / for its first -.
    seq
        Write every chip operation to this file, in order.
    place
        Run the script in the simulation, or in a real Linux kernel in an emulated machine.
    manifest
        Write the final tree to this file; needs --in kernel.
    output
        How to print the phases.

    """
    from nandlab import engine
    from nandlab.byte_sizes import natural_number
    from nandlab.cli.output_options import form_of
    from nandlab.errors import NandlabError
    from nandlab.outputs import check_file
    from nandlab.terminal.progress import progress_bar
    from nandlab.whole_files import keep_text, whole_files

    form = form_of(output)
    if vid_hdr_offset is not None:
        natural_number("--vid-hdr-offset", vid_hdr_offset, least=0)
    if blocks is not None:
        natural_number("--blocks", blocks)
    shown, text = read_script(file)
    if place == "kernel":
        _refuse_in_kernel(board=board, block_device=block_device, part=part, seq=seq)
    elif manifest is not None:
        raise NandlabError("--manifest: the simulation writes no manifest; add --in kernel")
    natural_number("--seed", seed, least=0, bits=64)
    natural_number("--dirty-writeback-centisecs", dirty_writeback_centisecs, least=0)
    name = workload or workload_name(shown)
    if counts is not None:
        check_file(counts)
    with whole_files() as files, progress_bar(shown) as progress:
        if place == "kernel":
            from nandlab.kernel_script import KernelFiles, KernelScript, run_kernel_script

            asked = KernelScript(
                shown=shown,
                text=text,
                workload=name,
                file_system=fs,
                profile=profile,
                blocks=blocks,
                vid_hdr_offset=vid_hdr_offset,
                image=image,
                seed=seed,
                dirty_writeback_centisecs=dirty_writeback_centisecs,
                keep_going=keep_going,
            )
            wanted = KernelFiles(files.file(dump), files.folder(dump_dir), files.file(manifest))
            answer = run_kernel_script(asked, wanted, progress)
        else:
            answer = engine.run_script(
                shown,
                text,
                {
                    "fs": fs,
                    "part": part,
                    "blocks": blocks,
                    "vid_hdr_offset": vid_hdr_offset,
                    "profile": profile,
                    "block_device": block_device,
                    "board": board,
                    "image": _path(image),
                    "seed": seed,
                    "dirty_writeback_centisecs": dirty_writeback_centisecs,
                    "keep_going": keep_going,
                    "workload": name,
                    "dump": _path(files.file(dump)),
                    "sequence": _path(files.file(seq)),
                    "dump_directory": _path(files.folder(dump_dir)),
                },
                progress,
                files.elsewhere,
            )
        # Before the files are moved: a file that is lost loses nothing else.
        _print(answer, form)
        if answer["phases"] or not answer.get("interrupted"):
            keep_text(counts, answer["counts_csv"])
        if answer.get("interrupted"):
            raise _report_interruption(answer, counts)
    return 0


def _report_interruption(answer: dict[str, Any], counts: Path | None) -> BaseException:
    """Reports on standard error how far a script came; returns the exception to raise."""
    import sys

    from nandlab.interruption import received

    kept = f"; the phases that ended are in {counts}" if counts and answer["phases"] else ""
    print(
        f"Interrupted after line {answer['line']}: no chip was written{kept}.",
        file=sys.stderr,
    )
    return received() or KeyboardInterrupt()


def _refuse_in_kernel(
    *, board: str | None, block_device: str | None, part: str | None, seq: Path | None
) -> None:
    from nandlab.errors import NandlabError
    from nandlab.kernel_script import PART

    if part not in (None, PART):
        raise NandlabError(f"--part {part}: the chip of --in kernel is {PART}; omit --part")
    if board is not None:
        raise NandlabError("--board: the host of --in kernel is the emulated machine; omit --board")
    if block_device is not None:
        raise NandlabError("--block-device: --in kernel supports raw NAND only; omit the option")
    if seq is not None:
        raise NandlabError(
            "--seq: the log of the kernel's chip does not separate reads from column changes; "
            "omit --seq with --in kernel"
        )


def workload_name(shown: str) -> str:
    """The name of a workload by its file: the stem with its first - as /."""
    return Path(shown).stem.replace("-", "/", 1)


def _print(answer: dict[str, Any], form: str) -> None:
    import csv
    import sys

    from nandlab.terminal.output import print_csv, print_json, print_table

    for failure in answer["failures"]:
        print(failure, file=sys.stderr)
    for finding in answer["findings"]:
        print(f"found: {finding}", file=sys.stderr)
    if form == "json":
        print_json(
            "script", {name: value for name, value in answer.items() if name != "counts_csv"}
        )
    elif form == "csv":
        head, *rows = csv.reader(answer["counts_csv"].splitlines())
        print_csv(head, rows)
    else:
        title = f"{answer['file_system']}, {answer['profile']}" if answer["file_system"] else ""
        columns = _KERNEL_COLUMNS if "kernel" in answer else _COLUMNS
        print_table(
            title,
            tuple(columns),
            [tuple(show(row) for show in columns.values()) for row in _rows(answer)],
            frozenset(range(1, len(columns))),
        )


def _rows(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """The phases; an unfinished one is marked."""
    unfinished = answer.get("unfinished")
    if unfinished is None:
        return list(answer["phases"])
    return [*answer["phases"], unfinished | {"phase": f"{unfinished['phase']} (unfinished)"}]


def _path(path: Path | None) -> str | None:
    return None if path is None else str(path)


def read_script(argument: str) -> tuple[str, str]:
    """The name of a script in messages, and its text."""
    from nandlab.cli.standard_input import read_whole, shown_dash
    from nandlab.errors import NandlabError

    given = shown_dash(argument)
    try:
        return ("standard input" if given == "-" else given), read_whole(given).decode()
    except UnicodeDecodeError:
        raise NandlabError(f"{given} is not text; give a script in UTF-8") from None
