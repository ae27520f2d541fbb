"""Runs the scenarios of MQSim's files, each on a fresh device."""

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from nandlab import engine
from nandlab.engine import Progress
from nandlab.errors import NandlabError
from nandlab.mqsim_files.device import PART_FILE, check_host
from nandlab.mqsim_files.flows import (
    SECTOR_BYTES,
    Scenario,
    find_trace,
    scenario_of,
    study_text,
    write_trace,
)
from nandlab.mqsim_files.key import Fate, Outcome
from nandlab.mqsim_files.outcome import flow_of_replay, flows_of_jobs
from nandlab.mqsim_files.sections import (
    DeviceFile,
    Given,
    Section,
    read_device_file,
    read_workload_file,
)


class StoppedError(Exception):
    """The call was asked to stop. What was finished is in the answer of the runs before."""


def read_files(ssdconfig: str | Path, workload: str | Path) -> tuple[DeviceFile, list[Scenario]]:
    """Both files, checked as far as that goes without a run.

    Raises `NandlabError` with file, line and key.
    """
    file = read_device_file(ssdconfig)
    check_host(file)
    flows = read_workload_file(workload)
    return file, [scenario_of(number, file, one) for number, one in enumerate(flows, 1)]


def unlike(file: DeviceFile, scenarios: Iterable[Scenario]) -> list[dict[str, Any]]:
    """The keys of the files that are approximated or ignored, each value once, with the reason."""
    rows: dict[tuple[str, str, str], dict[str, Any]] = {}
    given: list[tuple[Given, Outcome]] = [
        (one, one.key.outcome_of(one.value)) for one in file.given
    ]
    for scenario in scenarios:
        classes = {flow.word("Priority_Class") for flow in scenario.flows}
        for flow in scenario.flows:
            given += [
                (one, one.key.outcome_of(one.value))
                for one in flow.given.values()
                # Flows of one class wait for each other in the same way with MQSim.
                if one.key.name != "Priority_Class" or len(classes) > 1
            ]
    for one, outcome in given:
        if outcome.fate in (Fate.APPROXIMATED, Fate.IGNORED):
            rows[one.key.section, one.key.name, one.value] = {
                "section": one.key.section,
                "key": one.key.name,
                "value": one.value,
                "fate": str(outcome.fate),
                "reason": outcome.how,
            }
    order = sorted(rows, key=lambda row: (rows[row]["fate"], *row))
    return [rows[row] for row in order]


def run_scenario(scenario: Scenario, workload: Path, progress: Progress) -> dict[str, Any]:
    """The flows of a scenario, and what the device did.

    Raises `NandlabError` for a device that cannot be built, and `StoppedError` after Ctrl-C.
    """
    with tempfile.TemporaryDirectory(prefix="nandlab-mqsim-") as name:
        folder = Path(name)
        (folder / PART_FILE).write_text(scenario.part, encoding="utf-8")
        try:
            if scenario.is_trace:
                return _replayed(scenario, workload, folder)
            return _run_jobs(scenario, folder, progress)
        except NandlabError as error:
            # The engine names files of this call, which the caller has not seen.
            told = str(error).replace(f"{folder}/", "")
            if told == str(error) and "nvme-ssd" not in told:
                raise
            reason = told.replace("device `nvme-ssd`: ", "")
            raise NandlabError(f"scenario {scenario.number}: {reason}") from None


def _run_jobs(scenario: Scenario, folder: Path, progress: Progress) -> dict[str, Any]:
    study = folder / "study.toml"
    settings = {**scenario.settings, "flash.part": str(folder / PART_FILE)}
    study.write_text(study_text(replace(scenario, settings=settings)), encoding="utf-8")
    answer = engine.run_study(study, [], None, quick=False, jobs=1, progress=progress)
    if answer["interrupted"]:
        raise StoppedError
    requests = answer["frames"]["requests"]
    rows = answer["frames"]["rows"]
    metrics = dict(rows.select("metric", "value").iter_rows())
    flows = flows_of_jobs(scenario, requests)
    notes = _cut_short(scenario, flows) + _late_cleaning(scenario, flows)
    device = {
        "simulated_ns": int(metrics["simulated_ns"]),
        "page_reads": _page_reads(scenario, flows, metrics),
        "page_programs": int(metrics["device_page_programs"]),
        "cleaned_blocks": int(metrics["device_cleaned_blocks"]),
    }
    return {"flows": flows, "device": device, "notes": [*notes, *answer["notes"]]}


