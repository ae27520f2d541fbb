"""BFQ in a running kernel: what it chooses today is what the simulator chooses.

`crates/host/sched/tests/data/bfq-decisions` has recordings, which the trials of `sched` replay.
Here some of their workloads are recorded afresh.
"""

import re
import sys
from pathlib import Path

import pytest
from long_tests import only_long

from nandlab.vm.recordings import Recording, compare, read_trace

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

from record_bfq import is_rotational, run_workloads

SERIES = "6.12"
# `compare` takes all disks for ones that do not turn.
NUMBERS = [number for number in range(10) if not is_rotational(number)]
LEAST_ALIKE = 0.95


def _calls(recording: Recording) -> list[int]:
    """The lines of the dispatch calls of a recording, the first line being 1."""
    lines = enumerate(recording.table.splitlines(), 1)
    return [number for number, line in lines if line.split(",")[1] == "dispatch"]


def _alike(name: str, recording: Recording, scheduler: str, tunables: dict[str, str]) -> int:
    """Count the dispatch calls up to the first that is decided otherwise."""
    settings: dict[str, object] = dict(tunables)
    differences = compare(name, recording, scheduler, settings).differences
    if not differences:
        return len(_calls(recording))
    found = re.match(r"(\d+),|.*differ since line (\d+)", differences[0], re.DOTALL)
    assert found, differences[0]
    parted = int(found[1] or found[2])
    return sum(line < parted for line in _calls(recording))


def _read(trace: str) -> Recording:
    recording = read_trace(trace, has_nanoseconds=True)
    # bfq reads the same clock as the recorder: no call may be decided as of another time.
    recording.later_ns.clear()
    return recording


@only_long
def test_kernel_and_simulator_choose_the_same_requests(
    tmp_path: Path, engine_is_built: None, capsys: pytest.CaptureFixture[str]
) -> None:
    alike = calls = otherwise = 0
    for number, (tunables, trace) in run_workloads(SERIES, NUMBERS, tmp_path).items():
        recording = _read(trace)
        assert recording.dispatches == recording.completes > 0
        of_this = _alike(f"bfq-{number}", recording, f"bfq-{SERIES}", tunables)
        alike, calls = alike + of_this, calls + len(_calls(recording))
        otherwise += _alike(f"bfq-{number}", recording, f"mq-deadline-{SERIES}", {})
        with capsys.disabled():
            print(f"\n  bfq-{number}: {of_this} of {len(_calls(recording))} calls alike", end="")
    assert alike >= LEAST_ALIKE * calls, f"{alike} of {calls} calls"
    # Another scheduler does not pass.
    assert otherwise < 0.5 * calls


TRACE = """
 l [0] 1: sched_recorder: insert: 252,0 now=0 id=20 pid=9 op=R sync=1 sector=100 sectors=8
 l [0] 1: sched_recorder: insert: 252,0 now=10 id=21 pid=9 op=R sync=1 sector=5000 sectors=8
 l [0] 1: sched_recorder_dispatch: dispatch: 252,0 now=20 id=20 end=25 expires=0
 l [0] 1: sched_recorder_dispatch: dispatch: 252,0 now=30 id=21 end=35 expires=0
"""


@pytest.mark.parametrize(("first", "alike"), [(20, 2), (21, 0)])
def test_calls_are_alike_up_to_the_first_that_differs(
    first: int, alike: int, engine_is_built: None
) -> None:
    names = {"id=20 end": f"id={first} end", "id=21 end": f"id={41 - first} end"}
    trace = re.sub("id=2. end", lambda found: names[found[0]], TRACE)
    assert _alike("two", _read(trace), f"bfq-{SERIES}", {}) == alike
