"""A finished search: its question, what was found, and the front."""

import hashlib
import json
from dataclasses import dataclass

from nandlab.design_space.front import Front, front_of
from nandlab.design_space.search import Found, Outcome, Question
from nandlab.design_space.space import Space


@dataclass(frozen=True)
class Answered:
    """A finished search with its front."""

    space: Space
    question: Question
    outcome: Outcome
    front: Front
    seed: int
    sampler: str

    @property
    def axes(self) -> list[str]:
        """Keys of the axes with more than one value: the others need not be said of a point."""
        return [axis.key for axis in self.space.axes if len(axis.values) > 1]

    def label(self, one: Found) -> str:
        """What was chosen at a point."""
        varied = {key: one.point.choices[key] for key in self.axes if key in one.point.choices}
        return self.space.label(varied or one.point.choices)

    def named(self, one: Found) -> str:
        """Number and choices of a point."""
        return f"#{one.number} ({self.label(one)})"

    @property
    def digest(self) -> str:
        """Digest of the points with their values, in the order of the asking."""
        rows = [[one.point.choices, {name: [value.found.estimate, value.found.n]
                 for name, value in one.values.items()}] for one in self.outcome.found]  # fmt: skip
        text = json.dumps([rows, self.outcome.refused.total()], sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=32).hexdigest()


def answered(
    space: Space, question: Question, outcome: Outcome, seed: int, sampler: str
) -> Answered:
    """The front and the recommendation of what was found."""
    return Answered(space, question, outcome, front_of(outcome.found, question), seed, sampler)
