"""The shipped study, run whole: which published statement holds is pinned in a snapshot.

A change of model code that turns a verdict shows up here. If the change is right, write the
snapshot anew with `python python/tests/test_study_verdict.py` and say so in the changelog under
"Results change".
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from nandlab.cli import main

SNAPSHOT = Path(__file__).parent / "snapshots" / "ftl-windows-verdict.json"


def run(out: Path, *options: str) -> dict[str, Any]:
    assert main(["run", "ftl-windows", "--out", str(out), *options]) == 0
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


def test_the_verdict_is_the_one_on_record(tmp_path: Path) -> None:
    record = json.loads(SNAPSHOT.read_text(encoding="utf-8"))
    assert run(tmp_path / "run", "--jobs", "2") | verdict(tmp_path / "run") == record


def test_the_digest_does_not_depend_on_the_number_of_workers(tmp_path: Path) -> None:
    one = run(tmp_path / "one", "--quick", "--jobs", "1")
    two = run(tmp_path / "two", "--quick", "--jobs", "2")
    assert one == two
    assert run(tmp_path / "again", "--quick", "--jobs", "2") == two


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        recorded = run(Path(folder) / "run") | verdict(Path(folder) / "run")
    SNAPSHOT.write_text(json.dumps(recorded, indent=2) + "\n", encoding="utf-8")
    sys.exit(0)
