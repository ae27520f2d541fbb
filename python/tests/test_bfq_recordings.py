"""Recordings of bfq: how they are made of a trace, and that their script still draws them."""

import random
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

from record_bfq import OUT, WORKLOADS, draw_tunables, events, is_rotational

# The call was entered at 20 ns, before the completion at 25 ns, and is written down after it.
TRACE = """
 l [0] 1: sched_recorder: insert: 252,0 now=10 id=4 pid=91 op=R sync=1 sector=8 sectors=8
 l [0] 1: sched_recorder: complete: 252,0 now=25 id=3 pid=91 op=R sync=0 sector=0 sectors=0
 l [0] 1: sched_recorder_dispatch: dispatch: 252,0 now=20 id=-1 end=30 expires=0
 l [0] 1: sched_recorder: exit: 252,0 now=40 id=-1 pid=91 op=R sync=0 sector=0 sectors=0
"""


def test_events_are_in_the_order_of_their_times() -> None:
    assert events(TRACE) == ["i 10 4 91 R 1 8 8", "d 10 -", "c 5 3", "x 15 91"]


@pytest.mark.parametrize("series", ["6.1", "6.12"])
def test_the_script_draws_what_was_recorded(series: str) -> None:
    for number in range(WORKLOADS):
        text = (OUT / f"{series}-{number:02d}.txt").read_text(encoding="utf-8")
        head = dict(word.split("=") for word in text.splitlines()[0].split())
        assert head.pop("rotational") == str(int(is_rotational(number)))
        assert head == draw_tunables(random.Random(f"bfq {number}"), number)
