"""The page over all runs: publications, their recorded verdicts, and the estimates of runs."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nandlab import __version__
from nandlab.claims import load_claims
from nandlab.claims.record import load_record, recorded_counts
from nandlab.claims.schema import has_claims
from nandlab.claims.statistics import Status
from nandlab.errors import NandlabError
from nandlab.frame import RunFrame, read
from nandlab.frame.run_directory import MANIFEST
from nandlab.present.page import REPORT, environment, present
from nandlab.present.spec import load_report
from nandlab.present.tables import ShownTable
from nandlab.present.units import estimate_text, interval_text
from nandlab.study_files import shipped_studies
from nandlab.whole_files import whole_files

INDEX = "index.html"
COUNTED = (Status.SUPPORTED, Status.CONTRADICTED, Status.UNDECIDED)


@dataclass(frozen=True)
class WrittenIndex:
    """The page, the runs on it, and why other folders with a manifest are not on it."""

    path: Path
    runs: int
    left_out: tuple[str, ...]


@dataclass(frozen=True)
class Entry:
    """A study on the page; `folder` is that of its run, None if there is none."""

    name: str
    title: str
    question: str
    publication: Mapping[str, Any]
    recorded: Mapping[str, int] | None
    headline: str = ""
    is_quick: bool = False
    folder: str | None = None
    has_report: bool = False
    claims: ShownTable | None = None


def write_index(out: Path) -> WrittenIndex:
    """Writes `out`/index.html over the runs in its folders."""
    if not out.is_dir():
        raise NandlabError(f"{out}: no such folder; name the folder that holds the runs")
    runs, left_out = _runs(out)
    shipped = shipped_studies()
    entries = [_entry(folder, run, out) for folder, run in runs]
    # A folder of the user's own studies alone gets no list of what was not run.
    if any(entry.name in shipped for entry in entries):
        found = {entry.name for entry in entries}
        entries += [_not_run(path) for name, path in shipped.items() if name not in found]
    entries.sort(key=lambda entry: (not entry.publication, entry.name, entry.folder or ""))
    page = (
        environment()
        .get_template("front.html.j2")
        .render(entries=entries, counted=[one.value for one in COUNTED], version=__version__)
    )
    target = out / INDEX
    with whole_files() as files:
        scratch = files.file(target)
        assert scratch is not None
        scratch.write_text(page, encoding="utf-8")
    return WrittenIndex(target, len(runs), left_out)


def _entry(folder: str, run: RunFrame, out: Path) -> Entry:
    shown = present(run)
    record = _record(run.name) if shown.definitions.claims else None
    return Entry(
        name=run.name,
        title=str(run.study.get("title") or run.name),
        question=str(run.study.get("question") or ""),
        publication=shown.report.publication,
        recorded=recorded_counts(record) if record else None,
        headline=shown.headline,
        is_quick=run.is_quick,
        folder=folder,
        has_report=(out / folder / REPORT).is_file(),
        claims=_claims(shown.claims.to_dicts(), record),
    )


def _claims(rows: list[dict[str, Any]], record: Mapping[str, Any] | None) -> ShownTable:
    """Recorded verdicts of the whole run, and the estimates of this run beside them."""
    by_id = {row["id"]: row for row in reversed(rows)}
    shown = []
    for name, row in reversed(by_id.items()):
        found = (record or {"claims": {}})["claims"].get(name, {})
        shown.append(
            (
                row["text"],
                row["published"] or "-",
                estimate_text(found.get("estimate"), row["unit"]),
                interval_text(found.get("low"), found.get("high"), row["unit"]),
                found.get("status", "not recorded"),
                estimate_text(row["estimate"], row["unit"]),
            )
        )
    columns = ("claim", "published", "whole run", "interval", "status", "this run")
    return ShownTable("recorded", "Recorded verdicts", columns, tuple(shown), len(columns))


def _record(name: str) -> dict[str, Any] | None:
    path = shipped_studies().get(name)
    return load_record(path.parent) if path is not None else None


def _not_run(path: Path) -> Entry:
    plain = tomllib.loads(path.read_text(encoding="utf-8"))
    folder = path.parent
    title, question = plain.get("title", plain["name"]), plain.get("question", "")
    if not has_claims(folder):
        return Entry(plain["name"], title, question, {}, None)
    publication = load_report(folder, load_claims(folder)).publication
    record = load_record(folder)
    recorded = recorded_counts(record) if record else None
    return Entry(plain["name"], title, question, publication, recorded)


def _runs(out: Path) -> tuple[list[tuple[str, RunFrame]], tuple[str, ...]]:
    """The runs, and the reasons of the folders that hold a manifest but no run that can be read."""
    found, left_out = [], []
    for path in sorted(out.iterdir()):
        if path.name.startswith(".") or not (path / MANIFEST).is_file():
            continue
        try:
            found.append((path.name, read(path)))
        except NandlabError as error:
            # A replay, or a folder of another program, keeps no other run from the page.
            left_out.append(str(error))
    return found, tuple(left_out)
