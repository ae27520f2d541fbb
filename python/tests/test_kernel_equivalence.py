"""The kernel's schedulers and the simulator's: the same request at every dispatch call.

Workloads are drawn at random, run in the machine on a disk slow enough for requests to queue, and
what the kernel's scheduler was asked and chose is replayed in the simulator.
"""

import random
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from kernel_lab import (
    SERIES,
    SOURCE,
    build_or_skip,
    kernel_or_skip,
    modules_or_skip,
    patched_source,
    program_or_skip,
    run_script,
)
from long_tests import IS_LONG

from nandlab.vm.recordings import (
    Comparison,
    Recording,
    RecordingError,
    compare,
    read_trace,
)

WORKLOADS = 22 if IS_LONG else 8
"""Of a scheduler and kernel: the first of those that the long run of the tests draws."""

LEAST_QUEUED = 16
CLOCK_READS_MAX = 0.01
"""The share of events at which a tick may come between the event and the scheduler's own look at
the clock. A tick is two million instructions, and a few thousand lie between the two."""

BYTES_OF_A_JOB = 24 << 20


@dataclass(frozen=True)
class Workload:
    """A disk and jobs for tests/load.c, and the scheduler with tunables that they run under."""

    name: str
    scheduler: str
    jobs: str
    tunables: dict[str, str]
    is_mounted: bool = False
    """The jobs are done in a file of ext4 on the disk."""


def draw_workload(scheduler: str, number: int) -> Workload:
    """Draw the processes of a workload, and tunables of the scheduler."""
    stream = random.Random(f"{scheduler} {number}")
    tunables = TUNABLES[scheduler](stream, number)
    return Workload(f"{scheduler}-{number:02d}", scheduler, draw_jobs(stream, number), tunables)


def _kyber_tunables(_stream: random.Random, _number: int) -> dict[str, str]:
    # So long that it never throttles, which would depend on the moment of each completion.
    return {"read_lat_nsec": "4000000000", "write_lat_nsec": "4000000000"}


def _mq_deadline_tunables(stream: random.Random, _number: int) -> dict[str, str]:
    return {
        "fifo_batch": stream.choice(["1", "4", "16"]),
        "front_merges": stream.choice(["0", "1"]),
        "read_expire": stream.choice(["40", "200", "500"]),
        "write_expire": stream.choice(["100", "500", "5000"]),
        "writes_starved": stream.choice(["1", "2", "3"]),
    }


def _sfq_tunables(stream: random.Random, number: int) -> dict[str, str]:
    tunables = {"fill": ("both", "writes", "none")[number % 3]}
    if stream.random() < 0.5:
        tunables |= {
            "sync_visits": str(stream.randint(1, 4)),
            "visit_requests": str(stream.randint(1, 6)),
            "visit_reads": str(stream.randint(1, 3)),
            "visit_writes": str(stream.randint(1, 3)),
        }
    if stream.random() < 0.5:
        # So short that the starvation check has something to do.
        tunables |= {
            "starvation_check": stream.choice(["5", "20", "30"]),
            "read_expire": stream.choice(["10", "50", "200"]),
            "write_expire": stream.choice(["20", "100", "400"]),
        }
    return tunables


def _sfq2_tunables(stream: random.Random, number: int) -> dict[str, str]:
    tunables = {}
    if number % 2:
        tunables |= {
            "visit_cost": stream.choice(["9", "36", "200"]),
            "sync_visits": str(stream.randint(1, 4)),
            "class_visits": str(stream.randint(1, 8)),
            "async_depth": str(stream.randint(1, 3)),
            "grace": stream.choice(["0", "2", "20"]),
        }
    if stream.random() < 0.5:
        # So short that many requests expire, and some writes are taken for slow.
        tunables |= {
            "expired_interval": stream.choice(["1", "3", "8"]),
            "read_expire": stream.choice(["10", "50", "200"]),
            "write_expire": stream.choice(["20", "100", "400"]),
            "cleaning_factor": stream.choice(["1", "2", "4"]),
            "cleaning_hold": stream.choice(["5", "50", "100"]),
        }
    return tunables


