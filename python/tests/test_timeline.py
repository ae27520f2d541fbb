"""Timelines of studies, job files and scripts: one run, as tracks that Perfetto opens."""

import itertools
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import nandlab as nl
from nandlab.cli import main
from nandlab.errors import NandlabError

pytestmark = pytest.mark.usefixtures("engine_is_built")

STUDY = """
name = "small"
title = "A small study"
question = "What happens when?"
seed = 1
repeats = {repeats}
[workload]
kind = "jobs"
[host]
board = "emulated-pc"
device = "emmc-5.1-64gb"
free_bytes = 16_777_216
precondition = "fill"
[[job]]
name = "writer"
processes = 2
rw = "randwrite"
bs = "4k"
requests = 20
mode = "direct"
iodepth = 2
[axes]
scheduler = ["noop"]
"""


def study(tmp_path: Path, repeats: int = 1) -> Path:
    path = tmp_path / "study.toml"
    path.write_text(STUDY.format(repeats=repeats), encoding="utf-8")
    return path


def names(trace: Path) -> list[str]:
    """Names of tracks and slices: printable text in the protocol buffers."""
    return [found.decode() for found in re.findall(rb"[ -~]{4,}", trace.read_bytes())]


def test_a_run_of_a_study_has_a_timeline(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    with_it = nl.run(study(tmp_path), timeline=trace)
    found = names(trace)
    for part in ("process 1000", "process 1001", "die 0", "program", "device"):
        assert any(part in name for name in found), part
    requests = [name for name in found if re.search(r"write 4096 B at sector \d+", name)]
    # Twice: the name of a request, and nothing else has one.
    assert len(requests) == 40
    # To look changes nothing.
    assert with_it.digest == nl.run(study(tmp_path)).digest
    # The same bytes again.
    again = tmp_path / "again"
    nl.run(study(tmp_path), timeline=again, jobs=2)
    assert again.read_bytes() == trace.read_bytes()


def test_several_runs_have_none(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    with pytest.raises(NandlabError, match=r"^timeline: it shows one run, and the study has 2"):
        nl.run(study(tmp_path, repeats=2), timeline=trace)
    one = {
        "axes.ftl": ["bast"],
        "axes.file_system": ["fat"],
        "axes.file_set": ["mp3"],
        "axes.processes": [1],
        "axes.settings": ["default"],
    }
    with pytest.raises(NandlabError, match=r"^timeline: .*only studies of the kinds"):
        nl.run("ftl-windows", quick=True, timeline=trace, set=one)
    assert not trace.exists()


def test_a_timeline_that_cannot_be_written_is_refused_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "nowhere" / "trace"
    words = ["run", str(study(tmp_path)), "--timeline", str(place), "--out", str(tmp_path / "out")]
    assert main(words) == 2
    assert str(place.parent) in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_job_file_has_a_timeline(tmp_path: Path) -> None:
    job = tmp_path / "job.fio"
    job.write_text("[a]\nrw=read\nsize=64k\nbs=16k\ndirect=1\n", encoding="utf-8")
    trace = tmp_path / "trace"
    nl.fio(job, device="nvme-ssd", timeline=trace)
    found = names(trace)
    assert sum("read 16384 B" in name for name in found) == 4
    assert any("process 1000" in name for name in found)


LINES = """\
mount -
phase write
mkdir d 755
put d/a 644 8192 4096 r 1
fsync d/a
powercut
mount -
read d/a 4096
sync
umount
"""


def events(trace: Path) -> dict[str, list[tuple[str, int, int]]]:
    """Slices of each track, as a reader of packets finds them: name, begin and end in ns."""
    tracks: dict[int, str] = {}
    slices: dict[str, list[tuple[str, int, int]]] = {}
    open_slices: dict[int, list[tuple[str, int]]] = {}
    for _, packet in _fields(trace.read_bytes()):
        parts = dict(_fields(packet))
        if 60 in parts:
            track = dict(_fields(parts[60]))
            tracks[track[1]] = track[2].decode()
        if 11 in parts:
            event = dict(_fields(parts[11]))
            stack = open_slices.setdefault(event[11], [])
            if event[9] == 1:
                stack.append((event[23].decode(), parts[8]))
            elif event[9] == 2:
                name, begin = stack.pop()
                slices.setdefault(tracks[event[11]], []).append((name, begin, parts[8]))
    assert not any(open_slices.values()), "every slice ends"
    return slices


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Fields of a message of protocol buffers: numbers and byte strings."""
    at = 0

    def number() -> int:
        nonlocal at
        value, shift = 0, 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        key = number()
        if key & 7 == 0:
            yield key >> 3, number()
        else:
            length = number()
            yield key >> 3, data[at : at + length]
            at += length


def test_a_script_has_a_timeline_over_a_power_cut(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    options = {"fs": "yaffs2", "board": "emulated-pc", "part": "k9f2g08u0c", "blocks": 64}
    plain = nl.script(LINES, **options)
    with_it = nl.script(LINES, **options, timeline=trace)
    assert with_it.rows == plain.rows, "to look changes nothing"
    found = events(trace)
    lines = found["script"]
    told = [line for line in LINES.splitlines() if line and line != "powercut"]
    assert [name for name, _, _ in lines] == told
    # One behind the other, though the clock of the machine after the cut began at zero again.
    assert all(one[2] <= other[1] for one, other in itertools.pairwise(lines))
    chip = found["chip"]
    programs = [one for one in chip if one[0].startswith("program page")]
    assert len(programs) == sum(row["programs"] for row in plain.rows)
    # A program of this part takes 250 us in the array.
    assert {end - begin for _, begin, end in programs} == {250_000}
    # What the chip does is within the line that asked for it.
    (put,) = [line for line in lines if line[0].startswith("put ")]
    assert any(put[1] <= begin and end <= put[2] for _, begin, end in programs)
    again = tmp_path / "again"
    nl.script(LINES, **options, timeline=again)
    assert again.read_bytes() == trace.read_bytes()


def test_a_script_on_a_block_device_shows_its_requests_and_dies(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    lines = "mount -\nput a 644 65536 4096 r 1\nfsync a\numount\n"
    options = {"board": "emulated-pc", "block_device": "emmc-5.1-64gb"}
    nl.script(lines, fs="fat", **options, timeline=trace)
    found = events(trace)
    requests = [one for track in found for one in found[track] if one[0].startswith("write ")]
    assert any(" B at sector " in name for name, _, _ in requests)
    assert any(track.startswith("die ") for track in found)
    assert "chip" not in found, "nothing is asked of the raw chip"


def test_half_a_timeline_is_not_left(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    with pytest.raises(NandlabError, match="ENOENT"):
        nl.script("mount -\nfsync missing\n", fs="yaffs2", timeline=trace)
    assert list(tmp_path.iterdir()) == []
    program = (
        "import sys, signal, os, nandlab.cli as cli\n"
        "signal.setitimer(signal.ITIMER_REAL, 1.0)\n"
        "signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGINT))\n"
        "sys.exit(cli.main(sys.argv[1:]))\n"
    )
    script = tmp_path / "long.ops"
    script.write_text(
        "mount -\n" + "put a 644 65536 4096 r 1\nfsync a\n" * 20_000,
        encoding="utf-8",
    )
    words = ["script", str(script), "--fs", "jffs2", "--timeline", str(trace)]
    done = subprocess.run(
        [sys.executable, "-c", program, *words], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 130, done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["long.ops"]
