"""Points of a space as studies of their own: text, key, and the files that they name."""

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nandlab import engine
from nandlab.comparison.study import toml
from nandlab.design_space.space import Choices, Space
from nandlab.errors import NandlabError
from nandlab.frame.run_directory import MANIFEST
from nandlab.outputs import check_folder, write_whole
from nandlab.readings.simulation import engine_version
from nandlab.study_files import STUDY_FILE

POINTS = "points"
"""Folder of the points that were evaluated, each below its key."""

INPUTS = "inputs"
"""Folder of the files that studies of points name."""

REFUSED = "refused.txt"
"""Why a point could not be run; it stands where the results would be."""

_DROPPED = ("extra_runs", "quick_form", "reference", "timeline")
"""Keys of a base study that mean nothing for a single point of it."""

_FROM_POINT = f"../../{INPUTS}"


@dataclass(frozen=True)
class Point:
    """A point as a study: what was chosen, its text, and its key; or why it cannot be."""

    choices: Choices
    label: str
    text: str = ""
    key: str = ""
    runs: int = 0
    """Runs of its study, repeats included."""
    refusal: str = ""


class Points:
    """Makes studies of points, in the folder of a search."""

    def __init__(self, space: Space, folder: Path) -> None:
        """Nothing is written before a point names a file of its own."""
        check_folder(folder)
        self._space = space
        self.folder = folder
        self._inputs: dict[Path, str] = {}
        self._digests: dict[str, str] = {}

    def place(self, key: str) -> Path:
        """Folder of the point of a key."""
        return self.folder / POINTS / key

    def is_finished(self, key: str) -> bool:
        """Whether the results of a point are there."""
        return (self.place(key) / MANIFEST).is_file()

    def finished(self) -> int:
        """Points that are finished."""
        return sum(1 for _ in (self.folder / POINTS).glob(f"[!.]*/{MANIFEST}"))

    def point(self, choices: Choices) -> Point:
        """The study of a point, resolved; one that cannot be has the reason of the engine."""
        label = self._space.label(choices)
        try:
            study = self._named_from_point(self._study(choices, label))
        except NandlabError as error:
            return Point(choices, label, refusal=str(error))
        text = toml_text(study)
        with self.written(text) as path:
            try:
                plan = engine.describe_study(path, [], None, quick=False)
            except NandlabError as error:
                return Point(choices, label, text, refusal=reason(error, path))
        return Point(choices, label, text, self._key(plan, text), int(plan["runs"]))

    def written(self, text: str) -> AbstractContextManager[Path]:
        """A study as a file, as deep below the folder as the folders of points."""
        return _written(self.folder / POINTS, text)

    def _study(self, choices: Choices, label: str) -> dict[str, Any]:
        """The base study with the choices in their places."""
        base = self._space.study
        study: dict[str, Any] = {key: _copied(one) for key, one in base.items()}
        for key in _DROPPED:
            study.pop(key, None)
        study.setdefault("name", "search")
        study.setdefault("question", "How good is this point?")
        study["title"] = f"Point of a search: {label}"
        # Axes that the base orders need not be all that a point has.
        study.pop("axis_order", None)
        for key, value in choices.items():
            _set(study, key, _copied(value))
        return study

    def _named_from_point(self, study: dict[str, Any]) -> dict[str, Any]:
        """The study with files named as they lie from the folder of a point."""
        found = {key: self._replaced(value) for key, value in study.items()}
        pattern = (found.get("workload") or {}).get("file")
        if isinstance(pattern, str) and "{" in pattern:
            found["workload"] = {**found["workload"], "file": self._pattern(pattern)}
        return found

    def _replaced(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self._replaced(one) for key, one in value.items()}
        if isinstance(value, list):
            return [self._replaced(one) for one in value]
        # A name of a catalogue has neither a folder nor an ending that a file of its name has.
        if isinstance(value, str) and ("/" in value or "." in value):
            for folder in dict.fromkeys((self._space.folder, self._space.path.parent)):
                if (folder / value).is_file():
                    return f"{_FROM_POINT}/{self._kept(folder / value)}"
        return value

    def _pattern(self, pattern: str) -> str:
        """A name with axes in braces; all files that it may mean are kept."""
        head, _, _ = pattern.partition("{")
        fixed = head.rpartition("/")[0]
        tail = pattern[len(fixed) :].lstrip("/")
        start = self._space.folder / fixed
        for file in sorted(start.glob(re.sub(r"\{\w+\}", "*", tail))):
            self._keep(file, str(file.relative_to(start)))
        return f"{_FROM_POINT}/{tail}"

    def _kept(self, file: Path) -> str:
        """The name in the folder of inputs; a copy is made when a file is first named."""
        file = file.resolve()
        if file not in self._inputs:
            name, number = file.name, 1
            while name in self._inputs.values():
                number += 1
                name = f"{file.stem}-{number}{file.suffix}"
            self._keep(file, name)
        return self._inputs[file]

    def _keep(self, file: Path, name: str) -> None:
        file = file.resolve()
        if file in self._inputs:
            return
        digest = _digest(file)
        target = self.folder / INPUTS / name
        if not target.is_file() or _digest(target) != digest:
            target.parent.mkdir(parents=True, exist_ok=True)
            scratch = target.with_name(f".{target.name}-{os.getpid()}")
            shutil.copyfile(file, scratch)
            scratch.replace(target)
        self._inputs[file], self._digests[name] = name, digest

    def _key(self, plan: Mapping[str, Any], text: str) -> str:
        """Hash of what the results depend on: the resolved study, its files, the version."""
        # Where files lie is a matter of this machine; the title says what the choices say.
        left_out = ("own_files", "title")
        resolved = {key: value for key, value in plan.items() if key not in left_out}
        named = [f"{name} {digest}" for name, digest in sorted(self._digests.items())
                 if f"{_FROM_POINT}/{name}" in text or "{" in text]  # fmt: skip
        parts = [engine_version(), json.dumps(resolved, sort_keys=True), *named]
        return hashlib.blake2b("\0".join(parts).encode(), digest_size=10).hexdigest()


