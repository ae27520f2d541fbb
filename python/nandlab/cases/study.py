"""Plans and runs a study of cases, and answers in the form of the engine."""

import hashlib
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nandlab import engine
from nandlab.cases import simulated
from nandlab.cases.measured import (
    Watched,
    behind_first,
    distribution,
    metrics,
    pooled_rows,
)
from nandlab.cases.schema import CASES, Case, CaseFile, Place, load_cases
from nandlab.engine import Progress
from nandlab.errors import NandlabError
from nandlab.frame.csv_texts import csv_text, frame_of
from nandlab.frame.run_frame import ROW_COLUMNS
from nandlab.kernel_measurements import Metric
from nandlab.suggest import unknown

COLUMNS = ("where", "device", "case", "scheduler")
"""Axes of such a study, in the order of the columns."""

_OWN_AXES = ("where", "case")
"""Axes that the engine does not know."""

_SEED_BITS = 62


@dataclass(frozen=True)
class Plan:
    """What is run: a study as the engine resolves it, and the cases at their places."""

    study: Mapping[str, Any]
    path: str
    sets: tuple[str, ...]
    """What the engine takes of `--set`."""
    places: tuple[Place, ...]
    cases: tuple[Case, ...]
    schedulers: tuple[str, ...]

    def schedulers_at(self, place: Place) -> tuple[str, ...]:
        """Schedulers of the study that are at a place."""
        return tuple(
            one for one in self.schedulers if not place.schedulers or one in place.schedulers
        )

    def seed(self, repeat: int) -> int:
        """The seed of a repeat: the same addresses under every scheduler, everywhere."""
        return random.Random(f"{self.study['seed']} {repeat}").getrandbits(_SEED_BITS)

    @property
    def repeats(self) -> range:
        """Numbers of the repeats."""
        return range(int(self.study["repeats"]))

    def cells(self) -> Iterator[tuple[Place, Case, str, int]]:
        """All runs, in the order of the rows."""
        for place in self.places:
            for case in self.cases:
                for scheduler in self.schedulers_at(place):
                    for repeat in self.repeats:
                        yield place, case, scheduler, repeat


def plan_of(path: str, sets: Sequence[str], seed: int | None, *, quick: bool) -> Plan:
    """Reads a study and its cases.

    `--set axes.where=`, `axes.case=`, `axes.device=` and `axes.scheduler=` choose among what the
    files name. Raises `NandlabError` with a suggestion where they name something else.
    """
    found = load_cases(path)
    asked, passed = _chosen(sets)
    resolved = engine.describe_study(path, passed, seed, quick=quick)
    schedulers = tuple(str(one) for one in resolved["axes"]["scheduler"])
    places = _places(found, quick=quick)
    cases = found.cases
    known = {
        "where": [one.where for one in places],
        "case": [one.name for one in cases],
        "device": [one.device_name for one in places],
    }
    for axis, wanted in asked.items():
        for one in wanted:
            if one not in known[axis]:
                raise NandlabError(f"--set axes.{axis}: {unknown(axis, one, known[axis])}")
    places = [
        one
        for one in places
        if one.where in asked.get("where", (one.where,))
        and one.device_name in asked.get("device", (one.device_name,))
    ]
    cases = tuple(one for one in cases if one.name in asked.get("case", (one.name,)))
    if not places:
        raise NandlabError("--set axes.device: no place has this device there; try axes.where")
    plan = Plan(resolved, path, tuple(passed), tuple(places), cases, schedulers)
    return Plan(_with_cases(plan), path, tuple(passed), tuple(places), cases, schedulers)


def _places(found: CaseFile, *, quick: bool) -> list[Place]:
    return [one for one in found.places if not quick or one.quick_runtime_ms]


def _chosen(sets: Sequence[str]) -> tuple[dict[str, list[str]], list[str]]:
    """Values of the axes that the engine does not know, and what it takes."""
    asked: dict[str, list[str]] = {}
    passed = []
    for one in sets:
        key, _, text = one.partition("=")
        axis = key.strip().removeprefix("axes.")
        if axis in (*_OWN_AXES, "device") and key.strip() != axis:
            asked[axis] = [word.strip() for word in text.split(",")]
        else:
            passed.append(one)
    return asked, passed


def _with_cases(plan: Plan) -> dict[str, Any]:
    """The study as results carry it: with all axes, and without the jobs that cases replace."""
    axes = {
        "where": list(dict.fromkeys(one.where for one in plan.places)),
        "device": list(dict.fromkeys(one.device_name for one in plan.places)),
        "case": [one.name for one in plan.cases],
        "scheduler": list(plan.schedulers),
    }
    changed = {"axes": axes, "columns": list(COLUMNS), "axis_order": list(COLUMNS)}
    runs = sum(1 for _ in plan.cells())
    kept = {key: value for key, value in plan.study.items() if key != "job"}
    return {**kept, **changed, "runs": runs}


def run_cases(plan: Plan, *, jobs: int, progress: Progress | None = None) -> dict[str, Any]:
    """Carries out all cases; the answer is that of `engine.run_study`.

    What is in a kernel comes first: a machine that cannot be started is known at once. Raises
    `NandlabError` for such a machine, and for a run that fails.
    """
    found: dict[tuple[Place, str, str, int], Watched] = {}
    counter = _Counter(int(plan.study["runs"]), progress)
    kernels, is_stopped = _in_kernels(plan, jobs, counter, found)
    if not is_stopped:
        is_stopped = _simulated(plan, jobs, counter, found)
    return _answer(plan, found, kernels, interrupted=is_stopped)


