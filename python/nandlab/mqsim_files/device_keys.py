"""Keys of MQSim's configuration of host, device and flash."""

from itertools import permutations

from nandlab.mqsim_files.key import DEVICE, FLASH, HOST, Key, Kind, left, near, read, refused

_COUNT, _WORD, _SWITCH, _SHARE = Kind.COUNT, Kind.WORD, Kind.SWITCH, Kind.SHARE
_NO_SUSPENSION = left("nothing interrupts a program or an erase here, nor does in MQSim")
_DRAM = near(
    "synthetic flows: time before a write is in the cache, one after the other if no flow reads"
)
_NO_DRAM = left("a write to the cache is taken as if it lay in one row")
_NO_LOG = left("a log of response times; the answer has percentiles")
_MISSPELT = left("MQSim does not read this name, and neither does nandlab")
_READ_TIME = near(
    "read time of the page type; where LSB is not the fastest, all pages take the mean of the types"
)

HOST_KEYS = (
    Key(HOST, "Enable_ResponseTime_Logging", _SWITCH, "false", _NO_LOG),
    Key(
        HOST,
        "PCIe_Lane_Bandwidth",
        Kind.DECIMAL,
        "0.4",
        read("times lanes: bytes a second of the host's bus"),
    ),
    Key(HOST, "PCIe_Lane_Count", _COUNT, "4", read("see PCIe_Lane_Bandwidth"), least=1, most=64),
    Key(HOST, "ResponseTime_Logging_Period_Length", _COUNT, "400000", _NO_LOG),
    Key(
        HOST,
        "SATA_Processing_Delay",
        _COUNT,
        "0",
        near(
            "SATA: time before the data of a command, once a command, and not once a message; "
            "NVMe: not used"
        ),
        most=10**9,
    ),
)

