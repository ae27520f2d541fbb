"""Finds the classes that names stand for, and gives them to the engine.

A name is `FILE.py:CLASS`, or that of an entry point of the group `nandlab.policies`. The file is
found beside the study that names it, else from the current folder, as parts and traces are.
"""

from __future__ import annotations

import hashlib
import re
import sys
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nandlab.errors import NandlabError
from nandlab.policy.contracts import Policy
from nandlab.policy.modules import importable, modules_beside
from nandlab.suggest import did_you_mean

GROUP = "nandlab.policies"
"""Group of the entry points of installed packages."""

_KINDS = {
    "cache-admission": "policy of cache admission",
    "cleaning": "cleaning policy",
    "layer": "translation layer",
    "scheduler": "scheduler",
    "wear-leveling": "way of wear levelling",
}

_BASES = "CacheAdmission, CleaningPolicy, Layer, Scheduler or WearLeveling"

OF_FILE = re.compile(r"(?P<file>[^:\n]+\.py):(?P<class>[^:\n]*)")
"""A policy in a file: FILE.py:CLASS."""


@dataclass(frozen=True)
class OwnPolicy:
    """A class that a name stands for, and where it comes from."""

    name: str
    made_of: type[Policy]
    sources: tuple[Path, ...]
    """File of the class, and the modules beside it that it imports; none of code without source."""

    @property
    def kind(self) -> str:
        """One of cache-admission, cleaning, layer, scheduler, wear-leveling."""
        return self.made_of.kind


def names_in(value: Any) -> Iterator[str]:
    """Every text within a value of TOML that may name a policy."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from names_in(key)
            yield from names_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from names_in(inner)


def register_for_study(
    study: str | Path, sets: Iterable[str], moved: Mapping[str, str] | None = None
) -> list[OwnPolicy]:
    """Adds the policies that a study file and what is set on top of it name.

    `moved` has places of files by the names that the study has for them, on another machine.
    """
    import tomllib

    path = Path(study)
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        # The engine says what is wrong with the file.
        return []
    given = [part.strip(" []\"'") for one in sets for part in one.partition("=")[2].split(",")]
    return register([*names_in(values), *given], path.parent, moved)


def register(
    names: Iterable[str], folder: Path | None = None, moved: Mapping[str, str] | None = None
) -> list[OwnPolicy]:
    """Loads the policies among the names and adds them to the tables of the engine.

    Names that are no policies of the user's own are left to the engine. `folder` is that of the
    study.

    Raises `NandlabError` for a file or class that cannot be loaded.
    """
    from nandlab import engine

    found = []
    installed = None
    given = list(names)
    given += [name for one in given for name in _names_of_device(one, folder, moved or {})]
    for name in dict.fromkeys(given):
        if matched := OF_FILE.fullmatch(name):
            file = (moved or {}).get(name, matched["file"])
            policy = _of_file(name, file, matched["class"], folder)
        else:
            installed = _entry_points() if installed is None else installed
            if name not in installed:
                continue
            policy = _of_entry_point(name, installed[name])
        if missing := sorted(policy.made_of.__abstractmethods__):
            raise NandlabError(
                f"{name}: the class has no {', '.join(missing)}; docs/policies.md lists what a "
                f"{_KINDS[policy.kind]} needs"
            )
        engine.register_policy(policy.kind, name, policy.made_of, policy.sources)
        found.append(policy)
    return found


def _names_of_device(given: str, folder: Path | None, moved: Mapping[str, str]) -> Iterator[str]:
    """Names within a device file: it may name a layer, and what the layer and the cache take."""
    if not given.endswith(".toml"):
        return
    import tomllib

    path = _found(moved.get(given, given), folder)
    try:
        device = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        # The engine says what is wrong with the file.
        return
    # No other section takes a policy, and sentences that name one are no names.
    yield from names_in({key: device.get(key) for key in ("flash", "cache")})


def _found(file: str, folder: Path | None) -> Path:
    """A file beside the study, else where its name leads."""
    beside = Path(file) if folder is None else folder / file
    return beside if beside.is_file() else Path(file)


def _of_file(name: str, file: str, wanted: str, folder: Path | None) -> OwnPolicy:
    path = _found(file, folder)
    if not path.is_file():
        raise NandlabError(f"{name}: there is no file {file}")
    try:
        beside = modules_beside(path)
    except NandlabError as error:
        raise NandlabError(f"{name}: {error}") from None
    module = _module(name, path, beside)
    classes = {
        key: value
        for key, value in vars(module).items()
        if isinstance(value, type)
        and issubclass(value, Policy)
        and value.__module__ == module.__name__
    }
    if wanted not in classes:
        known = ", ".join(sorted(classes)) or "none"
        raise NandlabError(
            f"{name}: {file} has no policy `{wanted}`: {did_you_mean(wanted, classes)}"
            f"classes derived from {_BASES}: {known}"
        )
    return OwnPolicy(name, classes[wanted], (path, *beside.values()))


def _module(name: str, path: Path, beside: Mapping[str, Path]) -> Any:
    """The module of a file, read anew: the file may have changed since."""
    # The name of the module has the path in it: two files of the same name are two modules.
    called = "nandlab_policy_" + hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:16]
    module = types.ModuleType(called)
    module.__file__ = str(path)
    # `copy.deepcopy` and dataclasses look a class up by its module.
    sys.modules[called] = module
    try:
        # Not by the import system: it would take compiled code of the second before for this text.
        with importable(path.parent, beside):
            exec(compile(path.read_bytes(), str(path), "exec"), vars(module))
    except SyntaxError as error:
        raise NandlabError(f"{name}: line {error.lineno} of {path}: {error.msg}") from None
    except (Exception, SystemExit) as error:
        raise NandlabError(f"{name}: {path} cannot be loaded: {_said(error, path)}") from None
    return module


def _said(error: BaseException, path: Path) -> str:
    """The exception, and the line of the file that raised it."""
    import traceback

    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename).resolve() == path.resolve()
    ]
    place = f" (line {lines[-1]})" if lines else ""
    return f"{type(error).__name__}: {error}{place}"


def _entry_points() -> dict[str, Any]:
    from importlib.metadata import entry_points

    return {one.name: one for one in entry_points(group=GROUP)}


def _of_entry_point(name: str, entry: Any) -> OwnPolicy:
    import inspect

    try:
        made_of = entry.load()
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
        raise NandlabError(f"{name}: {entry.value} cannot be loaded: {said}") from None
    if not (isinstance(made_of, type) and issubclass(made_of, Policy) and hasattr(made_of, "kind")):
        raise NandlabError(f"{name}: {entry.value} is not derived from {_BASES}")
    try:
        sources: tuple[Path, ...] = (Path(inspect.getfile(made_of)),)
    except (TypeError, OSError):
        sources = ()
    return OwnPolicy(name, made_of, sources)
