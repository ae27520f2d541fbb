"""`scripts/sentences.py`: what counts as a sentence, and that the documents are easy to read."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import sentences  # noqa: E402

PAGE = """\
# A heading of several words is left out

First sentence here. Second one, on Linux 6.12
and two lines! Third?

| a table | is left out |
|---|---|
| with. Its | rows. Too |

- An item without a mark
- An item. With two sentences,
  and a line that goes on

  a paragraph within the list

    indented code. Is left out after text

```sh
fenced code. Is left out
```

![An image. Is left out](image.png)

<!-- A comment.
Is left out. -->
Last line.
"""


def texts(markdown: str) -> list[str]:
    return [sentence.text for sentence in sentences.sentences(markdown)]


def test_sentences_of_prose_and_lists_alone() -> None:
    assert texts(PAGE)[:6] == [
        "First sentence here.",
        "Second one, on Linux 6.12 and two lines!",
        "Third?",
        "An item without a mark",
        "An item.",
        "With two sentences, and a line that goes on",
    ]
    assert texts(PAGE)[-1] == "Last line."
    assert not any("left out" in text for text in texts(PAGE)[:-2])


def test_indented_code_outside_of_a_list_is_left_out() -> None:
    assert texts("Text.\n\n    code here\n\n    more code\n\nMore text.\n") == [
        "Text.",
        "More text.",
    ]


def test_a_sentence_knows_its_line() -> None:
    found = {sentence.text: sentence.line for sentence in sentences.sentences(PAGE)}
    assert found["Third?"] == 3
    assert found["An item."] == 11
    assert found["Last line."] == 26


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("One two three.", 3),
        ("A [link of four words](target.md) counts.", 6),
        ("`nandlab list ftls` is one word.", 4),
        ("Signs – and + do not count.", 5),
        ("**Bold** and *italic* words.", 4),
    ],
)
def test_words(text: str, words: int) -> None:
    (sentence,) = sentences.sentences(text)
    assert sentence.words == words


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("It ends. It begins.", 2),
        ("It ends. `code` begins.", 2),
        ("It ends (here.) It begins.", 2),
        ("It ends. kyber begins. *tied* does, too.", 3),
        ("All are equal. The rest is not.", 2),
        ("It goes on … and on.", 1),
        ("Written by A. Author in 2013.", 1),
        ("By Cai et al. 2012, e.g. on Linux 6.12.", 1),
        ("A file.md and 6.12 are no ends.", 1),
    ],
)
def test_where_a_sentence_ends(text: str, count: int) -> None:
    assert len(texts(text)) == count


def test_the_share_counts_sentences_up_to_the_limit() -> None:
    just, more = " ".join(["Word"] * 25) + ".", " ".join(["Word"] * 26) + "."
    assert sentences.share_percent(sentences.sentences(f"{just} {more}")) == 50
    assert sentences.share_percent([]) == 100


def test_the_exit_status_and_the_longest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    long = " ".join(["Word"] * 30) + "."
    page.write_text(f"{long}\n\n" + "Short. " * 18)
    assert sentences.main([str(page)]) == 1
    assert f"{page}:1: 30 words" in capsys.readouterr().out
    page.write_text(f"{long}\n\n" + "Short. " * 19)
    assert sentences.main([str(page)]) == 0
    assert "95.0 %" in capsys.readouterr().out
    assert sentences.main([str(tmp_path / "missing.md")]) == 2
    assert "missing.md" in capsys.readouterr().err


def test_the_documents_are_easy_to_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert sentences.main([]) == 0, capsys.readouterr().out
