"""Which points to evaluate next: Optuna's estimator, and neighbours of what it proposes again."""

import contextlib
import json
import random
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nandlab.design_space.space import Axis, Choices, Space
from nandlab.errors import NandlabError

if TYPE_CHECKING:
    import optuna

STARTUP_POINTS = 24
"""Points that are drawn at random before the estimator has something to learn from."""

_DRAWS = 2_000
"""Random draws without a new point after which no more are made."""

INSTALL = 'pip install "nandlab[search]", or pip install "optuna>=5,<6"'


def identity(choices: Choices) -> str:
    """The same text for the same choices."""
    return json.dumps(dict(choices), sort_keys=True)


class Sampler:
    """Asks for points and is told what they are worth; the same seed asks the same.

    Values are told in the order of the asking, so nothing depends on which point ended first.
    """

    def __init__(self, space: Space, seed: int, least_best: Sequence[bool]) -> None:
        """`least_best` says of each objective whether less is better.

        Raises `NandlabError` if Optuna is not installed.
        """
        optuna = _optuna()
        self._space = space
        self._generator = random.Random(f"neighbours {seed}")
        self._asked: dict[str, Any] = {}
        self._values: dict[str, tuple[list[float], dict[str, float]]] = {}
        self._count = space.count()
        with _quiet():
            sampler = optuna.samplers.TPESampler(
                # The generator below takes 32 bits.
                seed=seed % 2**32,
                n_startup_trials=STARTUP_POINTS,
                # Axes that do not take part everywhere need the grouping.
                multivariate=True,
                group=True,
            )
            words = ["minimize" if one else "maximize" for one in least_best]
            self._study = optuna.create_study(directions=words, sampler=sampler)

    @property
    def is_exhausted(self) -> bool:
        """Whether every point of the space was asked for."""
        return self._count is not None and len(self._asked) >= self._count

    def ask(self) -> Choices | None:
        """A point that was not asked for before; None if there is none left."""
        if self.is_exhausted:
            return None
        with _quiet():
            trial, choices = self._next()
            name = identity(choices)
            if name in self._asked:
                # The estimator has settled here: what is known is told, and a neighbour is tried.
                self._tell_again(trial, name)
                near = self._neighbour(choices) or self._anywhere()
                if near is None:
                    return None
                parameters = {axis.key: self._index(axis, near[axis.key])
                              for axis in self._space.axes if axis.key in near}  # fmt: skip
                self._study.enqueue_trial(parameters)
                trial, choices = self._next()
                name = identity(choices)
            self._asked[name] = trial
            return choices

    def tell(self, choices: Choices, values: Sequence[float], broken: dict[str, float]) -> None:
        """What a point is worth; `broken` has by how much it breaks each constraint."""
        name = identity(choices)
        self._values[name] = (list(values), dict(broken))
        with _quiet():
            self._tell(self._asked[name], name)

    def _tell(self, trial: "optuna.Trial", name: str) -> None:
        values, broken = self._values[name]
        for key, excess in broken.items():
            trial.set_constraint(key, excess)
        self._study.tell(trial, values)

    def _tell_again(self, trial: "optuna.Trial", name: str) -> None:
        if name in self._values:
            self._tell(trial, name)
        else:
            # It is under evaluation in this batch: there is nothing to tell yet.
            self._study.tell(trial, state=_optuna().trial.TrialState.FAIL)

    def _next(self) -> tuple["optuna.Trial", Choices]:
        trial = self._study.ask()
        found: dict[str, Any] = {}
        for axis in self._space.axes:
            if axis.takes_part(found):
                found[axis.key] = self._suggested(trial, axis)
        return trial, found

    def _suggested(self, trial: "optuna.Trial", axis: Axis) -> Any:
        """A value of an axis by its place: an order is told as one, names are not."""
        last = len(axis.values) - 1
        if axis.is_ordered:
            return axis.values[trial.suggest_int(axis.key, 0, last)]
        return axis.values[trial.suggest_categorical(axis.key, list(range(last + 1)))]

    def _index(self, axis: Axis, value: Any) -> int:
        return axis.values.index(value)

    def _neighbour(self, choices: Choices) -> Choices | None:
        """A point that differs in one axis, and in those whose conditions that changes."""
        found = []
        for axis in self._space.axes:
            if axis.key in choices:
                for value in axis.near(choices[axis.key]):
                    changed = self._space.completed({**choices, axis.key: value}, self._generator)
                    if identity(changed) not in self._asked:
                        found.append(changed)
        return self._generator.choice(found) if found else None

    def _anywhere(self) -> Choices | None:
        """Any point that is left."""
        for _ in range(_DRAWS):
            drawn = self._space.completed({}, self._generator)
            if identity(drawn) not in self._asked:
                return drawn
        if self._count is None:
            return None
        return next((one for one in self._space.points() if identity(one) not in self._asked), None)


class RandomSampler:
    """Draws points at random, each once: what a search has to be better than."""

    def __init__(self, space: Space, seed: int) -> None:
        """Begins the draws of a seed."""
        self._space, self._generator = space, random.Random(f"random {seed}")
        self._asked: set[str] = set()
        self._count = space.count()

    @property
    def is_exhausted(self) -> bool:
        """Whether every point of the space was drawn."""
        return self._count is not None and len(self._asked) >= self._count

    def ask(self) -> Choices | None:
        """A point that was not drawn before; None after many draws without one."""
        for _ in range(0 if self.is_exhausted else _DRAWS):
            drawn = self._space.completed({}, self._generator)
            if identity(drawn) not in self._asked:
                self._asked.add(identity(drawn))
                return drawn
        return None

    def tell(self, choices: Choices, values: Sequence[float], broken: dict[str, float]) -> None:
        """Learns nothing."""


def _optuna() -> Any:
    try:
        import optuna
    except ImportError:
        raise NandlabError(
            f"nandlab search needs Optuna, which is not installed; install it with {INSTALL}"
        ) from None
    return optuna


@contextlib.contextmanager
def _quiet() -> Any:
    """Keeps Optuna's notes on itself off standard error: the grouping is called experimental."""
    optuna = _optuna()
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        optuna.logging.set_verbosity(before)
