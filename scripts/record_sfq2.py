"""Record what sfq2 decides in running kernels, for `crates/host/sched/tests/data/sfq2-decisions`.

Usage: python scripts/record_sfq2.py SERIES [FIRST [END]]

SERIES is 6.1 or 6.12. Workloads FIRST to END, by default all 22, are those of
`test_kernel_equivalence.py`. They run in one machine that counts instructions, and become one file
each. The trials of `sched` replay the files, so that a comparison needs no machine.
"""

import sys
from pathlib import Path

from record_bfq import ROOT, equivalence, events, main
from record_bfq import modules_or_skip as modules_of

OUT = ROOT / "crates" / "host" / "sched" / "tests" / "data" / "sfq2-decisions"


def record(series: str, numbers: range, folder: Path) -> None:
    """Run the workloads and write a file for each."""
    workloads = [equivalence.draw_workload("sfq2", number) for number in numbers]
    modules = modules_of(equivalence.kernel_or_skip(series))
    traces = equivalence.record(series, modules, workloads, folder / "out")
    for workload, number in zip(workloads, numbers, strict=True):
        trace = (traces / f"{workload.name}.trace").read_text(encoding="utf-8")
        head = {"rotational": "0", **workload.tunables}
        lines = [" ".join(f"{name}={value}" for name, value in head.items())]
        lines += events(trace, has_nanoseconds=False)
        path = OUT / f"{series}-{number:02d}.txt"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:], record, __doc__)
