"""Policies of your own, in Python: a class in a file, named as `FILE.py:CLASS`.

Derive a class from `CleaningPolicy`, `WearLeveling`, `Layer`, `CacheAdmission` or `Scheduler`.
Name it where a study or a command takes a policy of that kind: `cleaning = "my.py:MyGreedy"`,
`ftl = ["page", "my.py:MyLayer"]`, `scheduler = "my.py:MyNoop"`. An installed package can offer
classes as entry points of the group `nandlab.policies`; the name of the entry point is the name of
the policy then.

`nandlab check my.py:MyLayer` tries a class on what every policy of its kind keeps.
"""

from nandlab.policy.contracts import (
    CacheAdmission,
    CleaningPolicy,
    Layer,
    Scheduler,
    WearLeveling,
)
from nandlab.policy.natives import (
    DataLost,
    FlashBlocks,
    IoRequest,
    NoFreeBlock,
    PowerLost,
    RandomStream,
)
from nandlab.policy.views import CleaningView, WearView, WriteView

__all__ = [
    "CacheAdmission",
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
    "WearLeveling",
    "WearView",
    "WriteView",
]
