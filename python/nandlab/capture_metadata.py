"""Counts what captures wrote to the metadata of their volumes, and compares NTFS with FAT.

`python -m nandlab.capture_metadata` prints the tables of the shipped sets of captured traces as
Markdown; `--write PAGE` puts them into a page between its two marks; `--keep FILE CAPTURE.json ...`
keeps the regions of captures for traces that do not hold theirs.

A request counts for the region in which it begins, its sectors for the regions in which they lie.
Only requests after the first marker count in these tables: the set-up (mkfs, fill) is left out. A
first table lists the files of all shipped traces with everything that is in them.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nandlab.claims.statistics import (
    LEAST_REPLICATES,
    Interval,
    Region,
    log_interval,
    status_of,
    t_interval,
)
from nandlab.errors import NandlabError
from nandlab.volume_regions import DATA, SECTOR_BYTES, Regions
from nandlab.whole_files import whole_files

SETS = ("ftl-windows", "ftl-windows-lazy")
"""Folders of captures, below the shipped traces; one that is not there is left out."""

BEGINNINGS = "small"
"""Folder of the beginnings of captures, below the shipped traces."""

REGIONS_FILE = "regions.json"
"""Regions of traces that do not hold theirs, by the name of the trace without its ending."""

BEGIN = "<!-- begin of the tables by python -m nandlab.capture_metadata -->"
END = "<!-- end of the tables by python -m nandlab.capture_metadata -->"

FILES_BEGIN = "<!-- begin of the files by python -m nandlab.capture_metadata -->"
FILES_END = "<!-- end of the files by python -m nandlab.capture_metadata -->"

DIGEST_DIGITS = 16
"""Hexadecimal digits of a digest that the table of files shows."""

Written = dict[str, dict[str, int]]
"""`requests` and `sectors` that were written, by region."""


def written_by_phase(
    regions: Regions, writes: Sequence[tuple[int, int, int]] | Any
) -> dict[str, Written]:
    """What was written where, in the set-up and in the operations after it.

    A write is its first sector, its number of sectors, and the number of the last marker; marker 0
    is the set-up.
    """
    import numpy

    table = numpy.asarray(writes, dtype=numpy.int64).reshape(-1, 3)
    is_set_up = table[:, 2] == 0
    return {
        "set_up": _written(regions, table[is_set_up]),
        "operations": _written(regions, table[~is_set_up]),
    }


def _written(regions: Regions, writes: Any) -> Written:
    import numpy

    first, ends = writes[:, 0], writes[:, 0] + writes[:, 1]
    region_ends = [sum(run) for runs in regions.values() for run in runs]
    # Sectors of no region are those of number 0.
    owner = numpy.zeros(max([1, *region_ends, *ends.tolist()]), dtype=numpy.uint8)
    for number, runs in enumerate(regions.values(), start=1):
        for run_first, count in runs:
            owner[run_first : run_first + count] = number
    found: Written = {}
    for number, name in [*enumerate(regions, start=1), (0, DATA)]:
        before = numpy.concatenate(([0], numpy.cumsum(owner == number)))
        found[name] = {
            "requests": int((owner[first] == number).sum()),
            "sectors": int((before[ends] - before[first]).sum()),
        }
    return found


@dataclass(frozen=True)
class Capture:
    """One captured trace: its cell, its seed and what its operations wrote.

    `file_bytes` are the bytes of copied files that reached the disk.
    """

    file_system: str
    file_set: str
    processes: int
    seed: int
    file_bytes: int
    written: Written

    @property
    def requests(self) -> float:
        """Write requests."""
        return sum(one["requests"] for one in self.written.values())

    @property
    def written_bytes(self) -> float:
        """Bytes written."""
        return SECTOR_BYTES * sum(one["sectors"] for one in self.written.values())

    @property
    def metadata_requests(self) -> float:
        """Write requests outside of the data of files."""
        return self.requests - self.written[DATA]["requests"]

    @property
    def metadata_bytes(self) -> float:
        """Bytes written outside of the data of files."""
        return self.written_bytes - SECTOR_BYTES * self.written[DATA]["sectors"]

    @property
    def bytes_a_file_byte(self) -> float:
        """Bytes written for each byte of a file that reached the disk."""
        return self.written_bytes / self.file_bytes


def read_set(folder: Path) -> list[Capture]:
    """All captures of a folder, by the name of their files.

    Raises `NandlabError` when there are none, or when the regions of one are not known.
    """
    side_file = folder / REGIONS_FILE
    kept = json.loads(side_file.read_text(encoding="utf-8")) if side_file.is_file() else {}
    found = [_read(path, kept) for path in sorted(folder.glob("*.parquet"))]
    if not found:
        raise NandlabError(f"{folder}: no captured trace (*.parquet) is in this folder")
    return found


def _read(path: Path, kept: Mapping[str, Any]) -> Capture:
    import polars as pl

    facts = pl.read_parquet_metadata(path)
    regions = json.loads(facts["regions"]) if "regions" in facts else kept.get(path.stem)
    if regions is None:
        raise NandlabError(f"{path}: it holds no regions, and {REGIONS_FILE} beside it has none")
    writes = (
        pl.scan_parquet(path)
        .filter(pl.col("operation").cast(pl.String) == "write")
        .select(
            pl.col("offset_bytes") // SECTOR_BYTES,
            pl.col("length_bytes") // SECTOR_BYTES,
            pl.col("file_operation").fill_null(0),
        )
        .cast(pl.Int64)
        .collect()
    )
    return Capture(
        facts["file_system"],
        facts["file_set"],
        int(facts["processes"]),
        int(facts["seed"]),
        int(facts["copied_bytes"]),
        written_by_phase(regions, writes.to_numpy())["operations"],
    )


def files_table(folders: Iterable[Path]) -> str:
    """The traces of some folders as a table in Markdown: what each holds, and its digest."""
    rows = [_contents(path) for folder in folders for path in sorted(folder.glob("*.parquet"))]
    heads = ("file", "records", "reads", "writes", "flushes", "sectors written")
    return _markdown((*heads, "distinct sectors", "digest"), rows, text_columns=1) + "\n"


def _contents(path: Path) -> tuple[str, ...]:
    """A row of the table of files; the digest is that of the records, which the file holds."""
    import numpy
    import polars as pl

    records = pl.read_parquet(path, columns=["operation", "offset_bytes", "length_bytes"])
    operations = records["operation"].cast(pl.String)
    counts = [int((operations == kind).sum()) for kind in ("read", "write", "flush")]
    writes = records.filter(operations == "write")
    first = (writes["offset_bytes"] // SECTOR_BYTES).cast(pl.Int64).to_numpy()
    ends = first + (writes["length_bytes"] // SECTOR_BYTES).cast(pl.Int64).to_numpy()
    # Writes that cover a sector, as the sum of those that begin up to it and have not ended.
    changes = numpy.zeros(int(ends.max(initial=0)) + 1, dtype=numpy.int64)
    numpy.add.at(changes, first, 1)
    numpy.add.at(changes, ends, -1)
    distinct = int((numpy.cumsum(changes) > 0).sum())
    numbers = (len(records), *counts, int((ends - first).sum()), distinct)
    digest = pl.read_parquet_metadata(path)["digest"][:DIGEST_DIGITS]
    name = f"{path.parent.name}/{path.name}"
    return (name, *(f"{number:,}" for number in numbers), f"`{digest}`")


def tables(folders: Iterable[Path]) -> str:
    """The tables of sets of captures as Markdown, each set under a heading."""
    parts = []
    for folder in folders:
        captures = read_set(folder)
        parts += [f"### {folder.name}", _totals(captures)]
        parts += [_regions(captures, name) for (name,) in _distinct(captures, "file_system")]
        if pairs := _pairs(captures):
            parts.append(_ratios(pairs))
    return "\n\n".join(parts) + "\n"


def _totals(captures: Sequence[Capture]) -> str:
    heads = ("file system", "files", "processes", "captures", "write requests", "MiB written")
    rows = []
    for cell, of_cell in _by_cell(captures).items():
        requests = t_interval([one.requests for one in of_cell])
        mebibytes = t_interval([one.written_bytes / 2**20 for one in of_cell])
        shares = (
            sum(one.metadata_requests for one in of_cell) / sum(one.requests for one in of_cell),
            sum(one.metadata_bytes for one in of_cell) / sum(one.written_bytes for one in of_cell),
        )
        rows.append(
            (
                *cell,
                len(of_cell),
                _mean(requests, "{:,.0f}"),
                _mean(mebibytes, "{:,.1f}"),
                *(f"{share:.1%}" for share in shares),
            )
        )
    return _markdown((*heads, "metadata, of requests", "metadata, of bytes"), rows, text_columns=2)


def _regions(captures: Sequence[Capture], file_system: str) -> str:
    of_system = [one for one in captures if one.file_system == file_system]
    names = list(of_system[0].written)
    rows = []
    for (_, *cell), of_cell in _by_cell(of_system).items():
        counts = []
        for name in names:
            requests = sum(one.written[name]["requests"] for one in of_cell) / len(of_cell)
            sectors = sum(one.written[name]["sectors"] for one in of_cell) / len(of_cell)
            counts.append(f"{requests:,.0f} / {sectors:,.0f}")
        rows.append((*cell, *counts))
    heads = (f"{file_system}: files", "processes", *(_named(name) for name in names))
    return _markdown(heads, rows, text_columns=1)


def _named(region: str) -> str:
    return f"`{region}`" if region.startswith("$") else region


_QUANTITIES: tuple[tuple[str, Callable[[Capture], float]], ...] = (
    ("bytes", lambda one: one.written_bytes),
    ("requests", lambda one: one.requests),
    ("metadata bytes", lambda one: one.metadata_bytes),
    ("bytes a file byte", lambda one: one.bytes_a_file_byte),
)


def _ratios(pairs: Sequence[tuple[Capture, Capture]]) -> str:
    """NTFS against FAT by cell and over all cells, with the status of the claim by each quantity.

    Intervals are over the seeds. That of the last row is over the seeds that have all cells, or
    over the cells if fewer than three have.
    """
    cells = [_of_cell(pairs, cell) for cell in _distinct((fat for fat, _ in pairs), *_CELL)]
    seeds = _distinct((fat for fat, _ in pairs), "seed")
    by_seed = [[pair for pair in pairs if pair[0].seed == seed] for (seed,) in seeds]
    # A mean over some of the cells is not comparable with one over all of them.
    whole = [of_seed for of_seed in by_seed if len(of_seed) == len(cells)]
    rows = []
    for of_cell in cells:
        found = [log_interval(_each(of_cell, of)) for _, of in _QUANTITIES]
        rows.append((of_cell[0][0].file_set, str(of_cell[0][0].processes), *_judged(found)))
    groups = whole if len(whole) >= LEAST_REPLICATES else cells
    pooled = [
        log_interval([log_interval(_each(group, of)).estimate for group in groups])
        for _, of in _QUANTITIES
    ]
    rows.append(("all", "all", *_judged(pooled)))
    heads = ("NTFS / FAT: files", "processes", "n", *(name for name, _ in _QUANTITIES))
    return _markdown(heads, rows, text_columns=1)


_CELL = ("file_set", "processes")


def _of_cell(
    pairs: Sequence[tuple[Capture, Capture]], cell: tuple[object, ...]
) -> list[tuple[Capture, Capture]]:
    return [pair for pair in pairs if tuple(getattr(pair[0], name) for name in _CELL) == cell]


def _pairs(captures: Sequence[Capture]) -> list[tuple[Capture, Capture]]:
    """Captures of FAT and NTFS of the same files, processes and seed."""
    ntfs = {
        (one.file_set, one.processes, one.seed): one
        for one in captures
        if one.file_system == "ntfs"
    }
    return [
        (one, ntfs[key])
        for one in captures
        if one.file_system == "fat" and (key := (one.file_set, one.processes, one.seed)) in ntfs
    ]


def _each(
    pairs: Iterable[tuple[Capture, Capture]], quantity: Callable[[Capture], float]
) -> list[float]:
    return [quantity(ntfs) / quantity(fat) for fat, ntfs in pairs]


def _judged(found: Sequence[Interval]) -> tuple[str, ...]:
    shown = (f"{_interval(one)}, {status_of(one, Region(above=1))}" for one in found)
    return (str(found[0].n), *shown)


def _by_cell(captures: Iterable[Capture]) -> dict[tuple[str, str, str], list[Capture]]:
    cells: dict[tuple[str, str, str], list[Capture]] = {}
    for one in captures:
        cells.setdefault((one.file_system, one.file_set, str(one.processes)), []).append(one)
    return cells


def _distinct(captures: Iterable[Capture], *names: str) -> list[Any]:
    """Different values of some fields, each as a tuple, in the order of the captures."""
    found = dict.fromkeys(tuple(getattr(one, name) for name in names) for one in captures)
    return list(found)


def _mean(found: Interval, shape: str) -> str:
    if found.high is None:
        return shape.format(found.estimate)
    return f"{shape.format(found.estimate)} ± {shape.format(found.high - found.estimate)}"


def _interval(found: Interval) -> str:
    if found.low is None or found.high is None:
        return f"{found.estimate:.3f}"
    return f"{found.estimate:.3f} ({found.low:.3f} to {found.high:.3f})"


def _markdown(heads: Sequence[str], rows: Iterable[Sequence[object]], *, text_columns: int) -> str:
    rule = ["---"] * text_columns + ["---:"] * (len(heads) - text_columns)
    lines = [heads, rule, *rows]
    return "\n".join(f"| {' | '.join(str(cell) for cell in line)} |" for line in lines)


def keep_regions(target: Path, captures: Iterable[Path]) -> None:
    """Keep the regions of captures, by the names of their files.

    Raises `NandlabError` when the metadata of a capture hold none.
    """
    kept = {}
    for path in sorted(captures):
        metadata = json.loads(path.read_text(encoding="utf-8"))
        if "regions" not in metadata:
            raise NandlabError(f"{path}: no regions are in it; capture the trace again")
        kept[path.stem] = metadata["regions"]
    lines = [f'  "{name}": {json.dumps(regions)}' for name, regions in kept.items()]
    _replace(target, "{\n" + ",\n".join(lines) + "\n}\n")


def _replace(path: Path, text: str) -> None:
    """Puts a whole file in the place of another; nothing half-written is left behind."""
    with whole_files() as files:
        scratch = files.file(path)
        assert scratch is not None
        scratch.write_text(text, encoding="utf-8")


def with_tables(page: str, text: str, marks: tuple[str, str] = (BEGIN, END)) -> str:
    """A page with other tables between its marks.

    Raises `NandlabError` when the page lacks a mark.
    """
    before, begin, rest = page.partition(marks[0])
    _, end, after = rest.partition(marks[1])
    if not begin or not end:
        raise NandlabError(f"the page lacks the line {marks[1] if begin else marks[0]}")
    return f"{before}{begin}\n\n{text}\n{end}{after}"


def shipped_sets() -> list[Path]:
    """The folders of captures that are shipped."""
    from nandlab.data import folder

    return [path for name in SETS if (path := folder("traces") / name).is_dir()]


def shipped_files() -> str:
    """The table of the files of all shipped traces."""
    from nandlab.data import folder

    return files_table([*shipped_sets(), folder("traces") / BEGINNINGS])


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line of this module."""
    parser = argparse.ArgumentParser(prog="nandlab.capture_metadata", description=__doc__)
    parser.add_argument("--write", type=Path, metavar="PAGE", help="put the tables into this page")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="keep the regions of captures")
    parser.add_argument("inputs", nargs="*", type=Path, help="folders of traces; captures to keep")
    given = parser.parse_args(arguments)
    try:
        if given.keep is not None:
            keep_regions(given.keep, given.inputs)
            return 0
        text = tables(given.inputs or shipped_sets())
        if given.write is None:
            sys.stdout.write(text)
        else:
            page = with_tables(given.write.read_text(encoding="utf-8"), text)
            page = with_tables(page, shipped_files(), (FILES_BEGIN, FILES_END))
            _replace(given.write, page)
    except (NandlabError, OSError) as error:
        sys.stderr.write(f"nandlab.capture_metadata: error: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
