"""scripts/compare-mqsim.sh with programs that only pretend, and with MQSim if MQSIM names it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
sys.path.insert(0, str(SCRIPTS))

import compare_mqsim  # noqa: E402
import compare_mqsim_sides as sides  # noqa: E402

# Tags, attributes and forms of numbers as MQSim writes them; what it counts is made up.
RESULT = """<?xml version="1.0" encoding="us-ascii"?>
<MQSim_Results>
\t<Host>
\t\t<Host.IO_Flow>
\t\t\t\t <Name>Host.IO_Flow.Synth.No_0</Name>
\t\t\t\t <Request_Count>{asked}</Request_Count>
\t\t\t\t <IOPS>inf</IOPS>
\t\t\t\t <Bytes_Transferred>{bytes}.000000</Bytes_Transferred>
\t\t\t\t <Bytes_Transferred_Read>0.000000</Bytes_Transferred_Read>
\t\t\t\t <Bytes_Transferred_Write>{bytes}.000000</Bytes_Transferred_Write>
\t\t</Host.IO_Flow>
\t</Host>
\t<SSDDevice>
\t\t<SSDDevice.HostInterface>
\t\t\t\t <Name>SSDDevice.HostInterface</Name>
\t\t</SSDDevice.HostInterface>
\t\t<SSDDevice.FTL Issued_Flash_Read_CMD="700" Issued_Flash_Multiplane_Read_CMD="20" \
Issued_Flash_Program_CMD="{programs}" Issued_Flash_Copyback_Program_CMD="5" \
Issued_Flash_Erase_CMD="40" Issued_Flash_Suspend_Program_CMD="3" \
Issued_Flash_Suspend_Erase_CMD="2" Issued_Flash_Read_CMD_For_Mapping="9" \
Average_Page_Movement_For_GC="-nan" />
\t</SSDDevice>
</MQSim_Results>
"""

LOG = "SimulationTime(us)\tReponseTime(us)\tEndToEndDelay(us)\n1000\t7\t7\n2000000\t8\t8\n"

PRETENDS = """#!{python}
import sys
from pathlib import Path
import xml.etree.ElementTree as ElementTree
flow = Path(sys.argv[sys.argv.index("-w") + 1])
ElementTree.parse(sys.argv[sys.argv.index("-i") + 1])
asked = int(ElementTree.parse(flow).find(".//Total_Requests_To_Generate").text)
print("[==>  ]  10% progress in Host.IO_Flow.Synth.No_0")
if {status}:
    print("ERROR:A page was locked twice!")
    sys.exit({status})
