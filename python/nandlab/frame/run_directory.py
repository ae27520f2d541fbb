"""Writes and reads the folder of one run. It appears whole or not at all."""

import json
import os
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nandlab import __version__
from nandlab.errors import NandlabError
from nandlab.frame.reference import read_reference
from nandlab.frame.row_parts import read_rows, write_rows
from nandlab.frame.run_frame import MEANINGLESS, RunFrame
from nandlab.interruption import held
from nandlab.json_text import json_text
from nandlab.outputs import check_folder, check_name, scratch_folder

if TYPE_CHECKING:
    import polars

MANIFEST = "manifest.json"
RESULTS_PARQUET = "results.parquet"
CURVES_CSV = "curves.csv"
REFERENCE_CSV = "reference.csv"
STUDY_COPY = "study"
"""Folder for copies of the study's claims, tables and discussion."""
STUDY_FILES = ("claims.toml", "report.toml", "discussion.md")
_FIRST_ROWS = 100
"""Rows that mostly tell the types of a table; all of them take eight times as long to read."""

INPUTS = "inputs"
"""Folder for copies of the user's own parts, boards, devices and scripts."""


def check_target(out: Path) -> None:
    """Refuses a place that holds something other than an earlier run, or takes no results."""
    _check_holds_run(out)
    check_name(out)
    check_folder(out.parent)


def _check_holds_run(out: Path) -> None:
    if out.is_dir():
        if any(out.iterdir()) and not (out / MANIFEST).is_file():
            raise NandlabError(
                f"{out}: this folder is not empty and not a run of nandlab; name another with --out"
            )
    elif out.exists():
        raise NandlabError(f"{out}: this is a file; name a folder with --out")


@contextmanager
def whole_folder(out: Path) -> Iterator[Path]:
    """A scratch folder that takes the place of `out` when the block ends without an error."""
    _check_holds_run(out)
    with scratch_folder(out.parent, out.name) as scratch:
        whole = scratch / "whole"
        whole.mkdir(mode=0o755)
        yield whole
        with held():
            if out.exists():
                out.rename(scratch / "previous")
            whole.rename(out)


def write_results(folder: Path, run: RunFrame, command: str, *, keeps_inputs: bool = True) -> None:
    """Writes rows, curves, reference and manifest into `folder`, and copies of the user's files."""
    for name, text in run.texts.items():
        (folder / f"{name}.csv").write_text(text, encoding="utf-8")
    write_rows(run.frame, folder / RESULTS_PARQUET)
    run.curves.write_csv(folder / CURVES_CSV)
    if run.reference is not None:
        (folder / REFERENCE_CSV).write_text(run.reference.text, encoding="utf-8")
    _keep_study(folder / STUDY_COPY, run.folder)
    manifest = {
        "nandlab_version": __version__,
        "git_commit": git_commit(),
        "command": command,
        "results_digest": run.results_digest,
        "seed": run.study.get("seed"),
        "quick": run.is_quick,
        "interrupted": run.interrupted,
        "axes": list(run.axes),
        "tables": list(run.tables),
        "study": run.study,
        "notes": list(run.notes),
        "inputs": _keep_inputs(folder, run.inputs) if keeps_inputs else [],
        **({"comparison": run.beside} if run.beside else {}),
    }
    (folder / MANIFEST).write_text(f"{json_text(manifest)}\n", encoding="utf-8")


def _keep_study(folder: Path, study: Path | None) -> None:
    """Copies what a report needs beside the rows, so that a run can be read anywhere."""
    if study is None or not (study / STUDY_FILES[0]).is_file():
        return
    folder.mkdir(exist_ok=True)
    for name in STUDY_FILES:
        if (study / name).is_file():
            (folder / name).write_bytes((study / name).read_bytes())


