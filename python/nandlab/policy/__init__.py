"""Policies of your own, in Python: a class in a file, named as `FILE.py:CLASS`.

Derive a class from `CleaningPolicy`, `Layer` or `Scheduler`. Name it where a study or a command
takes a policy of that kind: `cleaning = "my.py:MyGreedy"`, `ftl = ["page", "my.py:MyLayer"]`,
`scheduler = "my.py:MyNoop"`. An installed package can offer classes as entry points of the group
`nandlab.policies`; the name of the entry point is the name of the policy then.

`nandlab check my.py:MyLayer` tries a class on what every policy of its kind keeps.
"""

from nandlab.policy.contracts import CleaningPolicy, Layer, Scheduler
from nandlab.policy.natives import (
    DataLost,
    FlashBlocks,
    IoRequest,
    NoFreeBlock,
    PowerLost,
    RandomStream,
)
from nandlab.policy.views import CleaningView

__all__ = [
    "CleaningPolicy",
    "CleaningView",
    "DataLost",
    "FlashBlocks",
    "IoRequest",
    "Layer",
    "NoFreeBlock",
    "PowerLost",
    "RandomStream",
    "Scheduler",
]