result = {result!r}
fields = {{"asked": asked, "bytes": (asked - {loses}) * 4096, "programs": asked * 3}}
(flow.parent / "flow_scenario_1.xml").write_text(result.format(**fields))
(flow.parent / "flow.IO_Flow.No_0.log").write_text({log!r})
"""


def pretending(folder: Path, loses: int = 0, status: int = 0) -> Path:
    """A program that answers all requests but so many, or ends with a status."""
    program = folder / "MQSim"
    words = {"python": sys.executable, "result": RESULT, "log": LOG}
    program.write_text(PRETENDS.format(loses=loses, status=status, **words))
    program.chmod(0o755)
    return program


def compared(*words: str, mqsim: str | None = None) -> subprocess.CompletedProcess[str]:
    """The script, with `MQSIM` set or not."""
    environment = {key: value for key, value in os.environ.items() if key != "MQSIM"}
    if mqsim is not None:
        environment["MQSIM"] = mqsim
    return subprocess.run(
        ["sh", str(SCRIPTS / "compare-mqsim.sh"), *words],
        env=environment,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


def table(printed: str) -> dict[str, dict[str, list[str]]]:
    """Workload to quantity to the cells after it."""
    found: dict[str, dict[str, list[str]]] = {}
    lines = printed.splitlines()
    assert lines[0] == "| workload | quantity | MQSim | nandlab | nandlab/MQSim |"
    for line in lines[2:]:
        workload, quantity, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        if workload:
            rows = found.setdefault(workload, {})
        rows[quantity] = cells
    return found


def run_small(program: Path | str, *words: str) -> dict[str, dict[str, list[str]]]:
    nandlab = str(Path(sys.executable).with_name("nandlab"))
    options = ("--requests", "2000", "--seeds", "1", "--nandlab", nandlab)
    done = compared(*options, *words, mqsim=str(program))
    assert done.returncode == 0, done.stderr
    return table(done.stdout)


@pytest.mark.parametrize(
    ("words", "mqsim", "says"),
    [
        ((), None, "set MQSIM to the path"),
        (("no/such/program",), None, "no/such/program is no program that can be run"),
        ((), "/", "/ is no program that can be run"),
    ],
)
def test_without_the_binary_one_line_says_so(
    words: tuple[str, ...], mqsim: str | None, says: str
) -> None:
    done = compared(*words, mqsim=mqsim)
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert says in done.stderr


@pytest.mark.parametrize("option", [("--requests", "63"), ("--seeds", "0")])
def test_options_that_measure_nothing_are_refused(tmp_path: Path, option: tuple[str, str]) -> None:
    done = compared(str(pretending(tmp_path)), *option)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "--requests must be at least 64, --seeds at least 1" in done.stderr


def test_a_result_file_is_read(tmp_path: Path) -> None:
    result, log = tmp_path / "result.xml", tmp_path / "log"
    result.write_text(RESULT.format(asked=1000, bytes=985 * 4096, programs=3000))
    log.write_text(LOG)
    read = sides.read_mqsim(result, log, 1000)
    # Commands of all kinds count, suspensions and the share for the map do not.
    expected = sides.Outcome(1000, 985, 985, 2.0, reads=720, programs=3005, erases=40)
    assert read == expected
    result.write_text("<MQSim_Results></MQSim_Results>")
    with pytest.raises(sides.ComparisonError, match=r"no Host\.IO_Flow"):
        sides.read_mqsim(result, log, 1000)


@pytest.mark.parametrize("loses", [0, 15])
def test_lost_requests_are_shown(tmp_path: Path, loses: int) -> None:
    found = run_small(pretending(tmp_path, loses), "--workload", "random-writes")
    rows = found["random writes, steady cleaning"]
    assert rows["runs that ended"] == ["1 of 1", "1 of 1", ""]
    assert rows["requests asked"][:2] == ["2,000", "2,000"]
    assert rows["requests answered"][:2] == [f"{2000 - loses:,}", "2,000"]
    assert rows["requests lost"][:2] == [str(loses), "0"]
    # Two simulated seconds, by the last line of the log.
    assert rows["simulated IOPS"][0] == f"{(2000 - loses) / 2:,.0f}"
    assert rows["flash programs"][0] == "6,005"
    assert rows["write amplification"][0] == f"{6005 / (2000 - loses):.3f}"
    # nandlab's own: each write is a program, and cleaning copies more.
    assert float(rows["write amplification"][1]) > 1.5


def test_a_run_that_fails_is_shown_with_its_reason(tmp_path: Path) -> None:
    found = run_small(pretending(tmp_path, status=1), "--workload", "random-reads")
    rows = found["random reads"]
    reason = "ended with status 1 after 10 %: ERROR:A page was locked twice!"
    assert rows["runs that ended"] == [f"0 of 1; {reason}", "1 of 1", ""]
    assert rows["requests answered"] == ["-", "2,000", "-"]
    assert rows["flash reads"] == ["-", "2,000", "-"]


def test_a_seed_that_fails_is_left_out_of_both_columns() -> None:
    def outcome(programs: int) -> sides.Outcome:
        return sides.Outcome(100, 100, 100, 1.0, 0, programs, 0)

    failed = sides.ComparisonError("ended early")
    theirs = [outcome(200), failed, outcome(400)]
    lines = compare_mqsim.rows(
        sides.WORKLOADS[0], theirs, [outcome(100), outcome(9_999), outcome(400)]
    )
    assert "2 of 3; ended early" in lines[0]
    programs = next(line for line in lines if "flash programs" in line)
    assert programs == (
        "| | flash programs | 300 (200 to 400) | 250 (100 to 400) | 0.75 (0.5 to 1) |"
    )


def test_a_rate_within_the_noise_of_the_setup_is_not_shown() -> None:
    def rate(processor_s: float) -> float | None:
        counted = sides.Outcome(1100, 1100, 0, 1.0, 1100, 0, 0, processor_s, 2.0, 100, 100)
        return counted.requests_per_processor_s

    assert rate(4.0) == pytest.approx(500)
    assert rate(2.1) is None


@pytest.mark.skipif("MQSIM" not in os.environ, reason="MQSIM names no binary of MQSim")
def test_mqsim_itself() -> None:
    words = ("--workload", "sequential-writes", "--workload", "random-writes")
    found = run_small(os.environ["MQSIM"], *words)
    sequential = found["sequential writes, no cleaning"]
    assert sequential["requests answered"][:2] == ["2,000", "2,000"]
    assert sequential["flash programs"][:2] == ["2,000", "2,000"]
    # Without cleaning the two models differ by the commands on the bus alone, and by the last
    # millisecond of a run of fifty.
    assert float(sequential["simulated IOPS"][2]) == pytest.approx(1, abs=0.05)
    random = found["random writes, steady cleaning"]
    assert float(random["write amplification"][2]) == pytest.approx(1, abs=0.4)
