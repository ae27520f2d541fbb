"""The long commands of the CLI, and a short one of every other kind, with what they read."""

import random
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from mqsim_inputs import Files

ROOT = Path(__file__).parents[2]
NANDLAB = (sys.executable, "-m", "nandlab")
_COMPARE = f"{ROOT}/workloads/compare"
_SMALL = f"{ROOT}/traces/small/fat-mp3-1.parquet"
_LINE = "128166372003061629,host,0,Write,0,4096,100"


@dataclass(frozen=True)
class Long:
    """A command; `OUT` in its words is where it writes."""

    words: tuple[str, ...]
    arguments: tuple[str, ...]
    feeds: str | None = None
    """A line that standard input repeats without end."""
    is_silent: bool = False
    """Standard input never says anything."""
    span_s: float = 3.0
    """Processor time in which a signal finds it at work."""
    ending: str = ""
    """What the name of its target ends with."""

    @property
    def writes(self) -> bool:
        """True of a command that is told where to write."""
        return "OUT" in self.arguments


LONG = {
    "run-traces": Long(("run",), ("ftl-windows", "--jobs", "2", "--out", "OUT")),
    "run-jobs": Long(("run",), ("sfq-emmc", "--jobs", "2", "--out", "OUT")),
    "run-file-systems": Long(("run",), ("android", "--jobs", "2", "--out", "OUT")),
    "run-block": Long(("run",), ("scheduler-filesystem", "--jobs", "1", "--out", "OUT")),
    "compare": Long(
        ("compare",),
        ("--fs", "jffs2,ubifs", "--workload", f"{_COMPARE}/iozone.toml", "--out", "OUT"),
    ),
    "compare-cuts": Long(
        ("compare",),
        ("--fs", "jffs2,yaffs2", "--workload", f"{_COMPARE}/update.toml", "--crash"),
    ),
    "readings": Long(("readings",), ("sfq-emmc", "--jobs", "2", "--out", "OUT"), ending=".json"),
    "replay": Long(
        ("replay",),
        (_SMALL, "--ftl", "fast", "--passes", "4000000000", "--out", "OUT"),
    ),
    "replay-pipe": Long(
        ("replay",), ("-", "--ftl", "page", "--format", "msr", "--out", "OUT"), feeds=_LINE
    ),
    "replay-waits": Long(
        ("replay",), ("-", "--ftl", "page", "--out", "OUT"), is_silent=True, span_s=0.3
    ),
    "life": Long(("life",), (str(ROOT / "workloads/compare/data-logger.toml"), "--fs", "ubifs")),
    "check-policy": Long(("check",), ("page", "--sequences", "10000000")),
    "fio": Long(("fio",), ("long.fio", "--device", "nvme-ssd", "--output", "OUT")),
    "convert": Long(("convert",), ("-", "OUT", "--format", "msr"), feeds=_LINE, ending=".parquet"),
    "mqsim": Long(("mqsim",), ("ssdconfig.xml", "workload.xml")),
    "schedule": Long(("schedule",), ("-", "--scheduler", "noop"), is_silent=True, span_s=0.3),
    "script": Long(("script",), ("many.ops", "--fs", "jffs2", "--dump", "OUT")),
    "script-write-back": Long(("script",), ("many.ops", "--fs", "nilfs2", "--counts", "OUT")),
    "script-read": Long(("script",), ("hole.ops", "--fs", "jffs2", "--seq", "OUT")),
    "strace-import": Long(("strace-import",), ("-", "--out", "OUT"), is_silent=True, span_s=0.3),
    "crash": Long(("crash",), ("cuts.ops", "--fs", "yaffs2", "--out", "OUT")),
    "crash-search": Long(("crash-search",), ("--fs", "jffs2", "--max-total-time", "1h")),
    "serve-replay": Long(("serve-replay",), ("served.log",)),
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
        ("image", "make"),
        ("OUT", "--fs", "yaffs2", "--from", "tree", "--blocks", "8192"),
        span_s=0.6,
    ),
    "make-nilfs2": Long(("image", "make"), ("OUT", "--fs", "nilfs2", "--from", "tree"), span_s=0.8),
    "list-hashes": Long(("image", "ls"), ("--hash", "image.jffs2")),
    "check": Long(("image", "check"), ("image.jffs2",), span_s=0.3),
    "extract": Long(("image", "extract"), ("image.jffs2", "OUT"), span_s=0.3),
    "info": Long(("image", "info"), ("image.jffs2",), span_s=0.3),
    "diff": Long(("image", "diff"), ("image.jffs2", "image.jffs2")),
    "report": Long(("report",), ("folder",)),
    "index": Long(("index",), ("runs",), span_s=0.8),
    "list": Long(("list",), ("studies",), span_s=0.4),
    "explain": Long(("explain",), ("bast", "--ops", "W1 W2 W3"), span_s=0.2),
    "new": Long(("new",), ("workload", "mine", "--out", "OUT"), span_s=0.2),
    "completion": Long(("completion",), ("bash",), span_s=0.4),
    "reproduce": Long((), ("--out", "OUT")),
}


def write_inputs(place: Path, run_folder: Path) -> None:
    """Fills a folder with what the commands read."""
    Files(place).flow(Total_Requests_To_Generate=9_000_000)
    lines = "".join(f"put f{number} 644 200k 4096 t {number}\n" for number in range(60))
    changes = "".join(f"write f{number % 60} 0 64k 4096 t {number}\n" for number in range(60_000))
    (place / "many.ops").write_text(lines + changes, encoding="utf-8")
    text = "put f 644 4k 4096 x 1\ntruncate f 4294963200\nread f 64k\nread f 64k\n"
    (place / "hole.ops").write_text(text, encoding="utf-8")
    jobs = "[a]\nsize=1g\nrw=randread\ndirect=1\nloops=7\n"
    (place / "long.fio").write_text(jobs, encoding="utf-8")
    _write_log(place / "served.log")
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


def _write_log(path: Path) -> None:
    """A log of a server with three million reads, which take seconds."""
    import nandlab as nl

    card = {"capacity": "4MiB", "precondition": "none", "time": "none"}
    with nl.serve("emmc-5.1-64gb", listen="tcp:127.0.0.1:0", log=path, **card):
        pass
    # A read: kind 1, its time, its sector and their number (the layout is in crates/lab/serve).
    read = b"\x01" + (0).to_bytes(8, "little") * 2 + (1024).to_bytes(4, "little")
    end_bytes = 1 + 8 + 64
    path.write_bytes(path.read_bytes()[:-end_bytes] + read * 3_000_000)


def command_line(long: Long, place: Path, out: str) -> list[str]:
    """The words of a command that reads from `place` and writes to `out`."""

    def shown(word: str) -> str:
        if word == "OUT":
            return out + long.ending
        return str(place / word) if (place / word).exists() and "/" not in word else word

    if not long.words:
        return [sys.executable, "-m", "nandlab.reproduce", *map(shown, long.arguments)]
    return [*NANDLAB, *long.words, *map(shown, long.arguments)]
