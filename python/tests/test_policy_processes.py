"""Policies in Python side by side: a process for each cell that is carried out."""

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from own_policies import EXAMPLES, copy_examples, run_study

import nandlab as nl
from nandlab.cells import processes as processes_module
from nandlab.errors import MachineError, NandlabError

pytestmark = pytest.mark.usefixtures("engine_is_built")

SPACE = """
[study]
name = "small"
question = "How much is copied?"
part = "generic-mlc-2x"
blocks = 64
repeats = 2
workload = { kind = "uniform", warm_up_writes = 1, measured_writes = 1 }
[space.axes]
ftl = ["page"]
cleaning = ["telling.py:Telling"]
spare_percent = [12]
"""
"""A space of one point, which takes all jobs."""

AXES = 'ftl = ["page"]\ncleaning = ["greedy", "telling.py:Telling"]'


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the examples, and with a policy that tells its process."""
    copy_examples(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


WAIT = """
        until = time.monotonic() + 30
        while len(set(open({file!r}).read().split())) < 2 and time.monotonic() < until:
            time.sleep(0.01)
"""
"""An object waits for one of another process, whatever the machine has to do beside."""


def tell(
    here: Path, in_choose: str = "pass", at_first: str = "pass", at_last: str = "pass"
) -> None:
    """Writes the policy; each object notes its process."""
    text = (EXAMPLES / "my_greedy.py").read_text(encoding="utf-8")
    text += f"""

import os
import time


class Telling(MyGreedy):
    def __init__(self):
        print("made")
        {at_first}
        with open({str(here / "processes")!r}, "a") as file:
            file.write(f"{{os.getpid()}}\\n")
        {at_last}

    def choose(self, view):
        {in_choose}
        return super().choose(view)
"""
    (here / "telling.py").write_text(text, encoding="utf-8")


def processes(here: Path) -> list[int]:
    file = here / "processes"
    found = [int(word) for word in file.read_text(encoding="utf-8").split()]
    file.unlink()
    return found


def test_two_jobs_are_two_processes_and_give_the_digest_of_one(here: Path) -> None:
    tell(here)
    one = run_study(here, AXES, repeats=4, jobs=1)
    assert set(processes(here)) == {os.getpid()}
    tell(here, at_last=WAIT.format(file=str(here / "processes")).strip())
    two = run_study(here, AXES, repeats=4, jobs=2)
    found = processes(here)
    assert len(set(found)) == 2, found
    assert os.getpid() not in found
    assert two.digest == one.digest


def test_one_cell_stays_in_this_process(here: Path) -> None:
    tell(here)
    run_study(here, AXES.replace('"greedy", ', ""), jobs=2)
    assert set(processes(here)) == {os.getpid()}


def test_an_exception_in_a_worker_names_run_and_line(here: Path) -> None:
    tell(here, in_choose="view.colour")
    with pytest.raises(NandlabError, match=r"run `.*telling.py:Telling.*colour.*line 29 of"):
        run_study(here, AXES, repeats=4, jobs=2)


def test_a_worker_that_ends_is_told(here: Path) -> None:
    # Not where the policy is made alone: the check of the study makes none.
    tell(here, in_choose="os._exit(3)")
    with pytest.raises(NandlabError, match="a worker process ended with status 3"):
        run_study(here, AXES, repeats=4, jobs=2)


def test_a_worker_that_cannot_start_is_told_and_ends_the_others(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell(here)
    started = []
    plain = processes_module._started

    def second_fails() -> "subprocess.Popen[bytes]":
        if started:
            raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        started.append(plain())
        return started[0]

    monkeypatch.setattr(processes_module, "_started", second_fails)
    with pytest.raises(MachineError, match="cannot be started: Resource temporarily unavailable"):
        run_study(here, AXES, repeats=4, jobs=2)
    assert started[0].returncode == -signal.SIGKILL


def test_an_answer_that_cannot_be_read_ends_the_run(here: Path) -> None:
    tell(here, in_choose="[os.write(fd, b'nonsense') for fd in range(3, 12) if is_pipe(fd)]")
    with (here / "telling.py").open("a", encoding="utf-8") as file:
        file.write(
            "\n\ndef is_pipe(fd):\n"
            "    import stat\n"
            "    try:\n"
            "        return stat.S_ISFIFO(os.fstat(fd).st_mode)\n"
            "    except OSError:\n"
            "        return False\n"
        )
    with pytest.raises(MachineError, match="gave an answer that cannot be read: UnpicklingError"):
        run_study(here, AXES, repeats=4, jobs=2)


def test_a_lost_worker_makes_no_point_of_a_search_impossible(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nandlab.design_space.answer.picture", lambda *_: b"")
    tell(here, in_choose=f"os.path.exists({str(here / 'alive')!r}) or os._exit(3)")
    (here / "space.toml").write_text(SPACE, encoding="utf-8")

    def search() -> nl.Search:
        return nl.search(here / "space.toml", objective="waf", runs=1, jobs=2, out=here / "found")

    with pytest.raises(MachineError, match="a worker process ended with status 3"):
        search()
    (here / "alive").touch()
    assert len(search().rows) == 1


def test_a_script_without_a_main_guard_may_run_a_study(here: Path) -> None:
    tell(here)
    one = run_study(here, AXES, repeats=2, jobs=1)
    (here / "script.py").write_text(
        "import nandlab\nprint(nandlab.run('own.toml', jobs=2).digest)\n", encoding="utf-8"
    )
    done = subprocess.run(
        [sys.executable, "script.py"], capture_output=True, encoding="utf-8", check=True
    )
    assert done.stdout.split()[-1] == one.digest


def test_a_signal_ends_workers_and_keeps_what_they_finished(here: Path) -> None:
    tell(here)
    run_study(here, AXES, repeats=2, jobs=1)
    processes(here)
    # Each object but the first ones waits: what came before them is finished by then.
    tell(here, at_first=f"time.sleep(100 if os.path.exists({str(here / 'slow')!r}) else 0)")
    (here / "slow").write_text("", encoding="utf-8")
    command = [sys.executable, "-m", "nandlab", "run", "own.toml", "--out", "again", "--jobs", "2"]
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    workers: list[int] = []
    until = time.monotonic() + 60
    while len(workers) < 2 and time.monotonic() < until:
        time.sleep(0.2)
        workers = children(running.pid)
    # The cells of the built-in policy are done meanwhile, by one worker or the other.
    time.sleep(4)
    running.send_signal(signal.SIGINT)
    assert running.wait(timeout=20) == 130
    assert len(workers) == 2
    # Both repeats of the built-in policy, and none of the one that waits.
    kept = nl.open_run(here / "again").frame
    assert set(kept.select("cleaning", "repeat").iter_rows()) == {("greedy", 0), ("greedy", 1)}
    assert list((here / "again.cells").glob("*.cells")), "the next call goes on from there"
    assert not any(Path(f"/proc/{worker}").exists() for worker in workers)


def children(process: int) -> list[int]:
    """Processes of this parent that are Python's."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text(encoding="utf-8").rpartition(")")[2].split()[1])
            command = stat.with_name("cmdline").read_bytes()
        except (OSError, IndexError):
            continue
        if parent == process and b"worker_process" in command:
            found.append(int(stat.parent.name))
    return found
