"""Timelines of studies, job files and scripts: one run, as tracks that Perfetto opens."""

import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from interrupted_timelines import interrupt

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


def test_of_several_runs_the_first_is_shown(tmp_path: Path) -> None:
    trace, alone = tmp_path / "trace", tmp_path / "alone"
    devices = ["nvme-ssd", "emmc-5.1-64gb"]
    given = {"axes.device": devices}
    several = nl.run(study(tmp_path, repeats=2), timeline=trace, set=given, jobs=2)
    (note,) = [note for note in several.notes if "timeline" in note]
    assert note == "the timeline shows the first of 4 runs: nvme-ssd noop, repeat 0"
    # One value of each axis names a run: the first of them is the one that was shown.
    shown = []
    for device in devices:
        nl.run(study(tmp_path), timeline=alone, set={"axes.device": [device]})
        shown.append(alone.read_bytes() == trace.read_bytes())
    assert shown == [True, False]


def test_kinds_without_time_have_none(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    message = (
        r"^timeline: a run of kind `trace` has none, for no time passes in it; these kinds have "
        r"one: `ioping`, `iozone`, `jobs`, `raw-nand`$"
    )
    with pytest.raises(NandlabError, match=message):
        nl.run("ftl-windows", quick=True, timeline=trace)
    files = FILE_SYSTEMS.format(kind="raw-nand", options="", test='test = ["files"]\nfiles = [5]')
    with pytest.raises(NandlabError, match=r"^timeline: .*nothing takes time in test `files`"):
        nl.run(file_system_study(tmp_path, files), timeline=trace)
    assert not trace.exists()


FILE_SYSTEMS = """
name = "small"
title = "A small study"
question = "What happens when?"
seed = 1
repeats = 1
part = "k9f2g08u0c"
blocks = 64
[workload]
kind = "{kind}"
{options}
[host]
board = "s5pv210-datasheet"
[axes]
file_system = ["jffs2"]
{test}
"""

IOZONE = FILE_SYSTEMS.format(
    kind="iozone", options='options = "-i 0 -i 1 -i 2 -s 2m -r 64k -e"', test=""
)


def file_system_study(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "study.toml"
    path.write_text(text, encoding="utf-8")
    return path


def count(run: nl.Run, metric: str) -> float:
    """The sum of a metric over all rows of a run."""
    rows = run.frame.filter(run.frame["metric"] == metric)
    assert len(rows) > 0, metric
    return float(rows["value"].sum())


@pytest.mark.parametrize(
    ("system", "thread", "work", "passes"),
    [
        ("jffs2", "jffs2 collector", "pass of the collector", 2),
        ("ubifs", "ubi thread", "erase of a block", 2),
        # No thread of YAFFS2 runs under the kernel of this board: writers collect themselves.
        ("yaffs2", "application", "garbage collection", 2),
    ],
)
def test_a_run_on_raw_nand_shows_the_chip_and_the_threads(
    tmp_path: Path, system: str, thread: str, work: str, passes: int
) -> None:
    trace, again = tmp_path / "trace", tmp_path / "again"
    given: dict[str, Any] = {
        "axes.file_system": [system],
        "axes.passes": [6],
        "workload.options": "-i 0 -i 2 -s 3m -r 16k -e",
    }
    path = file_system_study(tmp_path, IOZONE)
    with_it = nl.run(path, set=given, timeline=trace)
    assert with_it.digest == nl.run(path, set=given).digest, "to look changes nothing"
    found = events(trace)
    programs = [one for one in found["chip"] if one[0].startswith("program page")]
    # The counts are those of the tests alone; mount and preparation have programs, too.
    assert len(programs) > count(with_it, "page_programs") > 100
    # A program of this part takes 250 us in the array; the driver may see its end later.
    assert min(end - begin for _, begin, end in programs) == 250_000
    # The chip does one thing at a time.
    chip = sorted(found["chip"], key=lambda one: one[1:])
    assert all(one[2] <= other[1] for one, other in itertools.pairwise(chip))
    works = [one for one in found[thread] if one[0] == work]
    assert len(works) >= passes
    assert all(begin < end for _, begin, end in works)
    nl.run(path, set=given, timeline=again)
    assert again.read_bytes() == trace.read_bytes()


@pytest.mark.parametrize("system", ["nilfs2", "fat"])
def test_a_run_on_a_block_device_shows_its_queue_and_device(tmp_path: Path, system: str) -> None:
    trace = tmp_path / "trace"
    given: dict[str, Any] = {
        "axes.file_system": [system],
        "axes.scheduler": ["noop"],
        "axes.block_device": ["emmc-5.1-64gb"],
    }
    path = file_system_study(tmp_path, IOZONE)
    with_it = nl.run(path, set=given, timeline=trace)
    assert with_it.digest == nl.run(path, set=given).digest, "to look changes nothing"
    found = events(trace)
    assert "chip" not in found, "nothing is asked of the raw chip"
    requests = [one for track in found for one in found[track] if " B at sector " in one[0]]
    assert len(requests) > 10
    # From the mount on: its first read is in the trace.
    assert min(begin for name, begin, _ in requests if name.startswith("read")) < 10_000_000
    assert any(track.startswith("die ") for track in found)
    for track in [track for track in found if track.startswith("channel ")]:
        assert all(one[2] <= other[1] for one, other in itertools.pairwise(found[track]))
    # The log writer of NILFS2; with `-e` the application writes the files of FAT itself.
    logs = {name for name, _, _ in found.get("segctord", [])}
    assert logs == ({"logs with a checkpoint"} if system == "nilfs2" else set())


def test_a_run_over_a_power_cut_has_its_machines_one_behind_the_other(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    cut = FILE_SYSTEMS.format(
        kind="raw-nand", options="", test='test = ["mount-after-cut"]\nwritten_mib = [1]'
    )
    nl.run(file_system_study(tmp_path, cut), timeline=trace)
    chip = events(trace)["chip"]
    assert all(one[2] <= other[1] for one, other in itertools.pairwise(chip))
    # The write, the write that is cut, and the mount behind them. Before a write a machine is up
    # for a minute.
    gaps = [other[1] - one[2] for one, other in itertools.pairwise(chip)]
    assert sum(gap > 50_000_000_000 for gap in gaps) == 2
    assert any(name.startswith("read spare area") for name, _, _ in chip)


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
    lines = "mount -\nput a 644 65536 4096 r 1\nsleep 60000\nput b 644 65536 4096 r 1\numount\n"
    options = {"board": "emulated-pc", "block_device": "emmc-5.1-64gb"}
    nl.script(lines, fs="fat", **options, timeline=trace)
    found = events(trace)
    requests = [one for track in found for one in found[track] if one[0].startswith("write ")]
    assert any(" B at sector " in name for name, _, _ in requests)
    assert any(track.startswith("die ") for track in found)
    assert "chip" not in found, "nothing is asked of the raw chip"
    # The first file is written back when its pages are old enough, the second by the unmount.
    ((old, begin, end),) = found["flusher 0"]
    assert (old, end - begin > 0) == ("write-back of old pages", True)
    assert [name for name, _, _ in found["application"]] == ["write-back of all pages"]
    (sleep,) = [line for line in found["script"] if line[0].startswith("sleep")]
    assert sleep[1] < begin < end < sleep[2]
    # All that the cache took in crossed a channel of a die, or is in it yet.
    assert found["channel 0"]


def test_half_a_timeline_is_not_left(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    with pytest.raises(NandlabError, match="ENOENT"):
        nl.script("mount -\nfsync missing\n", fs="yaffs2", timeline=trace)
    assert list(tmp_path.iterdir()) == []
    script = tmp_path / "long.ops"
    script.write_text(
        "mount -\n" + "put a 644 65536 4096 r 1\nfsync a\n" * 20_000,
        encoding="utf-8",
    )
    interrupt(tmp_path, ["script", str(script), "--fs", "jffs2", "--timeline", str(trace)])


LONG_JOB = "[a]\nrw=randwrite\nsize=1g\nbs=4k\ndirect=1\nnumber_ios=4000000\n"


def test_half_a_timeline_of_fio_is_not_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = tmp_path / "trace"
    job = tmp_path / "job.fio"
    text = "[a]\nrw=randwrite\nsize=1g\nbs=4k\ndirect=1\n"
    job.write_text(f"{text}runtime=10\ntime_based=1\n", encoding="utf-8")
    # The job makes more requests than fit a report: that is known when all of them are made.
    monkeypatch.setattr("nandlab.api.fio._MOST_REQUESTS", 500)
    with pytest.raises(NandlabError, match="ended after 500 requests"):
        nl.fio(job, device="nvme-ssd", timeline=trace)
    assert [one.name for one in tmp_path.iterdir()] == [job.name]
    monkeypatch.undo()
    job.write_text(f"{text}number_ios=1000000\n", encoding="utf-8")
    interrupt(tmp_path, ["fio", str(job), "--device", "nvme-ssd", "--timeline", str(trace)])


def test_half_a_timeline_of_a_study_is_not_left(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    path = file_system_study(tmp_path, IOZONE)
    # The chip has 8 MiB, and what is random cannot be made smaller.
    large = {"workload.options": "-i 0 -s 64m -r 64k", "axes.data": ["random"]}
    with pytest.raises(NandlabError, match="ENOSPC"):
        nl.run(path, set=large, timeline=trace)
    assert [one.name for one in tmp_path.iterdir()] == [path.name]
    words = ["run", str(path), "--timeline", str(trace), "--out", str(tmp_path / "out")]
    interrupt(tmp_path, [*words, "--set", "axes.passes=100"])
    # Of the kind `jobs`, too, which has another way to its timeline.
    path.write_text(STUDY.format(repeats=1).replace("= 20", "= 1000000"), encoding="utf-8")
    interrupt(tmp_path, words)
