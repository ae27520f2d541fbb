"""Commands that Ctrl-C ends while they write a timeline."""

import signal
import subprocess
import sys
import time
from pathlib import Path

_PROGRAM = "import sys, nandlab.cli as cli\nsys.exit(cli.main(sys.argv[1:]))\n"
_PATIENCE_S = 60


def interrupt(folder: Path, words: list[str]) -> None:
    """Sends Ctrl-C to a command while it writes a timeline there; what was there before is left."""
    before = _names(folder)
    running = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
    )
    try:
        until = time.monotonic() + _PATIENCE_S
        # Not before half of a timeline is there: else nothing would be shown by its absence.
        while not any(one.stat().st_size for one in folder.glob("trace.*.part")):
            assert running.poll() is None, running.communicate()[1]
            assert time.monotonic() < until, "no timeline is written"
            time.sleep(0.02)
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=_PATIENCE_S)
    finally:
        running.kill()
    assert running.returncode == 130, said
    left = _names(folder)
    assert left == before, (left, said)


def _names(folder: Path) -> list[str]:
    """What lies there, but for the folder of a run: the finished part of a study is kept."""
    return sorted(one.name for one in folder.iterdir() if not one.name.startswith("out"))
