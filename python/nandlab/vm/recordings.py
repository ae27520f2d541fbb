"""What a real kernel's scheduler was asked and chose, for `nandlab schedule --events`."""

import re
from dataclasses import dataclass, field

from nandlab import engine
from nandlab.errors import NandlabError

_LINE = re.compile(
    r": (?:sfq_|sched_recorder: )(?P<event>[a-z]+): (?P<device>\d+,\d+) (?P<fields>.*)$"
)
_HEAD = "time_us,event,id,pid,op,sync,sector,sectors"


class RecordingError(Exception):
    """The recording is not whole, or holds what the table of events cannot say."""


@dataclass
class Recording:
    """A recording, and what is worth knowing of it.

    `table` is in the form of `nandlab schedule --events`. `most_queued` is the largest number of
    requests that were queued at once, `late_inserts` that of inserts after the first dispatch.
    """

    table: str = ""
    inserts: int = 0
    merges: int = 0
    dispatches: int = 0
    empty_dispatches: int = 0
    completes: int = 0
    late_inserts: int = 0
    most_queued: int = 0
    processes: set[int] = field(default_factory=set)
    later_ns: dict[int, int] = field(default_factory=dict)
    """Lines of dispatch calls during which the kernel's tick came, and the time of the return."""

    @property
    def late_share(self) -> float:
        """The share of inserts that came after the first dispatch."""
        return self.late_inserts / max(1, self.inserts)


def read_trace(text: str) -> Recording:
    """Turn the text of a trace buffer into a recording.

    The events are those of the module `sfq-iosched`, or of `sched-recorder`, which watches the
    schedulers that come with the kernel.

    Events of other sources are left out, and those of other disks than the first one a request is
    inserted for. Raises `RecordingError` when the kernel lost events, or
    joined two queued requests, which the table of events has no word for.
    """
    recording = Recording()
    rows = [_HEAD]
    last_ns = 0
    queued = 0
    device = None
    for line in text.splitlines():
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
        if event == "absorb":
            raise RecordingError(f"two queued requests were joined: {line.strip()}")
        now_ns = int(fields["now"])
        # Completions come from interrupts, and are not in the order of the scheduler's lock.
        last_ns = max(last_ns, now_ns) if event != "complete" else last_ns
        name = fields.get("id", "")
        if event == "insert":
            recording.inserts += 1
            recording.late_inserts += recording.dispatches > 0
            recording.processes.add(int(fields["pid"]))
            queued += 1
            recording.most_queued = max(recording.most_queued, queued)
        elif event == "merge":
            recording.merges += 1
        elif event == "complete":
            recording.completes += 1
        elif event == "dispatch" and name == "-1":
            recording.empty_dispatches += 1
            name = ""
        elif event == "dispatch":
            recording.dispatches += 1
            queued -= 1
        if event == "dispatch" and int(fields.get("sector", "0")) > last_ns:
            recording.later_ns[len(rows) + 1] = int(fields["sector"])
        if event in ("complete", "dispatch"):
            fields = {}
        place = [fields.get(column, "") for column in ("pid", "op", "sync", "sector", "sectors")]
        rows.append(",".join([_microseconds(last_ns), event, name, *place]))
    recording.table = "\n".join(rows) + "\n"
    return recording


def differences(
    name: str, recording: Recording, scheduler: str, settings: dict[str, object], hz: int = 250
) -> list[str]:
    """Replay a recording in the simulator, and return the dispatch calls it decides otherwise.

    Each is a line `line,time_us,id,recorded` of the answer of `nandlab schedule --events`, or the
    reason why it cannot follow the recording further. A call during which the tick came may be
    decided as of either time.
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
    later_ns = dict(recording.later_ns)
    while True:
        first, found = _replay(name, rows, arguments)
        if first not in later_ns:
            return found
        _, rest = rows[first - 1].split(",", 1)
        rows[first - 1] = f"{_microseconds(later_ns.pop(first))},{rest}"


def _replay(name: str, rows: list[str], arguments: dict[str, object]) -> tuple[int, list[str]]:
    """Return the first line decided otherwise, 0 if there is none, and all there are."""
    try:
        answer = engine.schedule(name, "\n".join(rows) + "\n", arguments).splitlines()[1:]
    except NandlabError as parted:
        since = re.search(r"differ since line (\d+)", str(parted))
        return int(since[1]) if since else 0, [str(parted)]
    found = [line for line in answer if _differs(line)]
    return int(found[0].split(",")[0]) if found else 0, found


def _differs(line: str) -> bool:
    _, _, chosen, recorded = line.split(",")
    return chosen != recorded


def _microseconds(time_ns: int) -> str:
    return f"{time_ns // 1000}.{time_ns % 1000:03d}"
