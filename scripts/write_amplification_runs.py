"""The runs of docs/write-amplification-by-file-system.md, and the record that keeps them.

A real kernel runs the calls on each file system, on a served card with the layer `page`. Its
requests are then carried out on the same card with each other layer. The kernel gets its answers at
once, so it cannot tell the layers apart. For each file system one more run has the layer `fast`
itself behind the socket, to show that.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from generated_page import DOCS

from nandlab.labs import file_systems
from nandlab.labs.amplification import Calls, Counted, carry_out, logger, record
from nandlab.vm import find_kernel

RECORD = DOCS / "write-amplification-by-file-system.json"
CARD = DOCS.parent / "scripts" / "small_card.toml"
PAGE_BYTES = 8192
"""An array page of the card: both planes of `k9gag08u0m`."""

SERIES = "6.12"
PRECONDITION = "fill"
SEED = 1
APPENDS, SMALL_FILES, COLD_MEBIBYTES, ROTATE_AFTER = 2000, 300, 96, 256
FILE_SYSTEMS = ("fat", "ext4", "f2fs", "btrfs")
PACKAGES = {"fat": "dosfstools", "ext4": "e2fsprogs", "f2fs": "f2fs-tools", "btrfs": "btrfs-progs"}


@dataclass(frozen=True)
class Layer:
    """A translation layer with its settings."""

    name: str
    settings: tuple[tuple[str, int], ...] = ()

    def options(self) -> dict[str, Any]:
        """Options of `serve`."""
        changes = {f"flash.settings.{key}": value for key, value in self.settings}
        return {
            "ftl": self.name,
            "settings": changes,
            "precondition": PRECONDITION,
            "seed": SEED,
        }


PAGE = Layer("page")
DIRECT = Layer("fast")
"""The layer that stands behind the socket itself, for comparison."""

DIRECT_RUN = 0
"""Number of that run; those whose requests are kept count from 1."""

LAYERS = (
    PAGE,
    # A map of 32,768 pages, of which an eighth would fit in the cache of 4,096 by default.
    Layer("dftl", (("cmt_entries", 512),)),
    Layer("superblock"),
    Layer("last"),
    Layer("bast"),
    DIRECT,
    Layer("hybrid"),
)


@dataclass(frozen=True)
class Row:
    """One run on one layer."""

    file_system: str
    layer: str
    run: int
    is_direct: bool
    """The kernel's own requests reached this layer; otherwise they were carried out on it."""

    counted: Counted


def calls() -> Calls:
    """The calls of the record."""
    return logger(
        appends=APPENDS,
        small_files=SMALL_FILES,
        cold_mebibytes=COLD_MEBIBYTES,
        rotate_after=ROTATE_AFTER,
        seed=SEED,
    )


def rows(kept: dict[str, Any]) -> list[Row]:
    """Rows of a record."""
    return [Row(**{**row, "counted": Counted(**row["counted"])}) for row in kept["rows"]]


def load() -> dict[str, Any]:
    """The record, or an empty one."""
    if not RECORD.is_file():
        return {"kernel": None, "packages": {}, "rows": []}
    found: dict[str, Any] = json.loads(RECORD.read_text(encoding="utf-8"))
    return found


def measured(file_system: str, run: int) -> Iterator[Row]:
    """A run of a kernel, on all layers."""
    system, kernel, known = file_systems.FILE_SYSTEMS[file_system], find_kernel(SERIES), calls()
    with tempfile.TemporaryDirectory(prefix="nandlab-amplification-") as folder:
        log = Path(folder) / "log"
        recording, found = record(system, kernel, CARD, known, log, **PAGE.options())
        for layer in LAYERS:
            carried = carry_out(recording, CARD, known, **layer.options())
            if layer == PAGE:
                _check(file_system, carried, found)
            yield Row(file_system, layer.name, run, layer == PAGE, carried)


def measured_directly(file_system: str) -> Row:
    """A run of a kernel with the layer `DIRECT` behind the socket."""
    known, options = calls(), DIRECT.options()
    with tempfile.TemporaryDirectory(prefix="nandlab-amplification-") as folder:
        log = Path(folder) / "log"
        system, kernel = file_systems.FILE_SYSTEMS[file_system], find_kernel(SERIES)
        recording, found = record(system, kernel, CARD, known, log, **options)
        _check(file_system, carry_out(recording, CARD, known, **options), found)
    return Row(file_system, DIRECT.name, DIRECT_RUN, True, found)


def _check(file_system: str, carried: Counted, found: Counted) -> None:
    """Requests that are carried out on the kernel's own layer cost what they did there."""
    if carried != found:
        raise RuntimeError(f"{file_system}: {carried} is not what the kernel's run cost: {found}")


def _package(name: str) -> str:
    command = ["dpkg-query", "-W", "-f", "${Version}", name]
    return subprocess.run(command, capture_output=True, encoding="utf-8", check=True).stdout


def _has(kept: dict[str, Any], file_system: str, layer: Layer, run: int) -> bool:
    wanted = (file_system, layer.name, run)
    return any((row.file_system, row.layer, row.run) == wanted for row in rows(kept))


def _keep(kept: dict[str, Any], found: list[Row]) -> None:
    """Add rows to the record at once: the next call goes on from there."""
    kept["rows"] += [asdict(row) for row in found]
    RECORD.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    print(f"{found[0].file_system}: run {found[0].run}", file=sys.stderr, flush=True)


def main() -> int:
    """Add the runs that are missing to the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3, help="have so many runs a file system")
    parser.add_argument("--again", action="store_true", help="begin with an empty record")
    given = parser.parse_args()
    kept = {"kernel": None, "packages": {}, "rows": []} if given.again else load()
    kept["kernel"] = find_kernel(SERIES).release
    kept["packages"] = {PACKAGES[name]: _package(PACKAGES[name]) for name in FILE_SYSTEMS}
    for run in range(1, given.runs + 1):
        for name in FILE_SYSTEMS:
            if not _has(kept, name, PAGE, run):
                _keep(kept, list(measured(name, run)))
    for name in FILE_SYSTEMS:
        if not _has(kept, name, DIRECT, DIRECT_RUN):
            _keep(kept, [measured_directly(name)])
    return 0


if __name__ == "__main__":
    sys.exit(main())
