"""A simulated device for real clients, over NBD."""

import json
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from nandlab.api.answer import Answer
from nandlab.api.given import Size
from nandlab.api.runs import setting_text
from nandlab.byte_sizes import natural_number, parse_bytes
from nandlab.errors import NandlabError

if TYPE_CHECKING:
    from nandlab._native import RunningServer

Counted = Literal["programs", "erases", "seconds", "flushes"]
"""What a power cut may count."""

Command = Literal["cut", "restore", "status", "stats", "stop"]

_NS_PER_S = 1_000_000_000
_FACTOR_MAX = 1_000_000
_CONTROL_TIMEOUT_S = 60
"""A recovery of a large device takes some seconds of the host."""


class ServedDevice:
    """A device at work for its clients. As a context manager it stops at the end of the block."""

    def __init__(self, server: "RunningServer") -> None:
        """Keep the server of the engine."""
        self._server = server
        self._failure: str | None = None
        self.digest: str | None = None
        """Digest of what the chips hold, once the server has stopped."""

    @property
    def addresses(self) -> tuple[str, ...]:
        """Where clients connect, as unix:PATH or tcp:ADDRESS:PORT."""
        return tuple(self._server.addresses())

    @property
    def metrics_address(self) -> str | None:
        """Where Prometheus reads, if `metrics` was given."""
        return self._server.metrics_address()

    @property
    def is_stopping(self) -> bool:
        """True once the server stopped by itself, or was told to on its control socket."""
        return self._server.is_stopping()

    def status(self) -> dict[str, Any]:
        """Power, cuts, connections and simulated time."""
        return dict(json.loads(self._server.status()))

    def statistics(self) -> dict[str, Any]:
        """Requests, latencies in simulated time, lateness, and what the chips did."""
        return dict(json.loads(self._server.statistics()))

    def cut(self) -> None:
        """Fail the power supply now: connections end, and operations under way are torn."""
        self._server.cut()

    def restore(self) -> dict[str, Any]:
        """Give the power back; returns what the recovery took."""
        return dict(json.loads(self._server.restore()))

    def stop(self) -> str:
        """End all connections and the log; returns the digest of what the chips hold.

        Raises `NandlabError` if the log could not be written: the server stopped then.
        """
        digest, failure = self.end()
        if failure is not None:
            raise NandlabError(failure)
        return digest

    def end(self) -> tuple[str, str | None]:
        """As `stop`; returns the digest, and why the server stopped by itself, if it did."""
        if self.digest is None:
            self.digest, self._failure = self._server.stop()
        return self.digest, self._failure

    def __enter__(self) -> "ServedDevice":
        """The device itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop the server."""
        self.stop()


def serve(
    device: str | Path | None = None,
    *,
    listen: str | Sequence[str],
    ftl: str | None = None,
    settings: Mapping[str, Any] | None = None,
    capacity: Size | None = None,
    precondition: str = "fill",
    seed: int = 1,
    export: Sequence[str] = (),
    time: str = "real",
    cut_after: tuple[float, Counted] | None = None,
    control: str | Path | None = None,
    metrics: str | None = None,
    log: str | Path | None = None,
    image: str | Path | None = None,
    bytes_in: str | Path | None = None,
    allow_remote: bool = False,
) -> ServedDevice:
    """Offer a device that stores bytes to NBD clients, such as QEMU, nbdcopy, fio or Linux.

    Raises `NandlabError` for an option that is wrong, an address in use, a log that exists or an
    image of another device.

    Args:
        device: Use this device (see `nandlab list devices`), or the device of this .toml file.
            Without it: the device of the image.
        listen: Listen at these addresses: unix:PATH or tcp:ADDRESS:PORT.
        ftl: Use this translation layer instead of the device's own.
        settings: Replace these keys of the device.
        capacity: Make the device smaller, with the same share of spare blocks.
        precondition: Write this before clients come: none, fill, random:PERCENT or steady. It reads
            as zeros.
        seed: Set the seed of the preconditioning and of the device.
        export: Offer the device under these names. Without it: under the empty name.
        time: Send replies at this pace: real (when the device would answer), none (at once) or
            scaled:FACTOR (so many times slower).
        cut_after: Fail the power supply after so many programs, erases, flushes or simulated
            seconds.
        control: Take commands on this socket file. Without it: PATH.ctl of the first unix:PATH.
        metrics: Show the state at this address (tcp:ADDRESS:PORT or unix:PATH) over HTTP, in the
            text format of Prometheus.
        log: Record every request and power cut in this file.
        image: Keep the device in this file from one server to the next: bytes, wear and bad blocks.
        bytes_in: Keep the bytes of pages in an unnamed file in this folder, not in memory.
        allow_remote: Listen at addresses that other machines reach.

    """
    from nandlab import engine

    addresses = [listen] if isinstance(listen, str) else list(listen)
    if control is None:
        files = [one.removeprefix("unix:") for one in addresses if one.startswith("unix:")]
        control = f"{files[0]}.ctl" if files and files[0] else None
    arguments = {
        "device": None if device is None else str(device),
        "changes": {key: setting_text(one) for key, one in (settings or {}).items()},
        "ftl": ftl,
        "capacity_bytes": _size(capacity),
        "precondition": precondition,
        "seed": natural_number("--seed", seed, least=0, bits=64),
        "cut_after": _cut_after(cut_after),
        "exports": list(export),
        "listen": addresses,
        "control": None if control is None else str(control),
        "metrics": metrics,
        "real_factor": _real_factor(time),
        "is_open": allow_remote,
        "log": None if log is None else str(log),
        "image": None if image is None else str(image),
        "bytes_in": None if bytes_in is None else str(bytes_in),
    }
    return ServedDevice(engine.start_server(arguments))


