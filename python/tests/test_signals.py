"""Ctrl-C, SIGTERM and SIGKILL at drawn moments of every long command.

What the promise of two seconds is measured by: the processor time that a command takes after the
signal, which a busy machine does not change; and the clock, with an allowance that the test
measures itself. `NANDLAB_LONG_TESTS=1` tries every signal on every command, at several moments.
"""

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command_table import commands
from long_commands import LONG, NANDLAB, Long, command_line
from long_tests import IS_LONG
from signalled import PATIENCE_S, Blow, End, slowness, stopped

from nandlab.cli import heedful
from nandlab.interruption import Interrupted

pytestmark = pytest.mark.usefixtures("engine_is_built")

MOMENTS = 6 if IS_LONG else 1
ENDS_WITHIN_S = 2.0
STATUS = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGKILL: -9}
WITHOUT = {
    ("capture",): "boots a machine: test_capture.py and test_vm.py have it",
    ("serve-raw",): "boots a machine: test_raw_chips.py and test_vm.py have it",
    ("serve-crash",): "boots machines: test_serve_crash.py has its interruption",
    ("search",): "test_search.py has its interruption",
    ("serve",): "works until it is ended: test_serve.py has its signals",
    ("serve-ctl",): "waits for a server: test_serve.py has it",
}


def test_every_command_is_tried() -> None:
    assert {long.words for long in LONG.values() if long.words} | set(WITHOUT) == set(commands())


def _is_whole(out: Path) -> bool:
    """A target is not there, or is there as a whole."""
    if not out.exists():
        return True
    if out.is_dir():
        manifest = out / "manifest.json"
        if manifest.exists():
            return bool(json.loads(manifest.read_text(encoding="utf-8")))
        return (out / "f0").exists() or (out / "index.html").exists() or any(out.iterdir())
    return out.stat().st_size > 0


def _cases() -> list[tuple[str, signal.Signals]]:
    """All signals for each command in the long form; else one for each, in turn."""
    numbers = tuple(STATUS)
    if IS_LONG:
        return [(name, number) for name in LONG for number in numbers]
    return [(name, numbers[index % len(numbers)]) for index, name in enumerate(LONG)]


@pytest.mark.parametrize(
    ("name", "number"), _cases(), ids=lambda value: getattr(value, "name", value)
)
def test_a_signal_ends_the_command(
    name: str, number: signal.Signals, inputs: Path, tmp_path: Path
) -> None:
    long = LONG[name]
    draw = random.Random(f"{name} {number}")
    ends = []
    for moment in range(MOMENTS):
        folder = tmp_path / str(moment)
        target = folder / "results"
        target.mkdir(parents=True)
        words = command_line(long, inputs, str(target / "out"))
        # The first comes as soon as the handlers are there, which is before the libraries are.
        moment_s = draw.uniform(0, long.span_s) if moment or not IS_LONG else 0.0
        before = slowness()
        end = stopped(words, long, Blow(number, moment_s), folder)
        shown = f"{name} {moment_s:.2f} s after its handlers: {end}"
        _ends_in_time(end, number, before, shown)
        _leaves_nothing_half(end, number, folder, shown)
        ends.append(end)
    if IS_LONG:
        assert any(end.code == STATUS[number] for end in ends), f"no signal came in time: {ends}"


def _ends_in_time(end: End, number: signal.Signals, slowness_before: float, shown: str) -> None:
    assert "Traceback" not in end.errors, shown
    assert "panicked" not in end.errors, shown
    # A command may be faster than the signal.
    assert end.code in (STATUS[number], 0, 1), shown
    if number is signal.SIGKILL:
        return
    assert end.processor_s <= ENDS_WITHIN_S, shown
    assert end.clock_s <= ENDS_WITHIN_S * max(slowness_before, slowness()) + 1, shown
    if end.code == STATUS[number]:
        assert "interrupted" in end.errors.lower(), shown


def _leaves_nothing_half(end: End, number: signal.Signals, folder: Path, shown: str) -> None:
    target = folder / "results"
    if number is not signal.SIGKILL:
        left = [path.name for path in target.rglob("*") if path.name.startswith(".nandlab")]
        left += [path.name for path in target.iterdir() if path.name.startswith(".")]
        left += [path.name for path in target.rglob("*.unfinished")]
        assert left == [], shown
        kept = [path.name for path in (folder / "tmp").iterdir()]
        assert all(name.startswith("nandlab-results-") for name in kept), f"{kept} {shown}"
    for out in target.glob("out*"):
        assert _is_whole(out), shown


def test_a_signal_while_a_class_is_made_is_one_all_the_same() -> None:
    """Python 3.11 wraps what `__set_name__` raises in a RuntimeError."""

    class Raises:
        def __set_name__(self, owner: type, name: str) -> None:
            raise Interrupted(signal.SIGTERM)

    def work() -> int:
        type("Made", (), {"field": Raises()})
        return 0

    assert heedful(work, is_process=False) == 143

    def fails() -> int:
        raise RuntimeError("a defect")

    with pytest.raises(RuntimeError, match="a defect"):
        heedful(fails, is_process=False)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_no_moment_of_a_short_command_ends_in_a_traceback(
    number: signal.Signals, tmp_path: Path
) -> None:
    """From the first handler to the end of the interpreter, every few milliseconds."""
    short = Long(("explain",), ())
    words = [*NANDLAB, "explain", "bast", "--ops", "W1"]
    faults = []
    for step in range(60 if IS_LONG else 20):
        moment_s = step * (0.3 / (60 if IS_LONG else 20))
        end = stopped(words, short, Blow(number, moment_s), tmp_path)
        is_quiet = end.errors == ("nandlab: interrupted\n" if end.code == STATUS[number] else "")
        if end.code not in (STATUS[number], 0) or not is_quiet:
            faults.append(f"{moment_s:.3f} s: {end}")
    assert not faults, "\n".join(faults)


