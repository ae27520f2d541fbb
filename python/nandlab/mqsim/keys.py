"""Every key of MQSim's files: where it stands, what it takes, and what becomes of it here.

Names, types and values that MQSim has built in are those of MQSim as of commit 7ec40e3. Keys of
flows have no built-in value there: what is missing is whatever the memory holds, so here it is
refused where it is needed.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

HOST, DEVICE, FLASH = "Host_Parameter_Set", "Device_Parameter_Set", "Flash_Parameter_Set"
SYNTHETIC, TRACE = "IO_Flow_Parameter_Set_Synthetic", "IO_Flow_Parameter_Set_Trace_Based"
FLOWS = "both kinds of flow"
"""Sections. A key of `FLOWS` may stand in either kind of flow."""


class Fate(StrEnum):
    """What becomes of a key here."""

    READ = "read"
    APPROXIMATED = "approximated"
    IGNORED = "ignored"
    REFUSED = "refused"


class Kind(StrEnum):
    """What a key takes."""

    COUNT = "whole number"
    DECIMAL = "number"
    SHARE = "number from 0 to 1"
    PERCENT = "0 to 100"
    SWITCH = "true or false"
    NUMBERS = "whole numbers between commas"
    WORD = "word"
    PATH = "file"


@dataclass(frozen=True)
class Outcome:
    """What becomes of a key, and how or why."""

    fate: Fate
    how: str


@dataclass(frozen=True)
class Key:
    """One key. `default` is what MQSim has built in; `by_value` are values with another fate.

    `words` are the values of a key that takes a word, in capitals as MQSim reads them. `least` and
    `most` are the limits of a number.
    """

    section: str
    name: str
    kind: Kind
    default: str | None
    outcome: Outcome
    words: tuple[str, ...] = ()
    by_value: Mapping[str, Outcome] | None = None
    least: int = 0
    most: int = 2**63 - 1

    def outcome_of(self, value: str) -> Outcome:
        """What becomes of the key with this value."""
        return (self.by_value or {}).get(value, self.outcome)


def _read(how: str) -> Outcome:
    return Outcome(Fate.READ, how)


def _near(how: str) -> Outcome:
    return Outcome(Fate.APPROXIMATED, how)


def _left(how: str) -> Outcome:
    return Outcome(Fate.IGNORED, how)


def _not(how: str) -> Outcome:
    return Outcome(Fate.REFUSED, how)


_COUNT, _WORD, _SWITCH, _SHARE = Kind.COUNT, Kind.WORD, Kind.SWITCH, Kind.SHARE
_NO_SUSPENSION = _left("nothing interrupts a program or an erase here")
_NO_DRAM = _left("the cache here has a size and no timing of its own")
_NO_LOG = _left("a log of response times; the answer has percentiles")
_NO_MAPPING_CACHE = _left("the whole mapping table is in memory, so no entry is loaded")
_MISSPELT = _left("MQSim does not read this name, and neither does nandlab")
_MEAN_READ = _near("the chip has one read time: the mean of the page types")
_IDS = _read("all flows of a scenario must list the same; the device is built of what they list")
_NO_PRIORITY = _near(
    "flows share the device without priorities; those of one class do in MQSim, too"
)

_HOST_KEYS = (
    Key(HOST, "Enable_ResponseTime_Logging", _SWITCH, "false", _NO_LOG),
    Key(
        HOST,
        "PCIe_Lane_Bandwidth",
        Kind.DECIMAL,
        "0.4",
        _read("times lanes: bytes a second of the host's bus"),
    ),  # noqa: E501
    Key(HOST, "PCIe_Lane_Count", _COUNT, "4", _read("see PCIe_Lane_Bandwidth"), least=1, most=64),
    Key(HOST, "ResponseTime_Logging_Period_Length", _COUNT, "400000", _NO_LOG),
    Key(
        HOST,
        "SATA_Processing_Delay",
        _COUNT,
        "0",
        _near(
            "SATA: time before the data of a command, once a command, and not once a message; NVMe: not used"
        ),
        most=10**9,
    ),  # noqa: E501
)

_DEVICE_KEYS = (
    Key(
        DEVICE,
        "Address_Mapping",
        _WORD,
        "PAGE_LEVEL",
        _read("the layer `page`"),
        ("PAGE_LEVEL", "HYBRID"),  # noqa: E501
        {"HYBRID": _not("MQSim has no code behind it; use PAGE_LEVEL")},
    ),
    Key(DEVICE, "CMT_Capacity", _COUNT, "2097152", _NO_MAPPING_CACHE),
    Key(
        DEVICE,
        "CMT_Sharing_Mode",
        _WORD,
        "SHARED",
        _NO_MAPPING_CACHE,
        ("SHARED", "EQUAL_PARTITIONING"),
    ),  # noqa: E501
    Key(
        DEVICE,
        "Caching_Mechanism",
        _WORD,
        "ADVANCED",
        _near("a write cache that holds pages on their way to the dies"),
        ("SIMPLE", "ADVANCED"),
    ),  # noqa: E501
    Key(
        DEVICE,
        "Channel_Transfer_Rate",
        _COUNT,
        "300",
        _read(
            "time a byte, in whole nanoseconds as MQSim cuts it; commands and addresses take the time of nandlab's chip"
        ),
        least=1,
        most=1_000,
    ),  # noqa: E501
    Key(
        DEVICE,
        "Chip_No_Per_Channel",
        _COUNT,
        "4",
        _read("times dies: dies of a channel"),
        least=1,
        most=64,
    ),  # noqa: E501
    Key(
        DEVICE,
        "Data_Cache_Capacity",
        _COUNT,
        "536870912",
        _read("bytes of the write cache, if flows use it"),
        most=2**40,
    ),  # noqa: E501
    Key(DEVICE, "Data_Cache_DRAM_Data_Busrt_Size", _COUNT, "4", _NO_DRAM),
    Key(DEVICE, "Data_Cache_DRAM_Data_Rate", _COUNT, "800", _NO_DRAM),
    Key(DEVICE, "Data_Cache_DRAM_Row_Size", _COUNT, "8192", _NO_DRAM),
    Key(DEVICE, "Data_Cache_DRAM_tCL", _COUNT, "13", _NO_DRAM),
    Key(DEVICE, "Data_Cache_DRAM_tRCD", _COUNT, "13", _NO_DRAM),
    Key(DEVICE, "Data_Cache_DRAM_tRP", _COUNT, "13", _NO_DRAM),
    Key(
        DEVICE,
        "Data_Cache_Sharing_Mode",
        _WORD,
        "SHARED",
        _read("flows share one cache"),
        ("SHARED", "EQUAL_PARTITIONING"),  # noqa: E501
        {"EQUAL_PARTITIONING": _near("flows share one cache all the same")},
    ),
    Key(
        DEVICE,
        "Dynamic_Wearleveling_Enabled",
        _SWITCH,
        "true",
        _read("the least worn free block is used first"),
    ),  # noqa: E501
    Key(
        DEVICE,
        "Enabled_Preconditioning",
        _SWITCH,
        "true",
        _near(
            "the pages that flows fill are written once, and then as often again twice at random"
        ),  # noqa: E501
        by_value={
            "false": _near(
                "pages that flows can reach are written once, so that reads find them; cleaning begins earlier than on MQSim's empty device"
            )
        },
    ),  # noqa: E501
    Key(DEVICE, "Flash_Channel_Count", _COUNT, "8", _read("channels"), least=1, most=64),
    Key(
        DEVICE,
        "Flash_Channel_Width",
        _COUNT,
        "1",
        _read("divides the time a byte"),
        least=1,
        most=64,
    ),  # noqa: E501
    Key(
        DEVICE,
        "Flash_Comm_Protocol",
        _WORD,
        "NVDDR2",
        _read("time of data by Channel_Transfer_Rate"),
        ("NVDDR2",),
    ),  # noqa: E501
    Key(
        DEVICE,
        "GC_Block_Selection_Policy",
        _WORD,
        "RGA",
        _read("cleaning: greedy, random, fifo; RGA: d-choices among log2 of the blocks of a plane"),  # noqa: E501
        ("GREEDY", "RGA", "RANDOM", "RANDOM_P", "RANDOM_PP", "FIFO"),
        {
            "RANDOM_P": _near("as RANDOM: blocks with valid pages only are not passed over"),
            "RANDOM_PP": _near("as RANDOM: blocks with many valid pages are not passed over"),
        },
    ),
    Key(
        DEVICE,
        "GC_Exec_Threshold",
        _SHARE,
        "0.05",
        _near(
            "cleaning within writes while so few blocks of a die are free; MQSim cleans one block at a time beside the writes"
        ),
    ),  # noqa: E501
    Key(DEVICE, "GC_Exect_Threshold", _SHARE, None, _MISSPELT),
    Key(
        DEVICE,
        "GC_Hard_Threshold",
        _SHARE,
        "0.005",
        _left("writes wait for cleaning from GC_Exec_Threshold on"),
    ),  # noqa: E501
    Key(
        DEVICE,
        "HostInterface_Type",
        _WORD,
        "NVME",
        _read("NVMe: no time for a command; SATA: SATA_Processing_Delay"),
        ("NVME", "SATA"),
    ),  # noqa: E501
    Key(
        DEVICE,
        "IO_Queue_Depth",
        _COUNT,
        "1024",
        _read("commands outstanding"),
        least=2,
        most=65_535,
    ),  # noqa: E501
    Key(
        DEVICE,
        "Ideal_Mapping_Table",
        _SWITCH,
        "false",
        _near("the whole mapping table is in memory, as with true"),  # noqa: E501
        by_value={"true": _read("the whole mapping table is in memory")},
    ),
    Key(DEVICE, "Memory_Type", _WORD, "FLASH", _read("flash"), ("FLASH",)),
    Key(
        DEVICE, "Overprovisioning_Ratio", _SHARE, "0.07", _read("share of the pages that is spare")
    ),
    Key(
        DEVICE,
        "Plane_Allocation_Scheme",
        _WORD,
        "CWDP",
        _near("pages are spread over the channels first, then over their dies"),  # noqa: E501
        tuple(
            sorted(
                a + b + c + d
                for a in "CWDP"
                for b in "CWDP"
                for c in "CWDP"
                for d in "CWDP"
                if len({a, b, c, d}) == 4
            )
        ),
    ),  # noqa: E501
    Key(
        DEVICE,
        "Preemptible_GC_Enabled",
        _SWITCH,
        "true",
        _near("no request goes before the cleaning of its die"),  # noqa: E501
        by_value={"false": _read("no request goes before the cleaning of its die")},
    ),
    Key(DEVICE, "Prefered_suspend_erase_time_for_read", _COUNT, "700000", _NO_SUSPENSION),
    Key(DEVICE, "Preferred_suspend_erase_time_for_read", _COUNT, None, _MISSPELT),
    Key(DEVICE, "Preferred_suspend_erase_time_for_write", _COUNT, "700000", _NO_SUSPENSION),
    Key(DEVICE, "Preferred_suspend_write_time_for_read", _COUNT, "100000", _NO_SUSPENSION),
    Key(
        DEVICE,
        "Queue_Fetch_Size",
        _COUNT,
        "512",
        _read("commands that the device works on, of each flow; 1,024 at most of all"),
        least=1,
        most=65_535,
    ),  # noqa: E501
    Key(
        DEVICE,
        "Seed",
        _COUNT,
        "123",
        _near("part of the seed; the numbers that are drawn are not MQSim's"),
        most=2**31 - 1,
    ),  # noqa: E501
    Key(
        DEVICE,
        "Static_Wearleveling_Enabled",
        _SWITCH,
        "true",
        _near("cold data moves when erase counts of a die differ, as the layer `page` does it"),  # noqa: E501
        by_value={"false": _read("cold data stays")},
    ),
    Key(
        DEVICE,
        "Static_Wearleveling_Threshold",
        _COUNT,
        "100",
        _read("difference of erase counts"),
        least=1,
        most=1_000_000,
    ),  # noqa: E501
    Key(
        DEVICE,
        "Transaction_Scheduling_Policy",
        _WORD,
        "OUT_OF_ORDER",
        _near("each die serves its commands in their order"),  # noqa: E501
        ("FLIN", "OUT_OF_ORDER", "PRIORITY_OUT_OF_ORDER"),
        {"FLIN": _not("MQSim builds no such scheduler; use OUT_OF_ORDER")},
    ),
    Key(DEVICE, "Use_Copyback_for_GC", _SWITCH, "false", _read("copies leave the channel alone")),
)

_FLASH_KEYS = (
    Key(
        FLASH,
        "Block_Erase_Latency",
        _COUNT,
        "3800000",
        _read("time of an erase"),
        least=1,
        most=10**10,
    ),  # noqa: E501
    Key(
        FLASH,
        "Block_No_Per_Plane",
        _COUNT,
        "2048",
        _read("times planes: blocks of a die"),
        least=8,
        most=2**20,
    ),  # noqa: E501
    Key(
        FLASH,
        "Block_PE_Cycles_Limit",
        _COUNT,
        "10000",
        _left("nothing fails in such a run, and MQSim uses no limit either"),
    ),  # noqa: E501
    Key(
        FLASH,
        "CMD_Suspension_Support",
        _WORD,
        "ERASE",
        _near("nothing interrupts a program or an erase here"),  # noqa: E501
        ("NONE", "ERASE", "PROGRAM", "PROGRAM_ERASE"),
        {"NONE": _read("nothing is interrupted")},
    ),
    Key(
        FLASH,
        "Die_No_Per_Chip",
        _COUNT,
        "2",
        _near("dies of a chip are independent: they share the channel, and no chip"),
        least=1,
        most=64,  # noqa: E501
        by_value={"1": _read("a chip is a die")},
    ),
    Key(
        FLASH,
        "Flash_Technology",
        _WORD,
        "MLC",
        _read("how many page types there are"),
        ("SLC", "MLC", "TLC"),  # noqa: E501
        {"TLC": _near("page types follow one another; MQSim's first and last pages differ")},
    ),
    Key(
        FLASH,
        "Page_Capacity",
        _COUNT,
        "8192",
        _read("bytes of a page; the layer maps whole pages"),
        least=512,
        most=2**20,
    ),  # noqa: E501
    Key(
        FLASH,
        "Page_Metadat_Capacity",
        _COUNT,
        "1872",
        _near("spare bytes of a page; at least 64, and their transfer takes no time, as in MQSim"),
        most=65_536,
    ),  # noqa: E501
    Key(FLASH, "Page_No_Per_Block", _COUNT, "256", _read("pages of a block"), least=2, most=65_536),
    Key(
        FLASH,
        "Page_Program_Latency_CSB",
        _COUNT,
        "750000",
        _read("program time of TLC's second page type"),
        least=1,
        most=10**10,
    ),  # noqa: E501
    Key(
        FLASH,
        "Page_Program_Latency_LSB",
        _COUNT,
        "750000",
        _read("program time of the first page type"),
        least=1,
        most=10**10,
    ),  # noqa: E501
    Key(
        FLASH,
        "Page_Program_Latency_MSB",
        _COUNT,
        "750000",
        _read("program time of the last page type"),
        least=1,
        most=10**10,
    ),  # noqa: E501
    Key(FLASH, "Page_Read_Latency_CSB", _COUNT, "75000", _MEAN_READ, least=1, most=10**10),
    Key(FLASH, "Page_Read_Latency_LSB", _COUNT, "75000", _MEAN_READ, least=1, most=10**10),
    Key(FLASH, "Page_Read_Latency_MSB", _COUNT, "75000", _MEAN_READ, least=1, most=10**10),
    Key(
        FLASH,
        "Plane_No_Per_Die",
        _COUNT,
        "2",
        _near("the blocks of a die are one plane: its planes do not work at the same time"),
        least=1,
        most=64,  # noqa: E501
        by_value={"1": _read("a die is a plane")},
    ),
    Key(FLASH, "Suspend_Erase_Time", _COUNT, "700000", _NO_SUSPENSION),
    Key(FLASH, "Suspend_Program_Time", _COUNT, "100000", _NO_SUSPENSION),
)

_FLOW_KEYS = (
    Key(FLOWS, "Channel_IDs", Kind.NUMBERS, None, _IDS),
    Key(FLOWS, "Chip_IDs", Kind.NUMBERS, None, _IDS),
    Key(
        FLOWS,
        "Device_Level_Data_Caching_Mode",
        _WORD,
        None,
        _read("TURNED_OFF: no write cache"),
        ("TURNED_OFF", "READ_CACHE", "WRITE_CACHE", "WRITE_READ_CACHE"),
        {
            "READ_CACHE": _near("as TURNED_OFF: reads are not cached"),
            "WRITE_CACHE": _read("writes are cached"),
            "WRITE_READ_CACHE": _near("as WRITE_CACHE: only reads of pages that wait are cached"),
        },
    ),
    Key(FLOWS, "Die_IDs", Kind.NUMBERS, None, _IDS),
    Key(
        FLOWS,
        "Initial_Occupancy_Percentage",
        Kind.PERCENT,
        "0",
        _near(
            "with preconditioning: share of the device that is full, the mean of the flows, and at least what they reach"
        ),
    ),  # noqa: E501
    Key(FLOWS, "Plane_IDs", Kind.NUMBERS, None, _IDS),
    Key(FLOWS, "Priority_Class", _WORD, "HIGH", _NO_PRIORITY, ("URGENT", "HIGH", "MEDIUM", "LOW")),
)

_TRACE_KEYS = (
    Key(
        TRACE,
        "File_Path",
        Kind.PATH,
        None,
        _read("beside the workload file, or from the current folder"),
    ),  # noqa: E501
    Key(
        TRACE,
        "Percentage_To_Be_Executed",
        Kind.PERCENT,
        "100",
        _read("if Relay_Count is 1: so many of the first requests"),
    ),  # noqa: E501
    Key(
        TRACE,
        "Relay_Count",
        _COUNT,
        "1",
        _read("the trace so many times, each after the last request of the one before"),
        least=1,
        most=1_000_000,
    ),  # noqa: E501
    Key(
        TRACE,
        "Time_Unit",
        _WORD,
        "NANOSECOND",
        _near("times are nanoseconds, as MQSim takes them whatever is said"),  # noqa: E501
        ("PICOSECOND", "NANOSECOND", "MICROSECOND"),
        {"NANOSECOND": _read("times are nanoseconds")},
    ),
)

_SYNTHETIC_KEYS = (
    Key(
        SYNTHETIC,
        "Address_Alignment_Unit",
        _COUNT,
        "1",
        _near("requests lie at multiples of their size"),
    ),  # noqa: E501
    Key(
        SYNTHETIC,
        "Address_Distribution",
        _WORD,
        None,
        _read("sequential or random"),
        ("STREAMING", "RANDOM_UNIFORM", "RANDOM_HOTCOLD"),
        {"RANDOM_HOTCOLD": _not("nandlab's jobs have no hot region; use RANDOM_UNIFORM")},
    ),
    Key(
        SYNTHETIC,
        "Average_No_of_Reqs_in_Queue",
        _COUNT,
        None,
        _read("QUEUE_DEPTH: requests outstanding"),
        least=1,
        most=65_535,
    ),  # noqa: E501
    Key(
        SYNTHETIC,
        "Average_Request_Size",
        _COUNT,
        None,
        _read("sectors of a request"),
        least=1,
        most=2**16,
    ),  # noqa: E501
    Key(
        SYNTHETIC,
        "Bandwidth",
        _COUNT,
        None,
        _near("BANDWIDTH: requests at equal distances, not at random ones"),
        least=1,
        most=10**12,
    ),  # noqa: E501
    Key(
        SYNTHETIC,
        "Generated_Aligned_Addresses",
        _SWITCH,
        "true",
        _near("requests lie at multiples of their size"),
    ),  # noqa: E501
    Key(SYNTHETIC, "Intensity", _COUNT, None, _MISSPELT),
    Key(
        SYNTHETIC,
        "Percentage_of_Hot_Region",
        Kind.PERCENT,
        "0",
        _left("only RANDOM_HOTCOLD has a hot region"),
    ),  # noqa: E501
    Key(SYNTHETIC, "Read_Percentage", Kind.PERCENT, None, _read("share of reads")),
    Key(
        SYNTHETIC,
        "Request_Size_Distribution",
        _WORD,
        "FIXED",
        _read("every request has Average_Request_Size"),
        ("FIXED", "NORMAL"),  # noqa: E501
        {"NORMAL": _near("every request has Average_Request_Size")},
    ),
    Key(
        SYNTHETIC,
        "Seed",
        _COUNT,
        "0",
        _near("part of the seed; the numbers that are drawn are not MQSim's"),
        most=2**31 - 1,
    ),  # noqa: E501
    Key(
        SYNTHETIC,
        "Stop_Time",
        _COUNT,
        "0",
        _read("time after which no request is made, to the microsecond; 0: their number ends it"),
    ),  # noqa: E501
    Key(
        SYNTHETIC,
        "Synthetic_Generator_Type",
        _WORD,
        None,
        _read("QUEUE_DEPTH: a closed loop"),
        ("QUEUE_DEPTH", "BANDWIDTH"),  # noqa: E501
        {"BANDWIDTH": _near("requests at equal distances, not at random ones")},
    ),
    Key(SYNTHETIC, "Total_Requests_To_Generate", _COUNT, "0", _read("requests, if Stop_Time is 0")),
    Key(
        SYNTHETIC,
        "Variance_Request_Size",
        _COUNT,
        "0",
        _left("every request has Average_Request_Size"),
    ),  # noqa: E501
    Key(
        SYNTHETIC,
        "Working_Set_Percentage",
        _COUNT,
        "100",
        _read("share of the flow's part of the device that it reaches; outside 1 to 100: all"),
    ),  # noqa: E501
)

KEYS = _DEVICE_KEYS + _FLASH_KEYS + _HOST_KEYS + _SYNTHETIC_KEYS + _TRACE_KEYS + _FLOW_KEYS
"""All keys, by section and name; a section that two kinds of flow share comes last."""


def keys_of(section: str) -> dict[str, Key]:
    """Keys that may stand in a section, by name."""
    own = (section, FLOWS) if section in (SYNTHETIC, TRACE) else (section,)
    return {key.name: key for key in KEYS if key.section in own}


def table_lines() -> Iterator[str]:
    """The table of docs/mqsim.md, in Markdown, a line for each key and value with its own fate."""
    yield "| section | key | built-in value | becomes | how, or why not |"
    yield "|---|---|---|---|---|"
    for key in KEYS:
        default = "-" if key.default is None else f"`{key.default}`"
        head = f"| {key.section} | `{key.name}` | {default}"
        yield f"{head} | {key.outcome.fate} | {key.outcome.how} |"
        for value, outcome in sorted((key.by_value or {}).items()):
            yield f"| | `{key.name}` = `{value}` | | {outcome.fate} | {outcome.how} |"
