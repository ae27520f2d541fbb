"""Writes and reads the folder of one run. It appears whole or not at all."""

import csv
import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nandlab import __version__
from nandlab.errors import NandlabError
from nandlab.interruption import held
from nandlab.json_text import json_text
from nandlab.outputs import check_folder, check_name, scratch_folder
from nandlab.results.reference import read_reference
from nandlab.results.study_result import StudyResult, Table

MANIFEST = "manifest.json"
RESULTS_CSV = "results.csv"
RESULTS_PARQUET = "results.parquet"
CURVES_CSV = "curves.csv"
REFERENCE_CSV = "reference.csv"
STUDY_COPY = "study"
"""Folder for copies of the study's claims, tables and discussion."""
STUDY_FILES = ("claims.toml", "report.toml", "discussion.md")
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


def write_results(
    folder: Path, result: StudyResult, command: str, *, keeps_inputs: bool = True
) -> None:
    """Writes rows, curves, reference and manifest into `folder`, and copies of the user's files."""
    from nandlab.frame.run_frame import typed_columns

    if result.results_csv is not None:
        (folder / RESULTS_CSV).write_text(result.results_csv, encoding="utf-8")
    else:
        _write_csv(folder / RESULTS_CSV, result.rows)
    typed_columns(result.rows, result.axes).write_parquet(folder / RESULTS_PARQUET)
    _write_csv(folder / CURVES_CSV, result.curves)
    for name, text in result.tables.items():
        (folder / f"{name}.csv").write_text(text, encoding="utf-8")
    if result.reference is not None:
        _write_csv(folder / REFERENCE_CSV, result.reference)
    _keep_study(folder / STUDY_COPY, result.folder)
    manifest = {
        "nandlab_version": __version__,
        "git_commit": git_commit(),
        "command": command,
        "results_digest": result.results_digest,
        "seed": result.study.get("seed"),
        "quick": result.study.get("quick", False),
        "interrupted": result.interrupted,
        "axes": list(result.axes),
        "tables": list(result.tables),
        "study": result.study,
        "notes": list(result.notes),
        "inputs": _keep_inputs(folder, result) if keeps_inputs else [],
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


def _keep_inputs(folder: Path, result: StudyResult) -> list[dict[str, str]]:
    """Copies parts, boards, devices and scripts of the user's own: nothing else says what ran."""
    kept = []
    for one in result.inputs:
        source = Path(one["path"])
        target = folder / INPUTS / source.name
        number = 1
        while target.exists():
            number += 1
            target = target.with_name(f"{source.stem}-{number}{source.suffix}")
        target.parent.mkdir(exist_ok=True)
        try:
            target.write_bytes(source.read_bytes())
        except OSError as error:
            # The results count more: the file was there when the run began.
            kept.append(
                {"what": one["what"], "name": one["name"], "file": f"lost: {error.strerror}"}
            )
            continue
        kept.append({"what": one["what"], "name": one["name"], "file": f"{INPUTS}/{target.name}"})
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


def read_results(run: Path) -> StudyResult:
    """Reads a run back."""
    manifest = read_manifest(run)
    axes = tuple(manifest["axes"])
    reference = run / REFERENCE_CSV
    return StudyResult(
        study=manifest["study"],
        axes=axes,
        rows=_read_csv(run / RESULTS_CSV, {*axes, "metric", "unit"}),
        curves=_read_csv(run / CURVES_CSV, set(axes)),
        results_digest=manifest["results_digest"],
        notes=tuple(manifest.get("notes", ())),
        interrupted=bool(manifest.get("interrupted", False)),
        reference=read_reference(reference) if reference.is_file() else None,
        folder=run / STUDY_COPY if (run / STUDY_COPY).is_dir() else None,
        tables={name: _read_text(run / f"{name}.csv") for name in manifest.get("tables", ())},
    )


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise NandlabError(f"{path}: cannot be read: {error}; run the study again") from None


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


def _write_csv(path: Path, table: Table) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(table.columns)
        writer.writerows(table.rows)


def _read_csv(path: Path, words: set[str]) -> Table:
    try:
        with path.open(newline="", encoding="utf-8") as file:
            lines = csv.reader(file)
            columns = next(lines, [])
            is_word = [name in words for name in columns]
            rows = [
                [cell if word else _number(cell) for cell, word in zip(line, is_word, strict=True)]
                for line in lines
            ]
    except (OSError, ValueError) as error:
        raise NandlabError(f"{path}: cannot be read: {error}; run the study again") from None
    return Table.of(columns, rows)


def _number(cell: str) -> float | None:
    return float(cell) if cell else None
