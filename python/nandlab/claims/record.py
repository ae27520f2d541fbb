"""Records the verdicts of a whole run beside the study.

`python -m nandlab.claims.record STUDY RUN_FOLDER` writes `recorded.json` into the study's folder.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nandlab.claims.evaluate import counted, evaluate
from nandlab.claims.schema import load_claims
from nandlab.errors import NandlabError
from nandlab.frame import read
from nandlab.frame.reference import read_reference
from nandlab.frame.run_directory import REFERENCE_CSV
from nandlab.json_text import json_text
from nandlab.study_files import find_study

if TYPE_CHECKING:
    import polars

RECORDED = "recorded.json"

DIGITS = 6
"""Significant digits of recorded values: more than any reader needs, fewer than platforms share."""


def record(study: str, run_folder: Path) -> Path:
    """Writes the verdicts of a whole run of `study`; returns the file.

    Raises `NandlabError` for a quick or interrupted run, or one of another study.
    """
    folder = Path(find_study(study)).parent
    run = read(run_folder)
    if run.is_quick or run.interrupted:
        raise NandlabError(f"{run_folder}: not a whole run; only whole runs are recorded")
    if run.name != folder.name:
        raise NandlabError(f"{run_folder}: a run of {run.name}, not of {folder.name}")
    # The claims are those of the study's folder, so their published cells are, too.
    if (folder / REFERENCE_CSV).is_file():
        run = replace(run, reference=read_reference(folder / REFERENCE_CSV))
    plain = recorded(run.results_digest, evaluate(run, load_claims(folder)))
    target = folder / RECORDED
    target.write_text(f"{json_text(plain)}\n", encoding="utf-8")
    return target


def recorded(digest: str, frame: "polars.DataFrame") -> dict[str, Any]:
    """What is recorded of a run: its digest, and each claim under its first reading."""
    claims = {
        row["id"]: {
            "estimate": _rounded(row["estimate"]),
            "low": _rounded(row["low"]),
            "high": _rounded(row["high"]),
            "n": row["n"],
            "status": row["status"],
        }
        for row in counted(frame).to_dicts()
    }
    return {"results_digest": digest, "claims": claims}


def load_record(folder: Path) -> dict[str, Any] | None:
    """The recorded verdicts of a study's folder; None if there are none."""
    path = folder / RECORDED
    if not path.is_file():
        return None
    plain = json.loads(path.read_text(encoding="utf-8"))
    return plain if isinstance(plain, dict) else None


def recorded_counts(plain: Mapping[str, Any]) -> dict[str, int]:
    """Recorded claims by status."""
    statuses = [one["status"] for one in plain["claims"].values()]
    return {status: statuses.count(status) for status in dict.fromkeys(statuses)}


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.{DIGITS}g}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line of this module."""
    parser = argparse.ArgumentParser(prog="nandlab.claims.record", description=__doc__)
    parser.add_argument("study", help="name or folder of the study")
    parser.add_argument("run_folder", type=Path, help="folder of a whole run")
    given = parser.parse_args(arguments)
    try:
        print(record(given.study, given.run_folder))
    except NandlabError as error:
        print(f"nandlab: error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
