"""Recordings of sfq2: the script that made them still draws the same workloads."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

from record_bfq import WORKLOADS
from record_sfq2 import OUT, equivalence, events

# A bio joined a request while the second was on its way into a queue: the lock's order counts.
TRACE = """
 l [0] 1: sfq2_insert: 252,0 now=10 id=4 pid=91 op=R sync=1 sector=8 sectors=8
 l [0] 1: sfq2_merge: 252,0 now=30 id=4 pid=91 op=R sync=1 sector=16 sectors=8
 l [0] 1: sfq2_insert: 252,0 now=20 id=5 pid=91 op=R sync=1 sector=80 sectors=8
 l [0] 1: sfq2_dispatch: 252,0 now=40 id=4
 l [0] 1: sfq2_complete: 252,0 now=45 id=4
"""


def test_events_are_in_the_order_of_the_lock() -> None:
    assert events(TRACE, has_nanoseconds=False) == [
        "i 10 4 91 R 1 8 8",
        "m 20 4 91 R 1 16 8",
        "i 0 5 91 R 1 80 8",
        "d 10 4",
        "c 5 4",
    ]


@pytest.mark.parametrize("series", ["6.1", "6.12"])
def test_the_script_draws_what_was_recorded(series: str) -> None:
    for number in range(WORKLOADS):
        text = (OUT / f"{series}-{number:02d}.txt").read_text(encoding="utf-8")
        head = dict(word.split("=") for word in text.splitlines()[0].split())
        assert head.pop("rotational") == "0"
        assert head == equivalence.draw_workload("sfq2", number).tunables
