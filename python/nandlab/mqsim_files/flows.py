"""From the flows of a scenario to a study of jobs, or to the replay of a trace."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import exp
from pathlib import Path
from typing import Any

from nandlab.errors import NandlabError
from nandlab.mqsim_files.device import (
    PART_FILE,
    Shape,
    cached_map,
    part_text,
    settings_of,
    shape_of,
)
from nandlab.mqsim_files.key import SYNTHETIC, TRACE
from nandlab.mqsim_files.sections import DeviceFile, Section
from nandlab.toml_text import toml_key, toml_value

SECTOR_BYTES = 512

REQUESTS_MAX = 10_000_000
"""Most requests of a scenario: every latency is kept, about a hundred bytes each."""

_STOP_NS_MAX = 86_400 * 10**9
"""Longest run of a job: a day."""

_LINE_BYTES_MAX = 1_000
"""Longest line of a trace that is looked at; five numbers take a hundred bytes."""

_FILLED_SHARE = 0.9
"""Share of the logical pages that MQSim's preconditioning fills at most, if requests are random."""

_OPEN_BLOCKS = 3
"""Blocks of a die that are being written or cleaned at most."""

_PAGE_LAYER_ONLY = (
    "flash.mapping_unit_bytes",
    "flash.settings.cleaning",
    "flash.settings.choices",
    "flash.settings.frontier",
)
"""Settings that the layer `dftl` does not have."""

_PART_BYTES = 4_096
"""Jobs get parts of the device in pages of the host."""


@dataclass(frozen=True)
class Scenario:
    """A scenario, checked and ready to run on a device of its own."""

    number: int
    flows: Sequence[Section]
    shape: Shape
    settings: Mapping[str, Any]
    part: str
    seed: int
    preconditioned: bool
    is_empty: bool
    """True if nothing is written first: MQSim's device is empty, and no flow reads."""
    reached_bytes: int
    """Bytes that all flows can reach: those at the end of the device."""
    empty_pages: int
    """Pages that MQSim's empty device takes before it cleans; 0 if it is not empty."""
    requests_max: int
    """Requests of each flow that has a time and no number."""
    fetch_size: int
    """Commands of each flow that the device works on; further ones wait in the flow's queue."""

    @property
    def is_trace(self) -> bool:
        """True of a trace that is replayed."""
        return self.flows[0].name == TRACE


