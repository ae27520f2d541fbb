"""The shipped studies: which published statement holds is pinned in a snapshot.

A change of model code that turns a verdict shows up here. If the change is right, write the
snapshots anew with `python python/tests/test_study_verdict.py` and say so in the changelog under
"Results change". All but `ftl-windows` are pinned in their quick forms; the whole of them takes
minutes.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from nandlab.cli import main
from nandlab.validation import published_times

SNAPSHOTS = Path(__file__).parent / "snapshots"
STUDIES = {
    "android": ("--quick",),
    "ftl-windows": (),
    "scheduler-filesystem": ("--quick",),
    "sfq-emmc": ("--quick",),
}


def run(study: str, out: Path, *options: str) -> dict[str, Any]:
    assert main(["run", study, "--out", str(out), *options]) == 0
    manifest = json.loads((out / "manifest.json").read_text(encoding="utf-8"))
    return {"digest": manifest["results_digest"]}


def verdict(out: Path) -> dict[str, Any]:
    found = json.loads((out / "verdict.json").read_text(encoding="utf-8"))
    return {
        "headline": found["headline"],
        "claims": {
            claim["identifier"]: {
                evaluation["variant"]: evaluation["holds"] for evaluation in claim["evaluations"]
            }
            for claim in found["claims"]
        },
    }


def snapshot(study: str) -> Path:
    return SNAPSHOTS / f"{study}-verdict.json"


@pytest.mark.parametrize("study", STUDIES)
def test_the_verdict_is_the_one_on_record(study: str, tmp_path: Path) -> None:
    record = json.loads(snapshot(study).read_text(encoding="utf-8"))
    found = run(study, tmp_path / "run", "--jobs", "1", *STUDIES[study])
    assert found | verdict(tmp_path / "run") == record
    if study == published_times.STUDY:
        shown = json.loads(published_times.RECORD.read_text(encoding="utf-8"))
        assert published_times.figures(tmp_path / "run") == shown["quick"], (
            "docs/validation.md tells of other times: see nandlab/validation/published_times.py"
        )


@pytest.mark.parametrize("study", STUDIES)
def test_the_digest_does_not_depend_on_the_number_of_workers(study: str, tmp_path: Path) -> None:
    """The digest on record is one worker's; three must reach it."""
    found = run(study, tmp_path / "run", "--quick", "--jobs", "3")
    if STUDIES[study] == ("--quick",):
        record = json.loads(snapshot(study).read_text(encoding="utf-8"))
        assert found["digest"] == record["digest"]
    else:
        assert found == run(study, tmp_path / "one", "--quick", "--jobs", "1")


if __name__ == "__main__":
    for name, options in STUDIES.items():
        with tempfile.TemporaryDirectory() as folder:
            recorded = run(name, Path(folder) / "run", *options) | verdict(Path(folder) / "run")
        snapshot(name).write_text(json.dumps(recorded, indent=2) + "\n", encoding="utf-8")
    sys.exit(0)
