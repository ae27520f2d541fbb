"""Power cuts of a served device under a real kernel: what was acknowledged, and what is left."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from nandlab.api.answer import Answer, csv_text
from nandlab.api.given import Size
from nandlab.api.interrupted import Interrupted
from nandlab.byte_sizes import natural_number
from nandlab.errors import NandlabError

if TYPE_CHECKING:
    import polars

    from nandlab.labs.cuts import Bench, Progress
    from nandlab.labs.found import Cut, CutFound
    from nandlab.labs.recipes import Recipe

Counted = Literal["acknowledgements", "programs"]
"""What a cut point counts."""

_CUTS = 10
_CUTS_MAX = 10_000
_BATCH = 20
"""Disks of one machine: their letters end at z, and a cut that is interrupted is made again."""

_COLUMNS = (
    "cut", "at", "is_ready", "acknowledged", "recovered", "lost", "older_lost", "damaged",
    "is_repaired", "refusals", "torn_operations", "lost_cached_sectors", "recovery_reads",
)  # fmt: skip


class ServeCrash(Answer):
    """What power cuts of a served device left under a real kernel."""

    @property
    def cuts(self) -> "polars.DataFrame":
        """A row for each cut: where, what was acknowledged, recovered and lost."""
        return self.frame


def serve_crash(
    recipe: str,
    *,
    cuts: int | None = None,
    at: Sequence[str | int] = (),
    by: Counted = "acknowledgements",
    device: str | Path = "emmc-5.1-64gb",
    ftl: str | None = None,
    settings: Mapping[str, Any] | None = None,
    capacity: Size = "128MiB",
    precondition: str = "fill",
    kernel: Literal["6.1", "6.12"] = "6.1",
    seed: int = 1,
    out: Path | str | None = None,
) -> ServeCrash:
    """Fail the power of a served device under a real kernel, and compare what is left.

    Each cut has a fresh device. A machine with a real kernel makes a file system on it and writes,
    until the power fails. The device recovers, the kernel boots afresh and recovers, and what is
    there is compared with what was acknowledged.

    Raises `NandlabError` for bad input, and if no machine can be booted; and `Interrupted` after
    Ctrl-C, with the finished cuts.

    Args:
        recipe: Recipe: a file system and a workload, such as ext4-files or
            ext4-sqlite-wal-normal.
        cuts: Make this many cuts at places drawn from the seed. Without it: 10.
        at: Cut at these places instead of drawn ones, such as 5 or 5,20,80. May be repeated.
        by: Count places in acknowledgements of the guest or in page programs of the chips, from the
            making of the file system on.
        device: Use this device (see `nandlab list devices`), or the device of this .toml file.
        ftl: Use this translation layer instead of the device's own.
        settings: Replace these keys of the device.
        capacity: Make the device this large, with the same share of spare blocks.
        precondition: Write this before the guest comes: none, fill, random:PERCENT or steady. It
            reads as zeros.
        kernel: Use the Linux kernel of this series.
        seed: Seed the places of the cuts, the preconditioning and the device.
        out: Write cuts.json, cuts.csv and the consoles of the machines into this folder.

    """
    from nandlab.labs.cuts import Bench, InterruptedBatch
    from nandlab.terminal.progress import progress_bar
    from nandlab.vm import VmRunError, VmUnavailable

    chosen = _recipe(recipe)
    target = _folder(out)
    if at and cuts is not None:
        raise NandlabError("--cuts: --at has the places of all cuts; give only one of the two")
    number_of_cuts = _CUTS if cuts is None else natural_number("--cuts", cuts)
    if number_of_cuts > _CUTS_MAX:
        raise NandlabError(f"--cuts: {cuts} must be at most {_CUTS_MAX}")
    natural_number("--seed", seed, least=0, bits=64)
    options = {"ftl": ftl, "settings": settings, "capacity": capacity}
    options |= {"precondition": precondition, "seed": seed}
    found: list[CutFound] = []
    conditions: dict[str, Any] = {}
    try:
        points = _given(at, by, chosen)
        booted = _find(chosen, kernel)
        bench = Bench(chosen, booted, device, options)
        conditions = {
            "recipe": recipe,
            "item": chosen.workload.item,
            "items": chosen.workload.items,
            "device": str(device),
            "ftl": ftl,
            "settings": dict(settings or {}),
            "capacity": str(capacity),
            "precondition": precondition,
            "kernel": booted.release,
            "programs": _versions(chosen),
            "by": by,
            "seed": seed,
        }
        with progress_bar(recipe) as progress:
            points = points or _drawn(bench, number_of_cuts, by, seed)
            conditions["asked_cuts"] = len(points)
            for first in range(0, len(points), _BATCH):
                batch = points[first : first + _BATCH]

                def told(doing: str, done: int, first: int = first, of: int = len(batch)) -> None:
                    progress(first, len(points), f"{doing}: {done} of {of} disks")

                told("write", 0)
                found += _batch(bench, batch, target, first, told)
    except KeyboardInterrupt as interruption:
        if isinstance(interruption, InterruptedBatch):
            found += interruption.found
        asked = conditions.get("asked_cuts", len(at) or number_of_cuts)
        result = _keep(target, conditions, found) if conditions else None
        raise Interrupted(f"Interrupted: {len(found)} of {asked} cuts were made.", result) from None
    except (VmRunError, VmUnavailable) as failure:
        error = NandlabError(str(failure))
        error.result = _keep(target, conditions, found) if found else None
        raise error from None
    return _keep(target, conditions, found)


def _recipe(name: str) -> "Recipe":
    from nandlab.labs.recipes import RECIPES
    from nandlab.suggest import unknown

    if name not in RECIPES:
        raise NandlabError(unknown("recipe", name, RECIPES))
    return RECIPES[name]


def _folder(out: Path | str | None) -> Path | None:
    from nandlab.outputs import check_file

    if out is None:
        return None
    target = Path(out)
    if target.exists() and not target.is_dir():
        raise NandlabError(f"{target}: this is a file; name a folder")
    check_file(target / "cuts.json")
    return target


def _find(recipe: "Recipe", series: str) -> Any:
    """The kernel, once everything else that a machine needs is known to be there."""
    from nandlab.vm import find_kernel, require_programs
    from nandlab.vm.programs import MACHINE_PROGRAMS

    require_programs((*MACHINE_PROGRAMS, *recipe.programs))
    return find_kernel(series)


def _versions(recipe: "Recipe") -> dict[str, str]:
    """The version of each program that the workload runs."""
    from nandlab.vm import require_programs

    found = {}
    for name, path in require_programs(recipe.workload.programs).items():
        told = subprocess.run(
            [path, "--version"],
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
        found[name] = (told.stdout.split() or ["unknown"])[0]
    return found


def _given(at: Sequence[str | int], by: Counted, recipe: "Recipe") -> "list[Cut]":
    from nandlab.labs.points import given_points

    return given_points([str(one) for one in at], by, recipe.workload.items) if at else []


def _drawn(bench: "Bench", count: int, by: Counted, seed: int) -> "list[Cut]":
    """Places drawn from the seed; where programs are counted, those once the disk is mounted."""
    from nandlab.labs.cuts import program_range
    from nandlab.labs.points import drawn_points

    if by == "acknowledgements":
        return drawn_points(count, by, 1, bench.recipe.workload.items, seed)
    ready, end = program_range(bench)
    return drawn_points(count, by, ready + 1, max(end, ready + 1), seed)


def _batch(
    bench: "Bench", points: "Sequence[Cut]", target: Path | None, first: int, told: "Progress"
) -> "list[CutFound]":
    from nandlab.labs.cuts import cut_batch
    from nandlab.whole_files import keep_text

    found, consoles = cut_batch(bench, points, told)
    if target is not None:
        target.mkdir(parents=True, exist_ok=True)
        for name, text in consoles.items():
            keep_text(target / f"{name}-{first + 1}.txt", text)
    return found


def _keep(
    target: Path | None, conditions: Mapping[str, Any], found: "Sequence[CutFound]"
) -> ServeCrash:
    """The answer, written to the folder if one is given."""
    from nandlab.whole_files import keep_text

    answer = cuts_answer(conditions, found)
    if target is not None:
        try:
            target.mkdir(parents=True, exist_ok=True)
            keep_text(target / "cuts.csv", answer.text)
            keep_text(target / "cuts.json", json.dumps(answer.answer, indent=1) + "\n")
        except NandlabError as error:
            error.result = answer
            raise
    return answer


def cuts_answer(conditions: Mapping[str, Any], found: "Sequence[CutFound]") -> ServeCrash:
    """The answer of cuts: conditions, a row for each cut, and their sums.

    In `answer` a row also has `lost_items`, the numbers of what is lost, in ranges.
    """
    rows = [_row(number, one) for number, one in enumerate(found, 1)]
    for row, one in zip(rows, found, strict=True):
        row["lost_items"] = ranges(one.lost)
    counts = ("acknowledged", "recovered", "lost", "older_lost", "damaged")
    totals = {key: sum(row[key] for row in rows) for key in counts}
    totals |= {
        "cuts": len(rows),
        "cuts_with_loss": sum(row["lost"] > 0 for row in rows),
        "cuts_repaired": sum(row["is_repaired"] for row in rows),
        "cuts_refused": sum(bool(row["refusals"]) for row in rows),
        "cuts_before_ready": sum(not row["is_ready"] for row in rows),
    }
    answer = {**conditions, "totals": totals, "cuts": rows}
    is_clean = all(one.is_sound for one in found)
    return ServeCrash(answer, rows, csv_text(_COLUMNS, rows), is_clean=is_clean)


def _row(number: int, one: "CutFound") -> dict[str, Any]:
    written = one.written
    return {
        "cut": number,
        "at": written.cut.at,
        "is_ready": written.is_ready,
        "acknowledged": written.acknowledged,
        "recovered": one.recovered,
        "lost": len(one.lost),
        "older_lost": one.lost_before_kept,
        "damaged": len(one.damaged),
        "is_repaired": one.is_repaired,
        "refusals": " ".join(one.refusals),
        "torn_operations": written.torn_operations,
        "lost_cached_sectors": written.lost_cached_sectors,
        "recovery_reads": written.recovery["reads"],
    }


def ranges(numbers: Sequence[int]) -> str:
    """Sorted numbers in ranges: `1-4 7`."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return " ".join(str(low) if low == high else f"{low}-{high}" for low, high in parts)
