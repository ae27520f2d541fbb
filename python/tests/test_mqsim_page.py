"""scripts/mqsim_page.py with a program that only pretends, and with MQSim if MQSIM names it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mqsim_inputs import DEVICE_KEYS, FLASH_KEYS, HOST_KEYS, SYNTHETIC_KEYS, Keys, xml

from nandlab.mqsim_files.key import DEVICE, FLASH, HOST, SYNTHETIC, TRACE

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "mqsim_page.py"
sys.path.insert(0, str(SCRIPT.parent))

import mqsim_page  # noqa: E402
import mqsim_page_text  # noqa: E402
import mqsim_shipped as shipped  # noqa: E402
from compare_mqsim_sides import ComparisonError  # noqa: E402
from mqsim_experiments import EXPERIMENTS, run_experiments  # noqa: E402

# Tags, attributes and forms of numbers as MQSim writes them; what it counts is made up.
PRETENDS = """#!{python}
import sys
from pathlib import Path
import xml.etree.ElementTree as ElementTree
device = Path(sys.argv[sys.argv.index("-i") + 1])
flow = Path(sys.argv[sys.argv.index("-w") + 1])
assert ElementTree.parse(device).find(".//Enable_ResponseTime_Logging").text == "true"
{extra}
rows = ""
for number, one in enumerate(ElementTree.parse(flow).findall(".//Total_Requests_To_Generate")):
    asked = int(one.text)
    answered = asked - {loses}
    written = answered * 4096
    rows += "<Host.IO_Flow><Name>Host.IO_Flow.Synth.No_%d</Name>" \\
        "<Request_Count>%d</Request_Count><IOPS>inf</IOPS>" \\
        "<Bytes_Transferred>%d.000000</Bytes_Transferred>" \\
        "<Bytes_Transferred_Write>%d.000000</Bytes_Transferred_Write>" \\
        "<Device_Response_Time>437</Device_Response_Time></Host.IO_Flow>" % (
            number, asked, written, written)
    print("Flow No_%d - total requests generated: %d total requests serviced:%d\\r" % (
        number, asked, answered))
    log = flow.parent / ("%s.IO_Flow.No_%d.log" % (flow.stem, number))
    log.write_text("SimulationTime(us)\\tReponseTime(us)\\n1000\\t7\\n2000000\\t8\\n")
counts = 'Issued_Flash_Read_CMD="700" Issued_Flash_Multiplane_Read_CMD="20" ' \\
    'Issued_Flash_Program_CMD="3000" Issued_Flash_Multiplane_Program_CMD="10" ' \\
    'Issued_Flash_Copyback_Program_CMD="5" Issued_Flash_Erase_CMD="40" ' \\
    'Issued_Flash_Suspend_Program_CMD="3" Issued_Flash_Read_CMD_For_Mapping="9"'
(flow.parent / (flow.stem + "_scenario_1.xml")).write_text(
    "<MQSim_Results><Host>" + rows + "</Host><SSDDevice><SSDDevice.FTL " + counts
    + " /></SSDDevice></MQSim_Results>")
"""

WRITES: Keys = {
    **SYNTHETIC_KEYS,
    "Read_Percentage": 0,
    "Address_Alignment_Unit": 16,
    "Total_Requests_To_Generate": 1_000,
}


def scenario(*flows: tuple[str, Keys]) -> str:
    body = "".join(xml({kind: keys}) for kind, keys in flows)
    return f"<IO_Scenario>{body}</IO_Scenario>"


def checkout(folder: Path, *scenarios: str, loses: int = 0, extra: str = "") -> Path:
    """A folder with files in MQSim's format, and a program that answers all but so many."""
    program = folder / "MQSim"
    words = {"python": sys.executable, "loses": loses, "extra": extra}
    program.write_text(PRETENDS.format(**words), encoding="ascii")
    program.chmod(0o755)
    in_device = {**DEVICE_KEYS, FLASH: {**FLASH_KEYS, "Page_Capacity": 8_192}}
    sections = xml({"Execution_Parameter_Set": {HOST: HOST_KEYS, DEVICE: in_device}})
    (folder / "ssdconfig.xml").write_text(sections, encoding="ascii")
    text = f"<MQSim_IO_Scenarios>{''.join(scenarios)}</MQSim_IO_Scenarios>"
    (folder / "workload.xml").write_text(text, encoding="ascii")
    return folder


