"""Record what sfq and sfq2 decide where requests are joined, returned, discarded and so on.

Usage: python scripts/record_kinds.py SERIES [KIND...]

SERIES is 6.1 or 6.12. The first workload of each kind of `python/tests/kernel_kinds.py`, by
default of all kinds, becomes a file in `crates/host/sched/tests/data/kind-decisions`, which holds
its beginning. The trials of `sched` replay the files.
"""

import argparse
import tempfile
from pathlib import Path

from record_bfq import ROOT, SERIES, equivalence, events, kernel_or_skip, modules_or_skip

import kernel_kinds  # isort: skip

EVENTS = 500
"""Events of a file, so that it stays small."""

MARKS = {
    "absorbs": "a ",
    "at_head": " place=head",
    "discards": " D ",
    "joins": "j ",
    "merges": "m ",
    "requeues": "r ",
    "unmergeable": " mergeable=0",
    "zoned": " zone=",
}
"""What shows in a line that an event belongs to a field of `Kind.counts`."""

OUT = ROOT / "crates" / "host" / "sched" / "tests" / "data" / "kind-decisions"


def record(series: str, kind: kernel_kinds.Kind, folder: Path) -> None:
    """Run a workload of a kind for each scheduler, and write a file for each."""
    workloads = [kernel_kinds.draw_kind(kind, name, 0) for name in kind.schedulers(series)]
    modules = modules_or_skip(kernel_or_skip(series))
    traces = equivalence.record(
        series,
        modules,
        workloads,
        folder / kind.name,
        processors=kind.processors,
        kernel_arguments=kind.kernel_arguments,
    )
    OUT.mkdir(exist_ok=True)
    for workload in workloads:
        trace = (traces / f"{workload.name}.trace").read_text(encoding="utf-8")
        head = {"rotational": "0", **workload.tunables}
        lines = [" ".join(f"{name}={value}" for name, value in head.items())]
        lines += _beginning(events(trace, has_nanoseconds=False), kind.needed(series))
        path = OUT / f"{series}-{kind.name}-{workload.scheduler}.txt"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _beginning(lines: list[str], needed: tuple[str, ...]) -> list[str]:
    """The first events, and as many more as it takes to show three of each that are needed."""
    end = EVENTS
    for name in needed:
        places = [place for place, line in enumerate(lines) if MARKS[name] in line]
        # What follows shows what became of it.
        end = max(end, places[:3][-1] + 100)
    return lines[:end]


def main() -> None:
    """Record the kinds that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("series", choices=SERIES)
    names = [kind.name for kind in kernel_kinds.KINDS]
    parser.add_argument(
        "kinds", nargs="*", metavar="KIND", help=f"by default all: {', '.join(names)}"
    )
    given = parser.parse_args()
    if unknown := set(given.kinds) - set(names):
        parser.error(f"no kind {', '.join(sorted(unknown))}: there are {', '.join(names)}")
    with tempfile.TemporaryDirectory(prefix="nandlab-recordings-") as folder:
        for kind in kernel_kinds.KINDS:
            if kind.name in given.kinds or not given.kinds:
                record(given.series, kind, Path(folder))


if __name__ == "__main__":
    main()
