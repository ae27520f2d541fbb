"""Has the engine carry out a case on a device, once, under several schedulers."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nandlab import engine
from nandlab.cases.measured import Watched
from nandlab.cases.schema import Case, CaseJob, Place
from nandlab.toml_text import toml_value

if TYPE_CHECKING:
    import polars

KNOW_PROCESSES = frozenset({"sfq", "sfq2"})
"""Schedulers to which threads of a process are one: their modules look at the thread group
(`task_tgid` in kernel/sfq). bfq has a queue for each thread, the others have none of either."""

_FIRST_PID = 1000
"""Number of the first process of a run (crates/lab/study/src/jobs/run.rs)."""

_WHOLE_S = 3600
"""Longer than any run: all of it is kept."""


@dataclass(frozen=True)
class Run:
    """A case on a device, with the schedulers that see the same processes."""

    study: str
    sets: Sequence[str]
    case: Case
    place: Place
    runtime_ms: int
    schedulers: tuple[str, ...]
    seed: int
    jobs: int

    @property
    def runtime_ns(self) -> int:
        """Nanoseconds after which no process makes another request."""
        return self.runtime_ms * 1_000_000


def grouped(schedulers: Sequence[str], case: Case) -> Iterator[tuple[str, ...]]:
    """Schedulers that see the same processes in a case: threads are one process to some."""
    if all(job.threads == 1 for job in case.job):
        yield tuple(schedulers)
        return
    for knows in (True, False):
        if group := tuple(one for one in schedulers if (one in KNOW_PROCESSES) is knows):
            yield group


def carry_out(run: Run, progress: engine.Progress | None) -> dict[str, Watched] | None:
    """What was measured under each scheduler; none if it was stopped."""
    sets = [
        *run.sets,
        f"axes.device={run.place.device}",
        f"axes.scheduler={','.join(run.schedulers)}",
        "repeats=1",
        f"timeline={{ seconds = {_WHOLE_S}, axes = {{}} }}",
        f"job={toml_value(list(engine_jobs(run)))}",
    ]
    answer = engine.run_study(
        run.study, sets, run.seed, quick=False, jobs=run.jobs, progress=progress
    )
    if answer["interrupted"]:
        return None
    requests, rows = answer["frames"]["requests"], answer["frames"]["rows"]
    found = {}
    for scheduler in run.schedulers:
        of_scheduler = requests.filter(requests["scheduler"] == scheduler)
        values = rows.filter(rows["scheduler"] == scheduler)
        found[scheduler] = _watched(
            run, of_scheduler, dict(zip(values["metric"], values["value"], strict=True))
        )
    return found


def engine_jobs(run: Run) -> Iterator[dict[str, Any]]:
    """The jobs of a case in the keys of the engine's `[[job]]`.

    The engine has no process that is followed by another one. So as many as live at a time come
    together, each for one request, as often as the place says.
    """
    has_short = any(job.is_short_lived for job in run.case.job)
    runtime = {"runtime": f"{run.runtime_ms}ms"}
    for job in run.case.job:
        processes, depth = job.processes * _processes_of_threads(job, run), job.iodepth
        if processes == job.processes:
            depth *= job.threads
        plain: dict[str, Any] = {
            "name": job.name,
            "processes": processes,
            "iodepth": depth,
            "rw": job.rw,
            "bs": job.bs,
            "mode": job.mode,
            "prioclass": job.prioclass,
        }
        # Parts of their own would differ by how many short-lived processes there are.
        shared = {"private": False} if has_short else {}
        if not job.is_short_lived:
            yield plain | runtime | shared
            continue
        every_us = run.place.short_every_us
        for start_us in range(every_us, run.runtime_ms * 1000, every_us):
            yield plain | shared | {"requests": 1, "startdelay": f"{start_us}us"}


def _processes_of_threads(job: CaseJob, run: Run) -> int:
    return 1 if run.schedulers[0] in KNOW_PROCESSES else job.threads


def _watched(run: Run, requests: "polars.DataFrame", values: Mapping[str, float]) -> Watched:
    """What one scheduler did, of the table of its requests."""
    import polars

    end = polars.col("start_ns") + polars.col("latency_ns")
    in_time = requests.filter(end <= run.runtime_ns).group_by("pid").len()
    done = dict(zip(in_time["pid"], in_time["len"], strict=True))
    first = run.case.job[0]
    pid, rates = _FIRST_PID, []
    for job in run.case.job if run.case.is_shared else ():
        threads = _processes_of_threads(job, run)
        for _ in range(job.processes):
            of_process = sum(done.get(pid + thread, 0) for thread in range(threads))
            rates.append(of_process * 1e9 / run.runtime_ns)
            pid += threads
    watched = range(_FIRST_PID, _FIRST_PID + first.processes)
    latencies = requests.filter(polars.col("pid").is_in(list(watched)))["latency_ns"].sort()
    disk_requests, elapsed_ns = sum(done.values()), run.runtime_ns
    if run.case.has_write_back:
        # What the page cache writes is in no process's requests. The bios have it.
        bios = values.get("read_bios", 0) + values.get("write_bios", 0)
        disk_requests = round(bios * run.runtime_ns / values["simulated_ns"])
    return Watched(
        tuple(latencies.to_list()),
        sum(done.get(pid, 0) for pid in watched),
        elapsed_ns,
        disk_requests,
        tuple(rates),
    )
