"""SFQ2 as a module: the mixes of docs/sfq2.md and random ones in a running kernel."""

import re
from pathlib import Path

import pytest
from kernel_lab import (
    SOURCE,
    build_or_skip,
    kernel_or_skip,
    modules_or_skip,
    patched_source,
    program_or_skip,
    run_script,
)
from long_tests import IS_LONG, only_long
from sfq2_mixes import DISK_NS, SERVICE_NS, TABLE, Mix, Waited, read_mixes, run_mixes, waits

ROW = re.compile(r"^row (\S+) rate (\d+) longest_us (\d+)", re.MULTILINE)
LEAST_RATES = {"depth-32": 48, "depth-128": 40, "threads": 50, "write-back": 70, "real-time": 110}
MIXES = 20 if IS_LONG else 4
LONGEST_MS = {"short-lived-read": 300, "short-lived-dsync-write": 300, "write-back": 60}


def test_every_mix_gets_what_is_promised(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel = kernel_or_skip("6.12")
    files = {"/short-lived": program_or_skip("short-lived", tmp_path / "short-lived")}
    script = (SOURCE / "tests" / "sfq2-rows.sh").read_text(encoding="utf-8")
    result = run_script(kernel, script, modules_or_skip(kernel), tmp_path / "out", files=files)
    rows = {name: (int(rate), int(us)) for name, rate, us in ROW.findall(result.console)}
    assert rows.keys() == LEAST_RATES.keys() | LONGEST_MS.keys()
    with capsys.disabled():
        print("", *(f"{name}: {rate}/s, {us} us" for name, (rate, us) in rows.items()), sep="\n  ")
    for name, least in LEAST_RATES.items():
        assert rows[name][0] >= least, name
    for name, longest in LONGEST_MS.items():
        assert rows[name][1] <= 1000 * longest, name


def _waits_of(mixes: list[Mix], modules: dict[str, Path], scratch: Path) -> list[list[Waited]]:
    traces = run_mixes(mixes, modules, scratch)
    return [waits(mix, traces[mix.number]) for mix in mixes]


def test_no_request_of_random_mixes_waits_longer_than_its_bound(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mixes = read_mixes(TABLE.read_text(encoding="utf-8"))[:MIXES]
    assert len(mixes) == MIXES
    found = _waits_of(mixes, modules_or_skip(kernel_or_skip("6.12")), tmp_path)
    with capsys.disabled():
        for mix, jobs in zip(mixes, found, strict=True):
            shares = ", ".join(f"{waited.percent} % of {waited.requests}" for waited in jobs)
            print(f"\n  {mix.name}: {shares}", end="")
    for mix, jobs in zip(mixes, found, strict=True):
        for waited in jobs:
            assert waited.requests > 0, (mix.name, waited)
            # The bound counts requests of this length.
            assert DISK_NS <= waited.service_ns <= SERVICE_NS, (mix.name, waited)
            assert waited.percent < 100, (mix.name, waited)


@only_long
def test_a_module_that_serves_new_processes_first_breaks_a_bound(tmp_path: Path) -> None:
    source = patched_source("sfq2-never-alternates.patch", tmp_path / "source")
    modules = build_or_skip(kernel_or_skip("6.12"), tmp_path / "build", source)
    # This mix has short-lived processes, which are new.
    first = read_mixes(TABLE.read_text(encoding="utf-8"))[:1]
    [jobs] = _waits_of(first, modules, tmp_path)
    assert max(waited.percent for waited in jobs) > 100


# Two processes on a disk of one place: the second request stands behind the first.
TRACE = """
 l [0] 1: sfq2_insert: 252,0 now=1000 id=4 pid=91 op=R sync=1 sector=8 sectors=8
 l [0] 1: sfq2_dispatch: 252,0 now=1000 id=4
 l [0] 1: sfq2_insert: 252,0 now=2000 id=5 pid=92 op=W sync=1 sector=262144 sectors=32
 l [0] 1: sfq2_dispatch: 252,0 now=2000 id=5
 l [0] 1: sfq2_dispatch: 252,0 now=2000 id=-1
 l [0] 1: sfq2_complete: 252,0 now=2501000 id=4
 l [0] 1: sfq2_complete: 252,0 now=4502000 id=5
"""
HEAD = TABLE.read_text(encoding="utf-8").splitlines()[0]
TWO = f"""{HEAD}
3 1 read 1 1 1 4096 direct 2 lasting 4 3 0
3 1 write 1 1 1 16384 direct 1 lasting 0 1 1
"""


def test_waits_are_those_of_the_trace() -> None:
    [mix] = read_mixes(TWO)
    assert [job.words for job in mix.jobs] == [
        "read,1,1,1,4096,direct,2,lasting,4",
        "write,1,1,1,16384,direct,1,lasting,0",
    ]
    found = [(one.requests, one.longest_ns, one.service_ns) for one in waits(mix, TRACE)]
    assert found == [(1, 2_500_000, 2_250_500), (1, 4_500_000, 2_250_500)]
    # Of 9 ms, and of 3 ms and a quiet time of 10 ms.
    assert [one.percent for one in waits(mix, TRACE)] == [27, 34]


@pytest.mark.parametrize(
    ("line", "other"),
    [("complete: 252,0 now=4502000 id=5", ""), ("sectors=32", "sectors=64")],
)
def test_a_trace_that_is_not_that_of_the_mix_is_refused(line: str, other: str) -> None:
    [mix] = read_mixes(TWO)
    with pytest.raises(AssertionError, match="mix-03"):
        waits(mix, TRACE.replace(line, other))
