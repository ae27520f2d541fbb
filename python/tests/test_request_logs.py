"""Logs of a served device are read request by request, and carried out on another layer."""

from pathlib import Path

import pytest

import nandlab as nl
from nandlab.errors import NandlabError
from nandlab.labs.amplification import Calls, Recording, carry_out, logger
from nandlab.labs.request_logs import Client, Request, requests

pytestmark = pytest.mark.usefixtures("engine_is_built")

READ, WRITE, WRITE_FUA, ZERO, ZERO_FUA, DISCARD, FLUSH = range(1, 8)
CARD = {"capacity": "16MiB", "precondition": "none"}
DONE = (
    Request(WRITE, 4096, 8192, bytes(range(256)) * 32),
    Request(WRITE_FUA, 0, 512, b"\x5a" * 512),
    Request(FLUSH, 0, 0, b""),
    Request(ZERO, 4096, 4096, b""),
    Request(ZERO_FUA, 65536, 512, b""),
    Request(READ, 0, 512, b""),
    Request(DISCARD, 131_072, 4096, b""),
)


def _recorded(place: Path) -> Path:
    log = place / "log"
    path = f"{place}/s"
    with nl.serve("emmc-5.1-64gb", listen=f"unix:{path}", log=log, time="none", **CARD):  # type: ignore[arg-type]
        client = Client(path)
        assert client.size_bytes == 16 << 20
        answers = [client.carry_out(request) for request in DONE]
        assert answers[5] == b"\x5a" * 512
        assert not any(answers[:5])
        held = client.carry_out(Request(READ, 4096, 8192, b""))
        assert held == bytes(4096) + DONE[0].data[4096:]
        client.close()
    return log


def test_what_was_asked_is_read_again(tmp_path: Path) -> None:
    log = _recorded(tmp_path)
    found = list(requests(log))
    assert tuple(found[: len(DONE)]) == DONE
    assert found[len(DONE) :] == [Request(READ, 4096, 8192, b"")]


def test_a_part_of_a_log_is_read(tmp_path: Path) -> None:
    log = _recorded(tmp_path)
    whole = log.read_bytes()
    # Before the flush: its kind and its time, and no more.
    place = whole.index(b"\x5a" * 512) + 512
    assert tuple(requests(log, end=place)) == DONE[:2]
    assert tuple(requests(log, begin=place))[:5] == DONE[2:]


def test_another_layer_gets_the_same_requests(tmp_path: Path) -> None:
    log = _recorded(tmp_path)
    begin = log.read_bytes().index(b"\x5a" * 512) + 512
    calls = Calls("", "", 1000)
    for layer in ("page", "fast"):
        found = carry_out(Recording(log, begin), "emmc-5.1-64gb", calls, ftl=layer, **CARD)
        # Zeros are written; a discard is not.
        assert (found.written_bytes, found.read_bytes) == (4608, 512 + 8192)
        assert (found.writes, found.flushes) == (2, 1)
        assert found.file_system_amplification() == 4.608
        assert found.product(32768) == pytest.approx(
            found.file_system_amplification() * found.layer_amplification(32768)
        )


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda data: b"x" + data[1:], "it begins with something else"),
        (lambda data: data[: data.index(b"\x5a" * 512) + 7], "ends within a record"),
    ],
)
def test_what_is_no_log_is_told(change: object, told: str, tmp_path: Path) -> None:
    log = _recorded(tmp_path)
    assert callable(change)
    log.write_bytes(change(log.read_bytes()))
    with pytest.raises(NandlabError, match=told):
        list(requests(log))


def test_a_log_with_a_power_cut_is_refused(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with nl.serve(
        "emmc-5.1-64gb", listen=f"unix:{tmp_path}/s", log=log, time="none", **CARD
    ) as device:  # type: ignore[arg-type]
        device.cut()
        device.restore()
    with pytest.raises(NandlabError, match="power cuts are for nandlab serve-replay"):
        list(requests(log))


def test_a_request_that_is_refused_is_told(tmp_path: Path) -> None:
    with nl.serve("emmc-5.1-64gb", listen=f"unix:{tmp_path}/s", time="none", **CARD):  # type: ignore[arg-type]
        client = Client(f"{tmp_path}/s")
        with pytest.raises(NandlabError, match="error 22"):
            client.carry_out(Request(READ, 1 << 40, 512, b""))
        client.close()


def test_the_bytes_of_a_logger_are_counted() -> None:
    calls = logger(appends=40, small_files=5, cold_mebibytes=2, rotate_after=16, seed=3)
    lines = [line.split() for line in calls.counted.splitlines()]
    written = sum(int(line[2]) for line in lines if line[0] == "append")
    written += sum(int(line[3]) for line in lines if line[0] == "put")
    assert calls.application_bytes == written
    kinds = [line[0] for line in lines]
    assert (kinds.count("append"), kinds.count("rename"), kinds.count("unlink")) == (40, 2, 5)
    assert all(line[-1] == "fsync" for line in lines if line[0] in ("append", "put"))
    again = logger(appends=40, small_files=5, cold_mebibytes=2, rotate_after=16, seed=4)
    assert again.counted != calls.counted
