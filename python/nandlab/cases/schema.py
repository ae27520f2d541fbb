"""Reads `cases.toml`; docs/fair-schedulers.md describes every key."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from nandlab.errors import NandlabError
from nandlab.suggest import unknown
from nandlab.toml_text import TomlLines, read_toml

CASES = "cases.toml"
"""The file beside `study.toml` that makes a study one of cases."""

SIMULATED = "simulated"
"""Where the engine carries a case out; any other place is a kernel, such as `linux-6.12`."""

KERNEL_PREFIX = "linux-"
Made = TypeVar("Made", "Place", "Case", "CaseJob")
MODES = ("buffered", "direct", "sync")
DIRECTIONS = {"randread": "read", "randwrite": "write"}
KERNEL_DEVICES = ("flash-card", "null-blk")
NUMBER_MAX = 2**31 - 1
"""Of any number here: so many milliseconds are three weeks."""

_KINDS = {bool: "true or false", int: f"a number from 0 to {NUMBER_MAX:,}", str: "a text"}
"""What a key takes, by the type of its field; every other field takes a list of texts."""

_NAME = re.compile(r"[A-Za-z0-9._-]+")
"""Names are cells of tables and words of lines, so neither commas nor blanks stand in them."""


@dataclass(frozen=True)
class CaseJob:
    """Processes of one kind, in the words of the engine's jobs.

    `threads` of a process each have `iodepth` requests under way. Of short-lived processes
    `processes` live at a time.
    """

    name: str
    rw: str
    bs: str
    processes: int = 1
    threads: int = 1
    iodepth: int = 1
    mode: str = "direct"
    prioclass: int = 0
    is_short_lived: bool = False

    @property
    def direction(self) -> str:
        """`read` or `write`."""
        return DIRECTIONS[self.rw]

    @property
    def block_bytes(self) -> int:
        """Bytes of a request."""
        return int(self.bs.removesuffix("k")) << 10


@dataclass(frozen=True)
class Case:
    """A mix of processes; those of the first job are watched.

    `is_shared` says that all of them deserve the same, so that Jain's index means something.
    """

    name: str
    text: str
    job: tuple[CaseJob, ...]
    is_shared: bool = False

    @property
    def has_write_back(self) -> bool:
        """Whether the disk writes what no process waits for."""
        return any(one.mode == "buffered" for one in self.job)


@dataclass(frozen=True)
class Place:
    """Where all cases run: simulated or in a kernel, and on which device, for how long.

    Without `quick_runtime_ms` the short form leaves the place out. `schedulers` are those of the
    study's axis that are there; none for all.
    """

    where: str
    device: str
    runtime_ms: int
    quick_runtime_ms: int = 0
    short_every_us: int = 0
    schedulers: tuple[str, ...] = ()

    @property
    def is_simulated(self) -> bool:
        """Whether the engine carries it out."""
        return self.where == SIMULATED

    @property
    def kernel(self) -> str:
        """Series of the kernel."""
        return self.where.removeprefix(KERNEL_PREFIX)

    @property
    def device_name(self) -> str:
        """The device as results call it."""
        return Path(self.device).stem if self.device.endswith(".toml") else self.device


@dataclass(frozen=True)
class CaseFile:
    """All of `cases.toml`."""

    places: tuple[Place, ...]
    cases: tuple[Case, ...]


def has_cases(study: str | Path) -> bool:
    """Whether a study file has cases beside it."""
    return (Path(study).parent / CASES).is_file()


def load_cases(study: str | Path) -> CaseFile:
    """The cases beside a study file.

    Raises `NandlabError` with file, line and the nearest word that is known.
    """
    path = Path(study).parent / CASES
    text, plain = read_toml(path, "a file of cases", "docs/fair-schedulers.md shows a whole one")
    return _Reader(path, text).file(plain)


class _Reader(TomlLines):
    """Turns plain data into cases; knows the lines for its messages."""

    def file(self, plain: Mapping[str, Any]) -> CaseFile:
        self.check(plain, ("place", "case"), "")
        places = tuple(self.place(one) for one in self.tables(plain, "place"))
        cases = tuple(self.case(one) for one in self.tables(plain, "case"))
        names = [case.name for case in cases]
        if not places or not cases:
            raise self.error("needs at least one [[place]] and one [[case]]", "")
        for name in (*names, *(one.device_name for one in places)):
            if not _NAME.fullmatch(name):
                raise self.error(f"{name!r} is no name; use letters, digits, dots and dashes", name)
        for name in names:
            if names.count(name) > 1:
                raise self.error(f"two cases are called {name!r}; give each its own name", name)
        if len({(one.where, one.device_name) for one in places}) < len(places):
            raise self.error("two places have the same device; each may stand once", "")
        has_short = any(job.is_short_lived for case in cases for job in case.job)
        for one in places:
            if has_short and one.is_simulated and not one.short_every_us:
                reason = "a case has short-lived processes; add short_every_us, how often they come"
                raise self.error(reason, one.device)
        return CaseFile(places, cases)

    def place(self, plain: Mapping[str, Any]) -> Place:
        found = self.made(Place, plain, ("where", "device", "runtime_ms"), "a place")
        if not found.is_simulated:
            if not found.where.startswith(KERNEL_PREFIX):
                reason = f"where = {found.where!r}: `simulated` and `linux-6.12` are known"
                raise self.error(reason, found.where)
            if found.device not in KERNEL_DEVICES:
                raise self.error(unknown("device", found.device, KERNEL_DEVICES), found.device)
        if found.runtime_ms < 1:
            raise self.error("runtime_ms must be at least 1", found.device)
        return found

    def case(self, plain: Mapping[str, Any]) -> Case:
        name = str(plain.get("name", ""))
        jobs = [self.job(one, name) for one in self.tables(plain, "job")]
        if not jobs or jobs[0].is_short_lived:
            raise self.error("a case needs a job that is watched, of lasting processes", name)
        return self.made(Case, {**plain, "job": jobs}, ("name", "text", "job"), f"case {name!r}")

    def job(self, plain: Mapping[str, Any], case: str) -> CaseJob:
        found = self.made(CaseJob, plain, ("name", "rw", "bs"), f"a job of case {case!r}")
        if found.rw not in DIRECTIONS:
            raise self.error(unknown("rw", found.rw, DIRECTIONS), case)
        if found.mode not in MODES:
            raise self.error(unknown("mode", found.mode, MODES), case)
        if not found.bs.removesuffix("k").isdigit() or found.block_bytes % 4096:
            raise self.error(f"bs = {found.bs!r}: a multiple of 4k is needed", case)
        if min(found.processes, found.threads, found.iodepth) < 1 or found.prioclass not in range(
            4
        ):
            reason = "processes, threads and iodepth must be at least 1, prioclass 0 to 3"
            raise self.error(reason, case)
        if found.iodepth > 1 and found.mode != "direct":
            raise self.error("iodepth above 1 needs mode direct", case)
        return found

    def made(
        self, kind: type[Made], plain: Mapping[str, Any], needed: Iterable[str], what: str
    ) -> Made:
        """One table as the class of its kind, whose fields are its keys."""
        name = str(plain.get("name", plain.get("device", "")))
        self.check(plain, [one.name for one in fields(kind)], name)
        for key in needed:
            if key not in plain:
                raise self.error(f"{what} lacks the key {key!r}; add it", name)
        for key, wanted in get_type_hints(kind).items():
            if key in plain:
                self.check_value(key, plain[key], wanted, name)
        lists = {key: tuple(value) for key, value in plain.items() if isinstance(value, list)}
        return kind(**{**plain, **lists})

    def tables(self, plain: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
        """The tables of a list, such as `[[place]]`."""
        found = plain.get(key, [])
        if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
            written = f"[[{key}]]" if key != "job" else "job = [{ name = ... }]"
            raise self.error(f"{key}: a list of tables is needed, as in {written}", "", key)
        return found

    def check_value(self, key: str, value: object, wanted: type, name: str) -> None:
        """Refuses a value that is not of the type of its field."""
        if wanted in _KINDS:
            # True is a number in Python.
            fits = type(value) is wanted and (wanted is not int or 0 <= value <= NUMBER_MAX)  # type: ignore[operator]
            if not fits:
                raise self.error(f"{key} = {value!r}: {_KINDS[wanted]} is needed", name, key)
        elif key != "job" and not (
            isinstance(value, list) and all(isinstance(one, str) for one in value)
        ):
            raise self.error(f"{key} = {value!r}: a list of texts is needed", name, key)

    def check(self, plain: Mapping[str, Any], known: Iterable[str], name: str) -> None:
        for key in plain:
            if key not in known:
                raise self.error(unknown("key", key, known), name, key)

    def error(self, message: str, name: str, key: str = "") -> NandlabError:
        lines = enumerate(self.lines)
        at = next((number for number, line in lines if name and f'"{name}"' in line), None)
        if key and (found := self.line_of(key, at or 0)) is not None:
            # A key before the name keeps the line of the name: it is in the same table.
            at = found
        return self.at(at, message)