def scenario_of(number: int, file: DeviceFile, flows: Sequence[Section]) -> Scenario:
    """Checks a scenario. Raises `NandlabError` with line and key for what cannot be carried out."""
    if len(flows) > 1:
        for flow in flows:
            if flow.name == TRACE:
                raise NandlabError(
                    f"{flow.place}: a trace beside other flows: a replay does not tell flows "
                    "apart; give it a scenario of its own"
                )
    shape = shape_of(file, flows)
    preconditioned = file.device.is_on("Enabled_Preconditioning")
    page_bytes = shape.page_bytes
    reached = _reached_pages(shape, flows)
    filled = reached
    if preconditioned:
        occupancy = sum(flow.count("Initial_Occupancy_Percentage") for flow in flows)
        filled = max(reached, shape.logical_pages * occupancy // (100 * len(flows)))
        filled = min(filled, int(shape.logical_pages * _mapped_share(shape, flows)))
        reached = min(reached, filled)
    seed = file.device.count("Seed") * 1_000_003
    if flows[0].name == SYNTHETIC:
        _check_jobs(flows, reached * page_bytes // len(flows))
        seed += sum(flow.count("Seed") for flow in flows)
    rewritten_bytes = reached * _hot_percent(flows) // 100 * page_bytes
    settings = settings_of(file, flows, shape, PART_FILE, filled * page_bytes, rewritten_bytes)
    is_empty = not preconditioned and not _reads(flows)
    empty_pages = 0
    if not preconditioned:
        dies = shape.channels * shape.dies_per_channel
        asked = _pages_asked(file, shape, flows)
        room = shape.blocks - settings["flash.settings.low_water"] - _OPEN_BLOCKS
        # Pages that can be written before anything is cleaned.
        room = dies * room * shape.pages_per_block - (0 if is_empty else filled)
        if asked <= room and (cached := cached_map(file, shape, filled * page_bytes)):
            settings = {key: settings[key] for key in settings if key not in _PAGE_LAYER_ONLY}
            settings |= cached
        if asked > room and not is_empty:
            # Reads need pages, so all are written first, where MQSim's device is empty.
            low_water = int(file.device.share("GC_Exec_Threshold") * shape.blocks)
            empty_pages = dies * (shape.blocks - low_water) * shape.pages_per_block
            settings["cleaning.takes_time"] = asked > empty_pages and not _ends_by_time(flows)
    return Scenario(
        number=number,
        flows=flows,
        shape=shape,
        settings=settings,
        part=part_text(file, page_bytes),
        seed=seed,
        preconditioned=preconditioned,
        is_empty=is_empty,
        reached_bytes=reached * page_bytes,
        empty_pages=empty_pages,
        requests_max=REQUESTS_MAX // len(flows),
        fetch_size=file.device.count("Queue_Fetch_Size"),
    )


def _reads(flows: Sequence[Section]) -> bool:
    """True if a flow may read: then pages have to be there."""
    return any(flow.name == TRACE or flow.count("Read_Percentage") > 0 for flow in flows)


def _hot_percent(flows: Sequence[Section]) -> int:
    """Share of the pages that most requests go to."""
    if any(flow.name == TRACE or flow.word("Address_Distribution") != "RANDOM_HOTCOLD"
           for flow in flows):  # fmt: skip
        return 100
    return max(flow.count("Percentage_of_Hot_Region") for flow in flows)


def _ends_by_time(flows: Sequence[Section]) -> bool:
    """True if the number of requests is not known before they run."""
    return any(flow.name == TRACE or flow.count("Stop_Time") > 0 for flow in flows)


def _pages_asked(file: DeviceFile, shape: Shape, flows: Sequence[Section]) -> int:
    """Pages that flows will write; if their time ends them, as many as the chips can program.

    A trace was not read by then, so it may write all that is replayed.
    """
    program_ns = min(file.flash.count(f"Page_Program_Latency_{one}") for one in ("LSB", "MSB"))
    pages = 0
    for flow in flows:
        if flow.name == TRACE:
            return REQUESTS_MAX
        writes_percent = 100 - flow.count("Read_Percentage")
        if stop_ns := flow.count("Stop_Time"):
            dies = shape.channels * shape.dies_per_channel
            pages += (stop_ns // program_ns + 1) * dies if writes_percent else 0
        else:
            size_bytes = flow.count("Average_Request_Size") * SECTOR_BYTES
            writes = flow.count("Total_Requests_To_Generate") * writes_percent // 100
            pages += writes * -(-size_bytes // shape.page_bytes)
    return pages


def _mapped_share(shape: Shape, flows: Sequence[Section]) -> float:
    """Share of the logical pages that MQSim has mapped in the mean of a run that begins full.

    Its preconditioning fills nine tenths at most for random requests, and each request to a page
    without a place gives it one, so the rest shrinks by a factor e for as many requests as pages.
    """
    if any(
        flow.name == TRACE or flow.word("Address_Distribution") == "STREAMING" for flow in flows
    ):
        return 1.0
    requests = sum(0 if flow.count("Stop_Time") else flow.count("Total_Requests_To_Generate")
                   for flow in flows)  # fmt: skip
    rounds = requests / shape.logical_pages
    unmapped = 1 - _FILLED_SHARE
    return 1 - (unmapped * (1 - exp(-rounds)) / rounds if rounds else unmapped)


def _reached_pages(shape: Shape, flows: Sequence[Section]) -> int:
    """Pages that all flows can reach, each as many in a part of its own."""
    share = shape.logical_pages // len(flows)
    if flows[0].name == TRACE:
        return share
    percents = []
    for flow in flows:
        percent = flow.count("Working_Set_Percentage")
        percents.append(percent if 1 <= percent <= 100 else 100)
        if percents[-1] != percents[0]:
            raise flow.refuse(
                "Working_Set_Percentage",
                "differs from that of the first flow; flows here have parts of the same size",
            )
    # Whole pages, and whole pages of the host, so that the parts of jobs end where pages end.
    step = max(1, _PART_BYTES // shape.page_bytes)
    return max(step, share * percents[0] // 100 // step * step) * len(flows)


def _check_jobs(flows: Sequence[Section], part_bytes: int) -> None:
    asked = 0
    for flow in flows:
        size_bytes = flow.count("Average_Request_Size") * SECTOR_BYTES
        if size_bytes > part_bytes:
            raise flow.refuse(
                "Average_Request_Size",
                f"is {size_bytes:,} bytes, but the flow reaches {part_bytes:,} bytes",
            )
        hot = flow.count("Percentage_of_Hot_Region")
        if flow.word("Address_Distribution") == "RANDOM_HOTCOLD" and not 1 <= hot <= 99:
            raise flow.refuse(
                "Percentage_of_Hot_Region",
                f"is {hot}, but RANDOM_HOTCOLD takes 1 to 99: with 0 MQSim asks for one page only",
            )
        stop_ns, total = flow.count("Stop_Time"), flow.count("Total_Requests_To_Generate")
        if stop_ns > _STOP_NS_MAX:
            raise flow.refuse("Stop_Time", "is longer than a day; give a shorter time")
        if stop_ns == 0 and total == 0:
            raise flow.refuse(
                "Total_Requests_To_Generate", "and `Stop_Time` are 0: nothing ends the flow"
            )
        asked += total if stop_ns == 0 else 0
        if asked > REQUESTS_MAX:
            raise flow.refuse(
                "Total_Requests_To_Generate",
                f"makes {asked:,} requests of the scenario, but at most {REQUESTS_MAX:,} are "
                "kept; give fewer",
            )


def study_text(scenario: Scenario) -> str:
    """The study of a scenario of synthetic flows: a job for each flow, in their order.

    The device is `nvme-ssd` with all keys replaced that matter: as one mechanism, because an axis
    for each would repeat all their values in every row.
    """
    outstanding = 0
    jobs = []
    largest_bytes = 0
    for number, flow in enumerate(scenario.flows, 1):
        job = _job(number, flow, scenario)
        outstanding += job.get("iodepth", 1)
        largest_bytes = max(largest_bytes, int(job["bs"]))
        jobs.append("[[job]]\n" + _lines(job))
    host = {
        "board": "emulated-pc",
        "device": "nvme-ssd",
        "free_bytes": scenario.reached_bytes,
        **_state(scenario),
        # Neither limit may hold back or cut what MQSim sends.
        "nr_requests": min(max(128, outstanding), 100_000),
        "max_sectors_kb": max(512, -(-largest_bytes // 1024)),
    }
    device = ", ".join(
        f"{toml_key(key)} = {toml_value(value)}" for key, value in scenario.settings.items()
    )
    return (
        'name = "mqsim"\ntitle = "Flows of MQSim"\n'
        'question = "How long do requests take?"\n'
        f"seed = {scenario.seed}\nrepeats = 1\n\n"
        f'[workload]\nkind = "jobs"\n\n[host]\n{_lines(host)}\n' + "\n".join(jobs) + "\n"
        f"[mechanisms.mqsim]\ndevice = {{ {device} }}\n\n"
        '[axes]\nscheduler = ["noop"]\nmechanism = ["mqsim"]\n\n'
        # All requests are kept: flows are told apart by the numbers of their processes.
        f"[timeline]\nseconds = {_STOP_NS_MAX // 10**9}\naxes = {{}}\n"
    )


def _state(scenario: Scenario) -> dict[str, Any]:
    """Keys of the host that say what the device holds before the flows begin."""
    if scenario.preconditioned:
        return {"overwritten_percent": 200}
    return {"precondition": "none" if scenario.is_empty else "fill"}


def _job(number: int, flow: Section, scenario: Scenario) -> dict[str, Any]:
    size_bytes = flow.count("Average_Request_Size") * SECTOR_BYTES
    distribution = flow.word("Address_Distribution")
    is_random = distribution != "STREAMING"
    job: dict[str, Any] = {
        "name": f"flow-{number}",
        "processes": 1,
        "rw": "randrw" if is_random else "rw",
        "rwmixread": flow.count("Read_Percentage"),
        "bs": str(size_bytes),
        "mode": "direct",
        "region": "free",
    }
    if distribution == "RANDOM_HOTCOLD":
        # `Generate_next_request` of MQSim: all but so many percent of the requests go to so many
        # percent of the pages, the first ones.
        hot = flow.count("Percentage_of_Hot_Region")
        job["random_distribution"] = f"zoned:{100 - hot}/{hot}:{hot}/{100 - hot}"
    if stop_ns := flow.count("Stop_Time"):
        job["runtime"] = f"{max(1, stop_ns // 1_000)}us"
        job["requests"] = scenario.requests_max
    else:
        job["requests"] = flow.count("Total_Requests_To_Generate")
    if flow.word("Synthetic_Generator_Type") == "QUEUE_DEPTH":
        # What waits in the queue of the flow is no matter of the device: `outcome` adds its time.
        job["iodepth"] = min(flow.count("Average_No_of_Reqs_in_Queue"), scenario.fetch_size)
    else:
        job["rate_iops"] = max(1, flow.count("Bandwidth") // size_bytes)
        # An open loop: as many outstanding as a queue of 16 bits holds.
        job["iodepth"] = 65_535
    return job


def _lines(table: Mapping[str, Any]) -> str:
    return "".join(f"{key} = {toml_value(value)}\n" for key, value in table.items())


@dataclass(frozen=True)
class TraceLines:
    """What MQSim would send of a trace."""

    requests: int
    read_bytes: int
    write_bytes: int
    reads: int
    first_ns: int
    note: str
    """Where reading ended before the end of the file, or nothing."""


def find_trace(flow: Section, beside: Path) -> Path:
    """The trace file: beside the workload file, else from the current folder as in MQSim."""
    named = Path(flow.word("File_Path"))
    for place in (beside.parent / named, named):
        if place.is_file():
            return place
    raise flow.refuse("File_Path", f"is {named}: no such file")


def write_trace(flow: Section, source: Path, target: Path) -> TraceLines:
    """Writes the requests that MQSim would send of a trace, one a line, in its format.

    Raises `NandlabError` for a trace without requests, with falling times, or too long.
    """
    lines, note = _trace_lines(source)
    if not lines:
        raise NandlabError(f"{source}: line 1: no five numbers, so there is no request in it")
    rounds = flow.count("Relay_Count")
    if rounds == 1:
        lines = lines[: len(lines) * flow.count("Percentage_To_Be_Executed") // 100]
        if not lines:
            raise flow.refuse("Percentage_To_Be_Executed", "leaves no request of the trace")
    if len(lines) * rounds > REQUESTS_MAX:
        raise flow.refuse(
            "Relay_Count",
            f"makes {len(lines) * rounds:,} requests, but at most {REQUESTS_MAX:,} are replayed",
        )
    # `IO_Flow_Trace_Based` of MQSim begins a round at the time of the last request before it.
    round_ns = lines[-1][0]
    with target.open("w", encoding="ascii") as out:
        for round_number in range(rounds):
            begin_ns = round_number * round_ns
            out.writelines(f"{begin_ns + at} 0 {sector} {count} {kind}\n"
                           for at, sector, count, kind in lines)  # fmt: skip
    sizes = {kind: [one[2] for one in lines if one[3] == kind] for kind in (0, 1)}
    return TraceLines(
        requests=len(lines) * rounds,
        read_bytes=sum(sizes[1]) * SECTOR_BYTES * rounds,
        write_bytes=sum(sizes[0]) * SECTOR_BYTES * rounds,
        reads=len(sizes[1]) * rounds,
        first_ns=lines[0][0],
        note=note,
    )


def _trace_lines(source: Path) -> tuple[list[tuple[int, int, int, int]], str]:
    """Time, sector, sectors and kind (0 write, 1 read) of each line up to the first other one."""
    lines: list[tuple[int, int, int, int]] = []
    for number, fields in enumerate(_fields(source), 1):
        if len(fields) != 5:
            return lines, f"{source}: line {number} has {len(fields)} fields, not 5: as in MQSim "\
                "the trace ends before it"  # fmt: skip
        if not all(one.isascii() and one.isdigit() and len(one) < 19 for one in fields):
            raise NandlabError(f"{source}: line {number}: five whole numbers are needed")
        at, _, sector, count, kind = map(int, fields)
        if lines and at < lines[-1][0]:
            raise NandlabError(f"{source}: line {number}: the time falls; sort the trace")
        if not 1 <= count < 2**23:
            raise NandlabError(f"{source}: line {number}: {count} sectors; 1 to 8,388,607 fit")
        lines.append((at, sector, count, 0 if kind == 0 else 1))
        if len(lines) > REQUESTS_MAX:
            raise NandlabError(f"{source}: more than {REQUESTS_MAX:,} requests; shorten it")
    return lines, ""


def _fields(source: Path) -> Iterator[list[str]]:
    try:
        with source.open("rb") as file:
            while line := file.readline(_LINE_BYTES_MAX):
                yield line.decode("ascii", "replace").split()
    except OSError as error:
        raise NandlabError(f"{source}: {error.strerror}; name a trace") from None
