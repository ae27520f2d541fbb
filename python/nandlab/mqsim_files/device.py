"""From MQSim's device to a part and a device of nandlab."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, log2
from typing import Any

from nandlab.errors import NandlabError
from nandlab.mqsim_files.key import SYNTHETIC
from nandlab.mqsim_files.sections import DeviceFile, Section

PART_FILE = "part.toml"
"""Name of the part file beside the device file."""

_SECTOR_BYTES = 512

_OOB_BYTES_MIN = 64
"""The layer keeps its own bytes in the spare area; 64 are enough for every layer."""

_EXECUTES_MAX = 1_024
"""Most commands that a device of nandlab works on."""

_MAP_BLOCKS = 3
"""Free blocks at which the layer `dftl` cleans at the earliest, and blocks that it keeps beside."""

_PAGES_MAX = 1 << 28
"""Pages of all dies: the tables of the layer take about 16 bytes for each, 4 GiB here."""

_POLICIES = {
    "GREEDY": "greedy",
    "RGA": "d-choices",
    "RANDOM": "random",
    "RANDOM_P": "random",
    "RANDOM_PP": "random",
    "FIFO": "fifo",
}


@dataclass(frozen=True)
class Shape:
    """The part of MQSim's device that the flows of a scenario list, in nandlab's terms."""

    channels: int
    dies_per_channel: int
    """Chips of a channel: the next command to a chip of MQSim waits for the one before."""
    blocks: int
    """Blocks of a chip, in all its dies and planes."""
    pages_per_block: int
    page_bytes: int
    """Bytes of a page that requests move: its first ones, if they ask for no others."""
    page_capacity_bytes: int
    logical_pages: int
    """Pages that the host sees: those of all dies without the spare ones."""


def shape_of(file: DeviceFile, flows: Sequence[Section]) -> Shape:
    """The shape of the device. Raises `NandlabError` for a key that does not fit the others."""
    counts = []
    for name, section, key in (
        ("Channel_IDs", file.device, "Flash_Channel_Count"),
        ("Chip_IDs", file.device, "Chip_No_Per_Channel"),
        ("Die_IDs", file.flash, "Die_No_Per_Chip"),
        ("Plane_IDs", file.flash, "Plane_No_Per_Die"),
    ):
        counts.append(_listed(flows, name, key, section.count(key)))
    channels, chips, dies, planes = counts
    # `service_read_transaction` and its siblings of MQSim's schedulers send nothing to a chip that
    # is not idle, and `issue_command_to_chip` returns after one die. So dies of a chip take turns,
    # and a die here stands for a chip.
    blocks = file.flash.count("Block_No_Per_Plane") * planes * dies
    pages_per_block = file.flash.count("Page_No_Per_Block")
    pages = channels * chips * blocks * pages_per_block
    if pages > _PAGES_MAX:
        raise file.flash.refuse(
            "Block_No_Per_Plane",
            f"makes a device of {pages:,} pages, but at most {_PAGES_MAX:,} are simulated",
        )
    spare = file.device.share("Overprovisioning_Ratio")
    if not Fraction(1, 100) <= spare <= Fraction(9, 10):
        raise file.device.refuse(
            "Overprovisioning_Ratio",
            "must lie between 0.01 and 0.9: with less no block could be cleaned",
        )
    logical = int(pages * (1 - spare))
    capacity = file.flash.count("Page_Capacity")
    if capacity % _SECTOR_BYTES:
        raise file.flash.refuse("Page_Capacity", f"is {capacity}, but takes a multiple of 512")
    page_bytes = _moved_bytes(capacity, flows)
    return Shape(channels, chips, blocks, pages_per_block, page_bytes, capacity, logical)


def _moved_bytes(capacity: int, flows: Sequence[Section]) -> int:
    """Bytes of a page that requests move: all, unless each request is the begin of a page.

    MQSim sends the sectors of a request over the channel, and keeps track of those that were ever
    written: where requests never ask for the rest of a page, it is neither moved nor read before a
    write. So pages of the size of the requests stand for such a device, as many of them.
    """
    sizes = set()
    for flow in flows:
        if flow.name != SYNTHETIC or not flow.is_on("Generated_Aligned_Addresses"):
            return capacity
        unit_bytes = flow.count("Address_Alignment_Unit") * _SECTOR_BYTES
        if unit_bytes == 0 or unit_bytes % capacity:
            return capacity
        sizes.add(flow.count("Average_Request_Size") * _SECTOR_BYTES)
    smallest = min(sizes)
    # Requests of several sizes, or such as do not divide a page, would cross the ends of pages.
    return smallest if len(sizes) == 1 and capacity % smallest == 0 else capacity


def _listed(flows: Sequence[Section], name: str, key: str, count: int) -> int:
    """How many channels, chips, dies or planes the flows list."""
    first = flows[0].numbers(name)
    for flow in flows:
        if flow.numbers(name) != first:
            raise flow.refuse(
                name,
                "differs from that of the first flow; a device of nandlab spreads all over "
                "all dies, so list the same",
            )
        if max(first) >= count:
            raise flow.refuse(name, f"lists {max(first)}, but `{key}` is {count}")
    return len(first)


def part_text(file: DeviceFile, page_bytes: int) -> str:
    """The part file. Nothing fails: MQSim has no errors of the medium.

    `page_bytes` are those of a page that requests move.
    """
    flash = file.flash
    oob_bytes = max(flash.count("Page_Metadat_Capacity"), _OOB_BYTES_MIN)
    # MQSim moves two units in twice a time that is cut to whole nanoseconds, and no spare bytes.
    byte_ps = 1_000 // file.device.count("Channel_Transfer_Rate") * 1_000
    page_ps = page_bytes * byte_ps // file.device.count("Flash_Channel_Width")
    stored_bytes = page_bytes + oob_bytes
    types = {"SLC": ("LSB",), "MLC": ("LSB", "MSB"), "TLC": ("LSB", "CSB", "MSB")}
    technology = flash.word("Flash_Technology")
    reads = [flash.count(f"Page_Read_Latency_{one}") for one in types[technology]]
    programs = [flash.count(f"Page_Program_Latency_{one}") for one in types[technology]]
    return f"""name = "mqsim"
