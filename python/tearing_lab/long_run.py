"""Cuts by the hundred: `python -m tearing_lab.long_run --cases 300`.

Batches of cuts are made one after the other, each in a machine of its own. A batch that is done has
a table of its own below the folder, so that a run that was stopped goes on where it was. The table
of all cases, `results.csv`, is written after every batch. Every case is kept with its dump, so that
`--again` judges it anew when the reading of images has changed; for a change of what the engine
writes, delete the tables of the batches that it touches.
"""

import argparse
import csv
import json
import shutil
import subprocess
import sys
from pathlib import Path

from nandlab.errors import NandlabError
from nandlab.validation import recorded
from nandlab.vm import ModuleBuildError, VmRunError, VmUnavailable
from nandlab.vm.programs import require_programs
from tearing_lab.cases import COLUMNS, Keeping, Verdict, judge_again, write_table
from tearing_lab.chips import BLOCKS
from tearing_lab.series import (
    CUTS_A_SCRIPT,
    Series,
    cut_disks,
    cut_disks_here,
    cut_here,
    cut_in_kernel,
    fitting,
    image_options,
)

_BATCH_CUTS = 20
_KERNEL_SEEDS = 1000
_SOURCE = Path(__file__).resolve().parents[2]
FILE_SYSTEMS = (*sorted(BLOCKS), "nilfs2")


def build_example(name: str) -> Path:
    """Build an example of the workspace, with the features that `cargo test --workspace` gives it.

    Raises `VmUnavailable` without cargo or a source tree.
    """
    cargo = require_programs(["cargo"])["cargo"]
    command = [str(cargo), "build", "--quiet", "--workspace", "--example", name]
    done = subprocess.run(
        [*command, "--message-format", "json"],
        cwd=_SOURCE,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    if done.returncode != 0:
        raise VmUnavailable(f"the example {name} does not build in {_SOURCE}")
    messages = (json.loads(line) for line in done.stdout.splitlines())
    made = (one for one in messages if one.get("executable") and one["target"]["name"] == name)
    return Path(next(made)["executable"])


def main(arguments: list[str] | None = None) -> int:
    """Carry the run out, or go on with it; 1 if any case differs."""
    parser = argparse.ArgumentParser(description="Tear chips and disks by the hundred.")
    parser.add_argument("--out", type=Path, default=Path("out/tear-long"), help="folder of the run")
    parser.add_argument("--cases", type=int, default=300, help="cuts of a file system and kernel")
    parser.add_argument("--kernels", default="6.12,6.1", help="series of kernels")
    parser.add_argument("--file-systems", default=",".join(FILE_SYSTEMS), help="which to cut")
    parser.add_argument("--seed", type=int, default=1000, help="seed of the first script")
    parser.add_argument(
        "--scripts",
        type=Path,
        help="cut the scripts of this folder, which nandlab crash-search --corpus has kept, in "
        "place of drawn ones",
    )
    parser.add_argument(
        "--again",
        action="store_true",
        help="judge the cases that are kept once more, after a change of what reads images",
    )
    parser.add_argument(
        "--record",
        action="store_true",
        help="put the sums of the run into the table that docs/validation.md shows",
    )
    given = parser.parse_args(arguments)
    if given.scripts and not fitting(given.scripts):
        parser.error(f"--scripts {given.scripts}: no .ops file there without mounts and processes")
    if given.scripts and given.record:
        parser.error("--record: the table is of drawn scripts; omit --scripts")
    try:
        if given.again:
            _judge_again(given.out)
            return 1 if _tell(given.out) else 0
        if given.record:
            recorded.write_torn_media(_rows(given.out / "results.csv"))
            return 0
        programs = {name: build_example(name) for name in ("tear_images", "write_history")}
        # All file systems and kernels have their share of whatever has been done so far.
        for number in range(-(-given.cases // _BATCH_CUTS)):
            for kernel in given.kernels.split(","):
                for file_system in given.file_systems.split(","):
                    _batch(given, kernel, file_system, number, programs)
    except (VmUnavailable, VmRunError, ModuleBuildError, NandlabError) as error:
        print(f"nandlab: error: {error}", file=sys.stderr)
        return 2
    return 1 if _tell(given.out) else 0


def _batch(
    given: argparse.Namespace,
    kernel: str,
    file_system: str,
    number: int,
    programs: dict[str, Path],
) -> None:
    # Batches of either kind stay where they are when the other kind is asked for.
    source = "-found" if given.scripts else ""
    name = f"{file_system}-{kernel}{source}-{number:03}"
    table = given.out / "batches" / f"{name}.csv"
    if table.exists():
        return
    print(f"{name}: {_BATCH_CUTS} cuts", flush=True)
    work = given.out / "work"
    shutil.rmtree(work, ignore_errors=True)
    # Scripts of their own for each kernel.
    minor = int(kernel.partition(".")[2])
    seed = given.seed + _KERNEL_SEEDS * minor + number * -(-_BATCH_CUTS // CUTS_A_SCRIPT)
    if given.scripts:
        # Both kernels have the same scripts, which are in the order of their names.
        seed = number * _BATCH_CUTS // 2
    # Half of the cuts are made there, half are made here.
    keeping = Keeping(given.out / "kept" / name, keeps_all=True)
    series = Series(file_system, kernel, seed, _BATCH_CUTS // 2, work, keeping, given.scripts)
    if not series.scripts():
        print(f"{name}: no script is left", flush=True)
        return
    if file_system == "nilfs2":
        verdicts = cut_disks(series)[0] + cut_disks_here(series, programs["write_history"])
    else:
        verdicts = cut_in_kernel(series)[0] + cut_here(series, programs["tear_images"])
    write_table(table, verdicts)
    shutil.rmtree(work, ignore_errors=True)
    _tell(given.out)


def _judge_again(out: Path) -> None:
    """Judge what was kept of all batches once more, and write their tables anew."""
    for table in sorted((out / "batches").glob("*.csv")):
        options = image_options(table.name.partition("-")[0])
        verdicts = [_read(row) for row in _rows(table)]
        write_table(table, [_again(verdict, options) for verdict in verdicts])


def _again(verdict: Verdict, options: dict[str, object]) -> Verdict:
    return judge_again(verdict, options) if verdict.kept else verdict


def _rows(table: Path) -> list[dict[str, str]]:
    with table.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _tell(out: Path) -> int:
    """Put the tables of the batches together and say what they hold; how many cases differ."""
    every: list[dict[str, str]] = []
    for table in sorted((out / "batches").glob("*.csv")):
        every += _rows(table)
    write_table(out / "results.csv", [_read(row) for row in every])
    failed = [row for row in every if row["faults"]]
    print(f"{len(every)} cases, {len(failed)} differ: {out / 'results.csv'}", flush=True)
    return len(failed)


def _read(row: dict[str, str]) -> Verdict:
    """Return the verdict of a row that `Verdict.row` made."""
    assert tuple(row) == COLUMNS
    lists = {name: [row[name]] if row[name] else [] for name in ("findings", "faults")}
    plain = {name: value for name, value in row.items() if name not in lists}
    known = {"script_seed": int(row["script_seed"]), "ls_equal": row["ls_equal"] == "yes"}
    return Verdict(**{**plain, **known, **lists})  # type: ignore[arg-type]


if __name__ == "__main__":
    sys.exit(main())
