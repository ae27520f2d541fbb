"""What a real kernel's scheduler was asked and chose, for `nandlab schedule --events`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from nandlab import engine
from nandlab.errors import NandlabError

_LINE = re.compile(
    r": (?:(?P<irq_safe>sfq2_)|sfq_|sched_recorder(?:_dispatch)?: )(?P<event>[a-z]+): "
    r"(?P<device>\d+,\d+) (?P<fields>.*)$"
)
_HEAD = "time_us,event,id,pid,op,sync,sector,sectors"
_MORE_COLUMNS = "absorbed,place,mergeable,zone,ioprio"
_OP = _HEAD.split(",").index("op")
_TAGS_MAX = 10240
"""`BLK_MQ_MAX_DEPTH` (include/linux/blk-mq.h): numbers of requests a hardware queue has here."""

_CLASS_SHIFT = 13
_LEVELS_MASK = 7
_CLASSES = ("", "rt", "be", "idle")
"""Parts of a priority as the kernel keeps it (include/uapi/linux/ioprio.h)."""

_COUNTED = {
    "absorb": "absorbs",
    "complete": "completes",
    "dispatch": "dispatches",
    "join": "joins",
    "merge": "merges",
    "requeue": "requeues",
}
"""Events, and the fields of a recording that count them."""

_MQ_DEADLINE_MS = {"read_expire": 500, "write_expire": 5000}
"""Defaults of block/mq-deadline.c, `read_expire` and `write_expire`."""


class RecordingError(Exception):
    """The recording is not whole, or holds what the table of events cannot say."""


@dataclass(frozen=True)
class Comparison:
    """Where the simulator decides otherwise, and how often the kernel's clock decided what.

    `differences` are lines `line,time_us,id,recorded` of the answer of `nandlab schedule --events`,
    or the reason why it cannot follow the recording further. `moved_inserts` are those at which the
    tick came between the event and the kernel's own look at the clock, `later_calls` dispatch calls
    that are decided alike only as of their return.
    """

    differences: list[str]
    moved_inserts: int
    later_calls: int

    @property
    def clock_reads(self) -> int:
        """Events at which the kernel saw a later tick than the recorder."""
        return self.moved_inserts + self.later_calls


@dataclass
class Recording:
    """A recording, and what is worth knowing of it.

    `table` is in the form of `nandlab schedule --events`. `most_queued` is the largest number of
    requests that were queued at once, `late_inserts` that of inserts after the first dispatch.
    `merges` counts bios and `joins` requests of plugs that became part of a queued request,
    `absorbs` queued requests that became part of another one. `unmergeable` are inserts that are
    joined with nothing, `at_head` those that went past the queues, `discards` those of discards,
    `zoned` those of writes that need a zone for themselves.
    """

    table: str = ""
    inserts: int = 0
    merges: int = 0
    joins: int = 0
    absorbs: int = 0
    requeues: int = 0
    discards: int = 0
    unmergeable: int = 0
    at_head: int = 0
    zoned: int = 0
    dispatches: int = 0
    empty_dispatches: int = 0
    completes: int = 0
    late_inserts: int = 0
    most_queued: int = 0
    processes: set[int] = field(default_factory=set)
    hardware_queues: set[int] = field(default_factory=set)
    later_ns: dict[int, int] = field(default_factory=dict)
    """Lines of dispatch calls during which the kernel's tick came, and the time of the return."""

    expires_ns: dict[int, int] = field(default_factory=dict)
    """Lines of inserts, and when mq-deadline itself took their requests for expired."""

    @property
    def late_share(self) -> float:
        """The share of inserts that came after the first dispatch."""
        return self.late_inserts / max(1, self.inserts)