TUNABLES = {
    "kyber": _kyber_tunables,
    "mq-deadline": _mq_deadline_tunables,
    "sfq": _sfq_tunables,
    "sfq2": _sfq2_tunables,
}


def draw_jobs(stream: random.Random, number: int) -> str:
    """Draw the disk and the jobs of a workload, as words of a line for record.sh."""
    kinds = ["deep", "deep"]
    kinds += [stream.choice(["deep", "buffered", "single"]) for _ in range(stream.randint(0, 5))]
    if number % 2 == 0:
        kinds.append("buffered")
    jobs = [_job(stream, kind, place) for place, kind in enumerate(kinds)]
    return " ".join([stream.choice(["nullb0", "nullb1"]), *jobs])


def _job(stream: random.Random, kind: str, place: int) -> str:
    block = stream.choice([512, 4096, 16384, 65536])
    pattern = stream.choice(["r", "w", "rw"]) + stream.choice(["", "s"])
    depth = stream.choice([24, 48])
    count = stream.randint(60, 120)
    if place == 0:
        # Requests that do not merge, and so many that they queue whatever the others are.
        block, pattern = min(block, 16384), pattern.rstrip("s")
        depth, count = 48, 100
    elif kind == "single":
        depth, count = 1, count // 3
    elif kind == "buffered":
        # Write-back that nobody waits for is asynchronous.
        block, pattern, depth = max(block, 4096), "w", depth // 3
    parts = ["buffered" if kind == "buffered" else "direct", place * BYTES_OF_A_JOB]
    parts += [BYTES_OF_A_JOB, block, depth, count, pattern, stream.randrange(1 << 30)]
    return ",".join(str(part) for part in parts)


def record(
    series: str,
    modules: dict[str, Path],
    workloads: list[Workload],
    out: Path,
    *,
    processors: int = 1,
    kernel_arguments: str = "",
) -> Path:
    """Run the workloads in the machine and return the folder with the traces."""
    files = {"/load": program_or_skip("load", out.parent / "load")}
    out.mkdir(parents=True, exist_ok=True)
    for workload in workloads:
        settings = "".join(f"{name} {value}\n" for name, value in workload.tunables.items())
        texts = {"jobs": f"{workload.jobs}\n", "scheduler": workload.scheduler, "set": settings}
        if workload.is_mounted:
            texts["mount"] = ""
        for kind, text in texts.items():
            path = out / f"{workload.name}.{kind}"
            path.write_text(text)
            files[f"/workloads/{path.name}"] = path
    script = (SOURCE / "tests" / "record.sh").read_text()
    has_mounts = any(workload.is_mounted for workload in workloads)
    run_script(
        kernel_or_skip(series),
        script,
        modules,
        out,
        files=files,
        programs=("mkfs.ext4",) if has_mounts else (),
        more_modules=("ext4",) if has_mounts else (),
        processors=processors,
        kernel_arguments=kernel_arguments,
    )
    return out


def recording_of(traces: Path, workload: Workload) -> Recording:
    return read_trace((traces / f"{workload.name}.trace").read_text())


