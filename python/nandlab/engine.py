"""The only door to the native engine: JSON in, JSON and data frames out, one exception."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping

from nandlab.errors import NandlabError, UncertainError
from nandlab.json_text import is_text

# `nandlab list` does without `typing` and `pathlib`, which take long to load.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType
    from typing import Any

    import polars as pl

    from nandlab._native import CellWorker, RunningServer, StudyTables
    from nandlab.cells.store import CellFolder

Progress = Callable[[int, int, str], None]
"""Called with the runs done, the runs in all, and what is being worked on."""

Elsewhere = Callable[[str, str], str | None]
"""Called with a place that takes a file no more, and why; another place, or none."""


FileOfCut = tuple[bytes, str, int, bytes, bytes]
"""A file after a power cut: path, letter of its kind as `find -printf %y` has it or `?` for what
cannot be read, permission bits, bytes or target, and the first path of the same inode."""

CutFiles = tuple[int, str, int | None, list[FileOfCut]]
"""What a power cut left: cut point, torn model, newest acknowledgement, files."""

Check = Callable[[list[CutFiles]], list[str | None] | None]
"""Called with what cuts left; why each does not hold, or None. None in all if it shall stop."""


def device_row(name: str) -> dict[str, Any]:
    """The device of a name, or of a file that ends in .toml, as `nandlab list devices` has it."""
    if name.endswith(".toml"):
        register_named({"device": name})
    row: dict[str, Any] = json.loads(_raw("device_row", name))
    return row


def listing(kind: str) -> list[dict[str, Any]]:
    """Everything of one kind that the engine has, each with its name and summary."""
    rows: list[dict[str, Any]] = json.loads(_raw("listing", kind))
    return rows


def describe_study(
    study: str | Path, sets: list[str], seed: int | None, *, quick: bool
) -> dict[str, Any]:
    """Resolve a study file without running it."""
    _register_policies(study, sets)
    return call("describe_study", study, sets, seed, quick)


def run_study(
    study: str | Path,
    sets: list[str],
    seed: int | None,
    *,
    quick: bool,
    jobs: int,
    progress: Progress | None = None,
    rows: bool = False,
    timeline: Path | None = None,
    cells: CellFolder | None = None,
) -> dict[str, Any]:
    """Run all combinations of a study.

    `timeline` takes what happened when in the first run. `cells` holds what is finished of the
    study, which is not run again, and takes what is finished now.

    The answer holds `study`, `columns`, `axis_kinds`, `tables`, `results_csv`, `results_digest`,
    `notes`, `interrupted`; under `frames` the tables as data frames (`Frames`); and, if `rows` is
    true, `rows` and `curves` as lists.

    An exception that `progress` raises stops the run; what finished is returned with
    `interrupted` set.
    """
    _register_policies(study, sets)
    text, tables = _raw(
        "run_study", study, sets, seed, quick, jobs, progress or _silent, rows, timeline, cells
    )
    return {**json.loads(text), "frames": Frames(tables)}


def _register_policies(
    study: str | Path, sets: list[str], moved: Mapping[str, str] | None = None
) -> None:
    """Adds the policies in Python that a study names to the tables of the engine."""
    from nandlab.policy.loading import register_for_study

    register_for_study(study, sets, moved)


def register_named(options: Mapping[str, Any]) -> None:
    """Adds the policies in Python that options name to the tables of the engine."""
    from nandlab.policy.loading import names_in, register

    texts = [part for text in names_in(dict(options)) for part in text.split(",")]
    register(texts)


def register_policy(kind: str, name: str, made_of: type, sources: Iterable[Path]) -> None:
    """Add a class to the table of its kind, under the name by which studies call it.

    Results depend on all of `sources`, of which the first is the file of the class.
    """
    _raw("register_policy", kind, name, made_of, [str(source) for source in sources])


def check_policy(
    kind: str,
    name: str,
    sequences: int,
    operations: int,
    seed: int,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Check what every policy of a kind keeps, on one that is in a table of the engine."""
    counts = (sequences, operations, seed)
    return call("check_policy", kind, name, *counts, progress or _silent)


