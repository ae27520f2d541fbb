"""`nandlab serve`, `nandlab serve-ctl` and `nandlab serve-replay`."""

import sys
import time as clock
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from nandlab.api import serving as api
from nandlab.api.answer import Answer
from nandlab.cli.action import Given, command, parse_settings
from nandlab.errors import NandlabError
from nandlab.present.units import estimate_text, large_size, number, percent
from nandlab.terminal.output import counted, print_json, print_text
from nandlab.terminal.tables import Column, print_facts, print_rows, text_column

_LOOK_S = 0.1
"""How often the command looks whether the server stops, and draws the screen."""

_KINDS = ("read", "write", "flush", "trim")
_POINTS = ("p50_ns", "p99_ns", "max_ns")


def serve(
    *,
    listen: Annotated[list[str], Parameter(negative=())],
    device: str | None = None,
    ftl: str | None = None,
    settings: Annotated[list[str] | None, Parameter(name="--set", negative=())] = None,
    capacity: str | None = None,
    precondition: str = "fill",
    seed: int = 1,
    export: Annotated[list[str] | None, Parameter(negative=())] = None,
    time: str = "real",
    cut_after: tuple[float, api.Counted] | None = None,
    cut_on: Literal["SIGUSR1", "SIGUSR2"] | None = None,
    control: Path | None = None,
    metrics: str | None = None,
    log: Path | None = None,
    image: Path | None = None,
    bytes_in: Path | None = None,
    allow_remote: Annotated[bool, Parameter(negative=())] = False,
    json: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Offer a simulated device to NBD clients: QEMU, nbdcopy, fio or the kernel.

    The device stores bytes, answers when the real one would, and can lose its power. It runs until
    Ctrl-C, SIGTERM or `nandlab serve-ctl stop`, then prints a report. docs/serve.md describes
    clients, times, power cuts and logs.

    Parameters
    ----------
    listen
        Listen at this address: unix:PATH or tcp:ADDRESS:PORT. Repeat it for more.
    device
        Use this device (see `nandlab list devices`), or the device of this .toml file. Without it:
        the device of --image.
    ftl
        Use this translation layer instead of the device's own.
    settings
        Replace this key of the device, such as --set cache.bytes=0.
    capacity
        Make the device smaller, with the same share of spare blocks.
    precondition
        Write this before clients come: none, fill, random:PERCENT or steady. It reads as zeros.
    seed
        Set the seed of the preconditioning and of the device.
    export
        Offer the device under this name. Repeat it for more. Without it: the empty name.
    time
        Send replies at this pace: real (when the device would answer), none (at once) or
        scaled:FACTOR (so many times slower).
    cut_after
        Fail the power supply after so many programs, erases, flushes or simulated seconds, such as
        `--cut-after 100 programs`.
    cut_on
        Fail the power supply when this signal comes.
    control
        Take commands on this socket file. Without it: PATH.ctl of the first unix:PATH.
    metrics
        Show the state at this address (tcp:ADDRESS:PORT or unix:PATH) over HTTP, in the text format
        of Prometheus.
    log
        Record every request and power cut in this file, for `nandlab serve-replay`.
    image
        Keep the device in this file from one server to the next: bytes, wear and bad blocks.
    bytes_in
        Keep the bytes of pages in an unnamed file in this folder, not in memory.
    allow_remote
        Listen at addresses that other machines reach. NBD asks for no password.
    json
        Print the report as JSON.

    """
    if allow_remote:
        print("nandlab: whoever reaches the address can read and write the device", file=sys.stderr)
    _tell(_making(device, precondition, image))
    served = api.serve(
        device,
        listen=listen,
        ftl=ftl,
        settings=parse_settings(settings or ()),
        capacity=capacity,
        precondition=precondition,
        seed=seed,
        export=export or (),
        time=time,
        cut_after=cut_after,
        control=control,
        metrics=metrics,
        log=log,
        image=image,
        bytes_in=bytes_in,
        allow_remote=allow_remote,
    )
    try:
        with _cuts_on(cut_on, served):
            # Who reads this may send the signal at once.
            print(_listening(served), flush=True, file=sys.stderr if json else sys.stdout)
            _wait(served)
    finally:
        # Also after Ctrl-C: a run without its report would be lost.
        status, statistics = served.status(), served.statistics()
        digest, failure = served.end()
        report = {"status": status, **statistics, "digest": digest}
        if json:
            print_json("serve", report)
        else:
            _print_report(report)
        if failure:
            # Also after a signal: whoever sent it believes that all is kept.
            raise NandlabError(failure)
    return 0


def _making(device: str | None, precondition: str, image: Path | None) -> str:
    if image is not None and image.exists():
        return f"opening {image} ..."
    return f"making {device} ({precondition}) ..."


def _tell(text: str) -> None:
    """On a terminal only: a large device takes some seconds to make."""
    if sys.stderr.isatty():
        print(text, file=sys.stderr)


def _listening(served: api.ServedDevice) -> str:
    metrics = served.metrics_address
    told = "" if metrics is None else f", metrics at {metrics}"
    return f"listening at {', '.join(served.addresses)}{told}"


@contextmanager
def _cuts_on(name: str | None, served: api.ServedDevice) -> Iterator[None]:
    if name is None:
        yield
        return
    import signal

    before = signal.signal(signal.Signals[name], lambda *_: served.cut())
    try:
        yield
    finally:
        signal.signal(signal.Signals[name], before)


def _wait(served: api.ServedDevice) -> None:
    """Until the server stops; on a terminal with a line that shows what it does."""
    if not sys.stderr.isatty():
        while not served.is_stopping:
            clock.sleep(_LOOK_S)
        return
    from rich.console import Console
    from rich.live import Live

    before, then = served.statistics(), clock.monotonic()
    with Live(console=Console(stderr=True), transient=True, auto_refresh=False) as live:
        shown_at = 0.0
        while not served.is_stopping:
            clock.sleep(_LOOK_S)
            now = clock.monotonic()
            if now - shown_at < 5 * _LOOK_S:
                continue
            found = served.statistics()
            live.update(_screen(served.status(), before, found, now - then), refresh=True)
            before, then, shown_at = found, now, now


def _screen(
    status: Mapping[str, Any], before: Mapping[str, Any], found: Mapping[str, Any], seconds: float
) -> str:
    """What the device does at this moment, in two lines."""
    old, new = before["totals"], found["totals"]
    per_s = [(a - b) / seconds for a, b in zip(new["requests"], old["requests"], strict=True)]
    mib_per_s = [(a - b) / seconds / 2**20 for a, b in zip(new["bytes"], old["bytes"], strict=True)]
    power = "on" if status["is_on"] else "OFF"
    amplification = found["write_amplification"]
    p99 = [estimate_text(points[1], "ns") for points in new["latency_ns"][:2]]
    erases = found["erases"]
    wear = "" if erases is None else f"   erases {erases[0]} to {erases[2]} a block"
    return (
        f"power {power}   clients {status['connections']}   cuts {status['cuts']}   "
        f"late {new['late']:,}\n"
        f"read {per_s[0]:,.0f} IOPS {mib_per_s[0]:,.1f} MiB/s p99 {p99[0]}   "
        f"write {per_s[1]:,.0f} IOPS {mib_per_s[1]:,.1f} MiB/s p99 {p99[1]}\n"
        f"write amplification {'-' if amplification is None else number(amplification)}   "
        f"cleaned {found['cleaned_blocks']:,} blocks   free {found['free_blocks']:,}{wear}"
    )


def _print_report(report: Mapping[str, Any]) -> None:
    totals = report["totals"]
    rows = [
        {
            "kind": kind,
            "requests": totals["requests"][place],
            "bytes": totals["bytes"][place] if place < len(totals["bytes"]) else None,
            **dict(zip(_POINTS, totals["latency_ns"][place], strict=True)),
        }
        for place, kind in enumerate(_KINDS)
        if totals["requests"][place]
    ]
    if rows:
        print_rows("Requests, in simulated time", _REQUESTS, rows)
    for line in _sentences(report):
        print_text(line)


def _time_of(key: str) -> Callable[[Any], str]:
    return lambda row: estimate_text(row[key], "ns")


_REQUESTS = (
    text_column("kind"),
    Column("requests", "requests"),
    text_column("moved", lambda row: "-" if row["bytes"] is None else large_size(row["bytes"])),
    text_column("p50", _time_of("p50_ns")),
    text_column("p99", _time_of("p99_ns")),
    text_column("longest", _time_of("max_ns")),
)


def _sentences(report: Mapping[str, Any]) -> list[str]:
    """What there is to say beside the table; nothing of what did not happen."""
    totals, status = report["totals"], report["status"]
    told = []
    answered = sum(totals["requests"])
    clients = counted(status["accepted"], "client")
    told.append(f"{clients}, {counted(answered, 'request')} answered.")
    if totals["failed"]:
        told.append(f"{counted(totals['failed'], 'request')} failed.")
    if status["broken"]:
        told.append(f"{counted(status['broken'], 'connection')} broke the protocol.")
    if status["cuts"]:
        told.append(f"The power failed {counted(status['cuts'], 'time')}.")
    late, lateness = totals["late"], totals["lateness_ns"]
    if answered and lateness[2]:
        told.append(
            f"Replies left {estimate_text(lateness[0], 'ns')} late in the median, "
            f"{estimate_text(lateness[1], 'ns')} at p99; {late:,} "
            f"({percent(late / answered)}) left more than 100 µs late."
        )
    if report["write_amplification"] is not None:
        reads, programs, erases = report["chip_operations"]
        told.append(
            f"Write amplification {number(report['write_amplification'])}: "
            f"{counted(reads, 'page read')}, {counted(programs, 'program')}, "
            f"{counted(erases, 'erase')}."
        )
    told.append(f"Digest of the chips: {report['digest']}")
    return told


@command("serve-ctl", api.serve_ctl)
def serve_ctl(found: Answer, given: Given) -> None:
    """Send a command to a device that `nandlab serve` offers.

    A power cut ends all connections and tears the operations under way. After restore clients may
    connect again.
    """
    print_facts(given["command"], _facts(found.answer))


def _facts(answer: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Values by their names, those of parts behind the name of the part."""
    facts: dict[str, Any] = {}
    for key, value in answer.items():
        name = prefix + key.replace("_", " ")
        if isinstance(value, Mapping):
            facts |= _facts(value, f"{name} ")
        elif value is not None:
            facts[name] = json_text(value) if isinstance(value, list) else value
    return facts


def json_text(value: object) -> str:
    """A list in a line."""
    import json

    return json.dumps(value)


@command("serve-replay", api.serve_replay)
def serve_replay(found: Answer, given: Given) -> None:
    """Carry the log of `nandlab serve` out again, and compare the digest of the chips.

    The exit status is 1 if the digest differs from the one that the log ends with.
    """
    print_facts(given["log"], _facts(found.answer))