def ran(*words: str, mqsim: Path | str | None = None) -> subprocess.CompletedProcess[str]:
    """The script, with `MQSIM` set or not."""
    environment = {key: value for key, value in os.environ.items() if key != "MQSIM"}
    if mqsim is not None:
        environment["MQSIM"] = str(mqsim)
    return subprocess.run(
        [sys.executable, str(SCRIPT), *words],
        env=environment,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


def told(page: str) -> str:
    """The page on one line: sentences go over ends of lines."""
    return " ".join(page.split())


def page_of(folder: Path | str, *words: str) -> str:
    nandlab = str(Path(sys.executable).with_name("nandlab"))
    options = ("--only", "ssdconfig", "--runs", "1", "--nandlab", nandlab)
    done = ran("run", *options, *words, mqsim=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def tables(page: str, first: str) -> list[list[list[str]]]:
    """Rows of the tables whose first columns are so called; cells by columns."""
    found = []
    lines = page.splitlines()
    for index, line in enumerate(lines):
        if line.startswith(f"| {first} |"):
            rows = []
            for row in lines[index + 2 :]:
                if not row.startswith("|"):
                    break
                rows.append([cell.strip() for cell in row.strip("|").split("|")])
            found.append(rows)
    return found


FLOWS = " | ".join(mqsim_page_text.FLOW_COLUMNS[:3])
DEVICES = " | ".join(mqsim_page_text.DEVICE_COLUMNS[:2])


@pytest.mark.parametrize(
    ("mqsim", "says"),
    [
        (None, "set MQSIM to a checkout of MQSim with its program; nothing is fetched or built"),
        ("/no/such/folder", "/no/such/folder has no program MQSim that can be run"),
    ],
)
def test_without_mqsim_one_line_says_so(mqsim: str | None, says: str) -> None:
    done = ran("run", mqsim=mqsim)
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert says in done.stderr


def test_a_checkout_without_files_and_bad_options_are_refused(tmp_path: Path) -> None:
    folder = checkout(tmp_path, scenario((SYNTHETIC, WRITES)))
    for words, says in (
        (("--only", "no-such-name"), "with a workload*.xml beside it"),
        (("--runs", "0"), "must be at least 1"),
        (("--stop-s", "0"), "--stop-s above 0"),
    ):
        done = ran("run", "--nandlab", "nandlab", *words, mqsim=folder)
        assert (done.returncode, done.stdout) == (2, "")
        assert len(done.stderr.splitlines()) == 1
        assert says in done.stderr


@pytest.mark.parametrize("loses", [0, 15])
def test_the_page_has_the_figures_of_both(tmp_path: Path, loses: int) -> None:
    page = page_of(checkout(tmp_path, scenario((SYNTHETIC, WRITES)), loses=loses))
    ((row,),) = tables(page, FLOWS)
    cells = dict(zip(mqsim_page_text.FLOW_COLUMNS[:-1], row, strict=False))
    assert cells["asked"] == "1,000 / 1,000"
    assert cells["answered"] == f"{1000 - loses:,} / 1,000"
    assert cells["lost"] == f"{loses} / 0"
    # Two simulated seconds, by the last line of the log.
    assert cells["IOPS"].split(" / ")[0] == f"{(1000 - loses) / 2:,.0f}"
    assert cells["MB/s"].split(" / ")[0] == f"{(1000 - loses) / 2 * 4096 / 1e6:,.1f}"
    assert cells["mean response, us"].split(" / ")[0] == "437"
    own = float(cells["IOPS"].split(" / ")[1].replace(",", ""))
    assert float(row[6]) == pytest.approx(own / ((1000 - loses) / 2), rel=0.01)
    ((row,),) = tables(page, DEVICES)
    # Commands to two planes are two programs; neither suspensions nor shares are counted.
    planes = FLASH_KEYS["Plane_No_Per_Die"]
    assert row[1].split(" / ")[0] == str(700 + 20 * planes)
    assert row[2] == f"{3005 + 10 * planes:,} / 1,000"
    assert row[3] == "40 / 0"
    # Each write of half a page programs a whole one.
    theirs = (3005 + 10 * planes) * 8_192 / ((1000 - loses) * 4_096)
    assert row[4] == f"{theirs:.2f} / 2.00"
    assert f"- Requests lost: {loses} by MQSim, 0 by nandlab." in page


def test_planes_of_a_command_are_counted(tmp_path: Path) -> None:
    result, log = tmp_path / "flow_scenario_1.xml", tmp_path / "flow.IO_Flow.No_0.log"
    result.write_text(
        "<MQSim_Results><Host><Host.IO_Flow><Bytes_Transferred>8192.0</Bytes_Transferred>"
        "</Host.IO_Flow></Host><SSDDevice><SSDDevice.FTL Issued_Flash_Read_CMD='1' "
        "Issued_Flash_Multiplane_Read_CMD='10' Issued_Flash_Multiplane_Copyback_Program_CMD='2' "
        "Issued_Flash_Multiplane_Erase_CMD='4' /></SSDDevice></MQSim_Results>"
    )
    log.write_text("head\n3000000\t8\n")
    printed = "total requests generated: 3 total requests serviced:2"
    run = shipped.read_mqsim(result, printed, [log], 3, 1.5)
    flow = shipped.Flow(asked=3, answered=2, seconds=3.0, transferred_bytes=8192, mean_us=0.0)
    assert run == shipped.Run([flow], 31, 6, 12, 0, 1.5)
    with pytest.raises(ComparisonError, match="do not fit together"):
        shipped.read_mqsim(result, "", [log], 3, 1.5)


def test_medians_and_ranges_are_of_the_runs() -> None:
    def run(answered: int, processor_s: float) -> Any:
        flow = shipped.Flow(2_000, answered, 1.0, answered * 4_096, 10.0)
        return shipped.as_record(shipped.Run([flow], None, 0, 0, 0, processor_s))

    row = {
        "number": 4,
        "doubles": [5],
        "mqsim": [run(1_000, 1.0), run(1_100, 2.0), run(1_900, 4.0)],
        "nandlab": [run(2_000, 1.0), run(1_100, 1.0), run(950, 1.0)],
    }
    (line,) = mqsim_page_text.flow_rows(row)
    assert "| 4 (and 5: the same) | 1 | 2,000 / 2,000 | 1,100 / 1,100 | 900 / 900 |" in line
    # 2, 1 and a half, run by run.
    assert "| 1,100 / 1,100 | 1.00 (0.50 to 2.00) |" in line
    assert mqsim_page_text.device_row(row) == (
        "| 4 (and 5: the same) | - / - | 0 / 0 | 0 / 0 | - / - | - | 2.00 / 1.00 "
        "| 0.50 (0.25 to 1.00) |"
    )
    assert line != mqsim_page_text.flow_rows({**row, "nandlab": row["mqsim"]})[0]


def test_a_run_that_fails_is_on_the_page_and_ends_the_file(tmp_path: Path) -> None:
    other = {**WRITES, "Total_Requests_To_Generate": 500}
    extra = 'print("ERROR:A page was locked twice!")\nsys.exit(1)'
    page = page_of(
        checkout(tmp_path, scenario((SYNTHETIC, WRITES)), scenario((SYNTHETIC, other)), extra=extra)
    )
    why = "scenario 1: MQSim ended with status 1 after 0 s of processor time: a check of its own"
    assert why in told(page)
    # Its own words stay out of the page.
    assert "locked twice" not in page
    # The other scenario is not run.
    ((row,),) = tables(page, FLOWS)
    assert row[:3] == ["1", "1", "- / 1,000"]
    assert "No scenario ran in both." in page


def test_a_run_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    folder = checkout(tmp_path, scenario((SYNTHETIC, WRITES)), extra="while True: pass")
    page = page_of(folder, "--limit-s", "1")
    assert "MQSim had not ended after 1 s of processor time" in told(page)


def test_files_that_are_no_xml_and_traces_that_are_not_there_are_named(tmp_path: Path) -> None:
    trace = {**WRITES, "File_Path": "traces/other.trace"}
    folder = checkout(tmp_path, scenario((TRACE, trace)))
    (folder / "workload-broken.xml").write_text("<<<<<<< HEAD\n", encoding="ascii")
    page = told(page_of(folder))
    assert "scenario 1 is left out: the checkout has no `traces/other.trace`." in page
    assert "workload-broken.xml` is no XML: MQSim ended with status 1" in page
    assert "an exception ended it; nandlab: flow.xml: line 1: not well-formed" in page


def test_doubles_run_once_and_seeds_and_times_change_in_copies(tmp_path: Path) -> None:
    timed = {**WRITES, "Stop_Time": 5 * 10**9}
    folder = checkout(tmp_path, *[scenario((SYNTHETIC, timed))] * 3)
    (pair,) = shipped.pairs(folder)
    ((number, element, doubles),) = shipped.scenarios_of(pair)
    assert (number, doubles, shipped.stop_seconds(element)) == (1, [2, 3], 5.0)
    before = pair.workload.read_bytes(), pair.device.read_bytes()
    (tmp_path / "out").mkdir()
    copies = shipped.write_copies(
        pair, folder, 1, tmp_path / "out", seed_step=2_000, stop_s=0.5,
        changes={"Channel_Transfer_Rate": "1000"},
    )  # fmt: skip
    device, workload = (path.read_text("ascii") for path in copies)
    assert workload.count("<IO_Scenario>") == 1
    assert "<Stop_Time>500000000</Stop_Time>" in workload
    assert "<Seed>2005</Seed>" in workload
    assert "<Seed>2001</Seed>" in device
    assert "<Channel_Transfer_Rate>1000</Channel_Transfer_Rate>" in device
    assert (pair.workload.read_bytes(), pair.device.read_bytes()) == before
    with pytest.raises(ComparisonError, match="has no Chanel to change"):
        shipped.write_copies(pair, folder, 1, tmp_path / "out", changes={"Chanel": "1"})


def test_experiments_without_their_files_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert run_experiments(tmp_path / "empty", tmp_path / "MQSim", "nandlab", 1) == []
    labels = [(one.group, one.label) for one in EXPERIMENTS]
    assert len(set(labels)) == len(labels)


RECORD = json.loads(mqsim_page.RECORD.read_text(encoding="utf-8"))


def test_the_committed_page_was_made_of_the_record() -> None:
    committed = mqsim_page.PAGE.read_text(encoding="utf-8")
    assert committed == mqsim_page_text.page(RECORD)
    headings = [line for line in committed.splitlines() if line.startswith("## ")]
    assert headings == [
        "## In short",
        "## Figures",
        "## What did not run",
        "## One condition at a time",
        "## Why they differ",
        "## What this comparison mended",
    ]
    for columns in (
        mqsim_page_text.FLOW_COLUMNS,
        mqsim_page_text.DEVICE_COLUMNS,
        mqsim_page_text.EXPERIMENT_COLUMNS,
    ):
        assert f"| {' | '.join(columns)} |" in committed
    ran_files = [one["name"] for one in RECORD["files"] if one["is_xml"]]
    assert len(ran_files) > 5
    assert all(name in told(committed) for name in ran_files)
    assert "| runs | 3 of each scenario" in committed


def test_nandlab_loses_no_request_in_the_record() -> None:
    runs = [
        shipped.of_record(run)
        for file in RECORD["files"]
        for row in file["scenarios"]
        for run in row["nandlab"]
        if not isinstance(run, str)
    ]
    assert len(runs) > 100
    assert all(flow.asked == flow.answered > 0 for run in runs for flow in run.flows)


@pytest.mark.skipif("MQSIM" not in os.environ, reason="MQSIM names no checkout of MQSim")
def test_mqsim_itself() -> None:
    page = page_of(
        os.environ["MQSIM"], "--only", "backend-contention-flow-2", "--stop-s", "0.1"
    )  # fmt: skip
    (rows,) = tables(page, FLOWS)
    assert len(rows) == 8
    # One request at a time: the page, half of it on the channel, and the messages of NVMe.
    assert float(rows[0][6]) == pytest.approx(1, abs=0.05)
    assert all(row[4] == "0 / 0" for row in rows)
