"""Cells of a study on this machine: kept, taken again, noticed when they are damaged."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from cell_runs import counts, run, words, write_study

import nandlab
from nandlab.cells.store import CellFolder
from nandlab.errors import NandlabError

KEY = "0123456789abcdef" * 4
OTHER = KEY[::-1]


def test_finished_cells_are_taken_from_a_folder(tmp_path: Path) -> None:
    study = write_study(tmp_path)
    first = run(study, "--out", "first", "--cells", "kept")
    assert counts(first) == (0, 20, 0)
    again = run(study, "--out", "again", "--cells", "kept")
    assert counts(again) == (20, 0, 0)
    more = run(study, "--out", "more", "--cells", "kept", "--set", "repeats=6")
    assert counts(more) == (20, 4, 0), "a longer study finds what a shorter one has finished"
    fresh = run(study, "--out", "fresh", "--cells", "kept", "--fresh")
    assert counts(fresh) == (0, 20, 0)
    assert first["results_digest"] == again["results_digest"] == fresh["results_digest"]
    assert more["results_digest"] != first["results_digest"]
    other = run(study, "--out", "other", "--cells", "kept", "--seed", "2")
    assert counts(other) == (0, 20, 0)


def test_a_run_that_is_whole_leaves_no_cells_beside_it(tmp_path: Path) -> None:
    study = write_study(tmp_path)
    run(study, "--out", "whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["study.toml", "whole"]


def test_a_damaged_cell_is_run_again(tmp_path: Path) -> None:
    study = write_study(tmp_path)
    first = run(study, "--out", "first", "--cells", "kept")
    (file,) = (tmp_path / "kept").iterdir()
    content = bytearray(file.read_bytes())
    content[150] ^= 1
    file.write_bytes(content)
    again = run(study, "--out", "again", "--cells", "kept")
    assert counts(again) == (19, 1, 1)
    # A file that was cut off has lost its last cell, and the length of that one tells.
    file.write_bytes(content[:-1])
    (lost,) = (path for path in (tmp_path / "kept").iterdir() if path != file)
    lost.unlink()
    cut = run(study, "--out", "cut", "--cells", "kept")
    assert counts(cut) == (18, 2, 1)
    assert first["results_digest"] == again["results_digest"] == cut["results_digest"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_run_stopped_midway_goes_on(tmp_path: Path, number: signal.Signals) -> None:
    study = write_study(tmp_path, repeats=300, writes=10)
    process = subprocess.Popen(
        words(study, "--out", "out"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        cwd=tmp_path,
    )
    kept = tmp_path / "out.cells"
    deadline = time.monotonic() + 60
    while not any(kept.glob("*.cells")):
        assert process.poll() is None, "the study is too short"
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.kill(process.pid, number)
    process.communicate()
    assert process.returncode == (130 if number == signal.SIGINT else -signal.SIGKILL)
    found = CellFolder(kept, "").finished()
    assert 0 < found < 1200
    done = run(study, "--out", "out")
    assert counts(done) == (found, 1200 - found, 0)
    assert not kept.exists()
    whole = run(study, "--out", "whole", "--fresh")
    assert done["results_digest"] == whole["results_digest"]


def test_the_store_holds_what_it_was_given(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    with CellFolder(folder, "") as store:
        store.keep(KEY, b"one")
        assert store.take(KEY) == b"one"
        assert not folder.exists(), "nothing is written yet"
    with CellFolder(folder, "") as store:
        assert (store.has(KEY), store.has(OTHER)) == (True, False)
        assert (store.take(KEY), store.take(OTHER)) == (b"one", None)
        store.keep(OTHER, b"")
    with CellFolder(folder, "") as store:
        assert (store.take(KEY), store.take(OTHER)) == (b"one", b"")
        store.refuse(KEY)
        assert store.take(KEY) is None
        assert not CellFolder(folder, "", is_fresh=True).has(OTHER)
        store.remove()
    assert not folder.exists()


def test_every_cut_of_a_file_leaves_whole_cells_only(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    with CellFolder(folder, "") as store:
        store.keep(KEY, b"first")
        store.keep(OTHER, b"second")
    (file,) = folder.iterdir()
    content = file.read_bytes()
    found = set()
    for length in range(len(content) + 1):
        file.write_bytes(content[:length])
        store = CellFolder(folder, "")
        taken = (store.take(KEY), store.take(OTHER))
        assert taken in ((None, None), (b"first", None), (b"first", b"second")), length
        found.add(taken)
    assert len(found) == 3


def test_a_folder_with_anything_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(NandlabError, match=r"holds notes\.txt, which is no file of cells"):
        CellFolder(tmp_path, "")
    with pytest.raises(NandlabError, match="this is a file; name a folder"):
        CellFolder(tmp_path / "notes.txt", "")


def test_the_api_takes_cells_as_well(tmp_path: Path) -> None:
    study, kept = write_study(tmp_path, repeats=1), tmp_path / "kept"
    first = nandlab.run(study, cells=kept, jobs=1)
    assert CellFolder(kept, "").finished() == 4
    assert nandlab.run(study, cells=kept, jobs=1).digest == first.digest
    assert nandlab.run(study, jobs=1).digest == first.digest