DEVICE_KEYS = (
    Key(
        DEVICE,
        "Address_Mapping",
        _WORD,
        "PAGE_LEVEL",
        read("the layer `page`"),
        ("PAGE_LEVEL", "HYBRID"),
        {"HYBRID": refused("MQSim has no code behind it; use PAGE_LEVEL")},
    ),
    Key(
        DEVICE,
        "CMT_Capacity",
        _COUNT,
        "2097152",
        near("where the mapping table is cached: its entries, the same share for each chip"),
    ),
    Key(
        DEVICE,
        "CMT_Sharing_Mode",
        _WORD,
        "SHARED",
        near("where the mapping table is cached, flows share the cache"),
        ("SHARED", "EQUAL_PARTITIONING"),
    ),
    Key(
        DEVICE,
        "Caching_Mechanism",
        _WORD,
        "ADVANCED",
        near("a write cache that holds pages on their way to the dies"),
        ("SIMPLE", "ADVANCED"),
    ),
    Key(
        DEVICE,
        "Channel_Transfer_Rate",
        _COUNT,
        "300",
        near("time a byte, in whole nanoseconds as MQSim cuts it; commands take no time"),
        least=1,
        most=1_000,
    ),
    Key(
        DEVICE,
        "Chip_No_Per_Channel",
        _COUNT,
        "4",
        read("dies of a channel here: a chip does one thing at a time, as in MQSim"),
        least=1,
        most=64,
    ),
    Key(
        DEVICE,
        "Data_Cache_Capacity",
        _COUNT,
        "536870912",
        near(
            "bytes of the write cache; at most a page of each plane if the pages that most writes "
            "go to do not fit: MQSim's writes wait from there on"
        ),
        most=2**40,
    ),
    Key(DEVICE, "Data_Cache_DRAM_Data_Busrt_Size", _COUNT, "4", _DRAM, least=1),
    Key(DEVICE, "Data_Cache_DRAM_Data_Rate", _COUNT, "800", _DRAM, least=1),
    Key(DEVICE, "Data_Cache_DRAM_Row_Size", _COUNT, "8192", _NO_DRAM),
    Key(DEVICE, "Data_Cache_DRAM_tCL", _COUNT, "13", _DRAM, most=10**6),
    Key(DEVICE, "Data_Cache_DRAM_tRCD", _COUNT, "13", _DRAM, most=10**6),
    Key(DEVICE, "Data_Cache_DRAM_tRP", _COUNT, "13", _NO_DRAM),
    Key(
        DEVICE,
        "Data_Cache_Sharing_Mode",
        _WORD,
        "SHARED",
        read("flows share one cache"),
        ("SHARED", "EQUAL_PARTITIONING"),
        {"EQUAL_PARTITIONING": near("flows share one cache all the same")},
    ),
    Key(
        DEVICE,
        "Dynamic_Wearleveling_Enabled",
        _SWITCH,
        "true",
        read("the least worn free block is used first"),
    ),
    Key(
        DEVICE,
        "Enabled_Preconditioning",
        _SWITCH,
        "true",
        near(
            "the pages that flows fill are written once, then twice as many at random; random "
            "flows fill 90 % at most, as in MQSim"
        ),
        by_value={
            "false": near(
                "an empty device if no flow reads; else pages that flows can reach are written "
                "first, and cleaning takes no time where MQSim's empty device would not clean"
            )
        },
    ),
    Key(DEVICE, "Flash_Channel_Count", _COUNT, "8", read("channels"), least=1, most=64),
    Key(
        DEVICE,
        "Flash_Channel_Width",
        _COUNT,
        "1",
        read("divides the time a byte"),
        least=1,
        most=64,
    ),
    Key(
        DEVICE,
        "Flash_Comm_Protocol",
        _WORD,
        "NVDDR2",
        read("time of data by Channel_Transfer_Rate"),
        ("NVDDR2",),
    ),
    Key(
        DEVICE,
        "GC_Block_Selection_Policy",
        _WORD,
        "RGA",
        read("cleaning: greedy, random, fifo; RGA: d-choices among log2 of the blocks of a plane"),
        ("GREEDY", "RGA", "RANDOM", "RANDOM_P", "RANDOM_PP", "FIFO"),
        {
            "RANDOM_P": near("as RANDOM: blocks with valid pages only are not passed over"),
            "RANDOM_PP": near("as RANDOM: blocks with many valid pages are not passed over"),
        },
    ),
    Key(
        DEVICE,
        "GC_Exec_Threshold",
        _SHARE,
        "0.05",
        near(
            "cleaning within writes while two thirds of so many blocks of a die are free, as "
            "measured in MQSim, which cleans beside the writes"
        ),
    ),
    Key(DEVICE, "GC_Exect_Threshold", _SHARE, None, _MISSPELT),
    Key(
        DEVICE,
        "GC_Hard_Threshold",
        _SHARE,
        "0.005",
        left("writes wait for cleaning from GC_Exec_Threshold on"),
    ),
    Key(
        DEVICE,
        "HostInterface_Type",
        _WORD,
        "NVME",
        read("NVMe: no time for a command; SATA: SATA_Processing_Delay"),
        ("NVME", "SATA"),
    ),
    Key(
        DEVICE,
        "IO_Queue_Depth",
        _COUNT,
        "1024",
        read("commands outstanding"),
        least=2,
        most=65_535,
    ),
    Key(
        DEVICE,
        "Ideal_Mapping_Table",
        _SWITCH,
        "false",
        near(
            "the table is cached in part by the layer `dftl` where nothing is cleaned: without "
            "preconditioning, few writes, no trace; else the whole is in memory, as with true"
        ),
        by_value={"true": read("the whole mapping table is in memory")},
    ),
    Key(DEVICE, "Memory_Type", _WORD, "FLASH", read("flash"), ("FLASH",)),
    Key(DEVICE, "Overprovisioning_Ratio", _SHARE, "0.07", read("share of the pages that is spare")),
    Key(
        DEVICE,
        "Plane_Allocation_Scheme",
        _WORD,
        "CWDP",
        near("pages are spread over the channels first, then over their dies"),
        tuple(sorted("".join(order) for order in permutations("CWDP"))),
    ),
    Key(
        DEVICE,
        "Preemptible_GC_Enabled",
        _SWITCH,
        "true",
        near("no request goes before the cleaning of its die"),
        by_value={"false": read("no request goes before the cleaning of its die")},
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
        read("commands of each flow that the device works on; 1,024 at most of all"),
        least=1,
        most=65_535,
    ),
    Key(
        DEVICE,
        "Seed",
        _COUNT,
        "123",
        near("part of the seed; the numbers that are drawn are not MQSim's"),
        most=2**31 - 1,
    ),
    Key(
        DEVICE,
        "Static_Wearleveling_Enabled",
        _SWITCH,
        "true",
        near("cold data moves when erase counts of a die differ, as the layer `page` does it"),
        by_value={"false": read("cold data stays")},
    ),
    Key(
        DEVICE,
        "Static_Wearleveling_Threshold",
        _COUNT,
        "100",
        read("difference of erase counts"),
        least=1,
        most=1_000_000,
    ),
    Key(
        DEVICE,
        "Transaction_Scheduling_Policy",
        _WORD,
        "OUT_OF_ORDER",
        near("each chip serves its commands in their order; MQSim's read before they write"),
        ("FLIN", "OUT_OF_ORDER", "PRIORITY_OUT_OF_ORDER"),
        {"FLIN": refused("MQSim builds no such scheduler; use OUT_OF_ORDER")},
    ),
    Key(DEVICE, "Use_Copyback_for_GC", _SWITCH, "false", read("copies leave the channel alone")),
)

