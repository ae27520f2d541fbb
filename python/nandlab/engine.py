"""The only door to the native engine: JSON in, JSON and data frames out, one exception."""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from nandlab.errors import NandlabError, UncertainError
from nandlab.json_text import is_text

if TYPE_CHECKING:
    import polars as pl

    from nandlab._native import StudyTables

Progress = Callable[[int, int, str], None]
"""Called with the runs done, the runs in all, and what is being worked on."""

Elsewhere = Callable[[str, str], str | None]
"""Called with a place that takes a file no more, and why; another place, or none."""


def listing(kind: str) -> list[dict[str, Any]]:
    """Everything of one kind that the engine has, each with its name and summary."""
    return _list(_call("listing", kind))


def describe_study(
    study: str | Path, sets: list[str], seed: int | None, *, quick: bool
) -> dict[str, Any]:
    """Resolve a study file without running it."""
    return _object(_call("describe_study", str(study), sets, seed, quick))


def run_study(
    study: str | Path,
    sets: list[str],
    seed: int | None,
    *,
    quick: bool,
    jobs: int,
    progress: Progress | None = None,
    rows: bool = False,
) -> dict[str, Any]:
    """Run all combinations of a study.

    The answer holds `study`, `columns`, `axis_kinds`, `tables`, `results_csv`, `results_digest`,
    `notes`, `interrupted`; under `frames` the tables as data frames (`Frames`); and, if `rows` is
    true, `rows` and `curves` as lists.

    An exception that `progress` raises stops the run; what finished is returned with
    `interrupted` set.
    """
    arguments = (str(study), sets, seed, quick, jobs, progress or _silent, rows)
    text, tables = _raw("run_study", *arguments)
    return {**_object(json.loads(text)), "frames": Frames(tables)}


class Frames(Mapping[str, "pl.DataFrame"]):
    """The tables of a run as polars data frames; each is made when it is first asked for.

    `rows` has the axes, then `repeat`, `metric`, `value`, `count` and `unit`. An axis whose values
    are all numbers is a column of numbers. `value` holds every measurement; `count` holds it again
    where it is a whole number, without rounding, and is null elsewhere. `derived` has the same
    columns and holds metrics that are no part of `results.csv`. `curves` has cumulative counts.
    Studies of processes also have `pooled`, `latencies`, `requests` and `activity`.
    """

    def __init__(self, tables: "StudyTables") -> None:
        """Takes over the tables of the engine."""
        self._tables = tables
        self._names = tuple(tables.names())
        self._made: dict[str, pl.DataFrame] = {}

    def columns(self, name: str) -> Any:
        """A table as an object with `__arrow_c_stream__`, for libraries other than polars."""
        if name not in self._names:
            raise KeyError(name)
        return self._tables.columns(name)

    def __getitem__(self, name: str) -> "pl.DataFrame":
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
    return _object(_call("replay", str(trace), _options(options)))


def convert(source: str | Path, target: str | Path, options: Mapping[str, Any]) -> dict[str, Any]:
    """Rewrite a trace in the canonical form and return its summary."""
    return _object(_call("convert", str(source), str(target), _options(options)))


def image_list(image: str, options: Mapping[str, Any], *, hashes: bool) -> dict[str, Any]:
    """List what an image holds: `rows`, the same as `tsv`, and the `damage`."""
    return _object(_call("image_list", image, _options(options), hashes))


def image_extract(
    image: str, options: Mapping[str, Any], directory: str, *, devices: bool, owners: bool
) -> dict[str, Any]:
    """Extract the tree of an image into a new directory."""
    shown = _options(options)
    return _object(_call("image_extract", image, shown, directory, devices, owners))


def image_check(image: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Check an image: `findings` and `notes`."""
    return _object(_call("image_check", image, _options(options)))


def image_info(image: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Tell what an image is."""
    return _object(_call("image_info", image, _options(options)))


def image_diff(
    left: str, right: str, options: Mapping[str, Any], right_options: Mapping[str, Any]
) -> dict[str, Any]:
    """Compare two images by path, each opened with options of its own."""
    shown = [_options(one) for one in (options, right_options)]
    return _object(_call("image_diff", left, right, *shown))


def image_make(directory: str | None, image: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Make an image of a directory, or of the volumes of a configuration."""
    return _object(_call("image_make", directory, image, _options(options, has_all=True)))


def trace_summary(trace: str | Path, options: Mapping[str, Any]) -> dict[str, Any]:
    """Count what is in a trace."""
    return _object(_call("trace_summary", str(trace), _options(options)))


def explain(ftl: str, operations: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Run a few operations on a tiny chip and return what each did and left behind."""
    return _object(_call("explain", ftl, operations, _options(options)))


def schedule(shown: str, text: str, arguments: Mapping[str, Any]) -> str:
    """What a scheduler does with a table of requests, as a table; `shown` names it in messages."""
    return str(_raw("schedule", shown, text, _options(arguments, has_all=True)))


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
    native_arguments = _options(arguments, has_all=True)
    calls = (progress or _silent, elsewhere or _nowhere)
    return _object(_call("run_script", shown, text, native_arguments, *calls))


def cut_script(
    shown: str, text: str, arguments: Mapping[str, Any], progress: Progress | None = None
) -> dict[str, Any]:
    """Cut the power of a script at every operation of the chip; `shown` names it in messages.

    An exception that `progress` raises stops it, and so does a signal; the outcome is that of the
    cuts that were made then, with `interrupted` set.
    """
    native_arguments = _options(arguments, has_all=True)
    return _object(_call("cut_script", shown, text, native_arguments, progress or _silent))


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


def _call(function: str, *arguments: object) -> Any:
    return json.loads(_raw(function, *arguments))


def _raw(function: str, *arguments: object) -> Any:
    native = _native()
    try:
        return getattr(native, function)(*arguments)
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


def _options(options: Mapping[str, Any], *, has_all: bool = False) -> str:
    """Options as JSON; those that were not given are left out, unless `has_all`.

    The engine knows the defaults of the others.
    """
    for name, value in options.items():
        texts = value if isinstance(value, list) else [value]
        for text in texts:
            if isinstance(text, str) and not is_text(text):
                option = name.replace("_", "-")
                raise NandlabError(
                    f"--{option}: {text!r} is not UTF-8; give the file another name, or a link"
                )
    return json.dumps(
        {name: value for name, value in options.items() if has_all or value is not None}
    )


def _list(value: Any) -> list[dict[str, Any]]:
    assert isinstance(value, list)
    return value


def _object(value: Any) -> dict[str, Any]:
    assert isinstance(value, dict)
    return value
