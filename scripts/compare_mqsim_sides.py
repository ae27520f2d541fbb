"""MQSim and nandlab as scripts/compare_mqsim.py runs them: configurations, runs, results."""

import csv
import json
import os
import re
import subprocess
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp
from pathlib import Path
from typing import Any

CHANNELS = 8
CHIPS_PER_CHANNEL = 4
BLOCKS_PER_PLANE = 512
PAGES_PER_BLOCK = 64
PAGE_BYTES = 4096
RAW_BYTES = CHANNELS * CHIPS_PER_CHANNEL * BLOCKS_PER_PLANE * PAGES_PER_BLOCK * PAGE_BYTES
SPARE_SHARE = 0.07
READ_NS, PROGRAM_NS, ERASE_NS = 75_000, 750_000, 3_800_000
QUEUE_DEPTH = 32

CLEANING_THRESHOLD = 0.055
"""Share of a plane's blocks below which MQSim cleans.

Its preconditioning leaves half of these blocks free, less the three that are open. With the
shipped 0.05, nine of 512 blocks are left. Below ten, MQSim holds back all writes to the plane, and
it looks for a block to clean only when such a write has filled one."""

BLOCKS_KEPT_FREE = 19
"""Free blocks of a die at which nandlab cleans. With the threshold above, a debugger found 18 to 20
in the planes of MQSim after 40,000 and after 300,000 random writes."""

FILLED_SHARE = 0.9
"""Share of the logical pages that MQSim's preconditioning fills at most, if requests are random."""

TRANSFER_PS_PER_BYTE = 2954
"""MQSim moves two bytes in 6 ns, and no spare bytes: 12,288 ns a page. nandlab moves 64 spare
bytes, too."""


class ComparisonError(Exception):
    """One of the two simulators gave no result; the text is one line that says why."""


@dataclass(frozen=True)
class Workload:
    """Requests of one page each, as both simulators are told them."""

    name: str
    title: str
    read_percent: int
    is_random: bool
    log_period_ns: int
    """Simulated time between two lines of MQSim's log, whose last line tells when the run ended."""

    @property
    def cleans(self) -> bool:
        """True if the device is full and has begun to clean."""
        return self.is_random and self.read_percent < 100


WORKLOADS = (
    Workload("random-writes", "random writes, steady cleaning", 0, True, 10_000_000),
    Workload("sequential-writes", "sequential writes, no cleaning", 0, False, 1_000_000),
    Workload("random-reads", "random reads", 100, True, 1_000_000),
    Workload("mix", "70 % reads, 30 % writes, random, steady cleaning", 70, True, 1_000_000),
)


@dataclass(frozen=True)
class Outcome:
    """What one run of a simulator counted."""

    asked: int
    answered: int
    writes_answered: int
    simulated_s: float
    reads: int
    programs: int
    erases: int
    processor_s: float = 0.0
    setup_s: float = 0.0
    setup_requests: int = 0
    setup_operations: int = 0

    @property
    def operations(self) -> int:
        """Reads, programs and erases of the flash."""
        return self.reads + self.programs + self.erases

    @property
    def write_amplification(self) -> float | None:
        """Programs a write that was answered; none without writes."""
        return self.programs / self.writes_answered if self.writes_answered else None

    @property
    def requests_per_processor_s(self) -> float | None:
        """Requests a processor second, set-up left out."""
        return self._rate_after_setup(self.answered - self.setup_requests)

    @property
    def operations_per_processor_s(self) -> float | None:
        """Flash operations a processor second, set-up left out."""
        return self._rate_after_setup(self.operations - self.setup_operations)

    def _rate_after_setup(self, count: int) -> float | None:
        seconds = self.processor_s - self.setup_s
        # A smaller difference is noise: the same command differs by a tenth on a busy machine.
        return rate(count, seconds) if seconds > self.setup_s / 10 else None


def rate(count: int, seconds: float) -> float | None:
    """Count a second; none if no time was measured."""
    return count / seconds if seconds > 0 and count > 0 else None


def processor_seconds(command: Sequence[str], folder: Path, log: Path) -> tuple[int, float]:
    """Runs a command in a folder; returns its exit status and processor time of all its threads.

    Its standard input is empty, because MQSim waits for a key at its end.
    """
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT
        )
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, usage.ru_utime + usage.ru_stime


def _last_line(log: Path, pattern: str = ".") -> str:
    lines = re.split(r"[\r\n]+", log.read_text(encoding="utf-8", errors="replace"))
    found = [line.strip() for line in lines if re.search(pattern, line)]
    return found[-1] if found else "nothing was printed"