def _page_reads(
    scenario: Scenario, flows: Sequence[Mapping[str, Any]], metrics: Mapping[str, float]
) -> int | None:
    """Pages that the dies read, for requests and copies; None where a study does not tell.

    It tells neither how often a cached mapping table was read, nor what the write cache answered or
    kept from the dies.
    """
    counted = {"read": 0, "write": 0}
    for asked, flow in zip(scenario.flows, flows, strict=True):
        size_bytes = asked.count("Average_Request_Size") * SECTOR_BYTES
        pages = -(-size_bytes // scenario.shape.page_bytes)
        counted["read"] += flow["Read_Request_Count"] * pages
        counted["write"] += flow["Write_Request_Count"] * pages
    programs = int(metrics["device_page_programs"])
    cached = bool(scenario.settings["cache.bytes"]) and counted["write"] > 0
    if "flash.ftl" in scenario.settings or (cached and counted["read"] > 0):
        return None
    if cached and metrics["device_cleaned_blocks"]:
        return None
    # Each program beside those of the host is a copy, which reads a page.
    copies = 0 if cached else programs - counted["write"]
    return counted["read"] + int(metrics.get("device_read_modify_writes", 0)) + copies


def _late_cleaning(scenario: Scenario, flows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Says that writes were more than an empty device takes, where cleaning took no time."""
    if scenario.settings.get("cleaning.takes_time", True):
        return []
    pages = sum(flow["Bytes_Transferred_Write"] for flow in flows) // scenario.shape.page_bytes
    if pages <= scenario.empty_pages:
        return []
    return [
        f"scenario {scenario.number}: {pages:,} pages were written, but MQSim's empty device "
        f"cleans after {scenario.empty_pages:,}; cleaning took no time here, so set "
        "Enabled_Preconditioning to true"
    ]


def _cut_short(scenario: Scenario, flows: Sequence[Mapping[str, Any]]) -> list[str]:
    return [
        f"scenario {scenario.number}, flow {number}: ended after {scenario.requests_max:,} "
        "requests, before its Stop_Time"
        for number, (asked, flow) in enumerate(zip(scenario.flows, flows, strict=True), 1)
        if asked.count("Stop_Time") and flow["Request_Count"] == scenario.requests_max
    ]


def _replayed(scenario: Scenario, workload: Path, folder: Path) -> dict[str, Any]:
    flow: Section = scenario.flows[0]
    source = find_trace(flow, workload)
    trace = folder / "trace.mqsim"
    lines = write_trace(flow, source, trace)
    settings = {**scenario.settings, "flash.part": str(folder / PART_FILE)}
    arguments = {
        "device": "nvme-ssd",
        "changes": {
            key: str(one).lower() if isinstance(one, bool) else str(one)
            for key, one in settings.items()
        },
        "ftls": [],
        "schedulers": ["noop"],
        "precondition": "random:200" if scenario.preconditioned else "fill",
        "time_ppm": 1_000_000,
        "queue_depth": None,
        "address": "modulo",
        "nr_requests": 100_000,
        "timeline": None,
        "seed": scenario.seed,
    }
    reading = {"format": "mqsim", "time_unit": "ns"}
    run = engine.replay_on_device(trace, arguments, reading)["runs"][0]
    device = {
        "simulated_ns": run["elapsed_ns"] + lines.first_ns,
        "page_reads": run["chip_operations"][0],
        "page_programs": run["chip_operations"][1],
        "cleaned_blocks": run["chip_operations"][2],
        "write_amplification": run["write_amplification"],
    }
    flows = [flow_of_replay(run, lines)]
    notes = ([lines.note] if lines.note else []) + _late_cleaning(scenario, flows)
    return {"flows": flows, "device": device, "notes": notes + run["notes"]}
