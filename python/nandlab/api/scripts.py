"""Scripts of system calls, and power cuts at their operations."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from nandlab.api.answer import Answer, csv_text, frame_of
from nandlab.api.given import checked, text_of
from nandlab.api.interrupted import Interrupted
from nandlab.errors import NandlabError

if TYPE_CHECKING:
    import polars

VIOLATION = (
    "cut_point",
    "torn",
    "then",
    "kind",
    "path",
    "operation",
    "line",
    "passes",
    "expected",
    "found",
)
"""Columns of a violation, and of a broken expectation."""

EXPECTATION = "expectation-"
"""What the kind of a broken expectation begins with; its symptom follows."""

CHECK = "check"
"""The kind of a cut that `check` says is broken."""


class Script(Answer):
    """What a script of system calls cost."""

    @property
    def phases(self) -> "polars.DataFrame":
        """Operations of the chip and simulated time (ns) of each phase."""
        return self.frame

    @property
    def failures(self) -> tuple[str, ...]:
        """System calls that failed, with `keep_going=True`."""
        return tuple(self.answer["failures"])

    @property
    def findings(self) -> tuple[str, ...]:
        """What the file system found damaged."""
        return tuple(self.answer["findings"])

    @property
    def scrubs(self) -> tuple[dict[str, Any], ...]:
        """What each line `scrub` found: bit errors by file, and the conditions."""
        return tuple(self.answer.get("scrubs", ()))

    @property
    def lost_first(self) -> tuple[str, ...]:
        """Files that gave an error or wrong bytes at the first `scrub` where any did."""
        lost = ([one["path"] for one in scrub["files"] if is_lost(one)] for scrub in self.scrubs)
        return tuple(next(filter(None, lost), ()))


def is_lost(file: Mapping[str, Any]) -> bool:
    """Whether a file of a scrub gave an error or wrong bytes."""
    return bool(file["error"] or file["wrong_bytes"])


def script(
    file: str | Path,
    *,
    fs: str | None = None,
    part: str | Path | None = None,
    blocks: int | None = None,
    profile: str | None = None,
    block_device: str | Path | None = None,
    board: str | Path | None = None,
    image: Path | str | None = None,
    dump: Path | str | None = None,
    dump_dir: Path | str | None = None,
    seed: int = 1,
    dirty_writeback_centisecs: int = 500,
    vid_hdr_offset: int | None = None,
    keep_going: bool = False,
    counts: Path | str | None = None,
    workload: str | None = None,
    seq: Path | str | None = None,
    timeline: Path | str | None = None,
    place: Literal["simulation", "kernel", "host"] = "simulation",
    manifest: Path | str | None = None,
    keep: bool = False,
    no_sleep: bool = False,
) -> Script:
    """Run a script of system calls on a simulated file system, and count what the chip did.

    A `file` that holds a line break is the text of the script.

    Raises `NandlabError` for bad input, and `Interrupted` after Ctrl-C.

    Args:
        file: Script, or - for standard input.
        fs: Use this file system (see `nandlab list file-systems`), if the script names none.
        part: Use this chip: a name (see `nandlab list parts`) or a part file. Without it:
            nandsim-64MiB.
        blocks: Replace the number of blocks of the part. Fewer blocks are a partition of the chip.
        profile: Follow the code of this kernel or library, such as linux-6.12.
        block_device: Put FAT or NILFS2 on this device: a name (see `nandlab list devices`) or a
            device file. Without it: mtdblock on the chip.
        board: Use this host: a name (see `nandlab list boards`) or a board file. Without it: a host
            that takes no time.
        image: Load this image into the chip first: a dump with spare areas, or an image without, as
            ubinize writes it. Without it: an erased chip.
        dump: Write the chip to this file at the end, with data and spare area of every page.
        dump_dir: Write the chips that the script keeps with snap and save into this folder.
        seed: Seed the values that a kernel takes from its clock.
        dirty_writeback_centisecs: Set the interval of the periodic write-back. 0 or at least 360000
            means never.
        vid_hdr_offset: Set the offset in bytes of UBI's volume identifier header, if the script
            sets none. Without it: the first sub-page after the erase counter header.
        keep_going: Report failed calls and continue.
        counts: Write the counts by phase to this CSV file.
        workload: Name the workload in the counts. Without it: the file's stem, with / for its first
            -.
        seq: Write every chip operation to this file, in order.
        timeline: Write when each line ran, and what chip, requests and dies did, into this file,
            which Perfetto opens.
        place: Run the script in the simulation, in a real Linux kernel in an emulated machine, or
            in a new temporary directory of this machine.
        manifest: Write the final tree to this file; needs --in kernel or --in host.
        keep: Keep the directory of --in host, and name it.
        no_sleep: Skip the waits of sleep and every; needs --in host.

    """
    from nandlab import engine
    from nandlab.outputs import check_file
    from nandlab.terminal.progress import progress_bar
    from nandlab.whole_files import keep_text, whole_files

    if place == "host":
        chip = {"fs": fs, "part": part, "blocks": blocks, "profile": profile, "board": board}
        chip |= {"block-device": block_device, "image": image, "dump": dump, "dump-dir": dump_dir}
        chip |= {"vid-hdr-offset": vid_hdr_offset, "seq": seq, "timeline": timeline}
        chip |= {"workload": workload}
        choices = {"keep": keep, "waits": not no_sleep, "keep_going": keep_going}
        return _on_host(file, chip, choices, _path(manifest), _path(counts))
    if keep or no_sleep:
        raise NandlabError(f"--{'keep' if keep else 'no-sleep'}: needs --in host")
    if place == "kernel":
        _refuse_in_kernel(part, board, block_device, seq, timeline)
    elif manifest is not None:
        raise NandlabError("--manifest: the simulation writes no manifest; add --in kernel")
    shown, text = text_of(file, "script", "script")
    options = {"fs": fs, "blocks": blocks, "profile": profile, "image": image, "seed": seed}
    options |= {"dirty_writeback_centisecs": dirty_writeback_centisecs, "keep_going": keep_going}
    options |= {"vid_hdr_offset": vid_hdr_offset, "workload": workload or workload_name(shown)}
    asked = checked(options, from_zero=("vid_hdr_offset",))
    if counts is not None:
        check_file(Path(counts))
    if timeline is not None:
        check_file(Path(timeline))
    found = None
    try:
        with whole_files() as files, progress_bar(shown) as progress:
            chips = files.file(_path(dump)), files.folder(_path(dump_dir))
            if place == "kernel":
                from nandlab.kernel_script import KernelFiles, KernelScript, run_kernel_script

                wanted = KernelFiles(*chips, files.file(_path(manifest)))
                answer = run_kernel_script(KernelScript(shown, text, **asked), wanted, progress)
            else:
                host = {"part": part, "board": board, "block_device": block_device}
                written = {"dump": chips[0], "dump_directory": chips[1]}
                written["sequence"] = files.file(_path(seq))
                # The engine gives it its name at the end, as it writes it while the script runs.
                written["timeline"] = _path(timeline)
                asked |= checked(host | written)
                answer = engine.run_script(shown, text, asked, progress, files.elsewhere)
            found = _answer(answer)
            if answer["phases"] or not answer.get("interrupted"):
                keep_text(_path(counts), found.text)
            if answer.get("interrupted"):
                is_kept = counts is not None and answer["phases"]
                kept = f"; the phases that ended are in {counts}" if is_kept else ""
                passes = f", {answer['passes']}" if answer["passes"] else ""
                told = (
                    f"Interrupted after line {answer['line']}{passes}: no chip was written{kept}."
                )
                raise Interrupted(told, found)
    except NandlabError as error:
        # What was counted is shown, even if a file is lost.
        error.result = found
        raise
    return found


def _on_host(
    file: str | Path,
    chip: dict[str, Any],
    choices: dict[str, bool],
    manifest: Path | None,
    counts: Path | None,
) -> Script:
    """Carries a script out in a directory of this machine; `chip` must ask for nothing."""
    from nandlab.host_script import HostScript, run_host_script
    from nandlab.outputs import check_file
    from nandlab.whole_files import keep_text, whole_files

    for name, value in chip.items():
        if value is not None:
            raise NandlabError(f"--{name}: a directory of this machine has no chip; omit --{name}")
    shown, text = text_of(file, "script", "script")
    if counts is not None:
        check_file(counts)
    with whole_files() as files:
        answer = run_host_script(HostScript(shown, text, **choices, manifest=files.file(manifest)))
    found = _answer(answer)
    try:
        keep_text(counts, found.text)
    except NandlabError as error:
        error.result = found
        raise
    return found


def workload_name(shown: str) -> str:
    """The name of a workload by its file: the stem with its first - as /."""
    return Path(shown).stem.replace("-", "/", 1)


def _refuse_in_kernel(
    part: str | Path | None,
    board: str | Path | None,
    block_device: str | Path | None,
    seq: str | Path | None,
    timeline: str | Path | None,
) -> None:
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


def _answer(answer: dict[str, Any]) -> Script:
    counts = answer.pop("counts_csv")
    found = (f"found: {one}" for one in answer["findings"])
    complaints = *answer["failures"], *answer.get("late", ()), *found
    return Script(answer, answer["phases"], counts, complaints)


def _path(place: str | Path | None) -> Path | None:
    return None if place is None else Path(place)


class Crash(Answer):
    """What power cuts at the operations of a script left."""

    @property
    def violations(self) -> "polars.DataFrame":
        """Every broken guarantee: cut point, kind, path, what was expected and what was found."""
        return frame_of([row for row in self.rows if is_violation(row)])

    @property
    def broken_expectations(self) -> "polars.DataFrame":
        """Every cut that broke what an `expect` line says, in the columns of a violation."""
        return frame_of([row for row in self.rows if row["kind"].startswith(EXPECTATION)])

    @property
    def broken_checks(self) -> "polars.DataFrame":
        """Every cut that `check` says is broken, in the columns of a violation."""
        return frame_of([row for row in self.rows if row["kind"] == CHECK])

    @property
    def sentences(self) -> tuple[str, ...]:
        """Broken expectations in words, then what `check` said: equal ones are one sentence."""
        lines = [*self.answer["expectations"], *filter(None, [self.answer["check"]])]
        return tuple(group["sentence"] for line in lines for group in line["groups"])

    @property
    def has_expectations(self) -> bool:
        """False if the script has no `expect` line: then only the file system was tested."""
        return bool(self.answer["expectations"])

    @property
    def cuts(self) -> int:
        """Cuts that were made."""
        return sum(int(torn["cuts"]) for torn in self.answer["torn"])

    def _repr_html_(self) -> str:
        if self.is_clean:
            kept = ", all expectations kept" if self.has_expectations else ""
            return f"<p><strong>{self.cuts:,} cuts, no violation{kept}</strong></p>"
        return super()._repr_html_()


def is_violation(row: Mapping[str, Any]) -> bool:
    """True for a row of a broken guarantee; the others are of expectations and of `check`."""
    return row["kind"] != CHECK and not row["kind"].startswith(EXPECTATION)


def crash(
    file: str | Path,
    *,
    fs: str,
    part: str | Path = "k9f2g08u0c",
    block_device: str | Path | None = None,
    image: Path | str | None = None,
    blocks: int | None = None,
    pages_per_block: int | None = None,
    profile: str | None = None,
    every: int = 1,
    only: int | None = None,
    torn: Sequence[str] = (),
    check: str | Callable[[Path, int | None], str | None] | None = None,
    show: int | None = None,
    dump: tuple[int, Path] | None = None,
    recoveries: int = 0,
    then: Sequence[str] = (),
    minimise: Path | str | None = None,
    seed: int = 1,
    jobs: int | None = None,
    out: Path | str | None = None,
) -> Crash:
    """Cut the power of a script at every operation of the medium, and judge what is left.

    Lines `expect` of the script say what the application needs; they are judged beside the
    guarantees of the file system. So is `check`, a command or a function of your own. A function
    takes the folder of the files and the number of the newest `ack` line, or None. It returns why
    the files do not hold, or None.

    A `file` that holds a line break is the text of the script.

    Raises `NandlabError` for bad input, and `Interrupted` after Ctrl-C.

    Args:
        file: Script, or - for standard input. docs/scripts.md describes the language.
        fs: Use this file system (see `nandlab list file-systems`).
        part: Use this chip: a name (see `nandlab list parts`) or a part file.
        block_device: Put FAT, NILFS2 or jffs2-block2mtd on a partition of this device, as large as
            the chip: a name (see `nandlab list devices`) or a device file. Without it: mtdblock on
            the chip, and emmc-4.5-64gb for jffs2-block2mtd.
        image: Load this image first: a dump with spare areas, an image of UBI, or a disk image of
            FAT or NILFS2. Cuts begin when it is mounted; what it shows then is safe.
        blocks: Replace the number of blocks of the part. Without it: those of the image, else 64.
        pages_per_block: Replace the pages of a block of the part. Smaller blocks are collected
            sooner.
        profile: Follow the code of this kernel or library, such as linux-6.12.
        every: Cut at every Nth operation.
        only: Cut only at this operation: the cut point of a violation.
        torn: Leave this of a torn operation: nothing, prefix or data-only; of the cache of a device
            kept, lost or reordered. May be repeated. Without it: all three.
        check: Run this command of the shell after every cut, in a folder with the files that were
            found. It exits with 0 if they hold; with 1 if not, and its last line says why.
            NANDLAB_ACK has the number of the newest ack line.
        show: Cut only at this operation. Show the tree that is found beside those that the
            application had before and would have had after the call.
        dump: Cut only at this operation, and write the medium to this file before it is mounted: a
            chip with data and spare area of every page, the partition of a block device as a disk
            image. Without --torn the model is nothing, or lost of a block device.
        recoveries: Cut the mount after each cut, too, at every operation by which it changes the
            medium, in each torn model. With 2, cut the mount after such a cut, too.
        then: Cut only at this operation of the mount after the cut, such as 3:prefix. Given again:
            of the mount after that. Give --only and --torn, too.
        minimise: Write the smallest script that still fails in this way to this file, with the
            command that shows it.
        seed: Seed the values that a kernel takes from its clock.
        jobs: Check this many cuts at the same time. Without it: one for each processor.
        out: Write everything to this file: JSON, or the violations as CSV if the name ends in .csv.

    """
    import json

    from nandlab import engine
    from nandlab.cut_checks import CutCheck
    from nandlab.outputs import check_file
    from nandlab.terminal.progress import progress_bar
    from nandlab.whole_files import keep_text, whole_files

    shown, text = text_of(file, "script", "script")
    only = _one_cut(only, show, dump, torn)
    options: dict[str, Any] = {
        "fs": fs,
        "part": part,
        "block_device": block_device,
        "image": image,
        "blocks": blocks,
        "pages_per_block": pages_per_block,
    }
    options |= {"profile": profile, "every": every, "only": only, "torn": list(torn)}
    then = _then(then, only, torn, recoveries)
    options |= {"recoveries": recoveries, "then": list(then)}
    given = {**options, "show": show, "seed": seed, "jobs": jobs}
    asked = checked(given, from_zero={"recoveries"})
    asked["workers"] = asked.pop("jobs")
    target, smaller = _path(out), _path(minimise)
    if smaller is not None:
        check_file(smaller)
        if image is not None:
            raise NandlabError("--minimise: an image cannot be made smaller; omit --image")
        if check is not None:
            raise NandlabError(
                "--minimise: a script is made smaller by its violations and expectations, not by a "
                "check; omit --check"
            )
    if target is not None:
        check_file(target)
    with ExitStack() as within:
        looks = None if check is None else within.enter_context(CutCheck(check, jobs))
        files = within.enter_context(whole_files())
        progress = within.enter_context(progress_bar(shown))
        chip = files.file(None if dump is None else Path(dump[1]))
        asked["dump"] = None if chip is None else str(chip)
        answer = engine.cut_script(shown, text, asked, progress, looks)
    if looks is not None:
        answer["check"]["command"] = looks.name
    rows = [violation for cut in answer["torn"] for violation in cut["violations"]]
    rows += [
        _broken_row(line, failure)
        for line in answer["expectations"]
        for failure in line["failures"]
    ]
    if answer["check"] is not None:
        rows += [_checked_row(answer["check"], one) for one in answer["check"]["failures"]]
    table = csv_text(VIOLATION, rows)
    found = Crash(answer, rows, table, is_clean=not rows)
    is_table = target is not None and target.suffix == ".csv"
    try:
        keep_text(target, table if is_table else json.dumps(answer, indent=1) + "\n")
    except NandlabError as error:
        error.result = found
        raise
    if answer["interrupted"]:
        raise Interrupted("Interrupted: some cuts were not made.", found)
    if smaller is None:
        return found
    if not rows:
        complaint = f"--minimise: nothing fails, so {smaller} was not written"
        return Crash(answer, rows, table, (*found.complaints, complaint))
    with progress_bar(f"smaller than {shown}") as progress:
        smallest = engine.minimise_script(shown, text, asked, progress)
    answer["minimised"] = write_smallest(smaller, smallest, {**options, "seed": seed})
    if smallest["interrupted"]:
        raise Interrupted(f"Interrupted: {smaller} has the smallest script so far.", found)
    return found


def write_smallest(
    target: Path, smallest: dict[str, Any], options: dict[str, Any]
) -> dict[str, Any]:
    """Writes a minimised script behind its head, and tells of it.

    The command of the head is carried out once, for its digest.
    """
    from nandlab.crash_files import HEAD_LINES, command, cut_of, digest_of, file_text
    from nandlab.whole_files import keep_text

    failure, script = smallest["failure"], smallest["text"]
    shown_by = command(target.name, options, failure)
    places = ("fs", "part", "block_device", "blocks", "pages_per_block", "profile", "seed")
    asked = {key: options[key] for key in places if options.get(key) is not None}
    try:
        rows = crash("#\n" * HEAD_LINES + script, **asked, **cut_of(failure)).rows
    except NandlabError as error:
        rows = [{"error": str(error)}]
    text = file_text(shown_by, failure["shown"], digest_of(rows), script)
    keep_text(target, text)
    lines = script.count("\n")
    told = {"lines": lines, "tried": smallest["tried"], "shows": failure["shown"]}
    return {"file": str(target), "command": shown_by, **told}


def _then(
    then: Sequence[str], only: int | None, torn: Sequence[str], recoveries: int
) -> Sequence[str]:
    """The cuts of recoveries, which follow one cut."""
    if not then:
        return then
    if only is None or len(torn) != 1:
        raise NandlabError("--then: a recovery follows one cut; give --only and one --torn, too")
    if recoveries:
        raise NandlabError("--then, --recoveries: give one of them")
    return then


def _one_cut(
    only: int | None, show: int | None, dump: tuple[int, Path] | None, torn: Sequence[str]
) -> int | None:
    """The one cut that is asked for, if one is."""
    given = {"--only": only, "--show": show, "--dump": None if dump is None else dump[0]}
    asked = {name: cut for name, cut in given.items() if cut is not None}
    if len(set(asked.values())) > 1:
        names = ", ".join(f"{name} {cut}" for name, cut in asked.items())
        raise NandlabError(f"{names}: give the same cut point to all of them")
    if dump is not None and len(torn) > 1:
        raise NandlabError("--dump: a medium has one state; give --torn once")
    return next(iter(asked.values()), None)


def _broken_row(line: dict[str, Any], failure: dict[str, Any]) -> dict[str, Any]:
    """A cut that broke an expectation, in the columns of a violation."""
    return _failed_row(failure) | {
        "then": failure["then"],
        "kind": f"{EXPECTATION}{failure['symptom']}",
        "path": failure["path"],
        "expected": f"{line['expectation']} (line {line['line']['line']})",
        "found": failure["found"],
    }


def _checked_row(check: dict[str, Any], failure: dict[str, Any]) -> dict[str, Any]:
    """A cut that the user's own check says is broken, in the columns of a violation."""
    told = {"then": "", "kind": CHECK, "path": ".", "found": failure["reason"]}
    return _failed_row(failure) | told | {"expected": f"check {check['command']}"}


def _failed_row(failure: dict[str, Any]) -> dict[str, Any]:
    """Where a cut was, in the columns of a violation."""
    place = failure["within"] or failure["after"] or {"line": 0, "passes": ""}
    named = {name: failure[name] for name in ("cut_point", "torn", "operation")}
    return named | {"line": place["line"], "passes": place["passes"]}