Tree = dict[str, Any]
"""Elements of XML: texts, numbers and further trees, by name."""


def _xml(tree: Tree) -> str:
    def element(name: str, value: Any) -> str:
        return f"<{name}>{_xml(value) if isinstance(value, dict) else value}</{name}>\n"

    return "".join(element(name, value) for name, value in tree.items())


def mqsim_device(workload: Workload, seed: int) -> str:
    """MQSim's configuration of the device.

    Keys that are absent keep the values that MQSim has built in: those of its cache and of
    suspended operations, which are off, and of SATA.
    """
    flash: Tree = {
        "Flash_Technology": "SLC",
        "CMD_Suspension_Support": "NONE",
        "Page_Read_Latency_LSB": READ_NS,
        "Page_Program_Latency_LSB": PROGRAM_NS,
        "Block_Erase_Latency": ERASE_NS,
        "Die_No_Per_Chip": 1,
        "Plane_No_Per_Die": 1,
        "Block_No_Per_Plane": BLOCKS_PER_PLANE,
        "Page_No_Per_Block": PAGES_PER_BLOCK,
        "Page_Capacity": PAGE_BYTES,
    }
    device: Tree = {
        "Seed": seed,
        # An empty device has nothing to clean while fewer pages are written than it has, and the
        # first read of a page gives it a place, from which the flash is then read.
        "Enabled_Preconditioning": str(workload.cleans).lower(),
        "HostInterface_Type": "NVME",
        "IO_Queue_Depth": 1024,
        "Queue_Fetch_Size": 512,
        "Address_Mapping": "PAGE_LEVEL",
        "Ideal_Mapping_Table": "true",
        "Plane_Allocation_Scheme": "CWDP",
        "Transaction_Scheduling_Policy": "PRIORITY_OUT_OF_ORDER",
        "Overprovisioning_Ratio": SPARE_SHARE,
        "GC_Exec_Threshold": CLEANING_THRESHOLD,
        "GC_Block_Selection_Policy": "GREEDY",
        "Use_Copyback_for_GC": "false",
        "Preemptible_GC_Enabled": "false",
        "Dynamic_Wearleveling_Enabled": "false",
        "Static_Wearleveling_Enabled": "false",
        "Flash_Channel_Count": CHANNELS,
        "Flash_Channel_Width": 1,
        "Channel_Transfer_Rate": 333,
        "Chip_No_Per_Channel": CHIPS_PER_CHANNEL,
        "Flash_Comm_Protocol": "NVDDR2",
        "Flash_Parameter_Set": flash,
    }
    host: Tree = {
        "PCIe_Lane_Bandwidth": 1.0,
        "PCIe_Lane_Count": 4,
        "Enable_ResponseTime_Logging": "true",
        "ResponseTime_Logging_Period_Length": workload.log_period_ns,
    }
    return _xml(
        {"Execution_Parameter_Set": {"Host_Parameter_Set": host, "Device_Parameter_Set": device}}
    )


def mqsim_workload(workload: Workload, requests: int, seed: int) -> str:
    """MQSim's definition of the workload: one flow over all chips that keeps the queue full."""
    flow: Tree = {
        "Priority_Class": "HIGH",
        "Device_Level_Data_Caching_Mode": "TURNED_OFF",
        "Channel_IDs": ",".join(map(str, range(CHANNELS))),
        "Chip_IDs": ",".join(map(str, range(CHIPS_PER_CHANNEL))),
        "Die_IDs": 0,
        "Plane_IDs": 0,
        "Initial_Occupancy_Percentage": 100 if workload.cleans else 0,
        "Working_Set_Percentage": 100,
        "Synthetic_Generator_Type": "QUEUE_DEPTH",
        "Read_Percentage": workload.read_percent,
        "Address_Distribution": "RANDOM_UNIFORM" if workload.is_random else "STREAMING",
        "Percentage_of_Hot_Region": 0,
        "Generated_Aligned_Addresses": "true",
        "Address_Alignment_Unit": PAGE_BYTES // 512,
        "Request_Size_Distribution": "FIXED",
        "Average_Request_Size": PAGE_BYTES // 512,
        "Variance_Request_Size": 0,
        "Seed": seed,
        "Average_No_of_Reqs_in_Queue": QUEUE_DEPTH,
        "Stop_Time": 0,
        "Total_Requests_To_Generate": requests,
    }
    return _xml({"MQSim_IO_Scenarios": {"IO_Scenario": {"IO_Flow_Parameter_Set_Synthetic": flow}}})