def _size(given: Size | None) -> int | None:
    if given is None or isinstance(given, int):
        return given
    return parse_bytes(given, "--capacity")


def _real_factor(time: str) -> int | None:
    """Seconds of the host for a simulated one; none if replies do not wait."""
    word, _, factor = time.partition(":")
    if time == "real":
        return 1
    if time == "none":
        return None
    if word == "scaled" and factor.isdecimal() and 1 <= int(factor[:8]) <= _FACTOR_MAX:
        return int(factor)
    raise NandlabError(
        f"--time: {time!r} must be real, none or scaled:FACTOR, such as scaled:10 for ten times "
        "slower"
    )


def _cut_after(given: tuple[float, Counted] | None) -> dict[str, int] | None:
    if given is None:
        return None
    number, what = given
    if what == "seconds":
        if not 0 < number < 2**33:
            raise NandlabError(f"--cut-after: {number:g} seconds must be above 0")
        return {"nanoseconds": round(number * _NS_PER_S)}
    if number != int(number) or not 1 <= number < 2**53:
        raise NandlabError(
            f"--cut-after: {number:g} {what} must be a whole number from 1, such as 100 {what}"
        )
    return {what: int(number)}


def serve_ctl(command: Command, *, control: str | Path) -> Answer:
    """Send a command to a device that is served.

    Raises `NandlabError` if no server answers at the socket file.

    Args:
        command: Send this: cut (fail the power supply), restore (give it back), status, stats or
            stop.
        control: Connect to this socket file: --control of `nandlab serve`.

    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(_CONTROL_TIMEOUT_S)
        try:
            client.connect(str(control))
            client.sendall(f"{command}\n".encode())
            text = b"".join(iter(lambda: client.recv(65536), b""))
        except OSError as error:
            reason = error.strerror or str(error)
            raise NandlabError(
                f"{control}: {reason}: no server answers there; name the socket file that `nandlab "
                "serve` printed"
            ) from None
    if not text:
        raise NandlabError(f"{control}: the server gave no answer; try again")
    found: dict[str, Any] = json.loads(text)
    if "error" in found:
        raise NandlabError(f"{control}: {found['error']}")
    return Answer(found)


def serve_replay(log: str | Path) -> Answer:
    """Carry the log of a server out again: same requests, same times, same power cuts.

    The answer holds the digest of what the chips hold now and the one that was recorded.

    Raises `NandlabError` for a file that is no such log.

    Args:
        log: Log that `nandlab serve --log` wrote.

    """
    from nandlab import engine

    found = engine.replay_server_log(str(log))
    same = found["recorded_digest"] in (None, found["digest"])
    complaint = f"{log}: the digest differs from the one that was recorded"
    return Answer(found, complaints=() if same else (complaint,), is_clean=same)
