"""Ctrl-C, SIGTERM and SIGKILL at drawn moments of every long command.

What the promise of two seconds is measured by: the processor time that a command takes after the
signal, which a busy machine does not change; and the clock, with an allowance that the test
measures itself. `NANDLAB_LONG_TESTS=1` tries every signal on every command, at many moments.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from command_table import commands

pytestmark = [
    pytest.mark.usefixtures("engine_is_built"),
    pytest.mark.skipif(
        os.environ.get("NANDLAB_LONG_TESTS") != "1", reason="a part of make test-long"
    ),
]

IS_LONG = os.environ.get("NANDLAB_LONG_TESTS") == "1"
MOMENTS = 12 if IS_LONG else 1
ENDS_WITHIN_S = 2.0
SPAN_S = 3.0
"""A signal comes at most so long after its handler is there."""

PATIENCE_S = 120.0
ROOT = Path(__file__).parents[2]
COMPARE = f"{ROOT}/workloads/compare"
SMALL = f"{ROOT}/traces/small/fat-mp3-1.parquet"
TICKS = os.sysconf("SC_CLK_TCK")
STATUS = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGKILL: -9}
LINE = "128166372003061629,host,0,Write,0,4096,100"
NANDLAB = (sys.executable, "-m", "nandlab")


@dataclass(frozen=True)
class Long:
    """A command that works for long; `OUT` in its words is where it writes."""

    words: tuple[str, ...]
    arguments: tuple[str, ...]
    feeds: str | None = None
    """A line that standard input repeats without end."""
    is_silent: bool = False
    """Standard input never says anything."""
    keeps: tuple[str, ...] = field(default=())
    """What may be beside the target afterwards."""


LONG = {
    "run-traces": Long(("run",), ("ftl-windows", "--jobs", "2", "--out", "OUT")),
    "run-jobs": Long(("run",), ("sfq-emmc", "--jobs", "2", "--out", "OUT")),
    "run-file-systems": Long(("run",), ("android", "--jobs", "2", "--out", "OUT")),
    "run-block": Long(("run",), ("scheduler-filesystem", "--jobs", "1", "--out", "OUT")),
    "compare": Long(
        ("compare",),
        ("--fs", "jffs2,ubifs", "--workload", f"{COMPARE}/iozone.toml", "--out", "OUT"),
    ),
    "compare-cuts": Long(
        ("compare",),
        ("--fs", "jffs2,yaffs2", "--workload", f"{COMPARE}/update.toml", "--crash"),
    ),
    "replay": Long(
        ("replay",),
        (SMALL, "--ftl", "fast", "--passes", "4000000000", "--out", "OUT"),
    ),
    "replay-pipe": Long(
        ("replay",), ("-", "--ftl", "page", "--format", "msr", "--out", "OUT"), feeds=LINE
    ),
    "replay-waits": Long(("replay",), ("-", "--ftl", "page", "--out", "OUT"), is_silent=True),
    "convert": Long(("convert",), ("-", "OUT", "--format", "msr"), feeds=LINE),
    "schedule": Long(("schedule",), ("-", "--scheduler", "noop"), is_silent=True),
    "script": Long(("script",), ("many.ops", "--fs", "jffs2", "--dump", "OUT")),
    "script-write-back": Long(("script",), ("many.ops", "--fs", "nilfs2", "--counts", "OUT")),
    "script-read": Long(("script",), ("hole.ops", "--fs", "jffs2", "--seq", "OUT")),
    "crash": Long(("crash",), ("cuts.ops", "--fs", "yaffs2", "--out", "OUT")),
    "validate": Long(("validate",), ("--out", "OUT")),
    "make-jffs2": Long(
        ("image", "make"),
        ("OUT", "--fs", "jffs2", "--from", "tree", "--blocks", "8192", "--option", "compr=zlib"),
    ),
    "make-ubifs": Long(
        ("image", "make"),
        ("OUT", "--fs", "ubifs", "--from", "tree", "--blocks", "8192", "--compr", "zlib"),
    ),
    "make-yaffs2": Long(
        ("image", "make"), ("OUT", "--fs", "yaffs2", "--from", "tree", "--blocks", "8192")
    ),
    "make-nilfs2": Long(("image", "make"), ("OUT", "--fs", "nilfs2", "--from", "tree")),
    "list-hashes": Long(("image", "ls"), ("--hash", "image.jffs2")),
    "check": Long(("image", "check"), ("image.jffs2",)),
    "extract": Long(("image", "extract"), ("image.jffs2", "OUT")),
    "info": Long(("image", "info"), ("image.jffs2",)),
    "diff": Long(("image", "diff"), ("image.jffs2", "image.jffs2")),
    "report": Long(("report",), ("folder",)),
    "index": Long(("index",), ("runs",)),
    "list": Long(("list",), ("studies",)),
    "explain": Long(("explain",), ("bast", "--ops", "W1 W2 W3")),
    "reproduce": Long((), ("--out", "OUT")),
}
"""Long commands, and a short one of every other kind."""

WITHOUT = {("capture",): "boots a machine: test_capture.py and test_vm.py have it"}


def test_every_command_is_tried() -> None:
    assert {long.words for long in LONG.values() if long.words} | set(WITHOUT) == set(commands())


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, run_folder: Path) -> Path:
    """A folder with what the commands read."""
    place = tmp_path_factory.mktemp("signals")
    lines = "".join(f"put f{number} 644 200k 4096 t {number}\n" for number in range(60))
    changes = "".join(f"write f{number % 60} 0 64k 4096 t {number}\n" for number in range(60_000))
    (place / "many.ops").write_text(lines + changes, encoding="utf-8")
    text = "put f 644 4k 4096 x 1\ntruncate f 4294963200\nread f 64k\nread f 64k\n"
    (place / "hole.ops").write_text(text, encoding="utf-8")
    cuts = "".join(f"put f{number % 9} 644 40k 4096 x {number} fsync\n" for number in range(200))
    (place / "cuts.ops").write_text(cuts, encoding="utf-8")
    claims = "".join(
        f"put f{number} 644 4k 4096 x {number}\ntruncate f{number} {4294963200 - number}\n"
        for number in range(12)
    )
    (place / "claims.ops").write_text(claims, encoding="utf-8")
    dump = ["script", str(place / "claims.ops"), "--fs", "jffs2", "--blocks", "64", "--dump"]
    subprocess.run([*NANDLAB, *dump, str(place / "image.jffs2")], check=True, capture_output=True)
    draw = random.Random(7)
    (place / "tree").mkdir()
    words = [draw.randbytes(12).hex().encode() for _ in range(5000)]
    for number in range(60):
        text_bytes = b" ".join(draw.choices(words, k=80_000))
        (place / "tree" / f"file{number}").write_bytes(text_bytes)
    (place / "folder").symlink_to(run_folder)
    (place / "runs").symlink_to(run_folder.parent)
    return place


def _words(long: Long, place: Path, out: Path) -> list[str]:
    def shown(word: str) -> str:
        if word == "OUT":
            return str(out)
        return str(place / word) if (place / word).exists() and "/" not in word else word

    if not long.words:
        return [sys.executable, "-m", "nandlab.reproduce", *map(shown, long.arguments)]
    return [*NANDLAB, *long.words, *map(shown, long.arguments)]


def _heeds(process: int) -> bool:
    """True if the process has a handler for SIGTERM: until then the interpreter starts."""
    try:
        status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    except OSError:
        return False
    caught = next((line for line in status.splitlines() if line.startswith("SigCgt:")), "0 0")
    return bool(int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1)


def _processor_s(process: int) -> float:
    """Processor time of all threads so far; 0 if the process has ended."""
    try:
        text = Path(f"/proc/{process}/stat").read_text(encoding="utf-8")
    except OSError:
        return 0.0
    fields = text.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def _slowness() -> float:
    """How many times longer than its processor time a program of this machine takes at present."""
    start_s, before = time.monotonic(), os.times()
    subprocess.run([*NANDLAB, "--version"], check=True, capture_output=True)
    after = os.times()
    own_s = after.children_user + after.children_system
    own_s -= before.children_user + before.children_system
    return max((time.monotonic() - start_s) / max(own_s, 0.01), 1.0)


@dataclass(frozen=True)
class End:
    """How a command ended after a signal."""

    code: int
    output: str
    errors: str
    processor_s: float
    clock_s: float


def _stopped(
    words: Sequence[str], long: Long, number: signal.Signals, delay_s: float, folder: Path
) -> End:
    """Starts a command, sends the signal after so long, and waits for its end."""
    feeder = None
    stdin: int | object = subprocess.DEVNULL
    if long.feeds is not None:
        feeder = subprocess.Popen(["yes", long.feeds], stdout=subprocess.PIPE)
        stdin = feeder.stdout
    elif long.is_silent:
        stdin = subprocess.PIPE
    scratch = folder / "tmp"
    scratch.mkdir(exist_ok=True)
    with (folder / "output").open("w+b") as output, (folder / "errors").open("w+b") as errors:
        process = subprocess.Popen(
            words,
            stdin=stdin,  # type: ignore[arg-type]
            stdout=output,
            stderr=errors,
            cwd=folder,
            env=os.environ | {"TMPDIR": str(scratch)},
        )
        while process.poll() is None and not _heeds(process.pid):
            time.sleep(0.005)
        time.sleep(delay_s)
        before_s = _processor_s(process.pid)
        start_s = time.monotonic()
        process.send_signal(number)
        try:
            _, status, usage = _wait(process.pid)
        finally:
            if feeder is not None:
                feeder.kill()
                feeder.communicate()
        clock_s = time.monotonic() - start_s
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.stdin is not None:
            process.stdin.close()
        output.seek(0)
        errors.seek(0)
        texts = [file.read().decode("utf-8", "replace") for file in (output, errors)]
    used_s = usage.ru_utime + usage.ru_stime - before_s
    return End(process.returncode, texts[0], texts[1], used_s, clock_s)


def _wait(process: int) -> tuple[int, int, "os.struct_rusage"]:  # type: ignore[name-defined]
    limit_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < limit_s:
        found = os.wait4(process, os.WNOHANG)
        if found[0]:
            return found
        time.sleep(0.01)
    os.kill(process, signal.SIGKILL)
    os.wait4(process, 0)
    pytest.fail(f"the command did not end in {PATIENCE_S} s after the signal")


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
    name: str, number: signal.Signals, place: Path, tmp_path: Path
) -> None:
    long = LONG[name]
    draw = random.Random(f"{name} {number}")
    for moment in range(MOMENTS):
        folder = tmp_path / str(moment)
        folder.mkdir()
        target = folder / "results"
        target.mkdir()
        out = target / "out"
        slowness = _slowness()
        end = _stopped(_words(long, place, out), long, number, draw.uniform(0, SPAN_S), folder)
        shown = f"{name} at moment {moment}: {end}"
        assert "Traceback" not in end.errors, shown
        assert "panicked" not in end.errors, shown
        # A command may be faster than the signal.
        assert end.code in (STATUS[number], 0, 1), shown
        if number is not signal.SIGKILL:
            assert end.processor_s <= ENDS_WITHIN_S, shown
            assert end.clock_s <= ENDS_WITHIN_S * max(slowness, _slowness()) + 1, shown
            if end.code == STATUS[number]:
                assert "interrupted" in end.errors.lower(), shown
            left = [path.name for path in target.rglob("*") if path.name.startswith(".nandlab")]
            left += [path.name for path in target.iterdir() if path.name.startswith(".")]
            left += [path.name for path in target.rglob("*.unfinished")]
            assert left == [], shown
            kept = [path.name for path in (folder / "tmp").iterdir()]
            assert all(name.startswith("nandlab-results-") for name in kept), f"{kept} {shown}"
        assert _is_whole(out), shown


def test_an_interrupted_study_says_where_its_results_are(tmp_path: Path) -> None:
    long = Long(("run",), ())
    words = [*NANDLAB, "run", "sfq-emmc", "--quick", "--jobs", "2", "--out", "out"]
    for delay_s in (4, 10, 25):
        end = _stopped(words, long, signal.SIGTERM, delay_s, tmp_path)
        if end.code == 143 and (tmp_path / "out").exists():
            manifest = json.loads((tmp_path / "out/manifest.json").read_text(encoding="utf-8"))
            assert manifest["interrupted"] is True
            assert "only the runs that finished are in out" in " ".join(end.output.split())
            return
        if end.code == 0:
            break
    pytest.fail("no signal came between the first run and the last")


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
