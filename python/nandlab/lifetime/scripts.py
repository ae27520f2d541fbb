"""Lives of file systems under a script: the study of a comparison, with one test more."""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nandlab import engine
from nandlab.comparison.candidates import named
from nandlab.comparison.conditions import conditions as conditions_of
from nandlab.comparison.named import Named, block_bytes_of, find_board, find_part, kernel_of
from nandlab.comparison.request import (
    Candidates,
    WorkloadFile,
    names,
    on_block_device,
)
from nandlab.comparison.study import DEFAULT_BOARD, Host, study_of, write_study
from nandlab.errors import NandlabError
from nandlab.frame import RunFrame
from nandlab.lifetime.verdict import span, verdict
from nandlab.study_runs import RunRequest, frame_of
from nandlab.terminal.output import counted


def lives_of_file_systems(
    workload: WorkloadFile,
    file_systems: str,
    part: str,
    blocks: int | None,
    board: str | None,
    kernel: str | None,
    years: float,
    bytes_per_day: float | None,
) -> tuple[list[dict[str, Any]], list[tuple[str, str]]]:
    """A row for each file system, as JSON has it, and the conditions."""
    if workload.kind != "script":
        raise NandlabError(
            f"{workload.shown}: kind {workload.kind} cannot be repeated for ever; give a script"
        )
    found = names("--fs", file_systems, "file-systems", "file system")
    for name in found:
        if name in on_block_device():
            raise NandlabError(
                f"--fs: {name} stands on a block device, whose life depends on its layer; give "
                "the requests as a trace, with --ftl"
            )
    given_board = board or str(workload.host.get("board", DEFAULT_BOARD))
    folder = Path() if board else Path(workload.shown).parent
    host_board = find_board("--board", given_board, folder)
    known = kernel or workload.host.get("kernel") or kernel_of(host_board)
    host = Host((host_board,), str(known))
    chip = find_part(part)
    question = f"Does it last {years:g} years?"
    study = study_of(Candidates(file_systems=found), workload, (chip,), blocks, host, question)
    # The test of `compare` as well, so that both give the same estimate.
    study["axes"]["test"] = ["lifecycle", "life"]
    with tempfile.TemporaryDirectory(prefix="nandlab-life-") as place:
        path = write_study(study, {}, workload, (chip, host_board), Path(place))
        try:
            request = RunRequest(study=str(path), path=str(path), out=Path(), keeps_inputs=False)
            run = frame_of(request, None)
        except NandlabError as error:
            raise NandlabError(str(error).replace(str(path), workload.shown)) from None
        if run.interrupted:
            from nandlab.api.interrupted import Interrupted

            raise Interrupted("life: interrupted; no life was followed to its end", None)
        stacks = {str(one["file_system"]): one for one in run.study["stacks"]}
        rows = [
            _row(run, name, chip, int(stacks[name]["blocks"]), years, bytes_per_day)
            for name in found
        ]
    told = [
        *conditions_of(run),
        ("age of data", f"0 to {years:g} years"),
        ("temperature", "the rated one; others are not modelled"),
        *not_followed(rows),
    ]
    return rows, told


def not_followed(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Which lives were not followed to their end, and what their ranges are then."""
    passes = [
        f"{row['name']} after {counted(int(row['details']['life_passes']), 'pass', 'passes')}"
        for row in rows
        if row["is_bound"]
    ]
    if not passes:
        return []
    low, high = "the low end is a bound", "the high end supposes even wear"
    return [("not followed to the end", f"{', '.join(passes)}: {low}, {high}")]


def _row(
    run: RunFrame,
    name: str,
    part: Named,
    blocks: int,
    years: float,
    bytes_per_day: float | None,
) -> dict[str, Any]:
    values = _values(run, name)
    if values.get("is_full"):
        raise NandlabError(f"{name}: no space is left for this work; give more blocks")
    rate = bytes_per_day or values["life_bytes_per_day"] or None
    limit = int(values["life_erase_cycles_max"])
    data_bytes = blocks * block_bytes_of(part)
    part_name = part.name if part.file is None else str(part.file)
    cycles = [engine.cycles_within_ecc(part_name, data_bytes, age) for age in (0.0, years)]
    is_bound = bool(values["life_is_bound"])
    even = values.get("lifetime_host_bytes")

    def ends(metric: str, flag: str, shares: list[float]) -> list[tuple[int, bool]]:
        low, is_bound = int(values[metric]), bool(values[flag])
        # A work too small to be worn to the end: a bound, and the estimate for even wear.
        high = max(low, int(even)) if is_bound and even is not None else low
        is_more = is_bound and even is None
        return [(int(high * shares[0]), is_more), (int(low * shares[1]), is_more)]

    first, one_percent = "life_first_block_host_bytes", "life_one_percent_host_bytes"
    life = span(ends(first, "life_is_bound", [one / limit for one in cycles]), rate)
    whole = [1.0, 1.0]
    return {
        "name": name,
        "title": named(name),
        "verdict": verdict(life, years, writes=values["life_simulated_host_bytes"] > 0),
        "life": vars(life),
        "first_block": vars(span(ends(first, "life_is_bound", whole), rate)),
        "one_percent": vars(span(ends(one_percent, "life_one_percent_is_bound", whole), rate)),
        "lifetime_host_bytes": None if even is None else int(even),
        "bytes_per_day": rate,
        "cycles_within_ecc": cycles,
        "erase_cycles_max": limit,
        "is_bound": is_bound,
        "details": {key: one for key, one in values.items() if key.startswith("life_")},
    }


def _values(run: RunFrame, name: str) -> Mapping[str, float]:
    """Means of the metrics of the work and of the life."""
    import polars

    of = run.frame.filter(polars.col("file_system") == name)
    rows = of.group_by("metric", "phase").agg(polars.col("value").mean())
    found: dict[str, float] = {}
    for row in rows.iter_rows(named=True):
        if row["phase"] in ("work", "life") and row["value"] is not None:
            known = found.get(row["metric"], 0.0)
            is_flag = row["metric"] == "is_full"
            found[row["metric"]] = max(known, row["value"]) if is_flag else row["value"]
    return found
