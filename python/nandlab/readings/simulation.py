"""Carries out the runs that predict cells, and keeps each on disk until its inputs change."""

import hashlib
import json
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nandlab import engine
from nandlab.api.runs import setting_text
from nandlab.data import folder as data_folder
from nandlab.engine import Progress
from nandlab.engine_identity import engine_identity
from nandlab.errors import NandlabError
from nandlab.outputs import write_whole
from nandlab.readings.spec import Readings, Runs

if TYPE_CHECKING:
    import polars

BOARD = "board"
"""The axis of boards: runs that differ in it alone are carried out together, for they share the
preparation of used flash."""

_BOARDS_AT_ONCE = 6
"""Boards of a call of the engine; an interruption loses at most these."""

Rows = Sequence[tuple[Mapping[str, Any], Mapping[str, float]]]
"""Axes and metrics of each place, as means over the repeats."""


@dataclass(frozen=True, eq=False)
class Kept:
    """What is kept of the runs of a job: all repeats, so that claims can be judged."""

    axes: tuple[str, ...]
    rows: "polars.DataFrame"
    """The axes, `repeat`, `metric`, `value` and `unit`."""
    curves: "polars.DataFrame"
    """Cumulative counts along each run; empty where the study has none."""

    @cached_property
    def means(self) -> Rows:
        """Axes and metrics of each place, as means over the repeats."""
        import polars

        known = self.rows.drop_nulls("value").group_by(*self.axes, "metric", maintain_order=True)
        found: dict[tuple[Any, ...], dict[str, float]] = {}
        for *at, metric, value in known.agg(polars.col("value").mean()).iter_rows():
            found.setdefault(tuple(at), {})[metric] = value
        return [(dict(zip(self.axes, at, strict=True)), metrics) for at, metrics in found.items()]


@dataclass(frozen=True, eq=False)
class Job:
    """The runs of a study under options of the choices that change them."""

    readings: Readings
    runs: Runs
    options: tuple[str, ...]
    """Names of options, in the order of `runs.choices`."""

    @property
    def settings(self) -> dict[str, Any]:
        """Keys of the study: its own, those of the runs, those of the options."""
        parts = [self.readings.plain.get("set", {}), self.runs.settings]
        return {key: value for one in [*parts, *self._taken("set")] for key, value in one.items()}

    @property
    def board_text(self) -> str | None:
        """The board file with what the options change in it."""
        if "board" not in self.readings.plain:
            return None
        edits = {key: value for one in self._taken("board") for key, value in one.items()}
        path = data_folder("boards") / f"{self.readings.plain['board']}.toml"
        return edited(path.read_text(encoding="utf-8"), edits, path)

    @property
    def key(self) -> str:
        """Hash of everything that the results depend on."""
        study = self.readings.path
        traces = _trace_digests(study, self.settings.get("workload.file"))
        parts = [engine_identity(), study.read_text(encoding="utf-8"), traces]
        settings = json.dumps([self.settings, self.quick], sort_keys=True)
        parts += [settings, self.board_text or ""]
        return hashlib.blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()

    @property
    def quick(self) -> bool:
        """Whether the short form of the study is run."""
        return bool(self.readings.plain.get("quick", False))

    def _taken(self, keys: str) -> Iterable[Mapping[str, Any]]:
        """The keys of the study or of the board that each option sets."""
        by_name = {one.name: one for one in self.readings.choices}
        for name, wanted in zip(self.runs.choices, self.options, strict=True):
            yield by_name[name].options[wanted].get(keys, {})


@cache
def _trace_digests(study: Path, other: str | None) -> str:
    """Digests of the traces that a study may replay, or of the files that take their place."""
    workload = tomllib.loads(study.read_text(encoding="utf-8")).get("workload", {})
    if (named := other or workload.get("file")) is None:
        return ""
    files = sorted(study.parent.glob(re.sub(r"\{\w+\}", "*", named)))
    return " ".join(hashlib.blake2b(one.read_bytes()).hexdigest() for one in files)


def edited(text: str, edits: Mapping[str, Any], path: Path) -> str:
    """A board file with other values; a key has its section before a dot."""
    lines = text.splitlines()
    for key, value in edits.items():
        *sections, name = key.split(".")
        wanted, section = ".".join(sections), ""
        for number, line in enumerate(lines):
            if found := re.fullmatch(r"\[(.+)\]", line):
                section = found[1]
            elif section == wanted and re.match(rf"{re.escape(name)} *=", line):
                lines[number] = f"{name} = {setting_text(value)}"
                break
        else:
            raise NandlabError(f"{path}: a reading changes {key}, which the board does not have")
    return "\n".join([*lines, ""])


