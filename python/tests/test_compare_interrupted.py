"""A comparison on used flash: each candidate fills its own, and Ctrl-C shows what is finished."""

import time
from pathlib import Path

import pytest

from nandlab.cli import main
from nandlab.comparison.candidates import unfinished
from nandlab.comparison.candidates_run import Asked
from nandlab.comparison.candidates_run import run as run_candidates
from nandlab.interruption import ENDS_WITHIN_S

pytestmark = pytest.mark.usefixtures("engine_is_built")

BLOCKS = 256


@pytest.fixture
def workload(tmp_path: Path) -> Path:
    """Little work on flash that takes long to fill."""
    (tmp_path / "work.ops").write_text("put new 644 5000 1000 t 2 fsync\n", encoding="utf-8")
    path = tmp_path / "my.toml"
    text = '[workload]\nkind = "script"\nfile = "work.ops"\n[flash]\nfill_percent = 60\n'
    path.write_text(f"{text}rewritten_percent = 60\n", encoding="utf-8")
    return path


def asked(workload: Path) -> Asked:
    # JFFS2's flash takes ten times as long to fill as that of YAFFS2, and comes after it.
    file_systems = "yaffs2,jffs2"
    return Asked(file_systems=file_systems, workload=workload, blocks=BLOCKS, jobs=1)


def test_flash_is_filled_when_the_turn_of_a_candidate_comes(workload: Path) -> None:
    ended_s: dict[int, float] = {}

    def watch(done: int, _total: int, _label: str) -> None:
        if done:
            ended_s.setdefault(done, time.process_time())

    began_s = time.process_time()
    run_candidates(asked(workload), watch)
    first_s, whole_s = (one - began_s for one in ended_s.values())
    # Filled before all runs, the flash of both would leave hardly anything to do after the first.
    assert first_s < 0.5 * whole_s, (first_s, whole_s)


def test_ctrl_c_while_the_second_one_is_filled_shows_the_first(
    workload: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    since_s: list[float] = []
    stopped_s: list[float] = []

    def stop(done: int, _total: int, _label: str) -> None:
        if done:
            since_s.append(time.monotonic())
            if since_s[-1] - since_s[0] > 0.3:
                stopped_s.append(time.process_time())
                raise KeyboardInterrupt

    finished = run_candidates(asked(workload), stop)
    finished.shown.print()
    assert time.process_time() - stopped_s[0] < ENDS_WITHIN_S
    assert finished.run.interrupted
    assert unfinished(finished.run) == ["JFFS2"]
    (shown,) = finished.shown.tables
    assert shown.columns == ("", "YAFFS2")
    assert "partial: only candidates that finished" in capsys.readouterr().out


def test_a_history_that_cannot_fit_is_refused_by_its_numbers(
    workload: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = workload.read_text(encoding="utf-8").replace("fill_percent = 60", "fill_percent = 90")
    workload.write_text(text, encoding="utf-8")
    began_s = time.process_time()
    words = ("compare", "--fs", "yaffs2,nilfs2", "--blocks", "160", "--workload", str(workload))
    assert main(words) == 2
    message = capsys.readouterr().err
    assert "nothing was run" in message
    assert "`file_system=nilfs2" in message or "nilfs2" in message
    assert "cannot have its history: it fills " in message
    # Nothing is filled to find that out.
    assert time.process_time() - began_s < 5
