"""Images of served devices: they outlive their servers, and refuse what they are not."""

import resource
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from serving import DEVICE, MIB, command, needs, noise, ran, served, uri

import nandlab as nl
from nandlab.cli import main
from nandlab.errors import NandlabError

pytestmark = pytest.mark.usefixtures("engine_is_built")


@needs("nbdcopy")
def test_a_device_is_kept_from_one_server_to_the_next(tmp_path: Path) -> None:
    place, image, disk = tmp_path / "s", tmp_path / "card.img", tmp_path / "disk"
    disk.write_bytes(noise(8 * MIB))
    with served(place, image=image):
        # Not flushed: a server that stops in order takes the supply away in order.
        ran("nbdcopy", disk, uri(place))
    size = image.stat().st_size
    assert 8 * MIB < size < 9 * MIB, "the bytes that were written, once"
    # The device of the image: none is named here.
    with nl.serve(listen=f"unix:{place}", image=image, time="none") as device:
        assert device.statistics()["totals"]["requests"] == [0, 0, 0, 0]
        ran("nbdcopy", uri(place), tmp_path / "back")
        assert (tmp_path / "back").read_bytes()[: 8 * MIB] == disk.read_bytes()
        device.cut()
    # It lost its power last time, and has it now.
    with nl.serve(listen=f"unix:{place}", image=image, time="none") as device:
        assert device.status()["is_on"] is True
        ran("nbdcopy", uri(place), tmp_path / "back")
        assert (tmp_path / "back").read_bytes()[: 8 * MIB] == disk.read_bytes()


@needs("qemu-io")
def test_a_server_that_is_killed_keeps_what_it_answered(tmp_path: Path) -> None:
    place, image = tmp_path / "s", tmp_path / "card.img"
    with command(place, "--image", str(image), "--time", "none") as process:
        ran("qemu-io", "-f", "raw", uri(place), "-c", "write -P 7 64k 64k")
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=20)
    # A killed server leaves its sockets behind.
    place = tmp_path / "t"
    with nl.serve(listen=f"unix:{place}", image=image, time="none"):
        ran("qemu-io", "-f", "raw", uri(place), "-c", "read -P 7 64k 64k")


@needs("qemu-io")
def test_a_full_disk_ends_the_server_and_loses_nothing(tmp_path: Path) -> None:
    place, image = tmp_path / "s", tmp_path / "card.img"

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (256 << 10, 256 << 10))

    with command(place, "--image", str(image), "--time", "none", before=limit) as process:
        words = ["qemu-io", "-f", "raw", uri(place)]
        for number in range(40):
            words += ["-c", f"write -P {number + 1} {number * 16}k 16k"]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
        _, errors = process.communicate(timeout=20)
    answered = done.stdout.count("wrote 16384/16384 bytes")
    assert 0 < answered < 40
    assert process.returncode == 2
    assert "the image cannot be written: File too large" in errors
    assert "Traceback" not in errors
    assert [file.name for file in tmp_path.iterdir()] == ["card.img"], "no file is half-written"
    # With room again, everything that was answered is there.
    with nl.serve(listen=f"unix:{place}", image=image, time="none"):
        reads = []
        for number in range(answered):
            reads += ["-c", f"read -P {number + 1} {number * 16}k 16k"]
        ran("qemu-io", "-f", "raw", uri(place), *reads)


@needs("qemu-io")
def test_a_disk_that_is_full_when_the_server_stops_leaves_the_old_file(tmp_path: Path) -> None:
    place, image = tmp_path / "s", tmp_path / "card.img"

    def limit() -> None:
        # The calls of 512 bytes fit, their pages of 4 KiB do not.
        resource.setrlimit(resource.RLIMIT_FSIZE, (2 * MIB, 2 * MIB))

    words = ["qemu-io", "-f", "raw", uri(place)]
    for number in range(512):
        words += ["-c", f"write -P {1 + number % 255} {number * 16}k 512"]
    with command(place, "--image", str(image), "--time", "none", before=limit) as process:
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=20)
    assert done.stdout.count("wrote 512/512 bytes") == 512
    assert process.returncode == 2
    assert "the image cannot be written: File too large" in errors
    assert [file.name for file in tmp_path.iterdir()] == ["card.img"], "no file is half-written"
    with nl.serve(listen=f"unix:{place}", image=image, time="none"):
        reads = []
        for number in range(512):
            reads += ["-c", f"read -P {1 + number % 255} {number * 16}k 512"]
        ran("qemu-io", "-f", "raw", uri(place), *reads)


