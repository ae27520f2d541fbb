"""Record what bfq decides in running kernels, for `crates/host/sched/tests/data/bfq-decisions`.

Usage: python scripts/record_bfq.py SERIES [FIRST [END]]

SERIES is 6.1 or 6.12. Workloads FIRST to END, by default all 22, are drawn at random from their
numbers. They run in one machine that counts instructions, and become one file each. The trials of
`sched` replay the files, so that a comparison needs no machine.
"""

import argparse
import random
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "python" / "tests"))

import test_kernel_equivalence as equivalence  # noqa: E402
from kernel_lab import SERIES, SOURCE, kernel_or_skip, modules_or_skip, program_or_skip, run_script  # noqa: E402

from nandlab.vm.recordings import read_trace  # noqa: E402

WORKLOADS = 22
OUT = ROOT / "crates" / "host" / "sched" / "tests" / "data" / "bfq-decisions"


def draw_tunables(stream: random.Random, number: int) -> dict[str, str]:
    """Draw tunables of bfq; a third of the workloads raise no weights."""
    tunables: dict[str, str] = {}
    if number % 3 == 1:
        tunables["low_latency"] = "0"
    choices = {
        "slice_idle": (0.3, ["0", "2", "4", "16"]),
        "timeout_sync": (0.3, ["20", "60", "300"]),
        "max_budget": (0.3, ["256", "1024", "4096"]),
    }
    for name, (share, values) in choices.items():
        if stream.random() < share:
            tunables[name] = stream.choice(values)
    if stream.random() < 0.3:
        tunables["fifo_expire_sync"] = stream.choice(["5", "20"])
        tunables["fifo_expire_async"] = stream.choice(["10", "60"])
    if stream.random() < 0.2:
        tunables["back_seek_max"] = stream.choice(["0", "4096"])
        tunables["back_seek_penalty"] = stream.choice(["1", "4"])
    if number % 11 == 7:
        tunables["strict_guarantees"] = "1"
    return tunables


def is_rotational(number: int) -> bool:
    """Say whether the disk of a workload counts as one that turns: two of four do."""
    return number % 4 >= 2


def run_workloads(
    series: str, numbers: Iterable[int], folder: Path
) -> dict[int, tuple[dict[str, str], str]]:
    """Run workloads in one machine, and return the tunables and the trace of each."""
    kernel = kernel_or_skip(series)
    files = {"/load": program_or_skip("load", folder / "load")}
    drawn = {}
    for number in numbers:
        stream = random.Random(f"bfq {number}")
        tunables = draw_tunables(stream, number)
        jobs = equivalence.draw_jobs(stream, number)
        drawn[number] = tunables
        texts = {
            "jobs": f"{jobs}\n",
            "scheduler": "bfq",
            "set": "".join(f"{name} {value}\n" for name, value in tunables.items()),
            "rotational": str(int(is_rotational(number))),
        }
        for kind, text in texts.items():
            path = folder / f"bfq-{number:02d}.{kind}"
            path.write_text(text, encoding="utf-8")
            files[f"/workloads/{path.name}"] = path
    script = (SOURCE / "tests" / "record.sh").read_text(encoding="utf-8")
    out = folder / "out"
    out.mkdir()
    run_script(kernel, script, modules_or_skip(kernel), out, files=files, programs=())
    return {
        number: (tunables, (out / f"bfq-{number:02d}.trace").read_text(encoding="utf-8"))
        for number, tunables in drawn.items()
    }


def record(series: str, numbers: range, folder: Path) -> None:
    """Run the workloads and write a file for each."""
    for number, (tunables, trace) in run_workloads(series, numbers, folder).items():
        head = {"rotational": str(int(is_rotational(number))), **tunables}
        lines = [" ".join(f"{name}={value}" for name, value in head.items()), *events(trace)]
        path = OUT / f"{series}-{number:02d}.txt"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def events(trace: str, *, has_nanoseconds: bool = True) -> list[str]:
    """Turn a trace into lines, a letter for the event and the nanoseconds since the line before.

    `has_nanoseconds` is that of `read_trace`.
    """
    last_ns = 0
    lines = []
    head, *rows = read_trace(trace, has_nanoseconds=has_nanoseconds).table.splitlines()
    for row in rows:
        cell = dict(zip(head.split(","), row.split(","), strict=True))
        whole, fraction = cell["time_us"].split(".")
        now_ns = int(whole) * 1000 + int(fraction)
        name, pid = cell["id"], cell["pid"]
        part = [name, pid, *(cell[column] for column in ("op", "sync", "sector", "sectors"))]
        # be/4 is what all have that set none.
        more = [
            f"{column}={cell[column]}"
            for column in ("place", "mergeable", "zone", "ioprio")
            if cell.get(column, "") not in ("", "be/4")
        ]
        cells = {
            "absorb": ["a", name, cell.get("absorbed", "")],
            "insert": ["i", *part, *more],
            "join": ["j", *part],
            "merge": ["m", *part],
            "dispatch": ["d", name or "-"],
            "requeue": ["r", name, cell.get("place", "")],
            "complete": ["c", name],
            "exit": ["x", pid],
        }[cell["event"]]
        cells.insert(1, str(now_ns - last_ns))
        last_ns = now_ns
        lines.append(" ".join(cells))
    return lines


def main(
    arguments: list[str],
    recorder: Callable[[str, range, Path], None] = record,
    about: str = __doc__,
) -> None:
    """Record the workloads that the command line names."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("series", choices=SERIES)
    parser.add_argument("first", nargs="?", type=int, default=0)
    parser.add_argument("end", nargs="?", type=int, default=WORKLOADS)
    given = parser.parse_args(arguments)
    if not 0 <= given.first < given.end <= WORKLOADS:
        parser.error(f"FIRST is 0 or more, and below END, which is {WORKLOADS} at most")
    with tempfile.TemporaryDirectory(prefix="nandlab-recordings-") as folder:
        recorder(given.series, range(given.first, given.end), Path(folder))


if __name__ == "__main__":
    main(sys.argv[1:])