def read_trace(text: str, *, has_nanoseconds: bool = False) -> Recording:
    """Turn the text of a trace buffer into a recording.

    The events are those of the modules `sfq-iosched` and `sfq2-iosched`, or of `sched-recorder`,
    which watches the schedulers that come with the kernel.

    With `has_nanoseconds` the clock of the recording is finer than the tick, as it is for bfq. Then
    a completion has a time of its own, and events are sorted by time.

    Events of other sources are left out, and those of other disks than the first one a request is
    inserted for. Raises `RecordingError` when the kernel lost events.
    """
    recording = Recording()
    rows: list[str] = []
    more_cells: list[str] = []
    inserted_at: dict[str, int] = {}
    last_ns = 0
    queued = 0
    device = None
    lines = text.splitlines()
    if has_nanoseconds:
        # A call is written down when it returns, but decides soon after its entry.
        lines.sort(key=_recorded_ns)
    for line in lines:
        if "LOST" in line and "EVENTS" in line:
            raise RecordingError(f"the kernel lost events: {line.strip()}")
        match = _LINE.search(line)
        if match is None:
            continue
        event = match["event"]
        if device is None and event == "insert":
            device = match["device"]
        if match["device"] != device:
            continue
        fields = dict(part.split("=", 1) for part in match["fields"].split())
        now_ns = int(fields["now"])
        # Completions come from interrupts, and only sfq2 takes its lock there: those of the others
        # are not in the order of the lock. With a clock in nanoseconds all events are sorted by it.
        if has_nanoseconds or event != "complete" or match["irq_safe"]:
            last_ns = max(last_ns, now_ns)
        name = fields.get("id", "")
        number = len(rows) + 2
        if event == "insert":
            inserted_at[name] = number
            _count_insert(recording, fields)
        elif event == "dispatch" and name == "-1":
            recording.empty_dispatches += 1
            name = ""
        elif event in _COUNTED:
            setattr(recording, _COUNTED[event], getattr(recording, _COUNTED[event]) + 1)
        queued += (event in ("insert", "requeue")) - (event == "absorb")
        queued -= event == "dispatch" and name != ""
        recording.most_queued = max(recording.most_queued, queued)
        if event == "dispatch":
            if int(fields.get("end", "0")) > last_ns:
                recording.later_ns[number] = int(fields["end"])
            if expires_ns := int(fields.get("expires", "0")):
                recording.expires_ns[inserted_at[name]] = expires_ns
        if event in ("complete", "dispatch"):
            fields = {}
        of_bio = [fields.get(column, "") for column in ("pid", "op", "sync", "sector", "sectors")]
        rows.append(",".join([_microseconds(last_ns), event, name, *of_bio]))
        more_cells.append(",".join(_more_cells(event, fields)))
    if any(cells.strip(",") for cells in more_cells):
        rows = [f"{row},{cells}" for row, cells in zip(rows, more_cells, strict=True)]
        rows.insert(0, f"{_HEAD},{_MORE_COLUMNS}")
    else:
        rows.insert(0, _HEAD)
    recording.table = "\n".join(rows) + "\n"
    return recording


