"""The claims of every shipped study: pinned in a snapshot, and recorded verdicts that fit them.

Write the snapshot anew with `python python/tests/test_claims.py` and say so in the changelog.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nandlab.claims import has_claims, load_claims
from nandlab.claims.record import load_record
from nandlab.errors import NandlabError
from nandlab.present import load_report
from nandlab.study_files import shipped_studies

ROOT = Path(__file__).resolve().parents[2]
SNAPSHOT = Path(__file__).parent / "snapshots" / "claims.json"
FOLDERS = {name: path.parent for name, path in shipped_studies().items() if has_claims(path.parent)}


def pinned() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, folder in FOLDERS.items():
        record = load_record(folder) or {"claims": {}}
        found[name] = {
            one.identifier: {
                "text": one.text,
                "where": one.where,
                "predicate": one.predicate,
                "status": record["claims"].get(one.identifier, {}).get("status"),
            }
            for one in load_claims(folder).claims
        }
    return found


def test_claims_are_those_of_the_snapshot() -> None:
    assert pinned() == json.loads(SNAPSHOT.read_text(encoding="utf-8"))


@pytest.mark.parametrize("study", FOLDERS)
def test_a_record_holds_every_claim(study: str) -> None:
    claims = load_claims(FOLDERS[study])
    record = load_record(FOLDERS[study])
    if record is not None:
        assert list(record["claims"]) == [one.identifier for one in claims.claims]
    assert load_report(FOLDERS[study], claims).publication["title"]


@pytest.mark.parametrize(
    ("changed", "by", "message"),
    [
        ('predicate = "order"', 'predicate = "ordr"', "did you mean order?"),
        ('where = "w"', 'whre = "w"', "did you mean where?"),
        ("values = [1, 2]\n", "", "lacks the key 'values'"),
        ('how = "mean"', 'how = "men"', "did you mean mean?"),
        ('metric = "m"', 'metric = "m("', "no metric and no expression"),
        ('metric = "m"', 'metric = "f(m)"', "only names, numbers"),
        ('text = "t"', 'text = "t"\ntolerance = 0.1', "without tolerance_why"),
        ("[[claim]]", "[[claim]]\nid = ", ""),
    ],
)
def test_bad_claims_are_refused_with_their_place(
    changed: str, by: str, message: str, tmp_path: Path
) -> None:
    text = (
        '[[claim]]\nid = "one"\ntext = "t"\nwhere = "w"\npredicate = "order"\nmetric = "m"\n'
        'pool = { over = ["y"], how = "mean" }\naxis = "x"\nvalues = [1, 2]\n'
    )
    path = tmp_path / "claims.toml"
    path.write_text(text, encoding="utf-8")
    assert load_claims(tmp_path).main == "one"
    path.write_text(text.replace(changed, by), encoding="utf-8")
    with pytest.raises(NandlabError) as caught:
        load_claims(tmp_path)
    assert str(path) in str(caught.value)
    assert message in str(caught.value)


def test_the_page_of_findings_is_up_to_date() -> None:
    done = subprocess.run([sys.executable, "scripts/findings.py", "--check"], cwd=ROOT, check=False)
    assert done.returncode == 0, "docs/findings.md is old: make docs"


if __name__ == "__main__":
    SNAPSHOT.write_text(json.dumps(pinned(), indent=2) + "\n", encoding="utf-8")
