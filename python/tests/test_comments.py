"""`scripts/comments.py`: what counts as a comment that says why, and where the count stops."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import comments  # noqa: E402

LIB = """\
//! Doc of the crate.

/// Doc of a function. // still a doc comment
pub fn add(left: u32, right: u32) -> u32 {
    // Saturates: the sum is a count of pages,
    // and a count does not wrap.
    assert!(left < 9, "no // comment");
    debug_assert_eq!(right, right);
    let text = "// a string, /* not a comment";
    let raw = r#"
// a line of a raw string
"#;
    let _ = (text, raw, '"', '\\'', 'x'); // at the end of a line
    // ------
    /* a block, /* nested */ // and nothing else */
    let life: &'static str = "'";
    left.saturating_add(right)
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod more {
    // A comment of a test.
    #[test]
    fn adds() {
        assert_eq!(super::add(1, 2), 3);
    }
}

// After the tests.
const LAST: u32 = 1;
"""


def crate(root: Path, name: str, lib: str) -> None:
    source = root / "crates" / name / "src"
    source.mkdir(parents=True)
    (root / "crates" / name / "Cargo.toml").write_text("[package]\n")
    (source / "lib.rs").write_text(lib)


def test_code_strings_and_comments_are_counted_apart(tmp_path: Path) -> None:
    crate(tmp_path, "one", LIB)
    (tmp_path / "crates/one/src/tests.rs").write_text("// A test.\nfn no() {}\n")
    count = comments.count_crate(tmp_path / "crates/one")
    assert count.code == 12
    assert count.why == 3
    assert count.doc == 2
    assert count.assertions == 2
    texts = [comment.text for comment in count.comments]
    assert texts == [
        "Saturates: the sum is a count of pages,\nand a count does not wrap.",
        "After the tests.",
    ]
    assert [comment.line for comment in count.comments] == [5, 32]


def test_modules_for_tests_are_left_out_with_what_is_below_them(tmp_path: Path) -> None:
    crate(tmp_path, "one", '#[cfg(test)]\n#[path = "other.rs"]\nmod tests;\nmod kept;\n')
    source = tmp_path / "crates/one/src"
    (source / "other.rs").write_text("// Left out.\nfn left_out() {}\n")
    (source / "kept.rs").write_text("#[cfg(test)]\nmod deep;\n\n// Kept.\nfn kept() {}\n")
    (source / "kept").mkdir()
    (source / "kept/deep.rs").write_text("// Left out.\nfn left_out() {}\n")
    (source / "kept/deep").mkdir()
    (source / "kept/deep/below.rs").write_text("// Left out.\nfn left_out() {}\n")
    count = comments.count_crate(tmp_path / "crates/one")
    assert [comment.text for comment in count.comments] == ["Kept."]
    assert count.code == 2


def test_a_crate_with_too_few_comments_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    crate(tmp_path, "rich", LIB)
    crate(tmp_path, "poor", "fn poor() {}\n")
    assert comments.main([], root=tmp_path, held=("rich",)) == 0
    assert comments.main([], root=tmp_path, held=("poor", "rich", "gone")) == 1
    said = capsys.readouterr().err.splitlines()
    assert [line.split(":")[0] for line in said] == ["poor", "gone"]


def test_a_seed_draws_the_same_sample(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = "\n".join(f"// Reason {number}.\nconst C{number}: u8 = 0;\n" for number in range(40))
    crate(tmp_path, "one", lines)
    outputs = []
    for seed in ("1", "1", "2"):
        assert comments.main(["--sample", "5", "--seed", seed], root=tmp_path, held=()) == 0
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1] != outputs[2]
    assert outputs[0].count("crates/one/src/lib.rs:") == 5
    assert comments.main(["--sample", "99"], root=tmp_path, held=()) == 0
    assert capsys.readouterr().out.count("Reason") == 40


def test_held_crates_say_why(capsys: pytest.CaptureFixture[str]) -> None:
    status = comments.main([])
    assert (status, capsys.readouterr().err) == (0, "")


def test_crates_that_are_held_exist() -> None:
    names = {path.parent.name for path in (ROOT / "crates").rglob("Cargo.toml")}
    assert set(comments.HELD) <= names
    assert list(comments.HELD) == sorted(comments.HELD)