def simulate(
    jobs: Iterable[Job], folder: Path, workers: int, progress: Progress
) -> tuple[dict[Job, Kept], int, bool]:
    """The results of each job, how many were carried out now, and whether all of them are there.

    Finished jobs are kept in `folder`, so the same call goes on where an interrupted one ended.
    A signal ends it early, and results are given only if all are there.
    """
    keys = {job: job.key for job in jobs}
    batches: dict[str, dict[str, Job]] = {}
    for job, key in keys.items():
        if not _place(folder, key).is_file():
            has_board = job.board_text is not None
            alike = f"{job.readings.path} {sorted(job.settings.items())}" if has_board else key
            batches.setdefault(alike, {})[key] = job
    done, total = 0, sum(map(len, batches.values()))
    try:
        for batch in batches.values():
            pairs = list(batch.items())
            for first in range(0, len(pairs), _BOARDS_AT_ONCE):
                part = dict(pairs[first : first + _BOARDS_AT_ONCE])
                if not _carry_out(part, folder, workers, partial(_at, progress, done, total)):
                    raise KeyboardInterrupt
                done += len(part)
    except KeyboardInterrupt:
        # The engine says that it was interrupted. Between two of its calls Python raises instead.
        missing = [key for batch in batches.values() for key in batch]
        return {}, sum(_place(folder, key).is_file() for key in missing), False
    progress(done, total, "")
    kept = {key: _read(_place(folder, key)) for key in {*keys.values()}}
    return {job: kept[key] for job, key in keys.items()}, done, True


def _at(progress: Progress, done: int, total: int, _done: int, _total: int, label: str) -> None:
    """Progress in runs of the search, not in those of a call of the engine."""
    progress(done, total, label)


def _place(folder: Path, key: str) -> Path:
    return folder / f"{key}.json"


def _carry_out(batch: Mapping[str, Job], folder: Path, workers: int, progress: Progress) -> bool:
    """Runs jobs that differ in the board alone, and keeps each; false if interrupted."""
    folder.mkdir(parents=True, exist_ok=True)
    job = next(iter(batch.values()))
    progress(0, 0, f"{job.readings.study} {job.runs.identifier}")
    boards = {}
    for key, one in batch.items():
        if (text := one.board_text) is not None:
            boards[str(folder / f"board-{key}.toml")] = key
            write_whole(folder / f"board-{key}.toml", text.encode())
    settings = {**job.settings, **({f"axes.{BOARD}": list(boards)} if boards else {})}
    sets = [f"{key}={setting_text(value)}" for key, value in settings.items()]
    path, quick = job.readings.path, job.quick
    answer = engine.run_study(path, sets, None, quick=quick, jobs=workers, progress=progress)
    if answer["interrupted"]:
        return False
    axes, rows, curves = _tables(answer)
    kept = axes if not boards else tuple(axis for axis in axes if axis != BOARD)
    for board, key in boards.items() if boards else [("", next(iter(batch)))]:
        own = [_at_board(one, board) if boards else one for one in (rows, curves)]
        tables = {
            name: one.to_dict(as_series=False) for name, one in zip(_TABLES, own, strict=True)
        }
        plain = {"runs": batch[key].runs.identifier, "axes": kept, **tables}
        write_whole(_place(folder, key), json.dumps(plain).encode())
    for board in boards:
        Path(board).unlink()
    return True


_TABLES = ("rows", "curves")


def _tables(
    answer: Mapping[str, Any],
) -> "tuple[tuple[str, ...], polars.DataFrame, polars.DataFrame]":
    """Axes, rows and curves of a run."""
    import polars

    frames, known = answer["frames"], ("repeat", "metric", "value", "unit")
    axes = tuple(column for column in answer["columns"] if column not in known)
    tables = [frames[name].select(*axes, *known) for name in ("rows", "derived")
              if name in frames and frames[name].height]  # fmt: skip
    return axes, polars.concat(tables, how="vertical_relaxed"), frames["curves"]


def _at_board(frame: "polars.DataFrame", board: str) -> "polars.DataFrame":
    """The part of one board, without its axis."""
    if BOARD not in frame.columns:
        return frame
    return frame.filter(frame[BOARD] == board).drop(BOARD)


def _read(path: Path) -> Kept:
    import polars

    plain = json.loads(path.read_bytes())
    rows, curves = (polars.DataFrame(plain[name], infer_schema_length=None) for name in _TABLES)
    return Kept(tuple(plain["axes"]), rows, curves)
