"""MQSim's own configuration and workload files on nandlab's devices."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from nandlab.api.answer import Answer, csv_text, frame_of
from nandlab.api.interrupted import Interrupted
from nandlab.byte_sizes import natural_number
from nandlab.errors import NandlabError

if TYPE_CHECKING:
    import polars

    from nandlab.mqsim_files.flows import Scenario


class Mqsim(Answer):
    """What became of each flow, under the names of MQSim's result file."""

    @property
    def flows(self) -> "polars.DataFrame":
        """By scenario and flow: counts, IOPS, bytes, bandwidth, and times in microseconds."""
        return self.frame

    @property
    def latencies(self) -> "polars.DataFrame":
        """By scenario, flow and operation: mean, shortest, percentiles and longest, us."""
        return frame_of(latency_rows(self.answer))

    @property
    def unlike(self) -> "polars.DataFrame":
        """Keys of the files that are approximated or ignored: `key`, `value`, `fate`, `reason`."""
        return frame_of(self.answer["unlike"])


def latency_rows(answer: Any) -> list[dict[str, Any]]:
    """Latencies of all scenarios, a row for each flow and operation."""
    return [
        {"scenario": scenario["scenario"], "flow": flow["Name"], **row}
        for scenario in answer["scenarios"]
        for flow in scenario["flows"]
        for row in flow["latencies"]
    ]


def mqsim(
    ssdconfig: str | Path,
    workload: str | Path,
    *,
    scenario: int | None = None,
) -> Mqsim:
    """Run the flows of MQSim's own files on nandlab's devices.

    Each scenario runs on a fresh device. `docs/mqsim.md` says what becomes of each key; the answer
    names the keys of these files that are approximated or ignored.

    Raises `NandlabError` for bad input, before anything runs, and `Interrupted` after Ctrl-C, with
    the scenarios that were finished.

    Args:
        ssdconfig: Configuration of the device, such as MQSim's ssdconfig.xml.
        workload: Definition of the workload, such as MQSim's workload.xml.
        scenario: Run only this scenario, counted from 1. Without it: all.

    """
    from nandlab.mqsim_files.runs import StoppedError, read_files, run_scenario, unlike
    from nandlab.terminal.progress import progress_bar

    file, scenarios = read_files(ssdconfig, workload)
    if scenario is not None:
        natural_number("--scenario", scenario, least=1, bits=32)
        if scenario > len(scenarios):
            raise NandlabError(
                f"--scenario: {workload} has {len(scenarios)}, so {scenario} is none of them"
            )
        scenarios = [scenarios[scenario - 1]]
    answer: dict[str, Any] = {
        "ssdconfig": str(ssdconfig),
        "workload": str(workload),
        "unlike": unlike(file, scenarios),
        "scenarios": [],
    }
    with progress_bar(str(workload)) as progress:
        for one in scenarios:
            try:
                found = run_scenario(one, Path(workload), progress)
            except StoppedError:
                raise Interrupted(
                    f"{workload}: interrupted; {len(answer['scenarios'])} of {len(scenarios)} "
                    "scenarios were finished",
                    _made(answer),
                ) from None
            answer["scenarios"].append({**_asked(one), **found})
    return _made(answer)


def _asked(scenario: "Scenario") -> dict[str, Any]:
    """What a scenario runs on."""
    settings = {key: one for key, one in scenario.settings.items() if key != "flash.part"}
    return {
        "scenario": scenario.number,
        "flows_asked": [
            {key: one.value for key, one in flow.given.items()} for flow in scenario.flows
        ],
        "runs_as": "replay" if scenario.is_trace else "jobs",
        "dies": scenario.shape.channels * scenario.shape.dies_per_channel,
        "page_bytes": scenario.shape.page_bytes,
        "pages_per_block": scenario.shape.pages_per_block,
        "filled_first": scenario.preconditioned,
        "starts_empty": scenario.is_empty,
        "settings": settings,
        "part": scenario.part,
        "seed": scenario.seed,
    }


def _made(answer: dict[str, Any]) -> Mqsim:
    rows = [
        {"scenario": scenario["scenario"], **{k: v for k, v in flow.items() if k != "latencies"}}
        for scenario in answer["scenarios"]
        for flow in scenario["flows"]
    ]
    columns = tuple(rows[0]) if rows else ("scenario",)
    return Mqsim(answer, rows, csv_text(columns, rows))
