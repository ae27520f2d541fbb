"""Files in MQSim's format, made of keys that tests change."""

from pathlib import Path
from typing import Any

import pytest

import nandlab
from nandlab.cli import main
from nandlab.mqsim_files.key import DEVICE, FLASH, HOST, SYNTHETIC

Keys = dict[str, Any]

FLASH_KEYS: Keys = {
    "Flash_Technology": "SLC",
    "CMD_Suspension_Support": "NONE",
    "Page_Read_Latency_LSB": 50_000,
    "Page_Program_Latency_LSB": 300_000,
    "Block_Erase_Latency": 2_000_000,
    "Die_No_Per_Chip": 1,
    "Plane_No_Per_Die": 1,
    "Block_No_Per_Plane": 64,
    "Page_No_Per_Block": 32,
    "Page_Capacity": 4096,
    "Page_Metadat_Capacity": 128,
}
DEVICE_KEYS: Keys = {
    "Seed": 1,
    "Enabled_Preconditioning": "false",
    "Ideal_Mapping_Table": "true",
    "Preemptible_GC_Enabled": "false",
    "Static_Wearleveling_Enabled": "false",
    "GC_Block_Selection_Policy": "GREEDY",
    "Flash_Channel_Count": 2,
    "Chip_No_Per_Channel": 2,
    "Channel_Transfer_Rate": 333,
}
HOST_KEYS: Keys = {"PCIe_Lane_Bandwidth": "1.0", "PCIe_Lane_Count": 4}
PLACES: Keys = {
    "Priority_Class": "HIGH",
    "Device_Level_Data_Caching_Mode": "TURNED_OFF",
    "Channel_IDs": "0,1",
    "Chip_IDs": "0,1",
    "Die_IDs": "0",
    "Plane_IDs": "0",
    "Initial_Occupancy_Percentage": 70,
}
SYNTHETIC_KEYS: Keys = {
    **PLACES,
    "Working_Set_Percentage": 80,
    "Synthetic_Generator_Type": "QUEUE_DEPTH",
    "Read_Percentage": 100,
    "Address_Distribution": "RANDOM_UNIFORM",
    "Request_Size_Distribution": "FIXED",
    "Average_Request_Size": 8,
    "Seed": 5,
    "Average_No_of_Reqs_in_Queue": 4,
    "Stop_Time": 0,
    "Total_Requests_To_Generate": 2_000,
}
TRACE_KEYS: Keys = {**PLACES, "File_Path": "some.trace"}


def xml(tree: Keys) -> str:
    """Elements of XML; a list is an element several times, and None leaves one out."""

    def element(name: str, value: Any) -> str:
        if isinstance(value, list):
            return "".join(element(name, one) for one in value)
        if value is None:
            return ""
        return f"<{name}>{xml(value) if isinstance(value, dict) else value}</{name}>\n"

    return "".join(element(name, value) for name, value in tree.items())


class Files:
    """Both files in a folder; keys are changed before they are written."""

    def __init__(self, folder: Path) -> None:
        self.device, self.workload = folder / "ssdconfig.xml", folder / "workload.xml"
        self.write()

    @property
    def paths(self) -> tuple[str, str]:
        """Both files, as the command line takes them."""
        return str(self.device), str(self.workload)

    def write(
        self,
        *,
        device: Keys | None = None,
        flash: Keys | None = None,
        host: Keys | None = None,
        flows: list[tuple[str, Keys]] | None = None,
        scenarios: list[list[tuple[str, Keys]]] | None = None,
    ) -> "Files":
        """Writes both files, with some keys replaced."""
        in_device = {**DEVICE_KEYS, **(device or {}), FLASH: {**FLASH_KEYS, **(flash or {})}}
        sections = {HOST: {**HOST_KEYS, **(host or {})}, DEVICE: in_device}
        self.device.write_text(xml({"Execution_Parameter_Set": sections}), encoding="ascii")
        scenarios = scenarios or [flows or [(SYNTHETIC, {})]]
        bodies = [
            "".join(xml({kind: {**_usual(kind), **keys}}) for kind, keys in one)
            for one in scenarios
        ]
        inner = "".join(f"<IO_Scenario>{body}</IO_Scenario>" for body in bodies)
        text = f"<MQSim_IO_Scenarios>{inner}</MQSim_IO_Scenarios>"
        self.workload.write_text(text, encoding="ascii")
        return self

    def flow(self, **keys: Any) -> "Files":
        """Writes a single synthetic flow, with some keys replaced."""
        return self.write(flows=[(SYNTHETIC, keys)])

    def run(self, **options: Any) -> Any:
        """The answer of the call."""
        return nandlab.mqsim(self.device, self.workload, **options)

    def refused(self, capsys: pytest.CaptureFixture[str], *options: str) -> str:
        """The one line with which the command refuses the files."""
        assert main(["mqsim", *self.paths, *options]) == 2
        out, errors = capsys.readouterr()
        assert out == ""
        assert errors.count("\n") == 1
        assert errors.startswith("nandlab: error: ")
        return errors


def _usual(kind: str) -> Keys:
    return SYNTHETIC_KEYS if kind == SYNTHETIC else TRACE_KEYS
