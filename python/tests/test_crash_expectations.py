"""`nandlab crash` with `expect` lines: sentences, exit statuses, rows, one cut closely."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

import nandlab as nl
from nandlab.cli import main
from nandlab.cli.scripts import expectation_sentence
from nandlab.errors import NandlabError

pytestmark = pytest.mark.usefixtures("engine_is_built")

WORKLOADS = Path(__file__).parents[2] / "workloads"
TRUNCATE = str(WORKLOADS / "config-truncate.ops")
SAFE = str(WORKLOADS / "config-safe.ops")


def shown(capsys: pytest.CaptureFixture[str], status: int, *words: object) -> str:
    assert main(["crash", *(str(word) for word in words)]) == status
    return capsys.readouterr().out


def test_a_broken_expectation_is_told_beside_kept_guarantees(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = shown(capsys, 1, TRUNCATE, "--fs", "jffs2")
    assert "expect cfg old-or-new (line 6): broken at " in text
    assert "`cfg` is cut short (" in text or "`cfg` is empty: " in text
    assert "line 10 (`write`)" in text
    assert "    the first: --only " in text
    assert "only the file system's contract was tested" not in text
    # The column of expectations stands beside that of violations, which are none.
    rows = [line for line in text.splitlines() if line.strip().startswith(("nothing", "prefix"))]
    assert rows
    assert all("none" in row and ("cut-short" in row or "empty" in row) for row in rows)


def test_the_first_cut_of_a_sentence_breaks_it_again(capsys: pytest.CaptureFixture[str]) -> None:
    found = nl.crash(TRUNCATE, fs="jffs2")
    for group in found.answer["expectations"][0]["groups"]:
        first = group["first"]
        alone = nl.crash(TRUNCATE, fs="jffs2", only=first["cut_point"], torn=(first["torn"],))
        (line,) = alone.answer["expectations"]
        assert (line["failed"], line["cuts"]) == (1, 1)
        assert line["failures"][0]["symptom"] == first["symptom"]
        assert alone.sentences[0].startswith("at 1 of 1 cut `cfg` ")


def test_kept_expectations_and_scripts_without_any(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    text = shown(capsys, 0, SAFE, "--fs", "ubifs")
    assert "expect cfg old-or-new (line 6): kept at " in text
    plain = tmp_path / "plain.ops"
    plain.write_text("put a 644 9000 4096 x 1 fsync\n", encoding="utf-8")
    text = shown(capsys, 0, plain, "--fs", "jffs2")
    assert text.count("No `expect` line: only the file system's contract was tested.") == 1
    assert "expectations" not in text


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ({"cuts": 0}, "expect cfg whole (line 3): no cut came behind it"),
        ({"cuts": 1}, "expect cfg whole (line 3): kept at 1 cut"),
        ({"cuts": 2000}, "expect cfg whole (line 3): kept at 2,000 cuts"),
        ({"cuts": 9, "failed": 2}, "expect cfg whole (line 3): broken at 2 of 9 cuts"),
        (
            {"cuts": 1, "failed": 1, "expectations": 3},
            "expect cfg whole and 2 more of its passes (line 3): broken at 1 of 1 cut",
        ),
    ],
)
def test_the_sentence_of_a_line(line: dict[str, Any], sentence: str) -> None:
    place = {"line": 3, "column": 1, "passes": ""}
    whole = {
        "expectation": "expect cfg whole",
        "line": place,
        "expectations": 1,
        "failed": 0,
    } | line
    assert expectation_sentence(whole) == sentence


def test_every_broken_cut_is_a_row(tmp_path: Path) -> None:
    table, whole = tmp_path / "rows.csv", tmp_path / "all.json"
    found = nl.crash(TRUNCATE, fs="yaffs2", out=table)
    (line,) = found.answer["expectations"]
    assert len(found.violations) == 0
    assert len(found.broken_expectations) == line["failed"] > 0
    rows = list(csv.DictReader(io.StringIO(table.read_text(encoding="utf-8"))))
    assert len(rows) == line["failed"]
    assert {row["kind"] for row in rows} == {
        f"expectation-{one['symptom']}" for one in line["failures"]
    }
    assert rows[0]["expected"] == "expect cfg old-or-new (line 6)"
    assert rows[0]["line"] in {"9", "10"}
    nl.crash(TRUNCATE, fs="yaffs2", out=whole)
    groups = json.loads(whole.read_text(encoding="utf-8"))["expectations"][0]["groups"]
    assert sum(group["cuts"] for group in groups) == line["failed"]
    assert [group["sentence"] for group in groups] == list(found.sentences)


def test_one_cut_is_shown_and_its_chip_is_an_image(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (line,) = nl.crash(TRUNCATE, fs="jffs2").answer["expectations"]
    first = line["failures"][0]
    cut, torn = first["cut_point"], first["torn"]
    dump = tmp_path / "cut.oob"
    asked = (TRUNCATE, "--fs", "jffs2", "--show", cut, "--dump", cut, dump, "--torn", torn)
    text = shown(capsys, 1, *asked)
    assert f"cut point {cut} (" in text
    assert "before: line " in text
    (row,) = (line for line in text.splitlines() if line.strip().startswith("cfg "))
    assert "6000 bytes, " in row
    assert row.rstrip().endswith("neither")
    assert dump.stat().st_size == 64 * 64 * 2112
    # What the image shows is what the cut was found to leave.
    assert main(["image", "ls", str(dump), "--output-format", "tsv"]) == 0
    listed = capsys.readouterr().out
    size = first["found"].removesuffix(" bytes")
    assert any("cfg" in one and f"\t{size}\t" in one for one in listed.splitlines()), listed


def test_cuts_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    with pytest.raises(NandlabError, match="--only 1, --show 2: give the same cut point"):
        nl.crash(TRUNCATE, fs="jffs2", only=1, show=2)
    with pytest.raises(NandlabError, match="--dump: a medium has one state; give --torn once"):
        nl.crash(TRUNCATE, fs="jffs2", dump=(1, tmp_path / "x"), torn=("nothing", "prefix"))
    with pytest.raises(NandlabError, match="--only: there is no cut point 99999"):
        nl.crash(TRUNCATE, fs="jffs2", show=99999)


def test_lines_about_expectations_cost_nothing_in_a_script() -> None:
    text = Path(SAFE).read_text(encoding="utf-8")
    bare = "".join(
        line
        for line in text.splitlines(keepends=True)
        if not line.strip().startswith(("expect", "ack"))
    )
    assert bare != text
    assert nl.script(bare, fs="ubifs").rows == nl.script(text, fs="ubifs").rows
