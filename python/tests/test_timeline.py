"""Timelines of studies and of job files: one run, as tracks that Perfetto opens."""

import re
from pathlib import Path

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
