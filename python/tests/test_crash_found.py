"""Failing scripts that were found: each is cut again as its first line says, and shows the same."""

import os
from pathlib import Path

import pytest

from nandlab.crash_files import HEAD_LINES, command, digest_of, file_text, read_file, shown_again
from nandlab.errors import NandlabError

FOUND = Path(os.environ.get("NANDLAB_CRASH_FOUND", Path(__file__).with_name("crash_found")))
FILES = sorted(FOUND.glob("*.ops"))
SCRIPT = """\
put cfg 644 6000 4096 t 1 fsync
sync
expect cfg old-or-new
truncate cfg 0
write cfg 0 6000 4096 t 2 fsync
"""
OPTIONS = {"fs": "ubifs", "blocks": 32, "pages_per_block": 16}


def test_there_are_scripts_in_a_folder_that_is_named() -> None:
    assert FILES or "NANDLAB_CRASH_FOUND" not in os.environ, f"{FOUND}: no file ends in .ops"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_script_that_was_found_shows_the_same_again(path: Path) -> None:
    assert shown_again(path) is None


def _written(folder: Path) -> Path:
    import nandlab

    source = folder / "failing.ops"
    source.write_text(SCRIPT, encoding="utf-8")
    found = nandlab.crash(source, **OPTIONS, minimise=folder / "small.ops")
    assert found.answer["minimised"]["lines"] < SCRIPT.count("\n")
    return folder / "small.ops"


def test_a_minimised_script_is_cut_again_and_a_changed_one_is_noticed(tmp_path: Path) -> None:
    path = _written(tmp_path)
    text = path.read_text(encoding="utf-8")
    options, digest = read_file(path)
    assert OPTIONS.items() <= options.items()
    assert {"only", "torn"} <= options.keys()
    assert shown_again(path) is None
    path.write_text(text.replace(digest, "0" * 16), encoding="utf-8")
    assert shown_again(path) == f"{path}: digest {digest} in place of {'0' * 16}"
    whole = "\n".join(text.splitlines()[:HEAD_LINES]) + "\nput cfg 644 1 1 t 1 fsync\nsync\nsync\n"
    path.write_text(whole.replace(f"--only {options['only']}", "--only 0"), encoding="utf-8")
    assert shown_again(path) == f"{path}: nothing fails any more"


def test_a_command_names_the_place_and_the_cut(tmp_path: Path) -> None:
    failure = {"cut_point": 3, "torn": "prefix", "then": "0:nothing 1:prefix", "shown": "lost: a"}
    told = command("a b.ops", {**OPTIONS, "seed": 7, "every": 2, "profile": None}, failure)
    cut = "--only 3 --torn prefix --then 0:nothing --then 1:prefix"
    place = "--fs ubifs --blocks 32 --pages-per-block 16 --seed 7"
    assert told == f"nandlab crash 'a b.ops' {place} {cut}"
    path = tmp_path / "x.ops"
    path.write_text(file_text(told, "lost:\na", "0123456789abcdef", "sync\n"), encoding="utf-8")
    assert path.read_text(encoding="utf-8").count("\n") == HEAD_LINES + 1
    options, digest = read_file(path)
    assert digest == "0123456789abcdef"
    assert options["then"] == ["0:nothing", "1:prefix"]
    whole = {"cut_point": None, "torn": "", "then": "", "shown": ""}
    assert "--only" not in command("x.ops", OPTIONS, whole)
    path.write_text("sync\n", encoding="utf-8")
    with pytest.raises(NandlabError, match="the first lines of a failing script begin with"):
        read_file(path)
    assert digest_of([{"a": 1, "b": 2}]) == digest_of([{"b": 2, "a": 1}]) != digest_of([])
