"""Files that MQSim ships, run by MQSim and by nandlab: what scripts/mqsim_page.py compares.

Both get copies of a file's scenario in a temporary folder. In the copies a log of response times is
on, whose last line tells when the last request was answered; seeds differ from run to run; and a
time that ends a flow may be shorter. Nothing of the checkout is changed.
"""

import json
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from compare_mqsim_sides import ComparisonError, processor_seconds

LOG_PERIOD_NS = 1_000_000
"""Simulated time between two lines of MQSim's log: so exact is the time of its last answer."""

SEED_STEP = 1_000
"""Added to all seeds from run to run; the first run has the shipped ones."""

_TRACE = "IO_Flow_Parameter_Set_Trace_Based"


@dataclass(frozen=True)
class Flow:
    """What became of a flow."""

    asked: int
    answered: int
    seconds: float
    transferred_bytes: int
    mean_us: float


@dataclass(frozen=True)
class Run:
    """What one simulator counted in a scenario. None where it does not tell."""

    flows: list[Flow]
    reads: int | None
    programs: int
    erases: int
    written_bytes: int
    processor_s: float


@dataclass(frozen=True)
class Pair:
    """A configuration and a workload of one folder of the checkout."""

    name: str
    """Both names from the checkout on, for the page."""
    device: Path
    workload: Path


def pairs(checkout: Path) -> list[Pair]:
    """Every configuration with every workload beside it."""
    found = []
    for device in sorted(
        checkout.rglob("ssdconfig*.xml"), key=lambda path: (len(path.parts), path)
    ):
        for workload in sorted(device.parent.glob("workload*.xml")):
            # Results of MQSim lie beside the workload that they are of.
            if not re.search(r"_scenario_\d+$", workload.stem):
                both = (device.relative_to(checkout), workload.name)
                found.append(Pair(f"{both[0]} with {both[1]}", device, workload))
    return found


def parsed(path: Path) -> ElementTree.Element | None:
    """The outermost element of a file, or None for a file that is no XML."""
    try:
        return ElementTree.parse(path).getroot()
    except ElementTree.ParseError:
        return None


def missing_trace(scenario: ElementTree.Element, pair: Pair, checkout: Path) -> str | None:
    """The trace that a scenario names and the checkout does not have."""
    for named in scenario.iter("File_Path"):
        if _trace_of(named, pair, checkout) is None:
            return (named.text or "").strip()
    return None


def _trace_of(named: ElementTree.Element, pair: Pair, checkout: Path) -> Path | None:
    places = (root / (named.text or "").strip() for root in (pair.workload.parent, checkout))
    return next((place.resolve() for place in places if place.is_file()), None)


def distinct(root: ElementTree.Element) -> list[tuple[int, ElementTree.Element, list[int]]]:
    """Number, element and later doubles of each scenario that is no double of an earlier one."""
    found: dict[bytes, tuple[int, ElementTree.Element, list[int]]] = {}
    for number, scenario in enumerate(root.iter("IO_Scenario"), 1):
        text = b"|".join(
            f"{one.tag}={(one.text or '').strip()}".encode() for one in scenario.iter()
        )
        if text in found:
            found[text][2].append(number)
        else:
            found[text] = (number, scenario, [])
    return list(found.values())


def stop_seconds(scenario: ElementTree.Element) -> float:
    """The longest `Stop_Time` of a scenario; 0 where a number of requests ends it."""
    return max((int(one.text or 0) / 1e9 for one in scenario.iter("Stop_Time")), default=0.0)


def write_copies(
    pair: Pair,
    checkout: Path,
    number: int,
    folder: Path,
    *,
    seed_step: int = 0,
    stop_s: float | None = None,
    changes: Mapping[str, str] | None = None,
) -> tuple[Path, Path]:
    """Copies of the configuration and of one scenario, with keys changed; their paths."""
    device, workload = ElementTree.parse(pair.device), ElementTree.parse(pair.workload)
    root = workload.getroot()
    scenarios = list(root.iter("IO_Scenario"))
    for other in scenarios[: number - 1] + scenarios[number:]:
        root.remove(other)
    _set(device.getroot(), "Host_Parameter_Set", "Enable_ResponseTime_Logging", "true")
    _set(
        device.getroot(), "Host_Parameter_Set", "ResponseTime_Logging_Period_Length",
        str(LOG_PERIOD_NS),
    )  # fmt: skip
    for named in root.iter("File_Path"):
        named.text = str(_trace_of(named, pair, checkout))
    for one in (*device.iter("Seed"), *root.iter("Seed")):
        one.text = str(int(one.text or 0) + seed_step)
    for one in root.iter("Stop_Time"):
        if stop_s is not None and int(one.text or 0) > stop_s * 1e9:
            one.text = str(round(stop_s * 1e9))
    for key, value in (changes or {}).items():
        found = [*device.iter(key), *root.iter(key)]
        if not found:
            raise ComparisonError(f"{pair.name} has no {key} to change")
        for one in found:
            one.text = value
    paths = folder / "device.xml", folder / "flow.xml"
    device.write(paths[0], encoding="us-ascii")
    workload.write(paths[1], encoding="us-ascii")
    return paths


def _set(root: ElementTree.Element, section: str, key: str, value: str) -> None:
    parent = root.find(section)
    if parent is None:
        raise ComparisonError(f"a configuration has no {section}")
    found = parent.find(key)
    if found is None:
        found = ElementTree.SubElement(parent, key)
    found.text = value


def _texts(printed: Path) -> str:
    return printed.read_text(encoding="utf-8", errors="replace").replace("\r", "\n")