summary = "Chip of {technology} as MQSim's configuration has it"

[geometry]
page_data_bytes = {page_bytes}
page_oob_bytes = {oob_bytes}
pages_per_block = {flash.count("Page_No_Per_Block")}
blocks = {flash.count("Block_No_Per_Plane")}
planes = 1
cell = "{technology.lower()}"
page_order = "sequential"
data_programs_max = 1
oob_programs_max = 1
bad_mark_oob_offset = 0

[timing]
read_ns = {reads if reads[0] == min(reads) else sum(reads) // len(reads)}
program_ns = {programs}
erase_ns = {flash.count("Block_Erase_Latency")}
transfer_ps_per_byte = {(page_ps + stored_bytes // 2) // stored_bytes}

[errors]
erase_cycles_max = 1000000
erase_cycles_spread_percent = 0.0
ecc_codeword_bytes = 512
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


def settings_of(
    file: DeviceFile,
    flows: Sequence[Section],
    shape: Shape,
    part: str,
    capacity_bytes: int,
    rewritten_bytes: int,
) -> dict[str, Any]:
    """Keys of the device and their values; `part` names the part file.

    `rewritten_bytes` are those of the pages that most writes go to.
    """
    device, host = file.device, file.host
    plane_blocks = file.flash.count("Block_No_Per_Plane")
    is_sata = device.word("HostInterface_Type") == "SATA"
    fetched = device.count("Queue_Fetch_Size") * len(flows)
    lanes = host.count("PCIe_Lane_Count")
    wear_leveling = "dynamic" if device.is_on("Dynamic_Wearleveling_Enabled") else "none"
    if device.is_on("Static_Wearleveling_Enabled"):
        wear_leveling = "static"
    overhead_ns = host.count("SATA_Processing_Delay") if is_sata else 0
    cache_bytes = _cache_bytes(file, flows, shape, rewritten_bytes)
    memory_ns = _memory_ns(file, flows) if cache_bytes else 0
    # One memory serves one write after the other; reads would wait for it here, but not there.
    is_shared = memory_ns > 0 and all(flow.count("Read_Percentage") == 0 for flow in flows)
    return {
        "flash.part": part,
        "flash.blocks": shape.blocks,
        "flash.channels": shape.channels,
        "flash.dies_per_channel": shape.dies_per_channel,
        "flash.capacity_bytes": capacity_bytes,
        # MQSim maps whole pages, as its planes program them.
        "flash.mapping_unit_bytes": shape.page_bytes,
        "flash.copy_back": device.is_on("Use_Copyback_for_GC"),
        "flash.settings.cleaning": _POLICIES[device.word("GC_Block_Selection_Policy")],
        # `GC_and_WL_Unit_Page_Level` of MQSim draws as many blocks as the logarithm says.
        "flash.settings.choices": plane_blocks.bit_length() - 1,
        "flash.settings.frontier": "separate",
        "flash.settings.low_water": _low_water(device, shape, capacity_bytes),
        "flash.settings.wear_leveling": wear_leveling,
        "flash.settings.wear_threshold": device.count("Static_Wearleveling_Threshold"),
        "cache.bytes": cache_bytes,
        "cleaning.background": False,
        "cleaning.steps_per_program": 0,
        "host.bytes_per_second": int(host.share("PCIe_Lane_Bandwidth") * lanes * 10**9),
        "host.command_overhead_ns": overhead_ns,
        "host.write_overhead_ns": overhead_ns + memory_ns,
        "host.processors": 1 if is_shared else _EXECUTES_MAX,
        "host.queue_depth": device.count("IO_Queue_Depth"),
        "host.executes": min(fetched, device.count("IO_Queue_Depth"), _EXECUTES_MAX),
    }


def cached_map(file: DeviceFile, shape: Shape, capacity_bytes: int) -> dict[str, Any] | None:
    """Settings of the layer `dftl`, which stands for a mapping table that is cached in part.

    None if the table is in memory as a whole, or if the translation pages do not fit beside the
    data. The layer cleans by a policy of its own, so it is for runs in which nothing is cleaned.
    """
    if file.device.is_on("Ideal_Mapping_Table"):
        return None
    flash = file.flash
    sectors = shape.page_capacity_bytes // _SECTOR_BYTES
    planes = flash.count("Die_No_Per_Chip") * flash.count("Plane_No_Per_Die")
    planes *= file.device.count("Flash_Channel_Count") * file.device.count("Chip_No_Per_Channel")
    pages = planes * flash.count("Block_No_Per_Plane") * flash.count("Page_No_Per_Block")
    # `Address_Mapping_Unit_Page_Level` of MQSim: a bit for each sector, and numbers of pages, two
    # of them in an entry of the cache and one in an entry on the flash.
    cached_entry_bytes = ceil((2 * log2(pages) + sectors) / 8)
    stored_entry_bytes = ceil((log2(pages) + sectors) / 8)
    dies = shape.channels * shape.dies_per_channel
    entries_per_page = max(1, shape.page_capacity_bytes // stored_entry_bytes)
    die_pages = -(-capacity_bytes // (shape.page_bytes * dies))
    with_map = die_pages + -(-die_pages // entries_per_page)
    # `blocks_required` of the layer, and the fewest free blocks at which it cleans.
    if -(-with_map // shape.pages_per_block) + 2 * _MAP_BLOCKS > shape.blocks:
        return None
    return {
        "flash.ftl": "dftl",
        "flash.settings.cmt_entries": max(
            2, file.device.count("CMT_Capacity") // cached_entry_bytes // dies
        ),
        "flash.settings.cmt_policy": "lru",
        "flash.settings.entries_per_page": min(entries_per_page, 65_536),
        "flash.settings.low_water": _MAP_BLOCKS,
    }


def _low_water(device: Section, shape: Shape, capacity_bytes: int) -> int:
    """Free blocks of a die at which it cleans: two thirds of MQSim's share, if so many can be free.

    MQSim begins to clean a block below its share, but only when a write has filled one. A debugger
    found 18 to 20 free blocks in planes whose share was 28, after 40,000 and 300,000 random writes.
    """
    dies = shape.channels * shape.dies_per_channel
    die_bytes = shape.pages_per_block * shape.page_bytes * dies
    # Three blocks are being written or cleaned: full ones and two open ones.
    most = shape.blocks - -(-capacity_bytes // die_bytes) - 3
    return max(1, min(int(device.share("GC_Exec_Threshold") * shape.blocks * 2 / 3), most))


def _cache_bytes(
    file: DeviceFile, flows: Sequence[Section], shape: Shape, rewritten_bytes: int
) -> int:
    """Bytes of the write cache: none if the flows leave it alone.

    `write_to_destage_buffer` of MQSim holds a write back while the data that are on their way to
    the flash are a page for each plane of the device, whatever the capacity is. A page that is
    written again within a second is not on its way: it stays, as long as there is room. Of the
    capacity a page that is written in part takes a whole one.
    """
    name = "Device_Level_Data_Caching_Mode"
    caching = {flow.word(name) in ("WRITE_CACHE", "WRITE_READ_CACHE") for flow in flows}
    if len(caching) > 1:
        raise flows[-1].refuse(
            name, "differs from another flow's: here all writes are cached or none"
        )
    if caching == {False}:
        return 0
    planes = file.device.count("Flash_Channel_Count") * file.device.count("Chip_No_Per_Channel")
    planes *= file.flash.count("Die_No_Per_Chip") * file.flash.count("Plane_No_Per_Die")
    held = file.device.count("Data_Cache_Capacity") * shape.page_bytes // shape.page_capacity_bytes
    if rewritten_bytes <= held:
        return held
    return min(held, planes * shape.page_capacity_bytes)


def _memory_ns(file: DeviceFile, flows: Sequence[Section]) -> int:
    """Time of a write in the DRAM of the cache; 0 for a trace, whose requests have many sizes.

    `estimate_dram_access_time` of MQSim: a row is opened, then two bursts go in a cycle. Requests
    here are taken as if they lay in one row.
    """
    if flows[0].name != SYNTHETIC:
        return 0
    device = file.device
    size_bytes = max(flow.count("Average_Request_Size") for flow in flows) * _SECTOR_BYTES
    cycles = size_bytes // device.count("Data_Cache_DRAM_Data_Busrt_Size") // 2
    moved_ns = cycles * 1_000 // device.count("Data_Cache_DRAM_Data_Rate")
    return device.count("Data_Cache_DRAM_tRCD") + device.count("Data_Cache_DRAM_tCL") + moved_ns


def check_host(file: DeviceFile) -> None:
    """Refuses a host without any speed."""
    if file.host.share("PCIe_Lane_Bandwidth") * 10**9 < 1_000:
        raise NandlabError(
            f"{file.host.place}: `PCIe_Lane_Bandwidth` must be at least 0.000001 (GB/s)"
        )
