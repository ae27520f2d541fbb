"""Replays, comparisons, scripts and power cuts as Python calls."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nandlab.api.interrupted import Interrupted
from nandlab.api.runs import Run, setting_text

if TYPE_CHECKING:
    import polars

    from nandlab.comparison.cuts import Cuts


@dataclass(frozen=True)
class Replay:
    """What one trace cost on one translation layer and chip."""

    answer: Mapping[str, Any]
    """The engine's answer, as `nandlab replay --json` prints it."""

    @property
    def metrics(self) -> "polars.DataFrame":
        """Every metric: `metric`, `value`, `unit`."""
        import polars

        types = {"metric": polars.String, "value": polars.Float64, "unit": polars.String}
        return polars.DataFrame(self.answer["metrics"], schema=types, strict=False)

    @property
    def counters(self) -> dict[str, int]:
        """Page reads, spare reads, page programs, spare programs and erases of the chip."""
        names = ("page_reads", "spare_reads", "page_programs", "spare_programs", "erases")
        found = {row["metric"]: row["value"] for row in self.answer["metrics"]}
        return {name: int(found.get(name) or 0) for name in names}

    @property
    def service_times(self) -> "polars.DataFrame":
        """The chip's time for a request, ns: `read`, `write` and `all` by percentile and maximum.

        The columns are `operation`, `requests`, `p50_ns`, `p90_ns`, `p99_ns`, `p999_ns`,
        `p9999_ns` and `max_ns`.
        """
        import polars

        rows = [{"operation": name, **one} for name, one in self.answer["service_times"].items()]
        return polars.DataFrame(rows)

    @property
    def wear(self) -> dict[str, float]:
        """What the metrics say of erases by block and of life."""
        words = ("erase_count", "wear", "lifetime")
        return {
            str(row["metric"]): row["value"]
            for row in self.answer["metrics"]
            if any(word in row["metric"] for word in words)
        }

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks of the engine."""
        return tuple(self.answer.get("notes", ()))

    def _repr_html_(self) -> str:
        return str(self.metrics._repr_html_())


def replay(
    trace: str | Path,
    *,
    ftl: str,
    part: str | Path | None = None,
    settings: Mapping[str, Any] | None = None,
    **options: Any,
) -> Replay:
    """Replay a block trace on a translation layer and a chip, and count what the chip did.

    `settings` are those of the layer (see `ftls`). Other `options` are those of `nandlab replay`,
    with underscores: `blocks`, `logical_bytes`, `address`, `passes`, `fill`, `format`,
    `time_unit`, `event`, `device`, `skip_bad_lines`.

    Raises `NandlabError` for bad input.
    """
    from nandlab import engine

    given = {key: setting_text(value) for key, value in (settings or {}).items()}
    asked = {"ftl": ftl, "part": None if part is None else str(part), "settings": given}
    return Replay(engine.replay(str(trace), {**asked, **options}))


@dataclass(frozen=True)
class Comparison:
    """Candidates side by side on one workload."""

    run: Run
    """All rows."""
    table: "polars.DataFrame"
    """One row a criterion, one column a candidate; `*` marks the best of a row."""
    headline: str
    """The answer in a sentence."""
    sentences: tuple[str, ...]
    """A sentence for each candidate."""
    cuts: "tuple[Cuts, ...]" = ()
    """What the sample of power cuts left, with `crash=True`."""

    def _repr_html_(self) -> str:
        from html import escape

        return f"<p><strong>{escape(self.headline)}</strong></p>{self.table._repr_html_()}"


def compare(
    *,
    workload: str | Path,
    fs: Iterable[str] | str | None = None,
    ftl: Iterable[str] | str | None = None,
    scheduler: Iterable[str] | str | None = None,
    part: str | Path = "k9f2g08u0c",
    blocks: int | None = None,
    board: str | Path | None = None,
    kernel: str | None = None,
    crash: bool = False,
    out: str | Path | None = None,
    jobs: int | None = None,
) -> Comparison:
    """Run a workload file on file systems or translation layers, and put them side by side.

    `fs`, `ftl` and `scheduler` are names, in a list or with commas between them. `crash` also cuts
    the power of a script at a sample of its operations. The other parameters are those of
    `nandlab compare`.

    Raises `NandlabError` for bad input, and `Interrupted` after Ctrl-C.
    """
    import polars

    from nandlab.comparison.answer import CANDIDATES
    from nandlab.comparison.candidates_run import Asked
    from nandlab.comparison.candidates_run import run as run_candidates
    from nandlab.terminal.progress import progress_bar

    asked = Asked(
        file_systems=_names(fs),
        layers=_names(ftl),
        schedulers=_names(scheduler),
        workload=Path(workload),
        part=str(part),
        blocks=blocks,
        board=None if board is None else str(board),
        kernel=kernel,
        crash=crash,
        out=None if out is None else Path(out),
        jobs=jobs,
    )
    with progress_bar("compare") as progress:
        finished = run_candidates(asked, progress)
    rows = Run(finished.run, finished.folder, asked.command)
    if rows.is_interrupted:
        raise Interrupted("compare: interrupted; `.result` holds the finished rows", rows)
    (shown,) = finished.shown.tables
    columns = ["criterion", *shown.columns[1:]]
    table = polars.DataFrame(shown.rows, schema=columns, orient="row")
    sentences = dict(finished.shown.remarks)[CANDIDATES]
    return Comparison(rows, table, finished.shown.headline, sentences, finished.cuts)


@dataclass(frozen=True)
class Script:
    """What a script of system calls cost."""

    answer: Mapping[str, Any]
    """The engine's answer, as `nandlab script --json` prints it."""

    @property
    def phases(self) -> "polars.DataFrame":
        """Operations of the chip and simulated time (ns) of each phase."""
        import polars

        return polars.DataFrame(self.answer["phases"], infer_schema_length=None)

    @property
    def failures(self) -> tuple[str, ...]:
        """System calls that failed, with `keep_going=True`."""
        return tuple(self.answer["failures"])

    @property
    def findings(self) -> tuple[str, ...]:
        """What the file system found damaged."""
        return tuple(self.answer["findings"])

    def _repr_html_(self) -> str:
        return str(self.phases._repr_html_())


