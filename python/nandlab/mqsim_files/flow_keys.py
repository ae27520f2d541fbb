"""Keys of MQSim's flows."""

from nandlab.mqsim_files.key import FLOWS, SYNTHETIC, TRACE, Key, Kind, left, near, read

_COUNT, _WORD, _SWITCH = Kind.COUNT, Kind.WORD, Kind.SWITCH
_MISSPELT = left("MQSim does not read this name, and neither does nandlab")
_IDS = read("all flows of a scenario must list the same; the device is built of what they list")
_NO_PRIORITY = near(
    "flows share the device without priorities; those of one class do in MQSim, too"
)

FLOW_KEYS = (
    Key(FLOWS, "Channel_IDs", Kind.NUMBERS, None, _IDS),
    Key(FLOWS, "Chip_IDs", Kind.NUMBERS, None, _IDS),
    Key(
        FLOWS,
        "Device_Level_Data_Caching_Mode",
        _WORD,
        None,
        read("TURNED_OFF: no write cache"),
        ("TURNED_OFF", "READ_CACHE", "WRITE_CACHE", "WRITE_READ_CACHE"),
        {
            "READ_CACHE": near("as TURNED_OFF: reads are not cached"),
            "WRITE_CACHE": read("writes are cached"),
            "WRITE_READ_CACHE": near("as WRITE_CACHE: only reads of pages that wait are cached"),
        },
    ),
    Key(FLOWS, "Die_IDs", Kind.NUMBERS, None, _IDS),
    Key(
        FLOWS,
        "Initial_Occupancy_Percentage",
        Kind.PERCENT,
        "0",
        near(
            "with preconditioning: share of the device that is full, the mean of the flows, "
            "and at least what they reach"
        ),
    ),
    Key(FLOWS, "Plane_IDs", Kind.NUMBERS, None, _IDS),
    Key(FLOWS, "Priority_Class", _WORD, "HIGH", _NO_PRIORITY, ("URGENT", "HIGH", "MEDIUM", "LOW")),
)

TRACE_KEYS = (
    Key(
        TRACE,
        "File_Path",
        Kind.PATH,
        None,
        read("beside the workload file, or from the current folder"),
    ),
    Key(
        TRACE,
        "Percentage_To_Be_Executed",
        Kind.PERCENT,
        "100",
        read("if Relay_Count is 1: so many of the first requests"),
    ),
    Key(
        TRACE,
        "Relay_Count",
        _COUNT,
        "1",
        read("the trace so many times, each after the last request of the one before"),
        least=1,
        most=1_000_000,
    ),
    Key(
        TRACE,
        "Time_Unit",
        _WORD,
        "NANOSECOND",
        near("times are nanoseconds, as MQSim takes them whatever is said"),
        ("PICOSECOND", "NANOSECOND", "MICROSECOND"),
        {"NANOSECOND": read("times are nanoseconds")},
    ),
)

SYNTHETIC_KEYS = (
    Key(
        SYNTHETIC,
        "Address_Alignment_Unit",
        _COUNT,
        "1",
        near(
            "requests lie at multiples of their size; where each begins a page, only so much of a "
            "page is moved"
        ),
    ),
    Key(
        SYNTHETIC,
        "Address_Distribution",
        _WORD,
        None,
        read("sequential, random, or random with a hot region"),
        ("STREAMING", "RANDOM_UNIFORM", "RANDOM_HOTCOLD"),
    ),
    Key(
        SYNTHETIC,
        "Average_No_of_Reqs_in_Queue",
        _COUNT,
        None,
        read("QUEUE_DEPTH: requests outstanding"),
        least=1,
        most=65_535,
    ),
    Key(
        SYNTHETIC,
        "Average_Request_Size",
        _COUNT,
        None,
        read("sectors of a request"),
        least=1,
        most=2**16,
    ),
    Key(
        SYNTHETIC,
        "Bandwidth",
        _COUNT,
        None,
        near("BANDWIDTH: requests at equal distances, not at random ones"),
        least=1,
        most=10**12,
    ),
    Key(
        SYNTHETIC,
        "Generated_Aligned_Addresses",
        _SWITCH,
        "true",
        near(
            "requests lie at multiples of their size; where each begins a page, only so much of a "
            "page is moved"
        ),
    ),
    Key(SYNTHETIC, "Intensity", _COUNT, None, _MISSPELT),
    Key(
        SYNTHETIC,
        "Percentage_of_Hot_Region",
        Kind.PERCENT,
        "0",
        read("RANDOM_HOTCOLD: the rest of 100 % of the requests goes to so much of the pages"),
    ),
    Key(SYNTHETIC, "Read_Percentage", Kind.PERCENT, None, read("share of reads")),
    Key(
        SYNTHETIC,
        "Request_Size_Distribution",
        _WORD,
        "FIXED",
        read("every request has Average_Request_Size"),
        ("FIXED", "NORMAL"),
        {"NORMAL": near("every request has Average_Request_Size")},
    ),
    Key(
        SYNTHETIC,
        "Seed",
        _COUNT,
        "0",
        near("part of the seed; the numbers that are drawn are not MQSim's"),
        most=2**31 - 1,
    ),
    Key(
        SYNTHETIC,
        "Stop_Time",
        _COUNT,
        "0",
        read("time after which no request is made, to the microsecond; 0: their number ends it"),
    ),
    Key(
        SYNTHETIC,
        "Synthetic_Generator_Type",
        _WORD,
        None,
        read("QUEUE_DEPTH: a closed loop"),
        ("QUEUE_DEPTH", "BANDWIDTH"),
        {"BANDWIDTH": near("requests at equal distances, not at random ones")},
    ),
    Key(SYNTHETIC, "Total_Requests_To_Generate", _COUNT, "0", read("requests, if Stop_Time is 0")),
    Key(
        SYNTHETIC,
        "Variance_Request_Size",
        _COUNT,
        "0",
        left("every request has Average_Request_Size"),
    ),
    Key(
        SYNTHETIC,
        "Working_Set_Percentage",
        _COUNT,
        "100",
        read("share of the flow's part of the device that it reaches; outside 1 to 100: all"),
    ),
)