def read_mqsim(result: Path, log: Path, asked: int) -> Outcome:
    """Reads a result file of MQSim, and the log that stands beside it.

    Its own `Request_Count` and `IOPS` are of requests that it generated, answered or not, and its
    seconds are cut to whole ones. So answers are counted by their bytes, and time by the log.
    """
    root = ElementTree.parse(result).getroot()
    flow = root.find("Host/Host.IO_Flow")
    layer = root.find("SSDDevice/SSDDevice.FTL")
    if flow is None or layer is None:
        raise ComparisonError(f"{result.name} has no Host.IO_Flow or no SSDDevice.FTL")

    def pages(key: str) -> int:
        return round(float(flow.findtext(key, "0")) / PAGE_BYTES)

    def commands(kind: str) -> int:
        # Commands to one plane, to several, and copies within a chip are counted apart.
        matching = re.compile(rf"Issued_Flash_(\w+_)?{kind}_CMD$")
        counts = [int(v) for k, v in layer.attrib.items() if matching.match(k)]
        # Suspended operations are no operations of their own.
        return sum(counts) - int(layer.get(f"Issued_Flash_Suspend_{kind}_CMD", "0"))

    lines = log.read_text(encoding="utf-8").splitlines() if log.is_file() else []
    times = [line.split("\t")[0] for line in lines[1:]]
    return Outcome(
        asked=asked,
        answered=pages("Bytes_Transferred"),
        writes_answered=pages("Bytes_Transferred_Write"),
        simulated_s=float(times[-1]) / 1e6 if times else 0.0,
        reads=commands("Read"),
        programs=commands("Program"),
        erases=commands("Erase"),
    )


def run_mqsim(binary: Path, workload: Workload, seed: int, folder: Path, requests: int) -> Outcome:
    """Runs MQSim once.

    Raises:
        ComparisonError: MQSim ended with an error of its own, or left no result.

    """
    device, flow = folder / "device.xml", folder / "flow.xml"
    device.write_text(mqsim_device(workload, seed), encoding="ascii")
    flow.write_text(mqsim_workload(workload, requests, seed), encoding="ascii")
    result, log = folder / "flow_scenario_1.xml", folder / "printed"
    # MQSim that fails leaves the files of an earlier run.
    for old in (result, *folder.glob("flow.IO_Flow*.log")):
        old.unlink(missing_ok=True)
    command = [str(binary), "-i", str(device), "-w", str(flow)]
    status, seconds = processor_seconds(command, folder, log)
    if status != 0 or not result.is_file():
        said = _last_line(log, "ERROR" if status == 1 else ".")
        share = re.findall(r"(\d+)% progress", log.read_text(encoding="utf-8", errors="replace"))
        after = share[-1] if share else "0"
        raise ComparisonError(f"ended with status {status} after {after} %: {said}")
    logs = sorted(folder.glob("flow.IO_Flow*.log"))
    outcome = read_mqsim(result, logs[0] if logs else folder / "no log", requests)
    return replace(outcome, processor_s=seconds)


PART = f"""name = "page-of-4-kib"
summary = "SLC with the times of the comparison"

[geometry]
page_data_bytes = {PAGE_BYTES}
page_oob_bytes = 64
pages_per_block = {PAGES_PER_BLOCK}
blocks = {BLOCKS_PER_PLANE}
planes = 1
cell = "slc"
page_order = "sequential"
data_programs_max = 1
oob_programs_max = 1
bad_mark_oob_offset = 0

[timing]
read_ns = {READ_NS}
program_ns = [{PROGRAM_NS}]
erase_ns = {ERASE_NS}
transfer_ps_per_byte = {TRANSFER_PS_PER_BYTE}

# Nothing fails in this comparison.
[errors]
erase_cycles_max = 100000
erase_cycles_spread_percent = 10.0
ecc_codeword_bytes = 1024
ecc_correctable_bits = 8
rber_fresh = 0.0
rber_worn = 0.0
wear_exponent = 2.0
retention_rber_per_year = 0.0
retention_exponent = 1.0
read_disturb_rber_per_read = 0.0
program_failure_worn = 0.0
erase_failure_worn = 0.0
factory_bad_probability = 0.0
"""