@pytest.mark.parametrize(
    "schedulers",
    [("sfq",), ("sfq2",), ("mq-deadline", "kyber")],
    ids=["sfq", "sfq2", "mq-deadline-and-kyber"],
)
@pytest.mark.parametrize("series", SERIES)
def test_kernel_and_simulator_choose_the_same_requests(
    series: str,
    schedulers: tuple[str, ...],
    tmp_path: Path,
    engine_is_built: None,
    capsys: pytest.CaptureFixture[str],
) -> None:
    modules = modules_or_skip(kernel_or_skip(series))
    workloads = [draw_workload(name, number) for name in schedulers for number in range(WORKLOADS)]
    traces = record(series, modules, workloads, tmp_path / "out")
    for scheduler in schedulers:
        own = [workload for workload in workloads if workload.scheduler == scheduler]
        recordings = [recording_of(traces, workload) for workload in own]
        comparisons: list[Comparison] = []
        for workload, recording in zip(own, recordings, strict=True):
            assert recording.dispatches == recording.completes
            assert recording.most_queued > LEAST_QUEUED, workload
            tunables: dict[str, object] = dict(workload.tunables)
            simulated = f"{scheduler}-{series}" if scheduler == "mq-deadline" else scheduler
            comparison = compare(workload.name, recording, simulated, tunables)
            assert comparison.differences == [], workload
            comparisons.append(comparison)
        clock_reads = sum(comparison.clock_reads for comparison in comparisons)
        events = sum(recording.inserts + recording.dispatches for recording in recordings)
        assert clock_reads <= CLOCK_READS_MAX * events
        late = [recording for recording in recordings if recording.late_share > 0.3]
        assert len(late) >= WORKLOADS / 2
        with capsys.disabled():
            print(
                f"\nLinux {series} {scheduler}: {WORKLOADS} workloads,",
                f"{sum(recording.dispatches for recording in recordings)} dispatch calls alike,",
                f"{sum(recording.merges for recording in recordings)} merges,",
                f"{min(recording.most_queued for recording in recordings)} to",
                f"{max(recording.most_queued for recording in recordings)} queued at once,",
                f"{len(late)} workloads with more than 30 % of inserts after the first dispatch,",
                f"{sum(comparison.moved_inserts for comparison in comparisons)} inserts and",
                f"{sum(comparison.later_calls for comparison in comparisons)} calls as of a tick",
                "that came between the event and the scheduler's look at the clock",
            )


def test_a_module_that_never_visits_a_queue_decides_otherwise(
    tmp_path: Path, engine_is_built: None
) -> None:
    kernel = kernel_or_skip("6.12")
    source = patched_source("never-visits-a-queue.patch", tmp_path / "source")
    modules = build_or_skip(kernel, tmp_path / "build", source)
    # The starvation check serves the queue, so that the processes come to an end. Where it serves
    # the others too it hides the mistake, so there are several workloads.
    often = {"starvation_check": "25", "read_expire": "100", "write_expire": "100"}
    drawn = [replace(draw_workload("sfq", number), tunables=often) for number in range(4)]
    traces = record("6.12", modules, drawn, tmp_path / "out")
    recordings = [(workload.name, recording_of(traces, workload)) for workload in drawn]
    tunables: dict[str, object] = dict(often)
    assert any(
        compare(name, recording, "sfq", tunables).differences for name, recording in recordings
    )


def test_a_trace_becomes_a_table_of_events() -> None:
    trace = """
 kworker [000] ..... 3.0: sfq_exit: 252,1 now=9900 pid=90
 fio-91 [000] ..... 3.1: sfq_insert: 252,0 now=1000 id=4 pid=91 op=R sync=1 sector=8 sectors=8
 fio-91 [000] ..... 3.2: sfq_insert: 252,0 now=2000 id=5 pid=91 op=W sync=0 sector=80 sectors=8
 fio-91 [000] ..... 3.3: sfq_merge: 252,0 now=2500 id=4 pid=91 op=R sync=1 sector=16 sectors=1
 fio-91 [000] ..... 3.4: sfq_dispatch: 252,0 now=3001 id=4
 fio-91 [000] ..... 3.5: sfq_complete: 252,0 now=9000 id=4
 fio-91 [000] ..... 3.6: sfq_dispatch: 252,0 now=8000 id=-1
 fio-91 [000] ..... 3.7: sfq_exit: 252,0 now=9000 pid=91
"""
    recording = read_trace(trace)
    assert recording.table.splitlines() == [
        "time_us,event,id,pid,op,sync,sector,sectors",
        "1.000,insert,4,91,R,1,8,8",
        "2.000,insert,5,91,W,0,80,8",
        "2.500,merge,4,91,R,1,16,1",
        "3.001,dispatch,4,,,,,",
        "3.001,complete,4,,,,,",
        "8.000,dispatch,,,,,,",
        "9.000,exit,,91,,,,",
    ]
    assert (recording.inserts, recording.dispatches, recording.empty_dispatches) == (2, 1, 1)
    assert (recording.most_queued, recording.late_share) == (2, 0.0)


