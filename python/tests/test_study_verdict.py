"""The shipped studies: which published statement holds is pinned in a snapshot.

A change of model code that turns a verdict shows up here. If the change is right, write the
snapshots anew with `python python/tests/test_study_verdict.py` and say so in the changelog under
"Results change". All are pinned in their quick forms; `make test-long` sets NANDLAB_WHOLE_STUDIES
and pins the whole of those that take a few minutes, too.
"""

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from long_tests import first_or_all
from quick_runs import quick_run

from nandlab.cli import main
from nandlab.validation import published_times

SNAPSHOTS = Path(__file__).parent / "snapshots"
STUDIES = (
    "android",
    "ftl-windows",
    "ftl-windows-lazy",
    "row-emmc",
    "scheduler-filesystem",
    "sfq-emmc",
)
WHOLE = ("ftl-windows", "ftl-windows-lazy")


def run(study: str, out: Path, *options: str) -> dict[str, Any]:
    assert main(["run", study, "--out", str(out), *options]) == 0
    return digest(out)


def digest(out: Path) -> dict[str, Any]:
    manifest = json.loads((out / "manifest.json").read_text(encoding="utf-8"))
    return {"digest": manifest["results_digest"]}


def verdict(out: Path) -> dict[str, Any]:
    found = json.loads((out / "verdict.json").read_text(encoding="utf-8"))
    if isinstance(found["claims"], list) and "id" in found["claims"][0]:
        statuses: dict[str, dict[str, str]] = {}
        for claim in found["claims"]:
            statuses.setdefault(claim["id"], {})[claim["reading"]] = claim["status"]
        return {"headline": found["headline"], "claims": statuses}
    return {
        "headline": found["headline"],
        "claims": {
            claim["identifier"]: {
                evaluation["variant"]: evaluation["holds"] for evaluation in claim["evaluations"]
            }
            for claim in found["claims"]
        },
    }


def snapshot(name: str) -> Path:
    return SNAPSHOTS / f"{name}-verdict.json"


@pytest.mark.parametrize("study", STUDIES)
def test_the_verdict_is_the_one_on_record(
    study: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The run is one of a single worker."""
    record = json.loads(snapshot(study).read_text(encoding="utf-8"))
    out = quick_run(study, tmp_path_factory).folder
    assert digest(out) | verdict(out) == record
    if study == published_times.STUDY:
        shown = json.loads(published_times.RECORD.read_text(encoding="utf-8"))
        assert published_times.figures(out) == shown["quick"], (
            "docs/validation.md tells of other times: see nandlab/validation/published_times.py"
        )


@pytest.mark.parametrize("study", first_or_all(STUDIES, ("android", "sfq-emmc")))
def test_the_digest_does_not_depend_on_the_number_of_workers(study: str, tmp_path: Path) -> None:
    """The digest on record is one worker's; three must reach it."""
    record = json.loads(snapshot(study).read_text(encoding="utf-8"))
    assert run(study, tmp_path / "run", "--quick", "--jobs", "3")["digest"] == record["digest"]


@pytest.mark.skipif("NANDLAB_WHOLE_STUDIES" not in os.environ, reason="a part of make test-long")
@pytest.mark.parametrize("study", WHOLE)
def test_the_whole_verdict_is_the_one_on_record(study: str, tmp_path: Path) -> None:
    record = json.loads(snapshot(f"{study}-whole").read_text(encoding="utf-8"))
    assert run(study, tmp_path / "run") | verdict(tmp_path / "run") == record


if __name__ == "__main__":
    forms = {name: (name, "--quick") for name in STUDIES} | {
        f"{name}-whole": (name,) for name in WHOLE
    }
    for title, form in forms.items():
        with tempfile.TemporaryDirectory() as folder:
            recorded = run(form[0], Path(folder) / "run", *form[1:])
            recorded |= verdict(Path(folder) / "run")
        snapshot(title).write_text(json.dumps(recorded, indent=2) + "\n", encoding="utf-8")
    sys.exit(0)
