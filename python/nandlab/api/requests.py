"""Block traces replayed and converted, and tables of requests given to schedulers."""

import csv
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack

from nandlab.api.answer import Answer, csv_text
from nandlab.api.device_replay import DeviceReplay, on_device
from nandlab.api.given import Size, TraceReading, checked, text_of
from nandlab.errors import NandlabError

if TYPE_CHECKING:
    import polars


class Replay(Answer):
    """What one trace cost on one translation layer and chip."""

    @property
    def metrics(self) -> "polars.DataFrame":
        """Every metric: `metric`, `value`, `unit`."""
        return self.frame

    @property
    def counters(self) -> dict[str, int]:
        """Page reads, spare reads, page programs, spare programs and erases of the chip."""
        names = ("page_reads", "spare_reads", "page_programs", "spare_programs", "erases")
        found = {row["metric"]: row["value"] for row in self.rows}
        return {name: int(found.get(name) or 0) for name in names}

    @property
    def service_times(self) -> "polars.DataFrame":
        """The chip's time for a request, ns: `read`, `write` and `all` by percentile and maximum.

        The columns are `operation`, `requests`, `p50_ns`, `p90_ns`, `p99_ns`, `p999_ns`,
        `p9999_ns` and `max_ns`.
        """
        import polars

        rows = [{"operation": name, **one} for name, one in self.answer["service_times"].items()]
        return polars.DataFrame(rows)

    @property
    def wear(self) -> dict[str, float]:
        """What the metrics say of erases by block and of life."""
        words = ("erase_count", "wear", "lifetime")
        return {
            str(row["metric"]): row["value"]
            for row in self.rows
            if any(word in row["metric"] for word in words)
        }

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks of the engine."""
        return tuple(self.answer["notes"])


def replay(
    trace: str | Path,
    *,
    ftl: str | None = None,
    part: str | Path | None = None,
    settings: Mapping[str, Any] | None = None,
    blocks: int | None = None,
    logical_size: Size | None = None,
    address: Literal["error", "modulo", "clip"] = "error",
    passes: int | None = None,
    fill: bool = False,
    device: str | Path | None = None,
    scheduler: str | None = None,
    precondition: str | None = None,
    speed: float | None = None,
    closed_loop: bool = False,
    queue_depth: int | None = None,
    nr_requests: int | None = None,
    seed: int | None = None,
    timeline: str | Path | None = None,
    out: Path | str | None = None,
    **reading: Unpack[TraceReading],
) -> Replay | DeviceReplay:
    """Replay a block trace on a translation layer and a chip, or on a device in simulated time.

    Without `device` the chip's operations are counted, and there is no time. With it requests go
    through a scheduler to the device at the times of the trace, and latencies are measured.

    Raises `NandlabError` for bad input.

    Args:
        trace: Trace file, plain or compressed, or - for standard input.
        ftl: Use this translation layer (see `nandlab list ftls`). With --device: several between
            commas, in place of its own.
        part: Use this chip: a name (see `nandlab list parts`) or a part file.
        settings: Set a parameter of the layer, as NAME=VALUE. With --device: a key of the device,
            such as host.queue_depth=1. May be repeated.
        blocks: Replace the number of blocks of the part.
        logical_size: Set the size of the device, such as 100MiB. Without it: as much as fits.
        address: Choose what becomes of addresses past the end: error stops, modulo wraps them
            around, clip skips them.
        passes: Replay the trace this many times and count the last. Without it: once.
        fill: Write the whole device once before the trace, without counting it.
        device: Replay on this device: a name (see `nandlab list devices`) or a device file.
        scheduler: Use this scheduler (see `nandlab list schedulers`), or several between commas.
            Without it: noop. Needs --device.
        precondition: Write this before the trace: none, fill, random:PERCENT or steady (see
            docs/commands.md). Without it: steady. Needs --device.
        speed: Replay this many times as fast. Without it: 1. Needs --device.
        closed_loop: Ignore the times of the trace: keep --queue-depth requests outstanding. Needs
            --device.
        queue_depth: Keep this many requests outstanding. Without it: 32. Needs --closed-loop.
        nr_requests: Set the requests that the block layer holds, as in sysfs. Without it: 128.
            Needs --device.
        seed: Set the seed of the preconditioning. Without it: 1. Needs --device.
        timeline: Write what requests and dies did when into this file, which Perfetto opens. Needs
            --device.
        out: Write the metrics into this folder.

    """
    from nandlab import engine
    from nandlab.frame.run_directory import check_target

    timed = {
        "scheduler": scheduler,
        "precondition": precondition,
        "speed": speed,
        "closed_loop": closed_loop or None,
        "queue_depth": queue_depth,
        "nr_requests": nr_requests,
        "seed": seed,
        "timeline": timeline,
    }
    untimed = {"part": part, "blocks": blocks, "logical_size": logical_size, "passes": passes}
    if out is not None:
        check_target(Path(out))
    if device is not None:
        _refuse({**untimed, "fill": fill or None}, is_timed=True)
        return _kept(
            on_device(
                trace,
                device,
                ftl=ftl,
                scheduler=scheduler or "noop",
                precondition=precondition or "steady",
                speed=speed,
                closed_loop=closed_loop,
                queue_depth=queue_depth,
                nr_requests=nr_requests,
                seed=seed,
                timeline=timeline,
                settings=settings,
                address=address,
                reading=checked(reading),
            ),
            out,
        )
    _refuse(timed, is_timed=False)
    if ftl is None:
        raise NandlabError(
            "neither --ftl nor --device is given: name a translation layer, whose operations are "
            "counted, or a device, whose times are measured"
        )
    passes = 1 if passes is None else passes
    options: dict[str, Any] = {"ftl": ftl, "part": part, "settings": settings, "blocks": blocks}
    options |= {"address": address, "passes": passes, "fill": fill, **reading}
    given = checked({**options, "logical_size": logical_size})
    given["logical_bytes"] = given.pop("logical_size")
    answer = engine.replay(str(trace), given)
    answer["device"]["initial_state"] = _state(passes, fill=fill)
    metrics = answer["metrics"]
    answer["notes"] = [*answer.get("notes", ()), *_advice(metrics, fill=fill)]
    return _kept(Replay(answer, metrics, csv_text(("metric", "value", "unit"), metrics)), out)


_REPLACED = {
    "part": "a part of its own; set flash.part",
    "blocks": "blocks of its own; set flash.blocks",
    "logical_size": "a size of its own; set flash.capacity_bytes",
    "passes": "no passes; choose its state with --precondition",
    "fill": "no --fill; give --precondition fill",
}
"""What takes the place of an option of untimed replays on a device."""


def _refuse(given: Mapping[str, Any], *, is_timed: bool) -> None:
    """Raises `NandlabError` for the first option that this kind of replay does not have."""
    for name, value in given.items():
        if value is None:
            continue
        option = f"--{name.replace('_', '-')}"
        if is_timed:
            raise NandlabError(f"{option} does not go with --device, which has {_REPLACED[name]}")
        raise NandlabError(f"{option} needs --device: a replay on a chip alone has no time")


_Found = TypeVar("_Found", Replay, DeviceReplay)


def _kept(found: _Found, out: Path | str | None) -> _Found:
    """The answer, written into a folder if one is given."""
    from nandlab.outputs import keep

    if out is not None:
        try:
            keep(Path(out), partial(_write, found))
        except NandlabError as error:
            error.result = found
            raise
    return found


def _state(passes: int, *, fill: bool) -> str:
    """The history of the device before counting began, on which every cost depends."""
    done = ["every page written once"] if fill else []
    if passes > 1:
        done.append(f"the trace replayed {'once' if passes == 2 else f'{passes - 1} times'}")
    return ", then ".join(done) if done else "as delivered: erased"


def _advice(metrics: list[dict[str, Any]], *, fill: bool) -> list[str]:
    """Advice against reads of pages that were never written."""
    found = {row["metric"]: row["value"] for row in metrics}
    if fill or not found.get("unwritten_read_pages"):
        return []
    return [
        "--fill writes the whole device before the trace; --passes 2 replays the trace once before"
    ]


def _write(found: Replay | DeviceReplay, out: Path) -> None:
    from nandlab.frame.run_directory import MANIFEST, whole_folder
    from nandlab.json_text import json_text

    with whole_folder(out) as folder:
        text = json_text({"kind": "replay", **found.answer})
        (folder / MANIFEST).write_text(f"{text}\n", encoding="utf-8")
        (folder / "metrics.csv").write_bytes(found.text.encode())


def convert(source: str | Path, target: str | Path, **reading: Unpack[TraceReading]) -> Answer:
    """Convert a block trace to Parquet; the answer counts what is in it.

    Raises `NandlabError` for bad input.

    Args:
        source: Trace file, plain or compressed, or - for standard input.
        target: Parquet file to write, NAME.parquet.

    """
    from nandlab import engine
    from nandlab.outputs import check_file

    place = Path(target)
    check_file(place)
    if place.suffix.lower() != ".parquet":
        named = place.with_suffix(".parquet") if place.name else "trace.parquet"
        raise NandlabError(
            f"{target}: the name does not end in .parquet, and `convert` writes only Parquet; "
            f"write to {named}"
        )
    summary = engine.convert(source, place, checked(reading))
    return Answer(summary, summary.get("request_sizes", ()))


def schedule(
    requests: str | Path | None = None,
    *,
    scheduler: str,
    settings: Mapping[str, Any] | None = None,
    hz: int = 1000,
    service_us: int | None = None,
    device: str | Path | None = None,
    queue_depth: int | None = None,
    plug: Literal["none", "queue", "task"] = "none",
    nonrot: bool = False,
    sync_write_noidle: bool = False,
    harness: Literal["kernel", "scenario"] = "kernel",
    events: str | Path | None = None,
) -> Answer:
    """Give a table of requests to an I/O scheduler; the rows are its dispatches, in their order.

    Requests and events that hold a line break are the table itself.

    Raises `NandlabError` for bad input.

    Args:
        requests: CSV file, or - for standard input.
        scheduler: Use this scheduler (see `nandlab list schedulers`).
        settings: Set a tunable of the scheduler as in sysfs, as NAME=VALUE. May be repeated.
        hz: Set the timer ticks of the kernel in a second.
        service_us: Set the service time of every request, in microseconds. Without it: 1000.
        device: Use this device (see `nandlab list devices`) instead of a fixed service time.
        queue_depth: Set the number of requests at the device. Without it: 1, or the depth of
            --device.
        plug: Plug requests: queue as in Linux 2.6.29, task as in 3.x.
        nonrot: Mark the queue as non-rotational.
        sync_write_noidle: Set REQ_NOIDLE on synchronous writes, as fsync does.
        harness: Choose the order of equal times. kernel: arrivals first. scenario: completions and
            timers first, without merging.
        events: Read recorded events instead of REQUESTS, in the columns
            time_us,event,id,pid,op,sync,sector,sectors. The answer compares the requests chosen.

    """
    from nandlab import engine

    table = requests if events is None else events
    if table is None or (requests is not None and events is not None):
        raise NandlabError("requests are missing or given twice: give either REQUESTS or --events")
    if device is not None and service_us is not None:
        raise NandlabError("--device and --service-us exclude each other: give one")
    shown, text = text_of(table, "CSV file", "requests")
    options = {"scheduler": scheduler, "settings": settings, "hz": hz, "device": device}
    options |= {"service_us": 1000 if service_us is None else service_us, "plug": plug}
    options |= {"queue_depth": queue_depth, "nonrot": nonrot, "harness": harness}
    options |= {"sync_write_noidle": sync_write_noidle, "events": events is not None}
    answer = engine.schedule(shown, text, checked(options))
    rows = list(csv.DictReader(answer.splitlines()))
    return Answer(rows, rows, answer)