# fifo_batch is 1. After 20 the kernel goes on with the next sector, 22, unless the oldest, 21, has
# expired. At 40 ms it would have, if its insertion were as of the tick that the probe saw.
TICK_AFTER_THE_EVENT = """
 l [0] 1: sched_recorder: insert: 252,0 now=0 id=20 pid=9 op=R sync=1 sector=100 sectors=8
 l [0] 1: sched_recorder: insert: 252,0 now=0 id=21 pid=9 op=R sync=1 sector=5000 sectors=8
 l [0] 1: sched_recorder: insert: 252,0 now=4000000 id=22 pid=9 op=R sync=1 sector=200 sectors=8
 l [0] 1: sched_recorder_dispatch: dispatch: 252,0 now=4000000 id=20 end=4000000 expires=40000000
 l [0] 1: sched_recorder_dispatch: dispatch: 252,0 now=40000000 id=22 end=40000000 expires=44000000
 l [0] 1: sched_recorder_dispatch: dispatch: 252,0 now=40000000 id=21 end=44000000 expires=44000000
"""


@pytest.mark.parametrize(("expires", "moved", "alike"), [("44000000", 1, True), ("0", 0, False)])
def test_an_insert_is_as_of_the_tick_that_the_kernel_saw(
    expires: str, moved: int, alike: bool, engine_is_built: None
) -> None:
    *lines, last = TICK_AFTER_THE_EVENT.splitlines()
    lines.append(last.replace("expires=44000000", f"expires={expires}"))
    settings: dict[str, object] = {"read_expire": "40", "fifo_batch": "1"}
    comparison = compare("tick", read_trace("\n".join(lines)), "mq-deadline-6.1", settings)
    assert (comparison.moved_inserts, comparison.differences == []) == (moved, alike)


def test_a_call_may_be_decided_as_of_the_tick_at_its_return(engine_is_built: None) -> None:
    # Now 21 has expired when the second call returns.
    trace = """
 l [0] 1: sched_recorder: insert: 252,0 now=0 id=20 pid=9 op=R sync=1 sector=100 sectors=8
 l [0] 1: sched_recorder: insert: 252,0 now=0 id=21 pid=9 op=R sync=1 sector=5000 sectors=8
 l [0] 1: sched_recorder: insert: 252,0 now=0 id=22 pid=9 op=R sync=1 sector=200 sectors=8
 l [0] 1: sched_recorder_dispatch: dispatch: 252,0 now=0 id=20 end=0 expires=40000000
 l [0] 1: sched_recorder_dispatch: dispatch: 252,0 now=36000000 id=21 end=40000000 expires=40000000
"""
    settings: dict[str, object] = {"read_expire": "40", "fifo_batch": "1"}
    comparison = compare("tick", read_trace(trace), "mq-deadline-6.1", settings)
    assert comparison == Comparison([], 0, 1)
    without = trace.replace("end=40000000", "end=36000000")
    assert compare("tick", read_trace(without), "mq-deadline-6.1", settings).differences


def test_a_trace_that_lost_events_is_refused() -> None:
    first = " fio [0] 3.1: sfq_insert: 252,0 now=1 id=4 pid=9 op=R sync=1 sector=8 sectors=8\n"
    with pytest.raises(RecordingError):
        read_trace(first + "CPU:0 [LOST 5 EVENTS]")