def cell_worker(
    study: str | Path,
    sets: list[str],
    seed: int | None,
    *,
    quick: bool,
    moved: dict[str, str],
    identity: str,
) -> CellWorker:
    """A study whose cells are carried out one by one.

    `moved` has places of files by the names that the study has for them; `identity` names the
    engine, and is part of each key.
    """
    _register_policies(study, sets, moved)
    worker: CellWorker = _raw("CellWorker", study, sets, seed, quick, list(moved.items()), identity)
    return worker


class Frames(Mapping[str, "pl.DataFrame"]):
    """The tables of a run as polars data frames; each is made when it is first asked for.

    `rows` has the axes, then `repeat`, `metric`, `value`, `count` and `unit`. An axis whose values
    are all numbers is a column of numbers. `value` holds every measurement; `count` holds it again
    where it is a whole number, without rounding, and is null elsewhere. `derived` has the same
    columns and holds metrics that are no part of `results.csv`. `curves` has cumulative counts.
    Studies of processes also have `pooled`, `latencies`, `requests` and `activity`.
    """

    def __init__(self, tables: StudyTables) -> None:
        """Takes over the tables of the engine."""
        self._tables = tables
        self._names = tuple(tables.names())
        self._made: dict[str, pl.DataFrame] = {}

    def columns(self, name: str) -> Any:
        """A table as an object with `__arrow_c_stream__`, for libraries other than polars."""
        if name not in self._names:
            raise KeyError(name)
        return self._tables.columns(name)

    def __getitem__(self, name: str) -> pl.DataFrame:
        """The table called `name`."""
        if name not in self._made:
            import polars as pl

            self._made[name] = pl.DataFrame(self.columns(name))
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        """Names of the tables."""
        return iter(self._names)

    def __len__(self) -> int:
        """Number of the tables."""
        return len(self._names)


def replay(trace: str | Path, options: Mapping[str, Any]) -> dict[str, Any]:
    """Replay one trace on one translation layer and chip."""
    register_named(options)
    return call("replay", trace, options)


def life_of_trace(
    trace: str | Path, options: Mapping[str, Any], years: float, bytes_per_day: float | None
) -> dict[str, Any]:
    """Wear a translation layer, or UBI, out by a trace that is repeated without end."""
    register_named(options)
    return call("life_of_trace", trace, options, years, bytes_per_day)


def life_of_device(
    trace: str | Path, arguments: Mapping[str, Any], reading: Mapping[str, Any]
) -> dict[str, Any]:
    """Wear a named device out by a trace that is repeated without end."""
    register_named(arguments)
    return call("life_of_device", trace, arguments, reading)


def cycles_within_ecc(part: str, data_bytes: int, age_years: float) -> int:
    """The most cycles at which data of this age keeps on a part; the rated ones at most."""
    cycles: int = _raw("cycles_within_ecc", part, data_bytes, age_years)
    return cycles


def replay_on_device(
    trace: str | Path, arguments: Mapping[str, Any], reading: Mapping[str, Any]
) -> dict[str, Any]:
    """Replay one trace through schedulers on a device, in simulated time."""
    register_named(arguments)
    return call("replay_on_device", trace, arguments, reading)


def start_server(arguments: Mapping[str, Any]) -> RunningServer:
    """Make a device that stores bytes, and listen for its clients."""
    server: RunningServer = _raw("start_server", arguments)
    return server


def replay_server_log(log: str) -> dict[str, Any]:
    """Carry the log of a server out again."""
    return call("replay_server_log", log)


def convert(source: str | Path, target: str | Path, options: Mapping[str, Any]) -> dict[str, Any]:
    """Rewrite a trace in the canonical form and return its summary."""
    return call("convert", source, target, options)


def schedule(shown: str, text: str, arguments: Mapping[str, Any]) -> str:
    """What a scheduler does with a table of requests, as a table; `shown` names it in messages."""
    register_named(arguments)
    return str(_raw("schedule", shown, text, arguments))