@contextmanager
def _written(beside: Path, text: str) -> Iterator[Path]:
    """The file of a study for as long as a block lasts; where it lies was tried out before."""
    beside.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=".study-", dir=beside))
    try:
        path = scratch / STUDY_FILE
        path.write_text(text, encoding="utf-8")
        yield path
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def toml_text(study: Mapping[str, Any]) -> str:
    """A study as TOML, with lists of tables as inline tables."""
    return toml(dict(study))


def reason(error: NandlabError, path: Path) -> str:
    """Why a study was refused, without the name of the file that stood for it."""
    text = str(error).replace(f"{path}: ", "").replace(str(path), STUDY_FILE)
    return re.sub(rf"{re.escape(str(path.parent))}/?", "", text)


def keep_refusal(place: Path, text: str, why: str) -> None:
    """Writes why a point cannot be run, so that it is not tried again."""
    place.mkdir(parents=True, exist_ok=True)
    write_whole(place / STUDY_FILE, text.encode())
    write_whole(place / REFUSED, why.encode())


def _set(study: dict[str, Any], path: str, value: Any) -> None:
    """Sets a key with dots between levels, as `--set` does: an axis takes a list."""
    *levels, last = path.split(".")
    place: Any = study
    for level in levels:
        place = place.setdefault(level, {})
        if not isinstance(place, dict):
            raise NandlabError(f"{path}: part of the key names a value, not a table")
    is_list = "axes" in levels or isinstance(place.get(last), list)
    place[last] = [value] if is_list and not isinstance(value, list) else value


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(one) for key, one in value.items()}
    return [_copied(one) for one in value] if isinstance(value, list) else value


def _digest(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