def _keep_inputs(folder: Path, inputs: Iterable[Mapping[str, str]]) -> list[dict[str, str]]:
    """Copies parts, boards, devices and scripts of the user's own: nothing else says what ran."""
    kept = []
    first: dict[str, Path] = {}
    for one in inputs:
        source = Path(one["path"])
        own = first.setdefault(one["name"], source)
        # A policy has several files: the modules that it imports keep their places beside it.
        target = folder / INPUTS / os.path.relpath(source, own.parent)
        number = 1
        while target.exists():
            number += 1
            target = target.with_name(f"{source.stem}-{number}{source.suffix}")
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            target.write_bytes(source.read_bytes())
            place = target.relative_to(folder).as_posix()
        except OSError as error:
            # The results count more: the file was there when the run began.
            place = f"lost: {error.strerror}"
        kept.append({"what": one["what"], "name": one["name"], "file": place})
    return kept


def read_manifest(run: Path) -> dict[str, Any]:
    """The manifest of a run."""
    path = run / MANIFEST
    if not run.is_dir():
        raise NandlabError(f"{run}: no such folder; name the folder of a run")
    if not path.is_file():
        raise NandlabError(f"{run}: this is not a run of nandlab: it holds no {MANIFEST}")
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise NandlabError(f"{path}: damaged: {error}; run the study again") from None
    if not isinstance(manifest, dict):
        raise NandlabError(f"{path}: this is not the manifest of a run of nandlab")
    missing = {"results_digest", "study", "axes"} - set(manifest)
    if missing:
        if manifest.get("kind") == "replay":
            raise NandlabError(f"{run}: this is a replay, not a run of a study")
        raise NandlabError(f"{path}: lacks {', '.join(sorted(missing))}; run the study again")
    return manifest


def read(run: Path) -> RunFrame:
    """Reads a run back from its folder.

    Raises `NandlabError` if the folder holds no run, or one that is damaged.
    """
    import polars

    manifest = read_manifest(run)
    axes = tuple(manifest["axes"])
    reference = run / REFERENCE_CSV
    try:
        rows = read_rows(run / RESULTS_PARQUET)
        schema = rows.lazy().collect_schema()
        types = {axis: schema[axis] for axis in axes}
        names = (CURVES_CSV, *(f"{name}.csv" for name in manifest.get("tables", ())))
        curves, *tables = (_read_csv(run / name, types) for name in names)
    except (OSError, ValueError, KeyError, polars.exceptions.PolarsError) as error:
        raise NandlabError(f"{run}: cannot be read: {error}; run the study again") from None
    return RunFrame(
        study=manifest["study"],
        axes=axes,
        rows=rows,
        curves=curves,
        results_digest=manifest["results_digest"],
        notes=tuple(manifest.get("notes", ())),
        interrupted=bool(manifest.get("interrupted", False)),
        reference=read_reference(reference) if reference.is_file() else None,
        folder=run / STUDY_COPY if (run / STUDY_COPY).is_dir() else None,
        tables=dict(zip(manifest.get("tables", ()), tables, strict=True)),
        beside=manifest.get("comparison") or {},
    )


def _read_csv(path: Path, types: Mapping[str, Any]) -> "polars.DataFrame":
    """A table whose axes have the types that they have in the rows."""
    import polars

    words = dict.fromkeys(types, polars.String)
    try:
        table = polars.read_csv(path, schema_overrides=words, infer_schema_length=_FIRST_ROWS)
        is_read = all(name in types or kind.is_numeric() for name, kind in table.schema.items())
    except polars.exceptions.ComputeError:
        is_read = False
    # A number with a fraction, or one after rows without any, changes the type of its column.
    if not is_read:
        table = polars.read_csv(path, schema_overrides=words, infer_schema_length=None)
    numbers = (axis for axis in table.columns if types.get(axis, polars.String) != polars.String)
    casts = (polars.col(one).replace(MEANINGLESS, None).cast(types[one]) for one in numbers)
    return table.with_columns(list(casts))


def git_commit() -> str | None:
    """Commit of the source tree nandlab runs from; None for an installed package."""
    tree = Path(__file__).resolve().parents[3]
    if not (tree / ".git").exists():
        return None
    try:
        done = subprocess.run(
            ["git", "-C", str(tree), "rev-parse", "HEAD"],
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
    except OSError:
        return None
    return done.stdout.strip() or None
