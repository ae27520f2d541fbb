"""Names of files in images: as they are, with escapes where they cannot be shown."""

import json
import os
from pathlib import Path

import pytest

from nandlab.api.names import json_row, name_bytes, shown_name, shown_text
from nandlab.cli import main

BACKSLASH = "\\"


@pytest.mark.parametrize(
    ("escaped", "name", "shown"),
    [
        ("a%20b", b"a b", "a b"),
        ("100%25", b"100%", "100%"),
        ("%C3%A9t%C3%A9", "été".encode(), "été"),
        ("été", "été".encode(), "été"),
        ("two%0Alines%09", b"two\nlines\t", "two\\nlines\\t"),
        ("bell%07%1B%7F", b"bell\a\x1b\x7f", "bell\\a\\033\\177"),
        ("bad%FF%C3", b"bad\xff\xc3", "bad\\377\\303"),
        (f"back{BACKSLASH}n", b"back\\n", "back\\\\n"),
        ("%C2%85", "\u0085".encode(), "\\302\\205"),
    ],
)
def test_a_name_is_shown_as_it_is(escaped: str, name: bytes, shown: str) -> None:
    assert name_bytes(escaped) == name
    assert shown_name(escaped) == shown


def test_names_in_sentences_are_shown_as_they_are() -> None:
    assert shown_text("/a%20b: `%C3%A9` in directory 3, 5 % used") == (
        "/a b: `é` in directory 3, 5 % used"
    )


def test_json_has_valid_utf_8_and_says_where_it_is_escaped() -> None:
    row = {"path": "a%20b%0A", "target": None, "size": 1}
    assert json_row(row) == {"path": "a b\n", "target": None, "size": 1}
    wrong = json_row({"path": "x%5Cy%FF", "target": "ok%20", "xattrs": {"user.a%20": "00"}})
    assert wrong == {
        "path": "x\\\\y\\xff",
        "target": "ok ",
        "xattrs": {"user.a ": "00"},
        "is_escaped": True,
    }


@pytest.fixture
def image(tmp_path: Path) -> str:
    tree = tmp_path / "tree"
    tree.mkdir()
    for name in (b"a b", b"50%", b"two\nlines", b"bad\xff", "été".encode()):
        (Path(os.fsdecode(os.fsencode(tree) + b"/" + name))).write_text("x")
    (tree / "link").symlink_to("a b")
    made = str(tmp_path / "made.jffs2")
    assert main(["image", "make", made, "--fs", "jffs2", "--from", str(tree)]) == 0
    return made


@pytest.mark.usefixtures("engine_is_built")
def test_ls_prints_names_as_they_are(image: str, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["image", "ls", image]) == 0
    lines = capsys.readouterr().out.splitlines()
    names = {line.split(":", 2)[2][3:] for line in lines}
    assert names == {".", "a b", "50%", "two\\nlines", "bad\\377", "été", "link -> a b"}
    assert main(["image", "ls", "--escape", image]) == 0
    escaped = capsys.readouterr().out.split()
    for name in ("a%20b", "50%25", "two%0Alines", "bad%FF", "été"):
        assert name in escaped


@pytest.mark.usefixtures("engine_is_built")
def test_json_of_ls_is_valid_and_whole(image: str, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["image", "ls", "--json", image]) == 0
    out = capsys.readouterr().out
    out.encode("utf-8")
    rows = {row["path"]: row for row in json.loads(out)["result"]}
    assert set(rows) == {".", "a b", "50%", "two\nlines", "bad\\xff", "été", "link"}
    assert rows["link"]["target"] == "a b"
    assert [name for name, row in rows.items() if row.get("is_escaped")] == ["bad\\xff"]
    assert main(["image", "ls", "--json", "--escape", image]) == 0
    assert "a%20b" in {row["path"] for row in json.loads(capsys.readouterr().out)["result"]}


@pytest.mark.usefixtures("engine_is_built")
def test_what_a_killed_extraction_left_is_replaced_with_a_message(
    image: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    left = tmp_path / "out.unfinished" / "tree"
    left.mkdir(parents=True)
    (left / "half").write_text("written")
    capsys.readouterr()
    assert main(["image", "extract", image, str(tmp_path / "out")]) == 0
    assert "out.unfinished: an interrupted extraction had left it" in capsys.readouterr().err
    assert (tmp_path / "out" / "a b").read_text() == "x"
    assert not (tmp_path / "out" / "half").exists()
    assert not (tmp_path / "out.unfinished").exists()


@pytest.mark.usefixtures("engine_is_built")
def test_a_folder_of_the_user_that_is_called_unfinished_is_left_alone(
    image: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "out.unfinished").mkdir()
    (tmp_path / "out.unfinished" / "letter").write_text("to finish")
    assert main(["image", "extract", image, str(tmp_path / "out")]) == 2
    assert "out.unfinished" in capsys.readouterr().err
    assert (tmp_path / "out.unfinished" / "letter").read_text() == "to finish"
