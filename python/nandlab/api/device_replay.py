"""Block traces through a scheduler on a device, in simulated time."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nandlab.api.answer import Answer, csv_text, frame_of
from nandlab.api.runs import setting_text
from nandlab.byte_sizes import natural_number
from nandlab.errors import NandlabError

if TYPE_CHECKING:
    import polars

_PPM = 1_000_000
"""Millionths of the time of a trace: the precision of a speed."""

_SPEED_MAX = 1_000_000
_PERCENTILES = ("p50_ns", "p90_ns", "p99_ns", "p999_ns", "p9999_ns", "max_ns")
_COLUMNS = ("ftl", "scheduler", "operation", "requests", "iops", "mean_ns", *_PERCENTILES)


class DeviceReplay(Answer):
    """What became of one trace on each stack of a device."""

    @property
    def latencies(self) -> "polars.DataFrame":
        """By layer, scheduler and operation: requests, IOPS, mean, percentiles, maximum."""
        return self.frame

    @property
    def sizes(self) -> "polars.DataFrame":
        """The same by size: `up_to_bytes` is that of the longest request of a class."""
        return self._of_runs("sizes")

    @property
    def bands(self) -> "polars.DataFrame":
        """What the requests between two percentiles waited for, as shares that add up to 1."""
        rows = [
            {**_stack(run), **{key: value for key, value in band.items() if key != "shares"}}
            | {part: band["shares"][part] for part in self.answer["parts"]}
            for run in self.answer["runs"]
            for band in run["bands"]
        ]
        return frame_of(rows)

    def _of_runs(self, key: str) -> "polars.DataFrame":
        runs = self.answer["runs"]
        return frame_of([{**_stack(run), **row} for run in runs for row in run[key]])


def _stack(run: Mapping[str, Any]) -> dict[str, Any]:
    return {"ftl": run["ftl"] or "-", "scheduler": run["scheduler"]}


def on_device(
    trace: str | Path,
    device: str | Path,
    *,
    ftl: str | None,
    scheduler: str,
    precondition: str,
    speed: float | None,
    closed_loop: bool,
    queue_depth: int | None,
    nr_requests: int | None,
    seed: int | None,
    timeline: str | Path | None,
    settings: Mapping[str, Any] | None,
    address: str,
    reading: Mapping[str, Any],
) -> DeviceReplay:
    """Replays a trace on a device, with the options of `replay`."""
    from nandlab import engine
    from nandlab.outputs import check_file

    if closed_loop and speed is not None:
        raise NandlabError(
            "--speed and --closed-loop exclude each other: a closed loop has no times; give one"
        )
    if queue_depth is not None and not closed_loop:
        raise NandlabError(
            "--queue-depth needs --closed-loop: the times of the trace decide how many requests "
            "are outstanding; add --closed-loop, or leave it out"
        )
    arguments = {
        "device": str(device),
        "changes": {key: setting_text(one) for key, one in (settings or {}).items()},
        "ftls": _names("--ftl", ftl) if ftl else [],
        "schedulers": _names("--scheduler", scheduler),
        "precondition": precondition,
        "time_ppm": None if closed_loop else _time_ppm(1 if speed is None else speed),
        "queue_depth": _count("--queue-depth", queue_depth, 32) if closed_loop else None,
        "address": address,
        "nr_requests": _count("--nr-requests", nr_requests, 128),
        "timeline": None if timeline is None else str(timeline),
        "seed": 1 if seed is None else natural_number("--seed", seed, least=0, bits=64),
    }
    if timeline is not None:
        check_file(Path(timeline))
    answer = engine.replay_on_device(trace, arguments, reading)
    rows = [
        {
            **_stack(run),
            "operation": operation,
            "requests": found["requests"],
            "iops": found["requests"] * 1e9 / max(run["elapsed_ns"], 1),
            **{key: found[key] for key in ("mean_ns", *_PERCENTILES)},
        }
        for run in answer["runs"]
        for operation in ("read", "write", "flush", "discard")
        if (found := run["latencies"].get(operation))
    ]
    return DeviceReplay(answer, rows, csv_text(_COLUMNS, rows))


def _names(option: str, text: str) -> list[str]:
    """Names between commas, each once."""
    names = list(dict.fromkeys(name.strip() for name in text.split(",")))
    if not all(names):
        raise NandlabError(f"{option}: `{text}` has an empty name; give names between commas")
    return names


def _count(option: str, given: int | None, otherwise: int) -> int:
    return otherwise if given is None else natural_number(option, given, least=1, bits=16)


def _time_ppm(speed: float) -> int:
    """Millionths of the time of the trace that a replay at this speed takes."""
    if not 1 / _SPEED_MAX <= speed <= _SPEED_MAX:
        raise NandlabError(
            f"--speed: {speed:g} must lie between 0.000001 and {_SPEED_MAX}; 2 is twice as fast"
        )
    # At the greatest speed one millionth is left; above, times would all be 0.
    return max(1, min(round(_PPM / speed), 2**32 - 1))
