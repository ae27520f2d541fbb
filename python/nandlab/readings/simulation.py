"""Carries out the runs that predict cells, and keeps each on disk until its inputs change."""

import hashlib
import json
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from nandlab import __version__, engine
from nandlab.api.runs import setting_text
from nandlab.data import folder as data_folder
from nandlab.errors import NandlabError
from nandlab.outputs import write_whole
from nandlab.readings.spec import Readings, Runs

BOARD = "board"
"""The axis of boards: runs that differ in it alone are carried out together, for they share the
preparation of used flash."""

_BOARDS_AT_ONCE = 6
"""Boards of a call of the engine; an interruption loses at most these."""

Rows = Sequence[tuple[Mapping[str, Any], Mapping[str, float]]]
"""Axes and metrics of each place, as means over the repeats."""


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
        parts = [engine_version(), study.read_text(encoding="utf-8"), _trace_digests(study)]
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
def engine_version() -> str:
    """The version, and a digest of the native module: a build may change results."""
    from nandlab import _native

    built = hashlib.blake2b(Path(str(_native.__file__)).read_bytes(), digest_size=16)
    return f"{__version__} {built.hexdigest()}"


@cache
def _trace_digests(study: Path) -> str:
    """Digests of the traces that a study may replay."""
    workload = tomllib.loads(study.read_text(encoding="utf-8")).get("workload", {})
    if "file" not in workload:
        return ""
    files = sorted(study.parent.glob(re.sub(r"\{\w+\}", "*", workload["file"])))
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
    jobs: Iterable[Job], folder: Path, workers: int, progress: Callable[[int, int, str], None]
) -> tuple[dict[Job, Rows], int, bool]:
    """The rows of each job, how many were carried out now, and whether all of them are there.

    Finished jobs are kept in `folder`, so the same call goes on where an interrupted one ended.
    """
    wanted = {job: job.key for job in jobs}
    missing: dict[str, Job] = {}
    for job, key in wanted.items():
        if not (folder / f"{key}.json").is_file():
            missing.setdefault(key, job)
    batches: dict[str, list[tuple[str, Job]]] = {}
    for key, job in missing.items():
        has_board = job.board_text is not None
        alike = (str(job.readings.path), json.dumps(job.settings, sort_keys=True))
        batches.setdefault(repr(alike) if has_board else key, []).append((key, job))
    done, total = 0, len(missing)
    is_whole = True
    for batch in batches.values():
        for first in range(0, len(batch), _BOARDS_AT_ONCE):
            part = batch[first : first + _BOARDS_AT_ONCE]
            job = part[0][1]
            progress(done, total, f"{job.readings.study} {job.runs.identifier}")

            def heed(_done: int, _total: int, label: str, at: int = done) -> None:
                progress(at, total, label)

            if not _carry_out(part, folder, workers, heed):
                is_whole = False
                break
            done += len(part)
        if not is_whole:
            break
    progress(done, total, "")
    found = {}
    if is_whole:
        rows = {key: _read(folder / f"{key}.json") for key in dict.fromkeys(wanted.values())}
        found = {job: rows[key] for job, key in wanted.items()}
    return found, done, is_whole


def _carry_out(
    batch: Sequence[tuple[str, Job]], folder: Path, workers: int,
    progress: Callable[[int, int, str], None],
) -> bool:  # fmt: skip
    """Runs jobs that differ in the board alone, and keeps each; false if interrupted."""
    folder.mkdir(parents=True, exist_ok=True)
    job = batch[0][1]
    settings, boards = dict(job.settings), {}
    for key, one in batch:
        if (text := one.board_text) is not None:
            path = (
                folder / f"board-{hashlib.blake2b(text.encode(), digest_size=8).hexdigest()}.toml"
            )
            write_whole(path, text.encode())
            boards[str(path)] = key
    if boards:
        settings[f"axes.{BOARD}"] = list(boards)
    sets = [f"{key}={setting_text(value)}" for key, value in settings.items()]
    answer = engine.run_study(
        job.readings.path, sets, None, quick=job.quick, jobs=workers, progress=progress
    )
    if answer["interrupted"]:
        return False
    rows = _means(answer)
    for key, one in batch:
        own = [row for row in rows if not boards or boards[row[0][BOARD]] == key]
        kept = [({k: v for k, v in at.items() if k != BOARD}, found) for at, found in own]
        text = json.dumps({"runs": one.runs.identifier, "rows": kept}, sort_keys=True)
        write_whole(folder / f"{key}.json", text.encode())
    return True


def _means(answer: Mapping[str, Any]) -> list[tuple[dict[str, Any], dict[str, float]]]:
    import polars

    frames = answer["frames"]
    known = ("repeat", "metric", "value", "unit")
    axes = [column for column in answer["columns"] if column not in known]
    tables = [frames[name].select(*axes, "metric", "value") for name in ("rows", "derived")
              if name in frames and frames[name].height]  # fmt: skip
    joined = polars.concat(tables, how="vertical_relaxed").drop_nulls("value")
    means = joined.group_by(*axes, "metric", maintain_order=True).agg(polars.col("value").mean())
    found: dict[tuple[Any, ...], dict[str, float]] = {}
    for *at, metric, value in means.iter_rows():
        found.setdefault(tuple(at), {})[metric] = value
    return [(dict(zip(axes, at, strict=True)), metrics) for at, metrics in found.items()]


def _read(path: Path) -> Rows:
    return [(at, metrics) for at, metrics in json.loads(path.read_bytes())["rows"]]
