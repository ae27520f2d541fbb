"""`nandlab mqsim` reads MQSim's own files, runs them, and says what it makes of every key.

With MQSIM=FOLDER the files that MQSim ships in that folder run, too.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mqsim_inputs import DEVICE_KEYS, FLASH_KEYS, HOST_KEYS, SYNTHETIC_KEYS, Files, Keys

import nandlab
from nandlab.cli import main
from nandlab.errors import NandlabError
from nandlab.mqsim_files.flows import scenario_of, study_text
from nandlab.mqsim_files.key import DEVICE, FLASH, FLOWS, HOST, SYNTHETIC, TRACE, Fate, Key, Kind
from nandlab.mqsim_files.keys import KEYS, keys_of, table_lines
from nandlab.mqsim_files.sections import read_device_file, read_workload_file
from nandlab.mqsim_files.xml_files import read_xml


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


# --- runs -------------------------------------------------------------------------------------


def test_a_read_alone_takes_the_time_of_the_page_and_of_both_buses(files: Files) -> None:
    files.flow(Average_No_of_Reqs_in_Queue=1, Total_Requests_To_Generate=300)
    (flow,) = files.run().rows
    # 50,000 ns for the page, 4,096 bytes at 3 ns on the channel and at 4 GB/s to the host.
    least_us = (50_000 + 4_096 * 3 + 4_096 / 4) / 1_000
    # The part's time a byte is in whole picoseconds, of 4,224 bytes.
    assert flow["Min_Device_Response_Time"] == pytest.approx(least_us, abs=0.004)
    assert flow["Max_Device_Response_Time"] == pytest.approx(least_us, abs=0.004)
    assert flow["Request_Count"] == flow["Read_Request_Count"] == 300
    assert flow["Bytes_Transferred"] == 300 * 4_096
    assert flow["IOPS"] == pytest.approx(1e6 / flow["Device_Response_Time"], rel=0.01)
    assert flow["Bandwidth"] == pytest.approx(flow["IOPS"] * 4_096)
    assert flow["End_to_End_Request_Delay"] == flow["Device_Response_Time"]


def test_percentiles_stand_between_the_shortest_and_the_longest(files: Files) -> None:
    files.flow(Read_Percentage=50, Average_No_of_Reqs_in_Queue=16)
    found = files.run()
    rows = found.latencies.to_dicts()
    assert [row["operation"] for row in rows] == ["read", "write"]
    assert sum(row["requests"] for row in rows) == 2_000
    for row in rows:
        names = ("min_us", "p50_us", "p90_us", "p99_us", "p999_us", "p9999_us", "max_us")
        values = [row[name] for name in names]
        assert values == sorted(values)
        assert row["min_us"] < row["p50_us"] < row["max_us"]
    assert found.answer["scenarios"][0]["device"]["page_programs"] >= rows[1]["requests"]


def test_the_same_files_give_the_same_answer_and_another_seed_another(files: Files) -> None:
    first = files.run().answer["scenarios"]
    assert files.run().answer["scenarios"] == first
    files.flow(Seed=6)
    assert files.run().answer["scenarios"][0]["flows"] != first[0]["flows"]


def test_flows_share_a_device_and_are_told_apart(files: Files) -> None:
    alone = files.run().rows[0]
    files.write(flows=[(SYNTHETIC, {}), (SYNTHETIC, {"Read_Percentage": 0})])
    first, second = files.run().rows
    assert (first["Read_Request_Count"], first["Write_Request_Count"]) == (2_000, 0)
    assert (second["Read_Request_Count"], second["Write_Request_Count"]) == (0, 2_000)
    assert first["Device_Response_Time"] > 1.5 * alone["Device_Response_Time"]


def test_each_scenario_runs_on_a_fresh_device(files: Files) -> None:
    alone = files.flow(Read_Percentage=0).run().answer["scenarios"][0]
    flows = [(SYNTHETIC, {"Read_Percentage": 0})]
    files.write(scenarios=[flows, flows])
    first, second = files.run().answer["scenarios"]
    assert first == alone
    assert {**second, "scenario": 1} == alone
    (only,) = files.run(scenario=2).answer["scenarios"]
    assert only == second


def test_a_stop_time_ends_a_flow(files: Files) -> None:
    files.flow(Stop_Time=10_000_000, Total_Requests_To_Generate=3)
    scenario = files.run().answer["scenarios"][0]
    assert 10_000_000 <= scenario["flows"][0]["elapsed_ns"] < 11_000_000
    assert scenario["flows"][0]["Request_Count"] > 100


def test_a_bandwidth_paces_a_flow(files: Files) -> None:
    files.flow(Synthetic_Generator_Type="BANDWIDTH", Bandwidth=4_096_000)
    (flow,) = files.run().rows
    assert flow["IOPS"] == pytest.approx(1_000, rel=0.01)


def _writes(files: Files, precondition: str, **keys: Any) -> Any:
    flow = {"Read_Percentage": 0, "Total_Requests_To_Generate": 400, **keys}
    device = {"Enabled_Preconditioning": precondition}
    files.write(device=device, flows=[(SYNTHETIC, flow)])
    return files.run()


def test_writes_wait_for_cleaning_only_on_a_device_that_was_full(files: Files) -> None:
    longest = {
        state: _writes(files, state).rows[0]["Max_Device_Response_Time"]
        for state in ("false", "true")
    }
    # An erase takes 2 ms.
    assert longest["false"] < 2_000 < longest["true"]


def test_more_writes_than_an_empty_device_takes_clean_or_are_told(files: Files) -> None:
    # 4 dies of 61 blocks of 32 pages until cleaning begins: 7,808.
    longest = _writes(files, "false", Total_Requests_To_Generate=7_900)
    assert longest.rows[0]["Max_Device_Response_Time"] > 2_000
    assert not longest.answer["scenarios"][0]["notes"]
    # With reads all pages are there from the begin, so that a time may hold too many writes.
    keys = {"Stop_Time": 2_000_000_000, "Read_Percentage": 5}
    told = _writes(files, "false", **keys).answer["scenarios"][0]
    assert told["flows"][0]["Write_Request_Count"] > 7_808
    assert any("empty device cleans after 7,808" in note for note in told["notes"])


def test_a_flow_has_so_many_commands_in_the_device_and_the_rest_wait(files: Files) -> None:
    def rows(*depths: int, fetched: int) -> Any:
        flows = [(SYNTHETIC, {"Average_No_of_Reqs_in_Queue": depth}) for depth in depths]
        files.write(device={"Queue_Fetch_Size": fetched}, flows=flows)
        return files.run().rows

    few, many = rows(4, 64, fetched=4)
    assert many["IOPS"] == pytest.approx(few["IOPS"], rel=0.1)
    # As many requests are under way as the response takes times their rate, but for the begin.
    under_way = many["IOPS"] * many["Device_Response_Time"] / 1e6
    assert under_way == pytest.approx(64, rel=0.05)
    assert few["IOPS"] * few["Device_Response_Time"] / 1e6 == pytest.approx(4, rel=0.05)
    (alone,) = rows(64, fetched=4)
    assert alone["Min_Device_Response_Time"] == pytest.approx(63.3, abs=0.1)
    assert alone["Device_Response_Time"] == pytest.approx(64e6 / alone["IOPS"], rel=0.05)


# --- what a chip, a page and a cache of MQSim are ----------------------------------------------


def test_dies_and_planes_of_a_chip_take_turns(files: Files) -> None:
    def rate(**flash: Any) -> float:
        flow = {"Average_No_of_Reqs_in_Queue": 64, "Die_IDs": "0,1", "Plane_IDs": "0,1"}
        if flash["Die_No_Per_Chip"] == 1:
            flow |= {"Die_IDs": "0", "Plane_IDs": "0"}
        files.write(flash=flash, flows=[(SYNTHETIC, flow)])
        found: float = files.run().rows[0]["IOPS"]
        return found

    one = rate(Die_No_Per_Chip=1, Plane_No_Per_Die=1, Block_No_Per_Plane=256)
    four = rate(Die_No_Per_Chip=2, Plane_No_Per_Die=2, Block_No_Per_Plane=64)
    assert four == pytest.approx(one, rel=0.01)


@pytest.mark.parametrize(
    ("keys", "moved"),
    [
        ({"Address_Alignment_Unit": 16}, 4_096),
        ({"Address_Alignment_Unit": 8}, 8_192),
        ({"Address_Alignment_Unit": 16, "Generated_Aligned_Addresses": "false"}, 8_192),
        ({"Address_Alignment_Unit": 16, "Average_Request_Size": 12}, 8_192),
        ({"Address_Alignment_Unit": 16, "Average_Request_Size": 16}, 8_192),
    ],
)
def test_what_no_request_asks_for_is_not_moved(files: Files, keys: Keys, moved: int) -> None:
    flow = {"Average_No_of_Reqs_in_Queue": 1, "Total_Requests_To_Generate": 100, **keys}
    files.write(flash={"Page_Capacity": 8_192}, flows=[(SYNTHETIC, flow)])
    (row,) = files.run().rows
    sectors = keys.get("Average_Request_Size", 8)
    least_us = (50_000 + moved * 3 + sectors * 512 / 4) / 1_000
    # A request of six kilobytes may lie on two pages.
    assert row["Min_Device_Response_Time"] == pytest.approx(least_us, abs=2)


def test_writes_of_the_begins_of_pages_read_nothing_first(files: Files) -> None:
    flow = {"Read_Percentage": 0, "Average_No_of_Reqs_in_Queue": 1, "Address_Alignment_Unit": 16}
    files.write(flash={"Page_Capacity": 8_192}, flows=[(SYNTHETIC, flow)])
    (row,) = files.run().rows
    # 300,000 ns of the program, and half a page on the channel.
    assert row["Max_Device_Response_Time"] == pytest.approx(300 + 12.3 + 1.0, abs=0.1)


def test_a_device_that_is_not_preconditioned_is_empty_for_writes(files: Files) -> None:
    device = _writes(files, "false").answer["scenarios"][0]["device"]
    assert (device["page_programs"], device["cleaned_blocks"]) == (400, 0)
    device = _writes(files, "true").answer["scenarios"][0]["device"]
    assert device["page_programs"] > 400


def _settings(files: Files, **sections: Any) -> Any:
    files.write(**sections)
    (flows,) = read_workload_file(files.workload)
    return scenario_of(1, read_device_file(files.device), flows).settings


def test_the_cache_holds_a_page_of_each_plane_at_most(files: Files) -> None:
    flash = {"Die_No_Per_Chip": 2, "Plane_No_Per_Die": 2}
    cached = [(SYNTHETIC, {"Device_Level_Data_Caching_Mode": "WRITE_CACHE"})]
    sections = {"flash": flash, "flows": cached}
    # 2 channels of 2 chips of 4 planes.
    some = {"Data_Cache_Capacity": 10_000_000}
    assert _settings(files, device=some, **sections)["cache.bytes"] == 16 * 4_096
    # All that is written fits, or what is written most.
    assert _settings(files, **sections)["cache.bytes"] == 536_870_912
    keys = {"Address_Distribution": "RANDOM_HOTCOLD", "Percentage_of_Hot_Region": 10}
    sections["flows"] = [(SYNTHETIC, {**keys, "Device_Level_Data_Caching_Mode": "WRITE_CACHE"})]
    assert _settings(files, device=some, **sections)["cache.bytes"] == 10_000_000
    small = {"Data_Cache_Capacity": 20_000}
    assert _settings(files, device=small, **sections)["cache.bytes"] == 20_000


def test_cached_writes_take_the_time_of_the_memory_one_after_the_other(files: Files) -> None:
    def row(depth: int, **flow: Any) -> Any:
        device = {"Data_Cache_DRAM_Data_Rate": 100, "Data_Cache_DRAM_Data_Busrt_Size": 1}
        keys = {"Read_Percentage": 0, "Average_No_of_Reqs_in_Queue": depth, **flow}
        files.write(device=device, flows=[(SYNTHETIC, keys)])
        return files.run().rows[0]

    cached = {"Device_Level_Data_Caching_Mode": "WRITE_CACHE", "Total_Requests_To_Generate": 200}
    # 13 and 13 ns for the row, 2,048 cycles of 10 ns, and 4 KiB at 4 GB/s to the device.
    memory_us, bus_us = (26 + 20_480) / 1_000, 4_096 / 4_000
    alone = row(1, **cached)
    assert alone["Min_Device_Response_Time"] == pytest.approx(memory_us + bus_us, abs=0.01)
    assert row(8, **cached)["IOPS"] == pytest.approx(1e6 / memory_us, rel=0.05)
    least = row(1)["Min_Device_Response_Time"]
    assert least == pytest.approx(300 + 12.3 + bus_us, abs=0.1)


def test_a_hot_region_gets_all_but_its_share(files: Files) -> None:
    files.flow(Address_Distribution="RANDOM_HOTCOLD", Percentage_of_Hot_Region=10)
    assert 'random_distribution = "zoned:90/10:10/90"' in _plan(files)[1]
    assert files.run().rows[0]["Request_Count"] == 2_000


def test_a_read_whose_entry_is_not_cached_reads_the_table_first(files: Files) -> None:
    def mean(**device: Any) -> float:
        files.write(device=device, flows=[(SYNTHETIC, {"Average_No_of_Reqs_in_Queue": 1})])
        found: float = files.run().rows[0]["Device_Response_Time"]
        return found

    whole = mean(Ideal_Mapping_Table="true")
    # 50 us of the array and 12.3 us of the channel once more, where the cache holds next to none.
    few = mean(Ideal_Mapping_Table="false", CMT_Capacity=64)
    assert few - whole == pytest.approx(50 + 12.3, rel=0.1)
    # What was written first is still in a large one.
    assert mean(Ideal_Mapping_Table="false", CMT_Capacity=2**20) == whole


def test_the_table_is_cached_only_where_nothing_is_cleaned(files: Files) -> None:
    def layer(device: Keys, **flow: Any) -> Any:
        keys = {"Ideal_Mapping_Table": "false", **device}
        found = _settings(files, device=keys, flows=[(SYNTHETIC, flow)])
        return found.get("flash.ftl", "page")

    writes = {"Read_Percentage": 0, "Total_Requests_To_Generate": 1_000}
    assert layer({}) == layer({}, **writes) == "dftl"
    assert layer({"Enabled_Preconditioning": "true"}) == "page"
    assert layer({}, **{**writes, "Total_Requests_To_Generate": 9_000}) == "page"
    # So long that the chips could program more than the device has.
    assert layer({}, **writes, Stop_Time=10**9) == "page"
    assert layer({}, Stop_Time=10**9) == "dftl"
    # No block is left for the table.
    assert layer({"Overprovisioning_Ratio": "0.01"}, Working_Set_Percentage=100) == "page"


def test_pages_that_the_dies_read_are_told_where_a_study_tells_them(files: Files) -> None:
    def reads(device: Keys, **flow: Any) -> Any:
        files.write(device=device, flows=[(SYNTHETIC, flow)])
        return files.run().answer["scenarios"][0]["device"]

    assert reads({})["page_reads"] == 2_000
    # Each request of three pages reads all of them.
    assert reads({}, Average_Request_Size=24)["page_reads"] == 6_000
    assert reads({}, Read_Percentage=0)["page_reads"] == 0
    full = reads({"Enabled_Preconditioning": "true"}, Read_Percentage=0)
    assert full["page_reads"] == full["page_programs"] - 2_000 > 0
    # Half of a page that is there is read before it is written.
    files.write(device={}, flows=[(SYNTHETIC, {"Average_Request_Size": 4, "Read_Percentage": 50})])
    part = files.run()
    assert part.answer["scenarios"][0]["device"]["page_reads"] == 2_000
    cached = {"Device_Level_Data_Caching_Mode": "WRITE_CACHE"}
    assert reads({}, Read_Percentage=50, **cached)["page_reads"] is None
    assert reads({}, Read_Percentage=0, **cached)["page_reads"] == 0
    assert reads({"Ideal_Mapping_Table": "false"})["page_reads"] is None


# --- traces -----------------------------------------------------------------------------------

TRACE_TEXT = "".join(
    f"{number * 1_000_000} 0 {number * 8} 8 {number % 2}\n" for number in range(100)
)


def _trace(files: Files, text: str = TRACE_TEXT, **keys: Any) -> Files:
    files.write(flows=[(TRACE, keys)])
    files.workload.with_name("some.trace").write_text(text, encoding="ascii")
    return files


def test_a_trace_is_replayed_at_its_times(files: Files) -> None:
    scenario = _trace(files).run().answer["scenarios"][0]
    (flow,) = scenario["flows"]
    assert (flow["Read_Request_Count"], flow["Write_Request_Count"]) == (50, 50)
    assert flow["Bytes_Transferred_Write"] == 50 * 4_096
    assert 99_000_000 < flow["elapsed_ns"] < 100_000_000
    assert scenario["notes"] == [] or not any("fields" in one for one in scenario["notes"])


def test_a_line_without_five_fields_ends_a_trace_and_is_told(files: Files) -> None:
    lines = TRACE_TEXT.splitlines(keepends=True)
    scenario = _trace(files, "".join([*lines[:60], "the end\n", *lines[60:]])).run().answer
    (found,) = scenario["scenarios"]
    assert found["flows"][0]["Request_Count"] == 60
    assert any("line 61 has 2 fields" in note for note in found["notes"])


@pytest.mark.parametrize(
    ("keys", "requests"),
    [
        ({"Percentage_To_Be_Executed": 30}, 30),
        ({"Relay_Count": 3}, 300),
        ({"Relay_Count": 3, "Percentage_To_Be_Executed": 30}, 300),
    ],
)
def test_a_trace_runs_in_part_or_several_times(files: Files, keys: Keys, requests: int) -> None:
    (flow,) = _trace(files, **keys).run().rows
    assert flow["Request_Count"] == requests
    # A round begins with the last request of the one before: 99 ms later.
    rounds = keys.get("Relay_Count", 1)
    assert flow["elapsed_ns"] // 1_000_000 == (99 * rounds if rounds > 1 else requests - 1)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no request"),
        ("words\n", "no request"),
        ("5 0 0 8 1\n4 0 0 8 1\n", "line 2: the time falls"),
        ("0 0 -8 8 1\n", "line 1: five whole numbers"),
        ("0 0 8 0 1\n", "line 1: 0 sectors"),
        ("0 0 8 99999999999 1\n", "line 1: 99999999999 sectors"),
    ],
)
def test_a_trace_that_cannot_be_read_is_refused(
    files: Files, capsys: pytest.CaptureFixture[str], text: str, says: str
) -> None:
    assert says in _trace(files, text).refused(capsys)


def test_a_missing_trace_is_refused(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    files.write(flows=[(TRACE, {})])
    assert "`File_Path` is some.trace: no such file" in files.refused(capsys)


# --- keys -------------------------------------------------------------------------------------


def test_the_answer_names_what_is_approximated_and_ignored(files: Files) -> None:
    files.write(
        device={"Ideal_Mapping_Table": "false", "CMT_Capacity": 4_096},
        flows=[(SYNTHETIC, {"Intensity": 32_768, "Variance_Request_Size": 0})],
    )
    found = {(row["key"], row["fate"]) for row in files.run().answer["unlike"]}
    assert found == {
        ("CMT_Capacity", "approximated"),
        ("Channel_Transfer_Rate", "approximated"),
        ("Enabled_Preconditioning", "approximated"),
        ("Ideal_Mapping_Table", "approximated"),
        ("Initial_Occupancy_Percentage", "approximated"),
        ("Intensity", "ignored"),
        ("Page_Metadat_Capacity", "approximated"),
        ("Page_Read_Latency_LSB", "approximated"),
        ("Seed", "approximated"),
        ("Variance_Request_Size", "ignored"),
    }


def test_the_command_prints_what_ran_and_the_table_of_keys(
    files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["mqsim", *files.paths]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"{files.device} with {files.workload}\nScenario 1: 1 synthetic flow; 4 ")
    assert "Host.IO_Flow 1" in out
    assert "Keys that are approximated or ignored" in out
    assert main(["mqsim", *files.paths, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)["result"]
    assert answer["scenarios"][0]["flows"][0]["Request_Count"] == 2_000


@pytest.mark.parametrize(
    ("device", "flow", "says"),
    [
        ({}, {}, "written once, cleaning greedy, layer page, cache"),
        ({}, {"Read_Percentage": 0}, "offered and empty, cleaning"),
        ({"Enabled_Preconditioning": "true"}, {}, "full, then rewritten twice at random, clean"),
        ({"Ideal_Mapping_Table": "false"}, {}, "cleaning greedy, layer dftl, cache"),
    ],
)
def test_the_command_says_what_the_device_held(
    files: Files, capsys: pytest.CaptureFixture[str], device: Keys, flow: Keys, says: str
) -> None:
    files.write(device=device, flows=[(SYNTHETIC, flow)])
    assert main(["mqsim", *files.paths]) == 0
    assert says in capsys.readouterr().out


def test_priorities_are_named_only_where_flows_differ(files: Files) -> None:
    def keys(*classes: str) -> set[str]:
        files.write(flows=[(SYNTHETIC, {"Priority_Class": one}) for one in classes])
        return {row["key"] for row in files.run().answer["unlike"]}

    assert "Priority_Class" not in keys("LOW", "LOW")
    assert "Priority_Class" in keys("LOW", "URGENT")


Section = tuple[str, str]

OTHER_WORDS = {
    "Flash_Technology": "MLC",
    "Device_Level_Data_Caching_Mode": "WRITE_CACHE",
    "Address_Distribution": "STREAMING",
    "GC_Block_Selection_Policy": "FIFO",
    "HostInterface_Type": "SATA",
    "Synthetic_Generator_Type": "BANDWIDTH",
}
WITHOUT_EFFECT = {
    # They have one value that is read, or say what nandlab does anyway.
    "Address_Mapping", "Data_Cache_Sharing_Mode", "Flash_Comm_Protocol", "Memory_Type",
    "Request_Size_Distribution", "Ideal_Mapping_Table", "Preemptible_GC_Enabled",
    "CMD_Suspension_Support",
    # They only bound what a flow may list.
    "Chip_No_Per_Channel", "Flash_Channel_Count",
}  # fmt: skip


def _plan(files: Files) -> tuple[str, str]:
    device = read_device_file(files.device)
    (flows,) = read_workload_file(files.workload)
    scenario = scenario_of(1, device, flows)
    return scenario.part, study_text(scenario)


def _written(files: Files, key: Key, value: Any) -> None:
    # A state in which every key has an effect.
    device: Keys = {"Static_Wearleveling_Enabled": "true"}
    flash: Keys = {"Flash_Technology": "TLC", "Die_No_Per_Chip": 2, "Plane_No_Per_Die": 2}
    host: Keys = {}
    flow: Keys = {"Device_Level_Data_Caching_Mode": "WRITE_CACHE"}
    if key.name == "HostInterface_Type":
        host["SATA_Processing_Delay"] = 5_000
    if key.name == "Synthetic_Generator_Type":
        flow["Bandwidth"] = 4_096_000
    if key.name == "Dynamic_Wearleveling_Enabled":
        device["Static_Wearleveling_Enabled"] = "false"
    if key.name == "Device_Level_Data_Caching_Mode":
        flow = {}
    if key.name == "Percentage_of_Hot_Region":
        flow |= {"Address_Distribution": "RANDOM_HOTCOLD", key.name: 30}
    group = {DEVICE: device, FLASH: flash, HOST: host}.get(key.section, flow)
    if value is not None:
        group[key.name] = value
    files.write(device=device, flash=flash, host=host, flows=[(SYNTHETIC, flow)])


READ_KEYS = [
    key
    for key in KEYS
    if key.outcome.fate is Fate.READ and key.section != TRACE and key.name not in WITHOUT_EFFECT
]


@pytest.mark.parametrize("key", READ_KEYS, ids=lambda key: key.name)
def test_a_key_that_is_read_changes_what_runs(files: Files, key: Key) -> None:
    _written(files, key, None)
    before = _plan(files)
    usual = {**FLASH_KEYS, **DEVICE_KEYS, **HOST_KEYS, **SYNTHETIC_KEYS}.get(key.name, key.default)
    if key.kind is Kind.WORD:
        other: Any = OTHER_WORDS[key.name]
    elif key.kind is Kind.SWITCH:
        other = "false" if usual == "true" else "true"
    elif key.kind is Kind.NUMBERS:
        other = "0" if usual != "0" else "0,1"
    elif key.kind in (Kind.DECIMAL, Kind.SHARE):
        other = "0.25"
    elif key.name == "Stop_Time":
        other = 1_000_000
    else:
        other = max(key.least, int(usual) // 2 if int(usual) > 1 else 2)
    _written(files, key, other)
    assert _plan(files) != before


def test_the_table_of_keys_is_sorted_and_its_built_in_values_are_valid() -> None:
    for section in (HOST, DEVICE, FLASH, SYNTHETIC, TRACE, FLOWS):
        names = [key.name for key in KEYS if key.section == section]
        assert names == sorted(names)
        assert len(names) == len(set(names)) > 3
    for key in KEYS:
        if key.kind is Kind.WORD:
            assert key.default is None or key.default in key.words
            assert set(key.by_value or {}) <= set(key.words)
        assert key.outcome.how


def test_the_page_has_the_table_of_keys() -> None:
    page = Path(__file__).parents[2] / "docs" / "mqsim.md"
    assert "\n".join(table_lines()) in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("group", "wrong", "right"),
    [
        ("flash", "Page_Capcity", "Page_Capacity"),
        ("flash", "Page_Metadata_Capacity", "Page_Metadat_Capacity"),
        ("device", "Overprovisionning_Ratio", "Overprovisioning_Ratio"),
        ("host", "PCIe_Lanes_Count", "PCIe_Lane_Count"),
        ("flow", "Read_Percent", "Read_Percentage"),
        ("flow", "read_percentage", "Read_Percentage"),
    ],
)
def test_a_misspelt_key_gets_the_nearest(
    files: Files, capsys: pytest.CaptureFixture[str], group: str, wrong: str, right: str
) -> None:
    if group == "flow":
        files.flow(**{wrong: 8})
    else:
        files.write(**{group: {wrong: 8}})
    said = files.refused(capsys)
    assert f"unknown key `{wrong}`: did you mean {right}?" in said
    assert ".xml: line " in said


def test_words_are_read_in_any_case_and_a_wrong_one_gets_the_nearest(
    files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    files.write(device={"GC_Block_Selection_Policy": "fifo"})
    assert '"fifo"' in _plan(files)[1]
    files.write(device={"GC_Block_Selection_Policy": "GREDY"})
    assert "did you mean GREEDY?" in files.refused(capsys)


DEVICE_FAULTS: list[tuple[Keys, str]] = [
    ({"device": {"Address_Mapping": "HYBRID"}}, "`Address_Mapping` = HYBRID: MQSim has no code"),
    ({"device": {"Transaction_Scheduling_Policy": "FLIN"}}, "= FLIN: MQSim builds no such"),
    ({"device": {"Data_Cache_Capacity": -1}}, "`Data_Cache_Capacity` is `-1`"),
    ({"device": {"Overprovisioning_Ratio": "1.5"}}, "`Overprovisioning_Ratio` is `1.5`"),
    ({"device": {"Overprovisioning_Ratio": "nan"}}, "`Overprovisioning_Ratio` is `nan`"),
    ({"device": {"Overprovisioning_Ratio": "0.0"}}, "must lie between 0.01 and 0.9"),
    ({"device": {"Flash_Channel_Count": 65}}, "`Flash_Channel_Count` is `65`"),
    ({"device": {"Chip_No_Per_Channel": 1}}, "`Chip_IDs` lists 1, but `Chip_No_Per_Channel` is 1"),
    ({"flash": {"Page_Capacity": -4096}}, "`Page_Capacity` is `-4096`"),
    ({"flash": {"Page_Capacity": 4097}}, "takes a multiple of 512"),
    ({"flash": {"Page_Capacity": ""}}, "`Page_Capacity` is ``"),
    ({"flash": {"Page_Capacity": "9" * 5000}}, "`Page_Capacity` is `999"),
    ({"flash": {"Page_Capacity": "٤٠٩٦".encode("ascii", "xmlcharrefreplace").decode()}}, "takes"),
    ({"flash": {"Block_No_Per_Plane": 2**20, "Page_No_Per_Block": 65_536}}, "pages, but at most"),
    ({"flash": {"Page_Capacity": [4096, 4096]}}, "a second `Page_Capacity`"),
    ({"flash": {"Page_Capacity": {"x": 1}}}, "holds elements, but takes a value"),
    ({"host": {"PCIe_Lane_Bandwidth": 0}}, "`PCIe_Lane_Bandwidth` must be at least"),
    ({"host": {"PCIe_Lane_Bandwidth": "1e400"}}, "`PCIe_Lane_Bandwidth` is `1e400`"),
]
FLOW_FAULTS: list[tuple[Keys, str]] = [
    ({"Address_Distribution": "RANDOM_HOTCOLD"}, "`Percentage_of_Hot_Region` is 0, but RANDOM"),
    ({"Total_Requests_To_Generate": 10**12}, "1,000,000,000,000 requests of the scenario"),
    ({"Total_Requests_To_Generate": 0}, "nothing ends the flow"),
    ({"Stop_Time": 10**18}, "`Stop_Time` is longer than a day"),
    ({"Read_Percentage": 101}, "`Read_Percentage` is `101`, but takes 0 to 100"),
    ({"Read_Percentage": None}, "`Read_Percentage` is missing"),
    ({"Average_Request_Size": -8}, "`Average_Request_Size` is `-8`"),
    ({"Average_Request_Size": 65_536}, "`Average_Request_Size` is 33,554,432 bytes"),
    ({"Channel_IDs": "0,,1"}, "`Channel_IDs` is `0,,1`"),
    ({"Channel_IDs": "0,2"}, "`Channel_IDs` lists 2, but `Flash_Channel_Count` is 2"),
]


@pytest.mark.parametrize(("keys", "says"), DEVICE_FAULTS)
def test_a_device_that_cannot_be_had_is_refused(
    files: Files, capsys: pytest.CaptureFixture[str], keys: Keys, says: str
) -> None:
    assert says in files.write(**keys).refused(capsys)


@pytest.mark.parametrize(("keys", "says"), FLOW_FAULTS)
def test_a_flow_that_cannot_be_carried_out_is_refused(
    files: Files, capsys: pytest.CaptureFixture[str], keys: Keys, says: str
) -> None:
    assert says in files.flow(**keys).refused(capsys)


@pytest.mark.parametrize(
    ("second", "says"),
    [
        ((SYNTHETIC, {"Chip_IDs": "0"}), "`Chip_IDs` differs from that of the first flow"),
        ((SYNTHETIC, {"Working_Set_Percentage": 10}), "`Working_Set_Percentage` differs"),
        (
            (SYNTHETIC, {"Device_Level_Data_Caching_Mode": "WRITE_CACHE"}),
            "`Device_Level_Data_Caching_Mode` differs",
        ),
        ((SYNTHETIC, {"Total_Requests_To_Generate": 9_999_999}), "10,001,999 requests"),
        ((TRACE, {}), "a trace beside other flows"),
    ],
)
def test_flows_that_cannot_share_a_device_are_refused(
    files: Files, capsys: pytest.CaptureFixture[str], second: tuple[str, Keys], says: str
) -> None:
    assert says in files.write(flows=[(SYNTHETIC, {}), second]).refused(capsys)


def test_a_scenario_that_is_not_there_is_refused(
    files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "--scenario" in files.refused(capsys, "--scenario", "2")
    assert "--scenario" in files.refused(capsys, "--scenario", "0")


# --- XML --------------------------------------------------------------------------------------

BOMB = (
    "<!DOCTYPE a [<!ENTITY a 'aaaaaaaaaa'>"
    + "".join(
        f"<!ENTITY {b} '{f'&{a};' * 10}'>" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
    )
    + "]><Execution_Parameter_Set>&i;</Execution_Parameter_Set>"
)


def _cut(text: str) -> str:
    return text[: len(text) // 2]


def _inside(what: str) -> Callable[[str], str]:
    return lambda text: text.replace(f"<{DEVICE}>", f"<{DEVICE}>{what}", 1)


def _before(what: str) -> Callable[[str], str]:
    return lambda text: what + text


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda _: BOMB, "a document type or an entity"),
        (_before('<!DOCTYPE x SYSTEM "file:///etc/passwd">'), "a document type or an entity"),
        (_inside("&undefined;"), "undefined entity"),
        (_cut, "the file is no whole XML"),
        (lambda _: "", "the file is no whole XML"),
        (lambda _: "\0\1", "the file is no whole XML"),
        (lambda text: text + text, "the file is no whole XML"),
        (_inside("<a>" * 7), "more than 8 elements within each other"),
        (_inside("<a/>" * 60_000), "more than 50,000 elements"),
        (_inside(" " * (1 << 20)), "larger than 1 MiB"),
        (_inside("<Seed unit='one'>1</Seed>"), "`Seed` has attributes"),
        (_before('<?xml version="1.0" encoding="klingon"?>'), "the encoding is not known"),
        (lambda _: "<Config></Config>", "must begin with `Execution_Parameter_Set`"),
        (lambda text: text.replace(HOST, "Host_Parameters"), "did you mean Host_Parameter_Set?"),
        (lambda text: text.replace(f"{FLASH}>", "Seed>"), "`Flash_Parameter_Set` is missing"),
    ],
)
def test_xml_that_is_no_file_of_mqsim_is_refused(
    files: Files,
    capsys: pytest.CaptureFixture[str],
    change: Callable[[str], str],
    says: str,
) -> None:
    files.device.write_text(change(files.device.read_text("ascii")), encoding="utf-8")
    assert says in files.refused(capsys)


def test_a_workload_without_scenarios_or_flows_is_refused(
    files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    for inner, says in (
        ("", "no `IO_Scenario`"),
        ("<IO_Scenario></IO_Scenario>", "a scenario of 0 flows"),
        ("<IO_Scenaro></IO_Scenaro>", "did you mean IO_Scenario?"),
    ):
        text = f"<MQSim_IO_Scenarios>{inner}</MQSim_IO_Scenarios>"
        files.workload.write_text(text, encoding="ascii")
        assert says in files.refused(capsys)


def test_a_file_that_is_missing_or_a_folder_is_refused(
    files: Files, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files.device = tmp_path / "missing.xml"
    assert "missing.xml: No such file" in files.refused(capsys)
    files.device = tmp_path
    assert "Is a directory" in files.refused(capsys)


def test_text_in_pieces_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "pieces.xml"
    path.write_text("<a>\n<b> 1<!-- and -->2&lt;3 </b>\n</a>", encoding="ascii")
    (inner,) = read_xml(path, "a").children
    assert (inner.name, inner.text, inner.line) == ("b", "12<3", 2)
    with pytest.raises(NandlabError, match="must begin with `b`"):
        read_xml(path, "b")


# --- MQSim's own files ------------------------------------------------------------------------


@pytest.mark.skipif("MQSIM" not in os.environ, reason="MQSIM names no folder of MQSim")
def test_the_shipped_files_run() -> None:
    folder = Path(os.environ["MQSIM"])
    found = nandlab.mqsim(folder / "ssdconfig.xml", folder / "workload.xml")
    assert found.rows
    assert all(row["Request_Count"] > 0 for row in found.rows)
    known = {key.name for section in (HOST, DEVICE, FLASH, SYNTHETIC, TRACE)
             for key in keys_of(section).values()}  # fmt: skip
    assert {row["key"] for row in found.answer["unlike"]} <= known