def test_an_image_that_cannot_be_had_is_refused_in_a_sentence(tmp_path: Path) -> None:
    place, image = tmp_path / "s", tmp_path / "card.img"

    def told(**options: object) -> str:
        given = {"listen": f"unix:{tmp_path}/t", "image": image, "time": "none"} | options
        with pytest.raises(NandlabError) as refused:
            nl.serve(**given)  # type: ignore[arg-type]
        return str(refused.value)

    assert told() == f"{image} does not exist: name the --device that a new image is to hold"
    assert told(image=None) == "--device is missing: name a device of `nandlab list devices`"
    with served(place, image=image):
        assert "another server has this image open: stop that one" in told()
    other = told(device="sd-c10-16gb", capacity="64MiB")
    assert "holds another device: name is " in other
    other = told(device=DEVICE, capacity="64MiB", settings={"cache.bytes": 0})
    assert "cache.bytes is " in other
    assert "not 0: leave the options of the device out" in other
    assert told(log=tmp_path / "log").startswith("--log begins with a new device")
    image.write_bytes(b"something else, which is long enough")
    assert "this is no image of `nandlab serve`" in told()
    assert not (tmp_path / "t").exists()
    assert not (tmp_path / "log").exists()


def test_a_part_that_is_a_file_is_not_kept(tmp_path: Path) -> None:
    import nandlab.data

    part = tmp_path / "part.toml"
    shutil.copy(Path(nandlab.data.__file__).parent / "parts" / "generic-mlc-2x.toml", part)
    with pytest.raises(NandlabError, match="--image cannot keep the part of the file"):
        nl.serve(
            DEVICE,
            listen=f"unix:{tmp_path}/s",
            image=tmp_path / "card.img",
            settings={"flash.part": str(part)},
        )
    assert not (tmp_path / "card.img").exists()


def test_the_command_needs_a_device_or_an_image(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", "--listen", f"unix:{tmp_path}/s"]) == 2
    assert "--device is missing: name a device" in capsys.readouterr().err


@needs("nbdcopy")
def test_bytes_may_live_in_a_file(tmp_path: Path) -> None:
    place, disk, folder = tmp_path / "s", tmp_path / "disk", tmp_path / "bytes"
    folder.mkdir()
    disk.write_bytes(noise(32 * MIB))

    def run(**options: object) -> str:
        with served(place, **options) as device:
            ran("nbdcopy", disk, uri(place))
            assert list(folder.iterdir()) == [], "the file has no name"
            ran("nbdcopy", uri(place), tmp_path / "back")
            assert (tmp_path / "back").read_bytes()[: 32 * MIB] == disk.read_bytes()
            return device.stop()

    assert run(bytes_in=folder) == run(), "the digest of the chips"
    with pytest.raises(NandlabError, match="no file for bytes: No such file"):
        run(bytes_in=tmp_path / "none")


@needs("nbdcopy")
def test_bytes_in_a_file_are_not_in_memory(tmp_path: Path) -> None:
    disk, folder = tmp_path / "disk", tmp_path / "bytes"
    folder.mkdir()
    disk.write_bytes(noise(32 * MIB))

    def taken(name: str, *options: str) -> int:
        # A process of its own: one that has served before reuses the memory it got then.
        place = tmp_path / name
        with command(place, "--time", "none", *options, capacity="64MiB") as process:
            before = memory_bytes(process.pid)
            ran("nbdcopy", disk, uri(place))
            return memory_bytes(process.pid) - before

    small, large = taken("file", "--bytes-in", str(folder)), taken("memory")
    assert small < large - 16 * MIB


def memory_bytes(process_number: int) -> int:
    """What the process has in memory, without what it has mapped from files."""
    status = Path(f"/proc/{process_number}/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("RssAnon:"))
    return int(line.split()[1]) * 1024
