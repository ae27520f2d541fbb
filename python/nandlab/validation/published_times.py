"""The part of docs/validation.md on published times: errors and orders of scheduler-filesystem.

A run of the whole study takes minutes, so its figures are on record in `published_times.json`.
`python -m nandlab.validation.published_times RUN` takes over those of a run, whole or quick;
then `nandlab validate` writes the page anew. A test runs the quick form and compares.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nandlab.errors import NandlabError
from nandlab.report.page import VERDICT
from nandlab.results.run_directory import read_manifest
from nandlab.verdicts.scheduler_filesystem_view import FILE_SYSTEMS
from nandlab.verdicts.wording import percent
from nandlab.whole_files import whole_files

STUDY = "scheduler-filesystem"
RECORD = Path(__file__).with_name("published_times.json")
FORMS = {"whole": "the whole study", "quick": "the quick form (1 and 4 MiB, two repeats)"}

_HEAD = """\
## Published times

The study `scheduler-filesystem` against the published times of IOzone on an S5PV210 board. Errors
are mean absolute ones, as a part of the published time: of the means that each scheduler has over
the sizes of the file, and of single cells. tau is Kendall's tau-b between the simulated and the
published order of the four schedulers, p its exact two-sided p-value. The board was calibrated on
YAFFS2 under NOOP, so YAFFS2's errors are no result; all else is predicted. *tied*: all four
schedulers take the same time, so no order can agree. With four schedulers p cannot fall below
0.08, whatever the order.
"""


def section() -> str:
    """The part of the page, from the figures on record."""
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    parts = [_HEAD]
    for form, words in FORMS.items():
        if form in record:
            parts += [f"From {words}, digest `{record[form]['digest'][:16]}`:\n"]
            parts.append(_table(record[form]["agreement"]))
    return "\n".join(parts)


def figures(run: Path) -> dict[str, Any]:
    """What is kept of a run: its digest and its agreement, rounded to what is shown and more."""
    manifest = read_manifest(run)
    if manifest["study"].get("name") != STUDY or manifest.get("interrupted"):
        raise NandlabError(f"{run}: this is not a finished run of {STUDY}")
    verdict = json.loads((run / VERDICT).read_text(encoding="utf-8"))
    return {
        "digest": manifest["results_digest"],
        "agreement": [
            {name: round(one, 6) if isinstance(one, float) else one for name, one in row.items()}
            for row in verdict["agreement"]
        ],
    }


def main(runs: Sequence[str]) -> int:
    """Takes over the figures of runs."""
    try:
        record = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.is_file() else {}
        for run in map(Path, runs):
            form = "quick" if read_manifest(run).get("quick") else "whole"
            record[form] = figures(run)
    except NandlabError as error:
        print(f"nandlab: error: {error}", file=sys.stderr)
        return 2
    with whole_files() as files:
        scratch = files.file(RECORD)
        assert scratch is not None
        scratch.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return 0


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    lines = [
        "| file system | test | error of means | error of cells | tau | p |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for row in rows:
        tau = "tied" if row["tau"] is None else f"{row['tau']:.2f}"
        cells = [FILE_SYSTEMS[row["file_system"]], row["test"], percent(row["error_of_means"])]
        cells += [percent(row["error_of_cells"]), tau, f"{row['p_value']:.2f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
