"""One condition at a time: keys of MQSim's own files changed in copies, in both simulators."""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from compare_mqsim_sides import ComparisonError
from mqsim_shipped import Pair, as_record, run_mqsim, run_nandlab, write_copies

STOP_S = 2.0
"""Simulated time of a run that a time ends."""


@dataclass(frozen=True)
class Experiment:
    """A scenario of a shipped workload with some keys changed."""

    group: str
    label: str
    device: str
    workload: str
    scenario: int
    changes: Mapping[str, str] = field(default_factory=dict)
    aligned: bool = False
    """True for a trace whose requests are moved to the begins of pages, a page each."""


_ROOT = ("ssdconfig.xml", "workload.xml")
_BACK_END = (
    "fast18/backend-contention/ssdconfig-backend-contention.xml",
    "workload-backend-contention-flow-2.xml",
)
_DATA_CACHE = (
    "fast18/data-cache-contention/ssdconfig-datacache-contention.xml",
    "workload-datacache-contention-flow-2.xml",
)
_IDEAL = {"Ideal_Mapping_Table": "true"}
_PLAIN = {**_IDEAL, "Device_Level_Data_Caching_Mode": "TURNED_OFF", "Priority_Class": "HIGH"}
_ONE_DIE = {"Die_No_Per_Chip": "1", "Die_IDs": "0", "Block_No_Per_Plane": "4096"}
_ONE_PLANE = {
    **_ONE_DIE, "Plane_No_Per_Die": "1", "Plane_IDs": "0", "Block_No_Per_Plane": "8192",
}  # fmt: skip
_MIX = {**_PLAIN, "Read_Percentage": "70"}
_READS = "reads, queue depth 256, 16 chips"

EXPERIMENTS = (
    Experiment("writes", "as shipped", *_ROOT, 1),
    Experiment("writes", "whole mapping table in memory", *_ROOT, 1, _IDEAL),
    Experiment(
        "writes", "the same, fast DRAM", *_ROOT, 1,
        {**_IDEAL, "Data_Cache_DRAM_Data_Rate": "8000", "Data_Cache_DRAM_Data_Busrt_Size": "8"},
    ),
    Experiment("writes", "whole table, no write cache", *_ROOT, 1, _PLAIN),
    Experiment("reads, two classes", "as shipped", *_ROOT, 2),
    Experiment("reads, two classes", "whole mapping table in memory", *_ROOT, 2, _IDEAL),
    Experiment(
        "reads, two classes", "whole table, both flows of one class", *_ROOT, 2,
        {**_IDEAL, "Priority_Class": "HIGH"},
    ),
    Experiment(
        "reads, two classes", "one class, table cached", *_ROOT, 2, {"Priority_Class": "HIGH"}
    ),
    Experiment(_READS, "as shipped", *_BACK_END, 8),
    Experiment(_READS, "one die of two planes a chip", *_BACK_END, 8, _ONE_DIE),
    Experiment(_READS, "one die of one plane a chip", *_BACK_END, 8, _ONE_PLANE),
    Experiment(
        _READS, "channel three times as fast", *_BACK_END, 8, {"Channel_Transfer_Rate": "1000"}
    ),
    Experiment(_READS, "one chip a channel", *_BACK_END, 8, {"Chip_IDs": "0"}),
    Experiment(_READS, "PCIe ten times as fast", *_BACK_END, 8, {"PCIe_Lane_Bandwidth": "10"}),
    Experiment(
        "70 % reads, no cache", "suspension of erases", *_ROOT, 1,
        {**_MIX, "CMD_Suspension_Support": "ERASE"},
    ),
    Experiment(
        "70 % reads, no cache", "no suspension", *_ROOT, 1,
        {**_MIX, "CMD_Suspension_Support": "NONE"},
    ),
    Experiment(
        "70 % reads, no cache", "suspension of programs and erases", *_ROOT, 1,
        {**_MIX, "CMD_Suspension_Support": "PROGRAM_ERASE"},
    ),
    Experiment(
        "data-cache-contention, one flow", "no preconditioning", *_DATA_CACHE, 1,
        {"Enabled_Preconditioning": "false"},
    ),
    Experiment(
        "data-cache-contention, one flow", "no preconditioning, advanced cache", *_DATA_CACHE, 1,
        {"Enabled_Preconditioning": "false", "Caching_Mechanism": "ADVANCED"},
    ),
    Experiment("trace", "as shipped", *_ROOT, 3),
    Experiment("trace", "whole mapping table in memory", *_ROOT, 3, _IDEAL),
    Experiment("trace", "whole table, requests are whole pages", *_ROOT, 3, _IDEAL, aligned=True),
    Experiment(
        "trace", "whole table, whole pages, no write cache", *_ROOT, 3, _PLAIN, aligned=True
    ),
)  # fmt: skip


def _align(workload: Path, folder: Path) -> None:
    """Moves the requests of the trace that a copy names to the begins of pages of 8 KiB."""
    text = workload.read_text(encoding="us-ascii")
    source = text.split("<File_Path>")[1].split("</File_Path>")[0]
    lines = []
    for line in Path(source).read_text(encoding="us-ascii").splitlines():
        fields = line.split()
        if len(fields) == 5:
            fields[2:4] = [str(int(fields[2]) // 16 * 16), "16"]
        lines.append(" ".join(fields))
    target = folder / "aligned.trace"
    target.write_text("\n".join(lines) + "\n", encoding="us-ascii")
    workload.write_text(text.replace(source, str(target)), encoding="us-ascii")


def run_experiments(
    checkout: Path, binary: Path, nandlab: str, limit_s: int
) -> list[dict[str, Any]]:
    """Each experiment that the checkout has files for, once: both simulators repeat themselves."""
    found = []
    for one in EXPERIMENTS:
        device = checkout / one.device
        pair = Pair(one.device, device, device.parent / one.workload)
        if not (pair.device.is_file() and pair.workload.is_file()):
            continue
        with tempfile.TemporaryDirectory(prefix="mqsim-experiment-") as name:
            folder = Path(name)
            try:
                copies = write_copies(
                    pair, checkout, one.scenario, folder, stop_s=STOP_S, changes=one.changes
                )
                if one.aligned:
                    _align(copies[1], folder)
                theirs = run_mqsim(binary, *copies, limit_s)
                own = run_nandlab(nandlab, *copies)
            except ComparisonError as error:
                found.append({"group": one.group, "label": one.label, "failed": str(error)})
                continue
        record: dict[str, Any] = {"group": one.group, "label": one.label}
        record |= {"mqsim": as_record(theirs), "nandlab": as_record(own)}
        found.append(record)
    return found
