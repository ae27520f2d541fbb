"""Cuts by the hundred: `python -m nandlab.tearing.long_run --cases 300`.

Batches of cuts are made one after the other, each in a machine of its own. A batch that is done has
a table of its own below the folder, so that a run that was stopped goes on where it was. The table
of all cases, `results.csv`, is written after every batch.
"""

import argparse
import csv
import json
import shutil
import subprocess
import sys
from pathlib import Path

from nandlab.errors import NandlabError
from nandlab.tearing.cases import COLUMNS, Verdict, write_table
from nandlab.tearing.chips import BLOCKS
from nandlab.tearing.series import (
    CUTS_A_SCRIPT,
    Series,
    cut_disks,
    cut_here,
    cut_in_kernel,
)
from nandlab.vm import ModuleBuildError, VmRunError, VmUnavailable
from nandlab.vm.programs import require_programs

_BATCH_CUTS = 20
_SOURCE = Path(__file__).resolve().parents[3]
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
    given = parser.parse_args(arguments)
    try:
        program = build_example("tear_images")
        for kernel in given.kernels.split(","):
            for file_system in given.file_systems.split(","):
                for number in range(-(-given.cases // _BATCH_CUTS)):
                    _batch(given, kernel, file_system, number, program)
    except (VmUnavailable, VmRunError, ModuleBuildError, NandlabError) as error:
        print(f"nandlab: error: {error}", file=sys.stderr)
        return 2
    return 1 if _tell(given.out) else 0


def _batch(
    given: argparse.Namespace, kernel: str, file_system: str, number: int, program: Path
) -> None:
    name = f"{file_system}-{kernel}-{number:03}"
    table = given.out / "batches" / f"{name}.csv"
    if table.exists():
        return
    print(f"{name}: {_BATCH_CUTS} cuts", flush=True)
    work = given.out / "work"
    shutil.rmtree(work, ignore_errors=True)
    seed = given.seed + number * -(-_BATCH_CUTS // CUTS_A_SCRIPT)
    is_disk = file_system == "nilfs2"
    cuts = _BATCH_CUTS if is_disk else _BATCH_CUTS // 2
    series = Series(file_system, kernel, seed, cuts, work, given.out / "kept")
    verdicts = cut_disks(series)[0] if is_disk else cut_in_kernel(series)[0]
    if not is_disk:
        verdicts += cut_here(series, program)
    write_table(table, verdicts)
    shutil.rmtree(work, ignore_errors=True)
    _tell(given.out)


def _tell(out: Path) -> int:
    """Put the tables of the batches together and say what they hold; how many cases differ."""
    every: list[dict[str, str]] = []
    for table in sorted((out / "batches").glob("*.csv")):
        with table.open(encoding="utf-8", newline="") as file:
            every += csv.DictReader(file)
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
