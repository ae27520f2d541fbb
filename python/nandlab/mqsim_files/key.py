"""A key of MQSim's files: where it stands, what it takes, and what becomes of it here.

Names, types and values that MQSim has built in are those of MQSim as of commit 7ec40e3. Keys of
flows have no built-in value there: what is missing is whatever the memory holds, so here it is
refused where it is needed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

HOST, DEVICE, FLASH = "Host_Parameter_Set", "Device_Parameter_Set", "Flash_Parameter_Set"
SYNTHETIC, TRACE = "IO_Flow_Parameter_Set_Synthetic", "IO_Flow_Parameter_Set_Trace_Based"
FLOWS = "both kinds of flow"
"""Sections. A key of `FLOWS` may stand in either kind of flow."""


class Fate(StrEnum):
    """What becomes of a key here."""

    READ = "read"
    APPROXIMATED = "approximated"
    IGNORED = "ignored"
    REFUSED = "refused"


class Kind(StrEnum):
    """What a key takes."""

    COUNT = "whole number"
    DECIMAL = "number"
    SHARE = "number from 0 to 1"
    PERCENT = "0 to 100"
    SWITCH = "true or false"
    NUMBERS = "whole numbers between commas"
    WORD = "word"
    PATH = "file"


@dataclass(frozen=True)
class Outcome:
    """What becomes of a key, and how or why."""

    fate: Fate
    how: str


@dataclass(frozen=True)
class Key:
    """One key. `default` is what MQSim has built in; `by_value` are values with another fate.

    `words` are the values of a key that takes a word, in capitals as MQSim reads them. `least` and
    `most` are the limits of a number.
    """

    section: str
    name: str
    kind: Kind
    default: str | None
    outcome: Outcome
    words: tuple[str, ...] = ()
    by_value: Mapping[str, Outcome] | None = None
    least: int = 0
    most: int = 2**63 - 1

    def outcome_of(self, value: str) -> Outcome:
        """What becomes of the key with this value."""
        return (self.by_value or {}).get(value, self.outcome)


def read(how: str) -> Outcome:
    """A key that is read."""
    return Outcome(Fate.READ, how)


def near(how: str) -> Outcome:
    """A key that is approximated."""
    return Outcome(Fate.APPROXIMATED, how)


def left(how: str) -> Outcome:
    """A key that is ignored."""
    return Outcome(Fate.IGNORED, how)


def refused(how: str) -> Outcome:
    """A value that is refused."""
    return Outcome(Fate.REFUSED, how)