FLASH_KEYS = (
    Key(
        FLASH,
        "Block_Erase_Latency",
        _COUNT,
        "3800000",
        read("time of an erase"),
        least=1,
        most=10**10,
    ),
    Key(
        FLASH,
        "Block_No_Per_Plane",
        _COUNT,
        "2048",
        read("times planes and dies: blocks of a chip"),
        least=8,
        most=2**20,
    ),
    Key(
        FLASH,
        "Block_PE_Cycles_Limit",
        _COUNT,
        "10000",
        left("nothing fails in such a run, and MQSim uses no limit either"),
    ),
    Key(
        FLASH,
        "CMD_Suspension_Support",
        _WORD,
        "ERASE",
        read("nothing interrupts a program or an erase here, nor does in MQSim"),
        ("NONE", "ERASE", "PROGRAM", "PROGRAM_ERASE"),
    ),
    Key(
        FLASH,
        "Die_No_Per_Chip",
        _COUNT,
        "2",
        near("dies of a chip take turns, as in MQSim; their blocks are those of one die here"),
        least=1,
        most=64,
        by_value={"1": read("a chip is a die")},
    ),
    Key(
        FLASH,
        "Flash_Technology",
        _WORD,
        "MLC",
        read("how many page types there are"),
        ("SLC", "MLC", "TLC"),
        {"TLC": near("page types follow one another; MQSim's first and last pages differ")},
    ),
    Key(
        FLASH,
        "Page_Capacity",
        _COUNT,
        "8192",
        read("bytes of a page; those that no request asks for are not moved, as in MQSim"),
        least=512,
        most=2**20,
    ),
    Key(
        FLASH,
        "Page_Metadat_Capacity",
        _COUNT,
        "1872",
        near("spare bytes of a page; at least 64, and their transfer takes no time, as in MQSim"),
        most=65_536,
    ),
    Key(FLASH, "Page_No_Per_Block", _COUNT, "256", read("pages of a block"), least=2, most=65_536),
    Key(
        FLASH,
        "Page_Program_Latency_CSB",
        _COUNT,
        "750000",
        read("program time of TLC's second page type"),
        least=1,
        most=10**10,
    ),
    Key(
        FLASH,
        "Page_Program_Latency_LSB",
        _COUNT,
        "750000",
        read("program time of the first page type"),
        least=1,
        most=10**10,
    ),
    Key(
        FLASH,
        "Page_Program_Latency_MSB",
        _COUNT,
        "750000",
        read("program time of the last page type"),
        least=1,
        most=10**10,
    ),
    Key(FLASH, "Page_Read_Latency_CSB", _COUNT, "75000", _READ_TIME, least=1, most=10**10),
    Key(FLASH, "Page_Read_Latency_LSB", _COUNT, "75000", _READ_TIME, least=1, most=10**10),
    Key(FLASH, "Page_Read_Latency_MSB", _COUNT, "75000", _READ_TIME, least=1, most=10**10),
    Key(
        FLASH,
        "Plane_No_Per_Die",
        _COUNT,
        "2",
        near("planes of a die take turns; MQSim joins commands to pages of one number"),
        least=1,
        most=64,
        by_value={"1": read("a die is a plane")},
    ),
    Key(FLASH, "Suspend_Erase_Time", _COUNT, "700000", _NO_SUSPENSION),
    Key(FLASH, "Suspend_Program_Time", _COUNT, "100000", _NO_SUSPENSION),
)