def capacity_bytes(workload: Workload, requests: int) -> int:
    """Bytes of nandlab's device, which is always full.

    With random requests it holds as many pages as MQSim has mapped in the mean of the run: every
    request to a page that is not mapped maps it. With sequential ones it is so small that a block
    to be cleaned holds nothing, as MQSim has none to clean.
    """
    logical_pages = RAW_BYTES * (1 - SPARE_SHARE) / PAGE_BYTES
    share = 1 / 8
    if workload.is_random:
        rounds = requests / logical_pages
        share = 1 - (1 - FILLED_SHARE) * (1 - exp(-rounds)) / rounds
    dies = CHANNELS * CHIPS_PER_CHANNEL
    return round(logical_pages * share / dies) * dies * PAGE_BYTES


def nandlab_study(workload: Workload, capacity: int, requests: int, seed: int, part: Path) -> str:
    """The study: one process past the page cache, over `nvme-ssd` with its keys replaced."""
    kind = "rand" if workload.is_random else ""
    kind += {0: "write", 100: "read"}.get(workload.read_percent, "rw")
    device = {
        "flash.part": str(part),
        "flash.blocks": BLOCKS_PER_PLANE,
        "flash.channels": CHANNELS,
        "flash.dies_per_channel": CHIPS_PER_CHANNEL,
        "flash.capacity_bytes": capacity,
        "flash.mapping_unit_bytes": PAGE_BYTES,
        "flash.copy_back": "false",
        "flash.settings.cleaning": "greedy",
        "flash.settings.frontier": "separate",
        "flash.settings.low_water": BLOCKS_KEPT_FREE,
        "cache.bytes": 0,
        "cleaning.background": "false",
        "cleaning.steps_per_program": 0,
        # The sequential writes begin on a device that cleans, too: in no time.
        "cleaning.takes_time": str(workload.cleans).lower(),
        "host.bytes_per_second": 4_000_000_000,
        "host.command_overhead_ns": 0,
        "host.write_overhead_ns": 0,
        "host.processors": QUEUE_DEPTH,
        "host.executes": QUEUE_DEPTH,
    }
    # JSON's numbers and texts are TOML's, too.
    axes = "".join(f'"device.{key}" = [{json.dumps(value)}]\n' for key, value in device.items())
    return f"""name = "compare-mqsim"
title = "{workload.title}"
question = "How many requests does the device answer?"
seed = {seed}
repeats = 1

[workload]
kind = "jobs"

[host]
board = "emulated-pc"
device = "nvme-ssd"
free_bytes = {capacity}
overwritten_percent = {200 if workload.cleans else 0}

[[job]]
name = "requests"
processes = 1
rw = "{kind}"
rwmixread = {workload.read_percent}
bs = "4k"
requests = {requests}
iodepth = {QUEUE_DEPTH}
mode = "direct"
region = "all"

[axes]
scheduler = ["noop"]
{axes}"""


def read_nandlab(results: Path, asked: int) -> Outcome:
    """Reads `results.csv` of the study. A copy of cleaning is a read and a program."""
    with results.open(encoding="utf-8", newline="") as file:
        metrics = {row["metric"]: float(row["value"]) for row in csv.DictReader(file)}
    reads = round(metrics.get("read_requests", 0))
    writes = round(metrics.get("write_requests", 0))
    programs = round(metrics["device_page_programs"])
    return Outcome(
        asked=asked,
        answered=reads + writes,
        writes_answered=writes,
        simulated_s=metrics["simulated_ns"] / 1e9,
        reads=reads + programs - writes,
        programs=programs,
        erases=round(metrics["device_cleaned_blocks"]),
    )


def run_nandlab(
    command: str, workload: Workload, all_requests: int, seed: int, folder: Path, requests: int
) -> Outcome:
    """Runs nandlab once, on the device for `all_requests`.

    Raises:
        ComparisonError: nandlab refused the study.

    """
    capacity = capacity_bytes(workload, all_requests)
    part, study, out = folder / "part.toml", folder / "study.toml", folder / "out"
    part.write_text(PART, encoding="utf-8")
    study.write_text(nandlab_study(workload, capacity, requests, seed, part), encoding="utf-8")
    words = [command, "run", str(study), "--out", str(out), "--jobs", "1"]
    log = folder / "printed"
    status, seconds = processor_seconds(words, folder, log)
    if status != 0:
        raise ComparisonError(f"nandlab ended with status {status}: {_last_line(log)}")
    return replace(read_nandlab(out / "results.csv", requests), processor_s=seconds)
