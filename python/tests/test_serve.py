"""`nandlab serve`: a simulated device under real NBD clients, and under power cuts."""

import json
import resource
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from serving import DEVICE, MIB, command, needs, noise, ran, served, uri

import nandlab as nl
from nandlab.cli import main
from nandlab.cli.serving import _sentences
from nandlab.errors import NandlabError

pytestmark = pytest.mark.usefixtures("engine_is_built")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A socket file: its path must be short."""
    return tmp_path / "s"


@needs("nbdinfo")
def test_nbdinfo_sees_what_is_offered(place: Path) -> None:
    with served(place, export=["card", "other"]):
        found = json.loads(ran("nbdinfo", "--json", uri(place, "card")))
        (export,) = found["exports"]
        assert export["export-size"] == 64 * MIB
        assert export["block_size_minimum"] == 512
        for can in ("flush", "fua", "trim", "zero", "fast_zero", "multi_conn", "cache", "df"):
            assert export[f"can_{can}"] is True, can
        assert export["is_rotational"] is False
        listed = json.loads(ran("nbdinfo", "--json", "--list", uri(place)))
        assert {one["export-name"] for one in listed["exports"]} == {"card", "other"}


@needs("nbdcopy")
@needs("nbdinfo")
def test_nbdcopy_in_and_out_is_identical(place: Path, tmp_path: Path) -> None:
    source, back = tmp_path / "in", tmp_path / "out"
    source.write_bytes(noise(8 * MIB) + bytes(24 * MIB) + noise(MIB) + bytes(31 * MIB))
    with served(place) as device:
        ran("nbdcopy", "--connections=8", "--flush", source, uri(place))
        # What was never written, or written with zeros, is told as a hole.
        extents = json.loads(ran("nbdinfo", "--map", "--json", uri(place)))
        holes = sum(one["length"] for one in extents if one["type"] == 3)
        assert sum(one["length"] for one in extents) == 64 * MIB
        assert 54 * MIB <= holes <= 55 * MIB
        ran("nbdcopy", "--connections=8", uri(place), back)
        assert back.read_bytes() == source.read_bytes()
        device.cut()
        device.restore()
        ran("nbdcopy", uri(place), back)
        assert back.read_bytes() == source.read_bytes()
        assert device.status()["broken"] == 0


@needs("qemu-io")
def test_qemu_writes_reads_and_discards(place: Path) -> None:
    with served(place) as device:
        told = ran(
            *("qemu-io", "-f", "raw", uri(place)),
            *("-c", "write -P 0x5a 4096 1M", "-c", "write -f -P 0xa5 0 512"),
            *("-c", "write -z 8192 4096", "-c", "flush", "-c", "discard 2M 1M"),
            *(
                "-c",
                "read -P 0xa5 0 512",
                "-c",
                "read -P 0 8192 4096",
                "-c",
                "read -P 0x5a 12288 4096",
            ),
        )
        assert "Pattern verification failed" not in told
        requests = device.statistics()["totals"]["requests"]
        assert all(count > 0 for count in requests), requests


@needs("fio")
def test_fio_verifies_what_it_wrote(place: Path, tmp_path: Path) -> None:
    job = tmp_path / "verify.fio"
    job.write_text(
        f"[verify]\nioengine=nbd\nuri={uri(place)}\nrw=randwrite\nbs=4k\nsize=16m\niodepth=16\n"
        "verify=crc32c\ndo_verify=1\nfsync=64\n",
        encoding="utf-8",
    )
    with served(place) as device:
        told = ran("fio", "--output-format=json", job, folder=tmp_path)
        (found,) = json.loads(told[told.index("{") :])["jobs"]
        assert found["error"] == 0
        assert found["write"]["total_ios"] == found["read"]["total_ios"] == 4096
        totals = device.statistics()["totals"]
        assert totals["requests"][:2] == [4096, 4096]
        assert totals["requests"][2] >= 60


@needs("fio")
def test_latencies_that_a_client_sees_are_those_of_the_device(place: Path, tmp_path: Path) -> None:
    """The wait of a client is the simulated one and what a socket costs, on a busy machine too."""
    job = tmp_path / "latency.fio"
    job.write_text(
        f"[global]\nioengine=nbd\nuri={uri(place)}\nbs=4k\nsize=16m\nstonewall\n"
        "[write]\nrw=randwrite\nnumber_ios=2000\n[read]\nrw=randread\nnumber_ios=2000\n",
        encoding="utf-8",
    )
    with served(place, time="real", precondition="fill") as device:
        told = ran("fio", "--output-format=json", job, folder=tmp_path)
        write, read = json.loads(told[told.index("{") :])["jobs"]
        totals = device.statistics()["totals"]
    for found, kind in ((write["write"], 1), (read["read"], 0)):
        simulated_ns = totals["latency_ns"][kind][0]
        # The device writes to its cache in 76 us, and reads a page in 162 us.
        assert simulated_ns > 50_000
        assert simulated_ns <= found["lat_ns"]["mean"], (kind, found["lat_ns"], simulated_ns)
        # Other work takes the processors away now and then: the mean was 718 us above once, on a
        # load of nine. The middle one of the requests tells what a request costs.
        median_ns = found["clat_ns"]["percentile"]["50.000000"]
        assert median_ns < simulated_ns + 400_000, (kind, median_ns, simulated_ns)
    assert totals["lateness_ns"][0] < 100_000


def test_the_control_socket_cuts_restores_and_tells(place: Path) -> None:
    control = f"{place}.ctl"
    with served(place) as device:
        assert nl.serve_ctl("status", control=control).answer["is_on"] is True
        off = nl.serve_ctl("cut", control=control).answer
        assert off["is_on"] is False
        assert off["outage"]["lost_cached_sectors"] == 0
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(place))
            assert client.recv(1) == b""
        assert nl.serve_ctl("restore", control=control).answer["reads"] > 0
        assert nl.serve_ctl("stats", control=control).answer["totals"]["failed"] == 0
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(place))
            assert client.recv(8) == b"NBDMAGIC"
        nl.serve_ctl("stop", control=control)
        assert device.is_stopping
    assert not place.exists()
    with pytest.raises(NandlabError, match="no server answers there"):
        nl.serve_ctl("status", control=control)


def test_prometheus_can_read_the_state(place: Path) -> None:
    import urllib.request

    with served(place, metrics="tcp:127.0.0.1:0") as device:
        assert device.metrics_address is not None
        url = device.metrics_address.replace("tcp:", "http://") + "/metrics"
        with urllib.request.urlopen(url, timeout=10) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            page = answer.read().decode()
        device.cut()
        with urllib.request.urlopen(url, timeout=10) as answer:
            after = answer.read().decode().splitlines()
    lines = page.splitlines()
    assert 'nandlab_requests_total{operation="read"} 0' in lines
    assert "nandlab_power 1" in lines
    assert "nandlab_power 0" in after
    assert "nandlab_power_cuts_total 1" in after
    # Every sample is of a metric that was introduced with its type.
    samples = {line.split("{")[0].split(" ")[0] for line in lines if not line.startswith("#")}
    types = {line.split()[2] for line in lines if line.startswith("# TYPE ")}
    assert samples == types
    with pytest.raises(NandlabError, match="--metrics"), served(place, metrics="9200"):
        pass


def test_a_log_is_carried_out_again(place: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with served(place, log=log, cut_after=(3, "flushes")) as device:
        if shutil.which("qemu-io"):
            ran("qemu-io", "-f", "raw", uri(place), "-c", "write 0 1M", "-c", "flush")
        device.cut()
        device.restore()
        digest = device.stop()
    found = nl.serve_replay(log)
    assert found.is_clean
    assert found.answer["digest"] == found.answer["recorded_digest"] == digest
    assert found.answer["cuts"] == 1
    with pytest.raises(NandlabError, match="File exists"), served(place, log=log):
        pass
    # A log that says something else is told.
    whole = bytearray(log.read_bytes())
    whole[-1] ^= 1
    log.write_bytes(whole)
    assert main(["serve-replay", str(log)]) == 1


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"time": "slow"}, "--time: 'slow' must be real, none or scaled:FACTOR"),
        ({"time": "scaled:0"}, "--time: 'scaled:0' must be"),
        ({"capacity": "63KiB"}, "a capacity must be a multiple of 4096"),
        ({"capacity": "1000GiB"}, "a capacity must be a multiple of 4096 up to"),
        ({"ftl": "pages"}, "did you mean `page`"),
        ({"precondition": "full"}, "--precondition: `full` is none of"),
        ({"cut_after": (0, "flushes")}, "--cut-after: 0 flushes must be a whole number from 1"),
        ({"cut_after": (1.5, "erases")}, "--cut-after: 1.5 erases must be a whole number"),
        ({"cut_after": (-1, "seconds")}, "--cut-after: -1 seconds must be above 0"),
        ({"settings": {"cache.byte": 0}}, "did you mean `cache.bytes`"),
        ({"seed": -1}, "--seed"),
        ({"export": ["a", "a"]}, "two exports are named `a`"),
    ],
)
def test_bad_options_are_refused_in_a_sentence(
    place: Path, options: dict[str, Any], told: str
) -> None:
    with pytest.raises(NandlabError) as caught, served(place, **options):
        pass
    assert told in str(caught.value)
    assert not place.exists()


@pytest.mark.parametrize(
    ("listen", "told"),
    [
        ("here", "'here' must be unix:PATH or tcp:ADDRESS:PORT".replace("'", '"')),
        ("tcp:localhost:1", "must be a number address and a port"),
        ("tcp:0.0.0.0:0", "can be reached from other machines"),
        ([], "no address to listen at"),
        ("unix:/nowhere/s", "/nowhere/s: No such file or directory"),
    ],
)
def test_bad_addresses_are_refused(listen: Any, told: str) -> None:
    with pytest.raises(NandlabError) as caught:
        nl.serve(DEVICE, listen=listen, capacity="4MiB", precondition="none")
    assert told in str(caught.value)


def test_a_disk_is_not_served() -> None:
    with pytest.raises(NandlabError, match="stores no bytes: choose one with flash"):
        nl.serve("disk-7200", listen="tcp:127.0.0.1:0", precondition="none")


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_command_with_a_report(
    place: Path, number: signal.Signals, status: int
) -> None:
    with command(place) as process:
        time.sleep(0.3)
        process.send_signal(number)
        out, errors = process.communicate(timeout=20)
    assert process.returncode == status
    assert out.startswith(f"listening at unix:{place}\n")
    assert "0 clients, 0 requests answered." in out
    assert "Digest of the chips: " in out
    assert errors == "nandlab: interrupted\n"
    assert not place.exists()


@needs("qemu-io")
def test_a_log_that_is_full_ends_the_server_before_it_answers(place: Path, tmp_path: Path) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (256 << 10, 256 << 10))

    log = tmp_path / "log"
    with command(place, "--log", str(log), "--time", "none", before=limit) as process:
        words = ["qemu-io", "-f", "raw", uri(place)]
        for number in range(40):
            words += ["-c", f"write -P {number + 1} {number * 16}k 16k"]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
        out, errors = process.communicate(timeout=20)
    answered = done.stdout.count("wrote 16384/16384 bytes")
    assert 0 < answered < 40
    assert process.returncode == 2
    assert "the log cannot be written: File too large" in errors
    assert "Traceback" not in errors
    assert "Digest of the chips: " in out
    # What was answered is in the log.
    found = nl.serve_replay(log).answer
    assert found["records"] >= answered
    assert found["is_cut_short"] is True


def test_a_signal_cuts_the_power(place: Path) -> None:
    with command(place, "--cut-on", "SIGUSR1", "--json") as process:
        time.sleep(0.3)
        process.send_signal(signal.SIGUSR1)
        for _ in range(200):
            if not nl.serve_ctl("status", control=f"{place}.ctl").answer["is_on"]:
                break
            time.sleep(0.05)
        nl.serve_ctl("stop", control=f"{place}.ctl")
        out, _ = process.communicate(timeout=20)
    assert process.returncode == 0
    answer = json.loads(out)
    assert answer["command"] == "serve"
    assert answer["result"]["status"]["cuts"] == 1
    assert answer["result"]["status"]["is_on"] is False


REPORT: dict[str, Any] = {
    "totals": {"requests": [0, 0, 0, 0], "failed": 0, "late": 0, "lateness_ns": [0, 0, 0]},
    "status": {"accepted": 0, "broken": 0, "cuts": 0},
    "write_amplification": None,
    "chip_operations": [0, 0, 0],
    "digest": "d",
}


def test_sentences_of_the_report_are_silent_about_what_did_not_happen() -> None:
    assert _sentences(REPORT) == [
        "0 clients, 0 requests answered.",
        "Digest of the chips: d",
    ]
    one = {
        "totals": {
            "requests": [1, 0, 0, 0],
            "failed": 1,
            "late": 1,
            "lateness_ns": [2_000, 150_000, 150_000],
        },
        "status": {"accepted": 1, "broken": 1, "cuts": 1},
        "write_amplification": 1.0,
        "chip_operations": [1, 1, 1],
        "digest": "d",
    }
    assert _sentences(one)[:-1] == [
        "1 client, 1 request answered.",
        "1 request failed.",
        "1 connection broke the protocol.",
        "The power failed 1 time.",
        "Replies left 2 µs late in the median, 150 µs at p99; "
        "1 (100 %) left more than 100 µs late.",
        "Write amplification 1: 1 page read, 1 program, 1 erase.",
    ]