def run_script(
    shown: str,
    text: str,
    arguments: Mapping[str, Any],
    progress: Progress | None = None,
    elsewhere: Elsewhere | None = None,
) -> dict[str, Any]:
    """Carry out a script of system calls; `shown` names it in messages.

    An exception that `progress` raises stops it, and so does a signal: the answer is then what the
    lines before had counted, with `interrupted` set. A file that cannot be written goes where
    `elsewhere` says.
    """
    calls = (progress or _silent, elsewhere or _nowhere)
    return call("run_script", shown, text, arguments, *calls)


def cut_script(
    shown: str,
    text: str,
    arguments: Mapping[str, Any],
    progress: Progress | None = None,
    check: Check | None = None,
) -> dict[str, Any]:
    """Cut the power of a script at every operation of the chip; `shown` names it in messages.

    `check` looks at the files that the cuts left. An exception that `progress` raises stops the
    call, and so does a signal; the outcome is that of the cuts that were made then, with
    `interrupted` set.
    """
    return call("cut_script", shown, text, arguments, progress or _silent, check)


def is_stopping() -> bool:
    """True if the calls that are under way were asked to stop; what they call asks for it."""
    return bool(_native().is_stopping())


def minimise_script(
    shown: str, text: str, arguments: Mapping[str, Any], progress: Progress | None = None
) -> dict[str, Any]:
    """Make a failing script smaller; the arguments are those of `cut_script`.

    `progress` gets the scripts that were tried and the lines of the smallest one. An exception that
    it raises stops the search, and so does a signal; the answer has `interrupted` set then.
    """
    return call("minimise_script", shown, text, arguments, progress or _silent)


def search_scripts(
    arguments: Mapping[str, Any], asked: Mapping[str, Any], progress: Callable[[str], bool]
) -> dict[str, Any]:
    """Search for scripts that break a guarantee; the arguments are those of `cut_script`.

    `asked` holds `runs`, `depth` and `corpus`. `progress` gets the state as JSON and answers
    whether the search goes on.
    """
    return call("search_scripts", arguments, asked, progress)


def stop() -> None:
    """Ask all calls that are under way, in whatever thread, to stop."""
    _native().stop()


def _nowhere(place: str, reason: str) -> str | None:
    """There is no other place for a file that cannot be written: the call fails."""
    raise NandlabError(f"{place}: {reason}")


def _silent(done: int, total: int, label: str) -> None:
    """Progress that nobody watches."""


def _native() -> ModuleType:
    try:
        from nandlab import _native
    except ImportError as error:
        raise NandlabError(
            f"the native module of nandlab cannot be loaded ({error}); "
            "build it in the source tree with `maturin develop --release`"
        ) from None
    return _native


def call(function: str, *arguments: object) -> dict[str, Any]:
    """Call a function of the engine by its name; paths go as text, options as JSON.

    The API describes the answers of the functions for which there is no other door here.
    """
    answer: dict[str, Any] = json.loads(_raw(function, *arguments))
    return answer


def _raw(function: str, *arguments: object) -> Any:
    native = _native()
    try:
        return getattr(native, function)(*map(_as_native, arguments))
    except NandlabError:
        raise
    except native.UncertainError as error:
        raise UncertainError(str(error)) from None
    except UnicodeEncodeError as error:
        raise NandlabError(
            f"{error.object!r} is not UTF-8; give the file another name, or a link"
        ) from None
    except ValueError as error:
        raise NandlabError(str(error)) from None


def _as_native(argument: object) -> object:
    """A path as text, and options as JSON."""
    if not isinstance(argument, Mapping):
        return str(argument) if isinstance(argument, os.PathLike) else argument
    for name, value in argument.items():
        for text in value if isinstance(value, list) else [value]:
            if isinstance(text, str) and not is_text(text):
                option = name.replace("_", "-")
                raise NandlabError(
                    f"--{option}: {text!r} is not UTF-8; give the file another name, or a link"
                )
    return json.dumps(argument)