def run_mqsim(binary: Path, device: Path, workload: Path, limit_s: int) -> Run:
    """Runs MQSim on copies of one scenario, or on files as they are.

    Raises:
        ComparisonError: MQSim ended with an error, left no result, or took more processor time.

    """
    folder = workload.parent
    printed = folder / "printed"
    for old in folder.glob(f"{workload.stem}*_*"):
        old.unlink()
    # `ulimit` ends the process where a time of the clock would depend on the machine's load.
    command = f'ulimit -t {limit_s} && exec "$0" -i "$1" -w "$2"'
    words = ["sh", "-c", command, str(binary), str(device), str(workload)]
    status, seconds = processor_seconds(words, folder, printed)
    text = _texts(printed)
    result = folder / f"{workload.stem}_scenario_1.xml"
    if status in (-9, -24, 137, 152):
        raise ComparisonError(f"had not ended after {limit_s} s of processor time")
    if status != 0 or not result.is_file():
        # Its own words stay out of the page.
        why = "nothing was said"
        if "ERROR" in text:
            why = "a check of its own failed"
        elif "what()" in text or "Traceback" in text:
            why = "an exception ended it"
        raise ComparisonError(
            f"ended with status {status} after {seconds:.0f} s of processor time: {why}"
        )
    logs = sorted(folder.glob(f"{workload.stem}.IO_Flow*.log"))
    planes = parsed(device)
    assert planes is not None, "MQSim has read it"
    plane_count = int(next(planes.iter("Plane_No_Per_Die")).text or 1)
    return read_mqsim(result, text, logs, plane_count, seconds)


def read_mqsim(
    result: Path, printed: str, logs: list[Path], planes: int, processor_s: float
) -> Run:
    """Reads MQSim's result file, what it printed, and its logs.

    Its own seconds, and so its own IOPS, are whole ones; the log tells the time of the last answer.
    Its file does not tell requests that were answered from those that were not; what it prints
    does.
    """
    root = ElementTree.parse(result).getroot()
    layer = root.find("SSDDevice/SSDDevice.FTL")
    rows = root.findall("Host/Host.IO_Flow")
    counts = re.findall(r"requests generated: (\d+) total requests serviced:(\d+)", printed)
    if layer is None or not rows or len(rows) != len(counts) or len(rows) != len(logs):
        raise ComparisonError(f"{result.name}, what was printed and the logs do not fit together")

    def pages(kind: str) -> int:
        total = 0
        for key, value in layer.attrib.items():
            # Suspensions and the share for the mapping table are no operations of their own.
            if match := re.fullmatch(rf"Issued_Flash_(Multiplane_)?(Copyback_)?{kind}_CMD", key):
                total += int(value) * (planes if match[1] else 1)
        return total

    flows = []
    for row, (asked, answered), log in zip(rows, counts, logs, strict=True):
        lines = log.read_text(encoding="utf-8").splitlines()[1:]
        flows.append(
            Flow(
                asked=int(asked),
                answered=int(answered),
                seconds=float(lines[-1].split("\t")[0]) / 1e6 if lines else 0.0,
                transferred_bytes=round(float(row.findtext("Bytes_Transferred", "0"))),
                mean_us=float(row.findtext("Device_Response_Time", "0")),
            )
        )
    written = sum(round(float(row.findtext("Bytes_Transferred_Write", "0"))) for row in rows)
    return Run(flows, pages("Read"), pages("Program"), pages("Erase"), written, processor_s)


def run_nandlab(command: str, device: Path, workload: Path) -> Run:
    """Runs `nandlab mqsim` on copies of one scenario, or on files as they are.

    Raises:
        ComparisonError: nandlab refused the files.

    """
    printed = workload.parent / "printed-nandlab"
    words = [command, "mqsim", str(device), str(workload), "--json"]
    status, seconds = processor_seconds(words, workload.parent, printed)
    text = _texts(printed)
    if status != 0:
        said = text.strip().splitlines()
        reason = said[-1].split("error: ")[-1] if said else "nothing was said"
        raise ComparisonError(reason.replace(f"{workload.parent}/", ""))
    (scenario,) = json.loads(text[text.index("{") :])["result"]["scenarios"]
    return read_nandlab(scenario, seconds)


def read_nandlab(scenario: Mapping[str, Any], processor_s: float) -> Run:
    """A scenario of the answer of `nandlab mqsim --json`."""
    found = scenario["device"]
    flows = [
        Flow(
            asked=flow["Request_Count"],
            # Each has a latency of its own if and only if it was answered.
            answered=sum(row["requests"] for row in flow["latencies"]),
            seconds=flow["elapsed_ns"] / 1e9,
            transferred_bytes=flow["Bytes_Transferred"],
            mean_us=flow["Device_Response_Time"],
        )
        for flow in scenario["flows"]
    ]
    written = sum(flow["Bytes_Transferred_Write"] for flow in scenario["flows"])
    return Run(
        flows, found["page_reads"], found["page_programs"], found["cleaned_blocks"], written,
        processor_s,
    )  # fmt: skip


def as_record(run: Run) -> dict[str, Any]:
    """A run as JSON has it."""
    return asdict(run)


def of_record(record: Mapping[str, Any]) -> Run:
    """A run from JSON."""
    return Run(**{**record, "flows": [Flow(**flow) for flow in record["flows"]]})


def scenarios_of(pair: Pair) -> Iterator[tuple[int, ElementTree.Element, list[int]]]:
    """The scenarios of a workload that are to be run; none of a file that is no XML."""
    root = parsed(pair.workload)
    if root is not None and parsed(pair.device) is not None:
        yield from distinct(root)
