"""Points of a space as studies of their own: text, key, and the files that they name."""

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from nandlab import engine
from nandlab.design_space.space import CARD, Choices, Space
from nandlab.engine_identity import engine_identity
from nandlab.errors import NandlabError
from nandlab.frame.run_directory import MANIFEST
from nandlab.outputs import check_folder, write_whole
from nandlab.policy.loading import OF_FILE
from nandlab.policy.modules import modules_beside
from nandlab.study_files import STUDY_FILE
from nandlab.toml_text import toml_of

POINTS = "points"
"""Folder of the points that were evaluated, each below its key."""

INPUTS = "inputs"
"""Folder of the files that studies of points name."""

CARD_FILE = "card.toml"
"""The device file of a point, beside its study."""

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
    files: Mapping[str, str] = field(default_factory=dict)
    """Files beside the study by name: its card."""


class Points:
    """Makes studies of points, in the folder of a search."""

    def __init__(self, space: Space, folder: Path) -> None:
        """Nothing is written before a point names a file of its own."""
        check_folder(folder)
        self._space = space
        self.folder = folder
        self._inputs: dict[Path, str] = {}
        self._digests: dict[str, str] = {}
        self._modules: dict[str, dict[str, str]] = {}
        """Names and digests of the modules that a policy imports, by the policy's name."""

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
            files = self._card(choices)
        except NandlabError as error:
            return Point(choices, label, refusal=str(error))
        point = Point(choices, label, toml_of(study), files=files)
        with self.written(point) as path:
            try:
                plan = engine.describe_study(path, [], None, quick=False)
            except NandlabError as error:
                return replace(point, refusal=reason(error, path))
        return replace(point, key=self._key(plan, point), runs=int(plan["runs"]))

    def written(self, point: Point) -> AbstractContextManager[Path]:
        """The study of a point as a file, as deep below the folder as the folders of points."""
        return _written(self.folder / POINTS, point)

    def _card(self, choices: Choices) -> dict[str, str]:
        """The device file of a point that chooses keys of the card."""
        chosen = {key: value for key, value in choices.items() if key.startswith(CARD)}
        if not chosen:
            return {}
        card = {"card": self._replaced(_copied(self._space.card))}
        for key, value in chosen.items():
            _set(card, key, self._replaced(_copied(value)))
        return {CARD_FILE: toml_of(card["card"])}

    def _study(self, choices: Choices, label: str) -> dict[str, Any]:
        """The base study with the choices in their places."""
        base = self._space.study
        study: dict[str, Any] = {key: _copied(one) for key, one in base.items()}
        for key in _DROPPED:
            study.pop(key, None)
        study.setdefault("name", "search")
        study.setdefault("seed", 1)
        study.setdefault("repeats", 1)
        study.setdefault("question", "How good is this point?")
        study["title"] = f"Point of a search: {label}"
        # Axes that the base orders need not be all that a point has.
        study.pop("axis_order", None)
        if any(key.startswith(CARD) for key in choices):
            _set(study, "axes.block_device", CARD_FILE)
        for key, value in choices.items():
            if key.startswith(CARD):
                continue
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
        if isinstance(value, str) and (matched := OF_FILE.fullmatch(value)):
            named = self._replaced(matched["file"])
            self._keep_modules(matched["file"], named.removeprefix(f"{_FROM_POINT}/"))
            return f"{named}:{matched['class']}"
        # A name of a catalogue has neither a folder nor an ending that a file of its name has.
        if isinstance(value, str) and ("/" in value or "." in value):
            for folder in dict.fromkeys((self._space.folder, self._space.path.parent)):
                if (folder / value).is_file():
                    return f"{_FROM_POINT}/{self._kept(folder / value)}"
        return value

    def _keep_modules(self, policy: str, name: str) -> None:
        """Keeps the modules that a policy imports at their places beside it.

        Raises `NandlabError` for a module of another policy that has the same name.
        """
        folders = (self._space.folder, self._space.path.parent)
        file = next((one / policy for one in folders if (one / policy).is_file()), None)
        if file is None or name in self._modules:
            return
        self._modules[name] = {}
        for module in modules_beside(file).values():
            inner = os.path.relpath(module, file.parent)
            digest = _digest(module)
            if self._digests.get(inner, digest) != digest:
                raise NandlabError(
                    f"{module}: another policy of this search imports a module of this name, with "
                    "another content; name one of them otherwise"
                )
            self._keep(module, inner)
            self._modules[name][inner] = digest

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
            name, number = self._free_name(file), 1
            while name in self._inputs.values():
                number += 1
                name = f"{file.stem}-{number}{file.suffix}"
            self._keep(file, name)
        return self._inputs[file]

    def _free_name(self, file: Path) -> str:
        """The file's name; with its digest where an older point names another content so."""
        there, digest = self.folder / INPUTS / file.name, _digest(file)
        if not there.is_file() or _digest(there) == digest:
            return file.name
        return f"{file.stem}-{digest[:8]}{file.suffix}"

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

    def _key(self, plan: Mapping[str, Any], point: Point) -> str:
        """Hash of what the results depend on: the resolved study, its files, the version."""
        # Where files lie is a matter of this machine; the title says what the choices say.
        left_out = ("own_files", "title")
        text = "\0".join([point.text, *point.files.values()])
        resolved = {key: value for key, value in plan.items() if key not in left_out}
        named = [f"{name} {digest}" for name, digest in sorted(self._digests.items())
                 if f"{_FROM_POINT}/{name}" in text or "{" in text]  # fmt: skip
        named += [f"{name} {digest}" for policy, modules in sorted(self._modules.items())
                  for name, digest in sorted(modules.items())
                  if f"{_FROM_POINT}/{policy}" in text]  # fmt: skip
        files = [f"{name} {content}" for name, content in sorted(point.files.items())]
        parts = [engine_identity(), json.dumps(resolved, sort_keys=True), *named, *files]
        return hashlib.blake2b("\0".join(parts).encode(), digest_size=10).hexdigest()


@contextmanager
def _written(beside: Path, point: Point) -> Iterator[Path]:
    """The file of a study for as long as a block lasts; where it lies was tried out before."""
    beside.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=".study-", dir=beside))
    try:
        write_texts(scratch, point)
        yield scratch / STUDY_FILE
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def write_texts(folder: Path, point: Point) -> None:
    """Writes the study of a point, and the files beside it."""
    for name, text in {STUDY_FILE: point.text, **point.files}.items():
        (folder / name).write_text(text, encoding="utf-8")


def reason(error: NandlabError, path: Path) -> str:
    """Why a study was refused, without the name of the file that stood for it."""
    text = str(error).replace(f"{path}: ", "").replace(str(path), STUDY_FILE)
    text = re.sub(rf"{re.escape(str(path.parent))}/?", "", text)
    # The lines that are shown of the text are of a file that is gone.
    shown = re.compile(r"TOML parse error|\s*\d*\s*\|")
    lines = [one for one in text.splitlines() if not shown.match(one)]
    return "; ".join(one.strip() for one in lines if one.strip())


def keep_refusal(place: Path, point: Point, why: str) -> None:
    """Writes why a point cannot be run, so that it is not tried again."""
    place.mkdir(parents=True, exist_ok=True)
    write_texts(place, point)
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
