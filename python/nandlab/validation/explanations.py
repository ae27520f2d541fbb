"""What is known of figures that are further away than asked, and of orders that differ."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

_PLAIN = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Explained:
    """Why a figure is further away than asked, and how many operations it may be off for that."""

    most: float
    reason: str


EXPLAINED: dict[tuple[str, str, str], Explained] = {
    (workload, phase, kind): Explained(most, one["reason"])
    for one in _PLAIN["figures"]
    for workload, phase, kind, most in one["cells"]
}
"""By workload, phase and kind of operation. A test holds every entry to be needed."""

DEPARTURES: dict[str, tuple[str, str]] = {
    workload: (phase, one["reason"]) for one in _PLAIN["orders"] for workload, phase in one["cells"]
}
"""By workload: the phase in which the order first departs from the recorded one, and why."""