@dataclass
class _Counter:
    """Progress over several calls, each of which counts for itself."""

    total: int
    progress: Progress | None
    before: int = 0

    def __call__(self, done: int, _: int, label: str) -> None:
        if self.progress is not None:
            self.progress(self.before + done, self.total, label)


Found = dict[tuple[Place, str, str, int], Watched]


def _in_kernels(plan: Plan, jobs: int, counter: _Counter, found: Found) -> tuple[list[str], bool]:
    wanted = [one for one in plan.cells() if not one[0].is_simulated]
    if not wanted:
        return [], False
    # Loaded only here: emulated machines take as long to load as the short form runs.
    from nandlab.cases.in_kernels import carry_out, cell_of

    cells = [
        cell_of(number, case, place, scheduler, repeat, plan.seed(repeat))
        for number, (place, case, scheduler, repeat) in enumerate(wanted)
    ]
    measured, kernels, is_stopped = carry_out(str(plan.study["name"]), cells, jobs, counter)
    for number, (place, case, scheduler, repeat) in enumerate(wanted):
        if number in measured:
            found[place, case.name, scheduler, repeat] = measured[number]
    counter.before += len(cells)
    return kernels, is_stopped


def _simulated(plan: Plan, jobs: int, counter: _Counter, found: Found) -> bool:
    is_quick = bool(plan.study["quick"])
    for place in plan.places:
        if not place.is_simulated:
            continue
        runtime_ms = place.quick_runtime_ms if is_quick else place.runtime_ms
        for case in plan.cases:
            for group in simulated.grouped(plan.schedulers_at(place), case):
                for repeat in plan.repeats:
                    seed = plan.seed(repeat)
                    run = simulated.Run(
                        plan.path, plan.sets, case, place, runtime_ms, group, seed, jobs
                    )
                    measured = simulated.carry_out(run, counter)
                    if measured is None:
                        return True
                    for scheduler, one in measured.items():
                        found[place, case.name, scheduler, repeat] = one
                    counter.before += len(group)
    return False


def _answer(
    plan: Plan, found: Found, kernels: Sequence[str], *, interrupted: bool
) -> dict[str, Any]:
    """Rows and tables in the form of the engine's answer."""
    rows: list[tuple[Any, ...]] = []
    latencies: dict[tuple[str, ...], list[int]] = {}
    behind = _behind(plan, found)
    for place, case, scheduler, repeat in plan.cells():
        key = (place, case.name, scheduler, repeat)
        one = found.get(key)
        if one is None:
            continue
        at = (place.where, place.device_name, case.name, scheduler)
        rows += [(*at, repeat, *metric) for metric in (*metrics(one), *behind.get(key, ()))]
        latencies.setdefault(at, []).extend(one.latencies_ns)
    text = csv_text((*COLUMNS, *ROW_COLUMNS), rows)
    pooled = [(*at, *metric) for at, all_of in latencies.items() for metric in pooled_rows(all_of)]
    buckets = [(*at, *one) for at, all_of in latencies.items() for one in distribution(all_of)]
    tables = [
        {"name": "pooled", "csv": csv_text((*COLUMNS, "metric", "value", "unit"), pooled)},
        {"name": "latencies", "csv": csv_text((*COLUMNS, "from_ns", "to_ns", "count"), buckets)},
    ]
    digest = hashlib.blake2b(digest_size=32)
    for part in (text, *(table["csv"] for table in tables)):
        digest.update(part.encode())
    return {
        "study": dict(plan.study),
        "columns": list(COLUMNS),
        "tables": tables,
        "frames": {
            "rows": frame_of(text, COLUMNS),
            "curves": frame_of(csv_text(COLUMNS, ()), COLUMNS),
            **{table["name"]: frame_of(table["csv"], COLUMNS) for table in tables},
        },
        "results_csv": text,
        "results_digest": digest.hexdigest(),
        "notes": _notes(plan, kernels),
        "interrupted": interrupted,
    }


def _behind(plan: Plan, found: Found) -> dict[Any, list[Metric]]:
    """How far each scheduler is behind the best one; nothing of a case that was stopped."""
    behind = {}
    for place in plan.places:
        names = plan.schedulers_at(place)
        for case in plan.cases:
            for repeat in plan.repeats:
                keys = {name: (place, case.name, name, repeat) for name in names}
                if len(names) < 2 or not all(key in found for key in keys.values()):
                    continue
                of_all = {name: found[key] for name, key in keys.items()}
                for name, rows in behind_first(of_all, is_shared=case.is_shared).items():
                    behind[keys[name]] = rows
    return behind


def _notes(plan: Plan, kernels: Sequence[str]) -> list[str]:
    notes = [f"What each case is stands in {Path(plan.path).parent.name}/{CASES}."]
    if plan.study["quick"] and any(not one.is_simulated for one in load_cases(plan.path).places):
        notes.append("The short form is simulated alone; real kernels take part in the whole one.")
    if kernels:
        from nandlab.kernel_study import NOTES

        notes += [*NOTES, f"Kernel: {', '.join(kernels)}."]
    return notes