def test_an_interrupted_study_says_where_its_results_are(tmp_path: Path) -> None:
    words = [*NANDLAB, "run", "sfq-emmc", "--quick", "--jobs", "2", "--out", "out"]
    for moment_s in (1, 3, 6, 12, 25):
        blow = Blow(signal.SIGTERM, moment_s)
        end = stopped(words, Long(("run",), ()), blow, tmp_path)
        if end.code == 143 and (tmp_path / "out").exists():
            manifest = json.loads((tmp_path / "out/manifest.json").read_text(encoding="utf-8"))
            assert manifest["interrupted"] is True
            assert "only the finished runs are in out" in " ".join(end.output.split())
            return
        if end.code == 0:
            break
    pytest.fail("no signal came between the first run and the last")


def test_an_interrupted_script_shows_what_its_lines_have_counted(tmp_path: Path) -> None:
    first = "mount -\nphase one\nput a 644 200k 4096 t 1 fsync\nend\n"
    rest = "phase two\n" + "write a 0 64k 4096 t 2\n" * 60_000
    script = tmp_path / "script.ops"
    words = [*NANDLAB, "script", str(script), "--fs", "jffs2", "--output-format"]
    script.write_text(first, encoding="utf-8")
    whole = subprocess.run([*words, "json"], check=True, capture_output=True)
    script.write_text(first + rest, encoding="utf-8")
    files = ["--dump", "chip", "--counts", "counts.csv"]
    for number, form in ((signal.SIGINT, "json"), (signal.SIGTERM, "table")):
        blow = Blow(number, 1.5)
        end = stopped([*words, form, *files], Long(("script",), ()), blow, tmp_path)
        assert end.code == STATUS[number], end
        assert "Interrupted after line" in end.errors
        assert "no chip was written" in end.errors
        assert not (tmp_path / "chip").exists()
        counts = (tmp_path / "counts.csv").read_text(encoding="utf-8").splitlines()
        assert len(counts) == 2
        assert ",one," in counts[1]
        if form == "json":
            answer = json.loads(end.output)["result"]
            assert answer["interrupted"] is True
            assert answer["phases"] == json.loads(whole.stdout)["result"]["phases"]
            assert answer["unfinished"]["phase"] == "two"
            assert answer["unfinished"]["programs"] > 0
        else:
            assert "two (unfinished)" in end.output


def test_an_interrupted_block_tells_its_pass(tmp_path: Path) -> None:
    script = tmp_path / "script.ops"
    script.write_text(
        "put a 644 4k 4k x 1\nrepeat 1000000000 {\n  try unlink b\n}\n", encoding="utf-8"
    )
    words = [*NANDLAB, "script", str(script), "--fs", "jffs2"]
    end = stopped(words, Long(("script",), ()), Blow(signal.SIGINT, 1.5), tmp_path)
    assert end.code == STATUS[signal.SIGINT], end
    assert "Interrupted after line 3, pass " in end.errors


def test_an_interrupted_validation_shows_what_it_has_compared(tmp_path: Path) -> None:
    words = [*NANDLAB, "validate", "--out", "page.md"]
    for moment_s in (3, 6, 12, 24):
        blow = Blow(signal.SIGTERM, moment_s)
        end = stopped(words, Long(("validate",), ()), blow, tmp_path)
        assert end.code == 143, end
        assert end.processor_s <= ENDS_WITHIN_S, end
        assert not (tmp_path / "page.md").exists()
        assert "Stopped before its end: " in end.output
        if "| ok |" in end.output:
            return
    pytest.fail("no workload was compared before the signal")


CHILD = """
import sys
from nandlab.vm import children
with children.started(sys.argv[1:]) as process:
    print(process.pid, flush=True)
    process.wait()
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_machine_does_not_outlive_its_command(number: signal.Signals) -> None:
    for command in (["sleep", "1000"], ["sh", "-c", "sleep 1000 & wait"]):
        parent = subprocess.Popen(
            [sys.executable, "-c", CHILD, *command], stdout=subprocess.PIPE, encoding="utf-8"
        )
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        if number is signal.SIGTERM:
            # Nothing heeds it here; the kernel tells the child.
            assert parent.poll() is None
        parent.send_signal(number)
        parent.wait()
        parent.stdout.close()
        limit_s = time.monotonic() + PATIENCE_S
        while _is_running(child) and time.monotonic() < limit_s:
            time.sleep(0.01)
        assert not _is_running(child)


def _is_running(process: int) -> bool:
    try:
        text = Path(f"/proc/{process}/stat").read_text(encoding="utf-8")
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] != "Z"


LOST = """
import os, signal, sys, time
from nandlab.interruption import Interrupted, heed_signals

class Finalized:
    def __del__(self):
        os.kill(os.getpid(), signal.{name})
        for _ in range(1000):
            pass

heed_signals()
try:
    dropped = Finalized()
    del dropped
    time.sleep(30)
except Interrupted as end:
    sys.exit(end.status)
"""


@pytest.mark.parametrize(("name", "status"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_a_signal_in_a_finalizer_is_not_lost(name: str, status: int) -> None:
    # What a finalizer raises is dropped by the interpreter. The sleep stands for a call that waits.
    command = [sys.executable, "-c", LOST.format(name=name)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=25, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (status, "", "")