def script(
    file: str | Path,
    *,
    fs: str | None = None,
    part: str | Path | None = None,
    seed: int = 1,
    **options: Any,
) -> Script:
    """Carry out a script of system calls on a file system over raw NAND.

    `file` is a script, or its text if it holds a line break. Other `options` are those of
    `nandlab script`, with underscores: `blocks`, `profile`, `block_device`, `board`, `image`,
    `dump`, `dirty_writeback_centisecs`, `vid_hdr_offset`, `keep_going`.

    Raises `NandlabError` for bad input, and `Interrupted` after Ctrl-C.
    """
    from nandlab import engine
    from nandlab.terminal.progress import progress_bar

    shown, text = _script_text(file)
    known = {"blocks", "profile", "block_device", "board", "image", "dump", "vid_hdr_offset"}
    defaults: dict[str, Any] = dict.fromkeys(known)
    defaults |= {"dirty_writeback_centisecs": 500, "keep_going": False}
    _refuse_unknown("script", options, defaults)
    asked = {"fs": fs, "part": _text(part), "seed": seed, "workload": Path(shown).stem}
    hidden = {"sequence": None, "dump_directory": None}
    paths = {
        key: _text(value) if isinstance(value, Path) else value for key, value in options.items()
    }
    with progress_bar(shown) as progress:
        answer = engine.run_script(shown, text, {**asked, **hidden, **defaults, **paths}, progress)
    found = Script(answer)
    if answer.get("interrupted"):
        raise Interrupted(f"{shown}: interrupted after line {answer['line']}", found)
    return found


@dataclass(frozen=True)
class Crash:
    """What power cuts at the operations of a script left."""

    answer: Mapping[str, Any]
    """The engine's answer, as `nandlab crash --json` prints it."""

    @property
    def violations(self) -> "polars.DataFrame":
        """Every broken guarantee: cut point, kind, path, what was expected and what was found."""
        import polars

        rows = [
            {"torn": torn["torn"], **violation}
            for torn in self.answer["torn"]
            for violation in torn["violations"]
        ]
        return polars.DataFrame(rows, infer_schema_length=None)

    @property
    def cuts(self) -> int:
        """Cuts that were made."""
        return sum(int(torn["cuts"]) for torn in self.answer["torn"])

    @property
    def is_safe(self) -> bool:
        """True if no guarantee was broken."""
        return not any(torn["violations"] for torn in self.answer["torn"])

    def _repr_html_(self) -> str:
        if self.is_safe:
            return f"<p><strong>{self.cuts:,} cuts, no violation</strong></p>"
        return str(self.violations._repr_html_())


def crash(
    file: str | Path,
    *,
    fs: str,
    part: str | Path = "k9f2g08u0c",
    blocks: int = 64,
    every: int = 1,
    torn: Iterable[str] = (),
    seed: int = 1,
    jobs: int | None = None,
    **options: Any,
) -> Crash:
    """Cut the power of a script at every `every`th operation of the chip, and judge what is left.

    `file` is a script, or its text if it holds a line break. `torn` names what a torn operation
    leaves: `nothing`, `prefix`, `data-only`; all by default. Other `options`: `pages_per_block`,
    `profile`, `only`.

    Raises `NandlabError` for bad input, and `Interrupted` after Ctrl-C.
    """
    from nandlab import engine
    from nandlab.terminal.progress import progress_bar

    shown, text = _script_text(file)
    defaults: dict[str, Any] = {"pages_per_block": None, "profile": None, "only": None}
    _refuse_unknown("crash", options, defaults)
    asked = {"fs": fs, "part": str(part), "blocks": blocks, "every": every, "torn": list(torn)}
    asked |= {"seed": seed, "workers": jobs, **defaults, **options}
    with progress_bar(shown) as progress:
        answer = engine.cut_script(shown, text, asked, progress)
    found = Crash(answer)
    if answer["interrupted"]:
        raise Interrupted(f"{shown}: interrupted; some cuts were not made", found)
    return found


def _names(given: Iterable[str] | str | None) -> str | None:
    return given if given is None or isinstance(given, str) else ",".join(given)


def _text(path: str | Path | None) -> str | None:
    return None if path is None else str(path)


def _script_text(file: str | Path) -> tuple[str, str]:
    """The name of a script in messages, and its text."""
    from nandlab.cli.script import read_script

    if isinstance(file, str) and "\n" in file:
        return "script", file
    return read_script(str(file))


def _refuse_unknown(call: str, given: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    from nandlab.errors import NandlabError
    from nandlab.suggest import unknown

    for name in given:
        if name not in known:
            raise NandlabError(f"{call}: {unknown('option', name, known)}")
