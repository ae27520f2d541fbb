"""The space of workloads/search/small-chip.toml from its table: searches that run nothing."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars
import pytest

from nandlab.design_space import search as searching
from nandlab.design_space.evaluate import Evaluated
from nandlab.design_space.metrics import parse_constraint, parse_objectives
from nandlab.design_space.points import Point
from nandlab.design_space.sampler import RandomSampler, Sampler, identity
from nandlab.design_space.search import Outcome, Question
from nandlab.design_space.space import Choices, Space, read_space
from nandlab.frame import RunFrame

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

from design_space_table import METRICS as METRICS
from design_space_table import SPACE, read_table

BOUNDS = ("ram_bytes<=3000", "life_bytes>=32_000_000_000")
"""Without them page mapping with the smallest blocks is best; with them a cached map is."""

RUNS = 120

_ROWS = {"write_amplification": "waf", "ram_bytes": "ram_bytes",
         "life_bytes": "lifetime_host_bytes"}  # fmt: skip


def question(objectives: str = "write_amplification", runs: int = RUNS) -> Question:
    bounds = tuple(parse_constraint(one) for one in BOUNDS)
    return Question(parse_objectives(objectives), bounds, runs)


class Table:
    """Answers for points from the table, and counts what is asked for."""

    def __init__(self, space: Space, folder: Path) -> None:
        self._space, self.folder = space, folder
        self.known = {identity(choices): values for choices, values in read_table()}
        self.evaluated: list[str] = []

    def point(self, choices: Choices) -> Point:
        name = identity(choices)
        why = "" if self.known[name] is not None else "it cannot be"
        return Point(choices, name, key=name, refusal=why)

    def is_finished(self, _key: str) -> bool:
        return False

    def evaluate(self, points: Sequence[Point], *_: Any) -> list[Evaluated]:
        self.evaluated += [one.key for one in points]
        return [Evaluated(one, made_up_run(self.known[one.key] or {})) for one in points]

    def best(self) -> list[str]:
        """The points of least write amplification that keep the bounds, best first."""
        bounds = question().constraints
        kept = {
            name: values["write_amplification"]
            for name, values in self.known.items()
            if values is not None and all(one.is_kept(values[one.metric.name]) for one in bounds)
        }
        return sorted(kept, key=lambda name: kept[name])


def made_up_run(values: Mapping[str, float]) -> RunFrame:
    rows = [{"ftl": "page", "repeat": repeat, "metric": _ROWS[name], "value": value, "unit": ""}
            for name, value in values.items() for repeat in (1, 2, 3)]  # fmt: skip
    return RunFrame({"name": "made-up"}, ("ftl",), polars.DataFrame(rows), polars.DataFrame(), "")


def searched(
    seed: int,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    asked: Question | None = None,
    *,
    is_random: bool = False,
) -> tuple[Outcome, Table]:
    """A search of the table."""
    space, wanted = read_space(SPACE), asked or question()
    table = Table(space, folder)
    monkeypatch.setattr(searching, "evaluate", table.evaluate)
    least = [one.is_least_best for one in wanted.objectives]
    asking = RandomSampler(space, seed) if is_random else Sampler(space, seed, least)
    points: Any = table
    return searching.search(space, wanted, asking, points, 1, lambda *_: None), table
