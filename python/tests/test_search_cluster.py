"""A search whose points are carried out on a cluster: the same points, the same answer."""

import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import nandlab as nl
from nandlab.cells.missing import MissingCells
from nandlab.cells.work import Done
from nandlab.design_space import answer
from nandlab.design_space.points import POINTS
from nandlab.errors import NandlabError

SPACE = """
[study]
name = "small"
question = "How much is copied?"
part = "generic-mlc-2x"
blocks = {blocks}
repeats = 2
workload = {{ kind = "uniform", warm_up_writes = 1, measured_writes = {writes} }}
[space.axes]
ftl = ["page", "dftl"]
spare_percent = [12, 24]
"""


def write_space(folder: Path, *, blocks: int = 64, writes: int = 1) -> Path:
    """A space of four points."""
    path = folder / "small.toml"
    path.write_text(SPACE.format(blocks=blocks, writes=writes), encoding="utf-8")
    return path


def test_a_cluster_changes_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer, "picture", lambda *_: b"")
    space = write_space(tmp_path)
    carried = []
    plain = MissingCells.take

    def counted(self: MissingCells, done: Done) -> None:
        carried.extend(done.numbers)
        plain(self, done)

    monkeypatch.setattr(MissingCells, "take", counted)
    # The last point is found finished, with and without a cluster.
    here = nl.search(space, objective="waf,ram_bytes", runs=3, out=tmp_path / "here")
    assert not carried
    there = nl.search(
        space, objective="waf,ram_bytes", runs=3, out=tmp_path / "there", cluster="local:2"
    )
    assert len(carried) == 2 * 3
    assert there.answer["digest"] == here.answer["digest"]
    assert there.rows == here.rows
    for one in here.rows:
        places = (tmp_path / name / POINTS / str(one["key"]) for name in ("here", "there"))
        first, second = (nl.open_run(place).digest for place in places)
        assert first == second
    # What a cluster has finished is there for a search without it.
    again = nl.search(space, objective="waf,ram_bytes", runs=3, out=tmp_path / "there")
    assert again.answer["digest"] == here.answer["digest"]
    assert len(carried) == 2 * 3


def test_ctrl_c_ends_a_search_on_a_cluster(tmp_path: Path) -> None:
    space = write_space(tmp_path, blocks=4000, writes=400)
    out = tmp_path / "out"
    words = ["search", str(space), "--objective", "waf", "--runs", "2", "--out", str(out)]
    command = [sys.executable, "-m", "nandlab", *words, "--cluster", "local:1"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, encoding="utf-8") as process:
        until = time.monotonic() + 60
        while not list((out / POINTS).glob(".study-*")) and time.monotonic() < until:
            time.sleep(0.05)
        assert list((out / POINTS).glob(".study-*")), "no point was begun"
        # Until the cells are under way.
        time.sleep(4)
        process.send_signal(signal.SIGINT)
        begin = time.monotonic()
        _, told = process.communicate(timeout=60)
    assert process.returncode == 130, told
    assert "The same command goes on there." in told
    assert time.monotonic() - begin < 10
    assert not list((out / POINTS).iterdir())


def test_a_cluster_that_is_not_there_makes_no_point_impossible(tmp_path: Path) -> None:
    space = write_space(tmp_path)
    with pytest.raises(NandlabError, match=r"--cluster: no scheduler answers at dask:"):
        nl.search(
            space, objective="waf", runs=2, out=tmp_path / "out", cluster="dask://127.0.0.1:9"
        )
    assert not list((tmp_path / "out" / POINTS).glob("*"))
    with pytest.raises(NandlabError, match="is none of dask://HOST:PORT"):
        nl.search(space, objective="waf", runs=2, out=tmp_path / "out", cluster="dask")
    shutil.rmtree(tmp_path / "out")
