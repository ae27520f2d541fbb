"""`nandlab crash-search`, and `nandlab crash` with recoveries and the smallest script."""

import json
from pathlib import Path

import pytest

import nandlab
from nandlab.cli import main

SMALL = ("--fs", "ubifs", "--blocks", "48", "--pages-per-block", "16")
FAILING = """\
put cfg 644 6000 4096 t 1 fsync
mkdir d 755
sync
expect cfg old-or-new
put d/other 644 9000 4096 x 2
truncate cfg 0
write cfg 0 6000 4096 t 2 fsync
"""


def _answer(capsys: pytest.CaptureFixture[str], *words: object) -> dict[str, object]:
    assert main([*(str(word) for word in words), "--json"]) == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)["result"]
    return found


def test_a_search_is_repeated_by_its_seed_and_its_runs(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    corpus = tmp_path / "corpus"
    search = ("crash-search", *SMALL, "--runs", 6)
    one = _answer(capsys, *search, "--jobs", 1, "--corpus", corpus)
    two = _answer(capsys, *search, "--jobs", 2)
    other = _answer(capsys, *search, "--seed", 2)
    assert one["digest"] == two["digest"] != other["digest"]
    assert isinstance(one["counts"], dict)
    assert len(list(corpus.glob("*.ops"))) == one["counts"]["kept"] > 0


def test_a_time_ends_a_search_and_tells_the_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["crash-search", *SMALL, "--max-total-time", "1s"]) == 0
    out = capsys.readouterr().out
    runs = int(out.split("--runs ")[1].split(" ")[0])
    digest = out.split("digest: ")[1].split("\n")[0]
    assert runs > 0
    assert _answer(capsys, "crash-search", *SMALL, "--runs", runs)["digest"] == digest
    with pytest.raises(nandlab.NandlabError, match="write it as 90s, 30m or 8h"):
        nandlab.crash_search(fs="ubifs", max_total_time="soon")


def test_the_smallest_script_has_its_command_and_nothing_is_written_if_nothing_fails(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    script, small = tmp_path / "a.ops", tmp_path / "small.ops"
    script.write_text(FAILING, encoding="utf-8")
    assert main(["crash", str(script), *SMALL, "--minimise", str(small)]) == 1
    out = capsys.readouterr().out
    text = small.read_text(encoding="utf-8")
    assert text.splitlines()[0][2:] in out
    assert "d/other" not in text
    assert "expect cfg old-or-new" in text
    script.write_text("put a 644 9000 4096 x 1 fsync\n", encoding="utf-8")
    small.unlink()
    assert main(["crash", str(script), *SMALL, "--minimise", str(small)]) == 0
    assert f"--minimise: nothing fails, so {small} was not written" in capsys.readouterr().err
    assert not small.exists()


def test_a_cut_of_a_recovery_is_made_alone(tmp_path: Path) -> None:
    script = "put a 644 9000 4096 x 1 fsync\nput b 644 9000 4096 x 2\nsync\n"
    place = {"fs": "ubifs", "blocks": 48, "pages_per_block": 16}
    plain = nandlab.crash(script, **place)
    deep = nandlab.crash(script, **place, recoveries=1, every=3)
    assert sum(torn["recovery_cuts"] for torn in plain.answer["torn"]) == 0
    assert sum(torn["recovery_cuts"] for torn in deep.answer["torn"]) > deep.cuts
    cut = {"only": plain.answer["operations"] - 1, "torn": ["prefix"]}
    one = nandlab.crash(script, **place, **cut, then=["0:prefix", "0:nothing"])
    assert one.answer["torn"][0]["recovery_cuts"] in (1, 2)
    with pytest.raises(nandlab.NandlabError, match="give --only and one --torn"):
        nandlab.crash(script, **place, then=["0:prefix"])
    with pytest.raises(nandlab.NandlabError, match="is no cut of a recovery"):
        nandlab.crash(script, **place, **cut, then=["prefix"])