def _count_insert(recording: Recording, fields: Mapping[str, str]) -> None:
    recording.inserts += 1
    recording.late_inserts += recording.dispatches > 0
    recording.processes.add(int(fields["pid"]))
    recording.hardware_queues.add(int(fields["id"]) // _TAGS_MAX)
    recording.discards += fields["op"] == "D"
    recording.unmergeable += fields.get("mergeable") == "0"
    recording.at_head += fields.get("at_head") == "1"
    recording.zoned += fields.get("zone", "-1") != "-1"


def _more_cells(event: str, fields: Mapping[str, str]) -> list[str]:
    """The cells of a row in the columns that not all tables have."""
    at_head = fields.get("at_head")
    place = ""
    if at_head == "1":
        place = "head"
    elif event == "requeue":
        place = "tail"
    # The simulator joins everything that can be joined unless it is told otherwise.
    mergeable = "0" if fields.get("mergeable") == "0" else ""
    zone = fields.get("zone", "-1").replace("-1", "")
    priority = _priority(int(fields.get("ioprio", "0"), 0))
    return [fields.get("absorbed", ""), place, mergeable, zone, priority]


def _priority(ioprio: int) -> str:
    """Class and level in the words of the table; none for a process that set none."""
    name = _CLASSES[ioprio >> _CLASS_SHIFT]
    return f"{name}/{ioprio & _LEVELS_MASK}" if name else ""


def compare(
    name: str, recording: Recording, scheduler: str, settings: dict[str, object], hz: int = 250
) -> Comparison:
    """Replay a recording in the simulator, and return the dispatch calls it decides otherwise.

    The kernel's schedulers read the clock a little after the event that is recorded, and the tick
    may come in between. An insert is taken as of the tick from which mq-deadline counted its
    expiry.
    A call during which the tick came may be decided as of either time: an expiry is passed once and
    for all, so that nothing else can have been decided.
    """
    arguments: dict[str, object] = {
        "scheduler": scheduler,
        "settings": settings,
        "hz": hz,
        "service_us": 1000,
        "device": None,
        "queue_depth": None,
        "plug": "none",
        "nonrot": True,
        "sync_write_noidle": False,
        "harness": "kernel",
        "events": True,
    }
    rows = recording.table.splitlines()
    moved_inserts = _move_inserts(rows, recording, settings, hz)
    later_ns = dict(recording.later_ns)
    while True:
        first, found = _replay(name, rows, arguments)
        if first not in later_ns:
            return Comparison(found, moved_inserts, len(recording.later_ns) - len(later_ns))
        _, rest = rows[first - 1].split(",", 1)
        rows[first - 1] = f"{_microseconds(later_ns.pop(first))},{rest}"


def _move_inserts(
    rows: list[str], recording: Recording, settings: Mapping[str, object], hz: int
) -> int:
    """Set inserts to the tick that the kernel saw, and return how many have moved.

    A request that another one has joined may have that one's earlier expiry
    (block/mq-deadline.c, `dd_merged_requests`), which says nothing of its own insertion.
    """
    tick_ns = 1_000_000_000 // hz
    moved = 0
    for line, expires_ns in recording.expires_ns.items():
        cells = rows[line - 1].split(",")
        tunable = "read_expire" if cells[_OP] == "R" else "write_expire"
        expire_ms = int(str(settings.get(tunable, _MQ_DEADLINE_MS[tunable])))
        inserted_ns = expires_ns - -(-expire_ms * hz // 1000) * tick_ns
        if inserted_ns > _nanoseconds(cells[0]):
            rows[line - 1] = ",".join([_microseconds(inserted_ns), *cells[1:]])
            moved += 1
    if moved:
        # A completion between the event and the look at the clock has the time of the event.
        last_ns = 0
        for place, row in enumerate(rows[1:], 1):
            time, rest = row.split(",", 1)
            last_ns = max(last_ns, _nanoseconds(time))
            rows[place] = f"{_microseconds(last_ns)},{rest}"
    return moved


def _replay(name: str, rows: list[str], arguments: dict[str, object]) -> tuple[int, list[str]]:
    """Return the first line decided otherwise, 0 if there is none, and all there are."""
    try:
        answer = engine.schedule(name, "\n".join(rows) + "\n", arguments).splitlines()[1:]
    except NandlabError as parted:
        since = re.search(r"differ since line (\d+)", str(parted))
        return int(since[1]) if since else 0, [str(parted)]
    found = [line for line in answer if _differs(line)]
    return int(found[0].split(",")[0]) if found else 0, found


def _recorded_ns(line: str) -> int:
    found = re.search(r" now=(\d+) ", f"{line} ")
    return int(found[1]) if found else 0


def _differs(line: str) -> bool:
    _, _, chosen, recorded = line.split(",")
    return chosen != recorded


def _microseconds(time_ns: int) -> str:
    return f"{time_ns // 1000}.{time_ns % 1000:03d}"


def _nanoseconds(time_us: str) -> int:
    whole, _, fraction = time_us.partition(".")
    return int(whole) * 1000 + int(fraction)
