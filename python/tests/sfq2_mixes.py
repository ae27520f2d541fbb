"""The random mixes of sfq2 in a running kernel, and how long each process waited in them.

`crates/host/sched/tests/data/sfq2-mixes.txt` has the mixes and the bound of each process, made by
the formula of `docs/sfq2.md` in Rust (`crates/host/sched/tests/all/sfq2_formula.rs`).
"""

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from kernel_lab import SOURCE, kernel_or_skip, program_or_skip, run_script

TABLE = Path(__file__).parents[2] / "crates/host/sched/tests/data/sfq2-mixes.txt"
DISK_BYTES = 256 << 20
DURATION_MS = 1500
DISK_NS = 2_000_000
"""Time of a request on the disks of sfq2-mixes.sh."""

SERVICE_NS = 3_000_000
"""What the bound allows a request on average. One alone may take longer: 3.3 ms was seen, where
the processor had several processes to begin."""

QUIET_NS = 10_000_000
"""Most that a quiet time takes: `grace` of 2 ms, and the next call of the block layer.

That call is due after 3 ms (BLK_MQ_BUDGET_DELAY, block/blk-mq-sched.c). With 250 ticks a second it
is a tick, and a timer of a tick ends with the second one at the latest: 8 ms.
"""

EVENT = re.compile(r": sfq2_(insert|dispatch|complete): \S+ (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Job:
    """A job of fair-load.c, and the bound of each of its processes."""

    words: str
    processes: int
    is_async: bool
    sectors: int
    services: int
    quiet_times: int

    @property
    def bound_ns(self) -> int:
        """The longest wait that the formula allows."""
        return self.services * SERVICE_NS + self.quiet_times * QUIET_NS


@dataclass(frozen=True)
class Mix:
    """A mix and the number of requests that its disk takes at a time."""

    number: int
    places: int
    jobs: tuple[Job, ...]

    @property
    def name(self) -> str:
        return f"mix-{self.number:02d}"

    def job_at(self, sector: int) -> Job:
        """Return the job whose process has this part of the disk."""
        processes = [job for job in self.jobs for _ in range(job.processes)]
        return processes[sector * 512 // (DISK_BYTES // len(processes) // 4096 * 4096)]


@dataclass(frozen=True)
class Waited:
    """How long the requests of a job waited at most, and what one of the mix took on average."""

    job: Job
    requests: int
    longest_ns: int
    service_ns: int

    @property
    def percent(self) -> int:
        """The longest wait as a part of the bound."""
        return 100 * self.longest_ns // self.job.bound_ns


def read_mixes(text: str) -> list[Mix]:
    """Read the table that the Rust test writes."""
    head, *lines = text.splitlines()
    rows = [dict(zip(head.split(), line.split(), strict=True)) for line in lines]
    return [
        Mix(int(number), int(own[0]["slots"]), tuple(_job(row) for row in own))
        for number, group in groupby(rows, lambda row: row["mix"])
        for own in [list(group)]
    ]


def _job(row: dict[str, str]) -> Job:
    words = ("direction", "processes", "threads", "depth", "block", "mode", "class", "life")
    return Job(
        words=",".join(row[word] for word in (*words, "level")),
        processes=int(row["processes"]),
        is_async=row["mode"] == "buffered",
        sectors=int(row["block"]) // 512,
        services=int(row["services"]),
        quiet_times=int(row["quiet_times"]),
    )


def run_mixes(mixes: list[Mix], modules: dict[str, Path], scratch: Path) -> dict[int, str]:
    """Run the mixes in one machine with Linux 6.12, and return the trace of each."""
    lines = [
        " ".join([mix.name, str(mix.places), str(DURATION_MS), *(job.words for job in mix.jobs)])
        for mix in mixes
    ]
    (scratch / "mixes").write_text("\n".join(lines) + "\n", encoding="utf-8")
    files = {
        "/mixes": scratch / "mixes",
        "/fair-load": program_or_skip("fair-load", scratch / "fair-load"),
    }
    script = (SOURCE / "tests" / "sfq2-mixes.sh").read_text(encoding="utf-8")
    out = scratch / "out"
    run_script(kernel_or_skip("6.12"), script, modules, out, files=files, programs=())
    return {mix.number: (out / f"{mix.name}.trace").read_text(encoding="utf-8") for mix in mixes}


@dataclass
class _Request:
    job: Job
    is_sync: bool
    inserted_ns: int
    sent_ns: int = 0
    done_ns: int = 0


def waits(mix: Mix, trace: str) -> list[Waited]:
    """Return what each job of a mix waited, from the insertion of a request to its end.

    A write of write-back counts for the job whose part of the disk it goes to.
    """
    requests = list(_requests(mix, trace))
    service_ns = _mean_service_ns(mix.places, requests)
    found = []
    for job in mix.jobs:
        own = [one for one in requests if one.job is job and one.is_sync != job.is_async]
        longest_ns = max((one.done_ns - one.inserted_ns for one in own), default=0)
        found.append(Waited(job, len(own), longest_ns, service_ns))
    return found


def _requests(mix: Mix, trace: str) -> Iterator[_Request]:
    """Yield the requests of a trace in the order of their ends."""
    by_tag: dict[str, _Request] = {}
    for event, text in EVENT.findall(trace):
        fields = dict(word.split("=") for word in text.split())
        tag, now_ns = fields["id"], int(fields["now"])
        if event == "insert":
            job = mix.job_at(int(fields["sector"]))
            assert int(fields["sectors"]) == job.sectors, f"{mix.name}: a request of another size"
            by_tag[tag] = _Request(job, fields["sync"] == "1", now_ns)
        elif event == "dispatch" and tag != "-1":
            by_tag[tag].sent_ns = now_ns
        elif event == "complete":
            request = by_tag.pop(tag)
            request.done_ns = now_ns
            yield request
    assert not by_tag, f"{mix.name}: requests without an end"


def _mean_service_ns(places: int, requests: list[_Request]) -> int:
    """Return the mean time from a place's taking a request to the end.

    Places take requests as they are sent, and end them in that order. So a request is taken when
    the one that is so many ends before it has ended.
    """
    before: deque[int] = deque([0] * places, places)
    total_ns = 0
    for request in requests:
        total_ns += request.done_ns - max(request.sent_ns, before[0])
        before.append(request.done_ns)
    return total_ns // max(1, len(requests))
